package chat

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/tests/oracles/messagestest"
	"farebox/tests/rig"
)

// messagesConfig has one model an upstream: own takes POST /messages itself and is given
// it as it came, the others are asked in their own dialects.
const messagesConfig = `
log: { level: warn, format: json }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
upstreams:
  - { name: anthropic, dialect: anthropic, base_url: "%[1]s/v1", key: upstream-key, breaker: { failures: 0 } }
  - { name: openai, base_url: "%[1]s/v1", key: upstream-key, breaker: { failures: 0 } }
  - { name: google, dialect: gemini, base_url: "%[1]s/v1beta", key: upstream-key, breaker: { failures: 0 } }
models:
  - &model
    id: own
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 2000
    capabilities: { reasoning: true, reasoning_effort: [low, high], tools: true, response_schema: true, vision: true, files: true }
    price: { input: 1, output: 2, cache_read: 0.5, cache_write: 1.25 }
    targets: [{ upstream: anthropic, model: claude-opus-4-5 }]
  - { <<: *model, id: same, targets: [{ upstream: anthropic }] }
  - { <<: *model, id: openai, targets: [{ upstream: openai, model: gpt-5 }] }
  - { <<: *model, id: google, targets: [{ upstream: google, model: gemini-3-flash-preview }] }
`

// startMessages starts a gateway before an upstream, and gives an account named a 100 USD.
func startMessages(t *testing.T, url string) (*rig.Gateway, string) {
	t.Helper()
	g := rig.StartGateway(t, fmt.Sprintf(messagesConfig, strings.TrimSuffix(url, "/v1")))
	g.NewAccount("a", "100")
	return g, g.Key("a")
}

// An upstream of Anthropic's own API gets the client's bytes but for the model's name,
// and of the headers those that cost nothing and reach nothing of the operator's.
func TestMessagesGoOutAsTheyCame(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g, key := startMessages(t, sim.URL)
	for _, body := range []string{
		"{ \"model\" : \"own\", \"max_tokens\": 20,\n\t\"messages\" : [ {\"role\":\"user\",\"content\":\"\\u00e9\\n😀\"} ] , \"temperature\":0.70 }",
		`{"model":"own","max_tokens":50,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"metadata":{"user_id":"u"},` +
			`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hi"},"citations":{"enabled":true},"title":"T","context":"C"},` +
			`{"type":"search_result","source":"https://x","title":"X","content":[{"type":"text","text":"x"}]},{"type":"text","text":"So?"}]}],` +
			`"stop_sequences":["1","2","3","4","5"],"service_tier":"standard_only","tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]}`,
	} {
		header := []string{"anthropic-version", "2099-01-01", "anthropic-beta", "files-api-2025-04-14,effort-2025-11-24", "x-secret", "s"}
		status, _, answer, err := rig.Try(rig.Client, g.URL+"/messages", key, body, header...)
		if err != nil || status != 200 {
			t.Errorf("%s is answered %d %s: %v", body, status, answer, err)
		}
		got := sim.Latest(t)
		if want := strings.Replace(body, `"own"`, `"claude-opus-4-5"`, 1); string(got.Body) != want || got.Path != "/v1/messages" {
			t.Errorf("sent    %s\narrived %s at %s\nwant    %s", body, got.Body, got.Path, want)
		}
		head := strings.ToLower(got.Head)
		if !strings.Contains(head, "anthropic-version: 2023-06-01\r\n") || !strings.Contains(head, "anthropic-beta: effort-2025-11-24\r\n") ||
			strings.Contains(head, "x-secret") || strings.Contains(head, "files-api") || strings.Contains(head, strings.ToLower(key)) {
			t.Errorf("the head that arrived is %s", got.Head)
		}
	}
}

