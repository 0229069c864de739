package anthropic

import (
	"bytes"
	"cmp"
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

var messagesPath = []byte("/messages")

// usualMaxTokens is sent when neither client nor catalog name a cap, which
// this dialect demands.
const usualMaxTokens = 4096

// Request rewrites the body. Hints that the dialect does not have are left
// out: penalties, seed, metadata but for user_id. A member that a client would miss in
// the answer (n, logprobs) is refused, and so is any member that the
// model's generation would refuse, in our words and naming the member.
func (Dialect) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	w := &request{RequestReader: dialect.NewRequestReader(c, t), s: s, b: s.Buf[:0], model: generationOf(t.Name, t.Thinking)}
	w.write(t)
	s.Buf = w.b
	if w.Err != nil {
		return w.Err
	}
	if err := s.Reread(w.b, messages.Shape); err != nil {
		return err
	}
	r.Path, r.Body, r.Patches, r.Accept = messagesPath, w.b, r.Patches[:0], c.Accept()
	return nil
}

// request is one body being written.
type request struct {
	dialect.RequestReader
	s *dialect.Scratch
	b []byte

	model generation
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

	alone      bool           // there are no messages but system prompts: they are the user's turn
	calls      []call         // of the last assistant turn
	seen       map[string]int // calls of the whole conversation by their ids
	unanswered dialect.OpenCalls
	bare       bool // the last assistant turn has calls and no thoughts before them
	inResult   int  // 0: no result of a tool is being written; else 1 and its blocks so far
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
	if r.Stream {
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
	r.cacheControl(r.Top(dialect.ChatCacheControl))
	r.b = append(r.b, '}')
	if r.cached > maxCached {
		r.Fail("messages", "At most %d parts, messages and tools together may have cache_control; the request has %d.",
			maxCached, r.cached)
	}
}

// maxCached is how many marks for caching a request of this dialect may have.
const maxCached = 4

// refuse names members that change the answer and that this dialect has no word
// for.
func (r *request) refuse() {
	const no = "is not available for this model; leave it out."
	if r.Choices > 1 {
		r.Fail("n", "More than one choice (n) "+no)
	}
	if r.True(r.Top(dialect.ChatLogprobs)) {
		r.Fail("logprobs", "logprobs "+no)
	}
	if raw := r.Number(dialect.ChatTopLogprobs); raw != nil && string(raw) != "0" {
		r.Fail("top_logprobs", "top_logprobs "+no)
	}
	if i := r.Top(dialect.ChatResponseFormat); i >= 0 {
		switch kind := string(r.Text(r.Doc.Member(i, dialect.FormatType))); {
		case kind == "json_schema" && r.model.noSchema:
			r.Fail("response_format", "response_format json_schema "+no)
		case kind == "json_object":
			r.wantsJSON = true
			r.LeftOut.Add("response_format")
		}
	}
}

func (r *request) maxTokens() int64 { return cmp.Or(r.CompletionCap(), usualMaxTokens) }

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
				r.Fail(m.name, "%s %s", m.name, fixed)
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
			r.Fail("top_p", "top_p and temperature cannot be combined for this model; leave one of the two out.")
		}
	}
	r.member("temperature", temperature)
	r.member("top_p", topP)
	r.member("top_k", topK)
}

// decimal is a top member that is a number, as written and as a value.
func (r *request) decimal(id int) (raw []byte, value float64) {
	if raw = r.Number(id); raw == nil {
		return nil, 0
	}
	value, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return nil, 0
	}
	return raw, value
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
	n := 0
	for raw := range r.Stops() {
		if n++; n == 1 {
			r.b = append(r.b, `,"stop_sequences":[`...)
		}
		if len(raw) < 2 || raw[0] != '"' || dialect.IsBlank(raw) {
			r.Fail("stop", "stop: this model does not accept stop sequences of white space only.")
		}
		r.b = append(jsontext.Comma(r.b), raw...)
	}
	if n > 0 {
		r.b = append(r.b, ']')
	}
}

// tools copies function tools.
func (r *request) tools() {
	n := 0
	for at, f := range r.Tools() {
		if !dialect.IsToken(r.Text(r.Doc.Member(f, dialect.FunctionName)), maxToolName) {
			r.Fail(r.PathOf(at)+".function.name",
				"This model takes tool names of 1 to %d letters, digits, _ and - only.", maxToolName)
		}
		if n++; n == 1 {
			r.b = append(r.b, `,"tools":[`...)
		}
		r.b = jsontext.Comma(r.b)
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
	r.b = append(r.b, r.Raw(r.Doc.Member(f, dialect.FunctionName))...)
	r.member("description", r.Raw(r.Doc.Member(f, dialect.FunctionDescription)))
	r.parameters(f)
	if r.True(r.Doc.Member(f, dialect.FunctionStrict)) {
		r.b = append(r.b, `,"strict":true`...)
	}
	r.cacheControl(r.Doc.Member(at, dialect.ToolCache))
	r.b = append(r.b, '}')
}

var schemaShape = scan.NewShape(scan.Members(nil, "type")...)

// parameters writes a function's schema, which must say that it is an object's.
func (r *request) parameters(f int32) {
	p := r.Doc.Member(f, dialect.FunctionParameters)
	if p < 0 || r.Doc.Fields[p].Kind != scan.Object || r.Doc.Fields[p].Len == 0 {
		r.b = append(r.b, `,"input_schema":{"type":"object","properties":{}}`...)
		return
	}
	raw := r.Raw(p)
	if r.s.Doc.Skim(raw, schemaShape) != nil {
		r.Fail(r.Doc.Path(p), "This model takes function parameters with one type, spelled type.")
		return
	}
	if kind, ok := r.s.Doc.Top(0); ok {
		if string(kind.Raw(raw)) != `"object"` {
			r.Fail(r.Doc.Path(p), "This model takes function parameters of type object only.")
		}
		r.member("input_schema", raw)
		return
	}
	r.b = append(r.b, `,"input_schema":{"type":"object",`...)
	r.b = append(r.b, raw[1:]...)
}

func (r *request) toolChoice() {
	kind, name := r.ToolChoice()
	switch kind {
	case "required":
		kind = "any"
	case "function":
		kind = "tool"
	}
	single := r.Top(dialect.ChatParallelToolCalls)
	one := single >= 0 && r.Doc.Fields[single].Kind == scan.False
	if kind == "" {
		if !one {
			return
		}
		kind = "auto"
	}
	if (kind == "any" || kind == "tool") && r.model.noForcedTool {
		r.Fail("tool_choice", "This model cannot be made to call a tool; use tool_choice auto.")
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

// maxUserID is the longest user_id with its quotes; longer ones are a hint that
// is not worth a refusal.
const maxUserID = 256

func (r *request) metadata() {
	i := r.Top(dialect.ChatMetadata)
	if i < 0 || r.Doc.Fields[i].Kind != scan.Object {
		return
	}
	raw := r.Raw(i)
	for m := range jsontext.Members(raw, 1) {
		if string(m.Key) == "user_id" && raw[m.From] == '"' && m.To-m.From <= maxUserID {
			r.b = append(append(append(r.b, `,"metadata":{"user_id":`...), raw[m.From:m.To]...), '}')
			return
		}
	}
}

var backslash = []byte(`\`)

func plain(text []byte) bool { return !bytes.Contains(text, backslash) }
