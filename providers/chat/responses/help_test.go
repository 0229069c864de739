package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

const testID = "0123456789abcdef0123456789abcdef"

var (
	sdk      = &Options{Brand: "svc", Aliases: []string{"other"}, Extras: true}
	spec     = &Options{Brand: "svc", Aliases: []string{"other"}, Spec: true}
	plain    = &Options{Brand: "svc", Aliases: []string{"other"}}
	ownShape = Shape("svc", []string{"other"})
	chatBook = dialect.ChatShape("svc", []string{"other"}, []string{"service_tier"})
)

// formOf reads a body as routes does.
func formOf(t testing.TB, o *Options, body string) *Form {
	t.Helper()
	doc := &scan.Document{}
	if err := doc.SkimStrict([]byte(body), ownShape); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	f := NewForm(o, []byte(body), doc, []byte(testID), 1_700_000_000)
	f.Check()
	return f
}

// chatOf is the chat that a form's body became.
func chatOf(t testing.TB, f *Form) *dialect.Chat {
	t.Helper()
	c := &dialect.Chat{Body: f.Request(), Doc: &scan.Document{}, Choices: 1, Form: f, Told: f.body, ToldDoc: f.doc, Brand: "svc"}
	if err := c.Doc.SkimStrict(c.Body, chatBook); err != nil {
		t.Fatalf("the chat body cannot be read: %v\n%s", err, c.Body)
	}
	c.Stream = c.True(c.Doc.TopIndex(dialect.ChatStream))
	c.Model = &dialect.Model{ID: "m", Config: &config.Model{ID: "m"}, Tokenizer: "o200k_base",
		Chat: &config.Chat{MaxCompletionTokens: 1000}, ImageTokens: 1600}
	return c
}

// same fails unless two texts are the same JSON.
func same(t testing.TB, what, got, want string) {
	t.Helper()
	if a, b := compact(t, got), compact(t, want); a != b {
		t.Errorf("%s\n got %s\nwant %s", what, a, b)
	}
}

func compact(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, text)
	}
	return b.String()
}

// delta is a chunk with a delta.
func delta(members string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,` +
		`"delta":{` + members + `},"logprobs":null,"finish_reason":null}]}` + "\n\n"
}

func finish(reason string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,` +
		`"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n"
}

const (
	usageChunk = `data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,` +
		`"total_tokens":14,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":2}}}` +
		"\n\n"
	done = "data: [DONE]\n\n"
)

const request = `{"model":"m","input":"Hi","stream":true,"tools":[{"type":"function","name":"f","parameters":null}]}`

// events are the events of a stream's chunks, in pieces that end at the given offsets.
func events(t testing.TB, o *Options, body, chunks string, cuts ...int) string {
	t.Helper()
	f := formOf(t, o, body)
	defer f.Release()
	s := dialect.OpenForm(chatOf(t, f))
	defer s.Release()
	var out strings.Builder
	from := 0
	for _, cut := range append(cuts, len(chunks)) {
		piece := []byte(chunks[from:cut])
		out.Write(s.Pass(piece))
		for i := range piece {
			piece[i] = 'x' // the proxy's buffer is overwritten by its next read
		}
		from = cut
	}
	out.Write(s.Finish())
	return out.String()
}

// timeless is a text without the time at which the response was completed.
func timeless(text string) string {
	before, after, ok := strings.Cut(text, `"completed_at":1`)
	if !ok {
		return text
	}
	_, after, _ = strings.Cut(after, ",")
	return before + `"completed_at":0,` + after
}

// answered is the response that a completion becomes.
func answered(t testing.TB, o *Options, body, completion string) string {
	t.Helper()
	f := formOf(t, o, body)
	defer f.Release()
	out, err := wholeAnswer(f, completion, chatOf(t, f))
	if err != nil {
		t.Fatalf("%v: %s", err, completion)
	}
	return string(out)
}

// wholeAnswer is a completion in a form.
func wholeAnswer(f *Form, completion string, c *dialect.Chat) ([]byte, error) {
	var said dialect.Completion
	if !said.Read([]byte(completion), c.Brand) {
		return nil, errors.New("not a chat completion")
	}
	return f.Answer(&said, c)
}

func completion(message, finish string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{` +
		`"role":"assistant",` + message + `},"logprobs":null,"finish_reason":"` + finish + `"}],"usage":{"prompt_tokens":9,` +
		`"completion_tokens":5,"total_tokens":14}}`
}

const searched = `"svc_parameters":{"enable_web_search":"on","web_search_citations":[{"title":"T","url":"https://x",` +
	`"content":"c"},{"title":"U","url":"https://y"}]}`
