package upstream

import "strconv"

// eventStream is the common part of the streams of all dialects. After its first error, which
// end and ended give, nothing more is written.
type eventStream struct {
	c    *conn
	x    *exchange
	a    *answer
	eol  string
	done int64 // tokens in events handed to the wire
	mind int64 // the reasoning part of done
	err  error
}

func (s *eventStream) beginEvents() {
	s.eol = "\n"
	if s.x.sc.CRLF {
		s.eol = "\r\n"
	}
	s.c.wire.begin(s.x.sc, 200, contentStream, -1)
}

// try does something unless something failed before.
func (s *eventStream) try(do func() error) {
	if s.err == nil {
		s.err = do()
	}
}

// write sends an event that carries tokens.
func (s *eventStream) write(event []byte, tokens int64) {
	s.try(func() error { return s.c.wire.event(event, tokens) })
}

// named sends an event with a name, after a comment where the scenario wants one.
func (s *eventStream) named(name string, data []byte, tokens int64) {
	b := append(s.comment(), "event: "+name+s.eol+"data: "...)
	s.write(append(append(b, data...), s.eol+s.eol...), tokens)
}

// think is the silence of hidden reasoning, after the first event.
func (s *eventStream) think() {
	if s.x.sc.Think > 0 {
		s.try(s.c.wire.flush)
	}
	s.try(func() error { return s.c.think(s.x) })
}

// late keeps the usage back, behind all else.
func (s *eventStream) late() {
	s.try(s.c.wire.flush)
	s.try(func() error { return s.c.pause(lateUsage) })
}

// tokens writes the answer's tokens up to its end or to where the scenario breaks it off; ended: there is
// nothing more to write.
func (s *eventStream) tokens(write func(step), errorEvent func() []byte) (ended bool) {
	total, _ := s.a.completion()
	stop := stopAt(s.x.sc, total)
	off := func() bool {
		s.try(func() (err error) {
			ended, err = breakOff(s.c, s.x, stop, s.done, errorEvent)
			return err
		})
		ended = ended || s.err != nil
		return ended
	}
	s.a.steps(func(st step) bool {
		if off() {
			return false
		}
		s.done += st.tokens
		if st.kind == stepReasoning {
			s.mind += st.tokens
		}
		write(st)
		return s.err == nil
	})
	return ended || off()
}

// comment is the comment before an event.
func (s *eventStream) comment() []byte {
	if s.x.sc.Comments {
		return []byte(": keep-alive" + s.eol + s.eol)
	}
	return nil
}

func (s *eventStream) end() (keep bool, err error) {
	if s.err != nil {
		return false, s.err
	}
	if s.x.sc.Truncate {
		s.x.outcome = Broken
	}
	return s.c.wire.end()
}

// book copies the counts of written tokens; tokens whose write failed do not count.
func (s *eventStream) book() {
	s.x.tally.CompletionTokens = s.c.wire.produced
	s.x.tally.ReasoningTokens = min(s.mind, s.c.wire.produced)
}

// chatStream writes one answer as chat.completion.chunk events.
type chatStream struct {
	eventStream
	head []byte // of every chunk, up to its choices
	buf  []byte
}

const azurePrompt = `data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":` +
	`[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}`

func (s *chatStream) run() (bool, error) {
	s.head = append([]byte("data: "), s.a.openaiHead("chat.completion.chunk")...)
	s.beginEvents()
	defer s.book()
	if s.x.cloud == "azure" {
		// The first event has the filter's findings in the prompt.
		s.write([]byte(azurePrompt+s.eol+s.eol), 0)
	}
	for i := range s.a.choices {
		s.chunk(i, `{"role":"assistant","content":"","refusal":null}`, "", nil, 0)
	}
	s.think()
	if s.tokens(s.step, s.errorEvent) {
		return false, s.err
	}
	for i := range s.a.choices {
		s.chunk(i, "{}", s.a.choices[i].finish, nil, 0)
	}
	s.usage()
	if !s.x.sc.NoDone {
		s.write([]byte("data: [DONE]"+s.eol+s.eol), 0)
	}
	if s.x.sc.Usage == "afterdone" {
		s.usageChunk(s.done, s.mind)
	}
	return s.end()
}

