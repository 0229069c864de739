// Package messages_test has anthropic-sdk-go read farebox's translation of chat completions for clients of Messages.
package messages_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy/scan"
)

var chatShape = dialect.ChatShape("svc", nil, nil)

// read returns the chat of a client's body.
func read(t testing.TB, body string) (*messages.Form, string, []dialect.Unsupported) {
	t.Helper()
	doc := &scan.Document{}
	if err := doc.SkimStrict([]byte(body), messages.Shape); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	f, chat, wrong := messages.Read([]byte(body), doc, false)
	if !json.Valid(chat) {
		t.Fatalf("%s becomes %s", body, chat)
	}
	return f, string(chat), wrong
}

// asked is the Chat of a client's body.
func asked(t testing.TB, body string) (*messages.Form, *dialect.Chat) {
	t.Helper()
	f, chat, wrong := read(t, body)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	c := chatOf(t, chat)
	c.Form, c.Brand = f, "svc"
	return f, c
}

// wholeAnswer is a completion in a form.
func wholeAnswer(f *messages.Form, completion string, c *dialect.Chat) ([]byte, error) {
	var said dialect.Completion
	if !said.Read([]byte(completion), "svc") {
		return nil, errors.New("not a chat completion")
	}
	return f.Answer(&said, c)
}

func chatOf(t testing.TB, body string) *dialect.Chat {
	t.Helper()
	c := &dialect.Chat{Body: []byte(body), Doc: &scan.Document{}, Choices: 1}
	if err := c.Doc.SkimStrict(c.Body, chatShape); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	c.Stream = c.True(c.Doc.TopIndex(dialect.ChatStream))
	c.Model = &dialect.Model{ID: "m", Config: &config.Model{ID: "m"}, Tokenizer: "o200k_base",
		Chat: &config.Chat{MaxCompletionTokens: 100_000}, ImageTokens: 1600}
	return c
}

// same compares JSON, whatever the order of members.
func same(t testing.TB, got, want string) {
	t.Helper()
	if g, w := normal(t, got), normal(t, want); g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
}

func normal(t testing.TB, text string) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

const hello = `{"model":"m","max_tokens":9000,"messages":[{"role":"user","content":"hi"}]}`

// thinking asks for thoughts.
const thinking = `"thinking":{"type":"adaptive"}`

// with puts members into a request.
func with(members string) string { return hello[:len(hello)-1] + "," + members + "}" }

// talk is a request with these messages.
func talk(messages string) string {
	return `{"model":"m","max_tokens":9000,"messages":[` + messages + `]}`
}
