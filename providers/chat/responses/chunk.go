package responses

import (
	"bytes"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

var _ dialect.ChunkWriter = (*stream)(nil)

// Begin is dialect.ChunkWriter.
func (s *stream) Begin(_, _, parameters []byte) {
	if s.begin(); len(parameters) > 0 {
		s.search(parameters)
	}
}

// Text is dialect.ChunkWriter. It sends text, with the probabilities of its tokens where
// there are some.
func (s *stream) Text(words, logprobs []byte) {
	it := s.message(textPart)
	switch {
	case it == nil:
	case s.spec:
		s.delta(it, words, plainTail)
	case len(logprobs) == 0:
		s.delta(it, words, textTail)
	default:
		if s.kept += len(logprobs); len(it.logprobs) > 0 {
			it.logprobs = append(it.logprobs, ',')
		}
		it.logprobs = append(it.logprobs, logprobs...)
		if s.delta(it, words, `","logprobs":[`); !s.Ended {
			s.Out = append(append(s.Out, logprobs...), "]}\n\n"...)
		}
	}
}

// Refusal is dialect.ChunkWriter.
func (s *stream) Refusal(words []byte) {
	if it := s.message(refusalPart); it != nil {
		s.delta(it, words, plainTail)
	}
}

// Detail is dialect.ChunkWriter. It keeps the data that a model needs to go on thinking.
func (s *stream) Detail(d *dialect.Detail) {
	it := s.thought(true)
	if it == nil {
		return
	}
	if s.kept += len(d.Entry); s.kept > maxKept {
		s.tooLong()
		return
	}
	it.addDetail(d.Entry, true)
	it.sealed = true
}

// Source is dialect.ChunkWriter. It sends a source of a text.
func (s *stream) Source(entry []byte) {
	it := s.message(textPart)
	if it == nil {
		return
	}
	if s.kept += len(entry); s.kept > maxKept {
		s.tooLong()
		return
	}
	it.annotations = jsontext.Comma(it.annotations)
	begun := len(it.annotations)
	it.annotations = appendAnnotation(it.annotations, entry)
	if !s.spec {
		s.event("response.output_text.annotation.added")
		s.place(it, "content")
		s.note(it.notes, it.annotations[begun:])
		s.endEvent()
	}
	it.notes++
}

// Call is dialect.ChunkWriter.
func (s *stream) Call(index int64, custom bool, id, name, input []byte) {
	it := s.callOf(index, id, name)
	if it == nil {
		kind := callItem
		if custom {
			kind = customItem
		}
		s.quiet()
		if it = s.add(kind); it == nil {
			return
		}
		it.call = max(index, 0)
	}
	s.identify(it, id)
	if !it.opened && len(name) > 0 {
		s.f.nameCall(it, name)
		s.show(it)
	}
	switch {
	case len(input) == 0:
	case it.opened && !it.wrapped:
		s.delta(it, input, plainTail)
	default:
		if s.kept += len(input); s.kept > maxKept {
			s.tooLong()
			return
		}
		it.text = append(it.text, input...)
	}
}

// Stop is dialect.ChunkWriter.
func (s *stream) Stop(reason, _ []byte) {
	switch string(reason) {
	case "length":
		s.stop = "max_output_tokens"
	case "content_filter":
		s.stop = "content_filter"
	}
}

// callOf finds the call that an entry goes on with; nil: it begins another. Some
// servers number all calls alike, or none.
func (s *stream) callOf(index int64, id, name []byte) *item {
	for i := len(s.items) - 1; i >= 0; i-- {
		it := &s.items[i]
		if !it.isCall() || index >= 0 && it.call != index {
			continue
		}
		if len(id) > 0 && len(name) > 0 && len(it.callID) > 0 && !bytes.Equal(id, it.callID) {
			return nil
		}
		return it
	}
	return nil
}

// identify gives a call the upstream's id, unless another has that or the client knows
// the call by one of ours.
func (s *stream) identify(it *item, id []byte) {
	if it.opened || len(it.callID) > 0 || len(id) == 0 {
		return
	}
	for i := range it.index {
		if bytes.Equal(s.items[i].callID, id) {
			return
		}
	}
	it.callID = append(it.callID, id...)
}
