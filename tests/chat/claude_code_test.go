package chat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/tests/oracles/messagestest"
	"farebox/tests/rig"
)

// claudeNextBetas are those of its version 2.1.332, which asks for updates of its thoughts.
const claudeNextBetas = "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27," +
	"mid-conversation-tool-changes-2026-07-01,thinking-token-count-2026-05-13,advanced-tool-use-2025-11-20," +
	"effort-2025-11-24,thinking-display-updates-2026-08-18"

// claudeBetas is the header that Claude Code 2.1.197 sends.
const claudeBetas = "claude-code-20250219,interleaved-thinking-2025-05-14,thinking-token-count-2026-05-13," +
	"context-management-2025-06-27,prompt-caching-scope-2026-01-05,mid-conversation-system-2026-04-07,effort-2025-11-24"

// claudeCode is a session of Claude Code 2.1: its requests, for each question that it asks.
type claudeCode struct {
	g          *rig.Gateway
	key, model string
	thinking   string // and its companion members, by the model's name
	messages   []string
}

// The members of a request, as Claude Code writes them for a name that it does not know,
// for one that it knows to think by budget, and where it shows its thoughts.
const (
	claudeNew  = `"max_tokens":32000,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},`
	claudeOld  = `"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":31999},`
	claudeNext = `"max_tokens":32000,"thinking":{"type":"adaptive","display":"updates"},"output_config":{"effort":"high"},`
)

const claudeMark = `,"cache_control":{"type":"ephemeral"}`

// body marks the last message alone for caching.
func (c *claudeCode) body() string {
	for i := range len(c.messages) - 1 {
		c.messages[i] = strings.ReplaceAll(c.messages[i], claudeMark, "")
	}
	return `{"model":"` + c.model + `","messages":[` + strings.Join(c.messages, ",") + `],` +
		`"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.197.a1; cc_entrypoint=cli;"},` +
		`{"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}},` +
		`{"type":"text","text":"Use the tools.","cache_control":{"type":"ephemeral"}}],` +
		`"tools":[{"name":"Bash","description":"Runs a command.","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema",` +
		`"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"number"}},"required":["command"],"additionalProperties":false}},` +
		`{"name":"Read","description":"Reads a file.","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema",` +
		`"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"],"additionalProperties":false}}],` +
		`"metadata":{"user_id":"{\"device_id\":\"` + strings.Repeat("d", 64) + `\",\"account_uuid\":\"\",\"session_id\":\"8c5b6b0e-0000-4000-8000-000000000000\"}"},` +
		c.thinking + `"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"stream":true}`
}

// ask sends the conversation and takes the answer into it, as it came.
func (c *claudeCode) ask(t *testing.T) (answer gjson.Result, header http.Header) {
	t.Helper()
	status, header, events, err := rig.Try(rig.Client, c.g.URL+"/messages?beta=true", c.key, c.body(), "anthropic-version", "2023-06-01",
		"anthropic-beta", map[bool]string{true: claudeNextBetas, false: claudeBetas}[c.thinking == claudeNext], "x-app", "cli", "user-agent", "claude-cli/2.1.197 (external, cli)")
	if err != nil || status != 200 {
		t.Fatalf("%s is answered %d %s: %v", c.model, status, events, err)
	}
	m, failed, err := messagestest.Order(events)
	if err != nil || failed {
		t.Fatalf("%s: failed %v, %v\n%s", c.model, failed, err, events)
	}
	param, err := json.Marshal(m.ToParam())
	if err != nil {
		t.Fatal(err)
	}
	c.messages = append(c.messages, string(param))
	return gjson.GetBytes(param, "content"), header
}

// blockKinds are the kinds of a content's blocks.
func blockKinds(content gjson.Result) (kinds []string) {
	for _, b := range content.Array() {
		kinds = append(kinds, b.Get("type").Str)
	}
	return kinds
}

// Claude Code asks, has two tools called one after the other, one of which fails, and prints the
// answer; then it asks on. Every upstream accepts its requests, and the strict simulator of each
// dialect finds no fault in them.
func TestClaudeCodeWorksOverEveryDialect(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g := rig.StartGateway(t, fmt.Sprintf(messagesConfig, strings.TrimSuffix(sim.URL, "/v1"))+`
  - { <<: *model, id: newest, targets: [{ upstream: anthropic, model: claude-opus-4-8 }] }
  - { <<: *model, id: sonnet, targets: [{ upstream: anthropic, model: claude-sonnet-4-5 }] }
  - { <<: *model, id: roomy, max_completion_tokens: 8000, targets: [{ upstream: anthropic, model: claude-sonnet-4-5 }] }
  - { <<: *model, id: older, targets: [{ upstream: google, model: gemini-2.5-flash }] }
  - { <<: *model, id: plain, capabilities: { tools: true }, targets: [{ upstream: openai, model: gpt-4.1 }] }
  - { <<: *model, id: slight, capabilities: { tools: true, reasoning: true, reasoning_effort: [low] }, targets: [{ upstream: openai, model: gpt-5 }] }
`)
	g.NewAccount("a", "100")
	key := g.Key("a")
	const billing = "x-anthropic-billing-header"
	for _, s := range []struct{ model, thinking, left string }{
		{"own", claudeOld, "max_tokens, thinking.budget_tokens"},
		{"own", claudeNew, "max_tokens, thinking"}, // there is no room for a budget
		{"newest", claudeNew, "max_tokens"},
		{"newest", claudeOld, "max_tokens, thinking.budget_tokens"},
		{"newest", claudeNext, "max_tokens"},
		{"openai", claudeNext, billing + ", max_tokens"},
		{"google", claudeNext, billing + ", max_tokens"},
		{"sonnet", claudeNext, "max_tokens, output_config.effort, thinking"},
		{"sonnet", claudeNew, "max_tokens, output_config.effort, thinking"},
		{"roomy", claudeNew, "max_tokens, output_config.effort"},
		{"newest:strip_thinking_response=true", claudeNew, billing + ", max_tokens"},
		{"openai", claudeNew, billing + ", max_tokens"},
		{"openai", claudeOld, billing + ", max_tokens"},
		{"google", claudeNew, billing + ", max_tokens"},
		{"google", claudeOld, billing + ", max_tokens"},
		{"older", claudeNew, billing + ", max_tokens"},
		{"plain", claudeNew, billing + ", max_tokens, thinking"},
		{"slight", claudeNew, billing + ", max_tokens, output_config.effort"},
	} {
		most := "2000"
		if s.model == "roomy" {
			most = "8000"
		}
		playClaudeCode(t, &claudeCode{g: g, key: key, model: s.model, thinking: s.thinking}, s.left, most)
	}
	for outcome, tally := range sim.Idle(t).Outcomes {
		if outcome == upstream.Refused && tally.Requests > 0 {
			t.Errorf("upstreams refused %d requests", tally.Requests)
		}
	}
}

