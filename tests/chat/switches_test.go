package chat

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// The operator's switches, seen by a client.
const switchedConfig = `
brand: foo
brand_aliases: [old]
system_prompt: Be kind.
log: { level: warn, format: json }
billing: { minimum_balance: 0, on_client_gone: drain }
compat: { accept_max_tokens: true, public_catalog: true, error_shape: openai }
upstreams:
  - { name: only, base_url: %s, breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    aliases: [gpt-4o]
    traits: [default]
    capabilities: { reasoning: true, reasoning_effort: [none, low, high] }
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
  - id: sim-offline
    tier: unlimited
    context_tokens: 8192
    offline: true
    price: free
    targets: [{ upstream: only }]
  - id: sim-retired
    tier: unlimited
    context_tokens: 8192
    deprecation: { date: 2026-01-01, removes_at: 2026-02-01 }
    price: free
    targets: [{ upstream: only }]
  - id: sim-moved
    tier: unlimited
    context_tokens: 8192
    deprecation: { date: 2026-01-01, removes_at: 2026-02-01, replacement: sim-new, auto_remap: true }
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
  - id: sim-leaving
    tier: unlimited
    context_tokens: 8192
    deprecation: { date: 2026-01-01, removes_at: 2099-02-01, replacement: sim-chat }
    price: free
    targets: [{ upstream: only, model: sim-chat }]
  - id: sim-new
    tier: unlimited
    context_tokens: 8192
    price: { input: 1, output: 2 }
    targets: [{ upstream: only, model: sim-chat }]
  - id: sim-embed
    type: embedding
    tier: unlimited
    embedding_dimensions: 1536
    max_input_tokens: 8192
    aliases: [text-embedding-ada-002]
    price: { input: 1, output: free }
    targets: [{ upstream: only }]
`

func TestSwitchesOfTheOperator(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(switchedConfig, sim.URL))
	g.NewAccount("a", "10")
	key := g.Key("a")
	if !strings.HasPrefix(key, "FOO_INFERENCE_KEY_") {
		t.Errorf("the brand is not in the key %q", key)
	}
	upstreamGot := func() string { return string(sim.Latest(t).Body) }
	chat := func(body string) (int, http.Header, string) {
		status, header, answer := g.Post("/chat/completions", key, body)
		return status, header, string(answer)
	}

	// The brand word builds identifiers; aliases of it are understood.
	for _, name := range []string{"foo_parameters", "old_parameters"} {
		status, header, answer := chat(rig.Ask("sim-chat", "x",
			`,"`+name+`":{"include_`+strings.TrimSuffix(name, "_parameters")+`_system_prompt":false}`))
		if status != 200 || header.Get("X-Foo-Model-Id") != "sim-chat" || header.Get("X-Foo-Version") == "" {
			t.Errorf("%s: %d %v %s", name, status, header, answer)
		}
		if got := upstreamGot(); strings.Contains(got, "_parameters") || strings.Contains(got, "Be kind.") {
			t.Errorf("%s went upstream: %s", name, got)
		}
	}
	if status, _, answer := chat(rig.Ask("sim-chat", "x", `,"svc_parameters":{"a":1}`)); status != 200 ||
		!strings.Contains(upstreamGot(), "svc_parameters") {
		t.Errorf("another brand's parameters are not just an unknown field: %d %s", status, answer)
	}
	// null is as good as absent; routing hints of other gateways stay here.
	if status, _, answer := chat(rig.Ask("sim-chat", "x",
		`,"foo_parameters":{"character_slug":null,"enable_web_search":null,"include_foo_system_prompt":null},"fallbacks":[{"model":"dear"}],"anon_user_id":"u"`)); status != 200 || !strings.Contains(upstreamGot(), "Be kind.") || strings.Contains(upstreamGot(), "dear") || strings.Contains(upstreamGot(), "anon_user_id") {
		t.Errorf("%d %s; upstream got %s", status, answer, upstreamGot())
	}
	// The operator's system prompt goes first.
	if status, _, answer := chat(rig.Ask("sim-chat", "x", "")); status != 200 ||
		!strings.Contains(upstreamGot(), `"messages":[{"role":"system","content":"Be kind."},{"role":"user"`) {
		t.Errorf("%d %s; upstream got %s", status, answer, upstreamGot())
	}
	// max_tokens is mapped.
	if status, _, answer := chat(rig.Ask("sim-chat", "x", `,"max_tokens":7`)); status != 200 ||
		strings.Contains(upstreamGot(), `"max_tokens"`) || !strings.Contains(upstreamGot(),
		`"max_completion_tokens":7`) {
		t.Errorf("%d %s; upstream got %s", status, answer, upstreamGot())
	}
	// reasoning_effort wins over reasoning.effort; an effort the model lacks is refused.
	if status, _, answer := chat(
		rig.Ask("sim-chat", "x", `,"reasoning":{"effort":"low"},"reasoning_effort":"high"`)); status != 200 {
		t.Errorf("%d %s", status, answer)
	} else if got := upstreamGot(); !strings.Contains(got, `"reasoning_effort":"high"`) ||
		strings.Contains(got, `"effort":"low"`) {
		t.Errorf("upstream got %s", got)
	}
	if status, _, answer := chat(rig.Ask("sim-chat", "x", `,"reasoning":{"effort":"medium"}`)); status != 400 ||
		!strings.Contains(answer, "reasoning.effort") || !strings.Contains(answer, `"error":{"message"`) {
		t.Errorf("%d %s", status, answer)
	}
	// Names: alias, trait, suffix, states of a model.
	for _, c := range []struct {
		model  string
		status int
		id     string
	}{
		{"sim-chat", 200, "sim-chat"}, {"gpt-4o", 200, "sim-chat"}, {"default", 200, "sim-chat"},
		{"sim-chat:strip_thinking_response=true", 200, "sim-chat"},
		{"gpt-4o:include_foo_system_prompt=false&enable_web_search=off", 200, "sim-chat"},
		{"sim-offline", 503, ""}, {"sim-retired", 410, ""}, {"sim-moved", 200, "sim-new"},
		{"sim-leaving", 200, "sim-leaving"}, {"sim-embed", 400, ""}, {"nobody", 404, ""},
	} {
		status, header, answer := chat(rig.Ask(c.model, "x", ""))
		if status != c.status || (c.id != "" && header.Get("X-Foo-Model-Id") != c.id) {
			t.Errorf("model %s: %d by %s: %s", c.model, status, header.Get("X-Foo-Model-Id"), answer)
		}
		if c.id != "" && !strings.Contains(answer, `"model":"`+c.id+`"`) {
			t.Errorf("model %s: the answer does not name %s: %s", c.model, c.id, answer)
		}
		if leaving := header.Get("X-Foo-Model-Deprecation-Warning") != ""; leaving != (c.model == "sim-leaving") {
			t.Errorf("model %s: deprecation headers %v", c.model, header)
		}
	}
	// The catalog is open, complete JSON, and knows types, traits and aliases.
	for _, c := range []struct{ path, want string }{
		{"/models", `"id":"sim-chat"`}, {"/models?type=embedding", `"id":"sim-embed"`},
		{"/models?type=all", `"owned_by":"foo"`},
		{"/models/traits", `"default":"sim-chat"`}, {"/models/compatibility_mapping", `"gpt-4o":"sim-chat"`},
		{"/models/compatibility_mapping?type=embedding", `"text-embedding-ada-002":"sim-embed"`},
	} {
		status, _, answer := g.Get(c.path, "")
		if status != 200 || !json.Valid(answer) || !strings.Contains(string(answer), c.want) {
			t.Errorf("%s: %d %s", c.path, status, answer)
		}
	}
	if _, _, answer := g.Get("/models?type=all", ""); strings.Contains(string(answer), "sim-retired") {
		t.Error("a removed model is listed")
	}
}

