package chat

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/tests/oracles/responsestest"
	"farebox/tests/rig"
)

// responsesConfig has one model an upstream: own takes POST /responses itself and is
// given it as it came, the others are asked in their own dialects.
const responsesConfig = `
log: { level: warn, format: json }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
compat: { openai_extras: true, responses_events: %[2]s }
upstreams:
  - { name: takes, base_url: "%[1]s/v1", responses: true, breaker: { failures: 0 } }
  - { name: openai, base_url: "%[1]s/v1", breaker: { failures: 0 } }
  - { name: anthropic, dialect: anthropic, base_url: "%[1]s/v1", breaker: { failures: 0 } }
  - { name: google, dialect: gemini, base_url: "%[1]s/v1beta", breaker: { failures: 0 } }
  - { name: enclave, base_url: "http://127.0.0.1:9/v1" } # is asked for proofs, which others would count
models:
  - &model
    id: own
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    capabilities: { reasoning: true, reasoning_effort: [low, high], tools: true, response_schema: true, vision: true }
    price: { input: 1, output: 2 }
    targets: [{ upstream: takes, model: gpt-5 }]
  - { <<: *model, id: files, capabilities: { reasoning: true, tools: true, files: true }, targets: [{ upstream: takes, model: gpt-5 }] }
  - &long { <<: *model, id: same, max_completion_tokens: 20000, targets: [{ upstream: takes }] }
  - { <<: *long, id: plain, targets: [{ upstream: openai }] }
  - { <<: *model, id: openai, targets: [{ upstream: openai, model: gpt-5 }] }
  - { <<: *model, id: anthropic, targets: [{ upstream: anthropic, model: claude-opus-4-5 }] }
  - { <<: *model, id: google, targets: [{ upstream: google, model: gemini-3-flash-preview }] }
  - { <<: *model, id: e2ee-own, tee: { kind: dstack }, targets: [{ upstream: enclave }] }
`

// startResponses starts a gateway before an upstream, and gives an account named a 100 USD.
func startResponses(t testing.TB, url, events string) (*rig.Gateway, string) {
	t.Helper()
	g := rig.StartGateway(t, fmt.Sprintf(responsesConfig, strings.TrimSuffix(url, "/v1"), events))
	g.NewAccount("a", "100")
	return g, g.Key("a")
}

