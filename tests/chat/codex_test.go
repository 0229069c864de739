package chat

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// codexForms are the members that Codex CLI 0.169 sends beside input, by the name of its
// model: one that it does not know, one that it knows, and one of its lite models.
var codexForms = map[string]struct{ members, first string }{
	"unknown": {members: `"parallel_tool_calls":true,"reasoning":{"summary":"auto"},"tools":[
		{"type":"function","name":"exec_command","description":"Runs a command.","strict":false,"parameters":{"type":"object","properties":{"cmd":{"type":"string"}},"required":["cmd"],"additionalProperties":false}},
		{"type":"namespace","name":"multi_agent_v1","description":"Agents.","tools":[{"type":"function","name":"close_agent","description":"Closes.","strict":false,"parameters":{"type":"object","properties":{"target":{"type":"string"}}}}]},
		{"type":"namespace","name":"mcp__files","description":"Files.","tools":[{"type":"function","name":"read","description":"Reads.","strict":false,"parameters":{"type":"object","properties":{"path":{"type":"string"}}}}]},
		{"type":"web_search","external_web_access":true}]`},
	"known": {members: `"parallel_tool_calls":true,"reasoning":{"effort":"low"},"text":{"verbosity":"low"},"tools":[
		{"type":"function","name":"exec_command","description":"Runs a command.","strict":false,"parameters":{"type":"object","properties":{"cmd":{"type":"string"}}}},
		{"type":"custom","name":"apply_patch","description":"Patches.","format":{"type":"grammar","syntax":"lark","definition":"start: begin_patch hunk+ end_patch\nbegin_patch: \"*** Begin Patch\" LF"}},
		{"type":"tool_search","execution":"client","description":"Finds tools.","parameters":{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"number"}},"required":["query"],"additionalProperties":false}},
		{"type":"web_search","external_web_access":true,"search_content_types":["text","image"]}]`},
	"lite": {members: `"parallel_tool_calls":false,"reasoning":{"effort":"low","context":"all_turns"},"text":{"verbosity":"low"}`,
		first: `{"type":"additional_tools","id":"at_6f0f","role":"developer","tools":[
		{"type":"namespace","name":"functions","description":"","tools":[{"type":"custom","name":"exec","description":"Runs JavaScript.","format":{"type":"grammar","syntax":"lark","definition":"start: SOURCE"}},
			{"type":"function","name":"wait","description":"Waits.","strict":false,"parameters":{"type":"object","properties":{"cell_id":{"type":"string"}}}}]},
		{"type":"namespace","name":"collaboration","description":"Agents.","tools":[{"type":"function","name":"list_agents","description":"Lists.","strict":false,"parameters":{"type":"object","properties":{}}}]}]},`},
}

// codexItems are the items of a turn's stream as Codex reads them: those of
// response.output_item.done, before response.completed.
func codexItems(t *testing.T, answer []byte) (items []gjson.Result) {
	t.Helper()
	completed := false
	for event := range strings.SplitSeq(string(answer), "\n\n") {
		_, data, _ := strings.Cut(event, "data: ")
		switch e := gjson.Parse(data); e.Get("type").Str {
		case "response.output_item.done":
			items = append(items, e.Get("item"))
		case "response.completed":
			completed = e.Get("response.id").Str != "" && e.Get("response.usage.total_tokens").Int() > 0
		}
	}
	if !completed {
		t.Errorf("the turn does not complete: %s", answer)
	}
	return items
}

// Codex failed at its first request. Here it has whole turns over each dialect: the model
// calls a tool of every kind, gets the result and answers.
func TestCodexHasWholeTurns(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	for _, model := range []string{"openai", "anthropic", "google", "own"} {
		for _, c := range []struct{ form, tool, space, name, kind string }{
			{"unknown", "exec_command", "", "exec_command", "function_call"},
			{"unknown", "mcp__files__read", "mcp__files", "read", "function_call"},
			{"unknown", "multi_agent_v1__close_agent", "multi_agent_v1", "close_agent", "function_call"},
			{"known", "apply_patch", "", "apply_patch", "custom_tool_call"},
			{"known", "tool_search", "", "", "tool_search_call"},
			{"lite", "exec", "functions", "exec", "custom_tool_call"},
			{"lite", "wait", "functions", "wait", "function_call"},
			{"lite", "collaboration__list_agents", "collaboration", "list_agents", "function_call"},
		} {
			if model == "own" && c.tool != "exec_command" {
				continue // the simulated upstream of the form calls only plain functions
			}
			form := codexForms[c.form]
			ask := func(input string) []gjson.Result {
				status, header, answer := g.Post("/responses", key, `{"model":"`+model+`","stream":true,"store":false,"include":["reasoning.encrypted_content"],
					"tool_choice":"auto","prompt_cache_key":"01a2","client_metadata":{"x-codex-turn-metadata":"{}"},`+form.members+`,"input":[`+form.first+`
					{"type":"message","id":"msg_1","role":"developer","content":[{"type":"input_text","text":"You are an agent."},{"type":"input_text","text":"Be brief."}]},`+input+`]}`)
				if status != 200 {
					t.Fatalf("%s, %s: %d %s", model, c.tool, status, answer)
				}
				if got := header.Get("X-Svc-Left-Out"); (c.form == "lite") == strings.Contains(got, "tools.web_search") {
					t.Errorf("%s, %s: left out are %q", model, c.form, got)
				}
				return codexItems(t, answer)
			}
			user := `{"type":"message","role":"user","content":[{"type":"input_text","text":"[[sim tool=` + c.tool + ` rounds=1]] Go on."}]}`
			var call gjson.Result
			history := ""
			for _, item := range ask(user) {
				history += "," + item.Raw
				if strings.HasSuffix(item.Get("type").Str, "_call") {
					call = item
				}
			}
			if call.Get("type").Str != c.kind || call.Get("name").Str != c.name || call.Get("namespace").Str != c.space ||
				call.Get("call_id").Str == "" {
				t.Errorf("%s, %s: called is %s", model, c.tool, call.Raw)
				continue
			}
			result := `{"type":"` + c.kind + `_output","call_id":` + call.Get("call_id").Raw + `,"output":[{"type":"input_text","text":"done"}]}`
			if c.kind == "tool_search_call" {
				if !call.Get("arguments").IsObject() || call.Get("execution").Str != "client" {
					t.Errorf("%s: searched is %s", model, call.Raw)
				}
				result = `{"type":"tool_search_output","call_id":` + call.Get("call_id").Raw + `,"status":"completed","execution":"client","tools":[
					{"type":"namespace","name":"mcp__web","description":"Pages.","tools":[{"type":"function","name":"get","defer_loading":true,"strict":false,"parameters":{"type":"object"}}]}]}`
			}
			said := ""
			for _, item := range ask(user + history + "," + result) {
				said += item.Get("content.0.text").Str
			}
			if said == "" {
				t.Errorf("%s, %s: no answer to the result", model, c.tool)
			}
		}
	}
	g.Settled()
	g.CLI("verify")
}
