package anthropic

import (
	"bytes"
	"fmt"
	"strconv"

	"farebox/providers/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

var messagesPath = []byte("/messages")

const (
	acceptJSON   = "application/json"
	acceptStream = "text/event-stream"
	// usualMaxTokens is sent when neither client nor catalog name a cap, which
	// this dialect demands.
	usualMaxTokens = 4096
)

// Request writes the body anew. What the dialect does not have is left out:
// penalties, seed, logprobs, n, metadata but for user_id.
func (Dialect) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	w := &request{c: c, doc: c.Doc, body: c.Body, b: s.Buf[:0]}
	w.write(t)
	s.Buf = w.b
	if w.err != nil {
		return w.err
	}
	r.Path, r.Body, r.Patches, r.Accept = messagesPath, w.b, r.Patches[:0], acceptJSON
	if c.Stream {
		r.Accept = acceptStream
	}
	return nil
}

// request is one body being written.
type request struct {
	c    *dialect.Chat
	doc  *scan.Document
	body []byte
	b    []byte
	err  error

	// Turns (turns.go).
	role    string // of the blocks to come, empty: they stand outside of turns
	open    string // role of the open turn, empty: none is open
	blocks  int    // in the open turn
	turns   int
	scratch []byte
}

func (w *request) write(t *dialect.Target) {
	w.b = append(w.b, `{"model":`...)
	w.b = append(w.b, t.Quoted...)
	w.b = append(w.b, `,"max_tokens":`...)
	w.b = strconv.AppendInt(w.b, w.maxTokens(), 10)
	if w.c.Stream {
		w.b = append(w.b, `,"stream":true`...)
	}
	w.system()
	w.messages()
	w.tools()
	w.sampling()
	w.stop()
	w.output()
	w.metadata()
	w.b = append(w.b, '}')
}

func (w *request) maxTokens() int64 {
	switch m := w.c.Model; {
	case w.c.MaxCompletion > 0:
		return w.c.MaxCompletion
	case w.c.AskedCompletion > 0:
		return w.c.AskedCompletion
	case m != nil && m.Config.MaxCompletionTokens > 0:
		return m.Config.MaxCompletionTokens
	}
	return usualMaxTokens
}

// sampling copies what the dialect has; its temperature ends at 1.
func (w *request) sampling() {
	if raw := w.number(dialect.ChatTemperature); raw != nil {
		if v, err := strconv.ParseFloat(string(raw), 64); err == nil && v > 1 {
			raw = []byte("1")
		}
		w.member("temperature", raw)
	}
	w.member("top_p", w.number(dialect.ChatTopP))
	w.member("top_k", w.number(dialect.ChatTopK))
}

func (w *request) number(id int) []byte {
	i := w.doc.TopIndex(id)
	if i < 0 || w.doc.Fields[i].Kind != scan.Number {
		return nil
	}
	return w.c.Raw(i)
}

// member appends a member of the top object; nil leaves it out.
func (w *request) member(name string, raw []byte) {
	if raw != nil {
		w.b = append(append(append(w.b, `,"`...), name...), `":`...)
		w.b = append(w.b, raw...)
	}
}

func (w *request) stop() {
	i := w.doc.TopIndex(dialect.ChatStop)
	if i < 0 {
		return
	}
	raw := w.c.Raw(i)
	switch w.doc.Fields[i].Kind {
	case scan.String:
		w.b = append(append(append(w.b, `,"stop_sequences":[`...), raw...), ']')
	case scan.Array:
		w.member("stop_sequences", raw)
	}
}

// output is the reasoning effort and the answer's schema.
func (w *request) output() {
	effort := w.c.Effort()
	if string(effort) == "none" {
		w.b = append(w.b, `,"thinking":{"type":"disabled"}`...)
		effort = nil
	}
	if string(effort) == "minimal" {
		effort = []byte("low")
	}
	schema := w.schema()
	if effort == nil && schema == nil {
		return
	}
	w.b = append(w.b, `,"output_config":{`...)
	if effort != nil {
		w.b = append(append(append(w.b, `"effort":"`...), effort...), '"')
	}
	if schema != nil {
		if effort != nil {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, `"format":{"type":"json_schema","schema":`...)
		w.b = append(append(w.b, schema...), '}')
	}
	w.b = append(w.b, '}')
}

