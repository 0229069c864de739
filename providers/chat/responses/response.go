package responses

import (
	"strconv"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// outcome is the state of a response.
type outcome struct {
	id     []byte // of an upstream that speaks the form itself; empty: it is made here
	status string
	reason string // why it is incomplete; empty: it is not
	// code and message say why it failed, as between the quotes of JSON strings.
	code, message []byte
	usage         dialect.Usage
	cost, params  []byte // members of the completion that are in the response, too
}

// appendHead appends a response up to its output.
func (f *Form) appendHead(dst []byte, c *dialect.Chat, o *outcome) []byte {
	if dst = append(dst, `{"id":"`...); len(o.id) > 0 {
		dst = append(dst, o.id...)
	} else {
		dst = append(append(dst, "resp_"...), f.id...)
	}
	dst = strconv.AppendInt(append(dst, `","object":"response","created_at":`...), f.created, 10)
	dst = append(append(dst, `,"status":"`...), o.status...)
	dst = append(dst, '"')
	if !f.o.Spec || o.status == "failed" {
		if dst = append(dst, `,"error":`...); o.status == "failed" {
			dst = append(append(dst, `{"code":"`...), o.code...)
			dst = append(append(append(dst, `","message":"`...), o.message...), `"}`...)
		} else {
			dst = append(dst, "null"...)
		}
	}
	if !f.o.Spec || o.reason != "" {
		if dst = append(dst, `,"incomplete_details":`...); o.reason != "" {
			dst = append(append(append(dst, `{"reason":"`...), o.reason...), `"}`...)
		} else {
			dst = append(dst, "null"...)
		}
	}
	dst = jsontext.Object(dst).Text("model", c.Model.ID)
	return append(dst, `,"output":[`...)
}

// appendTail appends the members behind the output.
func (f *Form) appendTail(dst []byte, o *outcome) []byte {
	dst = append(dst, `],"usage":`...)
	if u := &o.usage; u.Seen {
		dst = jsontext.Object(append(dst, '{')).Int("input_tokens", u.Prompt)
		dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.Cached, 10)
		if !f.o.Spec {
			dst = jsontext.Object(dst).Int("cache_write_tokens", u.CacheWrite)
		}
		dst = strconv.AppendInt(append(dst, `},"output_tokens":`...), u.Completion, 10)
		dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
		dst = strconv.AppendInt(append(dst, `},"total_tokens":`...), u.Prompt+u.Completion, 10)
		dst = append(dst, '}')
	} else {
		dst = append(dst, "null"...)
	}
	if o.cost != nil {
		dst = append(append(dst, `,"cost":`...), o.cost...)
	}
	if o.params != nil {
		dst = append(append(append(dst, `,"`...), f.o.Brand...), `_parameters":`...)
		dst = append(dst, o.params...)
	}
	if !f.o.Spec {
		dst = f.appendEcho(dst, o)
	}
	return append(dst, '}')
}

