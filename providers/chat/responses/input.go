package responses

import (
	"bytes"

	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

// messages writes instructions and input as the messages of a chat.
func (f *Form) messages() {
	f.add(`"messages":`, []byte{'['})
	if words := f.raw(f.doc.TopIndex(TopInstructions)); words != nil {
		f.message(`{"role":"system","content":`, instructed)
		f.b = append(append(f.b, words...), '}')
	}
	input := f.doc.TopIndex(TopInput)
	switch {
	case input < 0:
	case f.doc.Fields[input].Kind == scan.String:
		f.message(`{"role":"user","content":`, plainInput)
		f.b = append(append(f.b, f.doc.Fields[input].Raw(f.body)...), '}')
	case f.doc.Fields[input].Kind == scan.Array:
		for i := input + 1; i < f.doc.Fields[input].Next; {
			i = f.item(i, f.doc.Fields[input].Next)
		}
	}
	f.b = append(f.b, ']')
}

// message begins a message that was made of an item.
func (f *Form) message(head string, item int32) {
	if f.said {
		f.b = append(f.b, ',')
	}
	f.said = true
	message := int32(0)
	for k := len(f.places) - 1; k >= 0; k-- {
		if f.places[k].call < 0 {
			message = f.places[k].message + 1
			break
		}
	}
	f.places = append(f.places, place{message, -1, item})
	f.b = append(f.b, head...)
}

// itemKinds are the items that are taken.
var itemKinds = [...]string{"message", "function_call", "function_call_output", "reasoning", "custom_tool_call",
	"custom_tool_call_output", "web_search_call", "item_reference"}

// kind is an item's type; messages may leave it out.
func (f *Form) kind(i int32) string {
	t := f.text(f.doc.Member(i, ItemType))
	for _, kind := range itemKinds {
		if string(t) == kind {
			return kind // without a copy
		}
	}
	switch {
	case t != nil:
		return string(t)
	case f.doc.Member(i, ItemRole) >= 0:
		return "message"
	case f.doc.Member(i, ItemID) >= 0 && f.doc.Member(i, ItemContent) < 0:
		return "item_reference"
	}
	return "message"
}

// item writes the message of one item, or of several that are one, and returns the
// item after them.
func (f *Form) item(i, end int32) (next int32) {
	if f.doc.Fields[i].Kind != scan.Object {
		return f.doc.Fields[i].Next
	}
	switch kind := f.kind(i); kind {
	case "message":
		if string(f.text(f.doc.Member(i, ItemRole))) == "assistant" {
			return f.assistant(i, end)
		}
		f.spoken(i)
	case "reasoning", "function_call", "custom_tool_call":
		return f.assistant(i, end)
	case "function_call_output", "custom_tool_call_output":
		f.output(i)
	case "web_search_call":
		// What was found is not in it: it tells the client that there was a search.
	case "item_reference":
		f.problem(f.path(i, ""), "nothing is kept between requests, so that an item_reference refers to nothing; "+
			"send the item itself.")
	default:
		f.problem(f.path(i, "type"), excerpt([]byte(kind))+" is not an item that is taken here; expected message, "+
			"reasoning, function_call or function_call_output.")
	}
	return f.doc.Fields[i].Next
}

// spoken writes a message of the user, the system or the developer.
func (f *Form) spoken(i int32) {
	role := f.text(f.doc.Member(i, ItemRole))
	if role == nil {
		f.problem(f.path(i, "role"), "is required.")
		return
	}
	f.message(`{"role":"`, f.doc.Fields[i].Elem)
	f.b = append(append(f.b, role...), `","content":`...)
	if f.raw(f.doc.Member(i, ItemContent)) == nil {
		f.problem(f.path(i, "content"), "is required.")
	}
	f.content(i)
	f.b = append(f.b, '}')
}

// assistant writes what the assistant thought, said and called as one message, since
// the results of calls must follow the message that has all of them.
func (f *Form) assistant(i, end int32) (next int32) {
	f.run = f.run[:0]
	said, called := false, false
	first := i
items:
	for ; i < end; i = f.doc.Fields[i].Next {
		if f.doc.Fields[i].Kind != scan.Object {
			break
		}
		switch f.kind(i) {
		case "message":
			if string(f.text(f.doc.Member(i, ItemRole))) != "assistant" || said && !called {
				break items
			}
			said = true
		case "reasoning":
			if said && !called {
				break items // it was thought before what follows
			}
		case "function_call", "custom_tool_call":
			called = true
		case "web_search_call":
			continue
		default:
			break items
		}
		f.run = append(f.run, i)
	}
	f.message(`{"role":"assistant","content":`, f.doc.Fields[first].Elem)
	f.assistantContent(said, called)
	f.thoughts()
	if called {
		f.calls()
	}
	f.b = append(f.b, '}')
	return i
}

// assistantContent writes the texts of a run of items.
func (f *Form) assistantContent(said, called bool) {
	from, messages := len(f.b), 0
	for _, i := range f.run {
		if f.kind(i) != "message" {
			continue
		}
		if messages++; messages > 1 {
			break
		}
		if f.raw(f.doc.Member(i, ItemContent)) == nil {
			f.problem(f.path(i, "content"), "is required.")
		}
	}
	switch {
	case messages == 1:
		for _, i := range f.run {
			if f.kind(i) == "message" {
				f.content(i)
			}
		}
	case messages > 1:
		f.b = append(f.b, '[')
		for _, i := range f.run {
			if f.kind(i) == "message" {
				f.parts(i)
			}
		}
		f.b = append(f.b, ']')
	case called:
		f.b = append(f.b, "null"...)
	default:
		f.b = append(f.b, `""`...)
	}
	if said && string(f.b[from:]) == "[]" {
		if f.b = f.b[:from]; called {
			f.b = append(f.b, "null"...)
		} else {
			f.b = append(f.b, `""`...)
		}
	}
}

// content writes an item's content. A single text is no list: old servers take no
// other than the user's as parts.
func (f *Form) content(i int32) {
	at := f.doc.Member(i, ItemContent)
	if at < 0 || f.doc.Fields[at].Kind != scan.Array {
		f.b = append(f.b, orNull(f.raw(at))...)
		return
	}
	from := len(f.b)
	f.b = append(f.b, '[')
	f.parts(i)
	f.b = append(f.b, ']')
	f.plain(from)
}

// plain makes a list of one text part the text.
func (f *Form) plain(from int) {
	const head, tail = `[{"type":"text","text":`, `}]`
	list := f.b[from:]
	if !bytes.HasPrefix(list, []byte(head)) || !bytes.HasSuffix(list, []byte(tail)) {
		return
	}
	if words := list[len(head) : len(list)-len(tail)]; dialect.SkipValue(words, 0) == len(words) {
		f.b = append(f.b[:from], words...)
	}
}

// parts writes the parts of an item's content behind those that stand there.
func (f *Form) parts(i int32) {
	at := f.doc.Member(i, ItemContent)
	if at < 0 {
		return
	}
	assistant := string(f.text(f.doc.Member(i, ItemRole))) == "assistant"
	if f.doc.Fields[at].Kind == scan.String {
		f.comma()
		f.b = append(append(append(f.b, `{"type":"text","text":`...), f.raw(at)...), '}')
		return
	}
	for p := at + 1; f.doc.Fields[at].Kind == scan.Array && p < f.doc.Fields[at].Next; p = f.doc.Fields[p].Next {
		if f.doc.Fields[p].Kind == scan.Object {
			f.part(p, assistant)
		}
	}
}

// comma stands before the elements of a list but the first.
func (f *Form) comma() {
	if f.b[len(f.b)-1] != '[' {
		f.b = append(f.b, ',')
	}
}

func (f *Form) part(p int32, assistant bool) {
	kind := f.text(f.doc.Member(p, PartType))
	switch string(kind) {
	case "input_text", "output_text", "text":
		words := f.raw(f.doc.Member(p, PartText))
		if words == nil {
			f.problem(f.path(p, "text"), "is required in a part of type "+string(kind)+".")
			return
		}
		if assistant && len(words) == len(`""`) {
			return // models say nothing before they call, and clients hand that back
		}
		f.begin(`"text","text":`, words)
	case "refusal":
		words := f.raw(f.doc.Member(p, PartRefusal))
		switch {
		case words == nil:
			f.problem(f.path(p, "refusal"), "is required in a part of type refusal.")
			return
		case f.o.Extras && assistant:
			f.begin(`"refusal","refusal":`, words)
		default:
			f.begin(`"text","text":`, words)
		}
	case "input_image", "image_url":
		if !f.image(p) {
			return
		}
	case "input_file", "file":
		if !f.file(p) {
			return
		}
	case "input_audio", "video_url":
		member := PartInputAudio
		if string(kind) == "video_url" {
			member = PartVideoURL
		}
		value := f.raw(f.doc.Member(p, member))
		if value == nil {
			f.problem(f.path(p, string(kind)), "is required in a part of type "+string(kind)+".")
			return
		}
		if value[0] == '"' && member == PartVideoURL {
			f.begin(`"video_url","video_url":{"url":`, value)
			f.b = append(f.b, '}')
			break
		}
		f.begin(`"`, kind)
		f.b = append(append(append(append(f.b, `","`...), kind...), `":`...), value...)
	case "":
		f.problem(f.path(p, "type"), "is required.")
		return
	default:
		f.problem(f.path(p, "type"), excerpt(kind)+" is not a part that is taken here; expected input_text, output_text, "+
			"refusal, input_image or input_file.")
		return
	}
	if cache := f.raw(f.doc.Member(p, PartCacheControl)); cache != nil {
		f.b = append(append(f.b, `,"cache_control":`...), cache...)
	}
	f.b = append(f.b, '}')
}

// begin writes the beginning of a part, up to a value.
func (f *Form) begin(head string, value []byte) {
	f.comma()
	f.b = append(append(append(f.b, `{"type":`...), head...), value...)
}

// image writes an image part, whose link stands in it or in an object.
func (f *Form) image(p int32) bool {
	if f.raw(f.doc.Member(p, PartFileID)) != nil {
		f.problem(f.path(p, "file_id"), "files that are kept at a provider cannot be used; send image_url.")
		return false
	}
	at := f.doc.Member(p, PartImageURL)
	link := f.raw(at)
	detail := f.raw(f.doc.Member(p, PartDetail))
	switch {
	case link == nil:
		f.problem(f.path(p, "image_url"), "is required in a part of type input_image.")
		return false
	case link[0] == '{' && f.raw(f.doc.Member(at, ImageURL)) == nil:
		f.problem(f.path(at, "url"), "is required.")
		return false
	case link[0] == '{':
		f.begin(`"image_url","image_url":`, link)
		return true
	}
	f.begin(`"image_url","image_url":{"url":`, link)
	if detail != nil {
		f.b = append(append(f.b, `,"detail":`...), detail...)
	}
	f.b = append(f.b, '}')
	return true
}

// file writes a file part: its data, or where it is.
func (f *Form) file(p int32) bool {
	at, inner := p, f.doc.Member(p, PartFile)
	data, name, id := PartFileData, PartFilename, PartFileID
	if inner >= 0 {
		at, data, name, id = inner, FileData, FileName, FileID
	}
	if f.raw(f.doc.Member(at, id)) != nil {
		f.problem(f.path(at, "file_id"), "files that are kept at a provider cannot be used; send file_data or file_url.")
		return false
	}
	link := f.raw(f.doc.Member(at, data))
	if link == nil && inner < 0 {
		link = f.raw(f.doc.Member(p, PartFileURL))
	}
	if link == nil {
		f.problem(f.path(at, "file_data"), "is required in a part of type input_file, or file_url.")
		return false
	}
	f.begin(`"file","file":{"file_data":`, link)
	if name := f.raw(f.doc.Member(at, name)); name != nil {
		f.b = append(append(f.b, `,"filename":`...), name...)
	}
	f.b = append(f.b, '}')
	return true
}

// calls writes the calls of a run of items.
func (f *Form) calls() {
	f.b = append(f.b, `,"tool_calls":[`...)
	message, n := f.places[len(f.places)-1].message, int32(0)
	for _, i := range f.run {
		kind, input, missing := "function", f.raw(f.doc.Member(i, ItemArguments)), "arguments"
		switch f.kind(i) {
		case "function_call":
		case "custom_tool_call":
			kind, input, missing = "custom", f.raw(f.doc.Member(i, ItemInput)), "input"
		default:
			continue
		}
		id, name := f.raw(f.doc.Member(i, ItemCallID)), f.raw(f.doc.Member(i, ItemName))
		switch {
		case id == nil:
			f.problem(f.path(i, "call_id"), "is required in a "+f.kind(i)+".")
		case name == nil:
			f.problem(f.path(i, "name"), "is required in a "+f.kind(i)+".")
		case input == nil:
			f.problem(f.path(i, missing), "is required in a "+f.kind(i)+".")
		}
		f.comma()
		f.places = append(f.places, place{message, n, f.doc.Fields[i].Elem})
		n++
		f.b = append(append(f.b, `{"id":`...), orNull(id)...)
		f.b = append(append(append(f.b, `,"type":"`...), kind...), `","`...)
		f.b = append(append(append(f.b, kind...), `":{"name":`...), orNull(name)...)
		if kind == "custom" {
			f.b = append(f.b, `,"input":`...)
		} else {
			f.b = append(f.b, `,"arguments":`...)
		}
		f.b = append(append(f.b, orNull(input)...), "}}"...)
	}
	f.b = append(f.b, ']')
}

// output writes the result of a call: a text, text parts, or any JSON as its text.
func (f *Form) output(i int32) {
	id, at := f.raw(f.doc.Member(i, ItemCallID)), f.doc.Member(i, ItemOutput)
	switch {
	case id == nil:
		f.problem(f.path(i, "call_id"), "is required in a "+f.kind(i)+".")
	case at < 0:
		f.problem(f.path(i, "output"), "is required in a "+f.kind(i)+".")
	}
	f.message(`{"role":"tool","tool_call_id":`, f.doc.Fields[i].Elem)
	f.b = append(append(f.b, orNull(id)...), `,"content":`...)
	value := nullText
	if at >= 0 {
		value = f.doc.Fields[at].Raw(f.body)
	}
	switch {
	case value[0] == '"':
		f.b = append(f.b, value...)
	case value[0] == '[' && arePartsOf(value):
		from := len(f.b)
		f.b = append(f.b, '[')
		f.outputParts(i, value)
		f.b = append(f.b, ']')
		f.plain(from)
	default:
		f.b = dialect.AppendString(f.b, value)
	}
	f.b = append(f.b, '}')
}

// outputParts writes the texts of a result in parts.
func (f *Form) outputParts(i int32, list []byte) {
	eachPart(list, func(kind, words []byte) {
		switch string(kind) {
		case "input_text", "output_text", "text":
			f.begin(`"text","text":`, orNull(words))
			f.b = append(f.b, '}')
		default:
			f.problem(f.path(i, "output"), "the result of a call is text here; a part of type "+excerpt(kind)+
				" cannot be given to the model.")
		}
	})
}

// arePartsOf says that a list is one of content parts, and no other JSON.
func arePartsOf(list []byte) bool {
	n, all := 0, true
	eachPart(list, func(kind, _ []byte) {
		n++
		switch string(kind) {
		case "input_text", "output_text", "text", "input_image", "image_url", "input_file", "file", "input_audio":
		default:
			all = false
		}
	})
	return n > 0 && all
}

// eachPart calls do with the type and the text of every element.
func eachPart(list []byte, do func(kind, words []byte)) {
	for at := 1; ; {
		from, to, ok := dialect.NextElement(list, at)
		if !ok {
			return
		}
		at = to
		var kind, words []byte
		part := list[from:to]
		var m dialect.Member
		for k, ok := 1, part[0] == '{'; ok; {
			if k, ok = dialect.NextMember(part, k, &m); ok && part[m.From] == '"' {
				switch string(m.Key) {
				case "type":
					kind = part[m.From+1 : m.To-1]
				case "text":
					words = part[m.From:m.To]
				}
			}
		}
		do(kind, words)
	}
}
