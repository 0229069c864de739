package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
)

// Malicious files must be refused in moderate time, with a reason.
func TestHostileFilesAreRefusedInTime(t *testing.T) {
	servers.NoRace(t)
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 8), c-1)
	}
	merges := "upstreams:\n  - &a\n    name: main\n"
	for i := range 500 {
		merges += fmt.Sprintf("    k%d: 1\n", i)
	}
	merges += strings.Repeat("  - <<: *a\n", 500)
	models := "models:\n  - &m\n    id: chat\n" + strings.Repeat("  - *m\n", 50_000)
	for name, text := range map[string]string{
		"alias bomb":         bomb,
		"merge bomb":         merges,
		"aliased models":     models,
		"alias of itself":    "log: &a { x: *a }\n",
		"merge of itself":    "log: &a\n  <<: *a\n",
		"open brackets":      strings.Repeat("[", 100_000),
		"open braces":        strings.Repeat("{a: ", 100_000),
		"list in list":       strings.Repeat("- ", 100_000) + "a",
		"key in key":         strings.Repeat("? ", 100_000) + "a",
		"anchors":            strings.Repeat("&a ", 100_000) + "a",
		"tags":               strings.Repeat("!a ", 100_000) + "a",
		"colons":             strings.Repeat("a: ", 100_000),
		"too large":          strings.Repeat("#", maxFile+1),
		"one long line":      "brand: " + strings.Repeat("x", maxFile-100),
		"too many tokens":    strings.Repeat("- {a: 1, b: [1,2,3]}\n", 50_000),
		"thousand mistakes":  "log:\n" + manyKeys(1_500),
		"too many keys":      manyKeys(130_000),
		"too many of a kind": strings.Repeat("a:\n- b\n", 90_000),
		"too many in braces": "log: {" + strings.Repeat("a: 1, ", 90_000) + "}\n",
		"UTF-16":             "\xff\xfeb\x00r\x00",
		"escape sequences":   "brand: \"a\x1b[2J\"\n",
		"hidden escapes":     "brand: \"\\e[2J\\u009b2J\"\n",
		"percent signs":      "brand: \"%s%d%n\"\n",
		"huge number":        "server: { max_connections: " + strings.Repeat("9", 10_000) + " }\n",
		"huge duration":      "server: { read_timeout: 99999999999h }\n",
		"huge size":          "server: { max_body: 9999999999GB }\n",
		"document separator": "---\n---\n---\n",
	} {
		start := time.Now()
		got := refused(t, text)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s took %v", name, took)
		}
		if len(got) > 200_000 {
			t.Errorf("%s: the report has %d bytes", name, len(got))
		}
		if strings.ContainsAny(got, "\x1b\u009b\x00") {
			t.Errorf("%s: the report would steer the terminal", name)
		}
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  k%d: 1\n", i)
	}
	return b.String()
}

// FuzzParse: no input panics, and accepted configs keep the promises that other packages
// rely on without a check of their own.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"examples/full.yaml", "testdata/anchors.good.yaml", "testdata/many_at_once.bad.yaml",
		"demo.yaml"} {
		f.Add(readSeed(f, name))
	}
	for _, text := range []string{
		"model_list: []\n", "[models]\na = 1\n", "server {\n}\n", "KEY=sk-1\n", "x.com {\n}\n", "\xff\xfea", "upstreams: [{ models: [] }]\n",
		"upstreams: [{ name: a, base_url: \"https://api.openai.com/v1\" }]\nmodels: [{ id: openai/m, context_tokens: 128, targets: [{ " +
			"upstream: a }], price: { input: 2.5e-06, output: 1 } }]\n",
		"upstreams: [{ name: a, base_url: \"http://x.com\", key: \"${UPSTREAM_KEY}\" }]\nmodels:\n- { id: m, context_tokens: 128, targets: [{ " +
			"upstream: a }], price: { input: 2, output: 1, cache_read: 0 } }\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("fuzz.yaml", data, testEnv)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v and error %v", c != nil, err)
		}
		if err != nil {
			p, ok := err.(*Problems)
			if !ok || len(p.List) == 0 || len(p.List) > maxProblems {
				t.Fatalf("not a list of problems: %v", err)
			}
			for _, one := range p.List {
				if one.Line < 1 || one.Column < 1 || one.Message == "" {
					t.Fatalf("a problem without a place: %+v", one)
				}
			}
			if strings.Contains(p.Error(), "sk-from-the-environment") {
				t.Fatal("a secret of the environment is shown")
			}
			return
		}
		for _, one := range c.Warnings {
			if one.Line < 1 || one.Column < 1 || one.Message == "" || !one.Warning || strings.Contains(one.String(), "sk-from-the-environment") {
				t.Fatalf("a warning without a place, or with a secret: %+v", one)
			}
		}
		if len(c.Upstreams) == 0 || len(c.Models) == 0 {
			t.Fatal("accepted without upstreams or models")
		}
		for _, m := range c.Models {
			_, tier := c.Limits.Tiers[m.Tier]
			if m.ID == "" || len(m.Targets) == 0 || !tier {
				t.Fatalf("accepted a model that cannot be served: %+v", m)
			}
			p := &Price{Free: true}
			switch spec := m.Spec.(type) {
			case *Image:
				for _, choice := range spec.Constraints.combinations() {
					each, ok := spec.Price.Base(choice[0], choice[1])
					if each < 0 || !spec.Price.Free && !ok && m.Type != "upscale" {
						t.Fatalf("accepted %s without a price for %q: %+v", m.Type, choice, spec.Price)
					}
				}
			case *Chat:
				if p = spec.Price; spec.MaxCompletionTokens < 1 {
					t.Fatalf("accepted a model that cannot write: %+v", spec)
				}
			case *Embedding:
				p = spec.Price
			}
			if p == nil || p.Input < 0 || p.Output < 0 || (!p.Free && p.Input == 0 && p.Output == 0) {
				t.Fatalf("accepted a price that charges nothing: %+v", p)
			}
		}
	})
}

func readSeed(f *testing.F, name string) []byte {
	f.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	return data
}
