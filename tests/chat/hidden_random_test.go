package chat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// hiddenConfig has a model for each dialect and cloud.
const hiddenConfig = `
log: { level: error, format: json }
billing: { minimum_balance: 0 }
limits: { tiers: { M: { rpm: 1000000, tpm: 1000000000 } }, failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
compat: { openai_extras: true, accept_max_tokens: true }
upstreams:
  - { name: native, base_url: ROOT/v1, key: upstream-key, responses: true, breaker: { failures: 0 } }
  - { name: openai, base_url: ROOT/v1, key: upstream-key, breaker: { failures: 0 } }
  - { name: anthropic, dialect: anthropic, base_url: ROOT/v1, key: upstream-key, breaker: { failures: 0 } }
  - { name: google, dialect: gemini, base_url: ROOT/v1beta, key: upstream-key, breaker: { failures: 0 } }
  - { name: azure, dialect: azure, base_url: ROOT/azure, key: upstream-key, azure: { api_version: 2024-10-21 }, breaker: { failures: 0 } }
  - { name: bedrock, dialect: bedrock, base_url: ROOT/bedrock, key: upstream-key, breaker: { failures: 0 } }
  - { name: bedrock-claude, dialect: bedrock, base_url: ROOT/bedrock, breaker: { failures: 0 },
      aws: { region: us-east-1, api: anthropic, credentials_file: AWS } }
  - { name: vertex, dialect: vertex, base_url: ROOT/vertex, breaker: { failures: 0 },
      google: { project: simulated-project, key_file: KEY, token_url: ROOT/vertex/token } }
  - { name: vertex-claude, dialect: vertex, base_url: ROOT/vertex, breaker: { failures: 0 },
      google: { project: simulated-project, location: us-east5, publisher: anthropic, key_file: KEY, token_url: ROOT/vertex/token } }
models:
`

var hiddenModels = []string{"native", "openai", "anthropic", "google", "azure", "bedrock", "bedrock-claude", "vertex",
	"vertex-claude"}

// hiddenCap is the most tokens that an answer of these models has.
const hiddenCap = 1000

func startHidden(t *testing.T) (*clouds, *rig.Gateway, string) {
	t.Helper()
	c := startClouds(t)
	text := hiddenConfig
	for _, name := range hiddenModels {
		text += fmt.Sprintf("  - { id: %s, context_tokens: 100000, max_completion_tokens: %d, price: { input: 1, output: 2 },\n"+
			"      capabilities: { tools: true, vision: true, max_images: 4, files: true, audio: true, video: true, reasoning: true },\n"+
			"      targets: [{ upstream: %[1]s, model: some-%[1]s }] }\n", name, hiddenCap)
	}
	g := rig.StartGateway(t, strings.NewReplacer("ROOT", c.root, "TOKEN", c.tokenFile, "KEY", c.keyFile, "AWS", c.awsFile).
		Replace(text))
	g.NewAccount("a", "1000")
	return c, g, g.Key("a")
}

// honest are requests of each format with members that are priced or checked.
var honest = map[string]string{
	"/chat/completions": `{"model":"M","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"hi"},
		{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk=","detail":"low"}},
		{"type":"file","file":{"file_data":"data:application/pdf;base64,aGk=","filename":"f"}}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"x","arguments":"{\"a\":1}"}}]},
		{"role":"tool","tool_call_id":"c","content":"r"},{"role":"user","content":"go"}],"stream":STREAM,
		"max_completion_tokens":20,"n":1,"tools":[{"type":"function","function":{"name":"x","description":"d","parameters":{"type":"object"}}}],
		"tool_choice":{"type":"function","function":{"name":"x"}},"user":"u"}`,
	"/responses": `{"model":"M","instructions":"s","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"},
		{"type":"input_image","image_url":"data:image/png;base64,aGk="},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk=","detail":"low"}},
		{"type":"input_file","file_data":"data:application/pdf;base64,aGk=","filename":"f"}]},
		{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"gAAAAAsimx"},
		{"type":"function_call","id":"fc_1","call_id":"c","name":"x","arguments":"{}"},
		{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"r"}]},{"role":"user","content":"go"}],
		"stream":STREAM,"max_output_tokens":20,"store":false,"tools":[{"type":"function","name":"x","parameters":{"type":"object"}},
		{"type":"function","function":{"name":"y","parameters":{"type":"object"}}}],"tool_choice":{"type":"function","function":{"name":"x"}}}`,
	"/messages": `{"model":"M","max_tokens":20,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[
		{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},
		{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"aGk="}}]},
		{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"c","name":"x","input":{"a":1}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"r"}]},{"type":"text","text":"go"}]}],
		"stream":STREAM,"tools":[{"name":"x","description":"d","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"x"}}`,
}

