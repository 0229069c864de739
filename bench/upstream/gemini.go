package upstream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// generateContent is the two methods of Google's API that write text.
const (
	wholeMethod  = ":generateContent"
	streamMethod = ":streamGenerateContent"
)

// googleCall takes the model out of a path such as /v1beta/models/NAME:METHOD.
func googleCall(path string) (model string, streamed, ok bool) {
	if model, ok = strings.CutSuffix(path, streamMethod); ok {
		streamed = true
	} else if model, ok = strings.CutSuffix(path, wholeMethod); !ok {
		return "", false, false
	}
	return model[strings.LastIndexByte(model, '/')+1:], streamed, true
}

// googleAsked is a generateContent request in the words of chat completions, in
// which answers are decided.
func googleAsked(model string, streamed bool, body []byte) gjson.Result {
	asked := gjson.ParseBytes(body)
	chat := map[string]any{"model": model, "stream": streamed}
	config := asked.Get("generationConfig")
	if n := config.Get("maxOutputTokens"); n.Exists() {
		chat["max_tokens"] = n.Int()
	}
	if n := config.Get("candidateCount"); n.Exists() {
		chat["n"] = n.Int()
	}
	chat["logprobs"] = config.Get("responseLogprobs").Bool()
	thinking := config.Get("thinkingConfig")
	budget := thinking.Get("thinkingBudget")
	if off := budget.Exists() && budget.Int() == 0; thinking.Get("includeThoughts").Bool() &&
		(thinking.Get("thinkingLevel").Str != "" || !off) {
		chat["reasoning_effort"] = "high"
	}
	if schema := config.Get("responseJsonSchema"); schema.Exists() {
		chat["response_format"] = map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"schema": json.RawMessage(schema.Raw)}}
	} else if config.Get("responseMimeType").Str == "application/json" {
		chat["response_format"] = map[string]any{"type": "json_object"}
	}
	var tools []any
	for _, t := range asked.Get("tools").Array() {
		for _, f := range t.Get("functionDeclarations").Array() {
			parameters := json.RawMessage(`{}`)
			if p := f.Get("parametersJsonSchema"); p.IsObject() {
				parameters = json.RawMessage(p.Raw)
			}
			tools = append(tools, map[string]any{"function": map[string]any{"name": f.Get("name").Str,
				"parameters": parameters}})
		}
	}
	chat["tools"] = tools
	choice := asked.Get("toolConfig.functionCallingConfig")
	if name := choice.Get("allowedFunctionNames.0"); name.Exists() {
		chat["tool_choice"] = map[string]any{"type": "function", "function": map[string]any{"name": name.Str}}
	} else if mode := map[string]string{"ANY": "required", "NONE": "none"}[choice.Get("mode").Str]; mode != "" {
		chat["tool_choice"] = mode
	}
	var messages []any
	if system := asked.Get("systemInstruction"); system.Exists() {
		messages = append(messages, googleMessage("system", system))
	}
	for _, c := range asked.Get("contents").Array() {
		role := map[string]string{"user": "user", "model": "assistant"}[c.Get("role").Str]
		if c.Get("parts.0.functionResponse").Exists() {
			role = "tool"
		}
		messages = append(messages, googleMessage(role, c))
	}
	chat["messages"] = messages
	raw, err := json.Marshal(chat)
	if err != nil {
		return gjson.Result{}
	}
	return gjson.ParseBytes(raw)
}

func googleMessage(role string, c gjson.Result) map[string]any {
	parts := []any{}
	for _, p := range c.Get("parts").Array() {
		switch {
		case p.Get("text").Exists():
			parts = append(parts, map[string]any{"type": "text", "text": p.Get("text").Str})
		case p.Get("functionCall").Exists():
			parts = append(parts, map[string]any{"type": "text", "text": p.Get("functionCall.args").Raw})
		case p.Get("functionResponse").Exists():
			parts = append(parts, map[string]any{"type": "text", "text": p.Get("functionResponse.response").Raw})
		default:
			parts = append(parts, map[string]any{"type": "other"})
		}
	}
	return map[string]any{"role": role, "content": parts}
}

