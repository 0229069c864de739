package strict

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

func (s *check) textBlock(path string, b gjson.Result, where string) {
	s.members(path, b, "type!", "text!", "cache_control", "citations")
	s.text(path+".text", b.Get("text"), 0)
	switch text := b.Get("text").Str; {
	case text == "":
		s.no("%s: text content blocks must be non-empty", where)
	case strings.TrimSpace(text) == "":
		s.no("%s: text content blocks must contain non-whitespace text", where)
	}
	s.cache(path+".cache_control", b.Get("cache_control"))
}

func (s *check) tools(asked gjson.Result) {
	list, names := asked.Get("tools"), map[string]bool{}
	if list.Exists() && !list.IsArray() {
		s.no("tools: Input should be a valid list")
	}
	for i, t := range list.Array() {
		path := "tools." + strconv.Itoa(i) + ".custom"
		s.members(path, t, "type", "name!", "description", "input_schema!", "cache_control", "strict",
			"eager_input_streaming", "input_examples", "defer_loading", "allowed_callers")
		if v := t.Get("type"); v.Exists() && v.Type != gjson.Null && v.Str != "custom" {
			s.no("tools.%d: Input tag '%s' found using 'type' does not match any of the expected tags", i, v.Str)
		}
		if name := t.Get("name").Str; !toolName.MatchString(name) {
			s.no("%s.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", path)
		} else if names[name] {
			s.no("tools: Tool names must be unique.")
		} else {
			names[name] = true
		}
		s.text(path+".description", t.Get("description"), 0)
		s.flag(path+".strict", t.Get("strict"))
		schema := t.Get("input_schema")
		if !schema.IsObject() {
			s.no("%s.input_schema: Input should be an object", path)
		}
		if schema.Get("type").Str != "object" {
			s.no("%s.input_schema.type: Field required", path)
		}
		s.cache(path+".cache_control", t.Get("cache_control"))
	}
	choice := asked.Get("tool_choice")
	if !choice.Exists() {
		return
	}
	if len(list.Array()) == 0 {
		s.no("tool_choice: may only be specified while providing tools")
	}
	switch kind := choice.Get("type").Str; kind {
	case "auto", "any":
		s.members("tool_choice", choice, "type!", "disable_parallel_tool_use")
	case "none":
		s.members("tool_choice", choice, "type!")
	case "tool":
		s.members("tool_choice", choice, "type!", "name!", "disable_parallel_tool_use")
		if !names[choice.Get("name").Str] {
			s.no("tool_choice: Tool '%s' not found in provided tools", choice.Get("name").Str)
		}
	default:
		s.no("tool_choice: Input tag '%s' found using 'type' does not match any of the expected tags: 'auto', 'any', "+
			"'tool', 'none'", kind)
	}
	s.flag("tool_choice.disable_parallel_tool_use", choice.Get("disable_parallel_tool_use"))
	if forced(asked) && s.model.noForcedTool {
		s.no(`tool_choice: type "tool" and "any" are not supported for this model.`)
	}
}

func forced(asked gjson.Result) bool {
	kind := asked.Get("tool_choice.type").Str
	return kind == "any" || kind == "tool"
}

func (s *check) messages(asked gjson.Result) {
	list := asked.Get("messages").Array()
	if !asked.Get("messages").IsArray() {
		s.no("messages: Input should be a valid list")
	}
	if len(list) == 0 {
		s.no("messages: at least one message is required")
		return
	}
	calls := map[string]bool{} // ids of all calls so far
	var open []string          // calls of the turn before, to be answered now
	role := ""
	for i, m := range list {
		path := "messages." + strconv.Itoa(i)
		s.members(path, m, "role!", "content!")
		switch now := m.Get("role").Str; {
		case now == "system" && i > 0 && strings.Contains(s.betas, "mid-conversation-"):
			s.content(path, m, now, calls, nil, i, false)
			continue // the turns around it go on
		case now == "system":
			s.no(`messages: Unexpected role "system". The Messages API accepts a top-level "system" parameter, not "system" as an input message role.`)
		case now != "user" && now != "assistant":
			s.no("%s.role: Input should be 'user' or 'assistant'", path)
		case i == 0 && now != "user":
			s.no(`messages: first message must use the "user" role`)
		case now == role:
			// The server joins them; a translation that leaves two in a row is
			// careless with turns, and older versions refused it.
			s.no(`messages: roles must alternate between "user" and "assistant", but found multiple %q roles in a row`,
				now)
		default:
			role = now
		}
		open = s.content(path, m, role, calls, open, i, i == len(list)-1)
	}
	if len(open) > 0 {
		s.no("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each "+
			"`tool_use` block must have a corresponding `tool_result` block in the next message.", len(list)-1,
			strings.Join(open, ", "))
	}
	if role == "assistant" {
		if s.model.noPrefill {
			s.no("This model does not support assistant message prefill. The conversation must end with a user " +
				"message.")
		}
		last := list[len(list)-1].Get("content")
		text := last.Str
		if blocks := last.Array(); last.IsArray() && len(blocks) > 0 {
			text = blocks[len(blocks)-1].Get("text").Str
		}
		if text != strings.TrimRight(text, " \t\r\n") {
			s.no("messages: final assistant content cannot end with trailing whitespace")
		}
	}
}

