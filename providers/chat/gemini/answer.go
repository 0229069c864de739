package gemini

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

var errNoAnswer = errors.New("the answer has no candidates")

// reply is an answer being turned into a chat completion.
type reply struct {
	read
	c    *dialect.Chat
	b    []byte
	id   []byte
	text dialect.Produced // for an upstream that reports no usage

	single bool // one call of a tool is wanted
}

// Answer writes the chat completion for a whole answer.
func (Dialect) Answer(body []byte, c *dialect.Chat, _ *dialect.Target, s *dialect.Scratch) ([]byte, dialect.Usage,
	error) {
	var u dialect.Usage
	if err := s.Doc.Skim(body, answerShape); err != nil {
		return nil, u, fmt.Errorf("cannot read the answer: %w", err)
	}
	r := reply{read: read{&s.Doc, body}, c: c, b: s.Out[:0], single: wantsOne(c)}
	defer r.text.Release()
	if i := s.Doc.TopIndex(answerError); i >= 0 && s.Doc.Fields[i].Kind == scan.Object {
		return nil, u, &dialect.Failed{JSON: body}
	}
	list := s.Doc.TopIndex(answerCandidates)
	if list < 0 || s.Doc.Fields[list].Kind != scan.Array || s.Doc.Fields[list].Len == 0 {
		if isBlocked(&r.read) {
			return nil, u, &dialect.Failed{JSON: blocked}
		}
		return nil, u, errNoAnswer
	}
	r.id = appendID(nil, r.string(s.Doc.TopIndex(answerID)))
	r.b = append(append(append(r.b, `{"id":"chatcmpl-`...), r.id...), `","object":"chat.completion","created":`...)
	r.b = strconv.AppendInt(r.b, time.Now().Unix(), 10)
	r.b = jsontext.Object(r.b).Text("model", c.Model.ID)
	r.b = append(r.b, `,"choices":[`...)
	choices, asked := int64(0), max(1, c.Choices)
	for i := list + 1; i < s.Doc.Fields[list].Next && choices < asked; i = s.Doc.Fields[i].Next {
		if s.Doc.Fields[i].Kind != scan.Object {
			return nil, u, errNoAnswer
		}
		if r.index(i) >= asked {
			continue // nobody asked for it
		}
		if choices++; choices > 1 {
			r.b = append(r.b, ',')
		}
		if !r.choice(i) {
			return nil, u, &dialect.Failed{JSON: malformed}
		}
	}
	if choices == 0 {
		return nil, u, errNoAnswer
	}
	var n counts
	n.read(r.raw(s.Doc.TopIndex(answerUsage)))
	u = dialect.Settle(n.usage(), true, &r.text, c)
	r.b = dialect.AppendUsage(append(r.b, `],"usage":`...), &u)
	s.Out = append(r.b, '}')
	return s.Out, u, nil
}

// isBlocked says that the prompt was refused and nothing was answered.
func isBlocked(r *read) bool {
	i := r.doc.TopIndex(answerFeedback)
	if i < 0 || r.doc.Fields[i].Kind != scan.Object {
		return false
	}
	reason := r.string(r.doc.Member(i, 0))
	return len(reason) > 0 && string(reason) != "BLOCKED_REASON_UNSPECIFIED"
}

// maxID is the longest id of an answer that is taken over: every chunk repeats it.
const maxID = 128

// appendID appends the vendor's id of an answer, or one of our own.
func appendID(dst, id []byte) []byte {
	if len(id) > 0 && len(id) <= maxID {
		return append(dst, id...)
	}
	return strconv.AppendUint(append(dst, 'g'), rand.Uint64(), 36)
}

// index is a candidate's place; the vendor leaves out a 0.
func (r *read) index(candidate int32) int64 {
	n, _ := jsontext.ReadCount(r.raw(r.doc.Member(candidate, candidateIndex)))
	return n
}

// choice writes one candidate; false: it cannot be used.
func (r *reply) choice(i int32) bool {
	index := r.index(i)
	r.b = jsontext.Object(append(r.b, '{')).Int("index", index)
	r.b = append(r.b, `,"message":{"role":"assistant","content":`...)
	list := r.parts(i)
	r.content(index, list)
	r.thoughts(index, list)
	calls := r.calls(index, list)
	r.images(list)
	r.sources(i, list)
	r.b = append(r.b, `},"logprobs":`...)
	r.b = appendLogprobs(r.b, r.raw(r.doc.Member(i, candidateLogprobs)))
	end := endingOf(r.string(r.doc.Member(i, candidateFinish)), calls > 0)
	r.b = append(append(append(r.b, `,"finish_reason":"`...), end.finish...), `"}`...)
	return !end.failed
}

func (r *reply) eachPart(list int32, f func(p *part)) {
	if list < 0 {
		return
	}
	called := false
	for i := list + 1; i < r.doc.Fields[list].Next; i = r.doc.Fields[i].Next {
		if r.doc.Fields[i].Kind != scan.Object {
			continue
		}
		p := r.part(i)
		if p.call >= 0 && called && r.single {
			continue
		}
		called = called || p.call >= 0
		f(&p)
	}
}

// content joins the texts; null if absent.
func (r *reply) content(index int64, list int32) {
	var think dialect.Think
	seen := false
	r.eachPart(list, func(p *part) {
		if p.unknown() {
			dialect.AddStrings(&r.text, dialect.TextKey(index, dialect.KindContent, 2), r.raw(p.at))
		}
		if p.text == nil || p.thought {
			return
		}
		if !seen {
			r.b = append(r.b, '"')
			seen = true
		}
		r.note(index, dialect.KindContent, 0, p.text)
		if r.c.DropThinking {
			r.b = think.Filter(r.b, p.text)
		} else {
			r.b = append(r.b, p.text...)
		}
	})
	if !seen {
		r.b = append(r.b, "null"...)
		return
	}
	r.b = append(think.End(r.b), '"')
}

