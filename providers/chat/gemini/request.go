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

// Request writes the body anew; the model is named in the path. Hints that the
// dialect does not have are left out: min_p, repetition_penalty, metadata, marks
// for caching. What a client would miss in the answer is refused, naming the member.
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
func (w *request) path(name string) {
	w.b = append(w.b, '/')
	if strings.IndexByte(name, '/') < 0 {
		w.b = append(w.b, "models/"...)
	}
	for i := range len(name) {
		c := name[i]
		if pathByte[c] {
			w.b = append(w.b, c)
		} else {
			w.b = append(w.b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	if w.c.Stream {
		w.b = append(w.b, ":streamGenerateContent?alt=sse"...)
	} else {
		w.b = append(w.b, ":generateContent"...)
	}
}

var pathByte = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~@/") {
		is[c] = true
	}
	return is
}()

func (w *request) write() {
	w.b = append(w.b, '{')
	w.refuse()
	w.contents()
	w.system()
	w.tools()
	w.generationConfig()
	w.b = append(w.b, '}')
}

// top is the top member with that id; -1 if absent or if the operator
// drops it.
func (w *request) top(id int) int32 {
	if slices.Contains(w.drops, id) {
		return -1
	}
	return w.doc.TopIndex(id)
}

// refuse names members that change what the client gets back and that this
// dialect has no word for.
func (w *request) refuse() {
	const no = "is not available for this model; leave it out."
	switch {
	case w.c.Choices > 1 && w.model.oneCandidate:
		w.fail("n", "More than one choice (n) "+no)
	case w.c.Choices > maxChoices:
		w.fail("n", "This model gives at most %d choices (n).", maxChoices)
	}
	if i := w.top(dialect.ChatStopTokenIDs); i >= 0 && w.doc.Fields[i].Kind == scan.Array && w.doc.Fields[i].Len > 0 {
		w.fail("stop_token_ids", "stop_token_ids "+no)
	}
}

// maxTokens is the cap on thoughts and answer together; 0 without one.
func (w *request) maxTokens() int64 {
	switch m := w.c.Model; {
	case w.c.MaxCompletion > 0:
		return w.c.MaxCompletion
	case w.c.AskedCompletion > 0:
		return w.c.AskedCompletion
	case m != nil && m.Chat.MaxCompletionTokens > 0:
		return m.Chat.MaxCompletionTokens
	}
	return 0
}

// setting begins a member of generationConfig.
func (w *request) setting(name string) {
	if !w.config {
		w.b = append(w.b, `,"generationConfig":{"`...)
		w.config = true
	} else {
		w.b = append(w.b, `,"`...)
	}
	w.b = append(append(w.b, name...), `":`...)
}

func (w *request) generationConfig() {
	if n := w.maxTokens(); n > 0 {
		w.setting("maxOutputTokens")
		w.b = strconv.AppendInt(w.b, n, 10)
	}
	if w.c.Choices > 1 {
		w.setting("candidateCount")
		w.b = strconv.AppendInt(w.b, w.c.Choices, 10)
	}
	if !w.model.fixedSampling {
		w.copied("temperature", dialect.ChatTemperature, "")
		w.copied("topP", dialect.ChatTopP, "")
		w.copied("topK", dialect.ChatTopK, "0")
	}
	w.copied("presencePenalty", dialect.ChatPresencePenalty, "0")
	w.copied("frequencyPenalty", dialect.ChatFrequencyPenalty, "0")
	w.seed()
	w.stop()
	w.logprobs()
	w.format()
	w.thinkingConfig()
	if w.config {
		w.b = append(w.b, '}')
	}
}

// number is the text of a top member that is a number; nil if it is not one.
func (w *request) number(id int) []byte {
	i := w.top(id)
	if i < 0 || w.doc.Fields[i].Kind != scan.Number {
		return nil
	}
	return w.c.Raw(i)
}

// copied copies a number, but for the one that says nothing.
func (w *request) copied(name string, id int, nothing string) {
	raw := w.number(id)
	if raw == nil || nothing != "" && isZero(raw) {
		return
	}
	w.setting(name)
	w.b = append(w.b, raw...)
}

func isZero(raw []byte) bool {
	v, err := strconv.ParseFloat(string(raw), 64)
	return err == nil && v == 0
}

// seed folds what has more than the dialect's 31 bits: one seed stays one seed.
func (w *request) seed() {
	raw := w.number(dialect.ChatSeed)
	if raw == nil {
		return
	}
	v, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		w.fail("seed", "seed must be a whole number.")
		return
	}
	w.setting("seed")
	w.b = strconv.AppendInt(w.b, v&(1<<31-1), 10)
}

func (w *request) stop() {
	i := w.top(dialect.ChatStop)
	if i < 0 {
		return
	}
	raw, list := w.c.Raw(i), w.doc.Fields[i].Kind == scan.Array
	if !list && w.doc.Fields[i].Kind != scan.String || list && w.doc.Fields[i].Len == 0 {
		return
	}
	w.setting("stopSequences")
	w.b = append(w.b, '[')
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
	if len(raw) <= 2 || raw[0] != '"' {
		w.fail("stop", "stop: this model takes texts of at least one character only.")
	}
	w.b = append(jsontext.Comma(w.b), raw...)
}

