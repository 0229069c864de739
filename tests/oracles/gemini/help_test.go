// Package gemini_test has genai read farebox's translation of chat completions for Google, and the answers back.
package gemini_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/gemini"
	"farebox/proxy"
	"farebox/proxy/scan"
)

var testShape = dialect.ChatShape("svc", nil, nil)

func chatOf(t testing.TB, body string) *dialect.Chat {
	t.Helper()
	c := &dialect.Chat{Body: []byte(body), Doc: &scan.Document{}, Choices: 1}
	if err := c.Doc.Skim(c.Body, testShape); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	c.Stream = c.True(c.Doc.TopIndex(dialect.ChatStream))
	c.Model = &dialect.Model{ID: "m", Config: &config.Model{ID: "m"}, Tokenizer: "o200k_base",
		Chat: &config.Chat{MaxCompletionTokens: 1000}}
	return c
}

func targetOf(c *dialect.Chat, name string) *dialect.Target {
	return &dialect.Target{Upstream: &dialect.Upstream{Config: &config.Upstream{}}, Model: c.Model, Name: name,
		Quoted: []byte(`"` + name + `"`), Renames: true, QuotedID: []byte(`"m"`)}
}

const newer = "gemini-3-flash-preview"

// sent is the body that goes to a model.
func sent(t testing.TB, c *dialect.Chat, name string) (string, error) {
	t.Helper()
	var r proxy.Request
	var s dialect.Scratch
	if err := (gemini.Dialect{}).Request(&r, c, targetOf(c, name), &s); err != nil {
		return "", err
	}
	if !json.Valid(r.Body) || len(r.Patches) > 0 || !strings.HasPrefix(string(r.Path), "/models/"+name+":") {
		t.Fatalf("%s: %s", r.Path, r.Body)
	}
	return string(r.Body), nil
}

func run(s dialect.Stream, input string, complete bool, cuts ...int) string {
	var out bytes.Buffer
	from := 0
	for _, cut := range append(cuts, len(input)) {
		piece := []byte(input[from:cut])
		out.Write(s.Pass(piece))
		for i := range piece {
			piece[i] = '#'
		}
		from = cut
	}
	out.Write(s.Finish(complete))
	return out.String()
}

const prompt = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`

// event is one event of the dialect: an answer with the new content.
func event(data string) string { return "data: " + data + "\r\n\r\n" }

const (
	tail   = `"modelVersion": "gemini-there","responseId": "r1"}`
	usage1 = `"usageMetadata": {"promptTokenCount": 18,"totalTokenCount": 18,"cachedContentTokenCount": 5},`
	usage2 = `"usageMetadata": {"promptTokenCount": 15,"toolUsePromptTokenCount": 3,"candidatesTokenCount": 5,"totalTokenCount": 27,"cachedContentTokenCount": 5,"thoughtsTokenCount": 4},`
)

func parts(list string) string {
	return event(`{"candidates": [{"content": {"parts": [` + list + `],"role": "model"},"index": 0}],` + usage1 + tail)
}

func last(reason, list string) string {
	content := ""
	if list != "" {
		content = `"content": {"parts": [` + list + `],"role": "model"},`
	}
	return event(`{"candidates": [{` + content + `"finishReason": "` + reason + `","index": 0}],` + usage2 + tail)
}

// translated is the client's side of a stream.
func translated(t testing.TB, input string, cuts ...int) string {
	c := chatOf(t, prompt)
	s := gemini.Dialect{}.Stream(c, targetOf(c, newer))
	defer s.Release()
	return run(s, input, true, cuts...)
}
