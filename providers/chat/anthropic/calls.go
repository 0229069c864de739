package anthropic

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

// call is one tool call of the conversation.
type call struct {
	id  []byte // the client's
	nth int    // of the calls with that id
}

// toolCalls writes an assistant's tool_calls as tool_use blocks.
func (r *request) toolCalls(m int32) {
	for tool := range r.Calls(m) {
		id := tool.ID[1 : len(tool.ID)-1]
		r.block()
		r.bare = r.bare || !r.thoughtFirst
		if r.seen == nil {
			r.seen = map[string]int{}
		}
		c := call{id: id, nth: r.seen[string(id)]}
		r.seen[string(id)]++
		r.calls = append(r.calls, c)
		r.unanswered.Add(id)
		r.b = append(r.b, `{"type":"tool_use","id":"`...)
		r.callID(c)
		r.b = append(append(r.b, `","name":`...), tool.Name...)
		r.b = append(r.b, `,"input":`...)
		r.b = dialect.AppendInput(r.b, tool.Input)
		r.cacheControl(r.callCache(m, tool.At))
		r.b = append(r.b, '}')
	}
}

// callCache is the message's mark for caching, for its last call.
func (r *request) callCache(m, at int32) int32 {
	if list := r.Doc.Member(m, dialect.MessageToolCalls); r.Doc.Fields[at].Next == r.Doc.Fields[list].Next {
		if content := r.Doc.Member(m, dialect.MessageContent); content < 0 || r.Doc.Fields[content].Kind == scan.Null {
			return r.Doc.Member(m, dialect.MessageCacheControl)
		}
	}
	return -1
}

// callID writes the dialect's id of a call. Ids of other makers' models may
// have characters that it does not take, and come again in every turn where it
// wants each once; those are replaced by one that follows from the client's,
// so that a conversation goes out alike each time and stays in the cache.
func (r *request) callID(c call) {
	if c.nth == 0 && dialect.IsToken(c.id, maxCallID) {
		r.b = append(r.b, c.id...)
		return
	}
	sum := sha256.Sum256(strconv.AppendInt(bytes.Clone(c.id), int64(c.nth), 10))
	r.b = append(r.b, "call_"...)
	r.b = hex.AppendEncode(r.b, sum[:12])
}

const maxCallID = 128

// result writes a tool message as a tool_result block of the call it answers.
func (r *request) result(m int32) {
	nth := -1
	if r.open != "user" || !r.others {
		nth = r.unanswered.Answer(r.Text(r.Doc.Member(m, dialect.MessageToolCallID)))
	}
	if nth < 0 {
		r.FailResult(m)
		return
	}
	r.block()
	r.others = false
	r.b = append(r.b, `{"type":"tool_result","tool_use_id":"`...)
	r.callID(r.calls[nth])
	r.b = append(r.b, '"')
	cache := r.Doc.Member(m, dialect.MessageCacheControl)
	content := r.Doc.Member(m, dialect.MessageContent)
	if content >= 0 && r.Doc.Fields[content].Kind == scan.String {
		if raw := r.Raw(content); !dialect.IsBlank(raw) {
			r.member("content", raw)
		}
		content = -1
	}
	r.inResult = 1
	for p := content + 1; content >= 0 && p < r.Doc.Fields[content].Next; p = r.Doc.Fields[p].Next {
		if mark := r.partCache(m, p); mark >= 0 {
			cache = mark
		}
		switch string(r.Text(r.Doc.Member(p, dialect.PartType))) {
		case "image_url":
			r.attach(p, "image", -1)
		case "file":
			r.attach(p, "document", -1)
		default:
			if raw := r.Raw(r.Doc.Member(p, dialect.PartText)); len(raw) > 2 && !dialect.IsBlank(raw) {
				r.begin()
				r.b = append(append(append(r.b, `{"type":"text","text":`...), raw...), '}')
			}
		}
	}
	if r.inResult > 1 {
		r.b = append(r.b, ']')
	}
	r.inResult = 0
	r.cacheControl(cache)
	r.b = append(r.b, '}')
}

// answered checks, before a turn that is not a tool's, that all calls of the last
// assistant turn have their results.
func (r *request) answered() {
	if i := r.unanswered.Open(); i >= 0 {
		r.FailCall(r.calls[i].id)
	}
}
