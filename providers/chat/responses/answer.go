package responses

import (
	"bytes"
	"errors"
	"slices"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

var errNoAnswer = errors.New("the completion has no message")

// Answer is dialect.Form. The output has the order of addendum 6.3: thoughts,
// searches, calls and text.
func (f *Form) Answer(said *dialect.Completion, c *dialect.Chat) ([]byte, error) {
	f.searched = c.Searched
	o := outcome{status: "completed"}
	if !said.Said {
		return nil, errNoAnswer
	}
	o.usage, o.cost, o.params = said.Usage, said.Cost, said.Parameters
	switch string(said.Reason) {
	case "length":
		o.status, o.reason = "incomplete", "max_output_tokens"
	case "content_filter":
		o.status, o.reason = "incomplete", "content_filter"
	}
	a := answer{f: f, o: &o, dst: make([]byte, 0, len(said.Content)+len(said.Thought)+answerRoom)}
	a.dst = f.appendHead(a.dst, c, &o)
	a.thoughts(said)
	a.search()
	a.calls(said)
	a.message(said)
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
func (a *answer) thoughts(said *dialect.Completion) {
	it := a.beginItem(reasoningItem)
	it.text = append(it.text, said.Thought...)
	var d dialect.Detail
	for at, ok := d.Next(said.Details, 1); ok; at, ok = d.Next(said.Details, at) {
		if len(said.Thought) == 0 {
			it.text = append(it.text, d.Text...)
		}
		if len(d.Signature) > 0 || len(d.Data) > 0 {
			it.addDetail(d.Entry, false)
		}
	}
	for part := range jsontext.Objects(said.Content) {
		inner := jsontext.MemberOf(part, "thinking")
		it.text = append(it.text, jsontext.Quoted(inner)...)
		for part := range jsontext.Objects(inner) {
			it.text = append(it.text, jsontext.StringIn(part, "text")...)
		}
	}
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
func (a *answer) calls(said *dialect.Completion) {
	var ids [][]byte
	for call := range said.ToolCalls() {
		if a.n >= maxItems {
			return
		}
		kind := callItem
		if call.Custom {
			kind = customItem
		}
		it := a.beginItem(kind)
		if !slices.ContainsFunc(ids, func(id []byte) bool { return bytes.Equal(id, call.ID) }) {
			it.callID = append(it.callID, call.ID...)
			ids = append(ids, call.ID)
		}
		a.f.nameCall(it, call.Name)
		it.text = append(it.text, call.Input...)
		it.unwrap()
		a.end(a.last())
	}
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

// message writes the model's text.
func (a *answer) message(said *dialect.Completion) {
	content, refusal := said.Content, said.Refusal
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
		for p := range jsontext.Objects(content) {
			if words := jsontext.StringIn(p, "text"); len(words) > 0 && jsontext.MemberOf(p, "thinking") == nil {
				part(textPart, words)
			} else if words := jsontext.StringIn(p, "refusal"); len(words) > 0 {
				part(refusalPart, words)
			}
		}
	}
	if it.part == textPart {
		it.logprobs = append(it.logprobs, said.Logprobs...)
	}
	for annotation := range jsontext.Objects(said.Annotations) {
		if it.part != textPart {
			part(textPart, nil)
		}
		if it.notes++; it.notes > 1 {
			it.annotations = append(it.annotations, ',')
		}
		it.annotations = appendAnnotation(it.annotations, annotation)
	}
	if len(refusal) > 0 {
		part(refusalPart, refusal)
	}
	if it.part != noPart || len(it.parts) > 0 {
		a.end(a.last())
	}
}
