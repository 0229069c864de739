package gemini

import (
	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// thoughtFormat names the models that can read a thought again (addendum 5.2). Those of other
// makers' models are never sent: they are a 400 of the whole request.
const thoughtFormat = "google-gemini-v1"

// noSignature replaces a call's own that is lost, as in the history of another
// model: the vendor's documented word for "do not check this one".
const noSignature = `"skip_thought_signature_validator"`

// keptThoughts has the model's thoughts that an assistant's message kept: JSON strings
// out of its reasoning_details and thought_signature.
type keptThoughts struct {
	details []byte            // the list; nil if absent
	ours    bool              // some entry is of this dialect
	text    []byte            // signature of the text
	calls   map[string][]byte // signatures of this message's calls by their ids
	stray   []byte            // signature of an unknown call, for the first one
}

// entry is one of reasoning_details.
type entry struct{ kind, id, text, signature, data, format []byte }

// ours says that this dialect can have written it. Clients may lose the format.
func (e *entry) ours() bool { return len(e.format) == 0 || string(e.format) == `"`+thoughtFormat+`"` }

func (k *keptThoughts) each(f func(e *entry)) {
	for raw := range jsontext.Elements(k.details) {
		if raw[0] != '{' {
			continue
		}
		var e entry
		for m := range jsontext.Members(raw, 1) {
			value := raw[m.From:m.To]
			if value[0] != '"' {
				continue
			}
			switch string(m.Key) {
			case "type":
				e.kind = value
			case "id":
				e.id = value
			case "text":
				e.text = value
			case "signature":
				e.signature = value
			case "data":
				e.data = value
			case "format":
				e.format = value
			}
		}
		if e.ours() {
			f(&e)
		}
	}
}

// keep reads the thoughts that a message kept.
func (r *request) keep(m int32, k *keptThoughts) {
	if i := r.Doc.Member(m, dialect.MessageReasoningDetails); i >= 0 && r.Doc.Fields[i].Kind == scan.Array {
		k.details = r.Raw(i)
	}
	entries := 0
	k.each(func(e *entry) {
		entries++
		k.ours = k.ours || len(e.format) > 0
		switch {
		case string(e.kind) != `"reasoning.encrypted"` || len(e.data) <= 2:
		case len(e.id) <= 2:
			k.text = e.data
		default:
			if k.calls == nil {
				k.calls = r.callsOf(m)
			}
			if before, here := k.calls[string(e.id)]; !here && k.stray == nil {
				k.stray = e.data
			} else if here && before == nil {
				k.calls[string(e.id)] = e.data
			}
		}
	})
	own := r.Raw(r.Doc.Member(m, dialect.MessageThoughtSignature))
	if entries > 0 || len(k.details) > 2 || len(own) <= 2 || own[0] != '"' {
		return
	}
	if r.hasCalls(m) {
		k.stray = own
	} else {
		k.text = own
	}
}

func (r *request) hasCalls(m int32) bool {
	list := r.Doc.Member(m, dialect.MessageToolCalls)
	return list >= 0 && r.Doc.Fields[list].Kind == scan.Array && r.Doc.Fields[list].Len > 0
}

// callsOf are the ids of a message's calls, as JSON strings, without a signature yet.
func (r *request) callsOf(m int32) map[string][]byte {
	ids := map[string][]byte{}
	list := r.Doc.Member(m, dialect.MessageToolCalls)
	if list < 0 || r.Doc.Fields[list].Kind != scan.Array {
		return ids
	}
	for at := list + 1; at < r.Doc.Fields[list].Next; at = r.Doc.Fields[at].Next {
		ids[string(r.Raw(r.Doc.Member(at, dialect.CallID)))] = nil
	}
	return ids
}

// of is the signature of a call; nil: none was kept.
func (k *keptThoughts) of(id []byte, first bool) (signature []byte) {
	if signature = k.calls[string(id)]; signature == nil && first {
		signature = k.stray
		if signature == nil {
			signature = k.text // there was no text to put it on
		}
	}
	return signature
}

// thoughts gives the model its own thoughts back, where this dialect gave them:
// whole ones are in the details, streamed ones in reasoning_content.
func (r *request) thoughts(m int32, k *keptThoughts) {
	if !k.ours {
		return
	}
	var signature []byte
	whole := false
	k.each(func(e *entry) {
		if string(e.kind) != `"reasoning.text"` {
			return
		}
		if len(e.text) > 2 {
			r.thought(e.text, e.signature)
			whole = true
		} else if len(e.signature) > 2 {
			signature = e.signature
		}
	})
	if text := r.Raw(r.Doc.Member(m, dialect.MessageReasoningContent)); !whole && len(text) > 2 && text[0] == '"' {
		r.thought(text, signature)
	}
}

func (r *request) thought(text, signature []byte) {
	r.part()
	r.b = append(append(r.b, `{"text":`...), text...)
	r.b = append(r.b, `,"thought":true`...)
	r.sign(signature)
	r.b = append(r.b, '}')
}
