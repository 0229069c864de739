package upstream

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
)

// responses answers POST /v1/responses (OpenAI).
func (c *conn) responses(x *exchange, asked gjson.Result) (int, bool, error) {
	streamed := x.noteEndpoint("responses", asked)
	if x.sc.Hosted {
		x.units = hostedTools(c.req.body)
	}
	if !gjson.ValidBytes(c.req.body) || !asked.IsObject() {
		return c.refuse(x, false, 400, notJSON)
	}
	if fault := c.check(Call{API: "responses", Asked: asked}); fault.Text != "" && x.units == 0 {
		return c.refuse(x, false, 400, fault.failure())
	}
	a := c.answerFor(asked, x)
	a.choices = a.choices[:1] // there is no n in this dialect
	if streamed {
		keep, err := (&responseStream{eventStream: eventStream{c: c, x: x, a: a}}).run()
		return 200, keep, err
	}
	if err := c.think(x); err != nil {
		return 0, false, err
	}
	if x.sc.Endless {
		return c.sendEndlessText(x)
	}
	x.tally.CompletionTokens, x.tally.ReasoningTokens = a.completion()
	return c.sendBody(x, a.response())
}

// hostedTools is how many tools a body has that the server itself carries out, by a reader
// that takes the last of two members, in any letters, as many do. Each call costs a unit.
func hostedTools(body []byte) (n int64) {
	var asked struct{ Tools []struct{ Type string } }
	if json.Unmarshal(body, &asked) != nil {
		return 0
	}
	for _, tool := range asked.Tools {
		if tool.Type != "function" && tool.Type != "custom" {
			n++
		}
	}
	return n
}

// includes says that the request wants something more in its answer.
func (a *answer) includes(name string) bool {
	return slices.ContainsFunc(a.asked.Get("include").Array(), func(v gjson.Result) bool { return v.Str == name })
}

// output is one item of a response. Its text is the sum of its deltas.
type output struct {
	kind string // reasoning, message, function_call
	id   string
	text []byte
	call *toolCall
}

// outputs are the items of a whole response.
func (a *answer) outputs() (list []output) {
	ch := &a.choices[0]
	if ch.reasoning.Len() > 0 {
		list = append(list, output{kind: "reasoning", id: "rs_" + a.id, text: appendText(nil, ch.reasoning)})
	}
	for i := range ch.tools {
		list = append(list, output{kind: "function_call", id: a.callID(i), text: appendText(nil, ch.tools[i].args),
			call: &ch.tools[i]})
	}
	if len(ch.tools) == 0 {
		list = append(list, output{kind: "message", id: "msg_" + a.id, text: appendText(nil, ch.content)})
	}
	return list
}

func (a *answer) callID(i int) string { return "fc_" + a.id + strconv.Itoa(i) }

// state is how a response ends: its status, and the members that say why.
func (a *answer) state() (status, failure, incomplete string) {
	switch {
	case a.sc.Finish == "failed":
		return "failed", responseError, "null"
	case a.sc.Finish == "content_filter":
		return "incomplete", "null", `{"reason":"content_filter"}`
	case a.choices[0].finish == "length":
		return "incomplete", "null", `{"reason":"max_output_tokens"}`
	}
	return "completed", "null", "null"
}

const responseError = `{"code":"server_error","message":"The model backend-7.internal.simulated is overloaded"}`

// response is the whole answer as one JSON document.
func (a *answer) response() []byte {
	total, reasoning := a.completion()
	status, _, _ := a.state()
	var items []byte
	for i, it := range a.outputs() {
		if i > 0 {
			items = append(items, ',')
		}
		items = a.appendOutput(items, &it, "completed", true)
	}
	return a.appendResponse(nil, status, items, a.usageTold(total, reasoning))
}

// usageTold is the usage member of a response at its end; nil if absent.
func (a *answer) usageTold(total, reasoning int64) []byte {
	switch a.sc.Usage {
	case "none", "afterdone", "early":
		return nil
	case "null":
		return []byte("null")
	}
	return a.appendResponseUsage(nil, total, reasoning)
}

