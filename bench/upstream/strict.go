package upstream

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// A Messages request is judged here as the public documentation of that API
// says, with the texts that the real server answers: what a gateway translates
// must pass here before it meets customers. Model names decide which
// generation's rules hold (claude.go); a name of no generation takes whatever
// any of them takes.

var (
	toolID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	base64ed = regexp.MustCompile(`^[A-Za-z0-9+/]+={0,2}$`)
)

const (
	maxCacheControls = 4
	leastBudget      = 1024
)

// strict collects the first fault of one request.
type strict struct {
	model  generation
	fault  string
	cached int
}

// messagesFault is why the real server would refuse a Messages request with
// 400; empty: it would not.
func messagesFault(asked gjson.Result) string {
	s := &strict{model: generationOf(asked.Get("model").Str)}
	s.request(asked)
	return s.fault
}

func (s *strict) no(format string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf(format, args...)
	}
}

// members refuses what an object may not have and misses what it must have;
// required names end in an exclamation mark.
func (s *strict) members(path string, o gjson.Result, names ...string) {
	if !o.IsObject() {
		s.no("%s: Input should be an object", path)
		return
	}
	seen := map[string]bool{}
	o.ForEach(func(key, _ gjson.Result) bool {
		seen[key.Str] = true
		if !slices.Contains(names, key.Str) && !slices.Contains(names, key.Str+"!") {
			s.no("%s: Extra inputs are not permitted", under(path, key.Str))
		}
		return true
	})
	for _, name := range names {
		if bare, required := strings.CutSuffix(name, "!"); required && !seen[bare] {
			s.no("%s: Field required", under(path, bare))
		}
	}
}

func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (s *strict) text(path string, v gjson.Result, least int) {
	switch {
	case !v.Exists():
	case v.Type != gjson.String:
		s.no("%s: Input should be a valid string", path)
	case len(v.Str) < least:
		s.no("%s: String should have at least %d character", path, least)
	}
}

func (s *strict) flag(path string, v gjson.Result) {
	if v.Exists() && !v.IsBool() {
		s.no("%s: Input should be a valid boolean", path)
	}
}

func (s *strict) number(path string, v gjson.Result, least, most float64, whole bool) {
	switch {
	case !v.Exists():
	case v.Type != gjson.Number:
		s.no("%s: Input should be a valid number", path)
	case whole && v.Num != float64(int64(v.Num)):
		s.no("%s: Input should be a valid integer", path)
	case v.Num < least:
		s.no("%s: Input should be greater than or equal to %v", path, least)
	case v.Num > most:
		s.no("%s: Input should be less than or equal to %v", path, most)
	}
}

func (s *strict) request(asked gjson.Result) {
	s.members("", asked, "model!", "max_tokens!", "messages!", "system", "metadata", "stop_sequences", "stream", "temperature", "top_p", "top_k",
		"tools", "tool_choice", "thinking", "output_config", "service_tier", "cache_control", "container", "context_management", "mcp_servers", "inference_geo")
	s.text("model", asked.Get("model"), 1)
	s.number("max_tokens", asked.Get("max_tokens"), 1, 1<<31, true)
	if most := s.model.maxTokens; most > 0 && asked.Get("max_tokens").Int() > most {
		s.no("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s", asked.Get("max_tokens").Int(), most, asked.Get("model").Str)
	}
	s.flag("stream", asked.Get("stream"))
	s.number("temperature", asked.Get("temperature"), 0, 1, false)
	s.number("top_p", asked.Get("top_p"), 0, 1, false)
	s.number("top_k", asked.Get("top_k"), 0, 1<<31, true)
	if v := asked.Get("service_tier"); v.Exists() && v.Str != "auto" && v.Str != "standard_only" {
		s.no("service_tier: Input should be 'auto' or 'standard_only'")
	}
	if v := asked.Get("metadata"); v.Exists() {
		s.members("metadata", v, "user_id")
		s.text("metadata.user_id", v.Get("user_id"), 0)
		if len(v.Get("user_id").Str) > 256 {
			s.no("metadata.user_id: String should have at most 256 characters")
		}
	}
	s.stops(asked.Get("stop_sequences"))
	s.cache("cache_control", asked.Get("cache_control"))
	s.system(asked.Get("system"))
	s.tools(asked)
	s.messages(asked)
	s.output(asked.Get("output_config"))
	s.thinking(asked)
	s.sampling(asked)
	if s.cached > maxCacheControls {
		s.no("A maximum of %d blocks with cache_control may be provided. Found %d.", maxCacheControls, s.cached)
	}
}