// appendEcho repeats the request, which the types of OpenAI's packages require.
func (f *Form) appendEcho(dst []byte, o *outcome) []byte {
	member := func(name string, id int, otherwise string) {
		dst = append(dst, name...)
		if value := f.raw(f.doc.TopIndex(id)); value != nil {
			dst = append(dst, value...)
		} else {
			dst = append(dst, otherwise...)
		}
	}
	dst = append(dst, `,"access_programs":null,"background":false,"completed_at":`...)
	if o.status == "completed" {
		dst = strconv.AppendInt(dst, time.Now().Unix(), 10)
	} else {
		dst = append(dst, "null"...)
	}
	member(`,"instructions":`, TopInstructions, "null")
	member(`,"max_output_tokens":`, TopMaxOutputTokens, "null")
	member(`,"max_tool_calls":`, TopMaxToolCalls, "null")
	member(`,"metadata":`, TopMetadata, "{}")
	member(`,"parallel_tool_calls":`, TopParallelToolCalls, "true")
	dst = append(append(dst, `,"previous_response_id":`...), f.previous()...)
	member(`,"prompt_cache_key":`, TopPromptCacheKey, "null")
	dst = append(dst, `,"reasoning":{"effort":`...)
	at := f.doc.TopIndex(TopReasoning)
	dst = append(append(dst, orNull(f.raw(f.member(at, 0)))...), `,"summary":`...)
	dst = append(append(dst, orNull(f.raw(f.member(at, 1)))...), `},"store":`...)
	dst = append(dst, f.stored()...)
	member(`,"temperature":`, TopTemperature, "null")
	dst = append(dst, `,"text":{"format":`...)
	at = f.doc.TopIndex(TopText)
	if format := f.raw(f.member(at, TextFormat)); format != nil {
		dst = append(dst, format...)
	} else {
		dst = append(dst, `{"type":"text"}`...)
	}
	if verbosity := f.raw(f.member(at, TextVerbosity)); verbosity != nil {
		dst = append(append(dst, `,"verbosity":`...), verbosity...)
	}
	dst = f.appendTools(append(dst, '}'))
	member(`,"top_logprobs":`, TopTopLogprobs, "0")
	member(`,"top_p":`, TopTopP, "null")
	member(`,"truncation":`, TopTruncation, `"disabled"`)
	member(`,"user":`, TopUser, "null")
	return dst
}

// appendTools repeats the tools, functions with all their members, and the choice.
func (f *Form) appendTools(dst []byte) []byte {
	dst = append(dst, `,"tool_choice":`...)
	switch at := f.doc.TopIndex(TopToolChoice); {
	case f.raw(at) == nil:
		dst = append(dst, `"auto"`...)
	case f.doc.Fields[at].Kind == scan.Object && f.member(at, ChoiceFunction) >= 0:
		name := f.raw(f.member(f.member(at, ChoiceFunction), ToolName-1))
		dst = append(append(append(dst, `{"type":"function","name":`...), orNull(name)...), '}')
	default:
		dst = append(dst, f.raw(at)...)
	}
	dst = append(dst, `,"tools":[`...)
	list := f.doc.TopIndex(TopTools)
	if list < 0 || f.doc.Fields[list].Kind != scan.Array {
		return append(dst, ']')
	}
	for i := list + 1; i < f.doc.Fields[list].Next; i = f.doc.Fields[i].Next {
		if i > list+1 {
			dst = append(dst, ',')
		}
		if string(f.text(f.member(i, ToolType))) != "function" {
			dst = append(dst, f.doc.Fields[i].Raw(f.body)...)
			continue
		}
		at, shift := i, 0
		if inner := f.doc.Member(i, ToolFunction); inner >= 0 && f.doc.Fields[inner].Kind == scan.Object {
			at, shift = inner, -ToolName // its members are the tool's, without the type
		}
		dst = append(append(dst, `{"type":"function","name":`...), orNull(f.raw(f.member(at, ToolName+shift)))...)
		dst = append(append(dst, `,"description":`...), orNull(f.raw(f.member(at, ToolDescription+shift)))...)
		dst = append(append(dst, `,"parameters":`...), orNull(f.raw(f.member(at, ToolParameters+shift)))...)
		strict := f.raw(f.member(at, ToolStrict+shift))
		if strict == nil {
			strict = []byte("false")
		}
		dst = append(append(append(dst, `,"strict":`...), strict...), '}')
	}
	return append(dst, ']')
}

// appendSources appends the links of search results, from the parameters of a
// completion. searched says that there was a search, failed that it found nothing for
// a failure.
func appendSources(dst, params []byte) (sources []byte, searched, failed bool) {
	for m := range jsontext.Members(params, 1) {
		switch string(m.Key) {
		case "web_search_failed":
			failed = string(params[m.From:m.To]) == "true"
		case "web_search_citations":
			searched = true
			list := params[m.From:m.To]
			for source := range jsontext.Elements(list) {
				for s := range jsontext.Members(source, 1) {
					if string(s.Key) == "url" {
						if len(dst) > 0 {
							dst = append(dst, ',')
						}
						dst = append(append(append(dst, `{"type":"url","url":`...), source[s.From:s.To]...), '}')
					}
				}
			}
		}
	}
	return dst, searched, failed
}
