package openai

import (
	"bytes"
	"sync"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// keepOut is how much room for rewritten events a reused stream keeps.
const keepOut = 8 << 10

var (
	streams    = sync.Pool{New: func() any { return new(stream) }}
	doneMark   = []byte("[DONE]")
	errorField = []byte("error")
)

// stream relays the events of one answer and reads them on the way: text,
// usage, and how it ends. The usual event is like the one before it but for
// its text (usual.go); it leaves as it came.
type stream struct {
	dialect.Meter
	events  dialect.Events
	t       *dialect.Target
	choices int64

	rename bool // write the model's id over the upstream's name
	strip  bool // remove <think> blocks
	hide   bool // drop the event that has nothing but usage

	usual    fastPathEvent
	ident    []byte // of the first event, the part before its choices
	id       []byte // of the completion; only enclaves' are kept
	final    bool   // the last usage came with or after a finish_reason
	finished bool   // a choice has a finish_reason
	done     bool   // [DONE] was seen, or written
	failed   bool   // the upstream reported an error
	reason   []byte // …in this JSON
	unsealed bool   // something is not known to be sealed
	betrayed bool   // …and it is the answer's content
	complete bool   // Finish said so
	priced   bool   // the event to rewrite gets the cost
	retold   bool   // …and the usage that is charged
	dropped  bool   // the end of the last event did not go out

	out   []byte
	spans []span // texts of the event to rewrite
	think []dialect.Think

	// Where the model's name was in the last event: it is there in
	// nearly all.
	modelAt   int
	modelName []byte

	large *BodyMeter // reads an event that is too large to hold
}

// span is the content of a choice in the event's data.
type span struct {
	from, to int
	choice   int64
	insert   bool // it is absent; an object's members begin at from
}

// verdict is the treatment of an event.
type verdict uint8

const (
	pass verdict = iota
	drop
	rewritten
	failure
	unsealed // it ends the answer
	last     // [DONE], before which the client gets the usage
)

// Stream starts reading one streaming answer.
func (Dialect) Stream(c *dialect.Chat, t *dialect.Target) dialect.Stream {
	s := streams.Get().(*stream)
	s.Chat, s.t, s.choices = c, t, max(c.Choices, 1)
	s.rename, s.strip, s.hide = t.Renames, c.DropThinking, c.HidesUsage()
	if c.Verbatim {
		s.rename, s.strip, s.hide = false, false, false
	}
	if c.Sealed {
		s.events.Most = maxSealedEvent
	}
	return s
}

func (s *stream) Pass(p []byte) []byte {
	if s.unsealed {
		return nil
	}
	if s.events.Large() {
		return s.passLarge(p)
	}
	src := s.events.Feed(p)
	s.out = s.out[:0]
	from, copying := s.relay(src, 0)
	end := s.events.To
	switch {
	case s.unsealed:
		end = s.events.From
	case s.events.TooLarge() && s.Chat.Sealed:
		s.unsealed = true // its content is unknown
	case s.events.TooLarge():
		return s.flushLarge(src, from, copying)
	default:
		s.events.Keep()
	}
	if !copying {
		return src[:end]
	}
	s.out = append(s.out, src[from:end]...)
	return s.out
}

// relay reads the whole events of src. An event that must not go out as it is makes it
// copy: everything before from is then in out.
func (s *stream) relay(src []byte, from int) (int, bool) {
	copying := false
	for s.events.Next() {
		v := s.judge()
		if v == pass {
			s.dropped = false
			continue
		}
		if v == unsealed {
			s.unsealed = true
			break
		}
		copying = true
		s.out = append(s.out, src[from:s.events.From]...)
		from = s.events.To
		s.write(src, v)
		// Of an event that did not go out, or went out with line ends of ours.
		s.dropped = v == drop || v == failure || s.events.DataFrom < 0
	}
	return from, copying
}

// judge judges one event.
func (s *stream) judge() verdict {
	data := s.events.Data
	if s.Chat.Sealed && !s.bare() {
		return unsealed
	}
	s.Text.Event(s.events.To-s.events.From, data)
	if len(data) == 0 {
		// A comment, an empty line, or the LF of a CR LF that was split. Empty
		// lines behind a dropped event are part of it.
		if first := s.events.Source()[s.events.From]; s.dropped && (first == '\n' || first == '\r') {
			return drop
		}
		return pass
	}
	if data[0] == '[' && bytes.Equal(bytes.TrimSpace(data), doneMark) {
		if s.done = true; s.tells() {
			return last
		}
		return pass
	}
	s.note(data)
	if len(s.events.Name) > 0 && bytes.Equal(s.events.Name, errorField) {
		return failure
	}
	if s.Chat.Sealed {
		return s.readSealed(data)
	}
	if !s.strip && s.usual.match(data, &s.Text) {
		if s.rename {
			return rewritten
		}
		return pass
	}
	return s.readFully(data)
}

// maxUntold is how many events may come before one has the completion's id.
const maxUntold = 4

// note counts an event, and keeps the members of the first one that the usage's will need.
func (s *stream) note(data []byte) {
	s.Chunks++
	if s.Chat.Verbatim && len(s.id) == 0 && s.Chunks <= maxUntold {
		s.id = append(s.id, dialect.CompletionID(data)...)
	}
	if s.Chunks > 1 {
		return
	}
	if at := find(data, 0, choicesKey); at > 0 && at <= maxUsual && data[0] == '{' {
		s.ident = append(s.ident[:0], data[:at-len(choicesKey)-1]...)
	}
}

// tells says that the client is to get the usage that it is charged for,
// since the upstream told none.
func (s *stream) tells() bool { return !s.Last.Seen && !s.failed && !s.hide && !s.Chat.Verbatim }

// writeUsageEvent writes that event.
func (s *stream) writeUsageEvent() {
	u := s.Usage()
	s.identify()
	s.out = dialect.AppendUsage(append(s.out, `"choices":[],"usage":`...), &u)
	s.out = append(s.Chat.AppendCostMember(s.out, &u), "}\n\n"...)
}

// identify begins an event of ours with the members of the answer's first one.
func (s *stream) identify() {
	s.spans, s.priced = s.spans[:0], false // those of the event before
	s.out = append(s.out, "data: "...)
	if len(s.ident) == 0 {
		s.ident = append(s.ident, `{"object":"chat.completion.chunk",`...)
	}
	s.splice(s.ident)
}

// readFully judges an event that is not like the one before it.
func (s *stream) readFully(data []byte) verdict {
	usage := find(data, 0, usageKey)
	if usage >= 0 && s.readUsage(data, usage) && s.hide {
		return drop
	}
	s.spans = s.spans[:0]
	s.priced = s.Chat.Cost != nil && usage >= 0 && s.final && usageAt(data, usage) >= 0
	var d delta
	n, from, to := 0, len(data), len(data)
	for at := 0; s.nextDelta(data, at, &d); at = d.end {
		if to = d.end; n == 0 {
			from = d.begin
		}
		n++
		if d.finished {
			s.finished = true
			if d.failed {
				return failure
			}
		}
	}
	if !s.Chat.True(s.Chat.Doc.TopIndex(dialect.ChatLogprobs)) {
		s.Text.Around(data[:from], data[min(to, len(data)):])
	}
	switch {
	case n == 1 && !d.finished && s.choices == 1 && !s.strip:
		s.usual.learn(data, &d)
	case n == 0 && find(data, 0, errorKey) >= 0 && isError(data):
		return failure
	}
	s.retold = usage >= 0 && s.final && len(s.spans) == 0 && !s.Chat.Verbatim && s.exceeds() && usageAt(data, usage) >= 0
	if s.rename || s.priced || s.retold || len(s.spans) > 0 {
		return rewritten
	}
	return pass
}

// flushLarge sends out an event that is too large to hold, as far as it has come.
func (s *stream) flushLarge(src []byte, from int, copying bool) []byte {
	begin := s.events.To
	tail := s.events.Let()
	if s.large == nil {
		s.large = &BodyMeter{}
	}
	s.large.begin(s.Chat, s.t, &s.Text)
	if !copying && !s.large.rewrites() {
		s.large.Pass(tail)
		return src
	}
	s.out = append(s.out, src[from:begin]...)
	s.out = append(s.out, s.large.Pass(tail)...)
	return s.out
}

// passLarge passes on the rest of a large event.
func (s *stream) passLarge(p []byte) []byte {
	n := s.events.LetOn(p)
	head := s.large.Pass(p[:n])
	if s.events.Large() {
		return head
	}
	if s.large.usage.Seen {
		s.Last, s.final = s.large.usage, s.finished || s.large.finished
	}
	s.finished = s.finished || s.large.finished
	src := s.events.Feed(p[n:])
	s.out = append(s.out[:0], head...)
	from, _ := s.relay(src, 0)
	if s.events.TooLarge() {
		return s.flushLarge(src, from, true)
	}
	s.out = append(s.out, src[from:s.events.To]...)
	s.events.Keep()
	return s.out
}

// Finish reads a last event without its empty line, and writes the
// [DONE] that some servers forget.
func (s *stream) Finish(complete bool) []byte {
	s.out = s.out[:0]
	if s.unsealed {
		return nil
	}
	if complete && s.events.AtEnd() && (whole(s.events.Data) || s.Chat.Verbatim && len(s.events.Data) == 0) {
		src := s.events.Source()
		switch v := s.judge(); v {
		case unsealed:
			s.unsealed = true
			return nil
		case pass:
			s.out = append(s.out, src[s.events.From:s.events.To]...)
		default:
			s.write(src, v)
		}
		if !s.Chat.Verbatim || s.failed {
			s.endEvent()
		}
	}
	if complete && !s.done && (s.finished || s.failed) {
		s.done = true
		if s.tells() {
			s.writeUsageEvent()
		}
		if !s.Chat.Verbatim || s.failed {
			s.out = append(s.out, dialect.DoneEvent...)
		}
	}
	s.complete = complete && s.done
	return s.out
}

// whole says that data was not cut off in the middle.
func whole(data []byte) bool {
	data = bytes.TrimSpace(data)
	return bytes.Equal(data, doneMark) || len(data) > 0 && data[0] == '{' && jsontext.SkipValue(data, 0) == len(data)
}

// endEvent gives the last event in out the empty line that it lacks.
func (s *stream) endEvent() {
	if len(s.out) == 0 || bytes.HasSuffix(s.out, []byte("\n\n")) {
		return
	}
	if s.out[len(s.out)-1] != '\n' {
		s.out = append(s.out, '\n')
	}
	s.out = append(s.out, '\n')
}

func (s *stream) Usage() dialect.Usage {
	return s.Settled(s.Last.Seen && (s.final || s.complete && !s.failed))
}

func (s *stream) AtBoundary() bool { return !s.events.Large() }
func (s *stream) Done() bool       { return s.done }
func (s *stream) Finished() bool   { return s.finished }
func (s *stream) Failed() bool     { return s.failed }

func (s *stream) FailedWith() []byte { return s.reason }

func (s *stream) ID() []byte     { return s.id }
func (s *stream) Unsealed() bool { return s.unsealed }
func (s *stream) Betrayed() bool { return s.betrayed }

func (s *stream) Release() {
	s.events.Reset()
	s.Text.Release()
	s.usual.forget()
	fresh := stream{events: s.events, usual: s.usual, out: s.out[:0], spans: s.spans[:0], modelName: s.modelName[:0],
		ident: s.ident[:0], id: s.id[:0]}
	if cap(fresh.out) > keepOut {
		fresh.out = nil
	}
	*s = fresh
	streams.Put(s)
}
