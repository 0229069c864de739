package anthropic

import (
	"bytes"
	"cmp"
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

// Request rewrites the body. Hints that the dialect does not have are left
// out: penalties, seed, metadata but for user_id. A member that a client would miss in
// the answer (n, logprobs) is refused, and so is any member that the
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
	role    string // of the blocks to come, empty: they are outside of turns
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

func (r *request) write(t *dialect.Target) {
	r.b = append(r.b, `{"model":`...)
	r.b = append(r.b, t.Quoted...)
	r.b = append(r.b, `,"max_tokens":`...)
	r.b = strconv.AppendInt(r.b, r.maxTokens(), 10)
	if r.c.Stream {
		r.b = append(r.b, `,"stream":true`...)
	}
	r.refuse()
	r.system()
	r.messages()
	r.tools()
	r.reason()
	r.sampling()
	r.stop()
	r.output()
	r.metadata()
	r.cacheControl(r.top(dialect.ChatCacheControl))
	r.b = append(r.b, '}')
	if r.cached > maxCached {
		r.fail("messages", "At most %d parts, messages and tools together may have cache_control; the request has %d.",
			maxCached, r.cached)
	}
}

// top is the top member with that id; -1 if absent or if the operator
// drops it.
func (r *request) top(id int) int32 {
	if slices.Contains(r.drops, id) {
		return -1
	}
	return r.doc.TopIndex(id)
}

// maxCached is how many marks for caching a request of this dialect may have.
const maxCached = 4

// refuse names members that change the answer and that this dialect has no word
// for.
func (r *request) refuse() {
	const no = "is not available for this model; leave it out."
	if r.c.Choices > 1 {
		r.fail("n", "More than one choice (n) "+no)
	}
	if r.c.True(r.top(dialect.ChatLogprobs)) {
		r.fail("logprobs", "logprobs "+no)
	}
	if raw := r.number(dialect.ChatTopLogprobs); raw != nil && string(raw) != "0" {
		r.fail("top_logprobs", "top_logprobs "+no)
	}
	if i := r.top(dialect.ChatResponseFormat); i >= 0 {
		switch kind := string(r.c.Text(r.doc.Member(i, dialect.FormatType))); {
		case kind == "json_schema" && r.model.noSchema:
			r.fail("response_format", "response_format json_schema "+no)
		case kind == "json_object":
			r.wantsJSON = true
			r.c.LeftOut.Add("response_format")
		}
	}
}

func (r *request) maxTokens() int64 { return cmp.Or(r.c.CompletionCap(), usualMaxTokens) }

// sampling copies the parameters that the model takes. Values that say nothing (1, and 0 for
// top_k) are left out where they would be refused.
func (r *request) sampling() {
	temperature, t := r.decimal(dialect.ChatTemperature)
	topP, p := r.decimal(dialect.ChatTopP)
	topK, k := r.decimal(dialect.ChatTopK)
	if t > 1 {
		temperature, t = []byte("1"), 1 // where this dialect's range ends
	}
	if k == 0 {
		topK = nil
	}
	fixed := "cannot be chosen for this model; leave it out."
	if r.think && !r.model.fixedSampling {
		fixed = "cannot be chosen together with reasoning_effort for this model; leave one of the two out."
	}
	if r.think || r.model.fixedSampling {
		if t == 1 {
			temperature = nil
		}
		if p >= 0.95 && !r.model.fixedSampling || p == 1 {
			topP = nil
		}
		for _, m := range [...]struct {
			name string
			raw  []byte
		}{{"temperature", temperature}, {"top_p", topP}, {"top_k", topK}} {
			if m.raw != nil {
				r.fail(m.name, "%s %s", m.name, fixed)
			}
		}
	}
	if r.model.oneSampler && temperature != nil && topP != nil {
		switch {
		case p == 1:
			topP = nil
		case t == 1:
			temperature = nil
		default:
			r.fail("top_p", "top_p and temperature cannot be combined for this model; leave one of the two out.")
		}
	}
	r.member("temperature", temperature)
	r.member("top_p", topP)
	r.member("top_k", topK)
}

// decimal is a top member that is a number, as written and as a value.
func (r *request) decimal(id int) (raw []byte, value float64) {
	if raw = r.number(id); raw == nil {
		return nil, 0
	}
	value, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return nil, 0
	}
	return raw, value
}

