package responses

import (
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

var streams = sync.Pool{New: func() any { return new(stream) }}

// stream writes an answer as the events of a response. Items are numbered in the
// order in which they begin. Reasoning and messages end when something else begins;
// calls stay open to the end, since their arguments may come in turns.
type stream struct {
	dialect.FormState
	f      *Form
	c      *dialect.Chat
	spec   bool
	number int64 // of the next event

	items []item
	last  int // the reasoning or message that is open, -1: none
	kept  int // bytes

	begun   bool
	stop    string // why the answer is incomplete; empty: it is not
	outcome outcome
}

// Writer is dialect.Form.
func (f *Form) Writer(c *dialect.Chat) dialect.FormWriter {
	s := streams.Get().(*stream)
	s.f, s.c, s.spec, s.last = f, c, f.o.Spec, -1
	f.searched = c.Searched
	return s
}

// Release is dialect.FormWriter.
func (s *stream) Release() {
	s.Reset(keepOut)
	*s = stream{FormState: s.FormState, items: reusable(s.items)}
	streams.Put(s)
}

// event begins an event.
func (s *stream) event(name string) {
	s.Out = append(append(s.Out, "event: "...), name...)
	s.Out = append(append(append(s.Out, "\ndata: {\"type\":\""...), name...), `","sequence_number":`...)
	s.Out = strconv.AppendInt(s.Out, s.number, 10)
	s.number++
}

func (s *stream) endEvent() { s.Out = append(s.Out, "}\n\n"...) }

// place writes which item an event is of, and which part of it.
func (s *stream) place(it *item, part string) {
	s.Out = s.f.appendID(append(s.Out, `,"item_id":"`...), it)
	s.Out = strconv.AppendInt(append(s.Out, `","output_index":`...), int64(it.index), 10)
	switch part {
	case "content":
		s.Out = jsontext.Object(s.Out).Int("content_index", int64(it.count-1))
	case "summary":
		s.Out = jsontext.Object(s.Out).Int("summary_index", int64(max(0, it.count-1)))
	}
}

// whole writes an event with the response.
func (s *stream) whole(name string) {
	s.event(name)
	s.Out = append(s.Out, `,"response":`...)
	from := len(s.Out)
	s.Out = s.f.appendHead(s.Out, s.c, &s.outcome)
	status := "completed"
	if s.outcome.status != "completed" {
		status = "incomplete"
	}
	n := 0
	for i := range s.items {
		if it := &s.items[i]; it.opened {
			if n++; n > 1 {
				s.Out = append(s.Out, ',')
			}
			s.Out = s.f.appendItem(s.Out, it, s.statusOf(it, status), false)
		}
	}
	s.Out = s.f.appendTail(s.Out, &s.outcome)
	if s.Ended && s.outcome.status != "failed" {
		s.f.keepResponse(s.Out[from:])
	}
	s.endEvent()
}

// statusOf is an item's status at the end: an item that was whole before stays so.
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

// End is dialect.ChunkWriter: the answer ends as the model ended it.
func (s *stream) End() {
	s.begin()
	s.Ended = true
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
			s.end(it, s.outcome.status) // the item open at the cut is not whole
		}
	}
	s.settleOutcome()
	s.whole(name)
	if s.spec {
		s.Out = append(s.Out, dialect.DoneEvent...)
	}
}

// settleOutcome takes the members that the end of a response repeats from the chunks.
func (s *stream) settleOutcome() {
	s.outcome.usage, s.outcome.cost = s.Usage, orNil(s.Cost)
	s.outcome.params = orNil(s.Parameters)
}

func orNil(value []byte) []byte {
	if len(value) == 0 {
		return nil
	}
	return value
}

const textTooLong = "The model's answer is too long for this form of it."

func (s *stream) tooLong() { s.Fault(&dialect.Fault{Code: dialect.CodeUpstream, Message: textTooLong}) }

// Fault is dialect.ChunkWriter. It ends the answer with an error.
func (s *stream) Fault(f *dialect.Fault) {
	if s.Ended {
		return
	}
	code, message := jsontext.AppendEscaped(nil, f.Code), jsontext.AppendEscaped(nil, f.Message)
	s.begin()
	s.Ended = true
	s.outcome.status, s.outcome.code, s.outcome.message = "failed", errorCode(code), message
	s.settleOutcome()
	s.whole("response.failed")
	if s.spec {
		s.Out = append(s.Out, dialect.DoneEvent...)
		return
	}
	s.event("error")
	s.Out = appendErrorMembers(s.Out, code, message)
	s.endEvent()
}

// appendErrorMembers appends the members behind an error event's type and number.
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
	s := stream{f: f, c: c, spec: f.o.Spec, last: -1, begun: begun, number: f.number}
	s.Out, s.outcome.id = dst, f.upstreamID
	s.Fault(fault)
	return s.Out
}
