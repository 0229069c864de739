package config

import (
	"reflect"
	"strings"
	"testing"
)

// The comments of full.yaml are those of the fields. A key gets its comment at the first line that
// it begins. Its values, all other comments and the head of the file are written by hand.

func (docs fieldDocs) annotate(t *testing.T, data []byte) []byte {
	t.Helper()
	src, r := newSource("full.yaml", data)
	root := parseTree(src, r)
	if err := r.err(); err != nil {
		t.Fatal(err)
	}
	a := &annotator{docs: docs, lines: src.lines, seen: map[reflect.Type]map[string]bool{}, at: map[int]string{}}
	a.group(root, reflect.TypeFor[Config]())
	eachGroup(func(typ reflect.Type) {
		for _, k := range groupOf(typ).keys {
			if k.name != "" && !a.seen[typ][k.name] {
				t.Errorf("full.yaml shows no key %s of %s on a line of its own", k.name, typ.Name())
			}
		}
	})
	return []byte(a.write())
}

type annotator struct {
	docs  fieldDocs
	lines []string
	seen  map[reflect.Type]map[string]bool
	at    map[int]string // comments by the line of their keys, from 0
}

func (a *annotator) value(n *node, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.kind == sequenceNode && t.Kind() == reflect.Slice:
		for _, item := range n.items {
			a.value(item, t.Elem())
		}
	case n.kind == mappingNode && t.Kind() == reflect.Map:
		for _, k := range n.pairs {
			a.value(k.value, t.Elem())
		}
	case n.kind == mappingNode && isGroup(t):
		a.group(n, t)
	}
}

func (a *annotator) group(n *node, t reflect.Type) {
	owners := []reflect.Type{t}
	if t == reflect.TypeFor[Model]() {
		typ := kinds[0].name
		for _, k := range n.pairs {
			if k.name == "type" {
				typ = k.value.text
			}
		}
		k, _ := kindOf(typ)
		owners = append(owners, reflect.TypeOf(k.spec()).Elem())
	}
	for _, p := range n.pairs {
		for _, owner := range owners {
			k := groupOf(owner).byName[p.name]
			if k == nil {
				continue
			}
			if !p.merged && strings.Trim(a.lines[p.at.line-1][:p.at.column-1], " -") == "" && !a.seen[owner][k.name] {
				if a.seen[owner] == nil {
					a.seen[owner] = map[string]bool{}
				}
				a.seen[owner][k.name] = true
				a.at[p.at.line-1] = a.docs.describe(owner, k).sentence(owner, k)
			}
			a.value(p.value, owner.Field(k.index).Type)
		}
	}
}

const (
	commentColumn = 30  // where comments behind short lines begin
	widestLine    = 120 // of a line with its comment
	widestComment = 100 // of comments above their key
)

// write puts the comments after their keys, or above them if they are long.
func (a *annotator) write() string {
	var out []string
	for i, line := range a.lines {
		text, ok := a.at[i]
		if !ok {
			out = append(out, line)
			continue
		}
		for len(out) > 0 && strings.HasPrefix(strings.TrimSpace(out[len(out)-1]), "#") {
			out = out[:len(out)-1]
		}
		line = withoutComment(line)
		if behind := pad(line, commentColumn) + " # " + text; len([]rune(behind)) <= widestLine {
			out = append(out, behind)
			continue
		}
		before := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " ")))
		for _, part := range wrapped(text, widestComment-len(before)) {
			out = append(out, before+"# "+part)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func pad(s string, to int) string { return s + strings.Repeat(" ", max(0, to-len([]rune(s)))) }

// withoutComment removes the comment after a line's value.
func withoutComment(line string) string {
	quote := byte(0)
	for i := range len(line) {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#' && i > 0 && line[i-1] == ' ':
			return strings.TrimRight(line[:i], " ")
		}
	}
	return strings.TrimRight(line, " ")
}

func wrapped(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
