package gemini

import (
	"bytes"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// wantsOne says that the client takes one call of a tool at a time. The dialect has no
// word for it, so that the calls behind the first one are cut off the answer.
func wantsOne(c *dialect.Chat) bool {
	if c.Embedding {
		return false
	}
	i := c.Doc.TopIndex(dialect.ChatParallelToolCalls)
	return i >= 0 && c.Doc.Fields[i].Kind == scan.False
}

// call is one tool call of the last assistant turn, in JSON strings of the client's.
type call struct {
	id, name []byte
	answer   int32 // the tool message with its result; -1: none yet
}

// toolCalls writes an assistant's tool_calls as functionCall parts.
func (r *request) toolCalls(m int32, k *keptThoughts) {
	first := true
	for c := range r.Calls(m) {
		r.calls = append(r.calls, call{id: c.ID, name: c.Name, answer: -1})
		r.unanswered.Add(c.ID)
		signature := k.of(c.ID, first)
		if signature == nil && first && r.model.signs && m > r.last {
			signature = []byte(noSignature)
		}
		first = false
		r.part()
		r.b = append(r.b, `{"functionCall":{`...)
		r.callID(c.ID)
		r.b = append(append(r.b, `"name":`...), c.Name...)
		r.b = append(r.b, `,"args":`...)
		r.b = dialect.AppendInput(r.b, c.Input)
		r.b = append(r.b, '}')
		r.sign(signature)
		r.b = append(r.b, '}')
	}
}

func (r *request) callID(id []byte) {
	if len(id) > 2 {
		r.b = append(append(append(r.b, `"id":`...), id...), ',')
	}
}

// result notes a tool message for the call that it answers.
func (r *request) result(m int32) {
	if i := r.unanswered.Answer(r.Raw(r.Doc.Member(m, dialect.MessageToolCallID))); i >= 0 {
		r.calls[i].answer = m
		return
	}
	r.FailResult(m)
}

// results writes, before a turn that is not a tool's, the results of all calls of the
// last assistant turn: as many as there were calls, in their order.
func (r *request) results() {
	if len(r.calls) == 0 {
		return
	}
	r.endTurn()
	r.role = "user"
	for i := range r.calls {
		c := &r.calls[i]
		if c.answer < 0 {
			r.FailCall(bytes.Trim(c.id, `"`))
			break
		}
		r.part()
		r.b = append(r.b, `{"functionResponse":{`...)
		r.callID(c.id)
		r.b = append(append(r.b, `"name":`...), c.name...)
		r.b = append(r.b, `,"response":`...)
		r.response(c.answer)
		r.b = append(r.b, "}}"...)
		r.beside(c.answer)
	}
	r.endTurn()
	r.calls = r.calls[:0]
	r.unanswered.Clear()
}

// beside writes the pictures and files of a result behind it, in the same turn.
func (r *request) beside(m int32) {
	r.eachBeside(m, func(p int32) {
		if i := r.Doc.Member(p, dialect.PartImage); i >= 0 {
			r.attach(i, "image")
		} else {
			r.attach(r.Doc.Member(p, dialect.PartFile), "file")
		}
	})
}

func (r *request) showsBeside(m int32) (shows bool) {
	r.eachBeside(m, func(int32) { shows = true })
	return shows
}

// eachBeside calls f for the parts of a result that are not text.
func (r *request) eachBeside(m int32, f func(p int32)) {
	content := r.Doc.Member(m, dialect.MessageContent)
	if content < 0 || r.Doc.Fields[content].Kind != scan.Array {
		return
	}
	for p := content + 1; p < r.Doc.Fields[content].Next; p = r.Doc.Fields[p].Next {
		switch string(r.Text(r.Doc.Member(p, dialect.PartType))) {
		case "text":
		case "image_url", "file":
			f(p)
		default:
			r.Fail(r.PathOf(p), "A tool message may have parts of text, images and files only.")
		}
	}
}

// response writes the output of a tool: an object as it is, a text as the output,
// several texts as a list of them.
func (r *request) response(m int32) {
	said := []byte(`""`)
	if r.showsBeside(m) {
		said = []byte(`"` + dialect.Beside + `"`)
	}
	n := 0
	for _, raw := range r.Texts(m) {
		said = raw
		n++
	}
	if n > 1 {
		r.b = append(r.b, `{"output":[`...)
		for _, raw := range r.Texts(m) {
			r.b = append(jsontext.Comma(r.b), raw...)
		}
		r.b = append(r.b, "]}"...)
		return
	}
	r.scratch = jsontext.AppendUnescaped(r.scratch[:0], said[1:len(said)-1])
	text := bytes.TrimSpace(r.scratch)
	switch {
	case len(text) == 0 || text[0] != '{' || !dialect.IsObject(text):
		r.b = append(append(append(r.b, `{"output":`...), said...), '}')
	case reserved(text):
		r.b = append(append(append(r.b, `{"output":`...), text...), '}')
	default:
		r.b = append(r.b, text...)
	}
}

// reserved says that an object has a member that is read as the whole output: its
// others would be lost.
func reserved(object []byte) bool {
	for m := range jsontext.Members(object, 1) {
		if key := string(m.Key); key == "output" || key == "error" || bytes.IndexByte(m.Key, '\\') >= 0 {
			return true
		}
	}
	return false
}
