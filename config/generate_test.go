package config

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// `go generate ./config` writes the pages that are made of the tags and comments of the
// fields. Edit the fields, never these files; in full.yaml edit values only.

var generate = flag.Bool("generate", false, "write schema.json.gz, REFERENCE.md and the comments of examples/full.yaml")

// A page that differs from the fields describes a config that no longer works.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	docs := readDocs(t)
	full := read(t, "examples/full.yaml")
	for name, made := range map[string][]byte{
		"schema.json.gz":     pack(t, docs.schema()),
		"REFERENCE.md":       docs.reference(),
		"examples/full.yaml": docs.annotate(t, full),
	} {
		if *generate {
			if err := os.WriteFile(name, made, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have := read(t, name)
		if name == "schema.json.gz" { // the compression may differ from one Go to the next
			have, made = unpack(t, have), unpack(t, made)
		}
		if !bytes.Equal(have, made) {
			t.Errorf("%s differs from the fields: run go generate ./config\n%s", name, firstDifference(have, made))
		}
	}
}

func firstDifference(have, made []byte) string {
	a, b := strings.Split(string(have), "\n"), strings.Split(string(made), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d has  %s\nit should be %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("it has %d lines and should have %d", len(a), len(b))
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func pack(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unpack(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// fieldDocs has the comments of the fields of this package, by type and field.
type fieldDocs map[string]map[string]string

func readDocs(t *testing.T) fieldDocs {
	t.Helper()
	docs, files := fieldDocs{}, token.NewFileSet()
	for _, name := range sources(t) {
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				typ, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if s, ok := typ.Type.(*ast.StructType); ok {
					docs[typ.Name.Name] = map[string]string{}
					for _, f := range s.Fields.List {
						for _, name := range f.Names {
							docs[typ.Name.Name][name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
						}
					}
				}
			}
		}
	}
	return docs
}

func sources(t *testing.T) (list []string) {
	for _, name := range files(t, "*.go") {
		if !strings.HasSuffix(name, "_test.go") {
			list = append(list, name)
		}
	}
	return list
}

// described is the description of a key in the pages.
type described struct {
	meaning, kind, initial, bounds string
	restart                        bool
}

// dialectLists replaces @ and a member of dialect, or a kind of job, by the names of the dialects that have it.
var dialectLists = strings.NewReplacer(
	"@writes", strings.Join(dialectsThat(func(d *dialect) bool { return d.writes }), ", "),
	"@draws", strings.Join(dialectsThat(func(d *dialect) bool { return d.draws }), ", "),
	"@speaks", strings.Join(dialectsThat(func(d *dialect) bool { return d.speaks }), ", "),
	"@hears", strings.Join(dialectsThat(func(d *dialect) bool { return d.hears }), ", "),
	"@music", strings.Join(MusicKind.dialects, ", "), "@video", strings.Join(VideoKind.dialects, ", "),
)

// describe reads the comment and the tags of a key.
func (docs fieldDocs) describe(owner reflect.Type, k *key) described {
	f := owner.Field(k.index)
	d := described{meaning: dialectLists.Replace(docs[owner.Name()][f.Name]), kind: kindName(f.Type), restart: k.restart != ""}
	d.initial = f.Tag.Get("default") + f.Tag.Get("zero")
	switch {
	case f.Type.Kind() == reflect.Bool && d.initial == "":
		d.initial = "false"
	case f.Type.Kind() == reflect.Slice && d.initial != "":
		d.initial = "[" + strings.Join(strings.Fields(d.initial), ", ") + "]"
	}
	switch of := f.Tag.Get("range"); {
	case of != "":
		off := ""
		if k.rule.blank {
			off = "0 or "
		}
		d.bounds = off + strings.Replace(strings.TrimSuffix(strings.TrimPrefix(of, "0|"), "|0"), "..", " to ", 1)
	case k.rule != nil:
		d.bounds = choice(k.rule.words)
	case owner == reflect.TypeFor[Model]() && k.name == "type":
		d.bounds = choice(ModelTypes())
	case k.most > 0:
		d.bounds = fmt.Sprintf("at most %d", k.most)
	}
	return d
}

// sentence returns a description for a comment.
func (d described) sentence(owner reflect.Type, k *key) string {
	bounds := d.bounds
	if k.rule != nil && k.rule.words != nil && allNamed(d.meaning, k.rule.words) {
		bounds = ""
	}
	var parts []string
	if d.initial != "" {
		parts = append(parts, "default "+d.initial)
	}
	if k.rule != nil && k.rule.words != nil && bounds != "" || owner == reflect.TypeFor[Model]() && k.name == "type" {
		bounds = map[bool]string{false: "one of ", true: "some of "}[owner.Field(k.index).Type.Kind() == reflect.Slice] + bounds
	}
	if bounds != "" {
		parts = append(parts, bounds)
	}
	text := d.meaning
	if len(parts) > 0 {
		last := strings.Join(parts, "; ")
		text += " " + strings.ToUpper(last[:1]) + last[1:] + "."
	}
	if d.restart {
		text += " (restart)"
	}
	return text
}

func allNamed(text string, words []string) bool {
	for _, w := range words {
		if !regexp.MustCompile(`(^|[^A-Za-z0-9_-])` + regexp.QuoteMeta(w) + `($|[^A-Za-z0-9_-])`).MatchString(text) {
			return false
		}
	}
	return true
}

// kindName is the name of a value's type for operators.
func kindName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[time.Time]():
		return "date"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[Nano](), reflect.TypeFor[Each](), reflect.TypeFor[Pico]():
		return "USD"
	case reflect.TypeFor[Decimal]():
		return "decimal"
	case reflect.TypeFor[Secret]():
		return "secret"
	case reflect.TypeFor[ChainID]():
		return "chain id"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Slice:
		return "list of " + plural(kindName(t.Elem()))
	case reflect.Map:
		return plural(kindName(t.Elem())) + " by name"
	case reflect.Struct:
		return "group"
	}
	return "text"
}

func plural(kind string) string {
	switch kind {
	case "text", "USD":
		return kind
	}
	return kind + "s"
}

// Every key has a comment in plain form: a sentence that begins with a capital or a key.
func TestEveryKeyHasAComment(t *testing.T) {
	docs := readDocs(t)
	eachGroup(func(typ reflect.Type) {
		for _, k := range groupOf(typ).keys {
			if k.name == "" {
				continue
			}
			switch d := docs.describe(typ, k); {
			case len(d.meaning) < 5:
				t.Errorf("%s.%s has no comment", typ.Name(), k.name)
			case strings.Contains(d.meaning, "`"):
				t.Errorf("%s.%s: no marks in comments: %s", typ.Name(), k.name, d.meaning)
			}
		}
	})
}
