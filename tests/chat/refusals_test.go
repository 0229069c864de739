package chat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Bad input is refused with the field, the reason and the allowed range, in
// the shape of the addendum; nothing reaches the upstream and nothing is charged.
func TestBadInputNamesFieldAndRange(t *testing.T) {
	t.Parallel()
	sim, g := rig.StartPrepaid(t, "1")
	key := g.Key("a")
	const ok = `"model":"sim-chat","messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct {
		name, body, path string
		words            []string
	}{
		{"temperature too high", `{` + ok + `,"temperature":2.1}`, "temperature", []string{"between 0 and 2", "2.1"}},
		{"temperature below", `{` + ok + `,"temperature":-0.1}`, "temperature", []string{"between 0 and 2"}},
		{"temperature as text", `{` + ok + `,"temperature":"1"}`, "temperature", []string{"expected number", "string"}},
		{"frequency penalty", `{` + ok + `,"frequency_penalty":-2.5}`, "frequency_penalty",
			[]string{"between -2 and 2"}},
		{"presence penalty", `{` + ok + `,"presence_penalty":2.01}`, "presence_penalty", []string{"between -2 and 2"}},
		{"top_p", `{` + ok + `,"top_p":1.5}`, "top_p", []string{"between 0 and 1"}},
		{"min_p", `{` + ok + `,"min_p":-1}`, "min_p", []string{"between 0 and 1"}},
		{"min_temp", `{` + ok + `,"min_temp":3}`, "min_temp", []string{"between 0 and 2"}},
		{"max_temp", `{` + ok + `,"max_temp":3}`, "max_temp", []string{"between 0 and 2"}},
		{"repetition penalty", `{` + ok + `,"repetition_penalty":-1}`, "repetition_penalty", []string{"at least 0"}},
		{"top_k not whole", `{` + ok + `,"top_k":1.5}`, "top_k", []string{"integer"}},
		{"seed not whole", `{` + ok + `,"seed":0.5}`, "seed", []string{"integer"}},
		{"tool choice without its function", `{` + ok + `,"tool_choice":{"type":"function"}}`, "tool_choice.function",
			[]string{"required"}},
		{"json_schema without one", `{` + ok + `,"response_format":{"type":"json_schema"}}`,
			"response_format.json_schema", []string{"required"}},
		{"json_schema without its schema",
			`{` + ok + `,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true}}}`,
			"response_format.json_schema.schema", []string{"required"}},
		{"a raw control character", "{" + `"model":"sim-chat","messages":[{"role":"user","content":"a` + "\x01" +
			`b"}]}`, "messages.0.content", []string{"control character", "byte"}},
		{"a raw line break in an unknown member", "{" + ok + `,"x":"a` + "\n" + `b"}`, "",
			[]string{"control character"}},
		{"no UTF-8", "{" + `"model":"sim-chat","messages":[{"role":"user","content":"a` + "\xc3" + `b"}]}`,
			"messages.0.content", []string{"UTF-8"}},
		{"a costly member with escapes", `{` + ok + `,"serv\u0069ce_tier":"priority"}`, "service_tier",
			[]string{"without escapes"}},
		{"a costly member in capitals", `{` + ok + `,"Service_Tier":"priority"}`, "service_tier",
			[]string{"without escapes"}},
		{"a costly member twice", `{` + ok + `,"best_of":1,"best_of":4}`, "best_of", []string{"more than once"}},
		{"an effort without reasoning", `{` + ok + `,"reasoning_effort":"low"}`, "reasoning_effort",
			[]string{"reasoning"}},
		{"an effort in the object", `{` + ok + `,"reasoning":{"effort":"max"}}`, "reasoning.effort",
			[]string{"reasoning"}},
		{"reasoning switched on", `{` + ok + `,"reasoning":{"enabled":true}}`, "reasoning.enabled",
			[]string{"reasoning"}},
		{"a file without files",
			`{"model":"sim-chat","messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,aGk="}}]}]}`, "messages", []string{"file input"}},
		{"a custom tool", `{` + ok + `,"tools":[{"type":"custom","custom":{"name":"x"}}]}`, "tools.0.type",
			[]string{"function, web_search, x_search"}},
		{"allowed tools", `{` + ok + `,"tool_choice":{"type":"allowed_tools"}}`, "tool_choice.type",
			[]string{"function, none, auto, required"}},
		{"a refusal part", `{"model":"sim-chat","messages":[{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]}`, "messages.0.content.0.type", []string{"text, image_url"}},
		{"retention in memory", `{` + ok + `,"prompt_cache_retention":"in_memory"}`, "prompt_cache_retention",
			[]string{"default, extended, 24h"}},
		{"n zero", `{` + ok + `,"n":0}`, "n", []string{"between 1 and 128"}},
		{"five stop sequences", `{` + ok + `,"stop":["a","b","c","d","e"]}`, "stop", []string{"at most 4"}},
		{"no stop sequence", `{` + ok + `,"stop":[]}`, "stop", []string{"at least 1"}},
		{"stop of numbers", `{` + ok + `,"stop":[1]}`, "stop.0", []string{"expected string"}},
		{"max_tokens", `{` + ok + `,"max_tokens":5}`, "max_tokens", []string{"max_completion_tokens"}},
		{"completion tokens zero", `{` + ok + `,"max_completion_tokens":0}`, "max_completion_tokens",
			[]string{"at least 1"}},
		{"completion tokens above the model", `{` + ok + `,"max_completion_tokens":1001}`, "max_completion_tokens",
			[]string{"between 1 and 1000"}},
		{"tool choice", `{` + ok + `,"tool_choice":"sometimes"}`, "tool_choice", []string{"none, auto, required"}},
		{"tool choice object", `{` + ok + `,"tool_choice":{"type":"function","function":{}}}`,
			"tool_choice.function.name", []string{"required"}},
		{"response format", `{` + ok + `,"response_format":{"type":"xml"}}`, "response_format.type",
			[]string{"json_schema, json_object, text"}},
		{"reasoning effort", `{` + ok + `,"reasoning_effort":"huge"}`, "reasoning_effort",
			[]string{"none, minimal, low, medium, high, xhigh, max"}},
		{"reasoning summary", `{` + ok + `,"reasoning":{"summary":"long"}}`, "reasoning.summary",
			[]string{"auto, concise, detailed"}},
		{"cache retention", `{` + ok + `,"prompt_cache_retention":"1h"}`, "prompt_cache_retention",
			[]string{"default, extended, 24h"}},
		{"include_usage", `{` + ok + `,"stream_options":{"include_usage":"yes"}}`, "stream_options.include_usage",
			[]string{"expected boolean"}},
		{"no messages", `{"model":"sim-chat"}`, "messages", []string{"required"}},
		{"empty messages", `{"model":"sim-chat","messages":[]}`, "messages", []string{"at least 1"}},
		{"no model", `{"messages":[{"role":"user","content":"x"}]}`, "model", []string{"required"}},
		{"role", `{"model":"sim-chat","messages":[{"role":"robot","content":"x"}]}`, "messages.0.role",
			[]string{"system, user, assistant, tool, developer"}},
		{"no content", `{"model":"sim-chat","messages":[{"role":"user"}]}`, "messages.0.content", []string{"required"}},
		{"empty assistant", `{"model":"sim-chat","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null}]}`, "messages.1.content", []string{"tool_calls"}},
		{"tool without id", `{"model":"sim-chat","messages":[{"role":"tool","content":"x"}]}`,
			"messages.0.tool_call_id", []string{"required"}},
		{"message no object", `{"model":"sim-chat","messages":["x"]}`, "messages.0", []string{"expected object"}},
		{"part type", `{"model":"sim-chat","messages":[{"role":"user","content":[{"type":"smell"}]}]}`,
			"messages.0.content.0.type", []string{"text, image_url, input_audio, video_url, file"}},
		{"part without body", `{"model":"sim-chat","messages":[{"role":"user","content":[{"type":"image_url"}]}]}`,
			"messages.0.content.0.image_url", []string{"required"}},
		{"image in system", `{"model":"sim-chat","messages":[{"role":"system","content":[{"type":"image_url","image_url":{"url":"data:,"}}]}]}`, "messages.0.content.0.type", []string{"only text"}},
		{"model twice", `{"model":"sim-free","messages":[{"role":"user","content":"x"}],"model":"sim-chat"}`, "model",
			[]string{"more than once"}},
		{"model in capitals", `{` + ok + `,"Model":"sim-free"}`, "model", []string{"without escapes"}},
		{"model with escapes", `{` + ok + `,"mod\u0065l":"sim-free"}`, "model", []string{"without escapes"}},
		{"content twice", `{"model":"sim-chat","messages":[{"role":"user","content":"x","content":[{"type":"image_url","image_url":{"url":"data:,"}}]}]}`, "messages.0.content", []string{"more than once"}},
		{"image without vision",
			`{"model":"sim-chat","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}}]}]}`, "messages", []string{"image input"}},
		{"tools without tools", `{` + ok + `,"tools":[{"type":"function","function":{"name":"f"}}]}`, "tools",
			[]string{"tools"}},
		{"web search", `{` + ok + `,"svc_parameters":{"enable_web_search":"on"}}`, "svc_parameters.enable_web_search",
			[]string{"web search"}},
		{"web search in the suffix",
			`{"model":"sim-chat:enable_web_search=on","messages":[{"role":"user","content":"x"}]}`,
			"svc_parameters.enable_web_search", []string{"web search"}},
	} {
		status, _, answer := g.Post("/chat/completions", key, c.body)
		var e struct {
			Error   string
			Code    string
			Details json.RawMessage
			Issues  []struct {
				Path    []any
				Message string
			}
		}
		if err := json.Unmarshal(answer, &e); err != nil || status != 400 || e.Error == "" ||
			e.Code != "INVALID_REQUEST" || len(e.Issues) == 0 || len(e.Details) == 0 {
			t.Errorf("%s: answered %d %s (%v)", c.name, status, answer, err)
			continue
		}
		var parts []string
		for _, p := range e.Issues[0].Path {
			parts = append(parts, fmt.Sprint(p))
		}
		if got := strings.Join(parts, "."); got != c.path {
			t.Errorf("%s: the issue is at %q, want %q: %s", c.name, got, c.path, answer)
		}
		for _, w := range c.words {
			if !strings.Contains(e.Issues[0].Message, w) {
				t.Errorf("%s: the message %q does not say %q", c.name, e.Issues[0].Message, w)
			}
		}
	}
	if n := sim.Stats().Requests; n != 0 {
		t.Errorf("%d refused requests reached the upstream", n)
	}
	if a := g.Settled()["a"]; a.Spent != 0 {
		t.Errorf("refusals cost %s", a.Spent)
	}
}

