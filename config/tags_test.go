package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// eachGroup visits every group of a config, with all types of models, each once.
func eachGroup(visit func(t reflect.Type)) {
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if !isGroup(t) || seen[t] {
			return
		}
		seen[t] = true
		visit(t)
		for _, k := range groupOf(t).keys {
			if k.name != "" {
				walk(t.Field(k.index).Type)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
	for _, k := range kinds {
		walk(reflect.TypeOf(k.spec()))
	}
}

// A default outside of its own range would be refused only if a config spells it out.
func TestDefaultsKeepTheirOwnRules(t *testing.T) {
	groups, rules := 0, 0
	eachGroup(func(typ reflect.Type) {
		groups++
		for _, k := range groupOf(typ).keys {
			if k.rule == nil {
				continue
			}
			if rules++; !k.initial.IsValid() {
				continue
			}
			values := []reflect.Value{k.initial}
			if k.initial.Kind() == reflect.Slice {
				values = nil
				for i := range k.initial.Len() {
					values = append(values, k.initial.Index(i))
				}
			}
			for _, v := range values {
				if k.rule.breaks(v) {
					t.Errorf("%s.%s: the default %v breaks its rule", typ.Name(), k.name, v)
				}
			}
		}
	})
	if groups < 60 || rules < 150 {
		t.Errorf("only %d groups with %d rules", groups, rules)
	}
}

// Two configs must not share a list: a reload would change the running one.
func TestDefaultsAreNotShared(t *testing.T) {
	a, b := Default[Scrape](), Default[Scrape]()
	a.Ports[0] = 1
	c, d := Default[Config](), Default[Config]()
	*c.Compat.Messages = false
	c.TEE.Accept[0] = "OutOfDate"
	if b.Ports[0] != 80 || !*d.Compat.Messages || d.TEE.Accept[0] != "UpToDate" {
		t.Errorf("a default changed with another one: %v %v %v", b.Ports, *d.Compat.Messages, d.TEE.Accept)
	}
}

// Nothing, 0 or an empty list at a key with the tag zero means its default.
func TestEmptyValuesMeanTheirDefault(t *testing.T) {
	c := parse(t, strings.Replace(fmt.Sprintf(base, ""), "    context_tokens: 8192\n    price: { input: 1, output: 2 }\n",
		"    type: tts\n    default_voice: Alloy\n    supported_formats: []\n    input_characters: 0\n    price: { input: 1 }\n", 1))
	s := c.Models[0].Spec.(*Speech)
	if s.InputCharacters != 4096 || s.DefaultFormat != "mp3" || len(s.Formats) != 1 {
		t.Errorf("empty values became %d characters, formats %v", s.InputCharacters, s.Formats)
	}
}

func TestRangesReadTheirBounds(t *testing.T) {
	f := func(typ reflect.Type, tag, expected string, good, bad any) {
		t.Helper()
		r := newRange(typ, tag)
		if r.expected != expected || r.breaks(reflect.ValueOf(good)) || !r.breaks(reflect.ValueOf(bad)) {
			t.Errorf("%s: expected %q, takes %v: %v, takes %v: %v", tag, r.expected, good, !r.breaks(reflect.ValueOf(good)), bad,
				!r.breaks(reflect.ValueOf(bad)))
		}
	}
	f(reflect.TypeFor[int](), "1..64", "1 to 64", 64, 65)
	f(reflect.TypeFor[Size](), "1KB..512MB", "1KB to 512MB", Size(1<<10), Size(1023))
	f(reflect.TypeFor[Size](), "1MB..64GB|0", "1MB to 64GB", Size(0), Size(1))
	f(reflect.TypeFor[time.Duration](), "0|1m..24h", "0 (off) or 1m to 24h", time.Duration(0), time.Second)
	f(reflect.TypeFor[Nano](), "0.000001..1000000", "0.000001 to 1000000 USD", Nano(1000), Nano(999))
	f(reflect.TypeFor[Decimal](), "-2..2", "-2 to 2", Decimal("-2"), Decimal("-2.1"))
}

// A reload that changes a directory would lose the files in the old one.
func TestSingleKeysWaitForARestart(t *testing.T) {
	parser := "augment: { text_parser: { workers: %d, timeout: 30s } }\n"
	old := parse(t, fmt.Sprintf(base, "")+fmt.Sprintf(parser, 2))
	next := parse(t, fmt.Sprintf(base, "")+fmt.Sprintf(parser, 3)+
		"images: { timeout: 6m, unattended: 1 }\nmedia: { dir: /var/lib/media, keep: 48h }\n")
	want := []string{"images.timeout", "augment.text_parser.workers", "media.dir"}
	if got := Fixed(old, next); !reflect.DeepEqual(got, want) {
		t.Errorf("a restart is needed for %v, want %v", got, want)
	}
	next.keepFixed(old)
	if got := Fixed(old, next); len(got) != 0 || next.Media.Keep != 48*time.Hour || next.Images.Unattended != 1 {
		t.Errorf("after keepFixed %v differ, keep %s, unattended %d", got, next.Media.Keep, next.Images.Unattended)
	}
	next.Augment.TextParser = nil // removing a group changes none of its keys
	if got := Fixed(old, next); len(got) != 0 {
		t.Errorf("without the group %v differ", got)
	}
}
