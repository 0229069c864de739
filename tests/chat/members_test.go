package chat

import (
	"fmt"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// membersConfig has an upstream with the built-in lists, one that lets
// everything pass, and clients that may use OpenAI's own words.
const membersConfig = `
log: { level: warn, format: json }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
compat: { accept_max_tokens: true, openai_extras: true, token_input: true }
upstreams:
  - { name: usual, base_url: %[1]s }
  - { name: open, base_url: %[1]s, drop: [], links: any }
  - { name: closed, base_url: %[1]s, links: none }
models:
  - &chat
    id: usual
    tier: unlimited
    context_tokens: 128000
    price: { input: 1, output: 2 }
    capabilities: { tools: true, vision: true, max_images: 4, video: true, files: true }
    targets: [{ upstream: usual }]
  - { <<: *chat, id: open, targets: [{ upstream: open }] }
  - { <<: *chat, id: closed, targets: [{ upstream: closed }] }
  - { <<: *chat, id: either, targets: [{ upstream: closed }, { upstream: open, priority: 1 }] }
  - { id: embed, type: embedding, tier: unlimited, price: { input: 1 }, targets: [{ upstream: usual }] }
`

func startMembers(t *testing.T) (*rig.Simulated, *rig.Gateway, func(path, body string) (int, string)) {
	t.Helper()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(membersConfig, sim.URL))
	g.NewAccount("a", "10")
	key := g.Key("a")
	return sim, g, func(path, body string) (int, string) {
		status, _, answer := g.Post(path, key, body)
		return status, string(answer)
	}
}

// costlyMembers change the operator's cost of a request.
const costlyMembers = `"service_tier":"priority","models":["dear"],"route":"fallback","provider":{"order":["dear"]},"plugins":[{"id":"web"}],"web_search_options":{},` +
	`"prediction":{"type":"content","content":"x"},"modalities":["text","audio"],"audio":{"voice":"x"},"functions":[{"name":"f"}],"function_call":"auto","thinking":{"type":"enabled"},` +
	`"best_of":8,"background":true,"max_output_tokens":100000,"extra_body":{"google":{}},"data_sources":[{}],"truncate_prompt_tokens":1,"use_beam_search":true,"min_tokens":1000,"ignore_eos":true`

// Members that make a request dearer than its price do not reach the upstream; unknown members do,
// byte for byte.
func TestMembersThatCostTheOperatorStayHere(t *testing.T) {
	t.Parallel()
	sim, _, post := startMembers(t)
	f := func(model, members, want string) {
		t.Helper()
		status, answer := post("/chat/completions", `{"model":"`+model+`",`+members+
			`"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":5}`)
		sim.WaitIdle(rig.CallLimit)
		last := sim.Last()
		if status != 200 || len(last) == 0 {
			t.Fatalf("%s: %d %s", members, status, answer)
		}
		if got := string(last[len(last)-1].Body); got != want {
			t.Errorf("%s\n got %s\nwant %s", members, got, want)
		}
	}
	const rest = `"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":5}`
	f("usual", costlyMembers+`,"x_unknown":[1e0],`, `{"model":"usual","x_unknown":[1e0],`+rest)
	f("open", costlyMembers+`,"x_unknown":[1e0],`, `{"model":"open",`+costlyMembers+`,"x_unknown":[1e0],`+rest)
	f("usual", `"logit_bias":{},`, `{"model":"usual","logit_bias":{},`+rest)
	f("usual", `"cache_control":{"type":"ephemeral","ttl":"1h"},`,
		`{"model":"usual","cache_control":{"type":"ephemeral"},`+rest)
	f("usual", `"reasoning_effort":"none",`, `{"model":"usual",`+rest)
	f("usual", `"seed":0,`, `{"model":"usual","seed":0,`+rest)
}

