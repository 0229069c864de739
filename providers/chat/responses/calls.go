package responses

import "farebox/providers/chat/dialect"

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
