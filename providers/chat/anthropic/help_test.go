package anthropic

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"farebox/config"
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
	if err := (Dialect{}).Request(&r, c, target(c), &s); err != nil {
		return "", err
	}
	if !json.Valid(r.Body) || len(r.Patches) > 0 || string(r.Path) != "/messages" {
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

var (
	created = regexp.MustCompile(`"created":\d+`)
	ownID   = regexp.MustCompile(`"id":"chatcmpl-g[0-9a-z]+"`)
)

// timeless takes the current time out of an answer.
func timeless(s string) string {
	return ownID.ReplaceAllString(created.ReplaceAllString(s, `"created":1`), `"id":"chatcmpl-g"`)
}

const prompt = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`

var target2 = &dialect.Target{Upstream: &dialect.Upstream{Config: &config.Upstream{}}, Name: "claude",
	Quoted: []byte(`"claude"`)}
