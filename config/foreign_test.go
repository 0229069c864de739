package config

import (
	"slices"
	"strings"
	"testing"
)

// A config whose first line looks like another program's is read anyway.
func TestOddFirstLinesAreYAML(t *testing.T) {
	rest := "upstreams: [{ name: main, base_url: \"http://127.0.0.1:8000/v1\" }]\n" +
		"models: [{ id: chat, context_tokens: 8192, price: free, targets: [{ upstream: main }] }]\n"
	flow := strings.ReplaceAll(strings.ReplaceAll(rest, "upstreams", ", \"upstreams\""), "models", ", \"models\"")
	for _, text := range []string{
		"log: {\n  level: info }\n" + rest,
		"limits: { tiers: {\n  own: { rpm: 1 } } }\n" + rest,
		"upstreams: [ {\n  name: main, base_url: \"http://127.0.0.1:8000/v1\" } ]\n" + rest[strings.Index(rest, "models"):],
		"---\n" + rest,
		"# [models]\n\n" + rest,
		"# upstream x {\n" + rest,
		"<<: { log: { level: info } }\n" + rest,
		"system_prompt: a = b\n" + rest,
		"\"brand\": svc\n" + rest,
		"{\n\"brand\": \"svc\"\n" + flow + "}\n",
	} {
		c, err := Parse("farebox.yaml", []byte(text), nil)
		if err != nil {
			t.Errorf("refused: %v\n%s", err, text)
		} else if len(c.Models) != 1 {
			t.Errorf("%d models are read of\n%s", len(c.Models), text)
		}
	}
}

// A price of one token is converted to that of 1,000,000, exactly.
func TestPricesOfOneTokenAreConverted(t *testing.T) {
	for text, want := range map[string]string{
		"0.0000025": "2.5", "2.5e-06": "2.5", "2.5E-6": "2.5", "1e-7": "0.1", "1.5e-05": "15", "0.00000015": "0.15",
		"3e-8": "0.03", "0.000999": "999",
		"0": "", "0.001": "", "1": "", "2.5": "", "1e-3": "", "e-6": "", "1e-": "", "1e-99": "", "-1e-6": "", "10e-1": "", "x": "",
	} {
		if got, ok := ofOne(text); got != want || ok != (want != "") {
			t.Errorf("%s is %q, %v; expected %q", text, got, ok, want)
		}
	}
}

// Hints name keys that exist: a renamed key would mislead people.
func TestHabitsMeanKeysThatExist(t *testing.T) {
	places := keyPlaces()
	seen := map[string]bool{}
	for _, h := range habits {
		for group := range strings.FieldsSeq(h.groups) {
			own := strings.TrimPrefix(group, "/")
			for _, name := range []string{"upstreams", "models", "targets"} {
				own = strings.Replace(own, name, name+"[]", 1)
			}
			for key := range strings.FieldsSeq(h.keys) {
				if seen[group+" "+key] {
					t.Errorf("%s in %s has two habits", key, group)
				}
				seen[group+" "+key] = true
				if slices.Contains(places[key], own) {
					t.Errorf("%s is a key of %s itself", key, group)
				}
			}
			if h.means != "" && !slices.Contains(places[h.means], own) {
				t.Errorf("%s in %s means %s, which is not a key there", h.keys, group, h.means)
			}
		}
		if h.hint == "" && h.of == nil {
			t.Errorf("%s has no hint", h.keys)
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d habits are known", len(seen))
	}
}
