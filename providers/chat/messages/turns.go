package messages

import (
	"bytes"
	"slices"

	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// messages writes the conversation, the system prompt first.
func (r *reader) messages() {
	r.b = append(r.b, `,"messages":[`...)
	if i := r.doc.TopIndex(TopSystem); r.raw(i) != nil {
		r.system(i)
	}
	r.each(r.doc.TopIndex(TopMessages), func(m int32) {
		content := r.member(m, MessageContent)
		r.strange(m)
		switch role := r.text(r.member(m, MessageRole)); string(role) {
		case "user":
			r.user(m, content)
		case "assistant":
			r.assistant(m, content)
		case "system":
			r.f.instructed = true
			r.instruction(m, content)
		}
	})
	r.b = append(r.b, ']')
}

// instruction writes a message of the system's. It may have changes of the tools
// besides its texts.
func (r *reader) instruction(m, content int32) {
	texts, changes := []int32(nil), 0
	r.each(content, func(b int32) {
		switch kind := string(r.text(r.member(b, BlockType))); kind {
		case "text":
			texts = append(texts, b)
		case "tool_addition", "tool_removal":
			changes++
			r.change(b, kind == "tool_addition")
		default:
			r.no(r.doc.Path(b)+".type", "only text is allowed here.")
		}
	})
	if changes > 0 && len(texts) == 0 {
		return
	}
	r.turn(m, "system")
	r.content(content, texts)
	r.b = append(r.b, '}')
}

// change adds a tool that waits among the tools, or takes one away. A tool that is defined
// here is refused in the words on which Claude Code defines it among the tools.
func (r *reader) change(b int32, adds bool) {
	tool := r.member(b, BlockChange)
	name := r.text(r.member(tool, ChangeName))
	switch {
	case r.member(tool, ChangeDefinition) >= 0:
		r.no(r.doc.Path(tool)+".definition", "tools cannot yet be defined in a message.")
	case len(name) == 0:
		r.no(r.doc.Path(b)+".tool", "must have the name of a tool.")
	}
	r.show(name, adds)
}

// show notes that a tool is shown to the model from now on, or not any more.
func (r *reader) show(name []byte, shown bool) {
	if r.shown == nil {
		r.shown = map[string]bool{}
	}
	r.shown[string(name)] = shown
}

// turn begins a message; field is the client's member that it was made of.
func (r *reader) turn(field int32, role string) {
	if r.turns > 0 {
		r.b = append(r.b, ',')
	}
	r.turns++
	r.f.turns = append(r.f.turns, turn{field: field, parts: int32(len(r.f.parts))})
	r.b = append(append(append(r.b, `{"role":"`...), role...), '"')
}

// part notes which block the next part of the message, or its next call, is made of.
func (r *reader) part(block int32) { r.f.parts = append(r.f.parts, block) }

func (r *reader) system(i int32) {
	if r.doc.Fields[i].Kind == scan.String && len(r.text(i)) == 0 || r.isArray(i) && r.doc.Fields[i].Len == 0 {
		return
	}
	texts := slices.DeleteFunc(r.texts(i), func(b int32) bool {
		if !bytes.HasPrefix(r.text(r.member(b, BlockText)), []byte(billing)) {
			return false
		}
		r.f.left.Add("x-anthropic-billing-header")
		return true
	})
	if r.isArray(i) && len(texts) == 0 {
		return
	}
	r.turn(i, "system")
	r.content(i, texts)
	r.b = append(r.b, '}')
}

// billing begins a block of Claude Code's that is not a prompt. It names the version and
// changes with it, which other makers' caches of prompts do not forgive.
const billing = "x-anthropic-billing-header:"

// texts are the blocks of a content that may hold text only.
func (r *reader) texts(content int32) (blocks []int32) {
	r.each(content, func(b int32) {
		if string(r.text(r.member(b, BlockType))) != "text" {
			r.no(r.doc.Path(b)+".type", "only text is allowed here.")
			return
		}
		blocks = append(blocks, b)
	})
	return blocks
}

// content writes a message's content: a string where it is one, or one text without
// a mark, else parts.
func (r *reader) content(field int32, blocks []int32) {
	if field >= 0 && r.doc.Fields[field].Kind == scan.String {
		r.b = append(append(r.b, `,"content":`...), r.raw(field)...)
		return
	}
	if len(blocks) == 1 {
		if text := r.plainText(blocks[0]); text != nil {
			r.part(blocks[0])
			r.f.turns[len(r.f.turns)-1].whole = true
			r.b = append(append(r.b, `,"content":`...), text...)
			return
		}
	}
	r.b = append(r.b, `,"content":[`...)
	for n, b := range blocks {
		if n > 0 {
			r.b = append(r.b, ',')
		}
		r.part(b)
		r.block(b)
	}
	r.b = append(r.b, ']')
}

// plainText is the text of a block that has nothing else; nil: it has.
func (r *reader) plainText(b int32) []byte {
	r.strange(b)
	if string(r.text(r.member(b, BlockType))) != "text" || r.member(b, BlockCache) >= 0 {
		return nil
	}
	r.cites(b)
	if i := r.member(b, BlockText); r.text(i) != nil {
		return r.raw(i)
	}
	return nil
}

// user writes results of tools as messages of their own, and the rest of the user's message
// behind them.
func (r *reader) user(m, content int32) {
	if content < 0 || r.doc.Fields[content].Kind == scan.String {
		r.turn(m, "user")
		r.content(content, nil)
		r.b = append(r.b, '}')
		return
	}
	var rest []int32
	r.each(content, func(b int32) {
		switch kind := string(r.text(r.member(b, BlockType))); kind {
		case "tool_result":
			r.result(b)
		case "text", "image", "document", "search_result":
			rest = append(rest, b)
		case "thinking", "redacted_thinking", "tool_use", "server_tool_use", "web_search_tool_result":
			r.no(r.doc.Path(b)+".type", "only a message of the assistant may have %s.", kind)
		default:
			r.strangeBlock(b, kind)
			rest = append(rest, b)
		}
	})
	if len(rest) > 0 || r.doc.Fields[content].Len == 0 {
		r.turn(m, "user")
		r.content(content, rest)
		r.b = append(r.b, '}')
	}
}

// result writes one tool_result, with its pictures and documents as parts.
func (r *reader) result(b int32) {
	r.strange(b)
	r.turn(b, "tool")
	r.put("tool_call_id", r.raw(r.member(b, BlockCall)))
	content := r.member(b, BlockContent)
	failed := r.isTrue(r.member(b, BlockError))
	var parts []int32
	r.each(content, func(p int32) {
		switch kind := string(r.text(r.member(p, BlockType))); kind {
		case "text", "image", "document":
		case "tool_reference":
			name := r.text(r.member(p, BlockTool))
			if _, named := r.shown[string(name)]; !named {
				r.show(name, true)
			}
		default:
			r.strangeBlock(p, kind)
		}
		parts = append(parts, p)
	})
	r.b = append(r.b, `,"content":`...)
	switch {
	case content >= 0 && r.doc.Fields[content].Kind == scan.String:
		r.said(r.raw(content), failed)
	case len(parts) == 0:
		r.said([]byte(`""`), failed)
	case len(parts) == 1 && r.member(parts[0], BlockCache) < 0 && r.text(r.member(parts[0], BlockText)) != nil:
		r.part(parts[0])
		r.f.turns[len(r.f.turns)-1].whole = true
		r.said(r.raw(r.member(parts[0], BlockText)), failed)
	default:
		r.resultParts(parts, failed)
	}
	r.cache(b)
	r.b = append(r.b, '}')
}

// failure precedes the text of a result that is an error: chat completions have
// no other word for it.
const failure = "Error: "

// said writes a text of a tool.
func (r *reader) said(raw []byte, failed bool) {
	if !failed || bytes.HasPrefix(raw[1:], []byte(failure)) {
		r.b = append(r.b, raw...)
		return
	}
	r.b = append(append(append(r.b, '"'), failure...), raw[1:]...)
}

// resultParts writes the parts of a result. The first text says that it is an error.
func (r *reader) resultParts(parts []int32, failed bool) {
	r.b = append(r.b, '[')
	for i, p := range parts {
		if i > 0 {
			r.b = append(r.b, ',')
		}
		r.part(p)
		text := r.member(p, BlockText)
		if !failed || r.text(text) == nil {
			r.block(p)
			continue
		}
		failed = false
		r.b = append(r.b, `{"type":"text","text":`...)
		r.said(r.raw(text), true)
		r.cache(p)
		r.b = append(r.b, '}')
	}
	if failed {
		r.part(parts[0])
		r.b = append(r.b, `,{"type":"text","text":"`+failure+`"}`...)
	}
	r.b = append(r.b, ']')
}

// assistant writes thoughts, texts and calls.
func (r *reader) assistant(m, content int32) {
	r.turn(m, "assistant")
	defer func() { r.b = append(r.b, '}') }()
	if !r.isArray(content) {
		r.content(content, nil)
		return
	}
	var texts, calls, thoughts []int32
	r.each(content, func(b int32) {
		switch kind := string(r.text(r.member(b, BlockType))); kind {
		case "text":
			texts = append(texts, b)
		case "tool_use":
			calls = append(calls, b)
		case "thinking", "redacted_thinking":
			thoughts = append(thoughts, b)
		case "server_tool_use", "web_search_tool_result":
			r.searched(b, kind)
		case "image", "document", "tool_result":
			r.no(r.doc.Path(b)+".type", "only a message of the user may have %s.", kind)
		default:
			r.strangeBlock(b, kind)
			texts = append(texts, b)
		}
	})
	switch {
	case len(texts) > 0:
		r.content(content, texts)
	case len(calls) == 0:
		r.b = append(r.b, `,"content":""`...)
	default:
		r.b = append(r.b, `,"content":null`...)
	}
	r.thoughts(thoughts)
	r.calls(calls)
}

// searched takes the blocks of searches that were done for earlier answers. Their
// results are in the text behind them.
func (r *reader) searched(b int32, kind string) {
	id := r.text(r.member(b, BlockID))
	if kind == "web_search_tool_result" {
		id = r.text(r.member(b, BlockCall))
	}
	if !bytes.HasPrefix(id, []byte(SearchID)) {
		r.no(r.doc.Path(b)+".type", "%s of another service cannot be continued here.", kind)
	}
}

// calls writes the assistant's calls of tools.
func (r *reader) calls(blocks []int32) {
	mark := int32(-1)
	r.f.turns[len(r.f.turns)-1].calls = int32(len(r.f.parts)) + 1
	for n, b := range blocks {
		if n == 0 {
			r.b = append(r.b, `,"tool_calls":[`...)
		} else {
			r.b = append(r.b, ',')
		}
		r.strange(b)
		r.part(b)
		r.b = append(r.b, `{"id":`...)
		r.b = append(r.b, or(r.raw(r.member(b, BlockID)), `""`)...)
		r.b = append(r.b, `,"type":"function","function":{"name":`...)
		r.b = append(r.b, or(r.raw(r.member(b, BlockName)), `""`)...)
		r.b = append(r.b, `,"arguments":"`...)
		r.b = jsontext.AppendEscaped(r.b, or(r.raw(r.member(b, BlockInput)), "{}"))
		r.b = append(r.b, `"}}`...)
		if r.member(b, BlockCache) >= 0 {
			mark = b
		}
	}
	if len(blocks) > 0 {
		r.b = append(r.b, ']')
	}
	if mark >= 0 {
		r.cache(mark)
	}
}

func or(raw []byte, otherwise string) []byte {
	if raw == nil {
		return []byte(otherwise)
	}
	return raw
}
