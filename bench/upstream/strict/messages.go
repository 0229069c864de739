package strict

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// A Messages request is judged here as the public documentation of that API says, with the
// texts that the real server answers: a gateway's translations must pass here before
// customers use them. Model names decide which generation's rules hold (claude.go); an
// unknown name takes the members of all of them.

var (
	toolID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	base64ed = regexp.MustCompile(`^[A-Za-z0-9+/]+={0,2}$`)
)

const (
	maxCacheControls = 4
	leastBudget      = 1024
)

// check collects the first fault of one request.
type check struct {
	model  generation
	betas  string // anthropic-beta
	fault  string
	cached int
}

// messagesFault is why the real server would refuse a Messages request with
// 400; empty: it would not.
func messagesFault(asked gjson.Result, betas string) string {
	s := &check{model: generationOf(asked.Get("model").Str), betas: betas}
	s.request(asked)
	return s.fault
}

// countFault is the same of a request to count tokens, which asks for no answer.
func countFault(asked gjson.Result, betas string) string {
	s := &check{model: generationOf(asked.Get("model").Str), betas: betas}
	s.members("", asked, "model!", "messages!", "system", "tools", "tool_choice", "thinking", "output_config",
		"cache_control", "context_management")
	if s.fault == "" {
		s.request(gjson.Parse(`{"max_tokens":64000,` + strings.TrimLeft(asked.Raw, " \t\r\n")[1:]))
	}
	return s.fault
}

func (c *check) no(format string, args ...any) {
	if c.fault == "" {
		c.fault = fmt.Sprintf(format, args...)
	}
}

// members refuses unknown members of an object and missing ones;
// required names end in an exclamation mark.
func (c *check) members(path string, o gjson.Result, names ...string) {
	if !o.IsObject() {
		c.no("%s: Input should be an object", path)
		return
	}
	seen := map[string]bool{}
	o.ForEach(func(key, _ gjson.Result) bool {
		seen[key.Str] = true
		if !slices.Contains(names, key.Str) && !slices.Contains(names, key.Str+"!") {
			c.no("%s: Extra inputs are not permitted", under(path, key.Str))
		}
		return true
	})
	for _, name := range names {
		if bare, required := strings.CutSuffix(name, "!"); required && !seen[bare] {
			c.no("%s: Field required", under(path, bare))
		}
	}
}

func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (c *check) text(path string, v gjson.Result, least int) {
	switch {
	case !v.Exists():
	case v.Type != gjson.String:
		c.no("%s: Input should be a valid string", path)
	case len(v.Str) < least:
		c.no("%s: String should have at least %d character", path, least)
	}
}

func (c *check) flag(path string, v gjson.Result) {
	if v.Exists() && !v.IsBool() {
		c.no("%s: Input should be a valid boolean", path)
	}
}

func (c *check) number(path string, v gjson.Result, least, most float64, whole bool) {
	switch {
	case !v.Exists():
	case v.Type != gjson.Number:
		c.no("%s: Input should be a valid number", path)
	case whole && v.Num != float64(int64(v.Num)):
		c.no("%s: Input should be a valid integer", path)
	case v.Num < least:
		c.no("%s: Input should be greater than or equal to %v", path, least)
	case v.Num > most:
		c.no("%s: Input should be less than or equal to %v", path, most)
	}
}

