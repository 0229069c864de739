package anthropic

import (
	"bytes"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// system joins system and developer messages, wherever they are, into the
// top-level prompt. Where they are all there is, they are the user's turn:
// the dialect has no conversation without one.
func (r *request) system() {
	open := func() {
		if r.blocks == 0 {
			r.b = append(r.b, `,"system":[`...)
		}
	}
	r.blocks = 0
	if len(r.SystemPrompt) > 0 {
		open()
		r.b = append(r.b, `{"type":"text","text":`...)
		r.b = append(jsontext.AppendString(r.b, r.SystemPrompt), '}')
		r.blocks++
	}
	r.alone = true
	for _, role := range r.Messages() {
		r.alone = r.alone && (role == "system" || role == "developer")
	}
	for m, role := range r.Messages() {
		if r.alone || role != "system" && role != "developer" {
			continue
		}
		for p, raw := range r.Texts(m) {
			open()
			r.text(raw, r.partCache(m, p))
		}
	}
	if r.wantsJSON {
		open()
		r.text([]byte(onlyJSON), -1)
	}
	if r.blocks > 0 {
		r.b = append(r.b, ']')
	}
	r.blocks, r.textTo = 0, 0
}

const onlyJSON = `"Answer with one JSON object and nothing else: no other text, and no code fence around it."`

// partCache is the mark for caching of a part: its own, or the message's for
// the last part and for the whole content (-1); -1: it has none.
func (r *request) partCache(m, p int32) int32 {
	if p < 0 {
		return r.Doc.Member(m, dialect.MessageCacheControl)
	}
	if own := r.Doc.Member(p, dialect.PartCacheControl); own >= 0 {
		return own
	}
	if content := r.Doc.Member(m, dialect.MessageContent); r.Doc.Fields[p].Next == r.Doc.Fields[content].Next {
		return r.Doc.Member(m, dialect.MessageCacheControl)
	}
	return -1
}

// messages writes the turns: consecutive messages of one role are one turn,
// and answers of tools belong to the user's.
func (r *request) messages() {
	r.b = append(r.b, `,"messages":[`...)
	for m, role := range r.Messages() {
		switch {
		case role == "user", r.alone:
			r.answered()
			r.turn("user")
			r.content(m)
		case role == "assistant":
			r.answered()
			r.turn("assistant")
			r.thinking(m)
			r.content(m)
			r.toolCalls(m)
		case role == "tool":
			r.turn("user")
			r.result(m)
		}
	}
	r.answered()
	r.lastText()
	r.endTurn()
	r.b = append(r.b, ']')
	if r.turns == 0 {
		r.Fail("messages", "The messages have no text but white space.")
	}
}

// lastText ends a conversation whose last turn is the assistant's: the model
// goes on with that text, which may not end in white space.
func (r *request) lastText() {
	if r.open != "assistant" {
		return
	}
	if r.model.noPrefill {
		r.Fail("messages", "For this model the last message must be the user's or a tool's.")
	}
	end := r.textTo
	for end > r.textFrom {
		if r.b[end-1] == ' ' {
			end--
			continue
		}
		slash := end - 1
		for slash > r.textFrom && r.b[slash-1] == '\\' {
			slash--
		}
		if (end-1-slash)&1 == 0 || !bytes.ContainsRune([]byte("nrt"), rune(r.b[end-1])) {
			break
		}
		end -= 2
	}
	if end < r.textTo {
		r.b = append(r.b[:end], r.b[r.textTo:]...)
	}
}

// turn makes role the role of the blocks that follow.
func (r *request) turn(role string) { r.role = role }

// firstTurn goes before a conversation that the assistant begins, as chat pages
// with a greeting do; the dialect wants a user's turn there, and it wants text.
const firstTurn = `{"role":"user","content":[{"type":"text","text":"."}]},`

// block begins a block. A turn begins with its first block and ends with the
// first one of another role, so that messages without any leave no trace.
func (r *request) block() {
	if r.role != r.open {
		r.endTurn()
		if r.turns > 0 {
			r.b = append(r.b, ',')
		} else if r.role == "assistant" {
			r.b = append(r.b, firstTurn...)
		}
		r.b = append(append(append(r.b, `{"role":"`...), r.role...), `","content":[`...)
		r.turns++
		r.open, r.last = r.role, r.role
		if r.role == "assistant" {
			r.bare, r.thoughtFirst, r.calls = false, false, r.calls[:0]
			r.unanswered.Clear()
		}
	}
	if r.blocks > 0 {
		r.b = append(r.b, ',')
	}
	r.blocks++
	r.textTo, r.others = 0, true
}

func (r *request) endTurn() {
	if r.open != "" {
		r.b = append(r.b, "]}"...)
	}
	r.open, r.blocks = "", 0
}

// text writes a text block, marked for caching if cache is a field.
func (r *request) text(raw []byte, cache int32) {
	r.block()
	r.b = append(r.b, `{"type":"text","text":`...)
	r.textFrom = len(r.b) + 1
	r.b = append(r.b, raw...)
	r.textTo = len(r.b) - 1
	r.cacheControl(cache)
	r.b = append(r.b, '}')
}

// cacheControl marks a block for caching. A longer life than the usual one
// costs the operator double and the customer the same: it is not passed on.
func (r *request) cacheControl(i int32) {
	if i >= 0 && r.Doc.Fields[i].Kind == scan.Object {
		r.cached++
		r.b = append(r.b, `,"cache_control":{"type":"ephemeral"}`...)
	}
}

// thinking gives the model its own thoughts back, which tool use over several
// turns needs (addendum 5.2). They only count with their signature.
func (r *request) thinking(m int32) {
	signature := r.Raw(r.Doc.Member(m, dialect.MessageThoughtSignature))
	text := r.Raw(r.Doc.Member(m, dialect.MessageReasoningContent))
	details := r.Doc.Member(m, dialect.MessageReasoningDetails)
	if details < 0 || r.Doc.Fields[details].Kind != scan.Array {
		r.thought(text, signature)
		return
	}
	raw := r.Raw(details)
	for one := range jsontext.Elements(raw) {
		if one[0] == '{' {
			r.detail(one, text, signature)
		}
	}
}

// detail writes one entry of reasoning_details. The entry of a streamed answer
// has the signature alone: its text is the message's reasoning_content.
func (r *request) detail(entry, text, signature []byte) {
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
		r.block()
		r.thoughtFirst = r.thoughtFirst || r.blocks == 1
		r.b = append(append(r.b, `{"type":"redacted_thinking","data":`...), data...)
		r.b = append(r.b, '}')
	case len(own) > 2:
		r.thought(own, or(sign, signature))
	default:
		r.thought(text, or(sign, signature))
	}
}

func (r *request) thought(text, signature []byte) {
	if len(text) <= 2 || len(signature) <= 2 || text[0] != '"' || signature[0] != '"' {
		return
	}
	r.block()
	r.thoughtFirst = r.thoughtFirst || r.blocks == 1
	r.b = append(append(r.b, `{"type":"thinking","thinking":`...), text...)
	r.b = append(append(r.b, `,"signature":`...), signature...)
	r.b = append(r.b, '}')
}

func or(a, b []byte) []byte {
	if a != nil {
		return a
	}
	return b
}
