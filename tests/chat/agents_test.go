package chat

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Parts of a request that a translation drops are named in a header and counted; an upstream that
// speaks the client's format gets all of them.
func TestLeftOutIsReported(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g, key := startMessages(t, sim.URL)
	const all = `{"type":"clear_thinking_20251015","keep":"all"}`
	for _, stream := range []string{"", `"stream":true,`} {
		for model, want := range map[string]string{"own": "", "openai": "context_management", "google": "context_management"} {
			for edits, want := range map[string]string{all: "", all + `,{"type":"clear_tool_uses_20250919"}`: want} {
				status, header, answer, err := rig.Try(rig.Client, g.URL+"/messages", key, `{"model":"`+model+`","max_tokens":20,`+stream+
					`"messages":[{"role":"user","content":"hi"}],"context_management":{"edits":[`+edits+`]}}`, "anthropic-beta", claudeBetas)
				if got := header.Get("X-Svc-Left-Out"); status != 200 || got != want || err != nil {
					t.Errorf("%s %s is answered %d %s\nand has %q, want %q", model, edits, status, answer, got, want)
				}
				if sent := string(sim.Latest(t).Body); strings.Contains(sent, edits) != (model == "own") {
					t.Errorf("%s was sent %s", model, sent)
				}
			}
		}
	}
	for _, stream := range []string{"", `"stream":true,`} {
		body := `{"model":"openai","max_tokens":20,` + stream + `"messages":[{"role":"user","content":"hi"}],"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}}`
		for _, replayed := range []string{"", "true"} {
			_, header, answer := g.WithKey("/messages", key, fmt.Sprint("once-", len(stream)), body)
			if header.Get("X-Svc-Left-Out") != "context_management" || header.Get("Idempotent-Replayed") != replayed {
				t.Errorf("given again %q: %v %s", replayed, header, answer)
			}
		}
	}
	if n, _ := g.Metric(`farebox_left_out_total{name="context_management"}`); n != 6 {
		t.Errorf("%v were counted, want 6", n)
	}
}

// Features that cost nothing reach Anthropic; the header names those that others do not support. A
// JSON object without a schema is asked for in words there.
func TestOmittedFeaturesAreReported(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g, key := startMessages(t, sim.URL)
	f := func(path, betas, body, left string) {
		t.Helper()
		status, header, answer, err := rig.Try(rig.Client, g.URL+path, key, body, "anthropic-beta", betas)
		if got := header.Get("X-Svc-Left-Out"); err != nil || status != 200 || got != left {
			t.Errorf("%s is answered %d %s and reports %q, want %q: %v", body, status, answer, got, left, err)
		}
	}
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	f("/messages", claudeBetas, `{"model":"own","max_tokens":20,`+hi+`}`, "")
	for _, beta := range strings.Split(claudeBetas, ",") {
		if head := sim.Latest(t).Head; !strings.Contains(head, beta) {
			t.Errorf("%s did not arrive in %s", beta, head)
		}
	}
	f("/messages", "context-1m-2025-08-07", `{"model":"own","max_tokens":20,`+hi+`}`, "anthropic-beta")
	if head := sim.Latest(t).Head; strings.Contains(strings.ToLower(head), "anthropic-beta") {
		t.Errorf("the head that arrived is %s", head)
	}
	f("/chat/completions", "", `{"model":"own",`+hi+`,"response_format":{"type":"json_object"}}`, "response_format")
	if sent := string(sim.Latest(t).Body); !strings.Contains(sent, "one JSON object") {
		t.Errorf("the model was asked %s", sent)
	}
	f("/chat/completions", "", `{"model":"google",`+hi+`,"response_format":{"type":"json_object"}}`, "")
}

// "Claude Code was answered 400 as soon as it was to search the web." The tool is left out
// and reported if the model has no search; a request that forces it is refused.
func TestMessagesGoOnWithoutAWebSearch(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g, key := startMessages(t, sim.URL)
	const (
		search = `{"type":"web_search_20250305","name":"web_search","max_uses":8,"allowed_domains":["example.com"]}`
		other  = `{"name":"f","input_schema":{"type":"object"}}`
		third  = `{"name":"g","input_schema":{"type":"object"}}`
	)
	for _, model := range []string{"own", "own:enable_web_search=off", "own:strip_thinking_response=true", "openai", "google"} {
		for _, c := range []struct {
			tools, choice string
			kept          string // of the names of tools
			status        int
		}{
			{search, "", "", 200}, {search + "," + search, `"auto"`, "", 200},
			{search + "," + other, "", "f", 200}, {other + "," + search + "," + third, `"any"`, "fg", 200},
			{other + "," + search, `"none"`, "f", 200}, {other + "," + search, `"tool","name":"f"`, "f", 200},
			{other + "," + search, `"tool","name":"web_search"`, "", 400}, {search, `"any"`, "", 400},
		} {
			body := `{"model":"` + model + `","max_tokens":20,"messages":[{"role":"user","content":"hi"}],"tools":[` + c.tools + `]`
			if c.choice != "" {
				body += `,"tool_choice":{"type":` + c.choice + `}`
			}
			status, header, answer := g.Post("/messages", key, body+"}")
			if left := header.Get("X-Svc-Left-Out"); status != c.status || status == 200 && !strings.Contains(left, "tools.web_search") {
				t.Errorf("%s is answered %d %s, left out are %q", body, status, answer, left)
			}
			if status != 200 {
				continue
			}
			sent := string(sim.Latest(t).Body)
			for _, name := range []string{"f", "g"} {
				if strings.Contains(sent, `"name":"`+name+`"`) != strings.Contains(c.kept, name) {
					t.Errorf("%s is sent as\n%s", body, sent)
				}
			}
			if strings.Contains(sent, "web_search") || c.kept == "" && strings.Contains(sent, "tool") {
				t.Errorf("%s is sent as\n%s", body, sent)
			}
		}
	}
	status, _, answer := g.Post("/messages/count_tokens", key, `{"model":"own","messages":[{"role":"user","content":"hi"}],"tools":[`+search+`]}`)
	if status != 200 || strings.Contains(string(sim.Latest(t).Body), "web_search") {
		t.Errorf("counting is answered %d %s", status, answer)
	}
	g.CLI("verify")
}

