package strict

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

func (c *check) textBlock(path string, b gjson.Result, where string) {
	c.members(path, b, "type!", "text!", "cache_control", "citations")
	c.text(path+".text", b.Get("text"), 0)
	switch text := b.Get("text").Str; {
	case text == "":
		c.no("%s: text content blocks must be non-empty", where)
	case strings.TrimSpace(text) == "":
		c.no("%s: text content blocks must contain non-whitespace text", where)
	}
	c.cache(path+".cache_control", b.Get("cache_control"))
}

func (c *check) tools(asked gjson.Result) {
	list, names := asked.Get("tools"), map[string]bool{}
	if list.Exists() && !list.IsArray() {
		c.no("tools: Input should be a valid list")
	}
	for i, t := range list.Array() {
		path := "tools." + strconv.Itoa(i) + ".custom"
		c.members(path, t, "type", "name!", "description", "input_schema!", "cache_control", "strict",
			"eager_input_streaming", "input_examples", "defer_loading", "allowed_callers")
		if v := t.Get("type"); v.Exists() && v.Type != gjson.Null && v.Str != "custom" {
			c.no("tools.%d: Input tag '%s' found using 'type' does not match any of the expected tags", i, v.Str)
		}
		if name := t.Get("name").Str; !toolName.MatchString(name) {
			c.no("%s.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", path)
		} else if names[name] {
			c.no("tools: Tool names must be unique.")
		} else {
			names[name] = true
		}
		c.text(path+".description", t.Get("description"), 0)
		c.flag(path+".strict", t.Get("strict"))
		schema := t.Get("input_schema")
		if !schema.IsObject() {
			c.no("%s.input_schema: Input should be an object", path)
		}
		if schema.Get("type").Str != "object" {
			c.no("%s.input_schema.type: Field required", path)
		}
		c.cache(path+".cache_control", t.Get("cache_control"))
	}
	choice := asked.Get("tool_choice")
	if !choice.Exists() {
		return
	}
	if len(list.Array()) == 0 {
		c.no("tool_choice: may only be specified while providing tools")
	}
	switch kind := choice.Get("type").Str; kind {
	case "auto", "any":
		c.members("tool_choice", choice, "type!", "disable_parallel_tool_use")
	case "none":
		c.members("tool_choice", choice, "type!")
	case "tool":
		c.members("tool_choice", choice, "type!", "name!", "disable_parallel_tool_use")
		if !names[choice.Get("name").Str] {
			c.no("tool_choice: Tool '%s' not found in provided tools", choice.Get("name").Str)
		}
	default:
		c.no("tool_choice: Input tag '%s' found using 'type' does not match any of the expected tags: 'auto', 'any', "+
			"'tool', 'none'", kind)
	}
	c.flag("tool_choice.disable_parallel_tool_use", choice.Get("disable_parallel_tool_use"))
	if forced(asked) && c.model.noForcedTool {
		c.no(`tool_choice: type "tool" and "any" are not supported for this model.`)
	}
}

func forced(asked gjson.Result) bool {
	kind := asked.Get("tool_choice.type").Str
	return kind == "any" || kind == "tool"
}

