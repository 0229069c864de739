// Package anthropic_test sends requests and answers through both directions, Messages to chat completions and back;
// anthropic-sdk-go reads the events.
package anthropic_test

import (
	"encoding/json"
	"testing"

	"farebox/config"
	"farebox/providers/chat/anthropic"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

var testShape = dialect.ChatShape("svc", nil, nil)

func chatOf(t testing.TB, body string) *dialect.Chat {
	t.Helper()
	c := &dialect.Chat{Body: []byte(body), Doc: &scan.Document{}, Choices: 1}
	if err := c.Doc.Skim(c.Body, testShape); err != nil {
		t.Fatal(err)
	}
	c.Stream = c.True(c.Doc.TopIndex(dialect.ChatStream))
	c.Model = &dialect.Model{ID: "m", Config: &config.Model{ID: "m"}, Tokenizer: "o200k_base",
		Chat: &config.Chat{MaxCompletionTokens: 1000}}
	return c
}

func newDoc() *scan.Document { return &scan.Document{} }

func target(c *dialect.Chat) *dialect.Target {
	return &dialect.Target{Upstream: &dialect.Upstream{Config: &config.Upstream{}}, Model: c.Model, Name: "claude",
		Quoted: []byte(`"claude"`), Renames: true, QuotedID: []byte(`"m"`)}
}

func sent(t testing.TB, c *dialect.Chat) (string, error) {
	t.Helper()
	var r proxy.Request
	var s dialect.Scratch
	if err := (anthropic.Dialect{}).Request(&r, c, target(c), &s); err != nil {
		return "", err
	}
	if !json.Valid(r.Body) || len(r.Patches) > 0 || string(r.Path) != "/messages" {
		t.Fatalf("%s: %s", r.Path, r.Body)
	}
	return string(r.Body), nil
}

const ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n"

func event(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }
