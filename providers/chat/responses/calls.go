package responses

import (
	"farebox/providers/chat/dialect"

	"farebox/proxy/jsontext"
)

// isCall says whether an item is a call of a tool that the client carries out.
func isCall(kind string) bool {
	switch kind {
	case "function_call", "custom_tool_call", "tool_search_call", "local_shell_call":
		return true
	}
	return false
}

// calls writes the calls of a run of items, each as one of the function that represents its
// tool.
func (f *Form) calls() {
	f.b = append(f.b, `,"tool_calls":[`...)
	message, n := f.places[len(f.places)-1].message, int32(0)
	for _, i := range f.run {
		kind := f.kind(i)
		if !isCall(kind) {
			continue
		}
		id := f.raw(f.doc.Member(i, ItemCallID))
		if id == nil && kind == "local_shell_call" {
			id = f.raw(f.doc.Member(i, ItemID))
		}
		f.comma()
		f.places = append(f.places, itemOrigin{message: message, call: n, item: f.doc.Fields[i].Elem})
		n++
		f.b = append(append(f.b, `{"id":`...), orNull(id)...)
		f.b = append(f.b, `,"type":"function","function":{"name":`...)
		f.called(i, kind, id != nil)
		f.b = append(f.b, "}}"...)
	}
	f.b = append(f.b, ']')
}

// called writes a call's name and its arguments. It names the first missing member.
func (f *Form) called(i int32, kind string, known bool) {
	of, name := functionTool, f.text(f.doc.Member(i, ItemName))
	member, id := "arguments", ItemArguments
	switch kind {
	case "custom_tool_call":
		of, member, id = customTool, "input", ItemInput
	case "tool_search_call":
		of, name = searchTool, []byte("tool_search")
	case "local_shell_call":
		of, name = shellTool, []byte("local_shell")
		member, id = "action", ItemAction
	}
	at := f.doc.Member(i, id)
	input := f.raw(at)
	switch {
	case !known:
		f.problem(f.path(i, "call_id"), "is required in a "+kind+".")
	case name == nil:
		f.problem(f.path(i, "name"), "is required in a "+kind+".")
	case input == nil:
		f.problem(f.path(i, member), "is required in a "+kind+".")
	case of == functionTool && input[0] != '"':
		f.problem(f.path(i, member), "must be a string.")
	}
	f.b = append(f.function(f.b, of, f.text(f.doc.Member(i, ItemNamespace)), name), `,"arguments":`...)
	switch {
	case of == customTool:
		text := append(append([]byte(`{"input":`), orNull(input)...), '}')
		f.b = jsontext.AppendString(f.b, text)
	case input != nil && input[0] == '{':
		f.b = jsontext.AppendString(f.b, input)
	default:
		f.b = append(f.b, orNull(input)...)
	}
}

// found writes the names of the tools that the client has found.
func (f *Form) found(i int32) {
	f.b = append(f.b, `"Tools found:`...)
	list := f.listOf(f.doc.Member(i, ItemTools))
	for k := range list {
		f.b = jsontext.AppendEscaped(append(f.b, ' '), list[k].flat)
	}
	if len(list) == 0 {
		f.b = append(f.b, " none that is new."...)
	}
	f.b = append(f.b, '"')
}

// output writes the result of a call: a text, text parts, or any JSON as its text.
func (f *Form) output(i int32) {
	id, at := f.raw(f.doc.Member(i, ItemCallID)), f.doc.Member(i, ItemOutput)
	kind := f.kind(i)
	if id == nil && kind == "local_shell_call_output" {
		id = f.raw(f.doc.Member(i, ItemID))
	}
	switch {
	case id == nil:
		f.problem(f.path(i, "call_id"), "is required in a "+f.kind(i)+".")
	case at < 0 && kind != "tool_search_output":
		f.problem(f.path(i, "output"), "is required in a "+f.kind(i)+".")
	}
	f.message(`{"role":"tool","tool_call_id":`, f.doc.Fields[i].Elem)
	f.places[len(f.places)-1].result = true
	f.b = append(append(f.b, orNull(id)...), `,"content":`...)
	value := nullText
	if at >= 0 {
		value = f.doc.Fields[at].Raw(f.body)
	}
	switch {
	case kind == "tool_search_output":
		f.found(i)
	case value[0] == '"':
		f.b = append(f.b, value...)
	case value[0] == '[' && arePartsOf(value):
		from := len(f.b)
		f.b = append(f.b, '[')
		f.outputParts(i, value)
		f.b = append(f.b, ']')
		f.plain(from)
	default:
		f.b = jsontext.AppendString(f.b, value)
	}
	f.b = append(f.b, '}')
}

// outputParts writes the texts and pictures of a result in parts.
func (f *Form) outputParts(i int32, list []byte) {
	eachPart(list, func(part, kind, words []byte) {
		link, detail := pictureOf(part)
		if isImage(kind) && link != nil {
			f.beginPart(`"image_url","image_url":{"url":`, link)
			if detail != nil {
				f.b = append(append(f.b, `,"detail":`...), detail...)
			}
			f.b = append(f.b, "}}"...)
			return
		}
		if isImage(kind) {
			words, kind = []byte(`"`+dialect.NotShown+`"`), []byte("text")
			f.omit("output.input_image")
		}
		switch string(kind) {
		case "input_text", "output_text", "text":
			f.beginPart(`"text","text":`, orNull(words))
			f.b = append(f.b, '}')
		default:
			f.problem(f.path(i, "output"), "the result of a call is text here; a part of type "+excerpt(kind)+
				" cannot be given to the model.")
		}
	})
}

// pictureOf reads the link of a picture's part, and in how much detail it is to be seen;
// nil if absent. Files that are kept at a provider cannot be used.
func pictureOf(part []byte) (link, detail []byte) {
	link, detail = jsontext.MemberOf(part, "image_url"), jsontext.MemberOf(part, "detail")
	if len(link) > 0 && link[0] == '{' {
		link, detail = jsontext.MemberOf(link, "url"), jsontext.MemberOf(link, "detail")
	}
	if len(link) == 0 || link[0] != '"' {
		return nil, nil
	}
	return link, detail
}

func isImage(kind []byte) bool { return string(kind) == "input_image" || string(kind) == "image_url" }

// arePartsOf says that a list is one of content parts, and no other JSON.
func arePartsOf(list []byte) bool {
	n, all := 0, true
	eachPart(list, func(_, kind, _ []byte) {
		n++
		switch string(kind) {
		case "input_text", "output_text", "text", "input_image", "image_url", "input_file", "file", "input_audio":
		default:
			all = false
		}
	})
	return n > 0 && all
}

// eachPart calls do with every element, its type and its text.
func eachPart(list []byte, do func(part, kind, words []byte)) {
	for part := range jsontext.Elements(list) {
		var kind, words []byte
		for m := range jsontext.Members(part, 1) {
			switch {
			case part[0] != '{' || part[m.From] != '"':
			case string(m.Key) == "type":
				kind = part[m.From+1 : m.To-1]
			case string(m.Key) == "text":
				words = part[m.From:m.To]
			}
		}
		do(part, kind, words)
	}
}
