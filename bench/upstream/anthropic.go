package upstream

import (
	"bytes"
	"strconv"

	"github.com/tidwall/gjson"
)

// messages answers POST /v1/messages (Anthropic).
func (c *conn) messages(x *exchange, asked gjson.Result) (int, bool, error) {
	streamed := x.noteEndpoint("messages", asked)
	bad := func(text string) (int, bool, error) {
		return c.refuse(x, true, 400, failure{text: text})
	}
	switch {
	case !gjson.ValidBytes(c.req.body) || !asked.IsObject():
		return bad("The request body is not valid JSON")
	case len(c.req.anthropic) == 0:
		return bad("anthropic-version: header is required")
	case len(c.req.content) > 0 && !bytes.HasPrefix(bytes.ToLower(c.req.content), []byte("application/json")):
		return bad("Content-Type: must be application/json")
	}
	if fault := c.check(Call{API: "messages", Asked: asked}); fault.Text != "" {
		return bad(fault.Text)
	}
	a := c.answerFor(asked, x)
	a.choices = a.choices[:1] // there is no n in this dialect
	if streamed {
		keep, err := (&messageStream{eventStream: eventStream{c: c, x: x, a: a}, block: -1}).run()
		return 200, keep, err
	}
	if err := c.think(x); err != nil {
		return 0, false, err
	}
	if x.sc.Endless {
		return c.sendEndlessText(x)
	}
	x.tally.CompletionTokens, x.tally.ReasoningTokens = a.completion()
	return c.sendBody(x, a.anthropic())
}

// countTokens answers POST /v1/messages/count_tokens, which costs nothing.
func (c *conn) countTokens(x *exchange, asked gjson.Result) (int, bool, error) {
	x.endpoint, x.prompt, x.tally.PromptTokens = "count_tokens", 0, 0
	if !gjson.ValidBytes(c.req.body) || !asked.IsObject() || len(c.req.anthropic) == 0 {
		return c.refuse(x, true, 400, failure{text: "The request body is not valid JSON"})
	}
	if fault := c.check(Call{API: "count_tokens", Asked: asked}); fault.Text != "" {
		return c.refuse(x, true, 400, fault.failure())
	}
	n := CountPrompt(c.req.body) + CountText(asked.Get("tools").Raw)
	return c.sendBody(x, append(strconv.AppendInt([]byte(`{"input_tokens":`), n, 10), '}'))
}

func (a *answer) stopReason() string {
	switch a.choices[0].finish {
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	}
	return "end_turn"
}

func (a *answer) anthropicHead() []byte {
	out := []byte(`{"id":"msg_` + a.id + `","type":"message","role":"assistant","model":`)
	out = appendString(out, a.model)
	return append(out, `,"content":[`...)
}

func (a *answer) anthropic() []byte {
	out := a.anthropicHead()
	ch := &a.choices[0]
	comma := ""
	block := func(text string) {
		out = append(out, comma...)
		out = append(out, text...)
		comma = ","
	}
	if ch.reasoning.Len() > 0 && a.sc.ThoughtAs == "redacted" {
		block(`{"type":"redacted_thinking","data":"` + redacted(ch.reasoning.Len()) + `"}`)
	} else if ch.reasoning.Len() > 0 {
		block(`{"type":"thinking","thinking":`)
		out = appendString(out, string(appendText(nil, ch.reasoning)))
		out = append(out, `,"signature":"c2ltdWxhdGVk"}`...)
	}
	if ch.content.Len() > 0 {
		block(`{"type":"text","text":`)
		out = appendString(out, string(appendText(nil, ch.content)))
		out = append(out, '}')
	}
	for _, call := range ch.tools {
		block(`{"type":"tool_use","id":"toolu_` + call.id + `","name":`)
		out = appendString(out, call.name)
		out = append(out, `,"input":`...)
		out = appendText(out, call.args)
		out = append(out, '}')
	}
	out = append(out, `],"stop_reason":"`+a.stopReason()+`","stop_sequence":null`...)
	if a.sc.Usage != "none" && a.sc.Usage != "afterdone" {
		total, reasoning := a.completion()
		out = append(out, `,"usage":`...)
		out = a.appendAnthropicUsage(out, total, reasoning)
	}
	return append(out, '}')
}

func (a *answer) appendAnthropicUsage(dst []byte, output, thinking int64) []byte {
	u := a.usageOf(output, thinking)
	input := u.prompt
	if u.prompt == a.prompt { // tokens from the cache are counted apart
		input -= u.cached + u.written
	}
	dst = appendMembers(dst, member{`{"input_tokens":`, input}, member{`,"cache_creation_input_tokens":`, u.written},
		member{`,"cache_read_input_tokens":`, u.cached}, member{`,"output_tokens":`, u.completion})
	if u.reasoning > 0 {
		dst = append(appendMembers(dst, member{`,"output_tokens_details":{"thinking_tokens":`, u.reasoning}), '}')
	}
	return append(dst, `,"service_tier":"standard"}`...)
}

