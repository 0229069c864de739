package anthropic

import (
	"bytes"
	"sync"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Members of events (fields of all kinds of them in one shape).
var (
	deltaShape = scan.NewShape(scan.Members(nil,
		"type", "text", "thinking", "signature", "partial_json", "stop_reason", "citation")...)
	eventShape = scan.NewShape(scan.Members(map[string]*scan.Shape{
		"delta": deltaShape, "content_block": blockShape, "message": scan.NewShape(scan.Members(nil, "id", "usage")...),
	}, "type", "index", "delta", "content_block", "message", "usage")...)
	// textDelta is how the usual event begins; the index and the text follow.
	textDelta = []byte(`{"type":"content_block_delta","index":`)
	textHead  = []byte(`,"delta":{"type":"text_delta","text":"`)
)

const (
	eventType = iota
	eventIndex
	eventDelta
	eventBlock
	eventMessage
	eventUsage
)

const (
	deltaType = iota
	deltaText
	deltaThinking
	deltaSignature
	deltaJSON
	deltaStop
	deltaCitation
)

// keepOut is how much room for translated events a reused stream keeps.
const keepOut = 8 << 10

var streams = sync.Pool{New: func() any { return new(stream) }}

// stream turns the events of a message into chunks of a chat completion.
type stream struct {
	dialect.Meter // pings are not counted
	events        dialect.Events
	counts        counts
	doc           scan.Document

	out  []byte
	head []byte // of every chunk, up to its choices
	role bool   // the first chunk is out
	// begins says that the last event was message_start.
	begins bool

	block    string // kind of the block that is open
	isOpen   bool   // a block is, of whatever kind
	index    int64  // …its number
	tool     int64  // tool calls so far
	input    bool   // the open tool call had input
	thoughts int64  // thinking blocks so far
	chars    int64  // characters of text so far
	textFrom int64  // …where the open block begins
	cited    []byte // its citations, an array without its end
	think    dialect.Think

	finish   string // the finish_reason, "" before it is known
	ended    bool   // its chunk is out
	done     bool
	failed   bool
	reason   []byte // JSON in which the upstream said so
	complete bool
	reported bool // the usage of the whole answer came
}

// Stream starts translating one streaming answer.
func (Dialect) Stream(c *dialect.Chat, _ *dialect.Target) dialect.Stream {
	s := streams.Get().(*stream)
	s.Chat = c
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
		s.read(s.events.Data)
	}
	if s.events.TooLarge() {
		// No event of this dialect is as large; what it said is lost, which the
		// client must not take for a whole answer.
		s.events.Let()
		s.fail(nil)
	}
	s.events.Keep()
	return s.out
}

func (s *stream) read(data []byte) {
	if len(data) == 0 || s.done || s.failed {
		return
	}
	s.Chunks++
	s.begins = false
	if s.usual(data) {
		return
	}
	if s.doc.Skim(data, eventShape) != nil {
		return
	}
	switch string(s.text(data, s.doc.TopIndex(eventType))) {
	case "ping":
		s.Chunks--
	case "message_start":
		s.begins = true
		s.start(data)
	case "content_block_start":
		s.openBlock(data)
	case "content_block_delta":
		s.delta(data)
	case "content_block_stop":
		s.closeBlock()
	case "message_delta":
		s.messageDelta(data)
	case "message_stop":
		s.end()
	case "error":
		s.fail(data)
	}
}

// usual translates the event of which there are hundreds, without a scan.
func (s *stream) usual(data []byte) bool {
	if s.Chat.DropThinking {
		return false
	}
	text, ok := s.plainText(data)
	if ok {
		s.content(text)
	}
	return ok
}

// plainText is the text of the usual event, escaped as in JSON.
func (s *stream) plainText(data []byte) (text []byte, ok bool) {
	rest, ok := bytes.CutPrefix(data, textDelta)
	if !ok || s.block != "text" {
		return nil, false
	}
	i := 0
	for i < len(rest) && rest[i] >= '0' && rest[i] <= '9' {
		i++
	}
	if rest, ok = bytes.CutPrefix(rest[i:], textHead); !ok {
		return nil, false
	}
	// The quote before the text is the head's last byte.
	end := jsontext.SkipString(data, len(data)-len(rest)-1)
	if end < 0 {
		return nil, false
	}
	return data[len(data)-len(rest) : end-1], true
}

// text is the raw content of a string field; nil if absent.
func (s *stream) text(data []byte, i int32) []byte {
	if i < 0 || s.doc.Fields[i].Kind != scan.String {
		return nil
	}
	f := &s.doc.Fields[i]
	return data[f.From+1 : f.To-1]
}

func (s *stream) inside(data []byte, top, id int) []byte {
	i := s.doc.TopIndex(top)
	if i < 0 {
		return nil
	}
	return s.text(data, s.doc.Member(i, id))
}

// count reads a usage object.
func (s *stream) count(raw []byte) {
	s.counts.read(raw)
	s.Last = s.counts.usage()
}

// current is the usage of an answer that came to its end.
func (s *stream) current() dialect.Usage {
	// The usage in message_start counts a single token.
	return s.Settled(s.reported && s.counts.prompt)
}

func (s *stream) fail(data []byte) {
	if s.failed || s.done {
		return
	}
	s.failed, s.reason = true, bytes.Clone(data)
	fault := dialect.FaultOf(data)
	s.out = fault.AppendEvent(s.out)
}

// Finish sends the end that an upstream left out.
func (s *stream) Finish(complete bool) []byte {
	s.out = s.out[:0]
	if complete && s.events.AtEnd() {
		s.read(s.events.Data)
	}
	switch {
	case !complete || s.done:
	case s.failed:
		s.done = true
		s.out = append(s.out, dialect.DoneEvent...)
	case s.finish != "":
		s.end()
	}
	s.complete = s.done && !s.failed
	return s.out
}

func (s *stream) Usage() dialect.Usage {
	if s.complete {
		return s.current()
	}
	return s.Settled(false)
}

// Cut is dialect.Stream.
func (s *stream) Cut(out []byte) (short, tail []byte) {
	if s.done || s.failed || !s.role {
		return out, nil
	}
	s.out, s.finish = nil, "length"
	s.end()
	tail, s.out = s.out, out
	return out, tail
}

// AtBoundary is always true: only whole events are written.
func (s *stream) AtBoundary() bool { return true }
func (s *stream) Done() bool       { return s.done }
func (s *stream) Finished() bool   { return s.finish != "" }
func (s *stream) Failed() bool     { return s.failed }

func (s *stream) FailedWith() []byte { return s.reason }

func (s *stream) Release() {
	s.events.Reset()
	s.Text.Release()
	s.doc.Reset()
	fresh := stream{events: s.events, doc: s.doc, out: s.out[:0], head: s.head[:0], cited: s.cited[:0]}
	if cap(fresh.out) > keepOut {
		fresh.out = nil
	}
	*s = fresh
	streams.Put(s)
}
