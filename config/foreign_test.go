package config

import (
	"strings"
	"testing"
)

// A config whose first line looks like another program's is read all the same.
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

// Prices of one token are told as prices of 1,000,000, exactly.
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

// Hints name keys that exist: one that was renamed would send people nowhere.
func TestHabitsMeanKeysThatExist(t *testing.T) {
	places := keyPlaces()
	for group, keys := range habits {
		for key, h := range keys {
			own := group
			for _, name := range []string{"upstreams", "models", "targets"} {
				own = strings.Replace(own, name, name+"[]", 1)
			}
			for _, place := range places[key] {
				if place == own {
					t.Errorf("%s is a key of %q itself", key, group)
				}
			}
			if h.means != "" && len(places[h.means]) == 0 {
				t.Errorf("%s below %q means %s, which is no key", key, group, h.means)
			}
			if h.hint == "" {
				t.Errorf("%s below %q has no hint", key, group)
			}
		}
	}
}