func (s *strict) stops(v gjson.Result) {
	if !v.Exists() {
		return
	}
	if !v.IsArray() {
		s.no("stop_sequences: Input should be a valid list")
	}
	for _, e := range v.Array() {
		switch {
		case e.Type != gjson.String:
			s.no("stop_sequences: Input should be a valid string")
		case e.Str == "":
			s.no("stop_sequences: each stop sequence must be non-empty")
		case strings.TrimSpace(e.Str) == "":
			s.no("stop_sequences: each stop sequence must contain non-whitespace")
		}
	}
}

func (s *strict) cache(path string, v gjson.Result) {
	if !v.Exists() || v.Type == gjson.Null {
		return
	}
	s.cached++
	s.members(path, v, "type!", "ttl")
	if v.Get("type").Str != "ephemeral" {
		s.no("%s.type: Input should be 'ephemeral'", path)
	}
	if ttl := v.Get("ttl"); ttl.Exists() && ttl.Str != "5m" && ttl.Str != "1h" {
		s.no("%s.ephemeral.ttl: Input should be '5m' or '1h'", path)
	}
}

func (s *strict) system(v gjson.Result) {
	switch {
	case !v.Exists(), v.Type == gjson.String:
	case v.IsArray():
		for i, b := range v.Array() {
			path := "system." + strconv.Itoa(i)
			if b.Get("type").Str != "text" {
				s.no("%s.type: Input should be 'text'", path)
			}
			s.textBlock(path, b, "system")
		}
	default:
		s.no("system: Input should be a valid string or list")
	}
}

func (s *strict) textBlock(path string, b gjson.Result, where string) {
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

func (s *strict) tools(asked gjson.Result) {
	list, names := asked.Get("tools"), map[string]bool{}
	if list.Exists() && !list.IsArray() {
		s.no("tools: Input should be a valid list")
	}
	for i, t := range list.Array() {
		path := "tools." + strconv.Itoa(i) + ".custom"
		s.members(path, t, "type", "name!", "description", "input_schema!", "cache_control", "strict", "eager_input_streaming", "input_examples", "defer_loading", "allowed_callers")
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
		s.no("tool_choice: Input tag '%s' found using 'type' does not match any of the expected tags: 'auto', 'any', 'tool', 'none'", kind)
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

func (s *strict) messages(asked gjson.Result) {
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
		case now == "system":
			s.no(`messages: Unexpected role "system". The Messages API accepts a top-level "system" parameter, not "system" as an input message role.`)
		case now != "user" && now != "assistant":
			s.no("%s.role: Input should be 'user' or 'assistant'", path)
		case i == 0 && now != "user":
			s.no(`messages: first message must use the "user" role`)
		case now == role:
			// The server joins them; a translation that leaves two in a row is
			// careless with turns, and older versions refused it.
			s.no(`messages: roles must alternate between "user" and "assistant", but found multiple %q roles in a row`, now)
		default:
			role = now
		}
		open = s.content(path, m, role, calls, open, i, i == len(list)-1)
	}
	if len(open) > 0 {
		s.no("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", len(list)-1, strings.Join(open, ", "))
	}
	if role == "assistant" {
		if s.model.noPrefill {
			s.no("This model does not support assistant message prefill. The conversation must end with a user message.")
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
func (s *strict) content(path string, m gjson.Result, role string, calls map[string]bool, open []string, index int, last bool) []string {
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
		if user := role == "user"; user && slices.Contains([]string{"tool_use", "thinking", "redacted_thinking"}, kind) ||
			!user && slices.Contains([]string{"tool_result", "image", "document"}, kind) {
			s.no("%s: `%s` blocks can only be in `%s` messages", path, kind, map[bool]string{true: "assistant", false: "user"}[user])
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
				s.no("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", at, id)
			}
			if answered[id] {
				s.no("%s: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", at, id)
			}
			if others {
				s.no("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", index-1, id)
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
			s.no("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'document', 'image', 'redacted_thinking', 'search_result', 'text', 'thinking', 'tool_result', 'tool_use'", at, kind)
		}
	}
	for _, id := range open {
		if !answered[id] {
			s.no("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", index-1, id)
		}
	}
	return made
}

func (s *strict) result(at string, b gjson.Result) {
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
		case "image":
			s.members(path, part, "type!", "source!", "cache_control")
			s.source(path+".image.source", part.Get("source"), "image/jpeg", "image/png", "image/gif", "image/webp")
		default:
			s.no("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'document', 'image', 'search_result', 'text'", path, kind)
		}
	}
}

func (s *strict) source(path string, v gjson.Result, media ...string) {
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
		s.no("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'base64', 'url'", path, kind)
	}
}