// schema is the JSON schema of response_format. Some clients put it under
// json_schema itself (addendum, D7).
func (w *request) schema() []byte {
	i := w.doc.TopIndex(dialect.ChatResponseFormat)
	if i < 0 || string(w.c.Text(w.doc.Member(i, dialect.FormatType))) != "json_schema" {
		return nil
	}
	holder := w.doc.Member(i, dialect.FormatSchema)
	if holder < 0 || w.doc.Fields[holder].Kind != scan.Object {
		return nil
	}
	if at := w.doc.Member(holder, dialect.SchemaSchema); at >= 0 && w.doc.Fields[at].Kind == scan.Object {
		return w.c.Raw(at)
	}
	return w.c.Raw(holder)
}

// tools copies function tools; built-in searches are not this dialect's.
func (w *request) tools() {
	i := w.doc.TopIndex(dialect.ChatTools)
	if i < 0 || w.doc.Fields[i].Kind != scan.Array {
		return
	}
	n := 0
	for at := i + 1; at < w.doc.Fields[i].Next; at = w.doc.Fields[at].Next {
		f := w.doc.Member(at, dialect.ToolTarget)
		if f < 0 || w.c.Text(w.doc.Member(f, dialect.FunctionName)) == nil {
			continue
		}
		if n == 0 {
			w.b = append(w.b, `,"tools":[`...)
		} else {
			w.b = append(w.b, ',')
		}
		n++
		w.tool(f)
	}
	if n > 0 {
		w.b = append(w.b, ']')
		w.toolChoice()
	}
}

func (w *request) tool(f int32) {
	w.b = append(w.b, `{"name":`...)
	w.b = append(w.b, w.c.Raw(w.doc.Member(f, dialect.FunctionName))...)
	w.member("description", w.c.Raw(w.doc.Member(f, dialect.FunctionDescription)))
	if p := w.doc.Member(f, dialect.FunctionParameters); p >= 0 && w.doc.Fields[p].Kind == scan.Object && w.doc.Fields[p].Len > 0 {
		w.member("input_schema", w.c.Raw(p))
	} else {
		w.b = append(w.b, `,"input_schema":{"type":"object","properties":{}}`...)
	}
	if w.c.True(w.doc.Member(f, dialect.FunctionStrict)) {
		w.b = append(w.b, `,"strict":true`...)
	}
	w.b = append(w.b, '}')
}

func (w *request) toolChoice() {
	kind, name := w.chosen()
	single := w.doc.TopIndex(dialect.ChatParallelToolCalls)
	one := single >= 0 && w.doc.Fields[single].Kind == scan.False
	if kind == "" {
		if !one {
			return
		}
		kind = "auto"
	}
	w.b = append(append(append(w.b, `,"tool_choice":{"type":"`...), kind...), '"')
	if name != nil {
		w.b = append(append(w.b, `,"name":`...), name...)
	}
	if one && kind != "none" {
		w.b = append(w.b, `,"disable_parallel_tool_use":true`...)
	}
	w.b = append(w.b, '}')
}

// chosen is the dialect's kind of tool choice, and the name of the one tool.
func (w *request) chosen() (kind string, name []byte) {
	i := w.doc.TopIndex(dialect.ChatToolChoice)
	if i < 0 {
		return "", nil
	}
	text := w.c.Text(i)
	if w.doc.Fields[i].Kind == scan.Object {
		text = w.c.Text(w.doc.Member(i, dialect.ChoiceType))
		if f := w.doc.Member(i, dialect.ChoiceTarget); f >= 0 {
			if name := w.c.Raw(w.doc.Member(f, dialect.ChoiceName)); name != nil {
				return "tool", name
			}
		}
	}
	switch string(text) {
	case "auto", "none":
		return string(text), nil
	case "required":
		return "any", nil
	}
	return "", nil
}

func (w *request) metadata() {
	i := w.doc.TopIndex(dialect.ChatMetadata)
	if i < 0 || w.doc.Fields[i].Kind != scan.Object {
		return
	}
	raw := w.c.Raw(i)
	var m dialect.Member
	for at, ok := dialect.NextMember(raw, 1, &m); ok; at, ok = dialect.NextMember(raw, at, &m) {
		if string(m.Key) == "user_id" && raw[m.From] == '"' {
			w.b = append(append(append(w.b, `,"metadata":{"user_id":`...), raw[m.From:m.To]...), '}')
			return
		}
	}
}

// fail keeps the first reason why the request cannot be written.
func (w *request) fail(format string, args ...any) {
	if w.err == nil {
		w.err = &dialect.Unsupported{Text: fmt.Sprintf(format, args...)}
	}
}

var backslash = []byte(`\`)

func plain(text []byte) bool { return !bytes.Contains(text, backslash) }
