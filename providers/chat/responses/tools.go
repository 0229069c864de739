package responses

import (
	"bytes"
	"strings"

	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

// tools writes the tools, who may choose among them and how many at once. Without
// tools there is nothing to choose, and chat completions want none of it said.
func (f *Form) tools() {
	list := f.doc.TopIndex(TopTools)
	if list < 0 || f.doc.Fields[list].Kind != scan.Array || f.doc.Fields[list].Len == 0 {
		if choice := f.text(f.doc.TopIndex(TopToolChoice)); choice == nil || string(choice) == "required" {
			f.toolChoice()
		}
		return
	}
	f.add(`"tools":`, []byte{'['})
	first, functions := true, false
	for i := list + 1; i < f.doc.Fields[list].Next; i = f.doc.Fields[i].Next {
		if f.doc.Fields[i].Kind != scan.Object {
			continue
		}
		if !first {
			f.b = append(f.b, ',')
		}
		first = false
		functions = f.tool(i) || functions
	}
	f.b = append(f.b, ']')
	if functions {
		f.copy(`"parallel_tool_calls":`, TopParallelToolCalls)
	}
	if choice := f.text(f.doc.TopIndex(TopToolChoice)); functions || choice == nil || string(choice) == "required" {
		f.toolChoice()
	}
}

// tool writes one tool, and says whether it is one that the client carries out.
func (f *Form) tool(i int32) (function bool) {
	kind := f.text(f.doc.Member(i, ToolType))
	switch string(kind) {
	case "function":
		if at := f.doc.Member(i, ToolFunction); at >= 0 && f.doc.Fields[at].Kind == scan.Object {
			f.b = append(f.b, f.doc.Fields[i].Raw(f.body)...)
			return true
		}
		f.b = append(f.b, `{"type":"function","function":{`...)
		f.add(`"name":`, orNull(f.raw(f.doc.Member(i, ToolName))))
		for _, m := range [...]struct {
			name string
			id   int
		}{{`"description":`, ToolDescription}, {`"parameters":`, ToolParameters}, {`"strict":`, ToolStrict}} {
			if value := f.raw(f.doc.Member(i, m.id)); value != nil {
				f.add(m.name, value)
			}
		}
		f.b = append(f.b, "}}"...)
		return true
	case "custom":
		if f.doc.Member(i, ToolCustom) >= 0 {
			f.b = append(f.b, f.doc.Fields[i].Raw(f.body)...)
			return true
		}
		f.b = append(f.b, `{"type":"custom","custom":`...)
		f.without(f.doc.Fields[i].Raw(f.body), "type")
		f.b = append(f.b, '}')
		return true
	case "x_search":
		f.b = append(f.b, f.doc.Fields[i].Raw(f.body)...)
		return false
	}
	if isWebSearch(kind) {
		f.b = append(f.b, `{"type":"web_search"`...)
		from := len(f.b)
		f.without(f.doc.Fields[i].Raw(f.body), "type")
		// Its other members stand behind the type.
		if f.b[from] = ','; len(f.b) == from+len("{}") {
			f.b = append(f.b[:from], '}')
		}
		return false
	}
	f.b = append(f.b, f.doc.Fields[i].Raw(f.body)...)
	f.problem(f.path(i, "type"), "tools of type "+excerpt(kind)+" are not offered here; use function, web_search or "+
		"x_search.")
	return false
}

// isWebSearch knows the names that OpenAI's packages have for the tool over time, such
// as web_search_preview_2025_03_11.
func isWebSearch(kind []byte) bool {
	return bytes.Equal(kind, []byte("web_search")) || bytes.HasPrefix(kind, []byte("web_search_"))
}

// without writes an object but for one member.
func (f *Form) without(object []byte, name string) {
	f.b = append(f.b, '{')
	var m dialect.Member
	for i, ok := dialect.NextMember(object, 1, &m); ok; i, ok = dialect.NextMember(object, i, &m) {
		if string(m.Key) != name {
			f.add(`"`, nil)
			f.b = append(append(append(f.b, m.Key...), `":`...), object[m.From:m.To]...)
		}
	}
	f.b = append(f.b, '}')
}

// toolChoice writes who chooses.
func (f *Form) toolChoice() {
	at := f.doc.TopIndex(TopToolChoice)
	if at < 0 || f.doc.Fields[at].Kind == scan.Null {
		return
	}
	if f.doc.Fields[at].Kind != scan.Object {
		f.copy(`"tool_choice":`, TopToolChoice)
		return
	}
	name := f.raw(f.doc.Member(at, ChoiceName))
	switch kind := f.text(f.doc.Member(at, ChoiceType)); string(kind) {
	case "function":
		if f.doc.Member(at, ChoiceFunction) >= 0 {
			f.copy(`"tool_choice":`, TopToolChoice)
			return
		}
		if name == nil {
			f.problem("tool_choice.name", "is required in a tool_choice of type function.")
			return
		}
		f.add(`"tool_choice":`, []byte(`{"type":"function","function":{"name":`))
		f.b = append(append(f.b, name...), "}}"...)
	case "custom":
		f.add(`"tool_choice":`, []byte(`{"type":"custom","custom":{"name":`))
		f.b = append(append(f.b, orNull(name)...), "}}"...)
	case "allowed_tools":
		f.allowedTools(at)
	case "auto", "none", "required":
		f.add(`"tool_choice":"`, kind)
		f.b = append(f.b, '"')
	default:
		f.problem("tool_choice.type", excerpt(kind)+" cannot be chosen here; choose a function, or auto, none or required.")
	}
}

// allowedTools writes the tools that may be called, each in the form of chat completions.
func (f *Form) allowedTools(at int32) {
	if !f.o.Extras {
		f.problem("tool_choice.type", "allowed_tools is not taken here; choose a function, or auto, none or required.")
		return
	}
	f.add(`"tool_choice":`, []byte(`{"type":"allowed_tools","allowed_tools":{"mode":`))
	f.b = append(append(f.b, orNull(f.raw(f.doc.Member(at, ChoiceMode)))...), `,"tools":[`...)
	list := f.raw(f.doc.Member(at, ChoiceTools))
	for i, first := 1, true; len(list) > 1 && list[0] == '['; first = false {
		from, to, ok := dialect.NextElement(list, i)
		if !ok {
			break
		}
		if i = to; !first {
			f.b = append(f.b, ',')
		}
		tool := list[from:to]
		var kind, name []byte
		var m dialect.Member
		for k, ok := 0, tool[0] == '{'; ok; {
			if k, ok = dialect.NextMember(tool, max(k, 1), &m); ok {
				switch string(m.Key) {
				case "type":
					kind = tool[m.From:m.To]
				case "name":
					name = tool[m.From:m.To]
				}
			}
		}
		if word := strings.Trim(string(kind), `"`); name != nil && (word == "function" || word == "custom") {
			f.b = append(append(append(f.b, `{"type":"`...), word...), `","`...)
			f.b = append(append(append(f.b, word...), `":{"name":`...), name...)
			f.b = append(f.b, "}}"...)
		} else {
			f.b = append(f.b, tool...)
		}
	}
	f.b = append(f.b, "]}}"...)
}

// orNull is null in the place of nothing.
func orNull(value []byte) []byte {
	if value == nil {
		return nullText
	}
	return value
}

var nullText = []byte("null")
