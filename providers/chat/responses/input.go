package responses

import (
	"bytes"

	"farebox/proxy/jsontext"
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
	f.places = append(f.places, itemOrigin{message: message, call: -1, item: item})
	f.b = append(f.b, head...)
}

// itemKinds are the items that are taken.
var itemKinds = [...]string{"message", "function_call", "function_call_output", "reasoning", "custom_tool_call",
	"custom_tool_call_output", "web_search_call", "item_reference", "tool_search_call", "tool_search_output",
	"additional_tools", "local_shell_call", "local_shell_call_output"}

// kind is an item's type; messages may leave it out.
func (f *Form) kind(i int32) string { return kindOfItem(f.body, f.doc, i) }

func kindOfItem(body []byte, doc *scan.Document, i int32) string {
	t := doc.StringAt(body, doc.Member(i, ItemType))
	for _, kind := range itemKinds {
		if string(t) == kind {
			return kind // without a copy
		}
	}
	switch {
	case t != nil:
		return string(t)
	case doc.Member(i, ItemRole) >= 0:
		return "message"
	case doc.Member(i, ItemID) >= 0 && doc.Member(i, ItemContent) < 0:
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
	case "reasoning", "function_call", "custom_tool_call", "tool_search_call", "local_shell_call":
		return f.assistant(i, end)
	case "function_call_output", "custom_tool_call_output", "tool_search_output", "local_shell_call_output":
		f.output(i)
	case "additional_tools":
		// They are among the tools.
	case "web_search_call":
		// The results are not in it: it tells the client that there was a search.
	case "item_reference":
		f.problem(f.path(i, ""), "an item_reference needs an id, and items that are kept; send the item itself.")
	case "compaction", "image_generation_call", "code_interpreter_call", "file_search_call", "mcp_call", "mcp_list_tools":
		f.omit(kind)
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

// assistant writes the assistant's thoughts, text and calls as one message, since
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
				break items // it was thought before the next items
			}
		case "function_call", "custom_tool_call", "tool_search_call", "local_shell_call":
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

// content writes an item's content. A single text is not a list: old servers take no
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
	if words := list[len(head) : len(list)-len(tail)]; jsontext.SkipValue(words, 0) == len(words) {
		f.b = append(f.b[:from], words...)
	}
}

// parts writes the parts of an item's content behind those that are there.
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

// comma precedes the elements of a list but the first.
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
		f.beginPart(`"text","text":`, words)
	case "refusal":
		words := f.raw(f.doc.Member(p, PartRefusal))
		switch {
		case words == nil:
			f.problem(f.path(p, "refusal"), "is required in a part of type refusal.")
			return
		case f.o.Extras && assistant:
			f.beginPart(`"refusal","refusal":`, words)
		default:
			f.beginPart(`"text","text":`, words)
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
		if !f.carrier(p, string(kind)) {
			return
		}
	case "":
		f.problem(f.path(p, "type"), "is required.")
		return
	default:
		f.problem(f.path(p, "type"), excerpt(kind)+" is not a part that is taken here; expected input_text, output_text, "+
			"refusal, input_image or input_file.")
		return
	}
	if cache := f.doc.Member(p, PartCacheControl); cache >= 0 && f.doc.Fields[cache].Kind == scan.Object {
		f.add(`"cache_control":{`, nil)
		f.pick(cache, named{`"type":`, CacheType}, named{`"ttl":`, CacheTTL})
		f.b = append(f.b, '}')
	}
	f.b = append(f.b, '}')
}

// carrier writes sound or a video, which is in an object.
func (f *Form) carrier(p int32, kind string) bool {
	at, members := f.doc.Member(p, PartInputAudio), []named{{`"data":`, AudioData}, {`"format":`, AudioKind}}
	if kind == "video_url" {
		at, members = f.doc.Member(p, PartVideoURL), []named{{`"url":`, VideoURL}}
	}
	switch value := f.raw(at); {
	case value == nil:
		f.problem(f.path(p, kind), "is required in a part of type "+kind+".")
		return false
	case value[0] == '"' && kind == "video_url":
		f.beginPart(`"video_url","video_url":{"url":`, value)
	case value[0] != '{':
		f.problem(f.path(p, kind), "must be an object.")
		return false
	default:
		f.beginPart(`"`, []byte(kind))
		f.b = append(append(append(f.b, `","`...), kind...), `":{`...)
		f.pick(at, members...)
	}
	f.b = append(f.b, '}')
	return true
}

// beginPart writes the beginning of a part, up to a value.
func (f *Form) beginPart(head string, value []byte) {
	f.comma()
	f.b = append(append(append(f.b, `{"type":`...), head...), value...)
}

// image writes an image part, whose link is in it or in an object.
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
		link, detail = f.raw(f.doc.Member(at, ImageURL)), f.raw(f.doc.Member(at, ImageDetail))
	}
	f.beginPart(`"image_url","image_url":{"url":`, link)
	if detail != nil {
		f.b = append(append(f.b, `,"detail":`...), detail...)
	}
	f.b = append(f.b, '}')
	return true
}

// file writes a file part: its data, or where it is.
func (f *Form) file(p int32) bool {
	at, id := p, PartFileID
	if inner := f.doc.Member(p, PartFile); inner >= 0 {
		at, id = inner, FileID
	}
	if f.raw(f.doc.Member(at, id)) != nil || f.raw(f.doc.Member(p, PartFileID)) != nil {
		f.problem(f.path(at, "file_id"), "files that are kept at a provider cannot be used; send file_data or file_url.")
		return false
	}
	link, name := filePart(f.body, f.doc, p)
	if link == nil {
		f.problem(f.path(at, "file_data"), "is required in a part of type input_file, or file_url.")
		return false
	}
	f.beginPart(`"file","file":{"file_data":`, link)
	if name != nil {
		f.b = append(append(f.b, `,"filename":`...), name...)
	}
	f.b = append(f.b, '}')
	return true
}

// filePart is the data of a file part, or where the file is, and its name.
func filePart(body []byte, doc *scan.Document, p int32) (link, name []byte) {
	if inner := doc.Member(p, PartFile); inner >= 0 {
		return doc.RawAt(body, doc.Member(inner, FileData)), doc.RawAt(body, doc.Member(inner, FileName))
	}
	if link = doc.RawAt(body, doc.Member(p, PartFileData)); link == nil {
		link = doc.RawAt(body, doc.Member(p, PartFileURL))
	}
	return link, doc.RawAt(body, doc.Member(p, PartFilename))
}
