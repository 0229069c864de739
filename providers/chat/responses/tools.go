package responses

import (
	"bytes"

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
	kind := string(f.text(f.doc.Member(i, ToolType)))
	switch kind {
	case "function", "custom":
		f.b = append(append(f.b, `{"type":"`...), kind...)
		f.b = append(append(append(f.b, `","`...), kind...), `":{"name":`...)
		f.b = append(f.b, orNull(f.raw(toolMember(f.doc, i, kind, ToolName)))...)
		for _, m := range toolMembers[kind] {
			if value := f.raw(toolMember(f.doc, i, kind, m.id)); value != nil {
				f.add(m.name, value)
			}
		}
		f.b = append(f.b, "}}"...)
		return true
	case "x_search":
		f.b = append(f.b, `{"type":"x_search"`...)
		for n, name := range dialect.SearchMembers {
			if value := f.raw(f.doc.Member(i, ToolSearchFrom+n)); value != nil {
				f.b = append(append(append(f.b, `,"`...), name...), `":`...)
				f.b = append(f.b, value...)
			}
		}
		f.b = append(f.b, '}')
		return false
	}
	if !isWebSearch([]byte(kind)) {
		f.problem(f.path(i, "type"), "tools of type "+excerpt([]byte(kind))+" are not offered here; use function, "+
			"web_search or x_search.")
	}
	// It is carried out here, which no other member of it changes.
	f.b = append(f.b, `{"type":"web_search"}`...)
	return false
}

// toolMembers are those of a tool of the client's own beside its name, by its kind.
var toolMembers = map[string][]named{
	"function": {{`"description":`, ToolDescription}, {`"parameters":`, ToolParameters}, {`"strict":`, ToolStrict}},
	"custom":   {{`"description":`, ToolDescription}, {`"format":`, ToolFormat}},
}

// toolMember is the index of a member of a tool of the client's own: of the object that
// chat completions have for that, else of the tool itself; -1: there is none.
func toolMember(doc *scan.Document, i int32, kind string, id int) int32 {
	inner := doc.Member(i, ToolFunction)
	if kind == "custom" {
		inner = doc.Member(i, ToolCustom)
	}
	if inner < 0 || doc.Fields[inner].Kind != scan.Object {
		return doc.Member(i, id)
	}
	switch id {
	case ToolName:
		id = InnerName
	case ToolDescription:
		id = InnerDescription
	case ToolParameters:
		id = InnerParameters
	case ToolStrict:
		id = InnerStrict
	case ToolFormat:
		id = InnerFormat
	}
	return doc.Member(inner, id)
}

// isWebSearch knows the names that OpenAI's packages have for the tool over time, such
// as web_search_preview_2025_03_11.
func isWebSearch(kind []byte) bool {
	return bytes.Equal(kind, []byte("web_search")) || bytes.HasPrefix(kind, []byte("web_search_"))
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
	switch kind := string(f.text(f.doc.Member(at, ChoiceType))); kind {
	case "function", "custom":
		name := f.raw(chosenName(f.doc, at, kind))
		if name == nil {
			f.problem("tool_choice.name", "is required in a tool_choice of type "+kind+".")
			return
		}
		f.add(`"tool_choice":`, nil)
		f.chosen(kind, name)
	case "allowed_tools":
		f.allowedTools(at)
	case "auto", "none", "required":
		f.add(`"tool_choice":"`, []byte(kind))
		f.b = append(f.b, '"')
	default:
		f.problem("tool_choice.type", excerpt([]byte(kind))+
			" cannot be chosen here; choose a function, or auto, none or required.")
	}
}

// chosenName is the index of the name in a tool_choice, or in one of the tools in it, -1:
// there is none.
func chosenName(doc *scan.Document, at int32, kind string) int32 {
	inner := doc.Member(at, ChoiceFunction)
	if kind == "custom" {
		inner = doc.Member(at, ChoiceCustom)
	}
	if inner >= 0 && doc.Fields[inner].Kind == scan.Object {
		return doc.Member(inner, InnerName)
	}
	return doc.Member(at, ChoiceName)
}

// chosen writes a tool that is chosen, as chat completions do.
func (f *Form) chosen(kind string, name []byte) {
	f.b = append(append(f.b, `{"type":"`...), kind...)
	f.b = append(append(append(f.b, `","`...), kind...), `":{"name":`...)
	f.b = append(append(f.b, name...), "}}"...)
}

// allowedTools writes the tools that may be called, each in the form of chat completions.
func (f *Form) allowedTools(at int32) {
	if !f.o.Extras {
		f.problem("tool_choice.type", "allowed_tools is not taken here; choose a function, or auto, none or required.")
		return
	}
	f.add(`"tool_choice":`, []byte(`{"type":"allowed_tools","allowed_tools":{"mode":`))
	f.b = append(append(f.b, orNull(f.raw(f.doc.Member(at, ChoiceMode)))...), `,"tools":[`...)
	list := f.doc.Member(at, ChoiceTools)
	for i := list + 1; list >= 0 && i < f.doc.Fields[list].Next; i = f.doc.Fields[i].Next {
		kind := string(f.text(f.doc.Member(i, ChoiceType)))
		name := f.raw(chosenName(f.doc, i, kind))
		if name == nil || kind != "function" && kind != "custom" {
			f.problem(f.path(i, ""), "must be a tool of type function with its name.")
			continue
		}
		f.comma()
		f.chosen(kind, name)
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