// The clouds that sell Anthropic's models refuse features that they do not know, and are
// not known to take a message of the system's in the middle.
func TestClaudeCodeWorksOverClouds(t *testing.T) {
	t.Parallel()
	sim := startClouds(t)
	const claude = `
  - { id: %[1]s, context_tokens: 100000, max_completion_tokens: 2000, tier: M, price: { input: 1, output: 2 },
      capabilities: { tools: true, reasoning: true, reasoning_effort: [low, high] }, targets: [{ upstream: %[2]s, model: %[3]s }] }`
	g := rig.StartGateway(t, sim.config(fmt.Sprintf(claude, "vertex-opus", "vertex-claude", "claude-opus-4-8@20260101")+
		fmt.Sprintf(claude, "bedrock-opus", "bedrock-claude", "anthropic.claude-opus-4-8")+"\n"))
	g.NewAccount("a", "100")
	key := g.Key("a")
	const billing = "x-anthropic-billing-header"
	for _, s := range []struct{ model, thinking, left, most string }{
		{"vertex-opus", claudeOld, "max_tokens, thinking.budget_tokens, anthropic-beta", "2000"},
		{"vertex-opus", claudeNew, billing + ", max_tokens", "2000"},
		{"bedrock-opus", claudeOld, "max_tokens, thinking.budget_tokens, anthropic-beta", "2000"},
		{"vertex-opus", claudeNext, billing + ", max_tokens", "2000"},
		{"bedrock-opus", claudeNew, billing + ", max_tokens", "2000"},
		{"azure", claudeNew, billing + ", max_tokens, thinking", "1000"},
		{"bedrock", claudeNew, billing + ", max_tokens, thinking", "1000"},
		{"vertex", claudeNew, billing + ", max_tokens, thinking", "1000"},
	} {
		playClaudeCode(t, &claudeCode{g: g, key: key, model: s.model, thinking: s.thinking}, s.left, s.most)
	}
}

// playClaudeCode asks, has two tools called one after the other, reads the answer and asks on. left
// is the list of dropped members in every answer, most the cap that was sent.
func playClaudeCode(t *testing.T, c *claudeCode, left, most string) {
	t.Helper()
	c.messages = []string{`{"role":"user","content":[{"type":"text","text":"<system-reminder>\nToday.\n</system-reminder>"},` +
		`{"type":"text","text":"What is in it? [[sim tool=Read rounds=2 tokens=24 reasoning=6]]","cache_control":{"type":"ephemeral"}}]}`}
	if c.thinking != claudeOld {
		c.messages = append(c.messages, `{"role":"system","content":"The user's name is not known."}`)
	}
	for round := range 3 {
		content, header := c.ask(t)
		kinds := blockKinds(content)
		if got := header.Get("X-Svc-Left-Out"); got != left || header.Get("X-Svc-Max-Completion-Tokens") != most {
			t.Errorf("%s: %q is left out, want %q; %v", c.model, got, left, header)
		}
		want := "tool_use"
		if round == 2 {
			want = "text"
		}
		if last := kinds[len(kinds)-1]; last != want {
			t.Fatalf("%s: round %d ends with %s: %v", c.model, round, last, kinds)
		}
		if at := slices.Index(kinds, "text"); at >= 0 && slices.ContainsFunc(kinds[at:], func(kind string) bool { return strings.Contains(kind, "thinking") }) {
			t.Errorf("%s: a thought follows the text: %v", c.model, kinds)
		}
		if want == "text" {
			continue
		}
		call := content.Array()[len(kinds)-1]
		if call.Get("name").Str != "Read" || call.Get("input.file_path").Type != gjson.String {
			t.Fatalf("%s calls %s", c.model, call.Raw)
		}
		result := `"content":[{"type":"text","text":"     1\tpackage main"}]`
		if round == 1 {
			result = `"is_error":true,"content":"<tool_use_error>File does not exist.</tool_use_error>"`
		}
		c.messages = append(c.messages, `{"role":"user","content":[{"tool_use_id":`+call.Get("id").Raw+`,"type":"tool_result",`+result+
			`,"cache_control":{"type":"ephemeral"}}]}`)
	}
	c.messages = append(c.messages, `{"role":"user","content":[{"type":"text","text":"And now? [[sim tokens=5]]"}]}`)
	c.ask(t)
}
