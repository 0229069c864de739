package responses

import (
	"bytes"
	"strconv"
	"sync"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

const (
	// maxKept is how much of an answer is kept for the events that repeat it, and the
	// largest chunk that is held until it is whole.
	maxKept = 8 << 20
	// maxItems is how many items an output may have.
	maxItems = 1024
	// keepOut and keepItems are how much room for events and of each item a reused
	// stream keeps.
	keepOut   = 16 << 10
	keepItems = 8 << 10
)

var (
	streams  = sync.Pool{New: func() any { return new(stream) }}
	doneMark = []byte("[DONE]")
)

// stream turns the chunks of a chat completion into events. Items are numbered in the
// order in which they begin. Reasoning and messages end when something else begins;
// calls stay open to the end, since their arguments may come in turns.
type stream struct {
	f      *Form
	c      *dialect.Chat
	events dialect.Events
	spec   bool
	out    []byte
	number int64 // of the next event

	items []item
	last  int // the reasoning or message that is open, -1: none
	kept  int // bytes

	begun   bool
	ended   bool
	stop    string // why the answer is incomplete; empty: it is not
	outcome outcome
	cost    []byte
	params  []byte
	brand   []byte

	usual   fastPathChunk
	odd     bool // the chunk says more than a text
	plainly bool // thoughts come as reasoning_content, which details may repeat
}

// Stream is dialect.Form.
func (f *Form) Stream(c *dialect.Chat) dialect.FormStream {
	s := streams.Get().(*stream)
	s.f, s.c, s.spec, s.last = f, c, f.o.Spec, -1
	f.searched = c.Searched
	return s
}

// Pass is dialect.FormStream.
func (s *stream) Pass(chunks []byte) []byte {
	s.out = s.out[:0]
	if s.ended {
		return s.out
	}
	src := s.events.Feed(chunks)
	for s.events.Next() {
		s.read(s.events.Data)
	}
	if len(src)-s.events.To > maxKept {
		s.tooLong()
	}
	s.events.Keep()
	return s.out
}

// Finish is dialect.FormStream.
func (s *stream) Finish() []byte {
	s.out = s.out[:0]
	if !s.ended && s.events.AtEnd() {
		s.read(s.events.Data)
	}
	s.complete()
	return s.out
}

// Fail is dialect.FormStream.
func (s *stream) Fail(fault *dialect.Fault) []byte {
	s.out = s.out[:0]
	s.fail(jsontext.AppendEscaped(nil, fault.Code), jsontext.AppendEscaped(nil, fault.Message))
	return s.out
}

// Release is dialect.FormStream.
func (s *stream) Release() {
	s.events.Reset()
	s.usual.forget()
	fresh := stream{
		events: s.events, usual: s.usual, out: s.out[:0], items: reusable(s.items), cost: s.cost[:0],
		params: s.params[:0], brand: s.brand[:0],
	}
	if cap(fresh.out) > keepOut {
		fresh.out = nil
	}
	*s = fresh
	streams.Put(s)
}

func (s *stream) read(data []byte) {
	switch {
	case s.ended || len(data) == 0:
	case s.last >= 0 && s.usual.match(s, data):
	case data[0] == '{':
		s.chunk(data)
	case bytes.Equal(bytes.TrimSpace(data), doneMark):
		s.complete()
	}
}

// event begins an event.
func (s *stream) event(name string) {
	s.out = append(append(s.out, "event: "...), name...)
	s.out = append(append(append(s.out, "\ndata: {\"type\":\""...), name...), `","sequence_number":`...)
	s.out = strconv.AppendInt(s.out, s.number, 10)
	s.number++
}

func (s *stream) endEvent() { s.out = append(s.out, "}\n\n"...) }

// place writes which item an event is of, and which part of it.
func (s *stream) place(it *item, part string) {
	s.out = s.f.appendID(append(s.out, `,"item_id":"`...), it)
	s.out = strconv.AppendInt(append(s.out, `","output_index":`...), int64(it.index), 10)
	switch part {
	case "content":
		s.out = jsontext.Object(s.out).Int("content_index", int64(it.count-1))
	case "summary":
		s.out = jsontext.Object(s.out).Int("summary_index", int64(max(0, it.count-1)))
	}
}

// whole writes an event with the response.
func (s *stream) whole(name string) {
	s.event(name)
	s.out = append(s.out, `,"response":`...)
	from := len(s.out)
	s.out = s.f.appendHead(s.out, s.c, &s.outcome)
	status := "completed"
	if s.outcome.status != "completed" {
		status = "incomplete"
	}
	n := 0
	for i := range s.items {
		if it := &s.items[i]; it.opened {
			if n++; n > 1 {
				s.out = append(s.out, ',')
			}
			s.out = s.f.appendItem(s.out, it, s.statusOf(it, status), false)
		}
	}
	s.out = s.f.appendTail(s.out, &s.outcome)
	if s.ended && s.outcome.status != "failed" {
		s.f.keepResponse(s.out[from:])
	}
	s.endEvent()
}

// statusOf is an item's status at the end: what was whole before is.
func (s *stream) statusOf(it *item, status string) string {
	switch {
	case it.failed:
		return "failed"
	case it.closed:
		return "completed"
	case s.spec && status == "incomplete":
		return "failed" // the word of addendum 6.3
	}
	return status
}

// begin tells the client that the response has begun.
func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.outcome.status = "in_progress"
	s.whole("response.created")
	if !s.spec {
		s.whole("response.in_progress")
	}
}

