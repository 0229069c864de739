package gemini

import (
	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// system joins system and developer messages, wherever they stand, into the
// systemInstruction. Where they are all there is, they are the user's turn.
func (w *request) system() {
	n := 0
	open := func() {
		if n == 0 {
			w.b = append(w.b, `,"systemInstruction":{"parts":[`...)
		} else {
			w.b = append(w.b, ',')
		}
		n++
	}
	if len(w.c.SystemPrompt) > 0 {
		open()
		w.b = append(jsontext.AppendString(append(w.b, `{"text":`...), w.c.SystemPrompt), '}')
	}
	w.eachMessage(func(m int32, role string) {
		if w.alone || role != "system" && role != "developer" {
			return
		}
		w.eachText(m, func(raw []byte) {
			open()
			w.b = append(append(append(w.b, `{"text":`...), raw...), '}')
		})
	})
	if n > 0 {
		w.b = append(w.b, "]}"...)
	}
}

func (w *request) eachMessage(f func(m int32, role string)) {
	list := w.doc.TopIndex(dialect.ChatMessages)
	if list < 0 {
		return
	}
	for m := list + 1; m < w.doc.Fields[list].Next; m = w.doc.Fields[m].Next {
		if role := w.c.Text(w.doc.Member(m, dialect.MessageRole)); role != nil {
			f(m, string(role))
		}
	}
}

// eachText calls f for the texts of a message, as JSON strings. Texts of white
// space alone, which models refuse as a turn, are left out.
func (w *request) eachText(m int32, f func(raw []byte)) {
	content := w.doc.Member(m, dialect.MessageContent)
	if content < 0 {
		return
	}
	switch field := &w.doc.Fields[content]; field.Kind {
	case scan.String:
		if raw := w.c.Raw(content); !dialect.IsBlank(raw) {
			f(raw)
		}
	case scan.Array:
		for p := content + 1; p < field.Next; p = w.doc.Fields[p].Next {
			if raw := w.partText(p); raw != nil {
				f(raw)
			}
		}
	}
}

// partText is the text of a part or of its refusal; nil if absent.
func (w *request) partText(p int32) []byte {
	raw := w.c.Raw(w.doc.Member(p, dialect.PartText))
	if raw == nil {
		raw = w.c.Raw(w.doc.Member(p, dialect.PartRefusal))
	}
	if len(raw) <= 2 || raw[0] != '"' || dialect.IsBlank(raw) {
		return nil
	}
	return raw
}

// contents writes the turns: consecutive messages of one role are one turn, and
// the results of an assistant's calls are one of their own behind it.
func (w *request) contents() {
	w.alone = true
	w.eachMessage(func(m int32, role string) {
		w.alone = w.alone && (role == "system" || role == "developer")
		if role == "user" && w.says(m) {
			w.last = m
		}
	})
	w.b = append(w.b, `"contents":[`...)
	w.eachMessage(func(m int32, role string) {
		switch {
		case role == "user", w.alone:
			w.results()
			w.role = "user"
			w.content(m)
		case role == "assistant":
			w.results()
			w.role = "model"
			w.assistant(m)
		case role == "tool":
			w.result(m)
		}
	})
	w.results()
	last := w.open
	w.endTurn()
	w.b = append(w.b, ']')
	switch {
	case w.turns == 0:
		w.fail("messages", "The messages have no text but white space.")
	case last == "model" && w.model.noPrefill:
		w.fail("messages", "For this model the last message must be the user's or a tool's.")
	}
}

// says that a user's message has something that makes a turn.
func (w *request) says(m int32) bool {
	content := w.doc.Member(m, dialect.MessageContent)
	if content >= 0 && w.doc.Fields[content].Kind == scan.Array {
		for p := content + 1; p < w.doc.Fields[content].Next; p = w.doc.Fields[p].Next {
			if kind := string(w.c.Text(w.doc.Member(p, dialect.PartType))); kind != "text" && kind != "refusal" {
				return true
			}
		}
	}
	said := false
	w.eachText(m, func([]byte) { said = true })
	return said
}

// firstTurn goes before a conversation that the assistant begins, as chat pages
// with a greeting do: a call may follow a user's turn only.
const firstTurn = `{"role":"user","parts":[{"text":"."}]},`

// part begins a part. A turn begins with its first part and ends with the first
// one of another role, so that messages without any leave no trace.
func (w *request) part() {
	if w.role != w.open {
		w.endTurn()
		w.beginTurn(w.role)
	}
	if w.parts > 0 {
		w.b = append(w.b, ',')
	}
	w.parts++
}

func (w *request) beginTurn(role string) {
	if w.turns > 0 {
		w.b = append(w.b, ',')
	} else if role == "model" {
		w.b = append(w.b, firstTurn...)
	}
	w.b = append(append(append(w.b, `{"role":"`...), role...), `","parts":[`...)
	w.turns++
	w.open, w.parts = role, 0
}

func (w *request) endTurn() {
	if w.open != "" {
		w.b = append(w.b, "]}"...)
	}
	w.open, w.parts = "", 0
}

// text writes a text part; signature is what belongs to it, nil: nothing.
func (w *request) text(raw, signature []byte) {
	w.part()
	w.b = append(append(w.b, `{"text":`...), raw...)
	w.sign(signature)
	w.b = append(w.b, '}')
}

func (w *request) sign(signature []byte) {
	if len(signature) > 2 {
		w.b = append(append(w.b, `,"thoughtSignature":`...), signature...)
	}
}

// assistant writes an assistant's message: its thoughts, its text, its calls, each
// with the signature that came with it.
func (w *request) assistant(m int32) {
	var k keptThoughts
	w.keep(m, &k)
	w.thoughts(m, &k)
	w.said(m, &k)
	w.toolCalls(m, &k)
}

// said writes what the assistant said. The signature of a text is at its end.
func (w *request) said(m int32, k *keptThoughts) {
	last := 0
	w.eachText(m, func([]byte) { last++ })
	if last == 0 && len(k.text) > 2 && !w.hasCalls(m) {
		w.text([]byte(`""`), k.text)
		return
	}
	if content := w.doc.Member(m, dialect.MessageContent); content >= 0 && w.doc.Fields[content].Kind == scan.Array {
		for p := content + 1; p < w.doc.Fields[content].Next; p = w.doc.Fields[p].Next {
			if kind := string(w.c.Text(w.doc.Member(p, dialect.PartType))); kind != "text" && kind != "refusal" {
				w.fail(w.at(p), "An assistant's message may have parts of text only.")
			}
		}
	}
	n := 0
	w.eachText(m, func(raw []byte) {
		if n++; n == last {
			w.text(raw, k.text)
			k.text = nil
		} else {
			w.text(raw, nil)
		}
	})
}
