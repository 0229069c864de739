package gemini

import (
	"farebox/providers/chat/dialect"
)

// candidate puts the content of one candidate into its choice.
func (s *stream) candidate(at int32) {
	index := s.index(at)
	if index >= maxChoices || index >= max(1, s.Chat.Choices) {
		return // it was not requested
	}
	if s.IsWhole() && s.Reason(index) != "" {
		return // the choice is there already
	}
	s.BeginChoice(index)
	ch := &s.calls[index]
	logprobs := s.raw(s.doc.Member(at, candidateLogprobs))
	if list := s.parts(at); list >= 0 {
		for i := list + 1; i < s.doc.Fields[list].Next; i = s.doc.Fields[i].Next {
			s.part(index, ch, i, &logprobs)
		}
	}
	if s.IsWhole() && logprobs != nil {
		s.content(index, ch, nil, logprobs)
	}
	s.sources(index, ch, at)
	if reason := s.string(s.doc.Member(at, candidateFinish)); s.IsWhole() || len(reason) > 0 &&
		string(reason) != "FINISH_REASON_UNSPECIFIED" {
		end := endingOf(reason, ch.calls > 0)
		if end.failed {
			s.Fail(malformed)
			return
		}
		s.Ends(index, end.finish)
	}
}

// part puts one part. The log probabilities of an event go with its first text.
func (s *stream) part(index int64, ch *choice, i int32, logprobs *[]byte) {
	p := s.read.part(i)
	switch {
	case p.call >= 0:
		s.call(index, ch, p.call, p.signature)
		return
	case p.thought:
		if len(p.text) > 0 {
			e := s.Event(dialect.Thought, index)
			e.Text = p.text
			s.Put(e)
		}
		s.detail(index, ch, "reasoning.text", p.signature, p.text, -1)
		return
	case p.data >= 0:
		e := s.Event(dialect.Image, index)
		e.Name, e.Text = s.string(s.doc.Member(p.data, 0)), s.string(s.doc.Member(p.data, 1))
		e.Raw = s.raw(p.data)
		s.Put(e)
	case len(p.text) > 0, p.text != nil && s.IsWhole():
		s.content(index, ch, p.text, *logprobs)
		*logprobs = nil
	case p.unknown():
		dialect.AddStrings(&s.Text, dialect.TextKey(index, dialect.KindContent, 2), s.raw(i))
	}
	s.detail(index, ch, "reasoning.encrypted", p.signature, nil, -1)
}

func (s *stream) content(index int64, ch *choice, text, logprobs []byte) {
	ch.bytes += int64(len(text))
	ch.wide = ch.wide || isWide(text)
	if logprobs != nil {
		s.pieces = appendLogprobs(s.pieces[:0], logprobs)
		logprobs = s.pieces
	}
	s.Say(index, text, logprobs)
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

// detail puts the data that a client must send back for the model to go on thinking, if there is any;
// call is the call to come that it belongs to, -1: none. A whole answer repeats the thought.
func (s *stream) detail(index int64, ch *choice, kind string, value, thought []byte, call int32) {
	repeats := s.IsWhole() && kind == "reasoning.text"
	if len(value) == 0 && !repeats {
		return
	}
	e := s.Event(dialect.Signature, index)
	e.Type, e.Format, e.Index, e.Raw = kind, thoughtFormat, ch.details, thought
	if len(value) > 0 {
		e.Text = value
	}
	if call >= 0 {
		s.callID = s.appendCallID(s.callID[:0], call, s.ID, index, ch.calls)
		e.ID = s.callID
	}
	// Once: clients join the texts of a member that comes again.
	e.Signed = !ch.signed && len(value) > 0
	ch.signed = ch.signed || e.Signed
	ch.details++
	s.Put(e)
}

// call puts a whole call: its id and name, and all arguments in one piece. Its signature
// goes before it, where other forms have thoughts.
func (s *stream) call(index int64, ch *choice, call int32, signature []byte) {
	if s.single && ch.calls > 0 {
		return
	}
	s.detail(index, ch, "reasoning.encrypted", signature, nil, call)
	s.callID = s.appendCallID(s.callID[:0], call, s.ID, index, ch.calls)
	s.pieces = s.appendArguments(s.pieces[:0], call)
	e := s.Event(dialect.Call, index)
	e.ID, e.Name, e.Text, e.Index = s.callID, s.string(s.doc.Member(call, callName)), s.pieces, ch.calls
	s.Put(e)
	ch.calls++
	if s.Reason(index) == "stop" {
		s.Ends(index, "tool_calls") // it came behind the reason
	}
}

// sources puts where the text comes from. In a stream places are named while every
// character of the text so far has one byte: then the vendor's bytes are characters.
func (s *stream) sources(index int64, ch *choice, at int32) {
	grounding := s.raw(s.doc.Member(at, candidateGrounding))
	citations := s.raw(s.doc.Member(at, candidateCitations))
	if grounding == nil && citations == nil {
		return
	}
	place := func(at int64) (int64, bool) { return min(at, ch.bytes), !ch.wide }
	if s.IsWhole() {
		text := s.places(at)
		place = func(at int64) (int64, bool) { return text.char(at), true }
	}
	list := appendSources(nil, grounding, citations, place)
	if len(list) > 0 {
		e := s.Event(dialect.Sources, index)
		e.Raw = list
		s.Put(e)
	}
}
