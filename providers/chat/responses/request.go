package responses

import (
	"bytes"
	"strconv"

	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Request is the body as that of a chat completion. It is valid until the Form is
// released. Where there are Problems it is not to be sent. It has members that are known
// here only: servers of chat completions refuse members that only the form itself has.
func (f *Form) Request() []byte {
	f.b, f.places, f.said = append(f.b[:0], '{'), f.places[:0], false
	f.declare()
	f.copy(`"model":`, TopModel)
	f.messages()
	f.copy(`"stream":`, TopStream)
	f.copy(`"max_completion_tokens":`, TopMaxOutputTokens)
	f.copy(`"temperature":`, TopTemperature)
	f.copy(`"top_p":`, TopTopP)
	f.reasoning()
	f.copy(`"fallbacks":`, TopFallbacks)
	f.copy(`"user":`, TopUser)
	f.copy(`"anon_user_id":`, TopAnonUserID)
	f.copy(`"prompt_cache_key":`, TopPromptCacheKey)
	f.copy(`"prompt_cache_retention":`, TopPromptCacheRetention)
	f.copy(`"safety_identifier":`, TopSafetyIdentifier)
	f.copy(`"service_tier":`, TopServiceTier)
	f.copy(`"top_k":`, TopTopK)
	f.copy(`"min_p":`, TopMinP)
	f.copy(`"frequency_penalty":`, TopFrequencyPenalty)
	f.copy(`"presence_penalty":`, TopPresencePenalty)
	f.copy(`"repetition_penalty":`, TopRepetitionPenalty)
	f.tools()
	f.format()
	f.logprobs()
	f.brands()
	f.b = append(f.b, '}')
	return f.b
}

// add writes a member; name has its quotes and its colon.
func (f *Form) add(name string, value []byte) {
	if f.b[len(f.b)-1] != '{' {
		f.b = append(f.b, ',')
	}
	f.b = append(append(f.b, name...), value...)
}

// copy writes a top member as it is, under the name that chat completions have for it.
func (f *Form) copy(name string, id int) {
	if value := f.raw(f.doc.TopIndex(id)); value != nil {
		f.add(name, value)
	}
}

// named is a member that has the same name in both bodies.
type named struct {
	name string // with its quotes and its colon
	id   int
}

// pick writes those members of an object that are there.
func (f *Form) pick(object int32, members ...named) {
	for _, m := range members {
		if value := f.raw(f.member(object, m.id)); value != nil {
			f.add(m.name, value)
		}
	}
}

// reasoning writes the effort. Chat completions have no word for the rest of it alone.
func (f *Form) reasoning() {
	at := f.doc.TopIndex(TopReasoning)
	if f.raw(f.member(at, ReasoningEffort)) != nil {
		f.add(`"reasoning":{`, nil)
		f.pick(at, named{`"effort":`, ReasoningEffort}, named{`"summary":`, ReasoningSummary})
		f.b = append(f.b, '}')
	}
}

// format writes the settings of text: the form of the answer, and how long it is to be.
func (f *Form) format() {
	at := f.doc.TopIndex(TopText)
	if value := f.raw(f.member(at, TextVerbosity)); value != nil {
		f.add(`"verbosity":`, value)
	}
	format := f.member(at, TextFormat)
	switch kind := f.text(f.member(format, FormatType)); string(kind) {
	case "json_schema":
		f.add(`"response_format":`, []byte(`{"type":"json_schema","json_schema":{`))
		f.pick(format, named{`"name":`, FormatName}, named{`"description":`, FormatDescription},
			named{`"schema":`, FormatSchema}, named{`"strict":`, FormatStrict})
		f.b = append(f.b, "}}"...)
	case "json_object":
		f.add(`"response_format":`, []byte(`{"type":"json_object"}`))
	}
}

// logprobs asks for the probabilities of tokens, which have a switch of their own in
// chat completions.
func (f *Form) logprobs() {
	top := f.raw(f.doc.TopIndex(TopTopLogprobs))
	if f.includes("message.output_text.logprobs") || len(top) > 0 && string(top) != "0" {
		f.add(`"logprobs":`, []byte("true"))
	}
	if len(top) > 0 && string(top) != "0" {
		f.add(`"top_logprobs":`, top)
	}
}

// includes says that include names something.
func (f *Form) includes(name string) bool {
	list := f.raw(f.doc.TopIndex(TopInclude))
	for one := range jsontext.Elements(list) {
		if len(one) == len(name)+2 && string(one[1:len(one)-1]) == name {
			return true
		}
	}
	return false
}

// brands writes the parameter objects with the members that have an effect here, and
// the setting web_search, which a parameter overrides.
func (f *Form) brands() {
	search := f.raw(f.doc.TopIndex(TopWebSearch))
	word, words := "", 1+len(f.o.Aliases)
	named := false
	for n := range words {
		at := f.doc.TopIndex(TopBrand + n)
		if at < 0 || f.doc.Fields[at].Kind != scan.Object {
			continue
		}
		word = f.word(n)
		named = named || f.raw(f.doc.Member(at, BrandWebSearch)) != nil
	}
	searches := string(search) == "true" && !named
	if searches && word == "" {
		word = f.o.Brand
	}
	for n := range words {
		at := f.doc.TopIndex(TopBrand + n)
		own := searches && f.word(n) == word
		if !own && (at < 0 || f.doc.Fields[at].Kind != scan.Object) {
			continue
		}
		f.add(`"`, nil)
		f.b = append(append(f.b, f.word(n)...), `_parameters":{`...)
		if own {
			f.b = append(f.b, `"enable_web_search":"on"`...)
			searches = false
		}
		if at >= 0 {
			for i := at + 1; i < f.doc.Fields[at].Next; i = f.doc.Fields[i].Next {
				m := &f.doc.Fields[i]
				if m.Kind != scan.Null {
					f.add(`"`, nil)
					f.b = append(append(append(f.b, m.Shape.Name(int(m.Name))...), `":`...), m.Raw(f.body)...)
				}
			}
		}
		f.b = append(f.b, '}')
	}
}

// word is the brand word or one of its aliases.
func (f *Form) word(n int) string {
	if n == 0 {
		return f.o.Brand
	}
	return f.o.Aliases[n-1]
}

// Check notes settings that no chat body can have and no rule of a single member finds.
func (f *Form) Check() {
	for _, m := range [...]struct {
		id   int
		name string
		text string
	}{
		{TopMessages, "messages", "is for chat completions; use input."},
		{TopMaxTokens, "max_tokens", "is for chat completions; use max_output_tokens."},
		{TopMaxCompletionTokens, "max_completion_tokens", "is for chat completions; use max_output_tokens."},
		{TopResponseFormat, "response_format", "is for chat completions; use text.format."},
		{TopFunctions, "functions", "is for chat completions; use tools."},
		{TopFunctionCall, "function_call", "is for chat completions; use tool_choice."},
		{TopVerbosity, "verbosity", "is for chat completions; use text.verbosity."},
		{TopReasoningEffort, "reasoning_effort", "is for chat completions; use reasoning.effort."},
		{TopLogprobs, "logprobs", "is for chat completions; use top_logprobs."},
		{TopPrompt, "prompt", "templates that are kept at a provider cannot be used; send instructions and input."},
	} {
		if f.raw(f.doc.TopIndex(m.id)) != nil {
			f.problem(m.name, m.text)
		}
	}
	at := f.doc.TopIndex(TopText)
	format := f.member(at, TextFormat)
	if string(f.text(f.member(format, FormatType))) != "json_schema" {
		return
	}
	if f.text(f.member(format, FormatName)) == nil {
		f.problem("text.format.name", "is required in a format of type json_schema.")
	}
	if f.raw(f.member(format, FormatSchema)) == nil {
		f.problem("text.format.schema", "is required in a format of type json_schema.")
	}
}

// path is the place of a field as clients write it, with a member behind it.
func (f *Form) path(i int32, member string) string {
	if member == "" {
		return f.doc.Path(i)
	}
	return f.doc.Path(i) + "." + member
}

// excerpt is a text of the client's as an error repeats it.
func excerpt(text []byte) string {
	const most = 64
	if len(text) > most {
		text = text[:most]
	}
	return strconv.Quote(string(bytes.ToValidUTF8(text, nil)))
}
