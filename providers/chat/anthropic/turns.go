package anthropic

import (
	"bytes"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// system joins system and developer messages, wherever they stand, into the
// top-level prompt. Where they are all there is, they are the user's turn:
// the dialect has no conversation without one.
func (w *request) system() {
	open := func() {
		if w.blocks == 0 {
			w.b = append(w.b, `,"system":[`...)
		}
	}
	w.blocks = 0
	if len(w.c.SystemPrompt) > 0 {
		open()
		w.b = append(w.b, `{"type":"text","text":`...)
		w.b = append(jsontext.AppendString(w.b, w.c.SystemPrompt), '}')
		w.blocks++
	}
	w.alone = true
	w.eachMessage(func(_ int32, role string) { w.alone = w.alone && (role == "system" || role == "developer") })
	w.eachMessage(func(m int32, role string) {
		if w.alone || role != "system" && role != "developer" {
			return
		}
		w.eachText(m, func(raw []byte, cache int32) {
			open()
			w.text(raw, cache)
		})
	})
	if w.wantsJSON {
		open()
		w.text([]byte(onlyJSON), -1)
	}
	if w.blocks > 0 {
		w.b = append(w.b, ']')
	}
	w.blocks, w.textTo = 0, 0
}

const onlyJSON = `"Answer with one JSON object and nothing else: no other text, and no code fence around it."`

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

// eachText calls f for the texts of a message, as JSON strings, with the mark
// for caching that belongs to each (-1: none). Texts of white space alone, which
// the dialect refuses, are left out.
func (w *request) eachText(m int32, f func(raw []byte, cache int32)) {
	content := w.doc.Member(m, dialect.MessageContent)
	if content < 0 {
		return
	}
	switch field := &w.doc.Fields[content]; field.Kind {
	case scan.String:
		if raw := w.c.Raw(content); !dialect.IsBlank(raw) {
			f(raw, w.doc.Member(m, dialect.MessageCacheControl))
		}
	case scan.Array:
		for p := content + 1; p < field.Next; p = w.doc.Fields[p].Next {
			raw := w.c.Raw(w.doc.Member(p, dialect.PartText))
			if raw == nil {
				raw = w.c.Raw(w.doc.Member(p, dialect.PartRefusal))
			}
			if len(raw) > 2 && raw[0] == '"' && !dialect.IsBlank(raw) {
				f(raw, w.partCache(m, p))
			}
		}
	}
}

// partCache is the mark for caching of a part: its own, or the message's for
// the last part.
func (w *request) partCache(m, p int32) int32 {
	if own := w.doc.Member(p, dialect.PartCacheControl); own >= 0 {
		return own
	}
	if content := w.doc.Member(m, dialect.MessageContent); w.doc.Fields[p].Next == w.doc.Fields[content].Next {
		return w.doc.Member(m, dialect.MessageCacheControl)
	}
	return -1
}

// messages writes the turns: consecutive messages of one role are one turn,
// and answers of tools belong to the user's.
func (w *request) messages() {
	w.b = append(w.b, `,"messages":[`...)
	w.eachMessage(func(m int32, role string) {
		switch {
		case role == "user", w.alone:
			w.answered()
			w.turn("user")
			w.content(m)
		case role == "assistant":
			w.answered()
			w.turn("assistant")
			w.thinking(m)
			w.content(m)
			w.toolCalls(m)
		case role == "tool":
			w.turn("user")
			w.result(m)
		}
	})
	w.answered()
	w.lastText()
	w.endTurn()
	w.b = append(w.b, ']')
	if w.turns == 0 {
		w.fail("messages", "The messages have no text but white space.")
	}
}

// lastText ends a conversation whose last turn is the assistant's: the model
// goes on with that text, which may not end in white space.
func (w *request) lastText() {
	if w.open != "assistant" {
		return
	}
	if w.model.noPrefill {
		w.fail("messages", "For this model the last message must be the user's or a tool's.")
	}
	end := w.textTo
	for end > w.textFrom {
		if w.b[end-1] == ' ' {
			end--
			continue
		}
		slash := end - 1
		for slash > w.textFrom && w.b[slash-1] == '\\' {
			slash--
		}
		if (end-1-slash)&1 == 0 || !bytes.ContainsRune([]byte("nrt"), rune(w.b[end-1])) {
			break
		}
		end -= 2
	}
	if end < w.textTo {
		w.b = append(w.b[:end], w.b[w.textTo:]...)
	}
}

// turn makes role the role of the blocks that follow.
func (w *request) turn(role string) { w.role = role }

// firstTurn goes before a conversation that the assistant begins, as chat pages
// with a greeting do; the dialect wants a user's turn there, and it wants text.
const firstTurn = `{"role":"user","content":[{"type":"text","text":"."}]},`

// block begins a block. A turn begins with its first block and ends with the
// first one of another role, so that messages without any leave no trace.
func (w *request) block() {
	if w.role != w.open {
		w.endTurn()
		if w.turns > 0 {
			w.b = append(w.b, ',')
		} else if w.role == "assistant" {
			w.b = append(w.b, firstTurn...)
		}
		w.b = append(append(append(w.b, `{"role":"`...), w.role...), `","content":[`...)
		w.turns++
		w.open, w.last = w.role, w.role
		if w.role == "assistant" {
			w.bare, w.thoughtFirst, w.waiting = false, false, len(w.calls)
		}
	}
	if w.blocks > 0 {
		w.b = append(w.b, ',')
	}
	w.blocks++
	w.textTo, w.others = 0, true
}

func (w *request) endTurn() {
	if w.open != "" {
		w.b = append(w.b, "]}"...)
	}
	w.open, w.blocks = "", 0
}

// text writes a text block, marked for caching if cache is a field.
func (w *request) text(raw []byte, cache int32) {
	w.block()
	w.b = append(w.b, `{"type":"text","text":`...)
	w.textFrom = len(w.b) + 1
	w.b = append(w.b, raw...)
	w.textTo = len(w.b) - 1
	w.cacheControl(cache)
	w.b = append(w.b, '}')
}

// cacheControl marks a block for caching. A longer life than the usual one
// costs the operator double and the customer the same: it is not passed on.
func (w *request) cacheControl(i int32) {
	if i >= 0 && w.doc.Fields[i].Kind == scan.Object {
		w.cached++
		w.b = append(w.b, `,"cache_control":{"type":"ephemeral"}`...)
	}
}

// input writes a call's arguments, JSON inside a string, as the object itself.
// What is not an object is kept under the name arguments, so that nothing is lost.
func (w *request) input(escaped []byte) {
	w.scratch = jsontext.AppendUnescaped(w.scratch[:0], escaped)
	text := bytes.TrimSpace(w.scratch)
	switch {
	case len(text) == 0:
		w.b = append(w.b, "{}"...)
	case text[0] == '{' && dialect.IsObject(text):
		w.b = append(w.b, text...)
	default:
		w.b = append(w.b, `{"arguments":"`...)
		w.b = append(append(w.b, escaped...), `"}`...)
	}
}

// thinking gives the model its own thoughts back, which tool use over several
// turns needs (addendum 5.2). They only count with their signature.
func (w *request) thinking(m int32) {
	signature := w.c.Raw(w.doc.Member(m, dialect.MessageThoughtSignature))
	text := w.c.Raw(w.doc.Member(m, dialect.MessageReasoningContent))
	details := w.doc.Member(m, dialect.MessageReasoningDetails)
	if details < 0 || w.doc.Fields[details].Kind != scan.Array {
		w.thought(text, signature)
		return
	}
	raw := w.c.Raw(details)
	for one := range jsontext.Elements(raw) {
		if one[0] == '{' {
			w.detail(one, text, signature)
		}
	}
}

// detail writes one entry of reasoning_details. The entry of a streamed answer
// has the signature alone: its text is the message's reasoning_content.
func (w *request) detail(entry, text, signature []byte) {
	var own, sign, data []byte
	for m := range jsontext.Members(entry, 1) {
		if entry[m.From] != '"' {
			continue
		}
		switch value := entry[m.From:m.To]; string(m.Key) {
		case "text":
			own = value
		case "signature":
			sign = value
		case "data":
			data = value
		}
	}
	switch {
	case len(data) > 2:
		w.block()
		w.thoughtFirst = w.thoughtFirst || w.blocks == 1
		w.b = append(append(w.b, `{"type":"redacted_thinking","data":`...), data...)
		w.b = append(w.b, '}')
	case len(own) > 2:
		w.thought(own, or(sign, signature))
	default:
		w.thought(text, or(sign, signature))
	}
}

func (w *request) thought(text, signature []byte) {
	if len(text) <= 2 || len(signature) <= 2 || text[0] != '"' || signature[0] != '"' {
		return
	}
	w.block()
	w.thoughtFirst = w.thoughtFirst || w.blocks == 1
	w.b = append(append(w.b, `{"type":"thinking","thinking":`...), text...)
	w.b = append(append(w.b, `,"signature":`...), signature...)
	w.b = append(w.b, '}')
}

func or(a, b []byte) []byte {
	if a != nil {
		return a
	}
	return b
}
