package anthropic

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy"
	"farebox/proxy/jsontext"
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

// Request writes the body anew. Hints that the dialect does not have are left
// out: penalties, seed, metadata but for user_id. What a client would miss in
// the answer (n, logprobs) is refused, and so is whatever the
// model's generation would refuse, in our words and naming the member.
func (Dialect) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	w := &request{c: c, s: s, doc: c.Doc, body: c.Body, b: s.Buf[:0], model: generationOf(t.Name, t.Thinking),
		drops: t.Upstream.Drops}
	w.write(t)
	s.Buf = w.b
	if w.err != nil {
		return w.err
	}
	if err := s.Reread(w.b, messages.Shape); err != nil {
		return err
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
	s    *dialect.Scratch
	doc  *scan.Document
	body []byte
	b    []byte
	err  error

	model generation
	drops []int // ids of members that the operator does not send
	// Thinking of this request (thinking.go).
	think  bool
	forced bool // tool_choice demands a call
	// wantsJSON says that the answer shall be a JSON object of no schema, which the dialect
	// has no word for: it is asked for as one asks a person.
	wantsJSON bool
	cached    int // blocks that are marked for caching

	// Turns (turns.go).
	role    string // of the blocks to come, empty: they stand outside of turns
	open    string // role of the open turn, empty: none is open
	blocks  int    // in the open turn
	turns   int
	last    string // role of the last turn
	scratch []byte

	alone    bool   // there are no messages but system prompts: they are the user's turn
	calls    []call // of the whole conversation
	waiting  int    // calls[waiting:] are those of the last assistant turn
	bare     bool   // the last assistant turn has calls and no thoughts before them
	inResult int    // 0: no result of a tool is being written; else 1 and its blocks so far
	// thoughtFirst says that the last assistant turn begins with a thought, others
	// that the open turn has blocks that are not results.
	thoughtFirst, others bool
	// textFrom and textTo enclose the last block's text; 0: it is not text.
	textFrom, textTo int
}

func (w *request) write(t *dialect.Target) {
	w.b = append(w.b, `{"model":`...)
	w.b = append(w.b, t.Quoted...)
	w.b = append(w.b, `,"max_tokens":`...)
	w.b = strconv.AppendInt(w.b, w.maxTokens(), 10)
	if w.c.Stream {
		w.b = append(w.b, `,"stream":true`...)
	}
	w.refuse()
	w.system()
	w.messages()
	w.tools()
	w.reason()
	w.sampling()
	w.stop()
	w.output()
	w.metadata()
	w.cacheControl(w.top(dialect.ChatCacheControl))
	w.b = append(w.b, '}')
	if w.cached > maxCached {
		w.fail("messages", "At most %d parts, messages and tools together may have cache_control; the request has %d.",
			maxCached, w.cached)
	}
}

// top is the top member with that id; -1 if absent or if the operator
// drops it.
func (w *request) top(id int) int32 {
	if slices.Contains(w.drops, id) {
		return -1
	}
	return w.doc.TopIndex(id)
}

// maxCached is how many marks for caching a request of this dialect may have.
const maxCached = 4

// refuse names members that change what the client gets back and that this
// dialect has no word for.
func (w *request) refuse() {
	const no = "is not available for this model; leave it out."
	if w.c.Choices > 1 {
		w.fail("n", "More than one choice (n) "+no)
	}
	if w.c.True(w.top(dialect.ChatLogprobs)) {
		w.fail("logprobs", "logprobs "+no)
	}
	if raw := w.number(dialect.ChatTopLogprobs); raw != nil && string(raw) != "0" {
		w.fail("top_logprobs", "top_logprobs "+no)
	}
	if i := w.top(dialect.ChatResponseFormat); i >= 0 {
		switch kind := string(w.c.Text(w.doc.Member(i, dialect.FormatType))); {
		case kind == "json_schema" && w.model.noSchema:
			w.fail("response_format", "response_format json_schema "+no)
		case kind == "json_object":
			w.wantsJSON = true
			w.c.LeftOut.Add("response_format")
		}
	}
}