// Members that would reach into the operator's account, or that an upstream of another kind does
// not support, are rejected by name; no such request is sent or charged.
func TestMessagesThatAreNotSold(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g, key := startMessages(t, sim.URL)
	f := func(model, name, members string) {
		t.Helper()
		if !strings.Contains(members, `"messages"`) {
			members += `,"messages":[{"role":"user","content":"hi"}]`
		}
		status, _, answer := g.Post("/messages", key, `{"model":"`+model+`","max_tokens":20,`+members+`}`)
		e := gjson.ParseBytes(answer)
		if status != 400 || e.Get("type").Str != "error" || e.Get("error.type").Str != "invalid_request_error" ||
			!strings.Contains(e.Get("error.message").Str, name) {
			t.Errorf("%s %s is answered %d %s; %s is not named", model, members, status, answer, name)
		}
	}
	block := func(b string) string { return `"messages":[{"role":"user","content":[` + b + `]}]` }
	for _, model := range []string{"own", "openai", "google"} {
		f(model, "container", `"container":"c_1"`)
		f(model, "mcp_servers", `"mcp_servers":[{"type":"url","url":"https://x","name":"x","authorization_token":"s"}]`)
		f(model, "service_tier", `"service_tier":"priority"`)
		f(model, "speed", `"speed":"fast"`)
		f(model, "novelty", `"novelty":1`)
		f(model, "tools.0.type", `"tools":[{"type":"code_execution_20250825","name":"code_execution"}]`)
		f(model, "tools.0.type", `"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]`)
		f(model, "tools.0.type", `"tools":[{"type":"mcp_toolset","name":"x","mcp_server_name":"x"}]`)
		f(model, "context_management.edits.0.type", `"context_management":{"edits":[{"type":"compact_20260112"}]}`)
		f(model, "messages.0.content.0.type", block(`{"type":"container_upload","file_id":"f"}`))
		f(model, "messages.0.content.0.source.type", block(`{"type":"document","source":{"type":"file","file_id":"f"}}`))
		f(model, "messages.0.content.0.source.content.0.source.type", block(`{"type":"document","source":{"type":"content",`+
			`"content":[{"type":"image","source":{"type":"url","url":"http://169.254.169.254/"}}]}}`))
	}
	for _, model := range []string{"openai", "google"} {
		f(model, "stop_sequences", `"stop_sequences":["1","2","3","4","5"]`)
		f(model, "messages.0.content.0.type", block(`{"type":"search_result","source":"https://x","title":"X","content":[{"type":"text","text":"x"}]}`))
	}
	if n := sim.Idle(t).Requests; n > 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
	if spent := g.Settled()["a"].Spent; spent != 0 {
		t.Errorf("%s was charged", spent)
	}
}

const (
	oddMessage = "{ \"id\":\"msg_x\", \"type\" : \"message\",\"role\":\"assistant\",\"model\":\"NAME\",\"x\":[1.0,1e5],\"content\":[ " +
		"{\"type\":\"text\",\"text\":\"\\u00e9 😀\",\"citations\":[{\"type\":\"char_location\",\"z\":1}]},{\"type\":\"novel_block\",\"y\":{}} ],\n" +
		"\"stop_reason\":\"novel_stop\",\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":4,\"cache_creation_input_tokens\":2,\"output_tokens\":3}}\n"
	oddMessageEvents = ": hello\r\n\r\nevent: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_x\",\"type\":\"message\",\"model\":\"same\"," +
		"\"content\":[],\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":4,\"cache_creation_input_tokens\":2,\"output_tokens\":1}}}\r\n\r\nid: 7\n" +
		"event: novel\ndata: {\"z\" : [1.0], \"type\":\"novel\"}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":" +
		"{\"type\":\"text\",\"text\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\u00e9\"}}\n\n" +
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}," +
		"\"usage\":{\"output_tokens\":3}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// The client gets the answer of Anthropic's own API byte for byte, unknown members and events
// included; only the model has the client's name.
func TestMessagesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !gjson.GetBytes(body, "stream").Bool() {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Replace(oddMessage, "NAME", gjson.GetBytes(body, "model").Str, 1))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range oddMessageEvents {
			_, _ = io.WriteString(w, oddMessageEvents[i:i+1])
			if i%7 == 0 {
				w.(http.Flusher).Flush()
			}
		}
	}))
	t.Cleanup(up.Close)
	g, key := startMessages(t, up.URL)
	const ask = `"max_tokens":20,"messages":[{"role":"user","content":"hi"}]`
	for _, model := range []string{"same", "own"} {
		status, _, answer := g.Post("/messages", key, `{"model":"`+model+`",`+ask+`}`)
		if want := strings.Replace(oddMessage, "NAME", model, 1); status != 200 || string(answer) != want {
			t.Errorf("%s is answered %d\n%q, want\n%q", model, status, answer, want)
		}
	}
	status, _, answer := g.Post("/messages", key, `{"model":"same","stream":true,`+ask+`}`)
	if status != 200 || string(answer) != oddMessageEvents {
		t.Errorf("the events are %d\n%q, want\n%q", status, answer, oddMessageEvents)
	}
	if got := g.Settled()["a"].Spent; got != 3*(5*1000+4*500+2*1250+3*2000) {
		t.Errorf("charged %s for three answers", got)
	}
}