// With on_client_gone: drain the answer is read on when its client leaves, and
// charged by the upstream's own usage.
func TestDrainOnClientGoneChargesTheWholeAnswer(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(switchedConfig, sim.URL))
	g.NewAccount("a", "10")
	key := g.Key("a")
	res := g.Open("POST", "/chat/completions", key, rig.Ask("sim-new", "[[sim tokens=60 gap_ms=20]] Go",
		`,"stream":true`))
	r := bufio.NewReader(res.Body)
	for range 6 {
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	_ = res.Body.Close()
	g.Settled()
	if !sim.WaitIdle(1e10) {
		t.Fatal("the upstream never ended")
	}
	a := g.Settled()["a"]
	tokens := sim.Idle(t).Outcomes[upstream.Complete]
	if tokens.CompletionTokens != 60 {
		t.Errorf("the upstream completed %+v", sim.Idle(t).Outcomes)
	}
	if want := rig.Money(tokens.PromptTokens*1000 + tokens.CompletionTokens*2000); a.Spent != want {
		t.Errorf("charged %s, the whole answer costs %s", a.Spent, want)
	}
}

// Usage is always asked for upstream, and hidden only from a client that said so.
func TestUsageIsAlwaysAskedForUpstream(t *testing.T) {
	t.Parallel()
	sim, g := rig.StartPrepaid(t, "10")
	key := g.Key("a")
	for _, c := range []struct {
		options string
		shown   bool
	}{{"", true}, {`,"stream_options":{"include_usage":true}`, true},
		{`,"stream_options":{"include_usage":false}`, false}, {`,"stream_options":{}`, true},
		{`,"stream_options":null`, true}} {
		before := g.Settled()["a"].Spent
		text := rig.ReadAll(t, g.Open("POST", "/chat/completions", key,
			rig.Ask("sim-chat", "[[sim tokens=5]] x", `,"stream":true`+c.options)))
		if got := string(sim.Latest(t).Body); !strings.Contains(got, `"include_usage":true`) {
			t.Errorf("%q: upstream got %s", c.options, got)
		}
		if shown := strings.Contains(text, `"usage":{`); shown != c.shown ||
			!strings.HasSuffix(text, "data: [DONE]\n\n") {
			t.Errorf("%q: usage shown %v: %s", c.options, shown, rig.Last(text, 400))
		}
		if g.Settled()["a"].Spent == before {
			t.Errorf("%q: nothing was charged", c.options)
		}
	}
}

// A whole answer is compressed for a client that accepts it, and unpacks to the upstream's bytes.
func TestCompressionOnRequest(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "10")
	req, err := http.NewRequest("POST", g.URL+"/chat/completions",
		strings.NewReader(rig.Ask("sim-chat", "[[sim tokens=900]] x", `,"max_completion_tokens":900`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.Key("a"))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "gzip") // set by hand, so that net/http does not unpack
	res, err := rig.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("the headers are %v", res.Header)
	}
	z, err := gzip.NewReader(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil || !json.Valid(plain) || !strings.Contains(string(plain), `"chat.completion"`) {
		t.Errorf("%v: %s", err, rig.Last(string(plain), 300))
	}
}