// generate answers POST /v1beta/models/NAME:generateContent and its stream.
func (c *conn) generate(x *exchange, asked gjson.Result, query string) (int, bool, error) {
	streamed := x.noteEndpoint("generate", asked)
	bad := func(text string) (int, bool, error) { return c.refuse(x, false, 400, failure{text: text}) }
	body := gjson.ParseBytes(c.req.body)
	switch {
	case !gjson.ValidBytes(c.req.body) || !body.IsObject():
		return bad("Invalid JSON payload received.")
	case len(c.req.content) > 0 && !bytes.HasPrefix(bytes.ToLower(c.req.content), []byte("application/json")):
		return bad("Invalid JSON payload received. Unexpected content type.")
	case streamed && !strings.Contains("&"+query+"&", "&alt=sse&"):
		return bad("the simulated server streams with alt=sse only")
	}
	name, _, _ := strings.Cut(asked.Get("model").Str, "@")
	if fault := c.check(Call{API: "generate", Model: name, Asked: body}); fault.Text != "" {
		return bad(fault.Text)
	}
	g := &googleAnswer{answer: c.answerFor(asked, x), signs: signingModel.MatchString(name)}
	x.tally.WrittenTokens = 0 // not reported here
	if streamed {
		s := &googleStream{eventStream: eventStream{c: c, x: x, a: g.answer}, g: g}
		keep, err := s.run()
		return 200, keep, err
	}
	if err := c.think(x); err != nil {
		return 0, false, err
	}
	if x.sc.Endless {
		return c.sendEndlessText(x)
	}
	x.tally.CompletionTokens, x.tally.ReasoningTokens = g.completion()
	if x.sc.Kind == "policy" {
		x.tally.CompletionTokens, x.tally.ReasoningTokens = 0, 0
	}
	return c.sendBody(x, g.whole())
}

// googleAnswer is an answer in Google's form.
type googleAnswer struct {
	*answer
	signs bool // calls have ids and signatures
}

// signingModel are the models that sign their calls and thoughts.
var signingModel = regexp.MustCompile(`^gemini-[3-9](\.\d+)?-`)

// signature is the thoughtSignature of the first call, and of the end of a text with
// reasoning.
func (g *googleAnswer) signature() string {
	return `"thoughtSignature": "` + base64.StdEncoding.EncodeToString([]byte("simulated-"+g.id)) + `"`
}

func (g *googleAnswer) textPart(dst []byte, text string, thought bool) []byte {
	name := "text"
	if g.sc.SaidIn == "unknown" && !thought {
		name = "caption"
	}
	dst = appendString(append(dst, `{"`+name+`": `...), text)
	if thought {
		dst = append(dst, `,"thought": true`...)
	}
	return append(dst, '}')
}

func (g *googleAnswer) callPart(dst []byte, call *toolCall, first bool) []byte {
	dst = append(dst, `{"functionCall": {`...)
	if g.signs {
		dst = append(dst, `"id": "`+strings.TrimPrefix(call.id, "call_")+`",`...)
	}
	dst = appendString(append(dst, `"name": `...), call.name)
	dst = append(appendText(append(dst, `,"args": `...), call.args), '}')
	if first && g.signs {
		dst = append(append(dst, ','), g.signature()...)
	}
	return append(dst, '}')
}

// lastPart is the empty text that carries the signature of a text.
func (g *googleAnswer) lastPart() string {
	if !g.signs {
		return ""
	}
	return `{"text": "",` + g.signature() + `}`
}

func (g *googleAnswer) finish(choice int) string {
	switch {
	case g.sc.Finish != "":
		return g.sc.Finish
	case g.choices[choice].finish == "length":
		return "MAX_TOKENS"
	}
	return "STOP"
}

func (g *googleAnswer) whole() []byte {
	out := []byte("{\n")
	if g.sc.Kind == "policy" {
		out = append(out, `"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},`...)
		return append(g.appendEnd(out, 0, 0), '}', '\n')
	}
	out = append(out, `"candidates": [`...)
	for i := range g.choices {
		if i > 0 {
			out = append(out, ',')
		}
		out = g.candidate(out, i)
	}
	out = append(out, "],\n"...)
	total, thoughts := g.completion()
	return append(g.appendEnd(out, total, thoughts), '}', '\n')
}

