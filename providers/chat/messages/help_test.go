package messages

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

var chatShape = dialect.ChatShape("svc", nil, nil)

// read returns the chat of a client's body.
func read(t testing.TB, body string) (*Form, string, []dialect.Unsupported) {
	t.Helper()
	doc := &scan.Document{}
	if err := doc.SkimStrict([]byte(body), Shape); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	f, chat, wrong := Read([]byte(body), doc, false)
	if !json.Valid(chat) {
		t.Fatalf("%s becomes %s", body, chat)
	}
	return f, string(chat), wrong
}

// asked is the Chat of a client's body.
func asked(t testing.TB, body string) (*Form, *dialect.Chat) {
	t.Helper()
	f, chat, wrong := read(t, body)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	c := chatOf(t, chat)
	c.Form, c.Brand = f, "svc"
	return f, c
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

// with puts members into a request.
func with(members string) string { return hello[:len(hello)-1] + "," + members + "}" }

// talk is a request with these messages.
func talk(messages string) string {
	return `{"model":"m","max_tokens":9000,"messages":[` + messages + `]}`
}

// chunk is one of a stream; rest follows its choices.
func chunk(delta, finish, rest string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{` + delta +
		`},"logprobs":null,"finish_reason":` + finish + `}]` + rest + "}\n\n"
}

func chunks(deltas ...string) string {
	var b strings.Builder
	for _, d := range deltas {
		b.WriteString(chunk(d, "null", ""))
	}
	return b.String()
}

const usage = `{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":30,"cache_creation_input_tokens":10},"completion_tokens_details":{"reasoning_tokens":5}}`

const usageLast = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":` + usage + "}\n\n"