func (w *request) maxTokens() int64 {
	switch m := w.c.Model; {
	case w.c.MaxCompletion > 0:
		return w.c.MaxCompletion
	case w.c.AskedCompletion > 0:
		return w.c.AskedCompletion
	case m != nil && m.Chat.MaxCompletionTokens > 0:
		return m.Chat.MaxCompletionTokens
	}
	return usualMaxTokens
}

// sampling copies what the model takes. Values that say nothing (1, and 0 for
// top_k) are left out where they would be refused.
func (w *request) sampling() {
	temperature, t := w.decimal(dialect.ChatTemperature)
	topP, p := w.decimal(dialect.ChatTopP)
	topK, k := w.decimal(dialect.ChatTopK)
	if t > 1 {
		temperature, t = []byte("1"), 1 // where this dialect's range ends
	}
	if k == 0 {
		topK = nil
	}
	fixed := "cannot be chosen for this model; leave it out."
	if w.think && !w.model.fixedSampling {
		fixed = "cannot be chosen together with reasoning_effort for this model; leave one of the two out."
	}
	if w.think || w.model.fixedSampling {
		if t == 1 {
			temperature = nil
		}
		if p >= 0.95 && !w.model.fixedSampling || p == 1 {
			topP = nil
		}
		for _, m := range [...]struct {
			name string
			raw  []byte
		}{{"temperature", temperature}, {"top_p", topP}, {"top_k", topK}} {
			if m.raw != nil {
				w.fail(m.name, "%s %s", m.name, fixed)
			}
		}
	}
	if w.model.oneSampler && temperature != nil && topP != nil {
		switch {
		case p == 1:
			topP = nil
		case t == 1:
			temperature = nil
		default:
			w.fail("top_p", "top_p and temperature cannot be combined for this model; leave one of the two out.")
		}
	}
	w.member("temperature", temperature)
	w.member("top_p", topP)
	w.member("top_k", topK)
}

// decimal is a top member that is a number, as written and as a value.
func (w *request) decimal(id int) (raw []byte, value float64) {
	if raw = w.number(id); raw == nil {
		return nil, 0
	}
	value, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return nil, 0
	}
	return raw, value
}

