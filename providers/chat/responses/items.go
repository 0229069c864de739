package responses

import (
	"strconv"

	"farebox/proxy/jsontext"
)

// add makes room for another item; nil: the output has as many as it may.
func (s *stream) add(kind itemKind) *item {
	if n := len(s.items); n > 0 && !s.items[n-1].opened {
		s.show(&s.items[n-1]) // a call whose name has not come yet: items are numbered as they are sent
	}
	if len(s.items) == maxItems {
		s.tooLong()
		return nil
	}
	return extend(&s.items, kind)
}

// extend adds an item to a list, in the memory of one of an earlier answer where there is some.
func extend(items *[]item, kind itemKind) *item {
	n := len(*items)
	if n < cap(*items) {
		*items = (*items)[:n+1]
	} else {
		*items = append(*items, item{})
	}
	it := &(*items)[n]
	it.reset(kind, n)
	return it
}

// reusable are the items of an answer, empty, as the next one may use them.
func reusable(items []item) []item {
	items = items[:cap(items)]
	if len(items) > 8 {
		return nil
	}
	for i := range items {
		if items[i].held() > keepItems {
			items[i] = item{}
		}
	}
	return items[:0]
}

// open tells the client of an item. Items are numbered as they are opened.
func (s *stream) open(it *item) {
	it.opened = true
	s.event("response.output_item.added")
	s.Out = jsontext.Object(s.Out).Int("output_index", int64(it.index))
	s.Out = s.f.appendItem(append(s.Out, `,"item":`...), it, "in_progress", true)
	s.endEvent()
}

// deltaHead makes the beginning of an item's delta events, which are alike but for
// their numbers and additions.
func (s *stream) deltaHead(it *item, name, part string) {
	out := s.Out
	s.Out = append(append(it.head[:0], "event: "...), name...)
	s.Out = append(append(append(s.Out, "\ndata: {\"type\":\""...), name...), '"')
	if !s.spec {
		s.place(it, part)
	}
	s.Out = append(s.Out, `,"sequence_number":`...)
	it.head, s.Out = s.Out, out
}

// delta sends an addition to an item, written as between the quotes of a string.
func (s *stream) delta(it *item, words []byte, tail string) {
	if s.kept += len(words); s.kept > maxKept {
		s.tooLong()
		return
	}
	it.text = append(it.text, words...)
	s.Out = strconv.AppendInt(append(s.Out, it.head...), s.number, 10)
	s.number++
	s.Out = append(append(append(s.Out, `,"delta":"`...), words...), tail...)
}

const (
	plainTail = "\"}\n\n"
	textTail  = "\",\"logprobs\":[]}\n\n"
)

// quiet ends the reasoning or message that is open, since something else begins.
func (s *stream) quiet() {
	if s.last >= 0 {
		s.end(&s.items[s.last], "completed")
	}
}

// message is the message that is open, with a last part of a kind; nil: there can be none.
func (s *stream) message(part partKind) *item {
	var it *item
	if s.last >= 0 && s.items[s.last].kind == messageItem {
		it = &s.items[s.last]
	} else {
		s.quiet()
		if it = s.add(messageItem); it == nil {
			return nil
		}
		s.last = it.index
		s.open(it)
	}
	if it.part == part || part == noPart {
		return it
	}
	s.endPart(it)
	it.part = part
	it.count++
	s.event("response.content_part.added")
	if s.spec {
		s.Out = s.f.appendID(append(s.Out, `,"item_id":"`...), it)
		s.Out = strconv.AppendInt(append(s.Out, `","content_index":`...), int64(it.count-1), 10)
	} else {
		s.place(it, "content")
	}
	s.Out = it.appendPart(append(s.Out, `,"part":`...), s.spec)
	s.endEvent()
	switch {
	case part == refusalPart && !s.spec:
		s.deltaHead(it, "response.refusal.delta", "content")
	default:
		s.deltaHead(it, "response.output_text.delta", "content")
	}
	return it
}

// endPart tells the client that the last part of a message is whole.
func (s *stream) endPart(it *item) {
	if it.part == noPart {
		return
	}
	if !s.spec && !it.told {
		switch it.part {
		case refusalPart:
			s.event("response.refusal.done")
			s.place(it, "content")
			s.Out = append(append(append(s.Out, `,"refusal":"`...), it.text...), '"')
		case thoughtPart:
			s.event("response.reasoning_text.done")
			s.place(it, "content")
			s.Out = append(append(append(s.Out, `,"text":"`...), it.text...), '"')
		default:
			s.event("response.output_text.done")
			s.place(it, "content")
			s.Out = append(append(append(s.Out, `,"text":"`...), it.text...), '"')
			s.Out = append(append(append(s.Out, `,"logprobs":[`...), it.logprobs...), ']')
		}
		s.endEvent()
	}
	s.event("response.content_part.done")
	if !s.spec {
		s.place(it, "content")
	}
	s.Out = it.appendPart(append(s.Out, `,"part":`...), s.spec)
	s.endEvent()
	it.endPart(s.spec)
}

// thought is the reasoning that is open. Where a block of it is over, the next text is
// another's.
func (s *stream) thought(goesOn bool) *item {
	if s.last >= 0 && s.items[s.last].kind == reasoningItem && (goesOn || !s.items[s.last].sealed) {
		return &s.items[s.last]
	}
	s.quiet()
	it := s.add(reasoningItem)
	if it == nil {
		return nil
	}
	s.last = it.index
	s.open(it)
	return it
}