// An upstream that takes the form itself gets the client's bytes. Exceptions are the model's
// name, the cap of the hold, and members that would reach into the operator's shared account.
func TestResponsesGoOutAsTheyCame(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	for _, c := range [][2]string{
		{
			"{ \"model\" : \"own\", \"max_output_tokens\": 20,\n\t\"store\":false, \"input\" : [ " +
				"{\"role\":\"user\",\"content\":\"\\u00e9\\n😀\"} ] , \"temperature\":0.70 }",
			"{ \"model\" : \"gpt-5\", \"max_output_tokens\": 20,\n\t\"store\":false, \"input\" : [ " +
				"{\"role\":\"user\",\"content\":\"\\u00e9\\n😀\"} ] , \"temperature\":0.70 }",
		},
		{
			`{"model":"own","input":"hi","store":true,"previous_response_id":"resp_1","background":true}`,
			`{"max_output_tokens":1000,"model":"gpt-5","input":"hi","store":false}`,
		},
		{
			`{"conversation":"conv_1","model":"own","input":"hi","user":"me","service_tier":"priority","safety_identifier":"s"}`,
			`{"store":false,"max_output_tokens":1000,"model":"gpt-5","input":"hi","safety_identifier":"s"}`,
		},
		{
			`{"model":"own","store":false,"max_output_tokens":99,"input":"hi","fallbacks":[{"model":"dear"}],` +
				`"svc_parameters":{}}`,
			`{"model":"gpt-5","store":false,"max_output_tokens":99,"input":"hi"}`,
		},
		{
			`{"model":"own","store":false,"max_output_tokens":99,"input":[{"role":"user","content":[` +
				`{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"data:image/png;base64,aGk="}]},` +
				`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAAsimx"},` +
				`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
				`{"type":"function_call_output","call_id":"c","output":"1"}],"tools":[{"type":"function","name":"f",` +
				`"parameters":{"type":"object"},"strict":false}],"tool_choice":{"type":"function","name":"f"}}`, "",
		},
	} {
		want := c[1]
		if want == "" {
			want = strings.Replace(c[0], `"own"`, `"gpt-5"`, 1)
		}
		if status, _, answer := g.Post("/responses", key, c[0]); status != 200 {
			t.Errorf("%s is answered %d %s", c[0], status, answer)
		}
		got := sim.Latest(t)
		if string(got.Body) != want || got.Path != "/v1/responses" {
			t.Errorf("sent    %s\narrived %s at %s\nwant    %s", c[0], got.Body, got.Path, want)
		}
	}
}

const (
	oddResponse = "{ \"id\":\"resp_x\", \"object\" : \"response\",\"status\":\"completed\",\"model\":\"NAME\"," +
		"\"x\":[1.0,1e5],\"output\":[ {\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"content\":[" +
		"{\"type\":\"output_text\",\"text\":\"\\u00e9 😀\"}]},{\"type\":\"novel_call\",\"y\":{}} ],\n\"usage\":{\"input_tokens\":5,\"output_tokens\":3}}\n"
	oddEvents = ": hello\r\n\r\nevent: response.created\r\ndata: {\"type\":\"response.created\",\"sequence_number\":0," +
		"\"response\":{\"id\":\"resp_x\",\"model\":\"same\",\"output\":[]}}\r\n\r\nid: 7\nevent: response.novel\ndata: " +
		"{\"sequence_number\" : 1, \"type\" : \"response.novel\" , \"z\":[1.0]}\n\nevent: response.output_text.delta\n" +
		"data: {\"type\":\"response.output_text.delta\",\"sequence_number\":2,\"delta\":\"\\u00e9\"}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":3,\"response\":{\"id\":" +
		"\"resp_x\",\"status\":\"completed\",\"model\":\"same\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":" +
		"\"output_text\",\"text\":\"\\u00e9\"}]}],\"usage\":{\"input_tokens\":5,\"output_tokens\":3}}}\n\n"
)

// The client gets the answer of an upstream that takes the format byte for byte, unknown members
// and events included; only the model has the client's name.
func TestResponsesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !gjson.GetBytes(body, "stream").Bool() {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Replace(oddResponse, "NAME", gjson.GetBytes(body, "model").Str, 1))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range oddEvents {
			_, _ = io.WriteString(w, oddEvents[i:i+1])
			if i%7 == 0 {
				w.(http.Flusher).Flush()
			}
		}
	}))
	t.Cleanup(up.Close)
	g, key := startResponses(t, up.URL, "sdk")
	for _, model := range []string{"same", "own"} {
		status, _, answer := g.Post("/responses", key, `{"model":"`+model+`","input":"hi"}`)
		if want := strings.Replace(oddResponse, "NAME", model, 1); status != 200 || string(answer) != want {
			t.Errorf("%s is answered %d\n%q, want\n%q", model, status, answer, want)
		}
	}
	status, _, answer := g.Post("/responses", key, `{"model":"same","input":"hi","stream":true}`)
	if status != 200 || string(answer) != oddEvents {
		t.Errorf("the events are %d\n%q, want\n%q", status, answer, oddEvents)
	}
	if got := g.Settled()["a"].Spent; got != 3*(5*1000+3*2000) {
		t.Errorf("charged %s for three answers of 5 and 3 tokens", got)
	}
}

// Members that would use others' data in the operator's account, or run up an unpaid bill there,
// are rejected by name, and reach no upstream.
func TestResponsesReachIntoNoAccount(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	tool := func(tool string) string { return `"input":"hi","tools":[` + tool + `]` }
	item := func(item string) string { return `"input":[` + item + `]` }
	part := func(part string) string { return item(`{"role":"user","content":[` + part + `]}`) }
	for _, c := range [][2]string{
		{part(`{"type":"input_file","file_id":"file-1"}`), "input.0.content.0.file_id"},
		{part(`{"type":"input_image","file_id":"file-1"}`), "input.0.content.0.file_id"},
		{part(`{"type":"file","file":{"file_id":"file-1"}}`), "input.0.content.0.file.file_id"},
		{`"input":"hi","prompt":{"id":"pmpt_1"}`, "prompt"},
		{tool(`{"type":"file_search","vector_store_ids":["vs_1"]}`) + `,"tool_choice":"required"`, "tool_choice"},
		{tool(`{"type":"file_search"}`) + `,"tool_choice":{"type":"file_search"}`, "tool_choice.type"},
		{tool(`{"type":"x_search"}`), ""},
		{`"input":"hi","tool_choice":{"type":"web_search_preview"}`, "tool_choice"},
		{`"input":"hi","web_search":true`, ""},
		{item(`{"type":"mcp_approval_response","approval_request_id":"a","approve":true}`), "input.0.type"},
		{`"input":"hi","fallbacks":[` + strings.Repeat(`{"model":"m"},`, 10) + `{"model":"m"}]`, "fallbacks"},
		{`"input":"hi","messages":[]`, "messages"},
		{`"input":"hi","max_tokens":5`, "max_tokens"},
	} {
		for _, model := range []string{"own", "openai"} {
			status, _, answer := g.Post("/responses", key, `{"model":"`+model+`",`+c[0]+`}`)
			said := string(answer)
			if status != 400 || !strings.Contains(said, strings.ReplaceAll(c[1], ".", "")) &&
				!strings.Contains(said, c[1]) {
				t.Errorf("%s of %s is answered %d %s, expected 400 with %q", c[0], model, status, answer, c[1])
			}
		}
	}
	status, _, answer := g.Post("/responses", key, `{"model":"e2ee-own","input":"hi"}`)
	if status != 400 || !strings.Contains(string(answer), "end-to-end encryption") {
		t.Errorf("a model with end-to-end encryption is answered %d %s", status, answer)
	}
	if n := sim.Idle(t).Requests; n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
	if a := g.Settled()["a"]; a.Spent != 0 {
		t.Errorf("%s was charged for refused requests", a.Spent)
	}
}

// Tools that an upstream would carry out at the operator's cost, or look up in the
// operator's account, are left out and named. The upstream refuses them strictly.
func TestResponsesLeaveOutHostedTools(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	for body, want := range map[string]string{
		`"input":"hi","tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]`:             "tools.file_search",
		`"input":"hi","tools":[{"type":"code_interpreter","container":"cntr_1"}]`:               "tools.code_interpreter",
		`"input":"hi","tools":[{"type":"computer_use_preview"},{"type":"image_generation"}]`:    "tools.computer_use_preview, tools.image_generation",
		`"input":"hi","tools":[{"type":"mcp","server_label":"x","connector_id":"c"}]`:           "tools.mcp",
		`"input":"hi","tools":[{"type":"function","name":"f"},{"type":"tool_search"}]`:          "tools.tool_search",
		`"input":"hi","tools":[{"type":"web_search"}]`:                                          "tools.web_search",
		`"input":"hi","tools":[{"type":"local_shell"},{"type":"novel","x":{"type":"mcp"}}]`:     "tools.other",
		`"input":[{"role":"user","content":"hi"},{"type":"code_interpreter_call","id":"ci_1"}]`: "input.code_interpreter_call",
		`"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output",` +
			`"call_id":"c","output":[{"type":"input_image","file_id":"file-1"}]}]`: "input.output.image",
	} {
		for _, model := range []string{"own", "openai"} {
			status, header, answer := g.Post("/responses", key, `{"model":"`+model+`",`+body+`}`)
			if got := header.Get("X-Svc-Left-Out"); status != 200 || got != want {
				t.Errorf("%s of %s is answered %d without %q, not %q: %s", body, model, status, got, want, answer)
			}
		}
	}
}