// A tool that is searched for reaches models of other makers when a result names it, or a
// message of the system's; Anthropic is sent all of them, and sees to that itself.
func TestToolsThatAreSearchedFor(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g, key := startMessages(t, sim.URL)
	const (
		ask   = `{"role":"user","content":"look"}`
		found = ask + `,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"ToolSearch","input":{"query":"mail"}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"tool_reference","tool_name":"mail_send"}]}]}`
		added = ask + `,{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_reference","name":"mail_send"}}]}`
		tools = `"tools":[{"name":"ToolSearch","input_schema":{"type":"object"}},{"name":"mail_send","description":"Sends.","defer_loading":true,` +
			`"input_schema":{"type":"object"}},{"name":"mail_drop","description":"Drops.","defer_loading":true,"input_schema":{"type":"object"}}]`
	)
	for _, model := range []string{"own", "openai", "google"} {
		for messages, want := range map[string]string{ask: "", found: "Sends.", added: "Sends."} {
			status, header, answer, err := rig.Try(rig.Client, g.URL+"/messages", key, `{"model":"`+model+`","max_tokens":20,`+tools+`,"messages":[`+messages+`]}`,
				"anthropic-beta", claudeNextBetas)
			if err != nil || status != 200 || header.Get("X-Svc-Left-Out") != "" {
				t.Fatalf("%s is answered %d %s %v", model, status, answer, header)
			}
			sent := string(sim.Latest(t).Body)
			if model == "own" {
				want = "Sends. Drops."
			}
			for _, text := range []string{"Sends.", "Drops."} {
				if strings.Contains(sent, text) != strings.Contains(want, text) {
					t.Errorf("%s was sent %s, want %q", model, sent, want)
				}
			}
		}
	}
}

// Claude Code compacts a conversation on one text alone, whatever the upstream said.
func TestPromptsThatAreTooLong(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g, key := startMessages(t, sim.URL)
	text := regexp.MustCompile(`^prompt is too long: (\d+) tokens > 128000 maximum$`)
	for _, model := range []string{"own", "own:strip_thinking_response=true", "openai", "google"} {
		for _, stream := range []string{"false", "true"} {
			status, _, answer := g.Post("/messages", key, `{"model":"`+model+`","max_tokens":20,"stream":`+stream+
				`,"messages":[{"role":"user","content":"hi [[sim status=400 kind=context]]"}]}`)
			e := gjson.GetBytes(answer, "error")
			said := text.FindStringSubmatch(e.Get("message").Str)
			if status != 400 || e.Get("type").Str != "invalid_request_error" || said == nil || len(said[1]) < 6 || said[1] <= "128000" {
				t.Errorf("%s, streamed %s: %d %s", model, stream, status, answer)
			}
		}
	}
}

// Gemini makes any number of tool calls at once. A client that allows one at a time gets the first,
// and pays for all generated tokens.
func TestGeminiCallsOneToolAtATime(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g, key := startMessages(t, sim.URL)
	const ask = `"messages":[{"role":"user","content":"look [[sim tool=all]]"}]`
	for _, single := range []bool{false, true} {
		want := map[bool]int{false: 3, true: 1}[single]
		for _, stream := range []string{"false", "true"} {
			var tools, functions []string
			for _, name := range []string{"a", "b", "c"} {
				tools = append(tools, `{"name":"`+name+`","input_schema":{"type":"object"}}`)
				functions = append(functions, `{"type":"function","function":{"name":"`+name+`"}}`)
			}
			_, _, answer := g.Post("/messages", key, fmt.Sprintf(`{"model":"google","max_tokens":500,"stream":%s,%s,"tools":[%s],`+
				`"tool_choice":{"type":"auto","disable_parallel_tool_use":%v}}`, stream, ask, strings.Join(tools, ","), single))
			if n := strings.Count(string(answer), `"type":"tool_use"`); n != want {
				t.Errorf("one at a time %v: %d calls in %s", single, n, answer)
			}
			before := sim.Idle(t).Tokens.CompletionTokens
			_, _, answer = g.Post("/chat/completions", key, fmt.Sprintf(`{"model":"google","stream":%s,%s,"tools":[%s],"parallel_tool_calls":%v}`,
				stream, ask, strings.Join(functions, ","), !single))
			if n := strings.Count(string(answer), `"type":"function"`); n != want || !strings.Contains(string(answer), `"finish_reason":"tool_calls"`) {
				t.Errorf("one at a time %v: %d calls in %s", single, n, answer)
			}
			if made := sim.Idle(t).Tokens.CompletionTokens - before; !strings.Contains(string(answer), fmt.Sprintf(`"completion_tokens":%d,`, made)) {
				t.Errorf("an answer of %d tokens reports %s", made, answer)
			}
		}
	}
}
