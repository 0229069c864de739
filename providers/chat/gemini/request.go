package gemini

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

const (
	acceptJSON   = "application/json"
	acceptStream = "text/event-stream"

	maxChoices  = dialect.MaxChoices
	maxLogprobs = 20
	maxToolName = 128
)

// Request rewrites the body; the model is named in the path. Hints that the
// dialect does not have are left out: min_p, repetition_penalty, metadata, marks
// for caching. A member that a client would miss in the answer is refused, naming the member.
func (Dialect) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	w := &request{c: c, doc: c.Doc, body: c.Body, b: s.Buf[:0], model: generationOf(t.Name, t.Thinking),
		drops: t.Upstream.Drops, last: -1}
	w.path(t.Name)
	from := len(w.b)
	w.write()
	s.Buf = w.b
	if w.err != nil {
		return w.err
	}
	if err := s.Reread(w.b[from:], bodyShape); err != nil {
		return err
	}
	r.Path, r.Body, r.Patches, r.Accept = w.b[:from:from], w.b[from:], r.Patches[:0], acceptJSON
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

	model   generation
	drops   []int // ids of members that the operator does not send
	config  bool  // generationConfig is open
	scratch []byte

	// Turns (turns.go).
	role    string // of the parts to come
	open    string // role of the open turn, empty: none is open
	parts   int    // in the open turn
	turns   int
	alone   bool  // there are no messages but system prompts: they are the user's turn
	last    int32 // the last message of a user that says something; -1: none
	calls   []call
	waiting int // calls[waiting:] are those of the last assistant turn
	next    int // how many of them have a result, in their order
	// byID are the unanswered calls of that turn by their ids, in their order; it is
	// made when a result comes out of order.
	byID map[string][]int32
}

// path is /models/NAME:METHOD; names with a collection of their own, such as
// tunedModels/x, keep it.
func (r *request) path(name string) {
	r.b = append(r.b, '/')
	if strings.IndexByte(name, '/') < 0 {
		r.b = append(r.b, "models/"...)
	}
	for i := range len(name) {
		c := name[i]
		if pathByte[c] {
			r.b = append(r.b, c)
		} else {
			r.b = append(r.b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	if r.c.Stream {
		r.b = append(r.b, ":streamGenerateContent?alt=sse"...)
	} else {
		r.b = append(r.b, ":generateContent"...)
	}
}

var pathByte = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~@/") {
		is[c] = true
	}
	return is
}()

func (r *request) write() {
	r.b = append(r.b, '{')
	r.refuse()
	r.contents()
	r.system()
	r.tools()
	r.generationConfig()
	r.b = append(r.b, '}')
}

// top is the top member with that id; -1 if absent or if the operator
// drops it.
func (r *request) top(id int) int32 {
	if slices.Contains(r.drops, id) {
		return -1
	}
	return r.doc.TopIndex(id)
}

// refuse names members that change the answer and that this dialect has no word
// for.
func (r *request) refuse() {
	const no = "is not available for this model; leave it out."
	switch {
	case r.c.Choices > 1 && r.model.oneCandidate:
		r.fail("n", "More than one choice (n) "+no)
	case r.c.Choices > maxChoices:
		r.fail("n", "This model gives at most %d choices (n).", maxChoices)
	}
	if i := r.top(dialect.ChatStopTokenIDs); i >= 0 && r.doc.Fields[i].Kind == scan.Array && r.doc.Fields[i].Len > 0 {
		r.fail("stop_token_ids", "stop_token_ids "+no)
	}
}

// setting begins a member of generationConfig.
func (r *request) setting(name string) {
	if !r.config {
		r.b = append(r.b, `,"generationConfig":{"`...)
		r.config = true
	} else {
		r.b = append(r.b, `,"`...)
	}
	r.b = append(append(r.b, name...), `":`...)
}

func (r *request) generationConfig() {
	if n := r.c.CompletionCap(); n > 0 {
		r.setting("maxOutputTokens")
		r.b = strconv.AppendInt(r.b, n, 10)
	}
	if r.c.Choices > 1 {
		r.setting("candidateCount")
		r.b = strconv.AppendInt(r.b, r.c.Choices, 10)
	}
	if !r.model.fixedSampling {
		r.copied("temperature", dialect.ChatTemperature, "")
		r.copied("topP", dialect.ChatTopP, "")
		r.copied("topK", dialect.ChatTopK, "0")
	}
	r.copied("presencePenalty", dialect.ChatPresencePenalty, "0")
	r.copied("frequencyPenalty", dialect.ChatFrequencyPenalty, "0")
	r.seed()
	r.stop()
	r.logprobs()
	r.format()
	r.thinkingConfig()
	if r.config {
		r.b = append(r.b, '}')
	}
}

// number is the text of a top member that is a number; nil if it is not one.
func (r *request) number(id int) []byte {
	i := r.top(id)
	if i < 0 || r.doc.Fields[i].Kind != scan.Number {
		return nil
	}
	return r.c.Raw(i)
}

// copied copies a number, but for the one that says nothing.
func (r *request) copied(name string, id int, nothing string) {
	raw := r.number(id)
	if raw == nil || nothing != "" && isZero(raw) {
		return
	}
	r.setting(name)
	r.b = append(r.b, raw...)
}

func isZero(raw []byte) bool {
	v, err := strconv.ParseFloat(string(raw), 64)
	return err == nil && v == 0
}

// seed folds a seed of more than the dialect's 31 bits: one seed stays one seed.
func (r *request) seed() {
	raw := r.number(dialect.ChatSeed)
	if raw == nil {
		return
	}
	v, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		r.fail("seed", "seed must be a whole number.")
		return
	}
	r.setting("seed")
	r.b = strconv.AppendInt(r.b, v&(1<<31-1), 10)
}

