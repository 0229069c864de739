package gemini

import (
	"bytes"
	"sync"

	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

const (
	// maxEvent is the largest event that is read: calls come whole, and one may
	// write a file; drawn images do not come in pieces either.
	maxEvent = 4 << 20
	// keepScratch is how much room for pieces of events a reused stream keeps.
	keepScratch = 8 << 10
)

var streams = sync.Pool{New: func() any { return new(stream) }}

// stream reads events of this dialect, each an answer of its own that holds the new parts.
type stream struct {
	read
	dialect.Answer
	counts   counts
	told     []byte // the last usage, where it has not been read yet
	template eventTemplate
	scanned  scan.Document
	single   bool // one call of a tool is wanted

	callID, pieces []byte // buffers that events point into
	calls          [maxChoices]choice
}

// choice is one candidate of a stream.
type choice struct {
	calls   int64
	details int64
	bytes   int64 // of text
	wide    bool  // the text has characters of more than one byte
	signed  bool  // thought_signature is out
}

// Stream starts translating one streaming answer.
func (Dialect) Stream(c *dialect.Chat, _ *dialect.Target) dialect.Stream {
	s := streams.Get().(*stream)
	s.Open(c, s)
	s.single, s.Endless = wantsOne(c), true
	s.Events.Most = maxEvent
	return s
}

// Read is dialect.Reader.
func (s *stream) Read() {
	data := s.Events.Data
	if len(data) == 0 {
		// Errors in mid-stream come without the framing of events, too.
		if raw := bytes.TrimSpace(s.Events.Source()[s.Events.From:s.Events.To]); len(raw) > 0 &&
			(raw[0] == '{' || raw[0] == '[') {
			data = envelope(raw)
		}
	}
	if len(data) == 0 || s.Over() {
		return
	}
	s.Chunks++
	if s.Begun > 0 && s.Events.DataFrom >= 0 && s.usual(data) {
		return
	}
	s.Count()
	if s.scanned.Skim(data, answerShape) != nil {
		if data[0] == '{' && !s.AtEnd {
			// Its text is lost, which the client must not take for a whole answer.
			s.Fail(nil)
		}
		return
	}
	s.read = read{&s.scanned, data}
	if i := s.doc.TopIndex(answerError); i >= 0 && s.doc.Fields[i].Kind == scan.Object {
		s.Fail(data)
		return
	}
	s.take(data)
}

// take puts the content of an event, or of a whole answer, that is not an error.
func (s *stream) take(data []byte) {
	if s.Begun == 0 {
		s.Begin(s.string(s.doc.TopIndex(answerID)))
	}
	if i := s.doc.TopIndex(answerCandidates); i >= 0 && s.doc.Fields[i].Kind == scan.Array {
		for at := i + 1; at < s.doc.Fields[i].Next && !s.Failed(); at = s.doc.Fields[at].Next {
			if s.doc.Fields[at].Kind == scan.Object {
				s.candidate(at)
			}
		}
	} else if isBlocked(&s.read) {
		s.Fail(blocked)
	}
	if i := s.doc.TopIndex(answerUsage); i >= 0 && s.doc.Fields[i].Kind == scan.Object {
		s.count(s.doc.Fields[i].Raw(data))
		s.Reported = s.counts.seen && s.Finished()
	}
}

// count reads a usage object.
func (s *stream) count(raw []byte) {
	s.counts.read(raw)
	s.Last = s.counts.usage()
}

// Count is dialect.Reader. It reads the usage that was only kept.
func (s *stream) Count() {
	if len(s.told) > 0 {
		s.count(s.told)
		s.told = s.told[:0]
	}
}

// Flush is dialect.Reader. Nothing is held back.
func (s *stream) Flush() {}

func (s *stream) Release() {
	s.Reset()
	s.scanned.Reset()
	fresh := stream{Answer: s.Answer, scanned: s.scanned, callID: s.callID[:0], pieces: s.pieces[:0],
		told: s.told[:0], template: s.template}
	if cap(fresh.pieces) > keepScratch {
		fresh.pieces = nil
	}
	*s = fresh
	streams.Put(s)
}