func (r *request) number(id int) []byte {
	i := r.top(id)
	if i < 0 || r.doc.Fields[i].Kind != scan.Number {
		return nil
	}
	return r.c.Raw(i)
}

// member appends a member of the top object; nil leaves it out.
func (r *request) member(name string, raw []byte) {
	if raw != nil {
		r.b = append(append(append(r.b, `,"`...), name...), `":`...)
		r.b = append(r.b, raw...)
	}
}

// stop copies stop sequences. The dialect takes none of white space alone.
func (r *request) stop() {
	i := r.top(dialect.ChatStop)
	if i < 0 {
		return
	}
	raw, list := r.c.Raw(i), r.doc.Fields[i].Kind == scan.Array
	if !list && r.doc.Fields[i].Kind != scan.String || list && r.doc.Fields[i].Len == 0 {
		return
	}
	r.b = append(r.b, `,"stop_sequences":[`...)
	if list {
		for one := range jsontext.Elements(raw) {
			r.stopSequence(one)
		}
	} else {
		r.stopSequence(raw)
	}
	r.b = append(r.b, ']')
}

func (r *request) stopSequence(raw []byte) {
	if len(raw) < 2 || raw[0] != '"' || dialect.IsBlank(raw) {
		r.fail("stop", "stop: this model does not accept stop sequences of white space only.")
	}
	r.b = append(jsontext.Comma(r.b), raw...)
}

// schema is the JSON schema of response_format. Some clients put it under
// json_schema itself (addendum, D7).
func (r *request) schema() []byte {
	i := r.top(dialect.ChatResponseFormat)
	if i < 0 || string(r.c.Text(r.doc.Member(i, dialect.FormatType))) != "json_schema" {
		return nil
	}
	holder := r.doc.Member(i, dialect.FormatSchema)
	if holder < 0 || r.doc.Fields[holder].Kind != scan.Object {
		return nil
	}
	if at := r.doc.Member(holder, dialect.SchemaSchema); at >= 0 && r.doc.Fields[at].Kind == scan.Object {
		return r.c.Raw(at)
	}
	return r.c.Raw(holder)
}

// tools copies function tools.
func (r *request) tools() {
	i := r.top(dialect.ChatTools)
	if i < 0 || r.doc.Fields[i].Kind != scan.Array {
		return
	}
	n := 0
	for at := i + 1; at < r.doc.Fields[i].Next; at = r.doc.Fields[at].Next {
		f := r.doc.Member(at, dialect.ToolTarget)
		name := r.c.Text(r.doc.Member(f, dialect.FunctionName))
		if f < 0 || name == nil {
			r.fail(r.doc.Path(at), "This model takes tools of type function only.")
			continue
		}
		if !dialect.IsToken(name, maxToolName) {
			r.fail(r.doc.Path(at)+".function.name",
				"This model takes tool names of 1 to %d letters, digits, _ and - only.", maxToolName)
		}
		if n == 0 {
			r.b = append(r.b, `,"tools":[`...)
		} else {
			r.b = append(r.b, ',')
		}
		n++
		r.tool(at, f)
	}
	if n > 0 {
		r.b = append(r.b, ']')
		r.toolChoice()
	}
}

const maxToolName = 128

func (r *request) tool(at, f int32) {
	r.b = append(r.b, `{"name":`...)
	r.b = append(r.b, r.c.Raw(r.doc.Member(f, dialect.FunctionName))...)
	r.member("description", r.c.Raw(r.doc.Member(f, dialect.FunctionDescription)))
	r.parameters(f)
	if r.c.True(r.doc.Member(f, dialect.FunctionStrict)) {
		r.b = append(r.b, `,"strict":true`...)
	}
	r.cacheControl(r.doc.Member(at, dialect.ToolCache))
	r.b = append(r.b, '}')
}