// content checks the blocks of one turn and returns the calls it leaves open.
func (s *check) content(path string, m gjson.Result, role string, calls map[string]bool, open []string, index int,
	last bool) []string {
	content := m.Get("content")
	if content.Type == gjson.String {
		if content.Str == "" && !(last && role == "assistant") {
			s.no("%s: all messages must have non-empty content except for the optional final assistant message", path)
		} else if strings.TrimSpace(content.Str) == "" {
			s.no("messages: text content blocks must contain non-whitespace text")
		}
	} else if !content.IsArray() {
		s.no("%s.content: Input should be a valid string or list", path)
	} else if len(content.Array()) == 0 {
		s.no("%s: all messages must have non-empty content except for the optional final assistant message", path)
	}
	var made []string
	others := false
	answered := map[string]bool{}
	for i, b := range content.Array() {
		if content.Type == gjson.String {
			break
		}
		at := path + ".content." + strconv.Itoa(i)
		kind := b.Get("type").Str
		changes := kind == "tool_addition" || kind == "tool_removal"
		if role == "system" && kind != "text" && !(changes && strings.Contains(s.betas, "mid-conversation-tool-changes-2026-07-01")) {
			s.no("%s.type: Input should be 'text'", at)
		}
		if user := role == "user"; user && slices.Contains([]string{"tool_use", "thinking", "redacted_thinking"},
			kind) ||
			!user && slices.Contains([]string{"tool_result", "image", "document", "search_result"}, kind) {
			s.no("%s: `%s` blocks can only be in `%s` messages", path, kind,
				map[bool]string{true: "assistant", false: "user"}[user])
		}
		switch kind {
		case "text":
			s.textBlock(at, b, "messages")
			others = true
		case "image":
			s.members(at, b, "type!", "source!", "cache_control")
			s.source(at+".image.source", b.Get("source"), "image/jpeg", "image/png", "image/gif", "image/webp")
			s.cache(at+".cache_control", b.Get("cache_control"))
			others = true
		case "document":
			s.members(at, b, "type!", "source!", "cache_control", "title", "context", "citations")
			s.source(at+".document.source", b.Get("source"), "application/pdf")
			s.text(at+".title", b.Get("title"), 1)
			s.cache(at+".cache_control", b.Get("cache_control"))
			others = true
		case "search_result":
			s.members(at, b, "type!", "source!", "title!", "content!", "cache_control", "citations")
			for k, part := range b.Get("content").Array() {
				s.textBlock(at+".content."+strconv.Itoa(k), part, "messages")
			}
			s.cache(at+".cache_control", b.Get("cache_control"))
			others = true
		case "tool_addition", "tool_removal":
			s.members(at, b, "type!", "tool!")
			s.members(at+".tool", b.Get("tool"), "type!", "name!")
			if role != "system" {
				s.no("%s.type: may stand in a message of the system only", at)
			}
		case "tool_use":
			s.members(at+".tool_use", b, "type!", "id!", "name!", "input!", "cache_control", "caller")
			id := b.Get("id").Str
			if !toolID.MatchString(id) {
				s.no("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", at)
			}
			if calls[id] {
				s.no("messages: `tool_use` ids must be unique")
			}
			calls[id] = true
			made = append(made, id)
			if name := b.Get("name").Str; name == "" || len(name) > 200 {
				s.no("%s.tool_use.name: String should have at least 1 character", at)
			}
			if !b.Get("input").IsObject() {
				s.no("%s.tool_use.input: Input should be a valid dictionary", at)
			}
			s.cache(at+".cache_control", b.Get("cache_control"))
		case "tool_result":
			id := b.Get("tool_use_id").Str
			s.result(at, b)
			if !slices.Contains(open, id) {
				s.no("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must "+
					"have a corresponding `tool_use` block in the previous message.", at, id)
			}
			if answered[id] {
				s.no("%s: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", at,
					id)
			}
			if others {
				s.no("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
					"Each `tool_use` block must have a corresponding `tool_result` block in the next message.", index-1,
					id)
			}
			answered[id] = true
		case "thinking":
			s.members(at, b, "type!", "thinking!", "signature!")
			if b.Get("signature").Str == "" {
				s.no("%s: Invalid `signature` in `thinking` block", at)
			}
			if b.Get("thinking").Type != gjson.String {
				s.no("%s.thinking.thinking: Input should be a valid string", at)
			}
		case "redacted_thinking":
			s.members(at, b, "type!", "data!")
			if b.Get("data").Str == "" {
				s.no("%s: Invalid `data` in `redacted_thinking` block", at)
			}
		default:
			s.no("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'document', "+
				"'image', 'redacted_thinking', 'search_result', 'text', 'thinking', 'tool_result', 'tool_use'", at,
				kind)
		}
	}
	for _, id := range open {
		if !answered[id] {
			s.no("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each "+
				"`tool_use` block must have a corresponding `tool_result` block in the next message.", index-1, id)
		}
	}
	return made
}