// Thought is dialect.ChunkWriter.
func (s *stream) Thought(words []byte) {
	it := s.thought(false)
	if it == nil {
		return
	}
	if len(it.head) == 0 {
		if s.spec {
			s.deltaHead(it, "response.reasoning.delta", "")
		} else {
			s.event("response.reasoning_summary_part.added")
			s.place(it, "summary")
			s.Out = append(s.Out, `,"part":{"type":"summary_text","text":""}`...)
			s.endEvent()
			s.deltaHead(it, "response.reasoning_summary_text.delta", "summary")
		}
	}
	s.delta(it, words, plainTail)
}

// end tells the client that an item is whole, or as whole as it gets.
func (s *stream) end(it *item, status string) {
	if s.last == it.index {
		s.last = -1
	}
	if !it.opened {
		s.show(it)
	}
	switch it.kind {
	case reasoningItem:
		if it.inContent {
			s.endPart(it)
		} else if (len(it.head) > 0 || it.part != noPart) && !s.spec {
			if !it.told {
				s.event("response.reasoning_summary_text.done")
				s.place(it, "summary")
				s.Out = append(append(append(s.Out, `,"text":"`...), it.text...), '"')
				s.endEvent()
			}
			s.event("response.reasoning_summary_part.done")
			s.place(it, "summary")
			s.Out = append(append(append(s.Out, `,"part":{"type":"summary_text","text":"`...), it.text...), `"}`...)
			s.endEvent()
		}
	case messageItem:
		// Its parts go into the item, which is why the item is whole before it is written.
		s.endPart(it)
	case callItem, customItem:
		if it.unwrap() && len(it.text) > 0 {
			s.Out = strconv.AppendInt(append(s.Out, it.head...), s.number, 10)
			s.number++
			s.Out = append(append(append(s.Out, `,"delta":"`...), it.text...), plainTail...)
		}
		if !s.spec && !it.told {
			if it.kind == callItem {
				s.event("response.function_call_arguments.done")
				s.place(it, "")
				s.Out = append(append(append(s.Out, `,"name":"`...), it.name...), '"')
				s.Out = append(append(append(s.Out, `,"arguments":"`...), it.text...), '"')
			} else {
				s.event("response.custom_tool_call_input.done")
				s.place(it, "")
				s.Out = append(append(append(s.Out, `,"input":"`...), it.text...), '"')
			}
			s.endEvent()
		}
	case toolSearchItem, shellItem:
		it.unwrap()
	}
	it.closed = status == "completed"
	s.event("response.output_item.done")
	s.Out = jsontext.Object(s.Out).Int("output_index", int64(it.index))
	s.Out = append(s.Out, `,"item":`...)
	from := len(s.Out)
	s.Out = s.f.appendItem(s.Out, it, s.statusOf(it, status), false)
	s.f.keep(s.Out[from:])
	s.endEvent()
}

// show tells the client of a call, and of the arguments that came before that.
func (s *stream) show(it *item) {
	s.open(it)
	switch {
	case it.kind == callItem || s.spec:
		s.deltaHead(it, "response.function_call_arguments.delta", "")
	default:
		s.deltaHead(it, "response.custom_tool_call_input.delta", "")
	}
	if len(it.text) > 0 && !it.wrapped {
		s.Out = strconv.AppendInt(append(s.Out, it.head...), s.number, 10)
		s.number++
		s.Out = append(append(append(s.Out, `,"delta":"`...), it.text...), plainTail...)
	}
}

// search tells of a search that was made before the model was asked.
func (s *stream) search(params []byte) {
	for i := range s.items {
		if s.items[i].kind == searchItem {
			return
		}
	}
	it := s.add(searchItem)
	if it == nil {
		return
	}
	var searched bool
	it.sources, searched, it.failed = appendSources(it.sources, params)
	if !searched || s.spec && it.failed {
		s.items = s.items[:len(s.items)-1]
		return
	}
	if s.spec {
		s.results(it, params)
	}
	s.open(it)
	if !s.spec {
		for _, name := range [...]string{"response.web_search_call.in_progress", "response.web_search_call.searching",
			"response.web_search_call.completed"} {
			s.event(name)
			s.place(it, "")
			s.endEvent()
		}
	}
	s.end(it, "completed")
}

// note writes an annotation and its place.
func (s *stream) note(index int, annotation []byte) {
	s.Out = jsontext.Object(s.Out).Int("annotation_index", int64(index))
	s.Out = append(append(s.Out, `,"annotation":`...), annotation...)
}

// results writes the event of addendum 6.4 with the results; it has no number.
func (s *stream) results(it *item, params []byte) {
	const name = "response.web_search.done"
	s.Out = append(append(append(s.Out, "event: "+name+"\ndata: {\"type\":\"web_search_call\",\"id\":\""...),
		s.f.appendID(nil, it)...), `","status":"completed","results":[`...)
	list := jsontext.MemberOf(params, "web_search_citations")
	n := int64(0)
	for source := range jsontext.Elements(list) {
		s.Out = jsontext.Object(append(jsontext.Comma(s.Out), '{')).Int("index", n).
			Raw("url", orEmpty(jsontext.MemberOf(source, "url"))).Raw("title", orEmpty(jsontext.MemberOf(source, "title"))).
			Raw("snippet", orEmpty(jsontext.MemberOf(source, "content"))).End()
		n++
	}
	s.Out = append(s.Out, "]"...)
	s.endEvent()
}

func orEmpty(value []byte) []byte {
	if value == nil {
		return []byte(`""`)
	}
	return value
}
