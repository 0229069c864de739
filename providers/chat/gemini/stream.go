package gemini

import (
	"bytes"
	"sync"

	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

const (
	// keepOut is how much room for translated events a reused stream keeps.
	keepOut = 8 << 10
	// maxEvent is the largest event that is read: calls come whole, and one may
	// write a file; drawn images do not come in pieces either.
	maxEvent = 4 << 20
)

var streams = sync.Pool{New: func() any { return new(stream) }}

// stream turns events of this dialect, each an answer of its own that holds what
// is new, into chunks of a chat completion.
type stream struct {
	read
	dialect.Meter
	events  dialect.Events
	counts  counts
	told    []byte // the last usage, where it has not been read yet
	mold    eventTemplate
	scanned scan.Document
	single  bool // one call of a tool is wanted

	out  []byte
	head []byte // of every chunk, up to its choices
	id   []byte

	choices [maxChoices]choice
	begun   int // choices[:begun] have had their first chunk

	done     bool
	failed   bool
	ending   bool   // what is read is what was left at the end, perhaps in pieces
	reason   []byte // JSON in which the upstream said so
	complete bool
	reported bool // the usage of the whole answer came
}

// choice is one candidate of a stream.
type choice struct {
	think   dialect.Think
	calls   int64
	details int64
	finish  string // what the last finishReason means
	bytes   int64  // of text
	wide    bool   // the text has characters of more than one byte
	signed  bool   // thought_signature is out
	ended   bool   // it has a finishReason
}

// Stream starts translating one streaming answer.
func (Dialect) Stream(c *dialect.Chat, _ *dialect.Target) dialect.Stream {
	s := streams.Get().(*stream)
	s.Chat, s.single = c, wantsOne(c)
	s.events.Most = maxEvent
	return s
}

func (s *stream) Pass(p []byte) []byte {
	s.out = s.out[:0]
	if s.events.Large() {
		n := s.events.LetOn(p)
		if p = p[n:]; s.events.Large() {
			return s.out
		}
	}
	s.events.Feed(p)
	for s.events.Next() {
		s.event()
	}
	if s.events.TooLarge() {
		// What it said is lost, which the client must not take for a whole answer.
		s.events.Let()
		s.fail(nil)
	}
	s.events.Keep()
	return s.out
}

func (s *stream) event() {
	data := s.events.Data
	if len(data) == 0 {
		// Errors in mid-stream come without the framing of events, too.
		if raw := bytes.TrimSpace(s.events.Source()[s.events.From:s.events.To]); len(raw) > 0 &&
			(raw[0] == '{' || raw[0] == '[') {
			data = envelope(raw)
		}
	}
	s.take(data)
}

func (s *stream) take(data []byte) {
	if len(data) == 0 || s.done || s.failed {
		return
	}
	s.Chunks++
	if s.begun > 0 && s.events.DataFrom >= 0 && s.usual(data) {
		return
	}
	s.settle()
	if s.scanned.Skim(data, answerShape) != nil {
		if data[0] == '{' && !s.ending {
			// What it said is lost, which the client must not take for a whole answer.
			s.fail(nil)
		}
		return
	}
	s.read = read{&s.scanned, data}
	if i := s.doc.TopIndex(answerError); i >= 0 && s.doc.Fields[i].Kind == scan.Object {
		s.fail(data)
		return
	}
	s.begin()
	if i := s.doc.TopIndex(answerCandidates); i >= 0 && s.doc.Fields[i].Kind == scan.Array {
		for at := i + 1; at < s.doc.Fields[i].Next && !s.failed; at = s.doc.Fields[at].Next {
			if s.doc.Fields[at].Kind == scan.Object {
				s.candidate(at)
			}
		}
	} else if isBlocked(&s.read) {
		s.fail(blocked)
	}
	if i := s.doc.TopIndex(answerUsage); i >= 0 && s.doc.Fields[i].Kind == scan.Object {
		s.count(s.doc.Fields[i].Raw(data))
		s.reported = s.counts.seen && s.Finished()
	}
}

// settle reads the usage that was only kept.
func (s *stream) settle() {
	if len(s.told) > 0 {
		s.count(s.told)
		s.told = s.told[:0]
	}
}

// count reads a usage object.
func (s *stream) count(raw []byte) {
	s.counts.read(raw)
	s.Last = s.counts.usage()
}

// current is the usage of an answer that came to its end.
func (s *stream) current() dialect.Usage {
	return s.Settled(s.reported)
}

func (s *stream) fail(data []byte) {
	if s.failed || s.done {
		return
	}
	s.failed, s.reason = true, bytes.Clone(data)
	fault := dialect.FaultOf(data)
	s.out = fault.AppendEvent(s.out)
}

// Finish sends the end of the answer, which this dialect has no event for.
func (s *stream) Finish(complete bool) []byte {
	s.out = s.out[:0]
	s.settle()
	s.ending = true
	if complete && s.events.AtEnd() {
		s.event()
	}
	switch {
	case !complete || s.done:
	case s.failed:
		s.done = true
		s.out = append(s.out, dialect.DoneEvent...)
	case s.Finished():
		s.end()
	}
	s.complete = s.done && !s.failed
	return s.out
}

func (s *stream) Usage() dialect.Usage {
	s.settle()
	if s.complete {
		return s.current()
	}
	return s.Settled(false)
}

// Finished says that every choice that has begun has ended.
func (s *stream) Finished() bool {
	for i := range s.choices[:s.begun] {
		if !s.choices[i].ended {
			return false
		}
	}
	return s.begun > 0
}

// Cut is dialect.Stream.
func (s *stream) Cut(out []byte) (short, tail []byte) {
	if s.done || s.failed || s.begun == 0 {
		return out, nil
	}
	for i := range s.choices[:s.begun] {
		s.choices[i].finish, s.choices[i].ended = "length", true
	}
	s.out = nil
	s.end()
	tail, s.out = s.out, out
	return out, tail
}

// AtBoundary is always true: only whole events are written.
func (s *stream) AtBoundary() bool { return true }

// Done says that [DONE] went out, or will with Finish: nothing in the stream
// itself tells its end.
func (s *stream) Done() bool   { return s.done || !s.failed && s.Finished() }
func (s *stream) Failed() bool { return s.failed }

func (s *stream) FailedWith() []byte { return s.reason }

func (s *stream) Release() {
	s.events.Reset()
	s.Text.Release()
	s.scanned.Reset()
	fresh := stream{events: s.events, scanned: s.scanned, out: s.out[:0], head: s.head[:0],
		id: s.id[:0], told: s.told[:0], mold: s.mold}
	if cap(fresh.out) > keepOut {
		fresh.out = nil
	}
	*s = fresh
	streams.Put(s)
}
