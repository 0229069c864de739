package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

// call is one tool call of the conversation.
type call struct {
	id       string // the client's
	nth      int    // of the calls with that id
	answered bool
}

// toolCalls writes an assistant's tool_calls as tool_use blocks.
func (w *request) toolCalls(m int32) {
	list := w.doc.Member(m, dialect.MessageToolCalls)
	if list < 0 || w.doc.Fields[list].Kind != scan.Array {
		return
	}
	for at := list + 1; at < w.doc.Fields[list].Next; at = w.doc.Fields[at].Next {
		f := w.doc.Member(at, dialect.CallTarget)
		id, name := w.c.Text(w.doc.Member(at, dialect.CallID)), w.c.Text(w.doc.Member(f, dialect.CallName))
		if f < 0 || id == nil || len(name) == 0 {
			w.fail(w.doc.Path(at), "This model takes calls of functions only, each with an id and a function with "+
				"a name.")
			continue
		}
		w.block()
		w.bare = w.bare || !w.thoughtFirst
		nth := 0
		for i := range w.calls {
			if w.calls[i].id == string(id) {
				nth = w.calls[i].nth + 1
			}
		}
		w.calls = append(w.calls, call{id: string(id), nth: nth})
		w.b = append(w.b, `{"type":"tool_use","id":"`...)
		w.callID(&w.calls[len(w.calls)-1])
		w.b = append(append(w.b, `","name":"`...), name...)
		w.b = append(w.b, `","input":`...)
		w.input(w.c.Text(w.doc.Member(f, dialect.CallInput)))
		w.cacheControl(w.callCache(m, at))
		w.b = append(w.b, '}')
	}
}

// callCache is the message's mark for caching, for its last call.
func (w *request) callCache(m, at int32) int32 {
	if list := w.doc.Member(m, dialect.MessageToolCalls); w.doc.Fields[at].Next == w.doc.Fields[list].Next {
		if content := w.doc.Member(m, dialect.MessageContent); content < 0 || w.doc.Fields[content].Kind == scan.Null {
			return w.doc.Member(m, dialect.MessageCacheControl)
		}
	}
	return -1
}

// callID writes the dialect's id of a call. Ids of other makers' models may
// have characters that it does not take, and come again in every turn where it
// wants each once; those are replaced by one that follows from the client's,
// so that a conversation goes out alike each time and stays in the cache.
func (w *request) callID(c *call) {
	if c.nth == 0 && dialect.IsToken([]byte(c.id), maxCallID) {
		w.b = append(w.b, c.id...)
		return
	}
	sum := sha256.Sum256(append([]byte(c.id), strconv.Itoa(c.nth)...))
	w.b = append(w.b, "call_"...)
	w.b = hex.AppendEncode(w.b, sum[:12])
}

const maxCallID = 128

// result writes a tool message as a tool_result block of the call it answers.
func (w *request) result(m int32) {
	id := w.c.Text(w.doc.Member(m, dialect.MessageToolCallID))
	var of *call
	for i := len(w.calls) - 1; i >= w.waiting && of == nil; i-- {
		if c := &w.calls[i]; !c.answered && c.id == string(id) {
			of = c
		}
	}
	others := w.open == "user" && w.others
	if of == nil || others {
		w.fail(w.doc.Path(m), "A tool message must follow the assistant message with its call, and each call has "+
			"one; nothing may come between them.")
		return
	}
	of.answered = true
	w.block()
	w.others = false
	w.b = append(w.b, `{"type":"tool_result","tool_use_id":"`...)
	w.callID(of)
	w.b = append(w.b, '"')
	cache := w.doc.Member(m, dialect.MessageCacheControl)
	content := w.doc.Member(m, dialect.MessageContent)
	if content >= 0 && w.doc.Fields[content].Kind == scan.String {
		if raw := w.c.Raw(content); !dialect.IsBlank(raw) {
			w.member("content", raw)
		}
		content = -1
	}
	w.inResult = 1
	for p := content + 1; content >= 0 && p < w.doc.Fields[content].Next; p = w.doc.Fields[p].Next {
		if mark := w.partCache(m, p); mark >= 0 {
			cache = mark
		}
		switch string(w.c.Text(w.doc.Member(p, dialect.PartType))) {
		case "image_url":
			w.attach(p, "image", -1)
		case "file":
			w.attach(p, "document", -1)
		default:
			if raw := w.c.Raw(w.doc.Member(p, dialect.PartText)); len(raw) > 2 && !dialect.IsBlank(raw) {
				w.begin()
				w.b = append(append(append(w.b, `{"type":"text","text":`...), raw...), '}')
			}
		}
	}
	if w.inResult > 1 {
		w.b = append(w.b, ']')
	}
	w.inResult = 0
	w.cacheControl(cache)
	w.b = append(w.b, '}')
}

// answered checks, before a turn that is not a tool's, that all calls of the last
// assistant turn have their results.
func (w *request) answered() {
	for i := w.waiting; i < len(w.calls); i++ {
		if !w.calls[i].answered {
			w.fail("messages", "The call %.64s has no tool message with its result right after it.", w.calls[i].id)
		}
	}
}