func (s *strict) output(v gjson.Result) {
	if !v.Exists() {
		return
	}
	s.members("output_config", v, "effort", "format", "task_budget")
	if e := v.Get("effort"); e.Exists() {
		switch {
		case !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, e.Str):
			s.no("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
		case len(s.model.efforts) == 0:
			s.no("This model does not support the effort parameter.")
		case !slices.Contains(s.model.efforts, e.Str):
			s.no("output_config.effort: '%s' is not supported for this model. Supported levels: %s.", e.Str, strings.Join(s.model.efforts, ", "))
		}
	}
	if f := v.Get("format"); f.Exists() {
		s.members("output_config.format", f, "type!", "schema!")
		if f.Get("type").Str != "json_schema" {
			s.no("output_config.format.type: Input should be 'json_schema'")
		}
		if s.model.noSchema {
			s.no("'%s' does not support output format.", s.model.name)
		}
		s.schema("output_config.format.schema", f.Get("schema"))
	}
}

// schema holds every object to what structured outputs demand of it.
func (s *strict) schema(path string, v gjson.Result) {
	if !v.IsObject() {
		return
	}
	if v.Get("type").Str == "object" && v.Get("additionalProperties").Type != gjson.False {
		s.no("%s: For 'object' type, 'additionalProperties' must be explicitly set to false", path)
	}
	v.Get("properties").ForEach(func(key, value gjson.Result) bool {
		s.schema(path+".properties."+key.Str, value)
		return true
	})
	s.schema(path+".items", v.Get("items"))
}

func (s *strict) thinking(asked gjson.Result) {
	v := asked.Get("thinking")
	if !v.Exists() {
		return
	}
	kind := v.Get("type").Str
	switch kind {
	case "enabled":
		s.members("thinking", v, "type!", "budget_tokens!", "display")
	case "adaptive":
		s.members("thinking", v, "type!", "display")
	case "disabled", "between_tools":
		s.members("thinking", v, "type!")
	default:
		s.no("thinking: Input tag '%s' found using 'type' does not match any of the expected tags: 'adaptive', 'between_tools', 'disabled', 'enabled'", kind)
		return
	}
	if d := v.Get("display"); d.Exists() && d.Str != "summarized" && d.Str != "omitted" {
		s.no("thinking.%s.display: Input should be 'summarized' or 'omitted'", kind)
	}
	if !slices.Contains(s.model.thinking, kind) {
		switch {
		case len(s.model.thinking) == 0:
			s.no("'%s' does not support thinking.", s.model.name)
		case kind == "enabled":
			s.no(`"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`)
		case kind == "adaptive":
			s.no("adaptive thinking is not supported on this model")
		default:
			s.no(`"thinking.type.%s" is not supported for this model.`, kind)
		}
	}
	if kind == "enabled" {
		budget := v.Get("budget_tokens")
		s.number("thinking.enabled.budget_tokens", budget, leastBudget, 1<<31, true)
		if budget.Int() >= asked.Get("max_tokens").Int() {
			s.no("`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size")
		}
		s.mustBeginWithThought(asked)
	}
	if kind == "disabled" || kind == "between_tools" {
		if e := asked.Get("output_config.effort").Str; e == "xhigh" || e == "max" {
			s.no("output_config.effort: '%s' requires thinking.", e)
		}
		return
	}
	if forced(asked) {
		s.no("Thinking may not be enabled when tool_choice forces tool use.")
	}
	if t := asked.Get("temperature"); t.Exists() && t.Num != 1 {
		s.no("`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#important-considerations-when-using-extended-thinking")
	}
	if asked.Get("top_k").Exists() {
		s.no("`top_k` must be unset when thinking is enabled. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#important-considerations-when-using-extended-thinking")
	}
	if p := asked.Get("top_p"); p.Exists() && p.Num < 0.95 {
		s.no("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.")
	}
	if list := asked.Get("messages").Array(); len(list) > 0 && list[len(list)-1].Get("role").Str == "assistant" {
		s.no("messages: assistant prefill is not supported when thinking is enabled")
	}
}

// mustBeginWithThought: with a budget, an assistant turn whose calls are being
// answered must give its thoughts back.
func (s *strict) mustBeginWithThought(asked gjson.Result) {
	list := asked.Get("messages").Array()
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Get("role").Str != "assistant" {
			continue
		}
		blocks := list[i].Get("content").Array()
		uses := slices.ContainsFunc(blocks, func(b gjson.Result) bool { return b.Get("type").Str == "tool_use" })
		if !uses {
			return
		}
		if kind := blocks[0].Get("type").Str; kind != "thinking" && kind != "redacted_thinking" {
			s.no("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).", i, kind)
		}
		return
	}
}

func (s *strict) sampling(asked gjson.Result) {
	t, p := asked.Get("temperature"), asked.Get("top_p")
	if s.model.noSampling {
		for _, name := range []string{"temperature", "top_p", "top_k"} {
			if v := asked.Get(name); v.Exists() && !(name != "top_k" && v.Num == 1) {
				s.no("`%s` is deprecated for this model.", name)
			}
		}
	}
	if s.model.oneSampler && t.Exists() && p.Exists() {
		s.no("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
	}
}
