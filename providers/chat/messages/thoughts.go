package messages

import (
	"farebox/providers/chat/dialect"
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
	var t dialect.Detail
	for at, ok := t.Next(details, 1); ok; at, ok = t.Next(details, at) {
		if t.Sealed() {
			a.open(`{"type":"redacted_thinking","data":"`)
			a.b = append(seal(a.b, t.Entry), `"}`...)
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
	var t dialect.Detail
	for at, ok := t.Next(details, 1); ok; at, ok = t.Next(details, at) {
		own := t.Text
		if !reported && own == nil && len(t.Signature) > 0 {
			own = text // the details of a joined stream have the signatures alone
		}
		reported = reported || len(own) > 0
		switch {
		case t.Sealed() && own == nil:
			a.open(`{"type":"redacted_thinking","data":"`)
			a.b = append(seal(a.b, t.Entry), `"}`...)
		case t.Sealed():
			a.thought(own, seal(nil, t.Entry))
		case t.Data != nil:
			a.open(`{"type":"redacted_thinking","data":"`)
			a.b = append(append(a.b, t.Data...), `"}`...)
		default:
			a.thought(own, t.Signature)
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
