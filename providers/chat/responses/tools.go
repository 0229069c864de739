package responses

import (
	"bytes"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// tools writes the tools, the choice among them and how many at once. Without
// tools there is nothing to choose, and chat completions want none of it said.
func (f *Form) tools() {
	f.wrote = f.wrote[:0]
	from := len(f.b)
	f.add(`"tools":`, []byte{'['})
	for i := range f.table {
		f.comma()
		f.wrote = append(f.wrote, f.table[i].at)
		f.tool(&f.table[i])
	}
	list := f.doc.TopIndex(TopTools)
	for i := list + 1; list >= 0 && i < f.doc.Fields[list].Next; i = f.doc.Fields[i].Next {
		if f.doc.Fields[i].Kind != scan.Object {
			continue
		}
		if kind := string(f.text(f.doc.Member(i, ToolType))); f.searches(kind) {
			f.comma()
			f.wrote = append(f.wrote, i)
			f.search(i, kind)
		}
	}
	f.b = append(f.b, ']')
	choice := string(f.text(f.doc.TopIndex(TopToolChoice)))
	if len(f.wrote) == 0 {
		f.b = f.b[:from]
		if list >= 0 && len(f.left.All()) > 0 && choice == "required" {
			f.problem("tool_choice", "none of the tools is offered here, so that none can be required.")
		}
	}
	if len(f.table) > 0 {
		f.copy(`"parallel_tool_calls":`, TopParallelToolCalls)
	}
	if len(f.table) > 0 || choice == "" || choice == "required" {
		f.toolChoice()
	}
}

// search writes a tool that is carried out here. No other member of web_search changes that.
func (f *Form) search(i int32, kind string) {
	if kind != "x_search" {
		f.b = append(f.b, `{"type":"web_search"}`...)
		return
	}
	f.b = append(f.b, `{"type":"x_search"`...)
	for n, name := range dialect.SearchMembers {
		if value := f.raw(f.doc.Member(i, ToolSearchFrom+n)); value != nil {
			f.b = append(append(append(f.b, `,"`...), name...), `":`...)
			f.b = append(f.b, value...)
		}
	}
	f.b = append(f.b, '}')
}

// shellSchema is the schema of a command, as members of local_shell_call's action.
const shellSchema = `{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},` +
	`"description":"The program and its arguments."},"timeout_ms":{"type":"integer"},` +
	`"working_directory":{"type":"string"},"env":{"type":"object","additionalProperties":{"type":"string"}}},` +
	`"required":["command"]}`

// inputSchema is that of a tool whose input is one text.
const inputSchema = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],` +
	`"additionalProperties":false}`

// tool writes the function that represents a tool.
func (f *Form) tool(t *tool) {
	f.b = jsontext.AppendString(append(f.b, `{"type":"function","function":{"name":`...), t.flat)
	switch t.kind {
	case functionTool:
		for _, m := range toolMembers["function"] {
			if value := f.raw(toolMember(f.doc, t.at, "function", m.id)); value != nil {
				f.add(m.name, value)
			}
		}
	case customTool:
		f.describeInput(t.at)
		f.add(`"parameters":`, []byte(inputSchema))
	case searchTool:
		f.pick(t.at, named{`"description":`, ToolDescription}, named{`"parameters":`, ToolParameters})
	case shellTool:
		f.add(`"description":`, []byte(`"Runs a command on the user's computer."`))
		f.add(`"parameters":`, []byte(shellSchema))
	}
	f.b = append(f.b, "}}"...)
}

// describeInput writes the description of a tool whose input is one text, with the grammar
// that the text must follow.
func (f *Form) describeInput(at int32) {
	words := f.text(toolMember(f.doc, at, "custom", ToolDescription))
	format := f.raw(toolMember(f.doc, at, "custom", ToolFormat))
	grammar := jsontext.StringIn(format, "definition")
	f.add(`"description":"`, words)
	if len(words) > 0 {
		f.b = append(f.b, `\n\n`...)
	}
	f.b = append(f.b, `The member input is the whole input of the tool as one text.`...)
	if len(grammar) > 0 {
		f.b = append(append(f.b, ` It follows this grammar (`...), jsontext.StringIn(format, "syntax")...)
		f.b = append(append(f.b, `):\n`...), grammar...)
	}
	f.b = append(f.b, '"')
}

// toolMembers are those of a tool of the client's own besides its name, by its kind.
var toolMembers = map[string][]named{
	"function": {{`"description":`, ToolDescription}, {`"parameters":`, ToolParameters}, {`"strict":`, ToolStrict}},
	"custom":   {{`"description":`, ToolDescription}, {`"format":`, ToolFormat}},
}

// toolMember is the index of a member of a tool of the client's own: of the object that
// chat completions have for that, else of the tool itself; -1 if absent.
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

// toolChoice writes the choice among the tools.
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
		name := f.text(chosenName(f.doc, at, kind))
		if name == nil {
			f.problem("tool_choice.name", "is required in a tool_choice of type "+kind+".")
			return
		}
		f.add(`"tool_choice":`, nil)
		f.chosen(kind, f.text(f.doc.Member(at, ChoiceNamespace)), name)
	case "local_shell":
		f.add(`"tool_choice":`, nil)
		f.chosen(kind, nil, []byte(kind))
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
// absent.
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

// chosen writes the function that represents a chosen tool.
func (f *Form) chosen(kind string, space, name []byte) {
	of := functionTool
	switch kind {
	case "custom":
		of = customTool
	case "local_shell":
		of = shellTool
	}
	f.b = f.function(append(f.b, `{"type":"function","function":{"name":`...), of, space, name)
	f.b = append(f.b, "}}"...)
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
		name := f.text(chosenName(f.doc, i, kind))
		if name == nil || kind != "function" && kind != "custom" {
			f.problem(f.path(i, ""), "must be a tool of type function with its name.")
			continue
		}
		f.comma()
		f.chosen(kind, f.text(f.doc.Member(i, ChosenNamespace)), name)
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
