package openai

import (
	"bytes"
	"encoding/json"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

var testShape = dialect.ChatShape("svc", []string{"other"}, testDrops)

// chatOf reads a request body as routes does.
func chatOf(t testing.TB, body string) *dialect.Chat {
	t.Helper()
	c := &dialect.Chat{Body: []byte(body), Doc: &scan.Document{}, Choices: 1}
	if err := c.Doc.Skim(c.Body, testShape); err != nil {
		t.Fatal(err)
	}
	c.Stream = c.True(c.Doc.TopIndex(dialect.ChatStream))
	c.Model = modelOf("m")
	return c
}

func embedOf(t testing.TB, body string) *dialect.Chat {
	t.Helper()
	c := &dialect.Chat{Body: []byte(body), Doc: &scan.Document{}, Choices: 1, Embedding: true, Model: modelOf("m")}
	if err := c.Doc.Skim(c.Body, dialect.EmbedShape()); err != nil {
		t.Fatal(err)
	}
	return c
}

func newDoc() *scan.Document { return &scan.Document{} }

func modelOf(id string) *dialect.Model {
	return &dialect.Model{ID: id, Config: &config.Model{ID: id}, Tokenizer: "o200k_base",
		Chat: &config.Chat{MaxCompletionTokens: 1000}, ImageTokens: 1600}
}

// targetOf serves a model under a name of its own.
func targetOf(m *dialect.Model, name string, quirks config.Quirks) *dialect.Target {
	return &dialect.Target{
		Upstream: &dialect.Upstream{Name: "u", Config: &config.Upstream{Quirks: quirks}, Dialect: Dialect{}},
		Model:    m, Name: name, Quoted: jsontext.AppendString(nil, name),
		Renames: name != m.ID, QuotedID: jsontext.AppendString(nil, m.ID), Weight: 1,
	}
}

// sent is the body that goes out.
func sent(t testing.TB, c *dialect.Chat, target *dialect.Target) string {
	t.Helper()
	var r proxy.Request
	var s dialect.Scratch
	if err := (Dialect{}).Request(&r, c, target, &s); err != nil {
		t.Fatal(err)
	}
	at := 0
	for i, p := range r.Patches {
		if p.From < at || p.To < p.From || p.To > len(r.Body) {
			t.Fatalf("patch %d of %+v is out of order", i, r.Patches)
		}
		at = p.To
	}
	out := proxy.AppendPatched(nil, r.Body, r.Patches)
	if !json.Valid(out) {
		t.Fatalf("the patched body is not JSON: %s", out)
	}
	return string(out)
}

// run gives a stream its input in pieces that end at the given offsets.
func run(s dialect.Stream, input string, complete bool, cuts ...int) string {
	var out bytes.Buffer
	from := 0
	for _, cut := range append(cuts, len(input)) {
		// The proxy's buffer is overwritten by its next read.
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

// promptTokens is the count of prompt: 3 and 1 for the message, 1 for hi, 3 for the reply.
const promptTokens = 8

// chunk is a plain event with a text.
func chunk(content string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":"` +
		content + `"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
}

const (
	roleChunk   = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	finishChunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}` + "\n\n"
	done        = "data: [DONE]\n\n"
	plainUsage  = `{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":5,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":3,"audio_tokens":0}}`
	usageChunk  = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[],"usage":` + plainUsage + "}\n\n"
)

// answer is a whole answer of one choice with more members behind it.
func answer(content, more string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		content + `","refusal":null},"logprobs":null,"finish_reason":"stop"}]` + more + `}`
}

// contentOf joins the texts of a stream's events.
func contentOf(t testing.TB, stream string) string {
	t.Helper()
	var text string
	for _, event := range bytes.Split([]byte(stream), []byte("\n\n")) {
		data, ok := bytes.CutPrefix(event, []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var v struct {
			Choices []struct {
				Delta struct{ Content string }
			}
		}
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		for _, c := range v.Choices {
			text += c.Delta.Content
		}
	}
	return text
}

func messageOf(t testing.TB, body string) string {
	t.Helper()
	var v struct {
		Choices []struct {
			Message struct{ Content string }
		}
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v.Choices[0].Message.Content
}

var configQuirks config.Quirks

// usageEvent is the event with the usage that a client is charged for.
func usageEvent(u dialect.Usage) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[],"usage":` + string(dialect.AppendUsage(nil, &u)) + "}\n\n"
}

// testDrops are the members that some target of these tests is not sent.
var testDrops = []string{"best_of", "dataSources", "service_tier"}