// Names of the client's own may have dots and digits: each stays one member in an issue's path.
func TestNamesWithDotsStayWholeInIssues(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "1")
	key := g.Key("a")
	f := func(path, body, want, details string) {
		t.Helper()
		status, _, answer := g.Post(path, key, body)
		if status != 400 || !strings.Contains(string(answer), `"path":`+want+`,`) ||
			!strings.Contains(string(answer), details) {
			t.Errorf("%s: %d %s\nwant the path %s", body, status, answer, want)
		}
	}
	metadata := func(name string) string {
		return `{"model":"sim-chat","input":"x","metadata":{"` + name + `":1}}`
	}
	f("/responses", metadata("user.id.of.mine"), `["metadata","user.id.of.mine"]`,
		`"metadata":{"_errors":[],"user.id.of.mine":{"_errors":["metadata.user.id.of.mine: expected string."]}}`)
	f("/responses", metadata("7"), `["metadata","7"]`, `"7":{"_errors":`)
	f("/responses", metadata("plain"), `["metadata","plain"]`, `"plain":{"_errors":`)
	f("/image/generate", `{"model":"m","prompt":"p","a.b":1}`, `["a.b"]`, `"a.b":{"_errors":`)
}

// Everything else that is wrong with a request has its own status and code.
func TestOtherRefusals(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, strings.Replace(fmt.Sprintf(rig.PrepaidConfig, sim.URL), "billing:",
		"server: { max_body: 64KB }\nbilling:", 1))
	g.NewAccount("a", "1")
	key := g.Key("a")
	ok := rig.Ask("sim-chat", "x", "")
	for _, c := range []struct {
		name, method, path, key, contentType, body string
		status                                     int
		words                                      string
	}{
		{"no key", "POST", "/chat/completions", "", "application/json", ok, 401, "AUTHENTICATION_FAILED"},
		{"unknown key", "POST", "/chat/completions", "SVC_INFERENCE_KEY_nobody", "application/json", ok, 401,
			"AUTHENTICATION_FAILED"},
		{"unknown model", "POST", "/chat/completions", key, "application/json", rig.Ask("nobody", "x", ""), 404,
			"MODEL_NOT_FOUND"},
		{"wrong content type", "POST", "/chat/completions", key, "text/plain", ok, 415, "INVALID_CONTENT_TYPE"},
		{"too large", "POST", "/chat/completions", key, "application/json",
			rig.Ask("sim-chat", strings.Repeat("x", 70<<10), ""), 413, "PAYLOAD_TOO_LARGE"},
		{"no JSON", "POST", "/chat/completions", key, "application/json", `{"model":`, 400, "ends before"},
		{"trailing", "POST", "/chat/completions", key, "application/json", ok + "{}", 400, "continues"},
		{"empty body", "POST", "/chat/completions", key, "application/json", "", 400, "empty"},
		{"deep nesting", "POST", "/chat/completions", key, "application/json", `{"a":` + strings.Repeat("[", 60000),
			400, "deeper"},
		{"unknown path", "GET", "/nowhere", key, "", "", 404, "NOT_FOUND"},
		{"wrong method", "GET", "/chat/completions", key, "", "", 405, "POST"},
		{"unknown type", "GET", "/models?type=smell", key, "", "", 400, "embedding"},
		{"character", "POST", "/chat/completions", key, "application/json",
			rig.Ask("sim-chat", "x", `,"svc_parameters":{"character_slug":"alan"}`), 404, "CHARACTER_NOT_FOUND"},
	} {
		req, err := http.NewRequest(c.method, g.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.contentType != "" {
			req.Header.Set("Content-Type", c.contentType)
		}
		if c.key != "" {
			req.Header.Set("Authorization", "Bearer "+c.key)
		}
		res, err := rig.Client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		answer := rig.ReadAll(t, res)
		var e struct{ Error string }
		if res.StatusCode != c.status || !strings.Contains(answer, c.words) ||
			json.Unmarshal([]byte(answer), &e) != nil || e.Error == "" {
			t.Errorf("%s: answered %d %s", c.name, res.StatusCode, answer)
		}
		if res.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no X-Request-ID", c.name)
		}
	}
	if n := sim.Stats().Requests; n != 0 {
		t.Errorf("%d refused requests reached the upstream", n)
	}
	if status, _, answer := g.Post("/chat/completions", key, ok); status != 200 {
		t.Errorf("afterwards a good request is answered %d %s", status, answer)
	}
}

