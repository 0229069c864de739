package responses

import (
	"bytes"
	"errors"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

var errNoAnswer = errors.New("the completion has no message")

// Answer is dialect.Form. The output has the order of addendum 6.3: thoughts,
// searches, calls and text.
func (f *Form) Answer(completion []byte, c *dialect.Chat) ([]byte, error) {
	f.searched = c.Searched
	o := outcome{status: "completed"}
	var choices []byte
	start := jsontext.SkipSpace(completion, 0)
	if start >= len(completion) || completion[start] != '{' {
		return nil, errNoAnswer
	}
	for m := range jsontext.Members(completion, start+1) {
		value := completion[m.From:m.To]
		switch {
		case string(m.Key) == "choices":
			choices = value
		case string(m.Key) == "usage":
			dialect.ReadUsage(value, &o.usage)
		case string(m.Key) == "cost":
			o.cost = value
		case dialect.IsParameters(m.Key, f.o.Brand) && value[0] == '{':
			o.params, o.brand = value, m.Key
		}
	}
	if len(choices) == 0 || choices[0] != '[' {
		return nil, errNoAnswer
	}
	from, to, ok := jsontext.NextElement(choices, 1)
	if !ok || choices[from] != '{' {
		return nil, errNoAnswer
	}
	choice := choices[from:to]
	message := jsontext.MemberOf(choice, "message")
	if len(message) == 0 || message[0] != '{' {
		return nil, errNoAnswer
	}
	if !o.usage.Seen {
		dialect.ReadUsage(jsontext.MemberOf(choice, "usage"), &o.usage)
	}
	switch string(jsontext.MemberOf(choice, "finish_reason")) {
	case `"length"`:
		o.status, o.reason = "incomplete", "max_output_tokens"
	case `"content_filter"`:
		o.status, o.reason = "incomplete", "content_filter"
	}
	a := answer{f: f, o: &o, dst: make([]byte, 0, len(completion)+answerRoom)}
	a.dst = f.appendHead(a.dst, c, &o)
	a.thoughts(message)
	a.search()
	a.calls(jsontext.MemberOf(message, "tool_calls"))
	a.message(message, jsontext.MemberOf(jsontext.MemberOf(choice, "logprobs"), "content"))
	a.dst = f.appendTail(a.dst, &o)
	f.keepResponse(a.dst)
	return a.dst, nil
}

// answerRoom is about the size of a response without the words of a completion.
const answerRoom = 2 << 10

// answer is a response being written.
type answer struct {
	f    *Form
	o    *outcome
	dst  []byte
	n    int  // items so far
	next item // the one being written
}

func (a *answer) beginItem(kind itemKind) *item {
	a.next.reset(kind, a.n)
	return &a.next
}

func (a *answer) end(status string) {
	if a.n > 0 {
		a.dst = append(a.dst, ',')
	}
	a.n++
	from := len(a.dst)
	a.dst = a.f.appendItem(a.dst, &a.next, status, false)
	a.f.keep(a.dst[from:])
}

// thoughts writes one reasoning item of all that the model thought.
func (a *answer) thoughts(message []byte) {
	text := jsontext.StringIn(message, "reasoning_content")
	if len(text) == 0 {
		text = jsontext.StringIn(message, "reasoning")
	}
	details := jsontext.MemberOf(message, "reasoning_details")
	it := a.beginItem(reasoningItem)
	it.text = append(it.text, text...)
	content := jsontext.MemberOf(message, "content")
	eachObject(details, func(entry []byte) {
		words := jsontext.StringIn(entry, "text")
		if words == nil {
			words = jsontext.StringIn(entry, "summary")
		}
		if len(text) == 0 {
			it.text = append(it.text, words...)
		}
		if len(jsontext.StringIn(entry, "signature")) > 0 || len(jsontext.StringIn(entry, "data")) > 0 {
			it.addDetail(entry, false)
		}
	})
	eachObject(content, func(part []byte) {
		inner := jsontext.MemberOf(part, "thinking")
		if len(inner) > 0 && inner[0] == '"' {
			it.text = append(it.text, inner[1:len(inner)-1]...)
		}
		eachObject(inner, func(part []byte) { it.text = append(it.text, jsontext.StringIn(part, "text")...) })
	})
	if len(it.text) > 0 || len(it.details) > 0 {
		a.end("completed")
	}
}

// search writes that there was a search before the model was asked.
func (a *answer) search() {
	it := a.beginItem(searchItem)
	var searched, failed bool
	it.sources, searched, failed = appendSources(it.sources, a.o.params)
	switch {
	case !searched, failed && a.f.o.Spec:
	case failed:
		a.end("failed")
	default:
		a.end("completed")
	}
}

// calls writes the calls, each under an id of its own.
func (a *answer) calls(list []byte) {
	var ids [][]byte
	eachObject(list, func(call []byte) {
		kind, function := callItem, jsontext.MemberOf(call, "function")
		input := jsontext.StringIn(function, "arguments")
		if custom := jsontext.MemberOf(call, "custom"); custom != nil {
			kind, function, input = customItem, custom, jsontext.StringIn(custom, "input")
		}
		if len(function) == 0 || function[0] != '{' || a.n >= maxItems {
			return
		}
		it := a.beginItem(kind)
		id := jsontext.StringIn(call, "id")
		for _, other := range ids {
			if bytes.Equal(other, id) {
				id = nil
			}
		}
		if id != nil {
			ids = append(ids, id)
		}
		it.callID = append(it.callID, id...)
		a.f.nameCall(it, jsontext.StringIn(function, "name"))
		it.text = append(it.text, input...)
		it.unwrap()
		a.end(a.last())
	})
}

// last is the status of an item that may have been cut.
func (a *answer) last() string {
	switch {
	case a.o.status == "completed":
		return "completed"
	case a.f.o.Spec:
		return "failed" // the word of addendum 6.3
	}
	return "incomplete"
}

// message writes what the model said.
func (a *answer) message(message, logprobs []byte) {
	content, refusal := jsontext.MemberOf(message, "content"), jsontext.StringIn(message, "refusal")
	it := a.beginItem(messageItem)
	part := func(kind partKind, words []byte) {
		if it.part != kind {
			it.endPart(a.f.o.Spec)
			it.part = kind
			it.count++
		}
		it.text = append(it.text, words...)
	}
	switch {
	case len(content) == 0:
	case content[0] == '"' && (len(content) > 2 || a.n == 0 && len(refusal) == 0):
		part(textPart, content[1:len(content)-1])
	case content[0] == '[':
		eachObject(content, func(p []byte) {
			if words := jsontext.StringIn(p, "text"); len(words) > 0 && jsontext.MemberOf(p, "thinking") == nil {
				part(textPart, words)
			} else if words := jsontext.StringIn(p, "refusal"); len(words) > 0 {
				part(refusalPart, words)
			}
		})
	}
	if len(logprobs) > 2 && logprobs[0] == '[' && it.part == textPart {
		it.logprobs = append(it.logprobs, bytes.TrimSpace(logprobs[1:len(logprobs)-1])...)
	}
	annotations := jsontext.MemberOf(message, "annotations")
	eachObject(annotations, func(annotation []byte) {
		if it.part != textPart {
			part(textPart, nil)
		}
		if it.notes++; it.notes > 1 {
			it.annotations = append(it.annotations, ',')
		}
		it.annotations = appendAnnotation(it.annotations, annotation)
	})
	if len(refusal) > 0 {
		part(refusalPart, refusal)
	}
	if it.part != noPart || len(it.parts) > 0 {
		a.end(a.last())
	}
}

// eachObject calls do with the objects of a list; what is not a list has none.
func eachObject(list []byte, do func(object []byte)) {
	if len(list) == 0 || list[0] != '[' {
		return
	}
	for one := range jsontext.Elements(list) {
		if one[0] == '{' {
			do(one)
		}
	}
}