func (w *request) number(id int) []byte {
	i := w.top(id)
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

// stop copies stop sequences. The dialect takes none of white space alone.
func (w *request) stop() {
	i := w.top(dialect.ChatStop)
	if i < 0 {
		return
	}
	raw, list := w.c.Raw(i), w.doc.Fields[i].Kind == scan.Array
	if !list && w.doc.Fields[i].Kind != scan.String || list && w.doc.Fields[i].Len == 0 {
		return
	}
	w.b = append(w.b, `,"stop_sequences":[`...)
	if list {
		for one := range jsontext.Elements(raw) {
			w.stopSequence(one)
		}
	} else {
		w.stopSequence(raw)
	}
	w.b = append(w.b, ']')
}

func (w *request) stopSequence(raw []byte) {
	if len(raw) < 2 || raw[0] != '"' || dialect.IsBlank(raw) {
		w.fail("stop", "stop: this model does not accept stop sequences of white space only.")
	}
	w.b = append(jsontext.Comma(w.b), raw...)
}

// schema is the JSON schema of response_format. Some clients put it under
// json_schema itself (addendum, D7).
func (w *request) schema() []byte {
	i := w.top(dialect.ChatResponseFormat)
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

// tools copies function tools.
func (w *request) tools() {
	i := w.top(dialect.ChatTools)
	if i < 0 || w.doc.Fields[i].Kind != scan.Array {
		return
	}
	n := 0
	for at := i + 1; at < w.doc.Fields[i].Next; at = w.doc.Fields[at].Next {
		f := w.doc.Member(at, dialect.ToolTarget)
		name := w.c.Text(w.doc.Member(f, dialect.FunctionName))
		if f < 0 || name == nil {
			w.fail(w.doc.Path(at), "This model takes tools of type function only.")
			continue
		}
		if !dialect.IsToken(name, maxToolName) {
			w.fail(w.doc.Path(at)+".function.name",
				"This model takes tool names of 1 to %d letters, digits, _ and - only.", maxToolName)
		}
		if n == 0 {
			w.b = append(w.b, `,"tools":[`...)
		} else {
			w.b = append(w.b, ',')
		}
		n++
		w.tool(at, f)
	}
	if n > 0 {
		w.b = append(w.b, ']')
		w.toolChoice()
	}
}

const maxToolName = 128

func (w *request) tool(at, f int32) {
	w.b = append(w.b, `{"name":`...)
	w.b = append(w.b, w.c.Raw(w.doc.Member(f, dialect.FunctionName))...)
	w.member("description", w.c.Raw(w.doc.Member(f, dialect.FunctionDescription)))
	w.parameters(f)
	if w.c.True(w.doc.Member(f, dialect.FunctionStrict)) {
		w.b = append(w.b, `,"strict":true`...)
	}
	w.cacheControl(w.doc.Member(at, dialect.ToolCache))
	w.b = append(w.b, '}')
}

var schemaShape = scan.NewShape(scan.Members(nil, "type")...)

// parameters writes a function's schema, which must say that it is an object's.
func (w *request) parameters(f int32) {
	p := w.doc.Member(f, dialect.FunctionParameters)
	if p < 0 || w.doc.Fields[p].Kind != scan.Object || w.doc.Fields[p].Len == 0 {
		w.b = append(w.b, `,"input_schema":{"type":"object","properties":{}}`...)
		return
	}
	raw := w.c.Raw(p)
	if w.s.Doc.Skim(raw, schemaShape) != nil {
		w.fail(w.doc.Path(p), "This model takes function parameters with one type, spelled type.")
		return
	}
	if kind, ok := w.s.Doc.Top(0); ok {
		if string(kind.Raw(raw)) != `"object"` {
			w.fail(w.doc.Path(p), "This model takes function parameters of type object only.")
		}
		w.member("input_schema", raw)
		return
	}
	w.b = append(w.b, `,"input_schema":{"type":"object",`...)
	w.b = append(w.b, raw[1:]...)
}

func (w *request) toolChoice() {
	kind, name := w.chosen()
	single := w.top(dialect.ChatParallelToolCalls)
	one := single >= 0 && w.doc.Fields[single].Kind == scan.False
	if kind == "" {
		if !one {
			return
		}
		kind = "auto"
	}
	if (kind == "any" || kind == "tool") && w.model.noForcedTool {
		w.fail("tool_choice", "This model cannot be made to call a tool; use tool_choice auto.")
	}
	w.forced = kind == "any" || kind == "tool"
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
	i := w.top(dialect.ChatToolChoice)
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
	case "allowed_tools", "custom":
		w.fail("tool_choice", "This model takes a tool_choice of none, auto, required or one function only.")
	}
	return "", nil
}

// maxUserID is the longest user_id with its quotes; longer ones are a hint that
// is not worth a refusal.
const maxUserID = 256

func (w *request) metadata() {
	i := w.top(dialect.ChatMetadata)
	if i < 0 || w.doc.Fields[i].Kind != scan.Object {
		return
	}
	raw := w.c.Raw(i)
	for m := range jsontext.Members(raw, 1) {
		if string(m.Key) == "user_id" && raw[m.From] == '"' && m.To-m.From <= maxUserID {
			w.b = append(append(append(w.b, `,"metadata":{"user_id":`...), raw[m.From:m.To]...), '}')
			return
		}
	}
}

// fail keeps the first reason why the request cannot be written. path is the
// member in the way.
func (w *request) fail(path, format string, args ...any) {
	if w.err == nil {
		w.err = &dialect.Unsupported{Path: path, Text: fmt.Sprintf(format, args...)}
	}
}

var backslash = []byte(`\`)

func plain(text []byte) bool { return !bytes.Contains(text, backslash) }
