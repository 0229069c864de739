package messages

import (
	"bytes"
	"strconv"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// Answer is dialect.Form's.
func (f *Form) Answer(said *dialect.Completion, c *dialect.Chat) ([]byte, error) {
	a := answer{f: f, c: c, said: said, b: make([]byte, 0, len(said.Content)+len(said.Thought)+512)}
	a.b = append(a.b, `{"id":"`...)
	a.b = appendID(a.b, said.ID)
	a.b = append(a.b, `","type":"message","role":"assistant","model":`...)
	if len(said.Model) > 2 {
		a.b = append(a.b, said.Model...)
	} else {
		a.b = jsontext.AppendString(a.b, c.Model.ID)
	}
	a.b = append(a.b, `,"content":[`...)
	a.searches()
	a.thoughts()
	a.content()
	called := a.calls()
	a.b = append(a.b, "],"...)
	a.b = f.appendStop(a.b, said.Reason, said.Sequence, called)
	a.b = append(a.b, `,"container":null,"diagnostics":null,"usage":`...)
	a.b = appendUsage(a.b, &said.Usage, a.searched)
	if said.Cost != nil {
		a.b = append(append(a.b, `,"cost":`...), said.Cost...)
	}
	return append(a.b, '}'), nil
}

// answer is a message being written.
type answer struct {
	f        *Form
	c        *dialect.Chat
	said     *dialect.Completion
	b        []byte
	blocks   int
	searched bool
}

func (a *answer) open(head string) {
	if a.blocks > 0 {
		a.b = append(a.b, ',')
	}
	a.blocks++
	a.b = append(a.b, head...)
}

// searches reports the searches for the answer.
func (a *answer) searches() {
	found := jsontext.MemberOf(a.said.Parameters, citations)
	if found == nil {
		return
	}
	a.searched = true
	id := appendSearchID(nil, a.said.ID)
	a.open("")
	a.b = appendSearch(a.b, id, a.c.Searched)
	a.open("")
	a.b = appendFound(a.b, id, found)
}

// citations is the member of the parameters that has the search results.
const citations = "web_search_citations"

func appendSearchID(dst, completion []byte) []byte {
	return append(append(dst, SearchID...), bytes.TrimPrefix(completion, []byte("chatcmpl-"))...)
}

func appendSearch(dst, id []byte, query string) []byte {
	dst = append(append(dst, `{"type":"server_tool_use","id":"`...), id...)
	if dst = append(dst, `","name":"web_search","input":{`...); query != "" {
		dst = jsontext.AppendString(append(dst, `"query":`...), query)
	}
	return append(dst, `},"caller":{"type":"direct"}}`...)
}

func appendFound(dst, id, found []byte) []byte {
	dst = append(append(dst, `{"type":"web_search_tool_result","tool_use_id":"`...), id...)
	dst = append(dst, `","caller":{"type":"direct"},"content":[`...)
	n := 0
	gjson.ParseBytes(found).ForEach(func(_, t gjson.Result) bool {
		if n > 0 {
			dst = append(dst, ',')
		}
		n++
		dst = jsontext.AppendString(append(dst, `{"type":"web_search_result","url":`...), t.Get("url").String())
		dst = jsontext.Object(dst).Text("title", t.Get("title").String())
		dst = append(dst, `,"encrypted_content":"","page_age":`...)
		if date := t.Get("date").String(); date != "" {
			dst = jsontext.AppendString(dst, date)
		} else {
			dst = append(dst, "null"...)
		}
		dst = append(dst, '}')
		return true
	})
	return append(dst, "]}"...)
}

// content writes the text, with the sources that it cites.
func (a *answer) content() {
	text := jsontext.Quoted(a.said.Content)
	for part := range jsontext.Objects(a.said.Content) {
		text = append(text, jsontext.StringIn(part, "text")...)
	}
	if len(text) == 0 {
		text = a.said.Refusal
	}
	if len(text) == 0 {
		return
	}
	a.open(`{"type":"text","text":"`)
	a.b = append(append(a.b, text...), '"')
	n := 0
	for entry := range jsontext.Objects(a.said.Annotations) {
		c, ok := readCitation(entry)
		if !ok {
			continue
		}
		if n == 0 {
			a.b = append(a.b, `,"citations":[`...)
		} else {
			a.b = append(a.b, ',')
		}
		n++
		a.b = c.append(a.b)
	}
	if n > 0 {
		a.b = append(a.b, ']')
	}
	a.b = append(a.b, '}')
}

// calls writes the calls of tools.
func (a *answer) calls() (called bool) {
	for call := range a.said.ToolCalls() {
		if call.Custom {
			continue
		}
		called = true
		a.open(`{"type":"tool_use","id":"`)
		a.b = append(append(a.b, call.ID...), `","name":"`...)
		a.b = append(append(a.b, call.Name...), `","caller":{"type":"direct"},"input":`...)
		a.b = append(dialect.AppendInput(a.b, call.Input), '}')
	}
	return called
}

// appendStop appends why the answer ended.
func (f *Form) appendStop(dst, finish, stop []byte, called bool) []byte {
	reason := "end_turn"
	switch string(finish) {
	case "length":
		reason = "max_tokens"
	case "content_filter":
		reason = "refusal"
	case "tool_calls", "function_call":
		called = true
	}
	sequence := f.stopped(stop)
	switch {
	case reason != "end_turn":
	case called:
		reason = "tool_use"
	case sequence:
		reason = "stop_sequence"
	}
	dst = append(append(dst, `"stop_reason":"`...), reason...)
	dst = append(dst, `","stop_sequence":`...)
	if reason == "stop_sequence" {
		dst = append(append(append(dst, '"'), stop...), '"')
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"stop_details":`...)
	if reason == "refusal" {
		return append(dst, `{"type":"refusal","category":null,"explanation":null}`...)
	}
	return append(dst, "null"...)
}

// stopped says that a text, escaped as in JSON, is one of the client's
// stop sequences. Some servers tell which one ended an answer.
func (f *Form) stopped(stop []byte) bool {
	if len(stop) == 0 || len(f.stops) == 0 {
		return false
	}
	for one := range jsontext.Elements(f.stops) {
		if one[0] == '"' && bytes.Equal(one[1:len(one)-1], stop) {
			return true
		}
	}
	return false
}

// appendID appends a message's id for a completion's.
func appendID(dst, id []byte) []byte {
	id = bytes.TrimPrefix(id, []byte("chatcmpl-"))
	return append(append(dst, "msg_"...), id...)
}

// appendUsage appends the usage of an answer, in classes that are disjoint.
func appendUsage(dst []byte, u *dialect.Usage, searched bool) []byte {
	dst = appendCounts(dst, u, searched)
	dst = strconv.AppendInt(append(dst, `,"cache_creation":{"ephemeral_5m_input_tokens":`...), u.CacheWrite, 10)
	return append(dst, `,"ephemeral_1h_input_tokens":0},"inference_geo":null,"service_tier":"standard","speed":null}`...)
}

// appendCounts is appendUsage up to the part that the end of a stream repeats.
func appendCounts(dst []byte, u *dialect.Usage, searched bool) []byte {
	number := func(name string, n int64) { dst = strconv.AppendInt(append(dst, name...), n, 10) }
	number(`{"input_tokens":`, max(0, u.Prompt-u.Cached-u.CacheWrite))
	number(`,"cache_creation_input_tokens":`, u.CacheWrite)
	number(`,"cache_read_input_tokens":`, u.Cached)
	number(`,"output_tokens":`, u.Completion)
	number(`,"output_tokens_details":{"thinking_tokens":`, u.Reasoning)
	if searched {
		return append(dst, `},"server_tool_use":{"web_search_requests":1,"web_fetch_requests":0}`...)
	}
	return append(dst, `},"server_tool_use":null`...)
}
