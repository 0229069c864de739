package messages

import (
	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// hasCalls says that the model calls tools.
func (a *answer) hasCalls(said int32) bool {
	list := a.member(said, saidCalls)
	return list >= 0 && a.doc.Fields[list].Kind == scan.Array && a.doc.Fields[list].Len > 0
}

// needed writes the sealed thoughts alone: a client that did not ask for thoughts gets
// those that a model wants back with its calls.
func (a *answer) needed(details []byte) {
	var t thought
	for at, ok := t.next(details, 1); ok; at, ok = t.next(details, at) {
		if t.sealed() {
			a.open(`{"type":"redacted_thinking","data":"`)
			a.b = append(seal(a.b, t.entry), `"}`...)
		}
	}
}

// thoughts writes the reasoning, each piece with what makes it valid.
func (a *answer) thoughts(said int32, called bool) {
	text := a.text(a.member(said, saidReasoning))
	if text == nil {
		text = a.text(a.member(said, saidReason))
	}
	details := a.raw(a.member(said, saidDetails))
	listed := len(details) > 0 && details[0] == '['
	if !a.f.thinks {
		if listed && called {
			a.needed(details)
		}
		return
	}
	if !listed {
		a.thought(text, nil)
		return
	}
	reported := false
	var t thought
	for at, ok := t.next(details, 1); ok; at, ok = t.next(details, at) {
		own := t.text
		if !reported && own == nil && t.signature() {
			own = text // the details of a joined stream have the signatures alone
		}
		reported = reported || len(own) > 0
		switch {
		case t.sealed() && own == nil:
			a.open(`{"type":"redacted_thinking","data":"`)
			a.b = append(seal(a.b, t.entry), `"}`...)
		case t.sealed():
			a.thought(own, seal(nil, t.entry))
		case t.data != nil:
			a.open(`{"type":"redacted_thinking","data":"`)
			a.b = append(append(a.b, t.data...), `"}`...)
		default:
			a.thought(own, t.sign)
		}
	}
	if !reported {
		a.thought(text, nil)
	}
}

func (a *answer) thought(text, signature []byte) {
	if a.f.hides {
		text = nil
	}
	if len(text) == 0 && len(signature) == 0 {
		return
	}
	a.open(`{"type":"thinking","thinking":"`)
	a.b = append(append(a.b, text...), `","signature":"`...)
	a.b = append(append(a.b, signature...), `"}`...)
}

// thought is one entry of reasoning_details; its texts are as they are between
// their quotes.
type thought struct {
	entry, text, sign, data, format []byte
}

// sealed says that the entry is not one of Anthropic's, which clients know to send
// back, and has something that its maker wants back.
func (t *thought) sealed() bool {
	return len(t.format) > 0 && string(t.format) != dialect.AnthropicThoughts && (len(t.sign) > 0 || len(t.data) > 0)
}

func (t *thought) signature() bool { return len(t.sign) > 0 }

// next reads the entry of a list at or after at.
func (t *thought) next(list []byte, at int) (next int, ok bool) {
	from, to, ok := jsontext.NextElement(list, at)
	if !ok {
		return at, false
	}
	*t = thought{entry: list[from:to]}
	for m := range jsontext.Members(t.entry, 1) {
		if t.entry[m.From] != '"' {
			continue
		}
		switch value := t.entry[m.From+1 : m.To-1]; string(m.Key) {
		case "text", "summary":
			t.text = value
		case "signature":
			t.sign = value
		case "data":
			t.data = value
		case "format":
			t.format = value
		}
	}
	return to, true
}
