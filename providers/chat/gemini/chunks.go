package gemini

import (
	"strconv"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// begin makes the head of the chunks and sends the first choice's with the role.
func (s *stream) begin() {
	if s.begun > 0 {
		return
	}
	s.id = appendID(s.id[:0], s.string(s.doc.TopIndex(answerID)))
	s.head = append(append(append(s.head[:0], `data: {"id":"chatcmpl-`...), s.id...),
		`","object":"chat.completion.chunk","created":`...)
	s.head = strconv.AppendInt(s.head, time.Now().Unix(), 10)
	s.head = jsontext.Object(s.head).Text("model", s.Chat.Model.ID)
	s.head = append(s.head, `,"choices":[`...)
	s.beginChoice(0)
}

// beginChoice sends the first chunk of a choice, and of those before it.
func (s *stream) beginChoice(index int64) {
	for int64(s.begun) <= index {
		s.begun++
		s.open(int64(s.begun - 1))
		s.out = append(s.out, `"role":"assistant","content":""`...)
		s.shut()
	}
}

// open begins a chunk's delta object, shut ends it.
func (s *stream) open(choice int64) {
	s.out = append(append(s.out, s.head...), `{"index":`...)
	s.out = append(strconv.AppendInt(s.out, choice, 10), `,"delta":{`...)
}

func (s *stream) shut() {
	s.out = append(s.out, "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"...)
}

func (s *stream) candidate(at int32) {
	index := s.index(at)
	if index >= maxChoices || index >= max(1, s.Chat.Choices) {
		return // nobody asked for it
	}
	s.beginChoice(index)
	ch := &s.choices[index]
	logprobs := s.raw(s.doc.Member(at, candidateLogprobs))
	if list := s.parts(at); list >= 0 {
		for i := list + 1; i < s.doc.Fields[list].Next; i = s.doc.Fields[i].Next {
			s.part(index, ch, i, &logprobs)
		}
	}
	s.sources(index, ch, at)
	if reason := s.string(s.doc.Member(at, candidateFinish)); len(reason) > 0 &&
		string(reason) != "FINISH_REASON_UNSPECIFIED" {
		end := endingOf(reason, ch.calls > 0)
		if end.failed {
			s.fail(malformed)
			return
		}
		ch.finish, ch.ended = end.finish, true
	}
}

// part sends one part. The log probabilities of an event go with its first text.
func (s *stream) part(index int64, ch *choice, i int32, logprobs *[]byte) {
	p := s.read.part(i)
	switch {
	case p.call >= 0:
		s.call(index, ch, p.call, p.signature)
		return
	case p.thought:
		s.thought(index, ch, p.text, p.signature)
		return
	case p.data >= 0:
		dialect.AddStrings(&s.Text, dialect.TextKey(index, dialect.KindContent, 2), s.raw(p.data))
		s.open(index)
		s.out = append(s.appendImage(append(s.out, `"images":[`...), p.data), ']')
		s.shut()
	case len(p.text) > 0:
		s.content(index, ch, p.text, *logprobs)
		*logprobs = nil
	case p.unknown():
		dialect.AddStrings(&s.Text, dialect.TextKey(index, dialect.KindContent, 2), s.raw(i))
	}
	if len(p.signature) > 0 {
		s.detail(index, ch, `"type":"reasoning.encrypted","data":"`, p.signature, -1)
	}
}

func (s *stream) content(index int64, ch *choice, text, logprobs []byte) {
	s.Text.Add(dialect.TextKey(index, dialect.KindContent, 0), text)
	ch.bytes += int64(len(text))
	ch.wide = ch.wide || isWide(text)
	s.open(index)
	s.out = append(s.out, `"content":"`...)
	if s.Chat.DropThinking {
		s.out = ch.think.Filter(s.out, text)
	} else {
		s.out = append(s.out, text...)
	}
	if logprobs == nil {
		s.out = append(s.out, '"')
		s.shut()
		return
	}
	s.out = appendLogprobs(append(s.out, `"},"logprobs":`...), logprobs)
	s.out = append(s.out, ",\"finish_reason\":null}]}\n\n"...)
}

// isWide says that an escaped text may have characters of more than one byte.
func isWide(escaped []byte) bool {
	for i, c := range escaped {
		if c >= 0x80 || c == 'u' && i > 0 && escaped[i-1] == '\\' && !ascii(escaped[i+1:]) {
			return true
		}
	}
	return false
}

// ascii says that the four digits of an escape name a character of one byte.
func ascii(digits []byte) bool {
	return len(digits) >= 4 && digits[0] == '0' && digits[1] == '0' && digits[2] < '8'
}

func (s *stream) thought(index int64, ch *choice, text, signature []byte) {
	if len(text) > 0 {
		s.Text.Add(dialect.TextKey(index, dialect.KindReasoning, 0), text)
		s.open(index)
		s.out = append(append(append(s.out, `"reasoning_content":"`...), text...), '"')
		s.shut()
	}
	if len(signature) > 0 {
		s.detail(index, ch, `"type":"reasoning.text","signature":"`, signature, -1)
	}
}

// detail sends what a client must send back for the model to go on thinking; call
// is the call to come that it belongs to, -1: none.
func (s *stream) detail(index int64, ch *choice, head string, value []byte, call int32) {
	s.open(index)
	s.out = append(s.out, `"reasoning_details":[{`...)
	if call >= 0 {
		s.out = append(s.out, `"id":"`...)
		s.out = append(s.appendCallID(s.out, call, s.id, index, ch.calls), `",`...)
	}
	s.out = append(append(append(s.out, head...), value...), `","format":"`+thoughtFormat+`","index":`...)
	s.out = append(strconv.AppendInt(s.out, ch.details, 10), "}]"...)
	ch.details++
	if !ch.signed {
		// Once: clients join the texts of a member that comes again.
		ch.signed = true
		s.out = append(append(append(s.out, `,"thought_signature":"`...), value...), '"')
	}
	s.shut()
}

// call sends a whole call: its id and name, and all arguments in one piece. Its signature
// goes before it, where other forms have thoughts.
func (s *stream) call(index int64, ch *choice, call int32, signature []byte) {
	if s.single && ch.calls > 0 {
		return
	}
	if len(signature) > 0 {
		s.detail(index, ch, `"type":"reasoning.encrypted","data":"`, signature, call)
	}
	n := ch.calls
	ch.calls++
	name := s.string(s.doc.Member(call, callName))
	if len(name) > 0 {
		s.Text.Add(dialect.TextKey(index, dialect.KindToolName, n), name)
	}
	s.open(index)
	s.out = append(s.out, `"tool_calls":[{"index":`...)
	s.out = append(strconv.AppendInt(s.out, n, 10), `,"id":"`...)
	s.out = s.appendCallID(s.out, call, s.id, index, n)
	s.out = append(append(s.out, `","type":"function","function":{"name":"`...), name...)
	s.out = append(s.out, `","arguments":"`...)
	from := len(s.out)
	s.out = s.appendArguments(s.out, call)
	s.Text.Add(dialect.TextKey(index, dialect.KindToolInput, n), s.out[from:])
	s.out = append(s.out, `"}}]`...)
	s.shut()
}

// sources sends where the text comes from. Places are sent while every character
// of the text so far has one byte: then the vendor's bytes are characters.
func (s *stream) sources(index int64, ch *choice, at int32) {
	grounding := s.raw(s.doc.Member(at, candidateGrounding))
	citations := s.raw(s.doc.Member(at, candidateCitations))
	if grounding == nil && citations == nil {
		return
	}
	list := appendSources(nil, grounding, citations, func(at int64) (int64, bool) { return min(at, ch.bytes), !ch.wide })
	if len(list) == 0 {
		return
	}
	s.open(index)
	s.out = append(append(append(s.out, `"annotations":[`...), list...), ']')
	s.shut()
}

// end sends the ends of the choices, the usage and [DONE].
func (s *stream) end() {
	s.done = true
	for i := range s.choices[:s.begun] {
		ch := &s.choices[i]
		if ch.think.Held() {
			s.open(int64(i))
			s.out = append(ch.think.End(append(s.out, `"content":"`...)), '"')
			s.shut()
		}
		finish := ch.finish
		if ch.calls > 0 && finish == "stop" {
			finish = "tool_calls" // it came behind the reason
		}
		s.open(int64(i))
		s.out = append(append(append(s.out, `},"logprobs":null,"finish_reason":"`...), finish...), "\"}]}\n\n"...)
	}
	if !s.Chat.HidesUsage() {
		u := s.current()
		s.out = append(append(s.out, s.head...), `],"usage":`...)
		s.out = s.Chat.AppendCost(dialect.AppendUsage(s.out, &u), &u)
		s.out = append(s.out, "}\n\n"...)
	}
	s.out = append(s.out, dialect.DoneEvent...)
}
