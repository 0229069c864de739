package messages

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

var (
	functionShape = names("name", "arguments")
	callShape     = nested(below{"function": functionShape}, "index", "id", "type", "function")
	saidShape     = nested(below{"tool_calls": callShape}, "role", "content", "reasoning_content", "reasoning",
		"reasoning_details", "tool_calls", "annotations", "refusal")
	choiceShape = nested(below{"message": saidShape, "delta": saidShape}, "index", "message", "delta", "finish_reason",
		"stop_reason")
	completionShape = nested(below{"choices": choiceShape}, "id", "model", "choices", "usage", "error", "cost")
)

const (
	answerID = iota
	answerModel
	answerChoices
	answerUsage
	answerError
	answerCost
)

const (
	choiceIndex = iota
	choiceMessage
	choiceDelta
	choiceFinish
	choiceStop
)

const (
	_ = iota // role
	saidContent
	saidReasoning
	saidReason // its other name
	saidDetails
	saidCalls
	saidAnnotations
	saidRefusal
)

const (
	callIndex = iota
	callID
	_ // type
	callFunction
)

var errNoCompletion = errors.New("the answer is not a chat completion")

// values reads the fields of one completion or chunk.
type values struct {
	body []byte
	doc  *scan.Document
}

func (v *values) raw(i int32) []byte {
	if i < 0 || v.doc.Fields[i].Kind == scan.Null {
		return nil
	}
	return v.doc.Fields[i].Raw(v.body)
}

func (v *values) text(i int32) []byte {
	if i < 0 || v.doc.Fields[i].Kind != scan.String {
		return nil
	}
	f := &v.doc.Fields[i]
	return v.body[f.From+1 : f.To-1]
}

// member is a member of the field i; -1 when there is no such field.
func (v *values) member(i int32, id int) int32 {
	if i < 0 {
		return -1
	}
	return v.doc.Member(i, id)
}

// choice is the first choice; -1 if absent.
func (v *values) choice() int32 {
	list := v.doc.TopIndex(answerChoices)
	if list < 0 || v.doc.Fields[list].Kind != scan.Array || v.doc.Fields[list].Next == list+1 {
		return -1
	}
	return list + 1
}

// Answer is dialect.Form's.
func (f *Form) Answer(completion []byte, c *dialect.Chat) ([]byte, error) {
	var doc scan.Document
	completion, err := dialect.SkimLoose(&doc, completion, completionShape)
	if err != nil {
		return nil, err
	}
	a := answer{values: values{completion, &doc}, f: f, c: c, b: make([]byte, 0, len(completion)+512)}
	choice := a.choice()
	if choice < 0 {
		return nil, errNoCompletion
	}
	said := a.member(choice, choiceMessage)
	a.b = append(a.b, `{"id":"`...)
	a.b = appendID(a.b, a.text(doc.TopIndex(answerID)))
	a.b = append(a.b, `","type":"message","role":"assistant","model":`...)
	if name := a.raw(doc.TopIndex(answerModel)); len(name) > 2 {
		a.b = append(a.b, name...)
	} else {
		a.b = jsontext.AppendString(a.b, c.Model.ID)
	}
	a.b = append(a.b, `,"content":[`...)
	a.searches()
	a.thoughts(said, a.hasCalls(said))
	a.content(said)
	called := a.calls(said)
	a.b = append(a.b, "],"...)
	a.b = f.appendStop(a.b, a.text(a.member(choice, choiceFinish)), a.text(a.member(choice, choiceStop)), called)
	a.b = append(a.b, `,"container":null,"diagnostics":null,"usage":`...)
	var u dialect.Usage
	dialect.ReadUsage(a.raw(doc.TopIndex(answerUsage)), &u)
	a.b = appendUsage(a.b, &u, a.searched)
	if cost := a.raw(doc.TopIndex(answerCost)); cost != nil {
		a.b = append(append(a.b, `,"cost":`...), cost...)
	}
	return append(a.b, '}'), nil
}

// answer is a completion becoming a message.
type answer struct {
	values
	f        *Form
	c        *dialect.Chat
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
	found := jsontext.MemberOf(a.f.parameters(a.body), citations)
	if found == nil {
		return
	}
	a.searched = true
	id := appendSearchID(nil, a.text(a.doc.TopIndex(answerID)))
	a.open("")
	a.b = appendSearch(a.b, id, a.c.Searched)
	a.open("")
	a.b = appendFound(a.b, id, found)
}

// citations is the member of the parameters that has the search results.
const citations = "web_search_citations"

// parameters are those of a completion; nil: it has none.
func (f *Form) parameters(body []byte) []byte {
	if f.Brand == "" || !bytes.Contains(body, []byte(citations)) {
		return nil
	}
	return jsontext.MemberOf(body, f.Brand+"_parameters")
}

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
func (a *answer) content(said int32) {
	i := a.member(said, saidContent)
	text := a.text(i)
	if text == nil && i >= 0 && a.doc.Fields[i].Kind == scan.Array {
		text = joined(a.raw(i))
	}
	if len(text) == 0 {
		text = a.text(a.member(said, saidRefusal))
	}
	if len(text) == 0 {
		return
	}
	a.open(`{"type":"text","text":"`)
	a.b = append(append(a.b, text...), '"')
	n := 0
	for entry := range jsontext.Elements(a.raw(a.member(said, saidAnnotations))) {
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

// joined is the texts of an answer's parts, escaped as in JSON.
func joined(parts []byte) (text []byte) {
	gjson.ParseBytes(parts).ForEach(func(_, p gjson.Result) bool {
		if t := p.Get("text"); t.Type == gjson.String && len(t.Raw) >= 2 {
			text = append(text, t.Raw[1:len(t.Raw)-1]...)
		}
		return true
	})
	return text
}

// calls writes the calls of tools.
func (a *answer) calls(said int32) (called bool) {
	list := a.member(said, saidCalls)
	if list < 0 || a.doc.Fields[list].Kind != scan.Array {
		return false
	}
	for i := list + 1; i < a.doc.Fields[list].Next; i = a.doc.Fields[i].Next {
		function := a.member(i, callFunction)
		if function < 0 {
			continue
		}
		called = true
		a.open(`{"type":"tool_use","id":"`)
		a.b = append(append(a.b, a.text(a.member(i, callID))...), `","name":"`...)
		a.b = append(append(a.b, a.text(a.member(function, 0))...), `","caller":{"type":"direct"},"input":`...)
		a.b = appendInput(a.b, a.text(a.member(function, 1)))
		a.b = append(a.b, '}')
	}
	return called
}

// appendInput writes a call's arguments, JSON inside a string, as the object itself.
// Any other value is kept under the name arguments, as a text.
func appendInput(dst, escaped []byte) []byte {
	from := len(dst)
	dst = jsontext.AppendUnescaped(dst, escaped)
	text := bytes.TrimSpace(dst[from:])
	switch {
	case len(text) == 0:
		return append(dst[:from], "{}"...)
	case dialect.IsObject(text):
		return append(dst[:from], text...)
	}
	dst = append(append(dst[:from], `{"arguments":"`...), escaped...)
	return append(dst, `"}`...)
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