func (c *check) request(asked gjson.Result) {
	c.members("", asked, "model!", "max_tokens!", "messages!", "system", "metadata", "stop_sequences", "stream",
		"temperature", "top_p", "top_k",
		"tools", "tool_choice", "thinking", "output_config", "service_tier", "cache_control", "container",
		"context_management", "mcp_servers", "inference_geo")
	c.text("model", asked.Get("model"), 1)
	c.number("max_tokens", asked.Get("max_tokens"), 1, 1<<31, true)
	if most := c.model.maxTokens; most > 0 && asked.Get("max_tokens").Int() > most {
		c.no("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s",
			asked.Get("max_tokens").Int(), most, asked.Get("model").Str)
	}
	c.flag("stream", asked.Get("stream"))
	c.number("temperature", asked.Get("temperature"), 0, 1, false)
	c.number("top_p", asked.Get("top_p"), 0, 1, false)
	c.number("top_k", asked.Get("top_k"), 0, 1<<31, true)
	if v := asked.Get("service_tier"); v.Exists() && v.Str != "auto" && v.Str != "standard_only" {
		c.no("service_tier: Input should be 'auto' or 'standard_only'")
	}
	if v := asked.Get("metadata"); v.Exists() {
		c.members("metadata", v, "user_id")
		c.text("metadata.user_id", v.Get("user_id"), 0)
		if len(v.Get("user_id").Str) > 256 {
			c.no("metadata.user_id: String should have at most 256 characters")
		}
	}
	if asked.Get("context_management").Exists() && !strings.Contains(c.betas, "context-management-2025-06-27") {
		c.no("context_management: Extra inputs are not permitted")
	}
	c.stops(asked.Get("stop_sequences"))
	c.cache("cache_control", asked.Get("cache_control"))
	c.system(asked.Get("system"))
	c.tools(asked)
	c.messages(asked)
	c.output(asked.Get("output_config"))
	c.thinking(asked)
	c.sampling(asked)
	if c.cached > maxCacheControls {
		c.no("A maximum of %d blocks with cache_control may be provided. Found %d.", maxCacheControls, c.cached)
	}
}

func (c *check) stops(v gjson.Result) {
	if !v.Exists() {
		return
	}
	if !v.IsArray() {
		c.no("stop_sequences: Input should be a valid list")
	}
	for _, e := range v.Array() {
		switch {
		case e.Type != gjson.String:
			c.no("stop_sequences: Input should be a valid string")
		case e.Str == "":
			c.no("stop_sequences: each stop sequence must be non-empty")
		case strings.TrimSpace(e.Str) == "":
			c.no("stop_sequences: each stop sequence must contain non-whitespace")
		}
	}
}

func (c *check) cache(path string, v gjson.Result) {
	if !v.Exists() || v.Type == gjson.Null {
		return
	}
	c.cached++
	c.members(path, v, "type!", "ttl")
	if v.Get("type").Str != "ephemeral" {
		c.no("%s.type: Input should be 'ephemeral'", path)
	}
	if ttl := v.Get("ttl"); ttl.Exists() && ttl.Str != "5m" && ttl.Str != "1h" {
		c.no("%s.ephemeral.ttl: Input should be '5m' or '1h'", path)
	}
}

func (c *check) system(v gjson.Result) {
	switch {
	case !v.Exists(), v.Type == gjson.String:
	case v.IsArray():
		for i, b := range v.Array() {
			path := "system." + strconv.Itoa(i)
			if b.Get("type").Str != "text" {
				c.no("%s.type: Input should be 'text'", path)
			}
			c.textBlock(path, b, "system")
		}
	default:
		c.no("system: Input should be a valid string or list")
	}
}

func (c *check) output(v gjson.Result) {
	if !v.Exists() {
		return
	}
	c.members("output_config", v, "effort", "format", "task_budget")
	if e := v.Get("effort"); e.Exists() {
		switch {
		case !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, e.Str):
			c.no("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
		case len(c.model.efforts) == 0:
			c.no("This model does not support the effort parameter.")
		case !slices.Contains(c.model.efforts, e.Str):
			c.no("output_config.effort: '%s' is not supported for this model. Supported levels: %s.", e.Str,
				strings.Join(c.model.efforts, ", "))
		}
	}
	if f := v.Get("format"); f.Exists() {
		c.members("output_config.format", f, "type!", "schema!")
		if f.Get("type").Str != "json_schema" {
			c.no("output_config.format.type: Input should be 'json_schema'")
		}
		if c.model.noSchema {
			c.no("'%s' does not support output format.", c.model.name)
		}
		c.schema("output_config.format.schema", f.Get("schema"))
	}
}