func (c *check) messages(asked gjson.Result) {
	list := asked.Get("messages").Array()
	if !asked.Get("messages").IsArray() {
		c.no("messages: Input should be a valid list")
	}
	if len(list) == 0 {
		c.no("messages: at least one message is required")
		return
	}
	calls := map[string]bool{} // ids of all calls so far
	var open []string          // calls of the turn before, to be answered now
	role := ""
	for i, m := range list {
		path := "messages." + strconv.Itoa(i)
		c.members(path, m, "role!", "content!")
		switch now := m.Get("role").Str; {
		case now == "system" && i > 0 && strings.Contains(c.betas, "mid-conversation-"):
			c.content(path, m, now, calls, nil, i, false)
			continue // the turns around it go on
		case now == "system":
			c.no(`messages: Unexpected role "system". The Messages API accepts a top-level "system" parameter, not "system" as an input message role.`)
		case now != "user" && now != "assistant":
			c.no("%s.role: Input should be 'user' or 'assistant'", path)
		case i == 0 && now != "user":
			c.no(`messages: first message must use the "user" role`)
		case now == role:
			// The server joins them; a translation that leaves two in a row is
			// careless with turns, and older versions refused it.
			c.no(`messages: roles must alternate between "user" and "assistant", but found multiple %q roles in a row`,
				now)
		default:
			role = now
		}
		open = c.content(path, m, role, calls, open, i, i == len(list)-1)
	}
	if len(open) > 0 {
		c.no("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each "+
			"`tool_use` block must have a corresponding `tool_result` block in the next message.", len(list)-1,
			strings.Join(open, ", "))
	}
	if role == "assistant" {
		if c.model.noPrefill {
			c.no("This model does not support assistant message prefill. The conversation must end with a user " +
				"message.")
		}
		last := list[len(list)-1].Get("content")
		text := last.Str
		if blocks := last.Array(); last.IsArray() && len(blocks) > 0 {
			text = blocks[len(blocks)-1].Get("text").Str
		}
		if text != strings.TrimRight(text, " \t\r\n") {
			c.no("messages: final assistant content cannot end with trailing whitespace")
		}
	}
}

// content checks the blocks of one turn and returns the calls it leaves open.
func (c *check) content(path string, m gjson.Result, role string, calls map[string]bool, open []string, index int,
	last bool) []string {
	content := m.Get("content")
	if content.Type == gjson.String {
		if content.Str == "" && !(last && role == "assistant") {
			c.no("%s: all messages must have non-empty content except for the optional final assistant message", path)
		} else if strings.TrimSpace(content.Str) == "" {
			c.no("messages: text content blocks must contain non-whitespace text")
		}
	} else if !content.IsArray() {
		c.no("%s.content: Input should be a valid string or list", path)
	} else if len(content.Array()) == 0 {
		c.no("%s: all messages must have non-empty content except for the optional final assistant message", path)
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
		if role == "system" && kind != "text" && !(changes && strings.Contains(c.betas, "mid-conversation-tool-changes-2026-07-01")) {
			c.no("%s.type: Input should be 'text'", at)
		}
		if user := role == "user"; user && slices.Contains([]string{"tool_use", "thinking", "redacted_thinking"},
			kind) ||
			!user && slices.Contains([]string{"tool_result", "image", "document", "search_result"}, kind) {
			c.no("%s: `%s` blocks can only be in `%s` messages", path, kind,
				map[bool]string{true: "assistant", false: "user"}[user])
		}
		switch kind {
		case "text":
			c.textBlock(at, b, "messages")
			others = true
		case "image":
			c.members(at, b, "type!", "source!", "cache_control")
			c.source(at+".image.source", b.Get("source"), "image/jpeg", "image/png", "image/gif", "image/webp")
			c.cache(at+".cache_control", b.Get("cache_control"))
			others = true
		case "document":
			c.members(at, b, "type!", "source!", "cache_control", "title", "context", "citations")
			c.source(at+".document.source", b.Get("source"), "application/pdf")
			c.text(at+".title", b.Get("title"), 1)
			c.cache(at+".cache_control", b.Get("cache_control"))
			others = true
		case "search_result":
			c.members(at, b, "type!", "source!", "title!", "content!", "cache_control", "citations")
			for k, part := range b.Get("content").Array() {
				c.textBlock(at+".content."+strconv.Itoa(k), part, "messages")
			}
			c.cache(at+".cache_control", b.Get("cache_control"))
			others = true
		case "tool_addition", "tool_removal":
			c.members(at, b, "type!", "tool!")
			c.members(at+".tool", b.Get("tool"), "type!", "name!")
			if role != "system" {
				c.no("%s.type: may stand in a message of the system only", at)
			}
		case "tool_use":
			c.members(at+".tool_use", b, "type!", "id!", "name!", "input!", "cache_control", "caller")
			id := b.Get("id").Str
			if !toolID.MatchString(id) {
				c.no("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", at)
			}
			if calls[id] {
				c.no("messages: `tool_use` ids must be unique")
			}
			calls[id] = true
			made = append(made, id)
			if name := b.Get("name").Str; name == "" || len(name) > 200 {
				c.no("%s.tool_use.name: String should have at least 1 character", at)
			}
			if !b.Get("input").IsObject() {
				c.no("%s.tool_use.input: Input should be a valid dictionary", at)
			}
			c.cache(at+".cache_control", b.Get("cache_control"))
		case "tool_result":
			id := b.Get("tool_use_id").Str
			c.result(at, b)
			if !slices.Contains(open, id) {
				c.no("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must "+
					"have a corresponding `tool_use` block in the previous message.", at, id)
			}
			if answered[id] {
				c.no("%s: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", at,
					id)
			}
			if others {
				c.no("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
					"Each `tool_use` block must have a corresponding `tool_result` block in the next message.", index-1,
					id)
			}
			answered[id] = true
		case "thinking":
			c.members(at, b, "type!", "thinking!", "signature!")
			if b.Get("signature").Str == "" {
				c.no("%s: Invalid `signature` in `thinking` block", at)
			}
			if b.Get("thinking").Type != gjson.String {
				c.no("%s.thinking.thinking: Input should be a valid string", at)
			}
		case "redacted_thinking":
			c.members(at, b, "type!", "data!")
			if b.Get("data").Str == "" {
				c.no("%s: Invalid `data` in `redacted_thinking` block", at)
			}
		default:
			c.no("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'document', "+
				"'image', 'redacted_thinking', 'search_result', 'text', 'thinking', 'tool_result', 'tool_use'", at,
				kind)
		}
	}
	for _, id := range open {
		if !answered[id] {
			c.no("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each "+
				"`tool_use` block must have a corresponding `tool_result` block in the next message.", index-1, id)
		}
	}
	return made
}