func (r *reply) note(choice, kind, tool int64, text []byte) {
	if len(text) > 0 {
		r.text.Add(dialect.TextKey(choice, kind, tool), text)
	}
}

// thoughts gives the reasoning twice: as text for reading, and with the signatures
// of thoughts, text and calls for sending back.
func (r *reply) thoughts(index int64, list int32) {
	texts, details := 0, 0
	var signature []byte
	r.eachPart(list, func(p *part) {
		if p.thought || len(p.signature) > 0 {
			details++
		}
		if signature == nil && len(p.signature) > 0 {
			signature = p.signature
		}
		if !p.thought || len(p.text) == 0 {
			return
		}
		r.note(index, dialect.KindReasoning, 0, p.text)
		if texts++; texts == 1 {
			r.b = append(r.b, `,"reasoning_content":"`...)
		}
		r.b = append(r.b, p.text...)
	})
	if texts > 0 {
		r.b = append(r.b, '"')
	}
	if details == 0 {
		return
	}
	n, calls := int64(0), int64(0)
	r.b = append(r.b, `,"reasoning_details":[`...)
	r.eachPart(list, func(p *part) {
		called := calls
		if p.call >= 0 {
			calls++
		}
		if !p.thought && len(p.signature) == 0 {
			return
		}
		if n > 0 {
			r.b = append(r.b, ',')
		}
		switch {
		case p.thought:
			r.b = append(append(append(r.b, `{"type":"reasoning.text","text":"`...), p.text...), '"')
			if len(p.signature) > 0 {
				r.b = append(append(append(r.b, `,"signature":"`...), p.signature...), '"')
			}
		case p.call >= 0:
			r.b = append(r.b, `{"type":"reasoning.encrypted","id":"`...)
			r.b = r.appendCallID(r.b, p.call, r.id, index, called)
			r.b = append(append(append(r.b, `","data":"`...), p.signature...), '"')
		default:
			r.b = append(append(append(r.b, `{"type":"reasoning.encrypted","data":"`...), p.signature...), '"')
		}
		r.b = append(r.b, `,"format":"`+thoughtFormat+`","index":`...)
		r.b = append(strconv.AppendInt(r.b, n, 10), '}')
		n++
	})
	r.b = append(r.b, ']')
	if signature != nil {
		r.b = append(append(append(r.b, `,"thought_signature":"`...), signature...), '"')
	}
}

// appendCallID appends the vendor's id of a call, or one made of the answer's and
// the call's place in it, which is the same whenever it is made.
func (r *read) appendCallID(dst []byte, call int32, answer []byte, choice, n int64) []byte {
	if id := r.string(r.doc.Member(call, callID)); len(id) > 0 {
		return append(dst, id...)
	}
	dst = append(append(append(dst, "call_"...), answer...), '_')
	if choice > 0 {
		dst = append(strconv.AppendInt(dst, choice, 10), '_')
	}
	return strconv.AppendInt(dst, n, 10)
}

// calls turns functionCall parts into tool_calls and says how many there are.
func (r *reply) calls(index int64, list int32) (n int64) {
	r.eachPart(list, func(p *part) {
		if p.call < 0 {
			return
		}
		if n == 0 {
			r.b = append(r.b, `,"tool_calls":[`...)
		} else {
			r.b = append(r.b, ',')
		}
		name := r.string(r.doc.Member(p.call, callName))
		r.note(index, dialect.KindToolName, n, name)
		r.b = append(r.b, `{"id":"`...)
		r.b = r.appendCallID(r.b, p.call, r.id, index, n)
		r.b = append(append(r.b, `","type":"function","function":{"name":"`...), name...)
		r.b = append(r.b, `","arguments":"`...)
		from := len(r.b)
		r.b = r.appendArguments(r.b, p.call)
		r.note(index, dialect.KindToolInput, n, r.b[from:])
		r.b = append(r.b, `"}}`...)
		n++
	})
	if n > 0 {
		r.b = append(r.b, ']')
	}
	return n
}

// appendArguments appends a call's arguments as they are in a JSON string.
func (r *read) appendArguments(dst []byte, call int32) []byte {
	if args := r.raw(r.doc.Member(call, callArgs)); args != nil {
		return jsontext.AppendEscaped(dst, args)
	}
	return append(dst, "{}"...)
}

// images gives what a model drew beside its text, in a member that clients of the
// specification need not know.
func (r *reply) images(list int32) {
	n := 0
	r.eachPart(list, func(p *part) {
		if p.data < 0 {
			return
		}
		if n == 0 {
			r.b = append(r.b, `,"images":[`...)
		} else {
			r.b = append(r.b, ',')
		}
		n++
		dialect.AddStrings(&r.text, dialect.TextKey(0, dialect.KindContent, 2), r.raw(p.data))
		r.b = r.appendImage(r.b, p.data)
	})
	if n > 0 {
		r.b = append(r.b, ']')
	}
}

func (r *read) appendImage(dst []byte, data int32) []byte {
	dst = append(append(dst, `{"type":"image_url","image_url":{"url":"data:`...), r.string(r.doc.Member(data, 0))...)
	dst = append(append(dst, ";base64,"...), r.string(r.doc.Member(data, 1))...)
	return append(dst, `"}}`...)
}