func (r *request) stop() {
	i := r.top(dialect.ChatStop)
	if i < 0 {
		return
	}
	raw, list := r.c.Raw(i), r.doc.Fields[i].Kind == scan.Array
	if !list && r.doc.Fields[i].Kind != scan.String || list && r.doc.Fields[i].Len == 0 {
		return
	}
	r.setting("stopSequences")
	r.b = append(r.b, '[')
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
	if len(raw) <= 2 || raw[0] != '"' {
		r.fail("stop", "stop: this model takes texts of at least one character only.")
	}
	r.b = append(jsontext.Comma(r.b), raw...)
}

func (r *request) logprobs() {
	top := r.number(dialect.ChatTopLogprobs)
	asked := r.c.True(r.top(dialect.ChatLogprobs))
	if !asked && (top == nil || isZero(top)) {
		return
	}
	r.setting("responseLogprobs")
	r.b = append(r.b, "true"...)
	if top != nil && !isZero(top) {
		if n, err := strconv.ParseUint(string(top), 10, 32); err != nil || n > maxLogprobs {
			r.fail("top_logprobs", "top_logprobs must be a whole number of 0 to %d.", maxLogprobs)
		}
		r.setting("logprobs")
		r.b = append(r.b, top...)
	}
}

// format asks for JSON, and for a schema. Some clients put it under json_schema
// itself (addendum, D7).
func (r *request) format() {
	i := r.top(dialect.ChatResponseFormat)
	if i < 0 {
		return
	}
	kind := string(r.c.Text(r.doc.Member(i, dialect.FormatType)))
	if kind != "json_schema" && kind != "json_object" {
		return
	}
	r.setting("responseMimeType")
	r.b = append(r.b, `"application/json"`...)
	holder := r.doc.Member(i, dialect.FormatSchema)
	if kind != "json_schema" || holder < 0 || r.doc.Fields[holder].Kind != scan.Object {
		return
	}
	if at := r.doc.Member(holder, dialect.SchemaSchema); at >= 0 && r.doc.Fields[at].Kind == scan.Object {
		holder = at
	}
	r.setting("responseJsonSchema")
	r.b = append(r.b, r.c.Raw(holder)...)
}