func (g *googleAnswer) candidate(out []byte, i int) []byte {
	ch := &g.choices[i]
	var parts [][]byte
	if ch.reasoning.Len() > 0 {
		parts = append(parts, g.textPart(nil, string(appendText(nil, ch.reasoning)), true))
	}
	if ch.content.Len() > 0 {
		part := g.textPart(nil, string(appendText(nil, ch.content)), false)
		if g.signs {
			part = append(part[:len(part)-1], ","+g.signature()+"}"...)
		}
		parts = append(parts, part)
	}
	if ch.draws > 0 {
		parts = append(parts, ch.googlePicture())
	}
	for k := range ch.tools {
		parts = append(parts, g.callPart(nil, &ch.tools[k], k == 0))
	}
	out = append(out, `{"content": {"parts": [`...)
	out = append(out, bytes.Join(parts, []byte(","))...)
	out = append(out, `],"role": "model"},"finishReason": "`+g.finish(i)+`",`...)
	if g.asked.Get("logprobs").Bool() && ch.content.Len() > 0 {
		out = append(g.appendLogprobs(out, ch.content), ',')
	}
	return append(strconv.AppendInt(append(out, `"index": `...), int64(i), 10), '}')
}

func (g *googleAnswer) appendLogprobs(dst []byte, t text) []byte {
	dst = append(dst, `"logprobsResult": {"chosenCandidates": [`...)
	for i := range t.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, `{"token": `...), t.At(i))
		dst = append(dst, `,"tokenId": 7,"logProbability": -0.25}`...)
	}
	return append(dst, "]}"...)
}

// appendEnd appends the members behind the candidates: usage, version and id.
func (g *googleAnswer) appendEnd(dst []byte, completion, thoughts int64) []byte {
	switch g.sc.Usage {
	case "none", "afterdone":
	case "null":
		dst = append(dst, `"usageMetadata": null,`...)
	default:
		dst = append(g.appendUsage(append(dst, `"usageMetadata": `...), completion, thoughts), ',')
	}
	dst = appendString(append(dst, `"modelVersion": `...), g.answer.model)
	return append(dst, `,"responseId": "`+g.id+`"`...)
}

// appendUsage is the usageMetadata for so many completion tokens, honest or not
// as the scenario says.
func (g *googleAnswer) appendUsage(dst []byte, completion, thoughts int64) []byte {
	prompt, cached := g.prompt, g.cached()
	said := completion - thoughts
	_, thoughts, total := g.tellHidden(completion, thoughts, prompt+completion)
	switch g.sc.Usage {
	case "less", "early":
		said, thoughts, total = min(1, completion), 0, prompt+1
	case "over":
		said = g.claimed()
		total = prompt + said + thoughts
	case "totalonly":
		return append(dst, `{"totalTokenCount": `+strconv.FormatInt(total, 10)+`}`...)
	case "zero":
		prompt, cached, said, thoughts, total = 0, 0, 0, 0, 0
	case "negative":
		prompt, said, total = -prompt, -said, -total
	case "huge":
		prompt, said, total = 1<<63-1, 1<<63-1, 1<<63-1
	}
	number := func(name string, n int64) { dst = appendMembers(dst, member{name, n}) }
	number(`{"promptTokenCount": `, prompt)
	if said != 0 || g.sc.Usage != "" {
		number(`,"candidatesTokenCount": `, said)
	}
	number(`,"totalTokenCount": `, total)
	if cached > 0 {
		number(`,"cachedContentTokenCount": `, cached)
	}
	if thoughts != 0 {
		number(`,"thoughtsTokenCount": `, thoughts)
	}
	return append(dst, `,"promptTokensDetails": [{"modality": "TEXT","tokenCount": `+strconv.FormatInt(prompt, 10)+`}]}`...)
}

// googleStream writes one answer as a stream of answers.
type googleStream struct {
	eventStream
	g *googleAnswer
}

func (s *googleStream) run() (bool, error) {
	s.beginEvents()
	s.eol = "\r\n" // as the real server has it
	defer s.book()
	if s.x.sc.Kind == "policy" {
		b := s.g.appendEnd([]byte(`{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},`), 0, 0)
		s.send(append(b, '}'), 0)
		return s.end()
	}
	s.think()
	if s.tokens(s.step, s.errorEvent) {
		return false, s.err
	}
	for i := range s.a.choices {
		s.last(i)
	}
	done, mind := s.done, s.mind
	switch s.x.sc.Usage {
	case "late":
		s.late()
	case "contradict":
		done, mind = 1, 0
	case "afterdone", "twice":
	default:
		return s.end()
	}
	s.send(append(s.g.appendUsage([]byte(`{"usageMetadata": `), done, mind), '}'), 0)
	return s.end()
}