// A message costs the tokens that the upstream generated, in every dialect, and whenever, how often
// and where the upstream reports usage.
func TestMessagesCostWhatWasMade(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startMessages(t, sim.URL)
	n, total := 0, rig.Money(0)
	ask := func(model, scenario, members string) (status int, answer string) {
		t.Helper()
		n++
		id := fmt.Sprint("told-", n)
		before := sim.Idle(t).Tokens
		code, _, body := g.Post("/messages", key, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"[[sim id=%s %s]] How do rivers move?"}]%s}`,
			model, id, scenario, members))
		after := sim.Idle(t).Tokens
		if code == 200 {
			made := sim.Made(id)
			cached, written := after.CachedTokens-before.CachedTokens, after.WrittenTokens-before.WrittenTokens
			total += rig.Money((made.Prompt-cached-written)*1000 + cached*500 + written*1250 + made.Completion*2000)
		}
		if spent := g.Settled()["a"].Spent; spent != total {
			t.Errorf("%s %s%s: %s was charged so far at a cost of %s", model, scenario, members, spent, total)
			total = spent
		}
		return code, string(body)
	}
	const (
		cap   = `,"max_tokens":1500`
		tools = `,"tools":[{"name":"look","input_schema":{"type":"object","properties":{"where":{"type":"string"}}}},{"name":"tell","input_schema":{"type":"object"}}]`
	)
	for _, model := range []string{"own", "openai", "google"} {
		for _, stream := range []string{"", `,"stream":true`} {
			for _, c := range []struct{ scenario, members, stop string }{
				{"tokens=24", cap, "end_turn"},
				{"tokens=24 cached=4 cache_write=3", cap, "end_turn"},
				{"tokens=24 split=byte comments=1 usage=late", cap, "end_turn"},
				{"tokens=24 usage=twice", cap, ""},
				{"reasoning=6", `,"max_tokens":30`, "max_tokens"},
				{"tokens=20 hidden=9", cap + `,"thinking":{"type":"enabled","budget_tokens":1024}`, "end_turn"},
				{"tool=all", cap + tools, "tool_use"},
				{"tokens=24 usage=none", cap, ""},
			} {
				status, answer := ask(model, c.scenario, c.members+stream)
				if status != 200 {
					t.Errorf("%s %s: %d %s", model, c.scenario, status, answer)
				}
				if c.stop == "" {
					continue
				}
				if got, err := stopOf(answer, model == "own", stream != ""); err != nil || got != c.stop {
					t.Errorf("%s %s%s: %s %v\n%s", model, c.scenario, stream, got, err, answer)
				}
			}
			for code, kind := range map[string]string{"500": "api_error", "401": "overloaded_error", "529": "overloaded_error"} {
				status, answer := ask(model, "status="+code, cap+stream)
				if status < 429 || gjson.Get(answer, "error.type").Str != kind || strings.Contains(answer, "simulated") {
					t.Errorf("%s: a failure of %s is answered %d %s", model, code, status, answer)
				}
			}
		}
		// When a stream fails midway, the client gets the error and pays for the delivered tokens.
		for _, how := range []string{"error_event=1 error_after=7", "cut=rst cut_after=7", "cut=fin cut_after=7"} {
			status, answer := ask(model, "tokens=24 gap_ms=3 "+how, cap+`,"stream":true`)
			if status != 200 || strings.Contains(answer, "simulated") || strings.Contains(answer, "127.0.0.1") {
				t.Errorf("%s %s: %d %s", model, how, status, answer)
			}
			if m, failed, err := messagestest.Order(answer); err != nil || !failed || len(m.Content) == 0 {
				t.Errorf("%s %s: %v\n%s", model, how, err, answer)
			}
		}
	}
}

// stopOf is why an answer ended, if Anthropic's package can read it. The members of an
// upstream's own are its own.
func stopOf(answer string, own, stream bool) (string, error) {
	switch {
	case stream && own:
		m, failed, err := messagestest.Order(strings.ReplaceAll(answer, "\r\n", "\n"))
		if err != nil || failed {
			return "", fmt.Errorf("failed %v: %w", failed, err)
		}
		return string(m.StopReason), nil
	case stream:
		m, failed, err := messagestest.Check(answer)
		if err != nil || failed {
			return "", fmt.Errorf("failed %v: %w", failed, err)
		}
		return string(m.StopReason), nil
	case own:
		return gjson.Get(answer, "stop_reason").Str, nil
	}
	m, err := messagestest.CheckMessage([]byte(answer))
	if err != nil {
		return "", err
	}
	return string(m.StopReason), nil
}

// A client that leaves pays for the generated tokens: an answer with possible hidden thinking is
// read to its end after the client left.
func TestMessagesThatAreLeftArePaid(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startMessages(t, sim.URL)
	cost := rig.Money(0)
	for _, model := range []string{"own", "openai", "google"} {
		res := g.Open("POST", "/messages", key, `{"model":"`+model+`","max_tokens":500,"stream":true,"messages":[{"role":"user","content":"[[sim id=left-`+
			model+` tokens=40 gap_ms=5]] Go"}]}`)
		r := bufio.NewReader(res.Body)
		for line := ""; !strings.HasPrefix(line, "event: content_block_delta"); {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		_ = res.Body.Close()
		sim.Idle(t)
		made := sim.Made("left-" + model)
		if made.Completion != 40 {
			t.Errorf("%s: %d tokens were made", model, made.Completion)
		}
		cost += rig.Money(made.Prompt*1000 + made.Completion*2000)
	}
	if got := g.Settled()["a"].Spent; got != cost {
		t.Errorf("charged %s at a cost of %s", got, cost)
	}
}

// Tokens are counted by an upstream that does so for nothing, else by an estimate; never
// for money, and not without end.
func TestTokensAreCountedForNothing(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startMessages(t, sim.URL)
	count := func(body string) (int, int64) {
		t.Helper()
		status, _, answer := g.Post("/messages/count_tokens", key, body)
		return status, gjson.GetBytes(answer, "input_tokens").Int()
	}
	const said = `"messages":[{"role":"user","content":"How do rivers move today?"}]`
	exact := upstream.CountPrompt([]byte("{" + said + "}"))
	status, got := count(`{"model":"own",` + said + `}`)
	if last := sim.Latest(t); status != 200 || got != exact || last.Path != "/v1/messages/count_tokens" ||
		string(last.Body) != `{"model":"claude-opus-4-5",`+said+`}` {
		t.Errorf("%d %d, want %d; %s got %s", status, got, exact, last.Path, last.Body)
	}
	asked := sim.Stats().Requests
	const link = `{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`
	for _, body := range []string{`{"model":"openai",` + said + `}`, `{"model":"google",` + said + `}`,
		`{"model":"own","messages":[{"role":"user","content":[` + link + `]}]}`} {
		if status, got := count(body); status != 200 || got < 5 {
			t.Errorf("%s: %d %d", body, status, got)
		}
	}
	if n := sim.Stats().Requests; n != asked {
		t.Errorf("an upstream got %d requests that it cannot count", n-asked)
	}
	// An upstream that refuses leaves it to the estimate.
	if status, got := count(`{"model":"own","max_tokens":5,` + said + `}`); status != 200 || got < 5 || got > 40 {
		t.Errorf("%d %d", status, got)
	}
	for _, path := range []string{"/messages/count_tokens", "/messages"} {
		if status, _, answer := g.Post(path, "", `{"model":"own",`+said+`}`); status != 401 ||
			gjson.GetBytes(answer, "error.type").Str != "authentication_error" {
			t.Errorf("%s without a key: %d %s", path, status, answer)
		}
	}
	limited := false
	for range 700 {
		status, _, answer := g.Post("/messages/count_tokens", key, `{"model":"openai",`+said+`}`)
		if status == 429 {
			limited = gjson.GetBytes(answer, "error.type").Str == "rate_limit_error"
			break
		}
	}
	if spent := g.Settled()["a"].Spent; !limited || spent != 0 {
		t.Errorf("limited: %v, spent %s", limited, spent)
	}
}

// An operator who says no has no such path.
func TestMessagesCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(messagesConfig, "http://127.0.0.1:9")+"compat: { messages: false }\n")
	g.NewAccount("a", "1")
	for _, path := range []string{"/messages", "/messages/count_tokens"} {
		status, _, answer := g.Post(path, g.Key("a"), `{"model":"own","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`)
		if !json.Valid(answer) || status != 404 {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
}
