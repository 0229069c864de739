package messages

import (
	"bytes"
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// tools writes the client's own tools, and web_search as this service has it.
func (r *reader) tools() {
	list := r.doc.TopIndex(TopTools)
	n, functions := 0, 0
	r.each(list, func(t int32) {
		switch kind := r.text(r.member(t, ToolType)); {
		case r.waits(t):
			// The model knows it when a search has found it, and until it is taken away.
		case len(kind) == 0 || string(kind) == "custom":
			r.strange(t)
			r.openTool(n, t)
			n++
			functions++
			r.function(t)
		case IsSearch(kind):
			if r.searchless && !r.mustSearch() {
				r.f.left.Add(LeftOutSearch)
				return
			}
			r.search(t)
			r.openTool(n, t)
			n++
			r.b = append(r.b, `{"type":"web_search"}`...)
		case bytes.HasPrefix(kind, []byte("bash_")), bytes.HasPrefix(kind, []byte("text_editor_")),
			bytes.HasPrefix(kind, []byte("memory_")):
			// Tools of the client's, which models of that maker know by heart.
			r.untold(r.doc.Path(t)+".type", "the tool "+string(clip(kind)))
		default:
			r.no(r.doc.Path(t)+".type", "tools of type %s run at the provider, at a cost of their own or in the "+
				"account that all customers of this service share; they are not sold here.", clip(kind))
		}
	})
	if n > 0 {
		r.b = append(r.b, ']')
	}
	if functions > 0 {
		r.toolChoice()
	}
}

// waits says that the model does not know a tool: it is deferred and was not found, or was
// taken away.
func (r *reader) waits(t int32) bool {
	shown, named := r.shown[string(r.text(r.member(t, ToolName)))]
	if named {
		return !shown
	}
	return r.isTrue(r.member(t, ToolDeferred))
}

func (r *reader) openTool(n int, t int32) {
	r.f.tools = append(r.f.tools, t)
	if n == 0 {
		r.b = append(r.b, `,"tools":[`...)
		return
	}
	r.b = append(r.b, ',')
}

func (r *reader) function(t int32) {
	r.b = append(r.b, `{"type":"function","function":{"name":`...)
	r.b = append(r.b, or(r.raw(r.member(t, ToolName)), `""`)...)
	r.put("description", r.raw(r.member(t, ToolText)))
	r.put("parameters", r.raw(r.member(t, ToolSchema)))
	if r.isTrue(r.member(t, ToolStrict)) {
		r.b = append(r.b, `,"strict":true`...)
	}
	r.b = append(r.b, '}')
	r.mark(r.member(t, ToolCache))
	r.b = append(r.b, '}')
	path := r.doc.Path(t)
	if i := r.member(t, ToolExamples); r.isArray(i) && r.doc.Fields[i].Len > 0 {
		r.f.left.Add("tools.input_examples")
	}
	if i := r.member(t, ToolCallers); i >= 0 && string(bytes.TrimSpace(r.raw(i))) != `["direct"]` {
		r.no(path+".allowed_callers", "only direct calls are sold here.")
	}
}

// searchTool is the name that the tool for searching has in its maker's API.
const searchTool = "web_search"

// LeftOutSearch names the tool for searching where it is left out.
const LeftOutSearch dialect.Omission = "tools.web_search"

// IsSearch knows the types of the tool for searching, such as web_search_20250305.
func IsSearch(kind []byte) bool { return bytes.HasPrefix(kind, []byte("web_search_")) }

// mustSearch says that the client forces a search: by its name, or as the only tool.
func (r *reader) mustSearch() bool {
	choice := r.doc.TopIndex(TopToolChoice)
	switch string(r.text(r.member(choice, ChoiceType))) {
	case "tool":
		return string(r.text(r.member(choice, ChoiceName))) == searchTool
	case "any":
		others := false
		r.each(r.doc.TopIndex(TopTools), func(t int32) { others = others || !IsSearch(r.text(r.member(t, ToolType))) })
		return !others
	}
	return false
}

// search refuses options that a search of this service cannot have.
func (r *reader) search(t int32) {
	raw := r.raw(t)
	for m := range jsontext.Members(raw, 1) {
		switch name := string(clip(m.Key)); name {
		case "type", "name", "max_uses", "cache_control": // one search is done, and its result is not cached
		default:
			if value := string(raw[m.From:m.To]); value != "null" && value != "[]" {
				r.no(r.doc.Path(t)+"."+name, "searches of this service do not know this member; leave it out.")
			}
		}
	}
}

// toolChoice is written where there are tools of the client's own.
func (r *reader) toolChoice() {
	i := r.doc.TopIndex(TopToolChoice)
	if !r.isObject(i) {
		return
	}
	name := r.member(i, ChoiceName)
	switch kind := string(r.text(r.member(i, ChoiceType))); kind {
	case "auto", "none":
		r.b = append(append(append(r.b, `,"tool_choice":"`...), kind...), '"')
	case "any":
		r.b = append(r.b, `,"tool_choice":"required"`...)
	case "tool":
		if string(r.text(name)) == searchTool {
			break // it is done in any case
		}
		r.b = append(r.b, `,"tool_choice":{"type":"function","function":{"name":`...)
		r.b = append(append(r.b, or(r.raw(name), `""`)...), "}}"...)
	default:
		r.no("tool_choice.type", "must be auto, any, tool or none.")
	}
	if r.isTrue(r.member(i, ChoiceSingle)) {
		r.b = append(r.b, `,"parallel_tool_calls":false`...)
	}
}

// Shares of a request's tokens that thinking may have, in hundredths, up to which an
// effort is low, or medium.
const (
	lowShare    = 35
	mediumShare = 65
)

// reasoning writes the effort: as the client set it, else as the budget for thinking comes
// to, else the usual one of models that decide for themselves.
func (r *reader) reasoning() {
	r.f.effort = "thinking"
	effort := r.text(r.member(r.doc.TopIndex(TopOutput), OutputEffort))
	t := r.doc.TopIndex(TopThinking)
	kind := ""
	if r.isObject(t) {
		r.strange(t)
		kind = string(r.text(r.member(t, ThinkingType)))
		if string(r.text(r.member(t, ThinkingDisplay))) == "omitted" {
			r.f.hides = true
		}
	}
	switch kind {
	case "disabled":
		effort = []byte("none")
	case "between_tools":
		r.f.thinks = true
		r.f.left.Add("thinking.type")
	case "enabled":
		r.f.thinks = true
		if effort == nil {
			effort = r.share(t)
		}
	case "adaptive":
		r.f.thinks = true
		if effort == nil {
			effort = []byte("high")
		}
	case "":
		if r.isObject(t) {
			r.no("thinking.type", "must be enabled, adaptive, disabled or between_tools.")
		}
		if effort != nil {
			r.f.effort = "output_config.effort"
		}
	default:
		r.no("thinking.type", "must be enabled, adaptive, disabled or between_tools.")
	}
	if effort != nil {
		r.b = append(append(append(r.b, `,"reasoning_effort":"`...), effort...), '"')
	}
}

// leastBudget is the smallest budget for thinking.
const leastBudget = 1024

// share is the effort that a budget for thinking comes to.
func (r *reader) share(thinking int32) []byte {
	budget, err := strconv.ParseFloat(string(r.raw(r.member(thinking, ThinkingBudget))), 64)
	most, _ := strconv.ParseFloat(string(r.top(TopMaxTokens)), 64)
	switch {
	case err != nil || budget < leastBudget:
		r.no("thinking.budget_tokens", "is required and must be at least %d.", leastBudget)
		return nil
	case budget >= most:
		r.no("thinking.budget_tokens", "must be less than max_tokens.")
		return nil
	case budget*100 <= most*lowShare:
		return []byte("low")
	case budget*100 <= most*mediumShare:
		return []byte("medium")
	}
	return []byte("high")
}

// output writes the schema of the answer.
func (r *reader) output() {
	o := r.doc.TopIndex(TopOutput)
	format, path := int32(-1), "output_config.format"
	if r.isObject(o) {
		format = r.member(o, OutputFormat)
		r.strange(o)
	}
	if i := r.doc.TopIndex(TopFormat); format < 0 && r.isObject(i) {
		format, path = i, "output_format"
	}
	r.f.format = path
	if format < 0 {
		return
	}
	if string(r.text(r.member(format, FormatType))) != "json_schema" || !r.isObject(r.member(format, FormatSchema)) {
		r.no(path, "must have the type json_schema and a schema.")
		return
	}
	r.b = append(r.b, `,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`...)
	r.b = append(append(r.b, r.raw(r.member(format, FormatSchema))...), "}}"...)
}

// thoughts writes the model's earlier thoughts: as text for servers that read it so,
// and one by one with their signatures.
func (r *reader) thoughts(blocks []int32) {
	texts := 0
	for _, b := range blocks {
		r.strange(b)
		if text := r.text(r.member(b, BlockThinking)); len(text) > 0 {
			if texts == 0 {
				r.b = append(r.b, `,"reasoning_content":"`...)
			}
			texts++
			r.b = append(r.b, text...)
		}
	}
	if texts > 0 {
		r.b = append(r.b, '"')
	}
	details := 0
	for _, b := range blocks {
		r.detail(b, &details)
	}
	if details > 0 {
		r.b = append(r.b, ']')
	}
}

// detail writes one thought with its signature, or the entry that was sealed in it.
func (r *reader) detail(b int32, n *int) {
	open := func() {
		if *n == 0 {
			r.b = append(r.b, `,"reasoning_details":[`...)
		} else {
			r.b = append(r.b, ',')
		}
		*n++
	}
	signature, data := r.text(r.member(b, BlockSignature)), r.text(r.member(b, BlockData))
	for _, sealed := range [][]byte{signature, data} {
		if !bytes.HasPrefix(sealed, []byte(Seal)) {
			continue
		}
		entry, ok := unseal(sealed)
		if !ok {
			r.no(r.doc.Path(b), "its signature is not one of this service's.")
			return
		}
		open()
		r.b = append(r.b, entry...)
		return
	}
	index := strconv.Itoa(*n)
	switch {
	case len(data) > 0:
		open()
		r.b = append(append(r.b, `{"type":"reasoning.encrypted","data":"`...), data...)
	case len(signature) > 0:
		open()
		r.b = append(append(r.b, `{"type":"reasoning.text","text":`...), or(r.raw(r.member(b, BlockThinking)), `""`)...)
		r.b = append(append(r.b, `,"signature":"`...), signature...)
	default:
		return // it was sent as text
	}
	r.b = append(r.b, `","format":"`+dialect.AnthropicThoughts+`","index":`...)
	r.b = append(append(r.b, index...), '}')
}
