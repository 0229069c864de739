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

// keepOut is how much room for relayed events a reused relay keeps.
const keepOut = 8 << 10

var streams = sync.Pool{New: func() any { return new(stream) }}

// stream reads the events of a message.
type stream struct {
	dialect.Answer // pings are not counted
	counts         counts
	doc            scan.Document
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
	sources  []byte // …as annotations
	reported bool   // the usage of the whole answer came
	atOnce   bool   // the message is whole
}

// Stream starts translating one streaming answer.
func (Dialect) Stream(c *dialect.Chat, _ *dialect.Target) dialect.Stream {
	s := streams.Get().(*stream)
	s.Open(c, s)
	return s
}

// Read is dialect.Reader.
func (s *stream) Read() {
	data := s.Events.Data
	if len(data) == 0 || s.Over() {
		return
	}
	s.Chunks++
	s.begins = false
	if s.usual(data) || s.doc.Skim(data, eventShape) != nil {
		return
	}
	switch string(s.text(data, s.doc.TopIndex(eventType))) {
	case "ping":
		s.Chunks--
	case "message_start":
		s.begins = true
		s.start(data)
	case "content_block_start":
		s.index = 0
		if i := s.doc.TopIndex(eventIndex); i >= 0 {
			s.index, _ = jsontext.ReadCount(s.doc.Fields[i].Raw(data))
		}
		if s.isOpen = true; s.doc.TopIndex(eventBlock) >= 0 {
			s.openBlock(data, s.doc.TopIndex(eventBlock))
		}
	case "content_block_delta":
		s.delta(data)
	case "content_block_stop":
		s.closeBlock()
	case "message_delta":
		s.messageDelta(data)
	case "message_stop":
		s.End()
	case "error":
		s.Fail(data)
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
func (s *stream) text(data []byte, i int32) []byte { return s.doc.StringAt(data, i) }

func (s *stream) inside(data []byte, top, id int) []byte {
	i := s.doc.TopIndex(top)
	if i < 0 {
		return nil
	}
	return s.text(data, s.doc.Member(i, id))
}

// count reads a usage object. The one in message_start counts a single token.
func (s *stream) count(raw []byte) {
	s.counts.read(raw)
	s.Last, s.Reported = s.counts.usage(), s.reported && s.counts.prompt
}

// Count is dialect.Reader. Every usage is read as it comes.
func (s *stream) Count() {}

func (s *stream) Release() {
	s.renew()
	streams.Put(s)
}

// renew readies s for the next answer.
func (s *stream) renew() {
	s.Reset()
	s.doc.Reset()
	*s = stream{Answer: s.Answer, doc: s.doc, cited: s.cited[:0], sources: s.sources[:0]}
}