func (c *check) result(at string, b gjson.Result) {
	c.members(at+".tool_result", b, "type!", "tool_use_id!", "content", "is_error", "cache_control")
	if !toolID.MatchString(b.Get("tool_use_id").Str) {
		c.no("%s.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'", at)
	}
	c.flag(at+".tool_result.is_error", b.Get("is_error"))
	c.cache(at+".cache_control", b.Get("cache_control"))
	content := b.Get("content")
	if content.Exists() && content.Type != gjson.String && !content.IsArray() {
		c.no("%s.tool_result.content: Input should be a valid string or list", at)
	}
	if content.Type == gjson.String {
		return
	}
	for i, part := range content.Array() {
		path := at + ".tool_result.content." + strconv.Itoa(i)
		switch kind := part.Get("type").Str; kind {
		case "text":
			c.textBlock(path, part, "messages")
		case "tool_reference":
			c.members(path, part, "type!", "tool_name!", "cache_control")
		case "image":
			c.members(path, part, "type!", "source!", "cache_control")
			c.source(path+".image.source", part.Get("source"), "image/jpeg", "image/png", "image/gif", "image/webp")
		case "document":
			c.members(path, part, "type!", "source!", "title", "context", "citations")
			c.source(path+".document.source", part.Get("source"), "application/pdf")
		default:
			c.no("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'document', "+
				"'image', 'search_result', 'text'", path, kind)
		}
	}
}

func (c *check) source(path string, v gjson.Result, media ...string) {
	switch kind := v.Get("type").Str; kind {
	case "base64":
		c.members(path+".base64", v, "type!", "media_type!", "data!")
		if !slices.Contains(media, v.Get("media_type").Str) {
			c.no("%s.base64.media_type: Input should be '%s'", path, strings.Join(media, "', '"))
		}
		if data := v.Get("data").Str; !base64ed.MatchString(data) || len(data)%4 != 0 {
			c.no("%s.base64.data: Invalid base64 data", path)
		}
	case "url":
		c.members(path+".url", v, "type!", "url!")
		if url := v.Get("url").Str; !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
			c.no("%s.url.url: Only HTTPS URLs are supported.", path)
		}
	case "text":
		c.members(path+".text", v, "type!", "media_type!", "data!")
		if v.Get("media_type").Str != "text/plain" || media[0] != "application/pdf" {
			c.no("%s.text.media_type: Input should be 'text/plain'", path)
		}
		c.text(path+".text.data", v.Get("data"), 1)
	default:
		c.no("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'base64', 'url'", path,
			kind)
	}
}