// step writes one event with one part. A call is sent whole, with its name and its
// arguments.
func (s *googleStream) step(st step) {
	var part []byte
	tokens := st.tokens
	switch st.kind {
	case stepReasoning, stepContent:
		part = s.g.textPart(nil, st.text, st.kind == stepReasoning)
	case stepTool:
		part = s.g.callPart(nil, &s.a.choices[st.choice].tools[st.tool], st.tool == 0)
		tokens += int64(s.a.choices[st.choice].tools[st.tool].args.Len())
	case stepPicture:
		part = s.a.choices[st.choice].googlePicture()
	case stepArgs:
		return
	}
	b := append([]byte(`{"candidates": [{"content": {"parts": [`), part...)
	b = append(b, `],"role": "model"},`...)
	if st.kind == stepContent && s.a.asked.Get("logprobs").Bool() {
		b = append(s.g.appendLogprobs(b, pieces{st.text}), ',')
	}
	b = strconv.AppendInt(append(b, `"index": `...), int64(st.choice), 10)
	s.send(s.running(append(b, "}],"...), false), tokens)
}

// last is the event with the finishReason of a choice.
func (s *googleStream) last(i int) {
	b := []byte(`{"candidates": [{`)
	if part := s.g.lastPart(); part != "" && len(s.a.choices[i].tools) == 0 {
		b = append(b, `"content": {"parts": [`+part+`],"role": "model"},`...)
	}
	b = append(b, `"finishReason": "`+s.g.finish(i)+`",`...)
	b = append(strconv.AppendInt(append(b, `"index": `...), int64(i), 10), "}],"...)
	s.send(s.running(b, true), 0)
}

// running is the usage that every event has, up to the sent tokens.
func (s *googleStream) running(b []byte, last bool) []byte {
	usage := s.x.sc.Usage
	switch {
	case usage == "none", usage == "afterdone", usage == "late", usage == "early" && last:
		b = appendString(append(b, `"modelVersion": `...), s.a.model)
		b = append(b, `,"responseId": "`+s.a.id+`"`...)
	case usage == "zerofirst" && !last:
		b = append(b, `"usageMetadata": {"promptTokenCount": 0,"totalTokenCount": 0},"responseId": "`+s.a.id+`"`...)
	default:
		b = s.g.appendEnd(b, s.done, s.mind)
	}
	return append(b, '}')
}

func (s *googleStream) send(data []byte, tokens int64) {
	b := append(s.comment(), "data: "...)
	s.write(append(append(b, data...), s.eol+s.eol...), tokens)
}

func (s *googleStream) errorEvent() []byte {
	return []byte(`data: {"error": {"code": 503,"message": "The model backend-7.internal.simulated is overloaded. Please ` +
		`try again later.","status": "UNAVAILABLE"}}` + s.eol + s.eol)
}

var googleStatuses = map[int]string{
	400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
	429: "RESOURCE_EXHAUSTED", 499: "CANCELLED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}

// google is the error in Google's form. A wrong key is a 400 there.
func (f failure) google(status int) (int, []byte) {
	details := ""
	switch {
	case status == 401:
		status = 400
		f.text = "API key not valid. Please pass a valid API key."
		details = `{"@type": "type.googleapis.com/google.rpc.ErrorInfo","reason": "API_KEY_INVALID",` +
			`"domain": "googleapis.com","metadata": {"service": "generativelanguage.googleapis.com"}}`
	case status == 429:
		details = `{"@type": "type.googleapis.com/google.rpc.RetryInfo","retryDelay": "20s"}`
	}
	word := googleStatuses[status]
	if word == "" {
		word = "UNKNOWN"
	}
	out := append([]byte(`{"error": {"code": `), strconv.Itoa(status)...)
	out = appendString(append(out, `,"message": `...), f.text)
	out = append(out, `,"status": "`+word+`"`...)
	if details != "" {
		out = append(out, `,"details": [`+details+`]`...)
	}
	return status, append(out, "}}\n"...)
}
