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
	s.beginEvents()
	defer s.book()
	s.index = -1
	var reported []byte
	if s.x.sc.Usage == "early" {
		reported = s.a.appendResponseUsage(nil, 1, 0)
	}
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		s.whole(name, "in_progress", reported)
	}
	s.think()
	if s.tokens(s.step, s.errorEvent) {
		return false, s.err
	}
	s.close()
	s.stop()
	return s.end()
}

// stop writes the event that ends the response, with the usage where the scenario has it.
func (s *responseStream) stop() {
	status, _, _ := s.a.state()
	last := func(usage []byte) { s.whole("response."+status, status, usage) }
	if s.x.sc.NoDone {
		return
	}
	if s.x.sc.Usage == "late" {
		s.late()
	}
	last(s.a.usageTold(s.done, s.mind))
	switch s.x.sc.Usage {
	case "afterdone", "twice":
		last(s.a.appendResponseUsage(nil, s.done, s.mind))
	case "contradict":
		last(s.a.appendResponseUsage(nil, 1, 0))
	}
}

func (s *responseStream) whole(name, status string, usage []byte) {
	if usage == nil && status == "in_progress" {
		usage = []byte("null")
	}
	b := append(s.head(name), `,"response":`...)
	s.named(name, append(s.a.appendResponse(b, status, s.items, usage), '}'), 0)
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

func (s *responseStream) step(st step) {
	kind := s.kindOf(st)
	if !s.open || s.item.kind != kind || st.kind == stepTool {
		s.close()
		s.openItem(kind, st)
	}
	if st.kind == stepTool {
		return // its item has the name
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
	s.named(name, append(b, '}'), st.tokens)
}

func (s *responseStream) openItem(kind string, st step) {
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
	s.named(name, append(b, '}'), tokens)
	if kind == "function_call" {
		return
	}
	part := `{"type":"summary_text","text":""}`
	if kind == "message" {
		part = string(s.a.appendPart(nil, nil))
	}
	s.part("added", part)
}

// part writes that a part begins or is done.
func (s *responseStream) part(how, part string) {
	name := "response.content_part." + how
	if s.item.kind == "reasoning" {
		name = "response.reasoning_summary_part." + how
	}
	s.named(name, append(s.place(name), `,"part":`+part+`}`...), 0)
}

// close writes that the open item is done.
func (s *responseStream) close() {
	if !s.open {
		return
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
	s.named(name, append(b, '}'), 0)
	if s.item.kind != "function_call" {
		part := `{"type":"summary_text","text":` + string(appendString(nil, string(s.item.text))) + `}`
		if s.item.kind == "message" {
			part = string(s.a.appendPart(nil, s.item.text))
		}
		s.part("done", part)
	}
	item := s.a.appendOutput(nil, &s.item, "completed", true)
	if len(s.items) > 0 {
		s.items = append(s.items, ',')
	}
	s.items = append(s.items, item...)
	name = "response.output_item.done"
	b = strconv.AppendInt(append(s.head(name), `,"output_index":`...), int64(s.index), 10)
	s.named(name, append(append(append(b, `,"item":`...), item...), '}'), 0)
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

func (s *responseStream) errorEvent() []byte {
	return []byte("event: error" + s.eol + "data: " + string(s.head("error")) + `,"code":"server_error","message":` +
		`"The model backend-7.internal.simulated is overloaded","param":null}` + s.eol + s.eol)
}
