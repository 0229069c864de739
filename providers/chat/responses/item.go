package responses

import (
	"strconv"

	"farebox/proxy/jsontext"
)

// itemKind is the kind of an item of the output.
type itemKind uint8

const (
	reasoningItem itemKind = iota
	messageItem
	callItem
	customItem
	searchItem
	toolSearchItem
	shellItem
	otherItem // of a kind that only its upstream knows
)

// idHeads precede the ids of items.
var idHeads = [...]string{"rs_", "msg_", "fc_", "ctc_", "ws_", "tsc_", "lsh_"}

// partKind is the kind of the last part of a message.
type partKind uint8

const (
	noPart partKind = iota
	textPart
	refusalPart
	thoughtPart // reasoning sent as content
)

// item is one item of the output as far as it has come. Texts are as between the
// quotes of a JSON string.
type item struct {
	kind   itemKind
	index  int    // in the output
	opened bool   // the client knows of it
	closed bool   // …and that it is whole
	id     []byte // of an upstream that speaks the form itself; empty: it is made here
	whole  []byte // the item as that upstream wrote it; empty: it is not whole
	told   bool   // the text of the last part was sent as a whole
	head   []byte // of its delta events, up to the sequence number
	text   []byte // of the last part, the summary or the arguments

	// Of a message.
	part        partKind
	parts       []byte // those before the last one, as JSON with commas between
	count       int    // of all parts
	annotations []byte // of the last part, with commas between
	notes       int    // how many
	logprobs    []byte // of the last part, with commas between

	details   []byte // of reasoning, with commas between
	inContent bool   // its text is content, and no summary
	sealed    bool   // a block of it is over

	call         int64 // of a call: its index in the completion
	callID, name []byte
	space        []byte // the namespace of the tool
	wrapped      bool   // text is the arguments of a function that represents another tool

	sources []byte // of a search, with commas between
	failed  bool
}

// reset readies an item for another answer.
func (i *item) reset(kind itemKind, index int) {
	*i = item{
		kind: kind, index: index, head: i.head[:0], text: i.text[:0], parts: i.parts[:0],
		annotations: i.annotations[:0], logprobs: i.logprobs[:0], details: i.details[:0], callID: i.callID[:0],
		name: i.name[:0], sources: i.sources[:0], space: i.space[:0], id: i.id[:0], whole: i.whole[:0],
	}
}

// held is how much memory an item holds.
func (i *item) held() int {
	return cap(i.head) + cap(i.text) + cap(i.parts) + cap(i.annotations) + cap(i.logprobs) + cap(i.details) +
		cap(i.callID) + cap(i.name) + cap(i.sources) + cap(i.space) + cap(i.id) + cap(i.whole)
}

// appendID appends the item's id: of the request, the kind and its place.
func (f *Form) appendID(dst []byte, it *item) []byte {
	const digits = "0123456789abcdef"
	if len(it.id) > 0 {
		return append(dst, it.id...)
	}
	dst = append(append(dst, idHeads[it.kind]...), f.id...)
	return append(dst, digits[it.index>>8&15], digits[it.index>>4&15], digits[it.index&15])
}

// appendCallID appends the id that the client answers a call with.
func (f *Form) appendCallID(dst []byte, it *item) []byte {
	if len(it.callID) > 0 {
		return append(dst, it.callID...)
	}
	return strconv.AppendInt(append(append(dst, "call_"...), f.id...), int64(it.index), 10)
}

// appendPart appends the last part of a message.
func (i *item) appendPart(dst []byte, spec bool) []byte {
	head := ""
	switch {
	case i.part == refusalPart && !spec:
		head = `{"type":"refusal","refusal":"`
	case i.part == thoughtPart:
		head = `{"type":"reasoning_text","text":"`
	}
	if head != "" {
		return append(append(append(dst, head...), i.text...), `"}`...)
	}
	dst = append(append(dst, `{"type":"output_text","text":"`...), i.text...)
	dst = append(append(append(dst, `","annotations":[`...), i.annotations...), ']')
	if !spec {
		dst = append(append(append(dst, `,"logprobs":[`...), i.logprobs...), ']')
	}
	return append(dst, '}')
}

// endPart makes room for another part.
func (i *item) endPart(spec bool) {
	if i.part != noPart {
		i.addPart(func(dst []byte) []byte { return i.appendPart(dst, spec) })
	}
}

// addPart puts a part that is whole behind those before it.
func (i *item) addPart(write func(dst []byte) []byte) {
	if len(i.parts) > 0 {
		i.parts = append(i.parts, ',')
	}
	i.parts = write(i.parts)
	i.part, i.notes = noPart, 0
	i.text, i.annotations, i.logprobs = i.text[:0], i.annotations[:0], i.logprobs[:0]
}