// The events of every upstream are those that OpenAI's packages parse, and those of the
// specification where the operator wants them.
func TestResponsesHaveTheEventsOfTheConfig(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	const rest = `"input":"[[sim split=byte tokens=12]] hi","reasoning":{"effort":"high"},"stream":true`
	t.Run("sdk", func(t *testing.T) {
		t.Parallel()
		g, key := startResponses(t, sim.URL, "sdk")
		for _, model := range []string{"own", "openai", "anthropic", "google"} {
			status, _, answer := g.Post("/responses", key, `{"model":"`+model+`",`+rest+`}`)
			r, err := responsestest.Check(string(answer))
			if status != 200 || err != nil || r.Status != "completed" || r.Model != model || len(r.Output) < 2 ||
				r.Usage.OutputTokens != 12 {
				t.Errorf("%s: %d %v\n%s", model, status, err, answer)
			}
			whole := strings.Replace(rest, `"stream":true`, `"stream":false`, 1)
			status, _, answer = g.Post("/responses", key, `{"model":"`+model+`",`+whole+`}`)
			r, err = responsestest.CheckResponse(answer)
			if status != 200 || err != nil || r.Status != "completed" || r.Model != model || len(r.Output) < 2 {
				t.Errorf("%s: %d %v\n%s", model, status, err, answer)
			}
		}
	})
	t.Run("spec", func(t *testing.T) {
		t.Parallel()
		g, key := startResponses(t, sim.URL, "spec")
		for _, model := range []string{"openai", "anthropic"} {
			status, _, answer := g.Post("/responses", key, `{"model":"`+model+`",`+rest+`}`)
			order := []string{"response.created", "response.output_item.added", "response.reasoning.delta",
				"response.output_item.done", "response.output_item.added", "response.content_part.added",
				"response.output_text.delta", "response.content_part.done", "response.output_item.done",
				"response.completed"}
			if got := eventsOf(string(answer)); status != 200 || fmt.Sprint(got) != fmt.Sprint(order) ||
				!strings.HasSuffix(string(answer), "\n\ndata: [DONE]\n\n") {
				t.Errorf("%s: %d %v\n%s", model, status, got, answer)
			}
		}
	})
}

