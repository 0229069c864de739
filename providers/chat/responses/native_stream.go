package responses

import (
	"bytes"
	"strconv"
	"sync"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

var (
	natives  = sync.Pool{New: func() any { return new(nativeStream) }}
	typeKey  = []byte(`{"type":"`)
	deltaKey = []byte(`"delta":"`)
)

// nativeStream passes the events of an upstream on as they came, but for the necessary
// changes of the response in them, and counts the texts on their way.
type nativeStream struct {
	meter
	events dialect.Events
	usual  nativeUsual
	t      *dialect.Target
	form   *Form // the client's; nil: none

	out     []byte
	outline outline

	done   bool // the event that ends the answer went by
	whole  bool // …and says that the answer is whole
	failed bool
	reason []byte // JSON in which the upstream said so
	dead   bool   // nothing more goes to the client
	wrote  bool   // the last event went out in words of ours
}

// tooLarge is the error in the place of an event that is too large to be read.
const tooLarge = `{"type":"error","code":"server_error","message":"The event is too large."}`

// Stream is dialect.Dialect.
func (Native) Stream(c *dialect.Chat, t *dialect.Target) dialect.Stream {
	s := natives.Get().(*nativeStream)
	s.Chat, s.t = c, t
	if s.form, _ = c.Form.(*Form); s.form != nil {
		s.form.number, s.form.upstreamID = 0, s.form.upstreamID[:0]
	}
	s.outline.lost, s.outline.usual = s.form == nil, -1
	return s
}

func (s *nativeStream) Pass(p []byte) []byte {
	s.out = s.out[:0]
	if s.dead {
		return s.out
	}
	src, from := s.events.Feed(p), 0
	copying := false
	for s.events.Next() {
		if s.readEvent(src, from) {
			copying, from = true, s.events.To
		}
	}
	end := s.events.To
	if len(src)-end > maxKept {
		// No event is as large that means well, and unread it cannot go by.
		s.out = append(s.out, src[from:end]...)
		s.fail([]byte(tooLarge))
		s.words([]byte(tooLarge))
		s.dead = true
		return s.out
	}
	s.events.Keep()
	if !copying {
		return src[:end]
	}
	s.out = append(s.out, src[from:end]...)
	return s.out
}

// readEvent reads an event, and says whether it was written into out, behind the part of src
// before it.
func (s *nativeStream) readEvent(src []byte, from int) (written bool) {
	data := s.events.Data
	s.Text.Event(s.events.To-s.events.From, data)
	if len(data) == 0 && s.wrote {
		// Empty lines behind an event that went out with line ends of ours are part of it.
		if first := src[s.events.From]; first == '\n' || first == '\r' {
			s.out = append(s.out, src[from:s.events.From]...)
			return true
		}
	}
	s.wrote = false
	if len(data) == 0 || data[0] != '{' {
		return false
	}
	s.Chunks++
	if s.usual.match(s, data) {
		return false
	}
	kind := kindOf(data)
	if kind == nil {
		return false
	}
	s.number(data)
	switch {
	case bytes.HasSuffix(kind, []byte(".delta")):
		s.outline.usual = -1
		s.outline.note(kind, data)
		if way := keyOf(kind); way >= 0 {
			s.see(seenDelta, uint16(way), deltaOf(data))
			s.usual.learn(data, kind, uint16(way))
		}
		return false
	case string(kind) == "error":
		s.fail(data)
		s.out = append(s.out, src[from:s.events.From]...)
		s.words(data)
		s.wrote = true
		return true
	}
	response := jsontext.MemberOf(data, "response")
	if len(response) == 0 || response[0] != '{' {
		s.told(kind, data)
		s.outline.note(kind, data)
		return false
	}
	if !s.outline.lost {
		s.outline.created(s.form, response)
	}
	r := readResponse(response)
	var fault *dialect.Fault
	switch string(kind) {
	case "response.completed", "response.incomplete", "response.failed":
		s.done = true
		readNativeUsage(r.usage, &s.Last)
		s.output(r.output, seenWhole)
		if s.whole = string(kind) != "response.failed"; !s.whole {
			s.fail(failureOf(r.failure))
			f := dialect.FaultOf(s.reason)
			fault = &f
		}
	}
	if fault == nil && !r.changes(s.Chat, s.t, s.form) {
		return false
	}
	s.out = append(s.out, src[from:s.events.From]...)
	at := cap(data) - cap(response) // it is a piece of data
	s.out = append(append(s.out, "event: "...), kind...)
	s.out = append(append(s.out, "\ndata: "...), data[:at]...)
	from = len(s.out)
	s.out = appendPatched(s.out, response, s.Chat, s.t, s.form, fault, nil)
	if s.done && s.whole {
		s.form.keepResponse(s.out[from:])
	}
	s.out = append(append(s.out, data[at+len(response):]...), "\n\n"...)
	s.wrote = true
	return true
}

// kindOf is the type of an event.
func kindOf(data []byte) []byte {
	if rest, ok := bytes.CutPrefix(data, typeKey); ok {
		if end := bytes.IndexByte(rest, '"'); end >= 0 {
			return rest[:end]
		}
	}
	return jsontext.StringIn(data, "type")
}

// keyOf is which text the deltas of an event are of; -1: of none that a model wrote.
func keyOf(kind []byte) int {
	switch string(kind) {
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return int(dialect.TextKey(0, dialect.KindReasoning, 0))
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		return int(dialect.TextKey(0, dialect.KindToolInput, 0))
	case "response.audio.delta":
		return -1 // sound has many more bytes than tokens
	}
	return int(dialect.TextKey(0, dialect.KindContent, 0))
}

// deltaOf is the text of a delta event. A quote inside a JSON string is escaped, so that
// the name is a name.
func deltaOf(data []byte) []byte {
	at := bytes.Index(data, deltaKey)
	if at < 0 {
		return jsontext.StringIn(data, "delta")
	}
	from := at + len(deltaKey)
	end := jsontext.SkipString(data, from-1)
	if end < 0 {
		return nil
	}
	return data[from : end-1]
}

// textNames are the members that tell a text as a whole.
var textNames = [...]string{"text", "refusal", "arguments", "input"}

// told notes the texts of events that repeat them.
func (s *nativeStream) told(kind, data []byte) {
	switch string(kind) {
	case "response.output_text.done", "response.refusal.done", "response.reasoning_summary_text.done",
		"response.reasoning_text.done", "response.function_call_arguments.done", "response.custom_tool_call_input.done":
		key := dialect.TextKey(0, dialect.KindContent, 0)
		for _, name := range textNames {
			s.see(seenText, key, jsontext.StringIn(data, name))
		}
	case "response.content_part.done", "response.reasoning_summary_part.done":
		s.part(jsontext.MemberOf(data, "part"), seenPart, dialect.TextKey(0, dialect.KindContent, 0))
	case "response.output_item.done":
		item := jsontext.MemberOf(data, "item")
		s.item(item, seenItem)
		s.form.keep(item)
	case "response.output_item.added":
		item := jsontext.MemberOf(data, "item")
		s.see(seenDelta, dialect.TextKey(0, dialect.KindToolName, 0), jsontext.StringIn(item, "name"))
	}
}

// number keeps the number of the event after this one.
func (s *nativeStream) number(data []byte) {
	if s.form == nil {
		return
	}
	const key = `"sequence_number":`
	if at := bytes.Index(data, []byte(key)); at >= 0 {
		at += len(key)
		if end := jsontext.SkipValue(data, at); end > 0 {
			n, _ := jsontext.ReadCount(data[at:end])
			s.form.number = n + 1
		}
	}
}

func (s *nativeStream) fail(words []byte) {
	s.done = true
	if !s.failed {
		s.failed, s.reason = true, bytes.Clone(words)
	}
}

// words writes an error event in words that are safe for the client.
func (s *nativeStream) words(data []byte) {
	f := dialect.FaultOf(data)
	number, ok := jsontext.ReadCount(jsontext.MemberOf(data, "sequence_number"))
	if !ok {
		number = 0
	}
	s.out = strconv.AppendInt(append(s.out, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":"...), number, 10)
	s.out = appendErrorMembers(s.out, []byte(f.Code), []byte(f.Message))
	s.out = append(s.out, "}\n\n"...)
}

// Finish reads a last event without its empty line.
func (s *nativeStream) Finish(complete bool) []byte {
	s.out = s.out[:0]
	if complete && !s.dead && s.events.AtEnd() && jsontext.SkipValue(s.events.Data, 0) > 0 {
		src := s.events.Source()
		if !s.readEvent(src, s.events.From) {
			s.out = append(s.out, src[s.events.From:s.events.To]...)
		}
		for !bytes.HasSuffix(s.out, []byte("\n\n")) {
			s.out = append(s.out, '\n')
		}
	}
	s.whole = s.whole && complete
	return s.out
}

func (s *nativeStream) Usage() dialect.Usage {
	return s.Settled(s.Last.Seen && s.whole)
}

// AtBoundary is always true: only whole events are passed on.
func (s *nativeStream) AtBoundary() bool   { return true }
func (s *nativeStream) Done() bool         { return s.done }
func (s *nativeStream) Finished() bool     { return s.done }
func (s *nativeStream) Failed() bool       { return s.failed }
func (s *nativeStream) FailedWith() []byte { return s.reason }

func (s *nativeStream) Release() {
	s.events.Reset()
	s.Text.Release()
	s.usual.head, s.usual.mid = s.usual.head[:0], s.usual.mid[:0]
	fresh := nativeStream{events: s.events, usual: s.usual, out: s.out[:0]}
	fresh.outline.id, fresh.outline.items = s.outline.id[:0], reusable(s.outline.items)
	if cap(fresh.out) > keepOut {
		fresh.out = nil
	}
	*s = fresh
	natives.Put(s)
}