func (s *check) result(at string, b gjson.Result) {
	s.members(at+".tool_result", b, "type!", "tool_use_id!", "content", "is_error", "cache_control")
	if !toolID.MatchString(b.Get("tool_use_id").Str) {
		s.no("%s.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'", at)
	}
	s.flag(at+".tool_result.is_error", b.Get("is_error"))
	s.cache(at+".cache_control", b.Get("cache_control"))
	content := b.Get("content")
	if content.Exists() && content.Type != gjson.String && !content.IsArray() {
		s.no("%s.tool_result.content: Input should be a valid string or list", at)
	}
	if content.Type == gjson.String {
		return
	}
	for i, part := range content.Array() {
		path := at + ".tool_result.content." + strconv.Itoa(i)
		switch kind := part.Get("type").Str; kind {
		case "text":
			s.textBlock(path, part, "messages")
		case "tool_reference":
			s.members(path, part, "type!", "tool_name!", "cache_control")
		case "image":
			s.members(path, part, "type!", "source!", "cache_control")
			s.source(path+".image.source", part.Get("source"), "image/jpeg", "image/png", "image/gif", "image/webp")
		case "document":
			s.members(path, part, "type!", "source!", "title", "context", "citations")
			s.source(path+".document.source", part.Get("source"), "application/pdf")
		default:
			s.no("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'document', "+
				"'image', 'search_result', 'text'", path, kind)
		}
	}
}

func (s *check) source(path string, v gjson.Result, media ...string) {
	switch kind := v.Get("type").Str; kind {
	case "base64":
		s.members(path+".base64", v, "type!", "media_type!", "data!")
		if !slices.Contains(media, v.Get("media_type").Str) {
			s.no("%s.base64.media_type: Input should be '%s'", path, strings.Join(media, "', '"))
		}
		if data := v.Get("data").Str; !base64ed.MatchString(data) || len(data)%4 != 0 {
			s.no("%s.base64.data: Invalid base64 data", path)
		}
	case "url":
		s.members(path+".url", v, "type!", "url!")
		if url := v.Get("url").Str; !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
			s.no("%s.url.url: Only HTTPS URLs are supported.", path)
		}
	case "text":
		s.members(path+".text", v, "type!", "media_type!", "data!")
		if v.Get("media_type").Str != "text/plain" || media[0] != "application/pdf" {
			s.no("%s.text.media_type: Input should be 'text/plain'", path)
		}
		s.text(path+".text.data", v.Get("data"), 1)
	default:
		s.no("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'base64', 'url'", path,
			kind)
	}
}
