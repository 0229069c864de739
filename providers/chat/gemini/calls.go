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

// call is one tool call of the conversation, in JSON strings of the client's.
type call struct {
	id, name []byte
	answer   int32 // the tool message with its result; -1: none yet
}

// toolCalls writes an assistant's tool_calls as functionCall parts.
func (w *request) toolCalls(m int32, k *keptThoughts) {
	list := w.doc.Member(m, dialect.MessageToolCalls)
	if list < 0 || w.doc.Fields[list].Kind != scan.Array {
		return
	}
	first := true
	for at := list + 1; at < w.doc.Fields[list].Next; at = w.doc.Fields[at].Next {
		f := w.doc.Member(at, dialect.CallTarget)
		id, name := w.c.Raw(w.doc.Member(at, dialect.CallID)), w.c.Raw(w.doc.Member(f, dialect.CallName))
		if f < 0 || len(id) < 2 || id[0] != '"' || len(name) <= 2 || name[0] != '"' {
			w.fail(w.at(at), "This model takes calls of functions only, each with an id and a function with "+
				"a name.")
			continue
		}
		w.calls = append(w.calls, call{id: id, name: name, answer: -1})
		signature := k.of(id, first)
		if signature == nil && first && w.model.signs && m > w.last {
			signature = []byte(noSignature)
		}
		first = false
		w.part()
		w.b = append(w.b, `{"functionCall":{`...)
		w.callID(id)
		w.b = append(append(w.b, `"name":`...), name...)
		w.b = append(w.b, `,"args":`...)
		w.object(w.c.Text(w.doc.Member(f, dialect.CallInput)))
		w.b = append(w.b, '}')
		w.sign(signature)
		w.b = append(w.b, '}')
	}
}

func (w *request) callID(id []byte) {
	if len(id) > 2 {
		w.b = append(append(append(w.b, `"id":`...), id...), ',')
	}
}

// object writes a call's arguments, JSON inside a string, as the object itself.
// What is not an object is kept under the name arguments, so that nothing is lost.
func (w *request) object(escaped []byte) {
	w.scratch = jsontext.AppendUnescaped(w.scratch[:0], escaped)
	text := bytes.TrimSpace(w.scratch)
	switch {
	case len(text) == 0:
		w.b = append(w.b, "{}"...)
	case text[0] == '{' && dialect.IsObject(text):
		w.b = append(w.b, text...)
	default:
		w.b = append(append(append(w.b, `{"arguments":"`...), escaped...), `"}`...)
	}
}

// result notes a tool message for the call that it answers.
func (w *request) result(m int32) {
	if c := w.unanswered(w.c.Raw(w.doc.Member(m, dialect.MessageToolCallID))); c != nil {
		c.answer = m
		w.next++
		return
	}
	w.fail(w.at(m), "A tool message must follow the assistant message with its call, and each call has one; "+
		"nothing may come between them.")
}

// unanswered finds the first call of the last assistant turn with that id that has
// no result yet; nil if absent. Results usually come in the order of the calls;
// in any other they may be as many as a body has room for.
func (w *request) unanswered(id []byte) *call {
	if w.byID == nil {
		if i := w.waiting + w.next; i < len(w.calls) && bytes.Equal(w.calls[i].id, id) {
			return &w.calls[i]
		}
		w.byID = map[string][]int32{}
		for i := w.waiting + w.next; i < len(w.calls); i++ {
			w.byID[string(w.calls[i].id)] = append(w.byID[string(w.calls[i].id)], int32(i))
		}
	}
	list := w.byID[string(id)]
	if len(list) == 0 {
		return nil
	}
	w.byID[string(id)] = list[1:]
	return &w.calls[list[0]]
}

// results writes, before a turn that is not a tool's, the results of all calls of the
// last assistant turn: as many as there were calls, in their order.
func (w *request) results() {
	calls := w.calls[w.waiting:]
	if len(calls) == 0 {
		return
	}
	w.endTurn()
	w.role = "user"
	for i := range calls {
		c := &calls[i]
		if c.answer < 0 {
			w.missing(c)
			break
		}
		w.part()
		w.b = append(w.b, `{"functionResponse":{`...)
		w.callID(c.id)
		w.b = append(append(w.b, `"name":`...), c.name...)
		w.b = append(w.b, `,"response":`...)
		w.response(c.answer)
		w.b = append(w.b, "}}"...)
		w.beside(c.answer)
	}
	w.endTurn()
	w.waiting, w.next, w.byID = len(w.calls), 0, nil
}

func (w *request) missing(c *call) {
	w.fail("messages", "The call %.64s has no tool message with its result right after it.", bytes.Trim(c.id, `"`))
}

// beside writes the pictures and files of a result behind it, in the same turn.
func (w *request) beside(m int32) {
	w.eachBeside(m, func(p int32) {
		if i := w.doc.Member(p, dialect.PartImage); i >= 0 {
			w.attach(i, "image")
		} else {
			w.attach(w.doc.Member(p, dialect.PartFile), "file")
		}
	})
}

func (w *request) showsBeside(m int32) (shows bool) {
	w.eachBeside(m, func(int32) { shows = true })
	return shows
}

// eachBeside calls f for the parts of a result that are not text.
func (w *request) eachBeside(m int32, f func(p int32)) {
	content := w.doc.Member(m, dialect.MessageContent)
	if content < 0 || w.doc.Fields[content].Kind != scan.Array {
		return
	}
	for p := content + 1; p < w.doc.Fields[content].Next; p = w.doc.Fields[p].Next {
		switch string(w.c.Text(w.doc.Member(p, dialect.PartType))) {
		case "text":
		case "image_url", "file":
			f(p)
		default:
			w.fail(w.at(p), "A tool message may have parts of text, images and files only.")
		}
	}
}

// response writes what a tool said: an object as it is, a text as the output,
// several texts as a list of them.
func (w *request) response(m int32) {
	n := 0
	w.eachText(m, func([]byte) { n++ })
	if n > 1 {
		w.b = append(w.b, `{"output":[`...)
		n = 0
		w.eachText(m, func(raw []byte) {
			if n++; n > 1 {
				w.b = append(w.b, ',')
			}
			w.b = append(w.b, raw...)
		})
		w.b = append(w.b, "]}"...)
		return
	}
	said := []byte(`""`)
	if w.showsBeside(m) {
		said = []byte(`"` + dialect.Beside + `"`)
	}
	w.eachText(m, func(raw []byte) { said = raw })
	w.scratch = jsontext.AppendUnescaped(w.scratch[:0], said[1:len(said)-1])
	text := bytes.TrimSpace(w.scratch)
	switch {
	case len(text) == 0 || text[0] != '{' || !dialect.IsObject(text):
		w.b = append(append(append(w.b, `{"output":`...), said...), '}')
	case reserved(text):
		w.b = append(append(append(w.b, `{"output":`...), text...), '}')
	default:
		w.b = append(w.b, text...)
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
