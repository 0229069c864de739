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
	if len(r.c.SystemPrompt) > 0 {
		open()
		r.b = append(jsontext.AppendString(append(r.b, `{"text":`...), r.c.SystemPrompt), '}')
	}
	r.eachMessage(func(m int32, role string) {
		if r.alone || role != "system" && role != "developer" {
			return
		}
		r.eachText(m, func(raw []byte) {
			open()
			r.b = append(append(append(r.b, `{"text":`...), raw...), '}')
		})
	})
	if n > 0 {
		r.b = append(r.b, "]}"...)
	}
}

func (r *request) eachMessage(f func(m int32, role string)) {
	list := r.doc.TopIndex(dialect.ChatMessages)
	if list < 0 {
		return
	}
	for m := list + 1; m < r.doc.Fields[list].Next; m = r.doc.Fields[m].Next {
		if role := r.c.Text(r.doc.Member(m, dialect.MessageRole)); role != nil {
			f(m, string(role))
		}
	}
}

// eachText calls f for the texts of a message, as JSON strings. Texts of white
// space alone, which models refuse as a turn, are left out.
func (r *request) eachText(m int32, f func(raw []byte)) {
	content := r.doc.Member(m, dialect.MessageContent)
	if content < 0 {
		return
	}
	switch field := &r.doc.Fields[content]; field.Kind {
	case scan.String:
		if raw := r.c.Raw(content); !dialect.IsBlank(raw) {
			f(raw)
		}
	case scan.Array:
		for p := content + 1; p < field.Next; p = r.doc.Fields[p].Next {
			if raw := r.partText(p); raw != nil {
				f(raw)
			}
		}
	}
}

// partText is the text of a part or of its refusal; nil if absent.
func (r *request) partText(p int32) []byte {
	raw := r.c.Raw(r.doc.Member(p, dialect.PartText))
	if raw == nil {
		raw = r.c.Raw(r.doc.Member(p, dialect.PartRefusal))
	}
	if len(raw) <= 2 || raw[0] != '"' || dialect.IsBlank(raw) {
		return nil
	}
	return raw
}

// contents writes the turns: consecutive messages of one role are one turn, and
// the results of an assistant's calls are one of their own behind it.
func (r *request) contents() {
	r.alone = true
	r.eachMessage(func(m int32, role string) {
		r.alone = r.alone && (role == "system" || role == "developer")
		if role == "user" && r.says(m) {
			r.last = m
		}
	})
	r.b = append(r.b, `"contents":[`...)
	r.eachMessage(func(m int32, role string) {
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
	})
	r.results()
	last := r.open
	r.endTurn()
	r.b = append(r.b, ']')
	switch {
	case r.turns == 0:
		r.fail("messages", "The messages have no text but white space.")
	case last == "model" && r.model.noPrefill:
		r.fail("messages", "For this model the last message must be the user's or a tool's.")
	}
}

// says that a user's message has something that makes a turn.
func (r *request) says(m int32) bool {
	content := r.doc.Member(m, dialect.MessageContent)
	if content >= 0 && r.doc.Fields[content].Kind == scan.Array {
		for p := content + 1; p < r.doc.Fields[content].Next; p = r.doc.Fields[p].Next {
			if kind := string(r.c.Text(r.doc.Member(p, dialect.PartType))); kind != "text" && kind != "refusal" {
				return true
			}
		}
	}
	said := false
	r.eachText(m, func([]byte) { said = true })
	return said
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
	r.eachText(m, func([]byte) { last++ })
	if last == 0 && len(k.text) > 2 && !r.hasCalls(m) {
		r.text([]byte(`""`), k.text)
		return
	}
	if content := r.doc.Member(m, dialect.MessageContent); content >= 0 && r.doc.Fields[content].Kind == scan.Array {
		for p := content + 1; p < r.doc.Fields[content].Next; p = r.doc.Fields[p].Next {
			if kind := string(r.c.Text(r.doc.Member(p, dialect.PartType))); kind != "text" && kind != "refusal" {
				r.fail(r.at(p), "An assistant's message may have parts of text only.")
			}
		}
	}
	n := 0
	r.eachText(m, func(raw []byte) {
		if n++; n == last {
			r.text(raw, k.text)
			k.text = nil
		} else {
			r.text(raw, nil)
		}
	})
}
