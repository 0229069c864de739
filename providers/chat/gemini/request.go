package gemini

import (
	"strconv"
	"strings"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

const (
	maxChoices  = dialect.MaxChoices
	maxLogprobs = 20
	maxToolName = 128
)

// Request rewrites the body; the model is named in the path. Hints that the
// dialect does not have are left out: min_p, repetition_penalty, metadata, marks
// for caching. A member that a client would miss in the answer is refused, naming the member.
func (Dialect) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	w := &request{RequestReader: dialect.NewRequestReader(c, t), b: s.Buf[:0], model: generationOf(t.Name, t.Thinking), last: -1}
	w.path(t.Name)
	from := len(w.b)
	w.write()
	s.Buf = w.b
	if w.Err != nil {
		return w.Err
	}
	if err := s.Reread(w.b[from:], bodyShape); err != nil {
		return err
	}
	r.Path, r.Body, r.Patches, r.Accept = w.b[:from:from], w.b[from:], r.Patches[:0], c.Accept()
	return nil
}

// request is one body being written.
type request struct {
	dialect.RequestReader
	b []byte

	model   generation
	config  bool // generationConfig is open
	scratch []byte

	// Turns (turns.go).
	role       string // of the parts to come
	open       string // role of the open turn, empty: none is open
	parts      int    // in the open turn
	turns      int
	alone      bool   // there are no messages but system prompts: they are the user's turn
	last       int32  // the last message of a user that says something; -1: none
	calls      []call // of the last assistant turn
	unanswered dialect.OpenCalls
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
	if r.Stream {
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

// refuse names members that change the answer and that this dialect has no word
// for.
func (r *request) refuse() {
	const no = "is not available for this model; leave it out."
	switch {
	case r.Choices > 1 && r.model.oneCandidate:
		r.Fail("n", "More than one choice (n) "+no)
	case r.Choices > maxChoices:
		r.Fail("n", "This model gives at most %d choices (n).", maxChoices)
	}
	if i := r.Top(dialect.ChatStopTokenIDs); i >= 0 && r.Doc.Fields[i].Kind == scan.Array && r.Doc.Fields[i].Len > 0 {
		r.Fail("stop_token_ids", "stop_token_ids "+no)
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
	if n := r.CompletionCap(); n > 0 {
		r.setting("maxOutputTokens")
		r.b = strconv.AppendInt(r.b, n, 10)
	}
	if r.Choices > 1 {
		r.setting("candidateCount")
		r.b = strconv.AppendInt(r.b, r.Choices, 10)
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

// copied copies a number, but for the one that says nothing.
func (r *request) copied(name string, id int, nothing string) {
	raw := r.Number(id)
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
	raw := r.Number(dialect.ChatSeed)
	if raw == nil {
		return
	}
	v, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		r.Fail("seed", "seed must be a whole number.")
		return
	}
	r.setting("seed")
	r.b = strconv.AppendInt(r.b, v&(1<<31-1), 10)
}

func (r *request) stop() {
	n := 0
	for raw := range r.Stops() {
		if n++; n == 1 {
			r.setting("stopSequences")
			r.b = append(r.b, '[')
		}
		if len(raw) <= 2 || raw[0] != '"' {
			r.Fail("stop", "stop: this model takes texts of at least one character only.")
		}
		r.b = append(jsontext.Comma(r.b), raw...)
	}
	if n > 0 {
		r.b = append(r.b, ']')
	}
}

func (r *request) logprobs() {
	top := r.Number(dialect.ChatTopLogprobs)
	asked := r.True(r.Top(dialect.ChatLogprobs))
	if !asked && (top == nil || isZero(top)) {
		return
	}
	r.setting("responseLogprobs")
	r.b = append(r.b, "true"...)
	if top != nil && !isZero(top) {
		if n, err := strconv.ParseUint(string(top), 10, 32); err != nil || n > maxLogprobs {
			r.Fail("top_logprobs", "top_logprobs must be a whole number of 0 to %d.", maxLogprobs)
		}
		r.setting("logprobs")
		r.b = append(r.b, top...)
	}
}

// format asks for JSON, and for a schema.
func (r *request) format() {
	kind, schema := r.Format()
	if kind != "json_schema" && kind != "json_object" {
		return
	}
	r.setting("responseMimeType")
	r.b = append(r.b, `"application/json"`...)
	if schema != nil {
		r.setting("responseJsonSchema")
		r.b = append(r.b, schema...)
	}
}

// tools copies function tools.
func (r *request) tools() {
	n, strict := 0, false
	for at, f := range r.Tools() {
		if !toolName(r.Text(r.Doc.Member(f, dialect.FunctionName))) {
			r.Fail(r.PathOf(at)+".function.name", "This model takes tool names of 1 to %d letters, digits, and _ . : - "+
				"only, of which the first is a letter or _.", maxToolName)
		}
		if n++; n == 1 {
			r.b = append(r.b, `,"tools":[{"functionDeclarations":[`...)
		}
		r.b = jsontext.Comma(r.b)
		r.tool(f)
		strict = strict || r.True(r.Doc.Member(f, dialect.FunctionStrict))
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
	r.b = append(r.b, r.Raw(r.Doc.Member(f, dialect.FunctionName))...)
	if raw := r.Raw(r.Doc.Member(f, dialect.FunctionDescription)); raw != nil {
		r.b = append(append(r.b, `,"description":`...), raw...)
	}
	if p := r.Doc.Member(f, dialect.FunctionParameters); p >= 0 && r.Doc.Fields[p].Kind == scan.Object &&
		r.Doc.Fields[p].Len > 0 {
		r.b = append(append(r.b, `,"parametersJsonSchema":`...), r.Raw(p)...)
	}
	r.b = append(r.b, '}')
}

// toolChoice decides the mode. Where the client leaves the choice to the model,
// strict tools have their schemas enforced by a mode of their own.
func (r *request) toolChoice(strict bool) {
	kind, name := r.ToolChoice()
	mode := "ANY"
	switch {
	case strict && (kind == "" || kind == "auto"):
		mode = "VALIDATED"
	case kind == "":
		return
	case kind == "auto":
		mode = "AUTO"
	case kind == "none":
		mode = "NONE"
	}
	r.b = append(append(append(r.b, `,"toolConfig":{"functionCallingConfig":{"mode":"`...), mode...), '"')
	if name != nil {
		r.b = append(append(append(r.b, `,"allowedFunctionNames":[`...), name...), ']')
	}
	r.b = append(r.b, "}}"...)
}
