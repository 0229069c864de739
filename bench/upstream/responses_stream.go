package upstream

import "strconv"

// responseStream writes one answer as the events of POST /v1/responses.
type responseStream struct {
	eventStream
	number int64  // of the next event
	open   bool   // an item is
	item   output // the last one
	index  int    // of it
	items  []byte // those that are done, with commas between
}

func (s *responseStream) run() (bool, error) {
	s.begin()
	defer s.book()
	s.index = -1
	var told []byte
	if s.x.sc.Usage == "early" {
		told = s.a.appendResponseUsage(nil, 1, 0)
	}
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		if err := s.whole(name, "in_progress", told); err != nil {
			return false, err
		}
	}
	if err := s.think(); err != nil {
		return false, err
	}
	if ended, err := s.tokens(s.step, s.errorEvent); ended || err != nil {
		return false, err
	}
	if err := s.close(); err != nil {
		return false, err
	}
	if err := s.stop(); err != nil {
		return false, err
	}
	return s.end()
}

// stop writes the event that ends the response, with the usage where the scenario has it.
func (s *responseStream) stop() error {
	status, _, _ := s.a.state()
	last := func(usage []byte) error { return s.whole("response."+status, status, usage) }
	if s.x.sc.NoDone {
		return nil
	}
	if s.x.sc.Usage == "late" {
		if err := s.late(); err != nil {
			return err
		}
	}
	if err := last(s.a.usageTold(s.done, s.mind)); err != nil {
		return err
	}
	switch s.x.sc.Usage {
	case "afterdone", "twice":
		return last(s.a.appendResponseUsage(nil, s.done, s.mind))
	case "contradict":
		return last(s.a.appendResponseUsage(nil, 1, 0))
	}
	return nil
}

func (s *responseStream) whole(name, status string, usage []byte) error {
	if usage == nil && status == "in_progress" {
		usage = []byte("null")
	}
	b := append(s.head(name), `,"response":`...)
	return s.event(name, append(s.a.appendResponse(b, status, s.items, usage), '}'), 0)
}

// kindOf is which item a step belongs to.
func (s *responseStream) kindOf(st step) string {
	switch st.kind {
	case stepReasoning:
		return "reasoning"
	case stepContent:
		return "message"
	}
	return "function_call"
}

func (s *responseStream) step(st step) error {
	kind := s.kindOf(st)
	if !s.open || s.item.kind != kind || st.kind == stepTool {
		if err := s.close(); err != nil {
			return err
		}
		if err := s.openItem(kind, st); err != nil {
			return err
		}
	}
	if st.kind == stepTool {
		return nil // its item has the name
	}
	name := map[string]string{
		"reasoning": "response.reasoning_summary_text.delta", "message": "response.output_text.delta",
		"function_call": "response.function_call_arguments.delta",
	}[kind]
	if kind == "message" {
		switch s.x.sc.SaidIn {
		case "refusal":
			name = "response.refusal.delta"
		case "unknown":
			name = "response.caption.delta"
		}
	}
	s.item.text = append(s.item.text, st.text...)
	b := append(s.place(name), `,"delta":`...)
	b = appendString(b, st.text)
	if name == "response.output_text.delta" {
		b = append(s.a.appendResponseLogprobs(append(b, `,"logprobs":[`...), pieces{st.text}, false), ']')
	}
	return s.event(name, append(b, '}'), st.tokens)
}

func (s *responseStream) openItem(kind string, st step) error {
	s.open = true
	s.index++
	s.item = output{kind: kind, text: s.item.text[:0]}
	tokens := int64(0)
	switch kind {
	case "reasoning":
		s.item.id = "rs_" + s.a.id
	case "message":
		s.item.id = "msg_" + s.a.id
	default:
		s.item.id, s.item.call, tokens = s.a.callID(st.tool), &s.a.choices[0].tools[st.tool], st.tokens
	}
	const name = "response.output_item.added"
	b := strconv.AppendInt(append(s.head(name), `,"output_index":`...), int64(s.index), 10)
	b = s.a.appendOutput(append(b, `,"item":`...), &s.item, "in_progress", false)
	if err := s.event(name, append(b, '}'), tokens); err != nil || kind == "function_call" {
		return err
	}
	part := `{"type":"summary_text","text":""}`
	if kind == "message" {
		part = string(s.a.appendPart(nil, nil))
	}
	return s.part("added", part)
}

// part writes that a part begins or is done.
func (s *responseStream) part(how, part string) error {
	name := "response.content_part." + how
	if s.item.kind == "reasoning" {
		name = "response.reasoning_summary_part." + how
	}
	return s.event(name, append(s.place(name), `,"part":`+part+`}`...), 0)
}

// close writes that the open item is done.
func (s *responseStream) close() error {
	if !s.open {
		return nil
	}
	s.open = false
	name, member := "response.function_call_arguments.done", "arguments"
	switch s.item.kind {
	case "reasoning":
		name, member = "response.reasoning_summary_text.done", "text"
	case "message":
		name, member = "response.output_text.done", "text"
		if s.x.sc.SaidIn == "refusal" {
			name, member = "response.refusal.done", "refusal"
		}
	}
	b := appendString(append(s.place(name), `,"`+member+`":`...), string(s.item.text))
	if name == "response.output_text.done" {
		b = append(s.a.appendResponseLogprobs(append(b, `,"logprobs":[`...), s.a.choices[0].content, false), ']')
	}
	if err := s.event(name, append(b, '}'), 0); err != nil {
		return err
	}
	if s.item.kind != "function_call" {
		part := `{"type":"summary_text","text":` + string(appendString(nil, string(s.item.text))) + `}`
		if s.item.kind == "message" {
			part = string(s.a.appendPart(nil, s.item.text))
		}
		if err := s.part("done", part); err != nil {
			return err
		}
	}
	item := s.a.appendOutput(nil, &s.item, "completed", true)
	if len(s.items) > 0 {
		s.items = append(s.items, ',')
	}
	s.items = append(s.items, item...)
	name = "response.output_item.done"
	b = strconv.AppendInt(append(s.head(name), `,"output_index":`...), int64(s.index), 10)
	return s.event(name, append(append(append(b, `,"item":`...), item...), '}'), 0)
}

// head begins an event's JSON.
func (s *responseStream) head(name string) []byte {
	b := strconv.AppendInt([]byte(`{"type":"`+name+`","sequence_number":`), s.number, 10)
	s.number++
	return b
}

// place begins the JSON of an event of the open item.
func (s *responseStream) place(name string) []byte {
	b := append(s.head(name), `,"item_id":"`+s.item.id+`","output_index":`...)
	b = strconv.AppendInt(b, int64(s.index), 10)
	switch s.item.kind {
	case "reasoning":
		b = append(b, `,"summary_index":0`...)
	case "message":
		b = append(b, `,"content_index":0`...)
	}
	return b
}

func (s *responseStream) event(name string, data []byte, tokens int64) error {
	b := append(s.comment(), "event: "+name+s.eol+"data: "...)
	b = append(b, data...)
	return s.c.wire.event(append(b, s.eol+s.eol...), tokens)
}

func (s *responseStream) errorEvent() []byte {
	return []byte("event: error" + s.eol + "data: " + string(s.head("error")) + `,"code":"server_error","message":` +
		`"The model backend-7.internal.simulated is overloaded","param":null}` + s.eol + s.eol)
}
