package messages

import (
	"strconv"
	"strings"
)

// turn is the source of one message of the chat body.
type turn struct {
	field int32 // the client's message, block or system prompt
	parts int32 // where its parts begin in Form.parts
	calls int32 // …and, less one, its calls; 0 if absent
	whole bool  // its content is the text of one block
}

// tops are the names that top members of a chat body have in the client's.
var tops = map[string]string{
	"max_completion_tokens": "max_tokens", "stop": "stop_sequences", "user": "metadata.user_id",
	"parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}

// Path is dialect.Form's.
func (f *Form) Path(chat string) string {
	head, rest, _ := strings.Cut(chat, ".")
	switch head {
	case "messages":
		return f.messagePath(chat, rest)
	case "tools":
		number, member, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(number); err == nil && n >= 0 && n < len(f.tools) {
			path := f.doc.Path(f.tools[n])
			switch member = strings.TrimPrefix(member, "function."); member {
			case "", "function":
				return path
			case "parameters":
				member = "input_schema"
			}
			return path + "." + member
		}
	case "reasoning_effort", "reasoning":
		return f.effort
	case "response_format":
		return f.format
	}
	if own := tops[head]; own != "" {
		return own
	}
	return chat
}

// messagePath is the place of a message, or of a member of it.
func (f *Form) messagePath(chat, rest string) string {
	number, member, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(f.turns) {
		return chat
	}
	t := &f.turns[n]
	path := f.doc.Path(t.field)
	name, below, _ := strings.Cut(member, ".")
	switch {
	case name == "content" && t.whole && below == "":
		return f.blockPath(t.parts, "text", path)
	case name == "content" && below != "":
		number, inner, _ := strings.Cut(below, ".")
		if k, err := strconv.Atoi(number); err == nil && k >= 0 {
			return f.blockPath(t.parts+int32(k), inner, path)
		}
	case name == "tool_calls" && below != "" && t.calls > 0:
		number, inner, _ := strings.Cut(below, ".")
		if k, err := strconv.Atoi(number); err == nil && k >= 0 {
			return f.blockPath(t.calls-1+int32(k), inner, path)
		}
	case name == "content" && f.doc.Fields[t.field].Elem >= 0:
		return path + ".content"
	case name == "tool_call_id":
		return path + ".tool_use_id"
	}
	return path
}

// blockPath is the place of a member of a block.
func (f *Form) blockPath(part int32, inner, otherwise string) string {
	if part < 0 || int(part) >= len(f.parts) {
		return otherwise
	}
	path := f.doc.Path(f.parts[part])
	head, _, _ := strings.Cut(inner, ".")
	switch head {
	case "text", "type", "cache_control", "id":
		return path + "." + inner
	case "image_url", "file":
		return path + ".source"
	case "function":
		if strings.HasSuffix(inner, ".arguments") {
			return path + ".input"
		}
		return path + ".name"
	}
	return path
}