// appendResponse is a response with the members that echo its request.
func (a *answer) appendResponse(dst []byte, status string, items, usage []byte) []byte {
	failure, incomplete := "null", "null"
	if status != "in_progress" {
		_, failure, incomplete = a.state()
	}
	echo := func(member, path, otherwise string) {
		dst = append(dst, `,"`+member+`":`...)
		dst = append(dst, cmp.Or(a.asked.Get(path).Raw, otherwise)...)
	}
	dst = append(dst, `{"id":"resp_`+a.id+`","object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, a.created, 10)
	dst = append(dst, `,"status":"`+status+`","access_programs":null,"background":false,"completed_at":`...)
	if status == "completed" {
		dst = strconv.AppendInt(dst, a.created, 10)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"error":`+failure+`,"incomplete_details":`+incomplete...)
	echo("instructions", "instructions", "null")
	echo("max_output_tokens", "max_output_tokens", "null")
	echo("max_tool_calls", "max_tool_calls", "null")
	dst = appendString(append(dst, `,"model":`...), a.model)
	dst = append(append(dst, `,"output":[`...), items...)
	dst = append(dst, ']')
	echo("parallel_tool_calls", "parallel_tool_calls", "true")
	dst = append(dst, `,"previous_response_id":null`...)
	echo("prompt_cache_key", "prompt_cache_key", "null")
	dst = append(dst, `,"reasoning":{"effort":`...)
	dst = append(dst, cmp.Or(a.asked.Get("reasoning.effort").Raw, "null")...)
	dst = append(dst, `,"summary":`...)
	dst = append(dst, cmp.Or(a.asked.Get("reasoning.summary").Raw, "null")+`},"safety_identifier":null`...)
	dst = append(dst, `,"service_tier":"default","store":false`...)
	echo("temperature", "temperature", "1.0")
	echo("text", "text", `{"format":{"type":"text"},"verbosity":"medium"}`)
	echo("tool_choice", "tool_choice", `"auto"`)
	echo("tools", "tools", "[]")
	echo("top_logprobs", "top_logprobs", "0")
	echo("top_p", "top_p", "1.0")
	echo("truncation", "truncation", `"disabled"`)
	if usage != nil {
		dst = append(append(dst, `,"usage":`...), usage...)
	}
	dst = append(dst, `,"user":null`...)
	echo("metadata", "metadata", "{}")
	return append(dst, '}')
}

// appendOutput is an item, with its text or without.
func (a *answer) appendOutput(dst []byte, it *output, status string, whole bool) []byte {
	said := ""
	if whole {
		said = string(it.text)
	}
	dst = append(dst, `{"id":"`+it.id+`","type":"`+it.kind+`"`...)
	switch it.kind {
	case "reasoning":
		if a.includes("reasoning.encrypted_content") {
			sealed := ""
			if whole {
				sealed = SealedThought + redacted(a.choices[0].reasoning.Len())
			}
			dst = append(dst, `,"encrypted_content":"`+sealed+`"`...)
		}
		if dst = append(dst, `,"summary":[`...); whole {
			dst = append(dst, `{"type":"summary_text","text":`...)
			dst = append(appendString(dst, said), '}')
		}
		return append(dst, "]}"...)
	case "message":
		if dst = append(dst, `,"status":"`+status+`","content":[`...); whole {
			dst = a.appendPart(dst, it.text)
		}
		return append(dst, `],"role":"assistant"}`...)
	}
	dst = append(dst, `,"status":"`+status+`","arguments":`...)
	dst = appendString(dst, said)
	dst = append(dst, `,"call_id":"`+it.call.id+`","name":`...)
	return append(appendString(dst, it.call.name), '}')
}

// SealedThought begins the encrypted content of thoughts, which their maker knows again.
const SealedThought = "gAAAAAsim"

func (a *answer) appendPart(dst, said []byte) []byte {
	if a.sc.SaidIn == "refusal" {
		return append(appendString(append(dst, `{"type":"refusal","refusal":`...), string(said)), '}')
	}
	dst = append(dst, `{"type":"output_text","annotations":[],"logprobs":[`...)
	if len(said) > 0 {
		dst = a.appendResponseLogprobs(dst, a.choices[0].content, true)
	}
	return append(appendString(append(dst, `],"text":`...), string(said)), '}')
}

func (a *answer) appendResponseLogprobs(dst []byte, t text, bytes bool) []byte {
	for i := range t.Len() {
		if !a.includes("message.output_text.logprobs") {
			return dst
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		token := t.At(i)
		dst = appendString(append(dst, `{"token":`...), token)
		if bytes {
			dst = append(dst, `,"bytes":[`...)
			for k := range len(token) {
				if k > 0 {
					dst = append(dst, ',')
				}
				dst = strconv.AppendInt(dst, int64(token[k]), 10)
			}
			dst = append(dst, ']')
		}
		dst = append(dst, `,"logprob":-0.25,"top_logprobs":[]}`...)
	}
	return dst
}

// appendResponseUsage is the usage object, honest or not as the scenario says.
func (a *answer) appendResponseUsage(dst []byte, completion, reasoning int64) []byte {
	u := a.usageOf(completion, reasoning)
	if a.sc.Usage == "totalonly" {
		return append(appendMembers(dst, member{`{"total_tokens":`, u.total}), '}')
	}
	return append(appendMembers(dst, member{`{"input_tokens":`, u.prompt},
		member{`,"input_tokens_details":{"cached_tokens":`, u.cached}, member{`,"cache_write_tokens":`, u.written},
		member{`},"output_tokens":`, u.completion}, member{`,"output_tokens_details":{"reasoning_tokens":`, u.reasoning},
		member{`},"total_tokens":`, u.total}), '}')
}
