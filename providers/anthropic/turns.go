package anthropic

import (
	"bytes"

	"farebox/providers/dialect"
	"farebox/proxy/scan"
)

// system joins system and developer messages, wherever they stand, into the
// top-level prompt.
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
		w.b = append(dialect.AppendString(w.b, w.c.SystemPrompt), '}')
		w.blocks++
	}
	w.eachMessage(func(m int32, role string) {
		if role != "system" && role != "developer" {
			return
		}
		w.eachText(w.doc.Member(m, dialect.MessageContent), func(part int32, raw []byte) {
			open()
			w.text(raw, part)
		})
	})
	if w.blocks > 0 {
		w.b = append(w.b, ']')
	}
	w.blocks = 0
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

// eachText calls f for the texts of a content, as JSON strings; part is the
// element that holds it, -1 for a plain string. Empty texts, which the dialect
// refuses, are left out.
func (w *request) eachText(content int32, f func(part int32, raw []byte)) {
	if content < 0 {
		return
	}
	switch field := &w.doc.Fields[content]; field.Kind {
	case scan.String:
		if raw := w.c.Raw(content); len(raw) > 2 {
			f(-1, raw)
		}
	case scan.Array:
		for p := content + 1; p < field.Next; p = w.doc.Fields[p].Next {
			if raw := w.c.Raw(w.doc.Member(p, dialect.PartText)); len(raw) > 2 {
				f(p, raw)
			}
		}
	}
}

// messages writes the turns: consecutive messages of one role are one turn,
// and answers of tools belong to the user's.
func (w *request) messages() {
	w.b = append(w.b, `,"messages":[`...)
	w.eachMessage(func(m int32, role string) {
		switch role {
		case "user":
			w.turn("user")
			w.content(w.doc.Member(m, dialect.MessageContent))
		case "assistant":
			w.turn("assistant")
			w.thinking(m)
			w.content(w.doc.Member(m, dialect.MessageContent))
			w.calls(w.doc.Member(m, dialect.MessageToolCalls))
		case "tool":
			w.turn("user")
			w.result(m)
		}
	})
	w.endTurn()
	w.b = append(w.b, ']')
}

// turn makes role the role of the blocks that follow.
func (w *request) turn(role string) { w.role = role }

// block begins a block. A turn begins with its first block and ends with the
// first one of another role, so that messages without any leave no trace.
func (w *request) block() {
	if w.role != w.open {
		w.endTurn()
		if w.turns > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(append(append(w.b, `{"role":"`...), w.role...), `","content":[`...)
		w.turns++
		w.open = w.role
	}
	if w.blocks > 0 {
		w.b = append(w.b, ',')
	}
	w.blocks++
}

func (w *request) endTurn() {
	if w.open != "" {
		w.b = append(w.b, "]}"...)
	}
	w.open, w.blocks = "", 0
}

// text writes a text block; part, if any, may mark it for caching.
func (w *request) text(raw []byte, part int32) {
	w.block()
	w.b = append(w.b, `{"type":"text","text":`...)
	w.b = append(w.b, raw...)
	w.cacheControl(part)
	w.b = append(w.b, '}')
}

func (w *request) cacheControl(part int32) {
	if part < 0 {
		return
	}
	if i := w.doc.Member(part, dialect.PartCacheControl); i >= 0 && w.doc.Fields[i].Kind == scan.Object {
		w.member("cache_control", w.c.Raw(i))
	}
}

// calls writes an assistant's tool_calls as tool_use blocks.
func (w *request) calls(list int32) {
	if list < 0 || w.doc.Fields[list].Kind != scan.Array {
		return
	}
	for at := list + 1; at < w.doc.Fields[list].Next; at = w.doc.Fields[at].Next {
		f := w.doc.Member(at, dialect.CallTarget)
		if f < 0 {
			continue
		}
		id, name := w.c.Raw(w.doc.Member(at, dialect.CallID)), w.c.Raw(w.doc.Member(f, dialect.CallName))
		if id == nil || name == nil {
			continue
		}
		w.block()
		w.b = append(append(w.b, `{"type":"tool_use","id":`...), id...)
		w.b = append(append(w.b, `,"name":`...), name...)
		w.b = append(w.b, `,"input":`...)
		w.input(w.c.Text(w.doc.Member(f, dialect.CallInput)))
		w.b = append(w.b, '}')
	}
}

// input writes a call's arguments, JSON inside a string, as the object itself.
// What is no object is kept under the name arguments, so that nothing is lost.
func (w *request) input(escaped []byte) {
	w.scratch = dialect.AppendUnescaped(w.scratch[:0], escaped)
	text := bytes.TrimSpace(w.scratch)
	switch {
	case len(text) == 0:
		w.b = append(w.b, "{}"...)
	case text[0] == '{' && isObject(text):
		w.b = append(w.b, text...)
	default:
		w.b = append(w.b, `{"arguments":"`...)
		w.b = append(append(w.b, escaped...), `"}`...)
	}
}

var anyShape = scan.NewShape()

// isObject checks the text strictly: it goes into our own JSON.
func isObject(text []byte) bool {
	var doc scan.Document
	return doc.Skim(text, anyShape) == nil
}

// result writes a tool message as a tool_result block.
func (w *request) result(m int32) {
	id := w.c.Raw(w.doc.Member(m, dialect.MessageToolCallID))
	if id == nil {
		return
	}
	w.block()
	w.b = append(append(w.b, `{"type":"tool_result","tool_use_id":`...), id...)
	content := w.doc.Member(m, dialect.MessageContent)
	n := 0
	w.eachText(content, func(part int32, raw []byte) {
		if part < 0 {
			w.member("content", raw)
			return
		}
		if n == 0 {
			w.b = append(w.b, `,"content":[`...)
		} else {
			w.b = append(w.b, ',')
		}
		n++
		w.b = append(append(w.b, `{"type":"text","text":`...), raw...)
		w.b = append(w.b, '}')
	})
	if n > 0 {
		w.b = append(w.b, ']')
	}
	w.b = append(w.b, '}')
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
	for at := 1; ; {
		from, to, ok := dialect.NextElement(raw, at)
		if !ok {
			return
		}
		if at = to; raw[from] == '{' {
			w.detail(raw[from:to], text, signature)
		}
	}
}

// detail writes one entry of reasoning_details. The entry of a streamed answer
// has the signature alone: its text is the message's reasoning_content.
func (w *request) detail(entry, text, signature []byte) {
	var own, sign, data []byte
	var m dialect.Member
	for at, ok := dialect.NextMember(entry, 1, &m); ok; at, ok = dialect.NextMember(entry, at, &m) {
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
	case data != nil:
		w.block()
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