func (s *chatStream) step(st step) {
	b := s.buf[:0]
	switch st.kind {
	case stepReasoning:
		b = append(b, `{"`+s.x.sc.thoughtMember()+`":`...)
		b = appendString(b, st.text)
		b = append(b, '}')
	case stepContent:
		b = s.x.sc.appendSaid(append(b, '{'), st.text)
		b = append(b, '}')
	case stepTool:
		call := s.a.choices[st.choice].tools[st.tool]
		b = append(b, `{"tool_calls":[{"index":`...)
		b = strconv.AppendInt(b, int64(st.tool), 10)
		b = append(b, `,"id":"`+call.id+`","type":"function","function":{"name":`...)
		b = appendString(b, call.name)
		b = append(b, `,"arguments":""}}]}`...)
	case stepArgs:
		b = append(b, `{"tool_calls":[{"index":`...)
		b = strconv.AppendInt(b, int64(st.tool), 10)
		b = append(b, `,"function":{"arguments":`...)
		b = appendString(b, st.text)
		b = append(b, `}}]}`...)
	}
	if st.kind == stepPicture {
		b = append(b, "{"+s.a.choices[st.choice].openaiPicture()+"}"...)
	}
	s.buf = b
	var said text
	if st.kind == stepContent {
		said = pieces{st.text}
	}
	s.chunk(st.choice, string(b), "", said, st.tokens)
}

// chunk writes one event with one choice.
func (s *chatStream) chunk(choice int, delta, finish string, said text, tokens int64) {
	b := append(s.comment(), s.head...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(choice), 10)
	b = append(b, `,"delta":`...)
	b = append(b, delta...)
	b = append(b, `,"logprobs":`...)
	if said == nil {
		said = pieces(nil)
	}
	b = s.a.appendLogprobs(b, said)
	b = append(b, `,"finish_reason":`...)
	b = appendStringOrNull(b, finish)
	if finish != "" && s.x.sc.Usage == "choices0" && choice == 0 {
		b = append(b, `,"usage":`...)
		b = s.a.appendUsage(b, s.done, s.mind)
	}
	b = append(b, "}]"...)
	b = s.runningUsage(b, finish != "")
	s.write(append(b, "}"+s.eol+s.eol...), tokens)
}

// runningUsage is the usage member of chunks before the last.
func (s *chatStream) runningUsage(b []byte, finish bool) []byte {
	switch s.x.sc.Usage {
	case "":
		if s.a.usage {
			return append(b, `,"usage":null`...) // as OpenAI does when asked for usage
		}
	case "null":
		return append(b, `,"usage":null`...)
	case "zero", "zerofirst":
		return append(b, `,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`...)
	case "every":
		b = append(b, `,"usage":`...)
		return s.a.appendUsage(b, s.done, s.mind)
	case "early":
		if s.done == 0 {
			b = append(b, `,"usage":`...)
			return s.a.appendUsage(b, 1, 0)
		}
	case "top":
		if finish {
			b = append(b, `,"usage":`...)
			return s.a.appendUsage(b, s.done, s.mind)
		}
	}
	return b
}

// usage writes the chunk without choices, when there is one.
func (s *chatStream) usage() {
	switch s.x.sc.Usage {
	case "none", "null", "choices0", "top", "early", "afterdone":
		return
	case "twice":
		s.usageChunk(s.done, s.mind)
	case "contradict":
		s.usageChunk(s.done, s.mind)
		s.usageChunk(1, 0)
		return
	case "":
		if !s.a.usage {
			return
		}
	case "late":
		s.late()
	}
	s.usageChunk(s.done, s.mind)
}

func (s *chatStream) usageChunk(completion, reasoning int64) {
	b := append([]byte(nil), s.head...)
	b = append(b, `],"usage":`...)
	b = s.a.appendUsage(b, completion, reasoning)
	s.write(append(b, "}"+s.eol+s.eol...), 0)
}

func (s *chatStream) errorEvent() []byte {
	return []byte(`data: {"error":{"message":"The model backend-7.internal.simulated is overloaded","type":"server_error","param":null,"code":"model_overloaded"}}` + s.eol + s.eol)
}

// stops are the token counts at which a stream is broken off; -1: never.
type stops struct{ cut, hold, fail int64 }

func stopAt(sc *Scenario, total int64) stops {
	at := stops{-1, -1, -1}
	if sc.Cut != "" {
		at.cut = int64(sc.CutAfter.Or(int(total / 2)))
	}
	if sc.HoldAfter.Set {
		at.hold = int64(sc.HoldAfter.N)
	}
	if sc.ErrorEvent {
		at.fail = int64(sc.ErrorAfter.Or(int(total / 2)))
	}
	return at
}

// breakOff ends a stream early once done tokens reach the scenario's mark.
func breakOff(c *conn, x *exchange, at stops, done int64, errorEvent func() []byte) (ended bool, err error) {
	switch {
	case at.hold >= 0 && done >= at.hold:
		if err := c.wire.flush(); err != nil {
			return true, err
		}
		return true, c.waitGone()
	case at.cut >= 0 && done >= at.cut:
		x.outcome = Broken
		return true, c.wire.flush()
	case at.fail >= 0 && done >= at.fail:
		x.outcome = Broken
		if err := c.wire.event(errorEvent(), 0); err != nil {
			return true, err
		}
		_, err := c.wire.end()
		return true, err
	}
	return false, nil
}
