package gemini

import (
	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// system joins system and developer messages, wherever they are, into the
// systemInstruction. Where they are all there is, they are the user's turn.
func (r *request) system() {
	n := 0
	open := func() {
		if n == 0 {
			r.b = append(r.b, `,"systemInstruction":{"parts":[`...)
		} else {
			r.b = append(r.b, ',')
		}
		n++
	}
	if len(r.SystemPrompt) > 0 {
		open()
		r.b = append(jsontext.AppendString(append(r.b, `{"text":`...), r.SystemPrompt), '}')
	}
	for m, role := range r.Messages() {
		if r.alone || role != "system" && role != "developer" {
			continue
		}
		for _, raw := range r.Texts(m) {
			open()
			r.b = append(append(append(r.b, `{"text":`...), raw...), '}')
		}
	}
	if n > 0 {
		r.b = append(r.b, "]}"...)
	}
}

// contents writes the turns: consecutive messages of one role are one turn, and
// the results of an assistant's calls are one of their own behind it.
func (r *request) contents() {
	r.alone = true
	for m, role := range r.Messages() {
		r.alone = r.alone && (role == "system" || role == "developer")
		if role == "user" && r.says(m) {
			r.last = m
		}
	}
	r.b = append(r.b, `"contents":[`...)
	for m, role := range r.Messages() {
		switch {
		case role == "user", r.alone:
			r.results()
			r.role = "user"
			r.content(m)
		case role == "assistant":
			r.results()
			r.role = "model"
			r.assistant(m)
		case role == "tool":
			r.result(m)
		}
	}
	r.results()
	last := r.open
	r.endTurn()
	r.b = append(r.b, ']')
	switch {
	case r.turns == 0:
		r.Fail("messages", "The messages have no text but white space.")
	case last == "model" && r.model.noPrefill:
		r.Fail("messages", "For this model the last message must be the user's or a tool's.")
	}
}

// says that a user's message has something that makes a turn.
func (r *request) says(m int32) bool {
	content := r.Doc.Member(m, dialect.MessageContent)
	if content >= 0 && r.Doc.Fields[content].Kind == scan.Array {
		for p := content + 1; p < r.Doc.Fields[content].Next; p = r.Doc.Fields[p].Next {
			if kind := string(r.Text(r.Doc.Member(p, dialect.PartType))); kind != "text" && kind != "refusal" {
				return true
			}
		}
	}
	for range r.Texts(m) {
		return true
	}
	return false
}

// firstTurn goes before a conversation that the assistant begins, as chat pages
// with a greeting do: a call may follow a user's turn only.
const firstTurn = `{"role":"user","parts":[{"text":"."}]},`

// part begins a part. A turn begins with its first part and ends with the first
// one of another role, so that messages without any leave no trace.
func (r *request) part() {
	if r.role != r.open {
		r.endTurn()
		r.beginTurn(r.role)
	}
	if r.parts > 0 {
		r.b = append(r.b, ',')
	}
	r.parts++
}

func (r *request) beginTurn(role string) {
	if r.turns > 0 {
		r.b = append(r.b, ',')
	} else if role == "model" {
		r.b = append(r.b, firstTurn...)
	}
	r.b = append(append(append(r.b, `{"role":"`...), role...), `","parts":[`...)
	r.turns++
	r.open, r.parts = role, 0
}

func (r *request) endTurn() {
	if r.open != "" {
		r.b = append(r.b, "]}"...)
	}
	r.open, r.parts = "", 0
}

// text writes a text part; signature is its own, nil if absent.
func (r *request) text(raw, signature []byte) {
	r.part()
	r.b = append(append(r.b, `{"text":`...), raw...)
	r.sign(signature)
	r.b = append(r.b, '}')
}

func (r *request) sign(signature []byte) {
	if len(signature) > 2 {
		r.b = append(append(r.b, `,"thoughtSignature":`...), signature...)
	}
}

// assistant writes an assistant's message: its thoughts, its text, its calls, each
// with the signature that came with it.
func (r *request) assistant(m int32) {
	var k keptThoughts
	r.keep(m, &k)
	r.thoughts(m, &k)
	r.said(m, &k)
	r.toolCalls(m, &k)
}

// said writes the assistant's text. The signature of a text is at its end.
func (r *request) said(m int32, k *keptThoughts) {
	last := 0
	for range r.Texts(m) {
		last++
	}
	if last == 0 && len(k.text) > 2 && !r.hasCalls(m) {
		r.text([]byte(`""`), k.text)
		return
	}
	if content := r.Doc.Member(m, dialect.MessageContent); content >= 0 && r.Doc.Fields[content].Kind == scan.Array {
		for p := content + 1; p < r.Doc.Fields[content].Next; p = r.Doc.Fields[p].Next {
			if kind := string(r.Text(r.Doc.Member(p, dialect.PartType))); kind != "text" && kind != "refusal" {
				r.Fail(r.PathOf(p), "An assistant's message may have parts of text only.")
			}
		}
	}
	n := 0
	for _, raw := range r.Texts(m) {
		if n++; n == last {
			r.text(raw, k.text)
			k.text = nil
		} else {
			r.text(raw, nil)
		}
	}
}