// complete ends the answer as the model did.
func (s *stream) complete() {
	if s.ended {
		return
	}
	s.begin()
	s.ended = true
	name := "response.completed"
	if s.outcome.status = "completed"; s.stop != "" {
		s.outcome.status, s.outcome.reason, name = "incomplete", s.stop, "response.incomplete"
	}
	for i := range s.items {
		if it := &s.items[i]; it.closed {
			continue
		} else if i+1 < len(s.items) {
			s.end(it, "completed")
		} else {
			s.end(it, s.outcome.status) // what was being said when the answer was cut is not whole
		}
	}
	s.outcome.cost, s.outcome.params, s.outcome.brand = orNil(s.cost), orNil(s.params), s.brand
	s.whole(name)
	if s.spec {
		s.out = append(s.out, dialect.DoneEvent...)
	}
}

func orNil(value []byte) []byte {
	if len(value) == 0 {
		return nil
	}
	return value
}

const textTooLong = "The model's answer is too long for this form of it."

func (s *stream) tooLong() { s.fail([]byte("upstream_error"), []byte(textTooLong)) }

// fail ends the answer with an error, whose words stand as between the quotes of JSON
// strings.
func (s *stream) fail(code, message []byte) {
	if s.ended {
		return
	}
	s.begin()
	s.ended = true
	s.outcome.status, s.outcome.code, s.outcome.message = "failed", errorCode(code), message
	s.outcome.cost, s.outcome.params, s.outcome.brand = orNil(s.cost), orNil(s.params), s.brand
	s.whole("response.failed")
	if s.spec {
		s.out = append(s.out, dialect.DoneEvent...)
		return
	}
	s.event("error")
	s.out = appendErrorMembers(s.out, code, message)
	s.endEvent()
}

// appendErrorMembers appends what follows an error event's type and number.
func appendErrorMembers(dst, code, message []byte) []byte {
	dst = append(append(append(dst, `,"code":"`...), code...), '"')
	dst = append(append(append(dst, `,"message":"`...), message...), '"')
	return append(dst, `,"param":null`...)
}

// errorCode is the code that the types of OpenAI's packages have for one of ours.
func errorCode(code []byte) []byte {
	switch string(code) {
	case "model_overloaded", "rate_limit_exceeded":
		return []byte("rate_limit_exceeded")
	case "content_blocked_by_provider", "context_length_exceeded":
		return []byte("invalid_prompt")
	case "upstream_error", "":
		return []byte("server_error")
	}
	return code
}

// AppendError is dialect.Form, for streams of upstreams that speak this form. The response fails
// without its items, which the client has. Where not even its begin went by, it begins first.
func (f *Form) AppendError(dst []byte, c *dialect.Chat, fault *dialect.Fault) []byte {
	begun := f.number > 0 || len(f.upstreamID) > 0
	s := stream{f: f, c: c, spec: f.o.Spec, last: -1, begun: begun, number: f.number, out: dst}
	s.outcome.id = f.upstreamID
	s.fail(jsontext.AppendEscaped(nil, fault.Code), jsontext.AppendEscaped(nil, fault.Message))
	return s.out
}