// hideNames are members that some reader reads, and hideValues an attacker's values for them.
var (
	hideNames = strings.Fields(`type type type model stream n max_tokens max_completion_tokens max_output_tokens tools tool_choice
		name function custom image_url url file file_id file_url file_data input_audio data source content input role id
		encrypted_content cache_control ttl parameters input_schema store previous_response_id context_management
		conversation prompt container mcp_servers text detail summary output arguments allowed_tools fallbacks`)
	hideValues = strings.Fields(`"code_interpreter" "web_search" "mcp" "file_search" "function" "custom" "dear" true false 99999 7 null
		"http://169.254.169.254/" "data:image/png;base64,eHg=" "file-1" "rs_2" "gAAA" {} [] {"type":"mcp"} [{"type":"shell"}]
		{"name":"z","type":"image_generation"} {"url":"http://10.0.0.1/"} {"type":"file","file_id":"file-1"} "x"
		[{"type":"compaction"}] "1h" "item_reference" "reasoning" "input_file" "assistant" {"type":"item_reference","id":"m"}`)
)

// hider hides, in objects with a name, the kind of a tool that the upstream would run.
var hider = rig.Hider{Names: hideNames, Values: hideValues, Draw: func(r *rand.Rand, names []string) (name, value string) {
	if slices.Contains(names, "name") && r.IntN(2) == 0 {
		return "type", `"` + hostedTools[r.IntN(len(hostedTools))] + `"`
	}
	return "", ""
}}

// hidden is an honest request with some members repeated.
func hidden(r *rand.Rand, form, model string) string {
	stream := map[bool]string{true: "true", false: "false"}[r.IntN(2) == 0]
	return hider.JSON(r, strings.NewReplacer(`"M"`, `"`+model+`"`, "STREAM", stream).Replace(honest[form]))
}

// hide sends that many such requests, and fails where some reader behind the gateway reads a body
// differently from the priced and checked one.
func hide(t *testing.T, times uint64) {
	c, g, key := startHidden(t)
	source := rig.Seeded(t)
	forms := []string{"/chat/completions", "/responses", "/messages"}
	reached, differ := map[string]int{}, 0
	for n := range times {
		r := source(n)
		form, model := forms[r.IntN(len(forms))], hiddenModels[r.IntN(len(hiddenModels))]
		body := hidden(r, form, model)
		before := c.Stats().Requests
		status, head, answer := g.Post(form, key, body)
		if c.WaitIdle(rig.CallLimit); c.Stats().Requests == before {
			if status < 400 || status >= 500 {
				t.Errorf("%d: %s %s is answered %d %s", n, form, body, status, answer)
			}
			continue
		}
		reached[form+" "+model]++
		sent := c.Latest(t)
		if err := asPriced(&sent, body, model, status, head.Get("Content-Type")); err != nil {
			if differ++; differ <= 5 {
				t.Errorf("%d: %s %s arrived at %s as %s: %v", n, form, body, model, sent.Body, err)
			}
		}
	}
	if total := len(forms) * len(hiddenModels); differ > 0 || len(reached) < total*2/3 {
		t.Errorf("%d differences, reached %v", differ, reached)
	}
}

// asPriced reports how a reader's result differs from the priced body.
func asPriced(sent *upstream.Received, body, model string, status int, contentType string) error {
	b, err := readAlike(sent.Path, sent.Body)
	if err != nil {
		return err
	}
	streams := b.Stream == "true" || strings.Contains(sent.Path, "stream")
	switch cap, err := strconv.Atoi(strings.Join(b.Caps, " ")); {
	case err != nil || cap < 1 || cap > hiddenCap:
		return fmt.Errorf("the caps are %q", b.Caps)
	case b.Model != "" && b.Model != "some-"+model:
		return fmt.Errorf("the model is %q", b.Model)
	case status == 200 && streams != strings.HasPrefix(contentType, "text/event-stream"):
		return fmt.Errorf("it streams: %v, and the answer is %s", streams, contentType)
	case b.Choices != "" && b.Choices != "1" && !strings.Contains(body, `"n":`+b.Choices):
		return fmt.Errorf("there are %s choices", b.Choices)
	case slices.ContainsFunc(b.Media, func(link string) bool { return strings.HasPrefix(link, "http://1") }):
		return fmt.Errorf("a link leads to %q", b.Media)
	}
	return nil
}

// "I write a member twice, in other letters, or with escapes, deep in a body." Either it is
// refused, or every reader behind the gateway reads the priced values.
func TestEveryReaderReadsWhatWasPriced(t *testing.T) {
	t.Parallel()
	hide(t, uint64(servers.Campaign(1500)))
}
