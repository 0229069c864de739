package config

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// REFERENCE.md is a table for each group of keys, in the order of the fields.

const referenceHead = `# Every key of the config

This page is generated from the config's own types; ` + "`go generate ./config`" + ` writes it. [README.md](README.md) explains
the config by example, and [examples/full.yaml](examples/full.yaml) is a file with every key.

- **Size**: bytes, or a whole number with KB, MB or GB (1024-based). **Duration**: 500ms, 30s, 5m, 1h.
- **USD**: a decimal such as 0.10; prices also take the word free.
- **Secret**: text that no message or log shows. Every value may be or contain a reference such as ` + "`${NAME}`" + `.
- **Restart**: with yes, a reload keeps the old value until the next start.

## In your editor

` + "`farebox config schema`" + ` prints these keys as a JSON Schema (draft 2020-12). Save it, and name it in the first line
of your config. Editors with the YAML language server (VS Code, Neovim, JetBrains and others) then complete keys, show
their meaning and mark mistakes:

` + "```sh\nfarebox config schema > farebox.schema.json\n```" + `

<!-- fragment -->
` + "```yaml\n# yaml-language-server: $schema=./farebox.schema.json\nlisten: 127.0.0.1:8080\n```" + `

The schema knows names, types, words and ranges. ` + "`farebox check`" + ` knows all rules, also those between keys.
`

// referencePages writes the reference, group by group.
type referencePages struct {
	docs fieldDocs
	out  bytes.Buffer
	seen map[reflect.Type]string // where a group is described
}

func (docs fieldDocs) reference() []byte {
	p := &referencePages{docs: docs, seen: map[reflect.Type]string{}}
	p.out.WriteString(referenceHead)
	p.section("Top level", "", "", reflect.TypeFor[Config](), false)
	for i, k := range kinds {
		t := reflect.TypeOf(k.spec()).Elem()
		if p.seen[t] != "" {
			continue
		}
		names := []string{k.name}
		for _, other := range kinds[i+1:] {
			if reflect.TypeOf(other.spec()).Elem() == t {
				names = append(names, other.name)
			}
		}
		p.section("models[] of type "+choice(names), "models[]", " of type "+choice(names), t, false)
	}
	return p.out.Bytes()
}

// section writes the keys of a group, then the groups below it, whose titles end with of.
func (p *referencePages) section(title, path, of string, t reflect.Type, restart bool) {
	p.seen[t] = title
	fmt.Fprintf(&p.out, "\n## %s\n\n| Key | Type | Default | Range | Restart | Meaning |\n|---|---|---|---|---|---|\n", title)
	type below struct {
		path    string
		t       reflect.Type
		restart bool
	}
	var groups []below
	for _, k := range groupOf(t).keys {
		if k.name == "" {
			continue
		}
		d := p.docs.describe(t, k)
		one, at := t.Field(k.index).Type, joined(path, k.name)
		for one.Kind() == reflect.Pointer || one.Kind() == reflect.Slice || one.Kind() == reflect.Map {
			switch one.Kind() {
			case reflect.Slice:
				at += "[]"
			case reflect.Map:
				at += ".NAME"
			}
			one = one.Elem()
		}
		if isGroup(one) {
			title := p.seen[one]
			if title == "" {
				groups = append(groups, below{at, one, restart || d.restart})
				title = at + of
				p.seen[one] = title
			}
			d.kind = "[" + d.kind + "](#" + anchor(title) + ")"
		}
		if len(k.only) > 0 {
			d.meaning += " Only for " + choice(k.only) + "."
		}
		initial, again := d.initial, ""
		if initial != "" {
			initial = "`" + initial + "`"
		}
		if d.restart || restart {
			again = "yes"
		}
		fmt.Fprintf(&p.out, "| `%s` | %s | %s | %s | %s | %s |\n", k.name, d.kind, cell(initial), cell(d.bounds), again, cell(d.meaning))
	}
	for _, g := range groups {
		p.section(g.path+of, g.path, of, g.t, g.restart)
	}
}

func joined(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// cell escapes characters that would end a cell of a table or begin a tag.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*.", `\*.`, "_*", `_\*`).Replace(text)
}

// anchor returns GitHub's name of a heading.
func anchor(title string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(title) {
		switch {
		case c == ' ':
			b.WriteRune('-')
		case c == '_' || c == '-' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		}
	}
	return b.String()
}
