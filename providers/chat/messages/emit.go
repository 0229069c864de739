package messages

import (
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// Begin is dialect.ChunkWriter's. It sends message_start, and the searches before it.
func (s *stream) Begin(id, model, parameters []byte) {
	s.started = true
	s.Out = append(s.Out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\""...)
	s.Out = append(appendID(s.Out, id), `","type":"message","role":"assistant","model":`...)
	if len(jsontext.Quoted(model)) > 0 {
		s.Out = append(s.Out, model...)
	} else if s.c.Model != nil {
		s.Out = jsontext.AppendString(s.Out, s.c.Model.ID)
	} else {
		s.Out = append(s.Out, `""`...)
	}
	s.Out = append(s.Out, `,"content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,`+
		`"container":null,"diagnostics":null,"usage":`...)
	u := dialect.Usage{Prompt: s.prompt}
	s.Out = append(appendUsage(s.Out, &u, false), "}}\n\n"...)
	found := jsontext.MemberOf(parameters, citations)
	if found == nil {
		return
	}
	s.searched = true
	search := appendSearchID(nil, id)
	s.whole(func(dst []byte) []byte { return appendSearch(dst, search, s.c.Searched) })
	s.whole(func(dst []byte) []byte { return appendFound(dst, search, found) })
}

// whole sends a block that its start says all of.
func (s *stream) whole(block func(dst []byte) []byte) {
	s.close()
	s.begin()
	s.Out = append(block(s.Out), "}\n\n"...)
	s.stopped()
}

// begin sends the start of the next block, up to the block itself.
func (s *stream) begin() {
	s.index++
	s.Out = append(s.Out, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	s.Out = append(strconv.AppendInt(s.Out, s.index, 10), `,"content_block":`...)
}

func (s *stream) stopped() {
	s.Out = append(s.Out, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	s.Out = append(strconv.AppendInt(s.Out, s.index, 10), "}\n\n"...)
	s.block = kindNone
}

// open makes sure that a block of a kind is open.
func (s *stream) open(k kind) {
	if s.block == k {
		return
	}
	s.close()
	s.begin()
	switch k {
	case kindText:
		s.said = true
		s.Out = append(s.Out, "{\"type\":\"text\",\"text\":\"\"}}\n\n"...)
		s.behead(`{"type":"text_delta","text":"`)
	case kindThinking:
		s.Out = append(s.Out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n"...)
		s.behead(`{"type":"thinking_delta","thinking":"`)
		s.thought = false
	}
	s.block = k
}

// behead makes the head of the events that add to the open block.
func (s *stream) behead(delta string) {
	s.head = append(s.head[:0], "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	s.head = append(strconv.AppendInt(s.head, s.index, 10), `,"delta":`...)
	s.head = append(s.head, delta...)
}

// add sends a text, escaped as in JSON, that belongs to the open block.
func (s *stream) add(text []byte) {
	if len(text) == 0 {
		return
	}
	s.Out = append(append(append(s.Out, s.head...), text...), "\"}}\n\n"...)
}

// delta sends another addition to the open block.
func (s *stream) delta(head string) {
	s.Out = append(s.Out, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	s.Out = append(strconv.AppendInt(s.Out, s.index, 10), `,"delta":`...)
	s.Out = append(s.Out, head...)
}

func (s *stream) sign(signature []byte) {
	s.delta(`{"type":"signature_delta","signature":"`)
	s.Out = append(append(s.Out, signature...), "\"}}\n\n"...)
}

// sealed sends the entry of another maker: as the signature of the open thought, else
// as one that has no text. Clients expect thoughts before texts and calls.
func (s *stream) sealed(entry []byte) {
	switch {
	case s.block == kindThinking && s.thought:
		s.delta(`{"type":"signature_delta","signature":"`)
		s.Out = append(seal(s.Out, entry), "\"}}\n\n"...)
		s.close()
	case s.said || s.called:
		s.hold(entry)
	default:
		s.unseen(entry)
	}
}

// hold keeps the entry for the next call, or for the end of an answer with calls. Behind
// a text alone there is no place for it, and its maker does without.
func (s *stream) hold(entry []byte) {
	if len(s.held)+len(entry) <= maxSealed {
		s.held = append(s.held, entry...)
		s.ends = append(s.ends, len(s.held))
	}
}

// sendHeld sends the held events.
func (s *stream) sendHeld() {
	from := 0
	for _, end := range s.ends {
		s.unseen(s.held[from:end])
		from = end
	}
	s.held, s.ends = nil, s.ends[:0]
}

// unseen sends an entry as a thought without a text.
func (s *stream) unseen(entry []byte) {
	s.close()
	s.begin()
	s.Out = append(s.Out, `{"type":"redacted_thinking","data":"`...)
	s.Out = append(seal(s.Out, entry), "\"}}\n\n"...)
	s.stopped()
}

func (s *stream) redacted(data []byte) {
	s.close()
	s.begin()
	s.Out = append(s.Out, `{"type":"redacted_thinking","data":"`...)
	s.Out = append(append(s.Out, data...), "\"}}\n\n"...)
	s.stopped()
}

func (s *stream) openTool(number int64, id, name []byte) {
	s.sendHeld()
	s.close()
	s.begin()
	s.Out = append(append(s.Out, `{"type":"tool_use","id":"`...), id...)
	s.Out = append(append(s.Out, `","name":"`...), name...)
	s.Out = append(s.Out, "\",\"input\":{},\"caller\":{\"type\":\"direct\"}}}\n\n"...)
	s.behead(`{"type":"input_json_delta","partial_json":"`)
	s.block, s.tool, s.called = kindTool, number, true
}

// close ends the open block.
func (s *stream) close() {
	if s.block != kindNone {
		s.stopped()
	}
}

// End is dialect.ChunkWriter's. It sends why the answer ended, its usage, and the last event.
func (s *stream) End() {
	if !s.started {
		s.Begin(nil, nil, nil)
	}
	if s.called {
		s.sendHeld()
	}
	s.close()
	s.Ended = true
	s.Out = s.f.appendStopped(s.Out, s.finish, s.stop, s.called)
	u := s.Usage
	if !u.Seen {
		u.Prompt = max(u.Prompt, s.prompt)
	}
	s.Out = append(appendCounts(s.Out, &u, s.searched), '}')
	if len(s.Cost) > 0 {
		s.Out = append(append(s.Out, `,"cost":`...), s.Cost...)
	}
	s.Out = append(s.Out, "}\n\n"+MessageStop...)
}

// MessageStop is the last event of a message.
const MessageStop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

// appendStopped appends message_delta, which says why the answer ended, up to its usage.
func (f *Form) appendStopped(dst, finish, stop []byte, called bool) []byte {
	dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	return append(f.appendStop(dst, finish, stop, called), `,"container":null},"usage":`...)
}

// AppendCut appends the end of a message whose model reached its cap: its blocks have ended.
func (f *Form) AppendCut(dst []byte, u *dialect.Usage) []byte {
	dst = f.appendStopped(dst, []byte("length"), nil, false)
	return append(appendCounts(dst, u, false), "}}\n\n"+MessageStop...)
}
