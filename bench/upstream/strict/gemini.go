package strict

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// A generateContent request is judged here as the public documentation of that API says,
// with the texts that the real server answers: a gateway's translations must pass here
// before customers use them.

var (
	functionName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$`)
	googleMedia  = strings.Fields(`image/png image/jpeg image/webp image/heic image/heif
		audio/wav audio/mp3 audio/aiff audio/aac audio/ogg audio/flac audio/m4a
		video/mp4 video/mpeg video/quicktime video/webm video/x-flv video/wmv video/3gpp application/pdf text/plain`)
)

// anySignature is the documented word for calls whose signature is lost.
const anySignature = "skip_thought_signature_validator"

// googleStrict collects the first fault of one request.
type googleStrict struct {
	model googleModel
	fault string
	names []string // of the functions
}

// googleFault is why the real server would refuse a request for a model with 400;
// empty: it would not.
func googleFault(model string, asked gjson.Result) string {
	s := &googleStrict{model: googleModelOf(model)}
	s.members("", asked, "contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings",
		"cachedContent", "labels")
	s.tools(asked)
	s.contents(asked.Get("contents"))
	if v := asked.Get("systemInstruction"); v.Exists() {
		s.members("system_instruction", v, "parts", "role")
		for i, p := range s.list("system_instruction.parts", v.Get("parts")) {
			path := "system_instruction.parts[" + strconv.Itoa(i) + "]"
			s.members(path, p, "text")
			if p.Get("text").Str == "" {
				s.no("%s.data: required oneof field 'data' must have one initialized field", path)
			}
		}
	}
	s.config(asked.Get("generationConfig"))
	return s.fault
}

func (s *googleStrict) no(format string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf(format, args...)
	}
}

// members refuses members that an object may not have.
func (s *googleStrict) members(path string, o gjson.Result, names ...string) {
	if !o.IsObject() {
		s.no("Invalid value at '%s' (type.googleapis.com/google.ai.generativelanguage.v1beta): not an object", path)
		return
	}
	seen := map[string]bool{}
	o.ForEach(func(key, _ gjson.Result) bool {
		at := ""
		if path != "" {
			at = " at '" + path + "'"
		}
		switch {
		case !slices.Contains(names, key.Str):
			s.no(`Invalid JSON payload received. Unknown name "%s"%s: Cannot find field.`, key.Str, at)
		case seen[key.Str]:
			s.no(`Invalid JSON payload received. Duplicate name "%s"%s.`, key.Str, at)
		}
		seen[key.Str] = true
		return true
	})
}

func (s *googleStrict) list(path string, v gjson.Result) []gjson.Result {
	if !v.IsArray() || len(v.Array()) == 0 {
		s.no("* GenerateContentRequest.%s: contents is not specified", path)
	}
	return v.Array()
}

func (s *googleStrict) number(path string, v gjson.Result, least, most float64, whole bool) {
	switch {
	case !v.Exists():
	case v.Type != gjson.Number || whole && v.Num != float64(int64(v.Num)):
		s.no("Invalid value at '%s' (TYPE_INT32), %s", path, v.Raw)
	case v.Num < least || v.Num > most:
		s.no("* GenerateContentRequest.%s: must be in the range [%v, %v].", path, least, most)
	}
}

func (s *googleStrict) tools(asked gjson.Result) {
	for i, t := range asked.Get("tools").Array() {
		at := "tools[" + strconv.Itoa(i) + "]"
		s.members(at, t, "functionDeclarations")
		for k, f := range t.Get("functionDeclarations").Array() {
			at := at + ".function_declarations[" + strconv.Itoa(k) + "]"
			s.members(at, f, "name", "description", "parametersJsonSchema", "parameters", "response", "responseJsonSchema")
			name := f.Get("name").Str
			switch {
			case !functionName.MatchString(name):
				s.no("* GenerateContentRequest.%s.name: [Invalid function name. Must start with a letter or an underscore.]", at)
			case slices.Contains(s.names, name):
				s.no("Duplicate function declaration found: %s", name)
			}
			s.names = append(s.names, name)
			if p := f.Get("parametersJsonSchema"); p.Exists() && !p.IsObject() {
				s.no("Invalid value at '%s.parameters_json_schema'", at)
			}
			if d := f.Get("description"); d.Exists() && d.Type != gjson.String {
				s.no("Invalid value at '%s.description' (TYPE_STRING)", at)
			}
		}
	}
	v := asked.Get("toolConfig")
	if !v.Exists() {
		return
	}
	s.members("tool_config", v, "functionCallingConfig")
	c := v.Get("functionCallingConfig")
	s.members("tool_config.function_calling_config", c, "mode", "allowedFunctionNames")
	mode := c.Get("mode").Str
	if !slices.Contains([]string{"AUTO", "ANY", "NONE", "VALIDATED"}, mode) {
		s.no("Invalid value at 'tool_config.function_calling_config.mode', %q", mode)
	}
	if len(s.names) == 0 {
		s.no("Function calling config is set without function_declarations.")
	}
	for _, name := range c.Get("allowedFunctionNames").Array() {
		if mode != "ANY" && mode != "VALIDATED" {
			s.no("allowed_function_names should only be set when the mode is ANY or VALIDATED.")
		}
		if !slices.Contains(s.names, name.Str) {
			s.no("allowed_function_names[%s] is not a declared function.", name.Str)
		}
	}
}

// turn is one content: its parts and the members beside its calls.
type turn struct {
	role      string
	calls     []gjson.Result // functionCall parts
	signed    bool           // the first of them
	responses []gjson.Result
	others    bool
}

func (s *googleStrict) contents(v gjson.Result) {
	var turns []turn
	for i, c := range s.list("contents", v) {
		at := "contents[" + strconv.Itoa(i) + "]"
		s.members(at, c, "role", "parts")
		t := turn{role: c.Get("role").Str}
		if t.role != "user" && t.role != "model" {
			s.no("Please use a valid role: user, model.")
		}
		parts := c.Get("parts").Array()
		if len(parts) == 0 {
			s.no("* GenerateContentRequest.%s.parts: contents.parts must not be empty.", at)
		}
		for k, p := range parts {
			s.part(at+".parts["+strconv.Itoa(k)+"]", p, &t)
		}
		turns = append(turns, t)
	}
	lastUser := -1
	for i, t := range turns {
		if t.role == "user" && t.others {
			lastUser = i
		}
	}
	for i, t := range turns {
		s.order(turns, i)
		if len(t.calls) > 0 && s.model.signs && i > lastUser && !t.signed {
			s.no("Function call is missing a thought_signature in functionCall parts. Additional data, function call "+
				"`default_api:%s` , position %d.", t.calls[0].Get("name").Str, i)
		}
	}
	if len(turns) > 0 && turns[len(turns)-1].role == "model" && s.model.noPrefill {
		s.no("Requests ending with a model turn are not supported.")
	}
}

// order: calls follow a user's turn, and all their responses follow right behind them.
func (s *googleStrict) order(turns []turn, i int) {
	t := turns[i]
	if len(t.calls) > 0 {
		if i == 0 || turns[i-1].role == "model" {
			s.no("Please ensure that function call turn comes immediately after a user turn or after a function response " +
				"turn.")
		}
		if i+1 == len(turns) || len(turns[i+1].responses) != len(t.calls) {
			s.no("Please ensure that the number of function response parts is equal to the number of function call parts " +
				"of the function call turn.")
			return
		}
		for k, c := range t.calls {
			r := turns[i+1].responses[k]
			if r.Get("name").Str != c.Get("name").Str || r.Get("id").Str != c.Get("id").Str {
				s.no("Function response %q does not match function call %q.", r.Get("name").Str, c.Get("name").Str)
			}
		}
	}
	if len(t.responses) > 0 && (i == 0 || len(turns[i-1].calls) == 0 || t.others) {
		s.no("Please ensure that function response turn comes immediately after a function call turn.")
	}
}

func (s *googleStrict) part(at string, p gjson.Result, t *turn) {
	s.members(at, p, "text", "thought", "thoughtSignature", "inlineData", "fileData", "functionCall", "functionResponse")
	n := 0
	for _, name := range []string{"text", "inlineData", "fileData", "functionCall", "functionResponse"} {
		if p.Get(name).Exists() {
			n++
		}
	}
	signature := p.Get("thoughtSignature")
	if n != 1 || p.Get("text").Exists() && p.Get("text").Str == "" && !signature.Exists() {
		s.no("* GenerateContentRequest.%s.data: required oneof field 'data' must have one initialized field", at)
	}
	if signature.Exists() && signature.Str != anySignature {
		if raw, err := base64.StdEncoding.DecodeString(signature.Str); err != nil || !strings.HasPrefix(string(raw), "simulated") {
			s.no("Corrupted thought signature.")
		}
	}
	switch model := t.role == "model"; {
	case p.Get("functionCall").Exists():
		call := p.Get("functionCall")
		s.members(at+".function_call", call, "id", "name", "args")
		if !model {
			s.no("Please ensure that function call turn comes from the model.")
		}
		if call.Get("name").Str == "" || call.Get("args").Exists() && !call.Get("args").IsObject() {
			s.no("Invalid value at '%s.function_call'", at)
		}
		if t.calls = append(t.calls, call); len(t.calls) == 1 {
			t.signed = signature.Exists()
		}
		return
	case p.Get("functionResponse").Exists():
		r := p.Get("functionResponse")
		s.members(at+".function_response", r, "id", "name", "response")
		if model || !r.Get("response").IsObject() || r.Get("name").Str == "" {
			s.no("Invalid value at '%s.function_response'", at)
		}
		t.responses = append(t.responses, r)
		return
	}
	if p.Get("text").Exists() || len(t.responses) == 0 {
		t.others = true // media behind a response belong to it
	}
	if v := p.Get("inlineData"); v.Exists() {
		s.members(at+".inline_data", v, "mimeType", "data")
		if !slices.Contains(googleMedia, v.Get("mimeType").Str) {
			s.no("Unsupported MIME type: %s", v.Get("mimeType").Str)
		}
		if raw, err := base64.StdEncoding.DecodeString(v.Get("data").Str); err != nil || len(raw) == 0 {
			s.no("Invalid value at '%s.inline_data.data' (TYPE_BYTES), Base64 decoding failed", at)
		}
	}
	if v := p.Get("fileData"); v.Exists() {
		s.members(at+".file_data", v, "mimeType", "fileUri")
		if uri := v.Get("fileUri").Str; !strings.HasPrefix(uri, "https://") {
			s.no("Invalid or unsupported file uri: %s", uri)
		}
		if media := v.Get("mimeType").Str; media != "" && !slices.Contains(googleMedia, media) {
			s.no("Unsupported MIME type: %s", media)
		}
	}
}

func (s *googleStrict) config(v gjson.Result) {
	if !v.Exists() {
		return
	}
	s.members("generation_config", v, "temperature", "topP", "topK", "candidateCount", "maxOutputTokens",
		"stopSequences", "responseLogprobs", "logprobs", "presencePenalty", "frequencyPenalty", "seed", "responseMimeType",
		"responseSchema", "responseJsonSchema", "thinkingConfig", "responseModalities", "mediaResolution")
	s.number("generation_config.temperature", v.Get("temperature"), 0, 2, false)
	s.number("generation_config.top_p", v.Get("topP"), 0, 1, false)
	s.number("generation_config.top_k", v.Get("topK"), 1, 1<<31-1, true)
	s.number("generation_config.candidate_count", v.Get("candidateCount"), 1, 8, true)
	s.number("generation_config.max_output_tokens", v.Get("maxOutputTokens"), 1, 1<<31-1, true)
	s.number("generation_config.seed", v.Get("seed"), -1<<31, 1<<31-1, true)
	s.number("generation_config.presence_penalty", v.Get("presencePenalty"), -2, 2, false)
	s.number("generation_config.frequency_penalty", v.Get("frequencyPenalty"), -2, 2, false)
	s.number("generation_config.logprobs", v.Get("logprobs"), 0, 20, true)
	for _, name := range []string{"temperature", "topP", "topK"} {
		if s.model.noSampling && v.Get(name).Exists() {
			s.no("%s is not supported by this model.", name)
		}
	}
	if s.model.one && v.Get("candidateCount").Int() > 1 {
		s.no("Multiple candidates is not enabled for models/%s", s.model.name)
	}
	if stops := v.Get("stopSequences").Array(); len(stops) > 5 || slices.ContainsFunc(stops,
		func(e gjson.Result) bool { return e.Type != gjson.String || e.Str == "" }) {
		s.no("* GenerateContentRequest.generation_config.stop_sequences: at most 5, none of them empty")
	}
	if v.Get("logprobs").Exists() && !v.Get("responseLogprobs").Bool() {
		s.no("logprobs is only valid if response_logprobs is true")
	}
	media := v.Get("responseMimeType")
	if media.Exists() && media.Str != "application/json" && media.Str != "text/plain" {
		s.no("* GenerateContentRequest.generation_config.response_mime_type: allowed mimetypes are `text/plain`, " +
			"`application/json`")
	}
	if v.Get("responseJsonSchema").Exists() && media.Str != "application/json" {
		s.no("response_json_schema requires response_mime_type application/json")
	}
	s.thinking(v.Get("thinkingConfig"))
}

func (s *googleStrict) thinking(v gjson.Result) {
	if !v.Exists() {
		return
	}
	s.members("generation_config.thinking_config", v, "includeThoughts", "thinkingBudget", "thinkingLevel")
	level, budget := v.Get("thinkingLevel"), v.Get("thinkingBudget")
	m := &s.model
	switch {
	case m.levels == nil && m.most == 0:
		s.no("Thinking is not enabled for models/%s", m.name)
	case level.Exists() && budget.Exists():
		s.no("You can only set only one of thinking budget and thinking level.")
	case level.Exists() && !slices.Contains(m.levels, level.Str):
		s.no("Thinking level %s is not supported for this model.", level.Str)
	case budget.Exists() && m.most == 0:
		s.no("Thinking budget is not supported for this model.")
	case budget.Exists():
		n := budget.Int()
		if n != -1 && !(n == 0 && m.off) && (n < m.least || n > m.most || n == 0) {
			s.no("The thinking budget %d is invalid. Please choose a value between %d and %d.", n, m.least, m.most)
		}
	}
}