var schemaShape = scan.NewShape(scan.Members(nil, "type")...)

// parameters writes a function's schema, which must say that it is an object's.
func (r *request) parameters(f int32) {
	p := r.doc.Member(f, dialect.FunctionParameters)
	if p < 0 || r.doc.Fields[p].Kind != scan.Object || r.doc.Fields[p].Len == 0 {
		r.b = append(r.b, `,"input_schema":{"type":"object","properties":{}}`...)
		return
	}
	raw := r.c.Raw(p)
	if r.s.Doc.Skim(raw, schemaShape) != nil {
		r.fail(r.doc.Path(p), "This model takes function parameters with one type, spelled type.")
		return
	}
	if kind, ok := r.s.Doc.Top(0); ok {
		if string(kind.Raw(raw)) != `"object"` {
			r.fail(r.doc.Path(p), "This model takes function parameters of type object only.")
		}
		r.member("input_schema", raw)
		return
	}
	r.b = append(r.b, `,"input_schema":{"type":"object",`...)
	r.b = append(r.b, raw[1:]...)
}

func (r *request) toolChoice() {
	kind, name := r.chosen()
	single := r.top(dialect.ChatParallelToolCalls)
	one := single >= 0 && r.doc.Fields[single].Kind == scan.False
	if kind == "" {
		if !one {
			return
		}
		kind = "auto"
	}
	if (kind == "any" || kind == "tool") && r.model.noForcedTool {
		r.fail("tool_choice", "This model cannot be made to call a tool; use tool_choice auto.")
	}
	r.forced = kind == "any" || kind == "tool"
	r.b = append(append(append(r.b, `,"tool_choice":{"type":"`...), kind...), '"')
	if name != nil {
		r.b = append(append(r.b, `,"name":`...), name...)
	}
	if one && kind != "none" {
		r.b = append(r.b, `,"disable_parallel_tool_use":true`...)
	}
	r.b = append(r.b, '}')
}

// chosen is the dialect's kind of tool choice, and the name of the one tool.
func (r *request) chosen() (kind string, name []byte) {
	i := r.top(dialect.ChatToolChoice)
	if i < 0 {
		return "", nil
	}
	text := r.c.Text(i)
	if r.doc.Fields[i].Kind == scan.Object {
		text = r.c.Text(r.doc.Member(i, dialect.ChoiceType))
		if f := r.doc.Member(i, dialect.ChoiceTarget); f >= 0 {
			if name := r.c.Raw(r.doc.Member(f, dialect.ChoiceName)); name != nil {
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
		r.fail("tool_choice", "This model takes a tool_choice of none, auto, required or one function only.")
	}
	return "", nil
}

// maxUserID is the longest user_id with its quotes; longer ones are a hint that
// is not worth a refusal.
const maxUserID = 256

func (r *request) metadata() {
	i := r.top(dialect.ChatMetadata)
	if i < 0 || r.doc.Fields[i].Kind != scan.Object {
		return
	}
	raw := r.c.Raw(i)
	for m := range jsontext.Members(raw, 1) {
		if string(m.Key) == "user_id" && raw[m.From] == '"' && m.To-m.From <= maxUserID {
			r.b = append(append(append(r.b, `,"metadata":{"user_id":`...), raw[m.From:m.To]...), '}')
			return
		}
	}
}

// fail keeps the first reason why the request cannot be written. path is the
// member in the way.
func (r *request) fail(path, format string, args ...any) {
	if r.err == nil {
		r.err = &dialect.Unsupported{Path: path, Text: fmt.Sprintf(format, args...)}
	}
}

var backslash = []byte(`\`)

func plain(text []byte) bool { return !bytes.Contains(text, backslash) }