// A key that fails too often is blocked for a while, for that model and user
// only; 429 does not count.
func TestFailedRequestBudget(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	text := strings.Replace(fmt.Sprintf(rig.PrepaidConfig, sim.URL), "failed_requests: { count: 0 }",
		"failed_requests: { count: 5, window: 30s, block: 30s }", 1)
	g := rig.StartGateway(t, text)
	g.NewAccount("a", "1")
	key := g.Key("a")
	bad := rig.Ask("sim-chat", "x", `,"temperature":9`)
	for range 6 {
		g.Post("/chat/completions", key, bad)
	}
	status, header, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "x", ""))
	if status != 429 || header.Get("Retry-After") == "" || !strings.Contains(string(answer), "RATE_LIMIT_EXCEEDED") {
		t.Errorf("after six failures a good request is answered %d %v %s", status, header, answer)
	}
	if status, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "x", `,"user":"other"`)); status !=
		200 {
		t.Errorf("another user of the key is answered %d %s", status, answer)
	}
	if status, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-free", "x", "")); status != 200 {
		t.Errorf("another model is answered %d %s", status, answer)
	}
}

// The limit of requests a minute answers 429 with the headers of the addendum.
func TestRequestsPerMinute(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	text := strings.Replace(fmt.Sprintf(rig.PrepaidConfig, sim.URL), "limits: {",
		"limits: { tiers: { three: { rpm: 3, tpm: 100000 } },", 1)
	text = strings.Replace(text, "  - id: sim-free\n    tier: unlimited", "  - id: sim-free\n    tier: three", 1)
	g := rig.StartGateway(t, text)
	g.NewAccount("a", "1")
	key := g.Key("a")
	for i := range 3 {
		status, header, answer := g.Post("/chat/completions", key, rig.Ask("sim-free", "x", ""))
		if status != 200 || header.Get("X-Ratelimit-Limit-Requests") != "3" ||
			header.Get("X-Ratelimit-Remaining-Requests") != fmt.Sprint(2-i) ||
			header.Get("X-Ratelimit-Limit-Tokens") != "100000" {
			t.Errorf("request %d: %d %v %s", i, status, header, answer)
		}
	}
	status, header, answer := g.Post("/chat/completions", key, rig.Ask("sim-free", "x", ""))
	if status != 429 || header.Get("Retry-After") == "" || header.Get("X-Ratelimit-Type") != "user" ||
		header.Get("X-Ratelimit-Remaining-Requests") != "0" ||
		!strings.Contains(string(answer), "RATE_LIMIT_EXCEEDED") {
		t.Errorf("the fourth request is answered %d %v %s", status, header, answer)
	}
}