// messageStream writes one answer as Anthropic events.
type messageStream struct {
	eventStream
	block int // index of the open content block, -1 before the first
	open  bool
	kind  stepKind
}

func (s *messageStream) run() (bool, error) {
	s.beginEvents()
	defer s.book()
	start := append([]byte(`{"type":"message_start","message":`), s.a.anthropicHead()...)
	start = append(start, `],"stop_reason":null,"stop_sequence":null,"usage":`...)
	start = s.a.appendAnthropicUsage(start, 1, 0)
	s.named("message_start", append(start, "}}"...), 0)
	s.think()
	if s.tokens(s.step, s.errorEvent) {
		return false, s.err
	}
	s.closeBlock()
	s.stop()
	return s.end()
}

// stop writes the usage where the scenario has it, and message_stop.
func (s *messageStream) stop() {
	stop := func() {
		if !s.x.sc.NoDone {
			s.named("message_stop", []byte(`{"type":"message_stop"}`), 0)
		}
	}
	usage := s.x.sc.Usage
	s.delta(usage != "none" && usage != "early" && usage != "afterdone", s.done, s.mind)
	switch usage {
	case "afterdone":
		stop()
		s.delta(true, s.done, s.mind)
		return
	case "twice":
		s.delta(true, s.done, s.mind)
	case "contradict":
		s.delta(true, 1, 0)
	}
	stop()
}

// delta is one message_delta.
func (s *messageStream) delta(usage bool, output, thinking int64) {
	b := []byte(`{"type":"message_delta","delta":{"stop_reason":"` + s.a.stopReason() + `","stop_sequence":null}`)
	if usage {
		b = append(b, `,"usage":`...)
		b = s.a.appendAnthropicUsage(b, output, thinking)
	}
	s.named("message_delta", append(b, '}'), 0)
}

func (s *messageStream) step(st step) {
	same := s.open && (s.kind == st.kind || s.kind == stepTool && st.kind == stepArgs)
	if !same || st.kind == stepTool {
		s.closeBlock()
		s.openBlock(st)
	}
	name, member := "text_delta", "text"
	if st.kind == stepTool || st.kind == stepReasoning && s.x.sc.ThoughtAs == "redacted" {
		return // its start said all
	}
	switch st.kind {
	case stepReasoning:
		name, member = "thinking_delta", "thinking"
	case stepArgs:
		name, member = "input_json_delta", "partial_json"
	case stepContent:
		if s.x.sc.SaidIn == "unknown" {
			name, member = "caption_delta", "caption"
		}
	}
	b := s.blockEvent("content_block_delta")
	b = append(b, `,"delta":{"type":"`+name+`","`+member+`":`...)
	b = appendString(b, st.text)
	s.named("content_block_delta", append(b, "}}"...), st.tokens)
}

func (s *messageStream) openBlock(st step) {
	s.block++
	s.open, s.kind = true, st.kind
	b := s.blockEvent("content_block_start")
	b = append(b, `,"content_block":`...)
	tokens := int64(0)
	switch st.kind {
	case stepReasoning:
		if s.x.sc.ThoughtAs == "redacted" {
			n := s.a.choices[0].reasoning.Len()
			tokens = int64(n)
			b = append(b, `{"type":"redacted_thinking","data":"`+redacted(n)+`"}`...)
			break
		}
		b = append(b, `{"type":"thinking","thinking":"","signature":""}`...)
	case stepContent:
		b = append(b, `{"type":"text","text":""}`...)
	default:
		call := s.a.choices[0].tools[st.tool]
		b = append(b, `{"type":"tool_use","id":"toolu_`+call.id+`","name":`...)
		b = appendString(b, call.name)
		b = append(b, `,"input":{}}`...)
	}
	if st.kind == stepTool {
		tokens = st.tokens
	}
	s.named("content_block_start", append(b, '}'), tokens)
	if s.block == 0 {
		s.named("ping", []byte(`{"type":"ping"}`), 0)
	}
}

func (s *messageStream) closeBlock() {
	if !s.open {
		return
	}
	s.open = false
	if s.kind == stepReasoning && s.x.sc.ThoughtAs != "redacted" {
		b := s.blockEvent("content_block_delta")
		b = append(b, `,"delta":{"type":"signature_delta","signature":"c2ltdWxhdGVk"}}`...)
		s.named("content_block_delta", b, 0)
	}
	s.named("content_block_stop", append(s.blockEvent("content_block_stop"), '}'), 0)
}

func (s *messageStream) blockEvent(kind string) []byte {
	return strconv.AppendInt([]byte(`{"type":"`+kind+`","index":`), int64(s.block), 10)
}

func (s *messageStream) errorEvent() []byte {
	return []byte("event: error" + s.eol +
		`data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}` + s.eol + s.eol)
}