func (w *request) logprobs() {
	top := w.number(dialect.ChatTopLogprobs)
	asked := w.c.True(w.top(dialect.ChatLogprobs))
	if !asked && (top == nil || isZero(top)) {
		return
	}
	w.setting("responseLogprobs")
	w.b = append(w.b, "true"...)
	if top != nil && !isZero(top) {
		if n, err := strconv.ParseUint(string(top), 10, 32); err != nil || n > maxLogprobs {
			w.fail("top_logprobs", "top_logprobs must be a whole number of 0 to %d.", maxLogprobs)
		}
		w.setting("logprobs")
		w.b = append(w.b, top...)
	}
}

// format asks for JSON, and for a schema. Some clients put it under json_schema
// itself (addendum, D7).
func (w *request) format() {
	i := w.top(dialect.ChatResponseFormat)
	if i < 0 {
		return
	}
	kind := string(w.c.Text(w.doc.Member(i, dialect.FormatType)))
	if kind != "json_schema" && kind != "json_object" {
		return
	}
	w.setting("responseMimeType")
	w.b = append(w.b, `"application/json"`...)
	holder := w.doc.Member(i, dialect.FormatSchema)
	if kind != "json_schema" || holder < 0 || w.doc.Fields[holder].Kind != scan.Object {
		return
	}
	if at := w.doc.Member(holder, dialect.SchemaSchema); at >= 0 && w.doc.Fields[at].Kind == scan.Object {
		holder = at
	}
	w.setting("responseJsonSchema")
	w.b = append(w.b, w.c.Raw(holder)...)
}

// tools copies function tools.
func (w *request) tools() {
	i := w.top(dialect.ChatTools)
	if i < 0 || w.doc.Fields[i].Kind != scan.Array {
		return
	}
	n, strict := 0, false
	for at := i + 1; at < w.doc.Fields[i].Next; at = w.doc.Fields[at].Next {
		f := w.doc.Member(at, dialect.ToolTarget)
		name := w.c.Text(w.doc.Member(f, dialect.FunctionName))
		if f < 0 || name == nil {
			w.fail(w.at(at), "This model takes tools of type function only.")
			continue
		}
		if !toolName(name) {
			w.fail(w.at(at)+".function.name", "This model takes tool names of 1 to %d letters, digits, and _ . : - "+
				"only, of which the first is a letter or _.", maxToolName)
		}
		if n == 0 {
			w.b = append(w.b, `,"tools":[{"functionDeclarations":[`...)
		} else {
			w.b = append(w.b, ',')
		}
		n++
		w.tool(f)
		strict = strict || w.c.True(w.doc.Member(f, dialect.FunctionStrict))
	}
	if n > 0 {
		w.b = append(w.b, "]}]"...)
		w.toolChoice(strict)
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

func (w *request) tool(f int32) {
	w.b = append(w.b, `{"name":`...)
	w.b = append(w.b, w.c.Raw(w.doc.Member(f, dialect.FunctionName))...)
	if raw := w.c.Raw(w.doc.Member(f, dialect.FunctionDescription)); raw != nil {
		w.b = append(append(w.b, `,"description":`...), raw...)
	}
	if p := w.doc.Member(f, dialect.FunctionParameters); p >= 0 && w.doc.Fields[p].Kind == scan.Object &&
		w.doc.Fields[p].Len > 0 {
		w.b = append(append(w.b, `,"parametersJsonSchema":`...), w.c.Raw(p)...)
	}
	w.b = append(w.b, '}')
}

// toolChoice decides the mode. Where the client leaves the choice to the model,
// strict tools have their schemas enforced by a mode of their own.
func (w *request) toolChoice(strict bool) {
	mode, name := w.chosen()
	switch {
	case strict && (mode == "" || mode == "AUTO"):
		mode = "VALIDATED"
	case mode == "":
		return
	}
	w.b = append(append(append(w.b, `,"toolConfig":{"functionCallingConfig":{"mode":"`...), mode...), '"')
	if name != nil {
		w.b = append(append(append(w.b, `,"allowedFunctionNames":[`...), name...), ']')
	}
	w.b = append(w.b, "}}"...)
}

// chosen is the dialect's mode of tool choice, and the name of the one tool.
func (w *request) chosen() (mode string, name []byte) {
	i := w.top(dialect.ChatToolChoice)
	if i < 0 {
		return "", nil
	}
	text := w.c.Text(i)
	if w.doc.Fields[i].Kind == scan.Object {
		text = w.c.Text(w.doc.Member(i, dialect.ChoiceType))
		if f := w.doc.Member(i, dialect.ChoiceTarget); f >= 0 {
			if name := w.c.Raw(w.doc.Member(f, dialect.ChoiceName)); name != nil {
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
		w.fail("tool_choice", "This model takes a tool_choice of none, auto, required or one function only.")
	}
	return "", nil
}

// at is the path of a member for fail. To find it takes as long as the list in
// which it stands, so that only the first one is looked for.
func (w *request) at(i int32) string {
	if w.err != nil {
		return ""
	}
	return w.doc.Path(i)
}

// fail keeps the first reason why the request cannot be written. path is the
// member in the way.
func (w *request) fail(path, format string, args ...any) {
	if w.err == nil {
		w.err = &dialect.Unsupported{Path: path, Text: fmt.Sprintf(format, args...)}
	}
}