// appendItem appends an item as it is, with a status. bare leaves out its text
// so far.
func (f *Form) appendItem(dst []byte, it *item, status string, bare bool) []byte {
	if len(it.whole) > 0 {
		return append(dst, it.whole...)
	}
	dst = append(f.appendID(append(dst, `{"id":"`...), it), '"')
	if it.kind != customItem && (it.kind != reasoningItem || !f.o.Spec) {
		dst = append(append(append(dst, `,"status":"`...), status...), '"')
	}
	switch it.kind {
	case reasoningItem:
		dst = f.appendThought(append(dst, `,"type":"reasoning","summary":[`...), it, bare)
	case messageItem:
		dst = append(dst, `,"type":"message","role":"assistant","content":[`...)
		if !bare {
			dst = append(dst, it.parts...)
			if it.part != noPart {
				if len(it.parts) > 0 {
					dst = append(dst, ',')
				}
				dst = it.appendPart(dst, f.o.Spec)
			}
		}
		dst = append(dst, ']')
	case toolSearchItem, shellItem:
		dst = f.appendCallID(append(dst, `,"call_id":"`...), it)
		if it.kind == toolSearchItem {
			dst = append(dst, `","type":"tool_search_call","execution":"client","arguments":`...)
		} else {
			dst = append(dst, `","type":"local_shell_call","action":`...)
		}
		dst = it.appendObject(dst, bare)
	case callItem, customItem:
		dst = f.appendCallID(append(dst, `,"call_id":"`...), it)
		dst = append(append(dst, `","name":"`...), it.name...)
		if len(it.space) > 0 {
			dst = append(append(dst, `","namespace":"`...), it.space...)
		}
		if it.kind == callItem {
			dst = append(dst, `","type":"function_call","arguments":"`...)
		} else {
			dst = append(dst, `","type":"custom_tool_call","input":"`...)
		}
		if !bare && !it.wrapped {
			dst = append(dst, it.text...)
		}
		dst = append(dst, '"')
	case searchItem:
		dst = append(dst, `,"type":"web_search_call"`...)
		if !f.o.Spec {
			dst = jsontext.AppendString(append(dst, `,"action":{"type":"search","query":`...), f.searched)
			if dst = append(dst, `,"queries":[`...); f.searched != "" {
				dst = jsontext.AppendString(dst, f.searched)
			}
			dst = append(dst, ']')
			if f.includes("web_search_call.action.sources") {
				dst = append(append(append(dst, `,"sources":[`...), it.sources...), ']')
			}
			dst = append(dst, '}')
		}
	}
	return append(dst, '}')
}

// appendThought appends the rest of a reasoning item behind its type.
func (f *Form) appendThought(dst []byte, it *item, bare bool) []byte {
	if it.inContent {
		dst = append(dst, `],"content":[`...)
	}
	if !bare {
		dst = append(dst, it.parts...)
	}
	if len(it.text) > 0 && !bare {
		if len(it.parts) > 0 {
			dst = append(dst, ',')
		}
		if !f.o.Spec {
			dst = append(dst, `{"type":"summary_text","text":`...)
		}
		dst = append(append(append(dst, '"'), it.text...), '"')
		if !f.o.Spec {
			dst = append(dst, '}')
		}
	}
	dst = append(dst, ']')
	if len(it.details) > 0 && !bare {
		dst = append(appendSealed(append(dst, `,"encrypted_content":"`...), it.details), '"')
	}
	return dst
}

// addDetail keeps an entry of reasoning_details. Texts of streamed ones are in the
// summary already; the data that a model needs to go on thinking stays.
func (i *item) addDetail(entry []byte, streamed bool) {
	if len(i.details) > 0 {
		i.details = append(i.details, ',')
	}
	if !streamed {
		i.details = append(i.details, entry...)
		return
	}
	i.details = append(i.details, '{')
	for m := range jsontext.Members(entry, 1) {
		if string(m.Key) == "text" {
			continue
		}
		if i.details[len(i.details)-1] != '{' {
			i.details = append(i.details, ',')
		}
		i.details = append(append(append(i.details, '"'), m.Key...), `":`...)
		i.details = append(i.details, entry[m.From:m.To]...)
	}
	i.details = append(i.details, '}')
}

// appendAnnotation appends a source as responses write it, from how chat completions
// do; other kinds are passed on.
func appendAnnotation(dst, annotation []byte) []byte {
	var inner []byte
	for m := range jsontext.Members(annotation, 1) {
		if string(m.Key) == "url_citation" && annotation[m.From] == '{' {
			inner = annotation[m.From:m.To]
		}
	}
	if inner == nil {
		return append(dst, annotation...)
	}
	link, title, start, end := []byte(`""`), []byte(`""`), []byte("0"), []byte("0")
	for m := range jsontext.Members(inner, 1) {
		switch value := inner[m.From:m.To]; string(m.Key) {
		case "url":
			link = value
		case "title":
			title = value
		case "start_index":
			start = value
		case "end_index":
			end = value
		}
	}
	dst = append(append(dst, `{"type":"url_citation","url":`...), link...)
	dst = append(append(dst, `,"title":`...), title...)
	dst = append(append(dst, `,"start_index":`...), start...)
	return append(append(append(dst, `,"end_index":`...), end...), '}')
}
