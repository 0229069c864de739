package messages

import "farebox/providers/chat/dialect"

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
func (a *answer) thoughts() {
	text, details := a.said.Thought, a.said.Details
	if !a.f.thinks {
		called := false
		for range a.said.ToolCalls() {
			called = true
		}
		if called {
			a.needed(details)
		}
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
