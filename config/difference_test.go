package config

import (
	"fmt"
	"strings"
	"testing"
)

const differenceText = `
listen: 127.0.0.1:%d
upstreams:
  - { name: a, base_url: "https://api.example.com/v1", key: %s, headers: { X-Thing: %s } }
models:
  - id: m
    context_tokens: 8192
    price: { input: %s, output: 2 }
    targets: [{ upstream: a, weight: %d }]
%s
`

// Prices come first, then the keys that need a restart. There are no secrets.
func TestDifferencesShowPricesFirstAndNoSecret(t *testing.T) {
	read := func(args ...any) *Config {
		t.Helper()
		c, err := Parse("f", []byte(fmt.Sprintf(differenceText, args...)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	more := "  - { id: n, context_tokens: 8192, price: { input: 3, output: 4 }, targets: [{ upstream: a }] }"
	old := read(8080, "old-secret-1", "old-secret-2", "1", 1, "")
	next := read(8081, "new-secret-1", "new-secret-2", "1.25", 3, more)
	d := Differences(old, next)
	want := `price m input: 1 -> 1.25 (+25.00 %)
price n input: (none) -> 3
price n output: (none) -> 4
restart needed listen: 127.0.0.1:8080 -> 127.0.0.1:8081
models[m].targets[a].weight: 1 -> 3
models[n]: (none) -> added
upstreams[a].headers.X-Thing: ******** -> ********
upstreams[a].key: ******** -> ********
`
	if d.String() != want {
		t.Errorf("got\n%s\nwant\n%s", d, want)
	}
	if strings.Contains(fmt.Sprintf("%+v", d), "secret-") {
		t.Errorf("a secret is in %+v", d)
	}
	if same := Differences(old, old); same.String() != "no difference\n" {
		t.Errorf("a config differs from itself: %s", same)
	}
	if back := Differences(next, old); len(back.Prices) != 3 || *back.Prices[0].Percent != -20 || back.Other[1].New != "removed" {
		t.Errorf("back: %s", back)
	}
}

// The answer is short, however many keys differ.
func TestDifferencesAreBounded(t *testing.T) {
	text := "upstreams:\n  - { name: a, base_url: \"https://api.example.com/v1\" }\nmodels:\n"
	for i := range 700 {
		text += fmt.Sprintf("  - { id: m%d, context_tokens: 8192, price: { input: %%[1]d, output: 2 }, targets: [{ upstream: a }] }\n", i)
	}
	read := func(price int) *Config {
		c, err := Parse("f", []byte(fmt.Sprintf(text, price)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if d := Differences(read(1), read(2)); len(d.Prices) != mostDifferences || d.More != 700-mostDifferences {
		t.Errorf("%d prices and %d more", len(d.Prices), d.More)
	}
}