// eventsOf are the names of a stream's events, repeated ones once.
func eventsOf(stream string) (names []string) {
	for line := range strings.Lines(stream) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "event: ")
		if ok && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
	}
	return names
}

// A search that is asked for in any of the three ways is made here, at its price, even before an
// upstream that takes the format itself: that gets a chat then.
func TestResponsesSearch(t *testing.T) {
	t.Parallel()
	sim, w, g, key := startSearch(t)
	before := rig.Money(0)
	for name, more := range map[string]string{
		"a member":    `,"web_search":true`,
		"a tool":      `,"tools":[{"type":"web_search_preview"}]`,
		"a parameter": `,"svc_parameters":{"enable_web_search":"on"}`,
	} {
		for _, stream := range []string{"", `,"stream":true`} {
			asked, made := w.asked.Load(), sim.Idle(t).Tokens
			status, _, answer := g.Post("/responses", key, `{"model":"sim-chat","input":"How do rivers move?"`+more+stream+`}`)
			check := func() error { _, err := responsestest.CheckResponse(answer); return err }
			if stream != "" {
				check = func() error { _, err := responsestest.Check(string(answer)); return err }
			}
			if err := check(); err != nil || status != 200 || w.asked.Load() != asked+1 ||
				!strings.Contains(string(answer), `"web_search_call"`) {
				t.Errorf("%s: %d, %d searches, %v: %s", name, status, w.asked.Load()-asked, err, answer)
			}
			now := sim.Idle(t).Tokens
			cost := (now.PromptTokens - made.PromptTokens) + 2*(now.CompletionTokens-made.CompletionTokens)
			before = spent(t, g, before, rig.Money(cost*nanoToken)+nanoSearch)
		}
	}
}