// schema checks every object against the rules of structured outputs.
func (c *check) schema(path string, v gjson.Result) {
	if !v.IsObject() {
		return
	}
	if v.Get("type").Str == "object" && v.Get("additionalProperties").Type != gjson.False {
		c.no("%s: For 'object' type, 'additionalProperties' must be explicitly set to false", path)
	}
	v.Get("properties").ForEach(func(key, value gjson.Result) bool {
		c.schema(path+".properties."+key.Str, value)
		return true
	})
	c.schema(path+".items", v.Get("items"))
}

func (c *check) thinking(asked gjson.Result) {
	v := asked.Get("thinking")
	if !v.Exists() {
		return
	}
	kind := v.Get("type").Str
	switch kind {
	case "enabled":
		c.members("thinking", v, "type!", "budget_tokens!", "display")
	case "adaptive":
		c.members("thinking", v, "type!", "display")
	case "disabled", "between_tools":
		c.members("thinking", v, "type!")
	default:
		c.no("thinking: Input tag '%s' found using 'type' does not match any of the expected tags: 'adaptive', "+
			"'between_tools', 'disabled', 'enabled'", kind)
		return
	}
	if d := v.Get("display"); d.Exists() && d.Str != "summarized" && d.Str != "omitted" &&
		!(d.Str == "updates" && strings.Contains(c.betas, "thinking-display-updates-2026-08-18")) {
		c.no("thinking.%s.display: Input should be 'summarized' or 'omitted'", kind)
	}
	if !slices.Contains(c.model.thinking, kind) {
		switch {
		case len(c.model.thinking) == 0:
			c.no("'%s' does not support thinking.", c.model.name)
		case kind == "enabled":
			c.no(`"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`)
		case kind == "adaptive":
			c.no("adaptive thinking is not supported on this model")
		default:
			c.no(`"thinking.type.%s" is not supported for this model.`, kind)
		}
	}
	if kind == "enabled" {
		budget := v.Get("budget_tokens")
		c.number("thinking.enabled.budget_tokens", budget, leastBudget, 1<<31, true)
		if budget.Int() >= asked.Get("max_tokens").Int() {
			c.no("`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at " +
				"https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size")
		}
		c.mustBeginWithThought(asked)
	}
	if kind == "disabled" || kind == "between_tools" {
		if e := asked.Get("output_config.effort").Str; e == "xhigh" || e == "max" {
			c.no("output_config.effort: '%s' requires thinking.", e)
		}
		return
	}
	if forced(asked) {
		c.no("Thinking may not be enabled when tool_choice forces tool use.")
	}
	if t := asked.Get("temperature"); t.Exists() && t.Num != 1 {
		c.no("`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation at " +
			"https://docs.claude.com/en/docs/build-with-claude/extended-thinking#important-considerations-when-using-extended-thinking")
	}
	if asked.Get("top_k").Exists() {
		c.no("`top_k` must be unset when thinking is enabled. Please consult our documentation at " +
			"https://docs.claude.com/en/docs/build-with-claude/extended-thinking#important-considerations-when-using-extended-thinking")
	}
	if p := asked.Get("top_p"); p.Exists() && p.Num < 0.95 {
		c.no("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.")
	}
	if list := asked.Get("messages").Array(); len(list) > 0 && list[len(list)-1].Get("role").Str == "assistant" {
		c.no("messages: assistant prefill is not supported when thinking is enabled")
	}
}

// mustBeginWithThought: with a budget, an assistant turn whose calls are being
// answered must give its thoughts back.
func (c *check) mustBeginWithThought(asked gjson.Result) {
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
			c.no("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When "+
				"`thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the "+
				"lastmost set of `tool_use` and `tool_result` blocks).", i, kind)
		}
		return
	}
}

func (c *check) sampling(asked gjson.Result) {
	t, p := asked.Get("temperature"), asked.Get("top_p")
	if c.model.noSampling {
		for _, name := range []string{"temperature", "top_p", "top_k"} {
			if v := asked.Get(name); v.Exists() && !(name != "top_k" && v.Num == 1) {
				c.no("`%s` is deprecated for this model.", name)
			}
		}
	}
	if c.model.oneSampler && t.Exists() && p.Exists() {
		c.no("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
	}
}