// Links that an upstream would follow into the operator's network are not
// passed on, and the refusal names the part.
func TestLinksIntoTheOperatorsNetworkAreRefused(t *testing.T) {
	t.Parallel()
	sim, _, post := startMembers(t)
	f := func(model, kind, link string, want int) {
		t.Helper()
		sim.WaitIdle(rig.CallLimit)
		before := sim.Stats().Requests
		carrier := map[string]string{"image_url": `{"url":%q}`, "video_url": `{"url":%q}`,
			"file": `{"file_data":%q}`}[kind]
		status, answer := post("/chat/completions", `{"model":"`+model+
			`","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"`+kind+`","`+kind+`":`+
			fmt.Sprintf(carrier, link)+`}]}],"max_completion_tokens":5}`)
		sim.WaitIdle(rig.CallLimit)
		if status != want || want == 400 && !strings.Contains(answer, "messages.0.content.1."+kind) ||
			(sim.Stats().Requests > before) != (want == 200) {
			t.Errorf("%s, %s %s: %d %s", model, kind, link, status, answer)
		}
	}
	for _, kind := range []string{"image_url", "video_url", "file"} {
		f("usual", kind, "file:///etc/passwd", 400)
		f("usual", kind, "http://169.254.169.254/latest/meta-data/", 400)
		f("usual", kind, "http://metadata.google.internal/", 400)
		f("usual", kind, "http://localhost:8000/", 400)
		f("usual", kind, "https://example.com/x.png", 200)
		f("usual", kind, "data:image/png;base64,aGk=", 200)
		f("open", kind, "file:///etc/passwd", 200)
		f("closed", kind, "https://example.com/x.png", 400)
		f("closed", kind, "data:image/png;base64,aGk=", 200)
		f("either", kind, "https://example.com/x.png", 200)
	}
}

// With compat.openai_extras and compat.token_input clients may send the members of
// OpenAI's packages.
func TestOpenAIsOwnWordsAreTakenWhereTheOperatorSaysSo(t *testing.T) {
	t.Parallel()
	_, _, post := startMembers(t)
	f := func(path, body string, want int, words string) {
		t.Helper()
		if status, answer := post(path, body); status != want || !strings.Contains(answer, words) {
			t.Errorf("%s %s: %d %s", path, body, status, answer)
		}
	}
	chat := func(members string) string {
		if !strings.Contains(members, `"messages"`) {
			members += `,"messages":[{"role":"user","content":"hi"}]`
		}
		return `{"model":"usual","max_tokens":5,` + members + `}`
	}
	const custom = `"tools":[{"type":"custom","custom":{"name":"x"}}]`
	f("/chat/completions", chat(custom), 200, "")
	f("/chat/completions", chat(
		custom+`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}`), 200, "")
	f("/chat/completions", chat(`"prompt_cache_retention":"in_memory"`), 200, "")
	f("/chat/completions", chat(
		`"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"user","content":"y"}]`), 200, "")
	f("/chat/completions", chat(`"messages":[{"role":"user","content":[{"type":"refusal","refusal":"no"}]}]`), 400,
		"assistant")
	f("/chat/completions", chat(`"messages":[{"role":"assistant","content":[{"type":"refusal"}]}]`), 400,
		"messages.0.content.0.refusal")

	f("/embeddings", `{"model":"embed","input":[1,2,3]}`, 200, `"total_tokens":3`)
	f("/embeddings", `{"model":"embed","input":[[1,2],[3]]}`, 200, `"embedding"`)
	f("/embeddings", `{"model":"embed","input":["a","b"]}`, 200, `"embedding"`)
	f("/embeddings", `{"model":"embed","input":[1,-2]}`, 400, "input.1")
	f("/embeddings", `{"model":"embed","input":[[1],"a"]}`, 400, "input.1")
	f("/embeddings", `{"model":"embed","input":[[1],[]]}`, 400, "input.1")
	f("/embeddings", `{"model":"embed","input":[1.5]}`, 400, "input.0")
	f("/embeddings", `{"model":"embed","input":[]}`, 400, "at least 1")

	f("/images/upscale", `{"model":"none","image":"aGk="}`, 404, "none")
}

// A body that says it is not encoded is not.
func TestIdentityIsNotAContentEncoding(t *testing.T) {
	t.Parallel()
	_, g, _ := startMembers(t)
	key := g.Key("a")
	f := func(coding string, want int) {
		t.Helper()
		status, _, answer, err := rig.Try(rig.Client, g.URL+"/chat/completions", key,
			`{"model":"usual","messages":[{"role":"user","content":"hi"}]}`, "Content-Encoding", coding)
		if err != nil || status != want {
			t.Errorf("%s: %v %d %s", coding, err, status, answer)
		}
	}
	f("identity", 200)
	f("Identity", 200)
	f("gzip", 415)
}