// tools copies function tools.
func (r *request) tools() {
	i := r.top(dialect.ChatTools)
	if i < 0 || r.doc.Fields[i].Kind != scan.Array {
		return
	}
	n, strict := 0, false
	for at := i + 1; at < r.doc.Fields[i].Next; at = r.doc.Fields[at].Next {
		f := r.doc.Member(at, dialect.ToolTarget)
		name := r.c.Text(r.doc.Member(f, dialect.FunctionName))
		if f < 0 || name == nil {
			r.fail(r.at(at), "This model takes tools of type function only.")
			continue
		}
		if !toolName(name) {
			r.fail(r.at(at)+".function.name", "This model takes tool names of 1 to %d letters, digits, and _ . : - "+
				"only, of which the first is a letter or _.", maxToolName)
		}
		if n == 0 {
			r.b = append(r.b, `,"tools":[{"functionDeclarations":[`...)
		} else {
			r.b = append(r.b, ',')
		}
		n++
		r.tool(f)
		strict = strict || r.c.True(r.doc.Member(f, dialect.FunctionStrict))
	}
	if n > 0 {
		r.b = append(r.b, "]}]"...)
		r.toolChoice(strict)
	}
}

func toolName(name []byte) bool {
	for i, c := range name {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '.' && c != ':' && c != '-') {
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxToolName
}

func (r *request) tool(f int32) {
	r.b = append(r.b, `{"name":`...)
	r.b = append(r.b, r.c.Raw(r.doc.Member(f, dialect.FunctionName))...)
	if raw := r.c.Raw(r.doc.Member(f, dialect.FunctionDescription)); raw != nil {
		r.b = append(append(r.b, `,"description":`...), raw...)
	}
	if p := r.doc.Member(f, dialect.FunctionParameters); p >= 0 && r.doc.Fields[p].Kind == scan.Object &&
		r.doc.Fields[p].Len > 0 {
		r.b = append(append(r.b, `,"parametersJsonSchema":`...), r.c.Raw(p)...)
	}
	r.b = append(r.b, '}')
}

// toolChoice decides the mode. Where the client leaves the choice to the model,
// strict tools have their schemas enforced by a mode of their own.
func (r *request) toolChoice(strict bool) {
	mode, name := r.chosen()
	switch {
	case strict && (mode == "" || mode == "AUTO"):
		mode = "VALIDATED"
	case mode == "":
		return
	}
	r.b = append(append(append(r.b, `,"toolConfig":{"functionCallingConfig":{"mode":"`...), mode...), '"')
	if name != nil {
		r.b = append(append(append(r.b, `,"allowedFunctionNames":[`...), name...), ']')
	}
	r.b = append(r.b, "}}"...)
}

// chosen is the dialect's mode of tool choice, and the name of the one tool.
func (r *request) chosen() (mode string, name []byte) {
	i := r.top(dialect.ChatToolChoice)
	if i < 0 {
		return "", nil
	}
	text := r.c.Text(i)
	if r.doc.Fields[i].Kind == scan.Object {
		text = r.c.Text(r.doc.Member(i, dialect.ChoiceType))
		if f := r.doc.Member(i, dialect.ChoiceTarget); f >= 0 {
			if name := r.c.Raw(r.doc.Member(f, dialect.ChoiceName)); name != nil {
				return "ANY", name
			}
		}
	}
	switch string(text) {
	case "auto":
		return "AUTO", nil
	case "none":
		return "NONE", nil
	case "required":
		return "ANY", nil
	case "allowed_tools", "custom":
		r.fail("tool_choice", "This model takes a tool_choice of none, auto, required or one function only.")
	}
	return "", nil
}

// at is the path of a member for fail. To find it takes as long as the list in
// which it is, so that only the first one is looked for.
func (r *request) at(i int32) string {
	if r.err != nil {
		return ""
	}
	return r.doc.Path(i)
}

// fail keeps the first reason why the request cannot be written. path is the
// member in the way.
func (r *request) fail(path, format string, args ...any) {
	if r.err == nil {
		r.err = &dialect.Unsupported{Path: path, Text: fmt.Sprintf(format, args...)}
	}
}
