package chat

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// However an upstream cuts its bytes, the client gets the same text, the same
// usage and a proper end, and is charged the same.
func TestSplitsAndVariantsOfUsage(t *testing.T) {
	t.Parallel()
	sim, g := rig.StartPrepaid(t, "10")
	key := g.Key("a")
	for _, scenario := range []string{
		"chunk=1", "chunk=7", "split=byte", "split=utf8 unicode=1", "split=crlf crlf=1", "split=frame", "comments=1",
		"crlf=1 comments=1 split=byte",
		"events_per_write=8", "usage=every", "usage=null", "usage=late", "usage=choices0", "usage=top",
		"usage=zerofirst", "usage=none", "no_done=1", "interim=103", "reasoning=5", "cached=4",
	} {
		before, sent := g.Settled()["a"].Spent, sim.Idle(t).Tokens
		res := g.Open("POST", "/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=24 "+scenario+"]] Hello",
			`,"stream":true`))
		text := rig.ReadAll(t, res)
		if res.StatusCode != 200 || !strings.HasSuffix(strings.ReplaceAll(text, "\r", ""), "data: [DONE]\n\n") ||
			strings.Contains(text, `"error"`) {
			t.Errorf("%s: %d, the stream ends %q", scenario, res.StatusCode, rig.Last(text, 300))
			continue
		}
		now := sim.Idle(t).Tokens
		want := rig.Money((now.PromptTokens-sent.PromptTokens)*1000 + (now.CompletionTokens-sent.CompletionTokens)*2000)
		if got := g.Settled()["a"].Spent - before; got != want {
			t.Errorf("%s: charged %s, the upstream produced %s", scenario, got, want)
		}
	}
}

// Usage that cannot be is bounded: nothing negative is credited, nothing
// beyond the request's own limits is charged.
func TestImpossibleUsageIsBounded(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "1")
	key := g.Key("a")
	for _, usage := range []string{"negative", "huge", "zero"} {
		before := g.Settled()["a"]
		g.Post("/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=10 usage="+usage+"]] Hello",
			`,"max_completion_tokens":20`))
		after := g.Settled()["a"]
		if cost := after.Spent - before.Spent; cost < 0 || cost > 200_000_000 {
			t.Errorf("usage=%s: charged %s", usage, cost)
		}
		if after.USD < 0 || after.USD+after.Spent != 1_000_000_000 {
			t.Errorf("usage=%s: the account is %+v", usage, after)
		}
	}
}

// A stream that is cut ends with an error event; it is never passed off as complete.
func TestTruncatedStreamEndsWithAnError(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "1")
	key := g.Key("a")
	for _, scenario := range []string{"cut=fin cut_after=5", "cut=rst cut_after=5", "truncate=1 cut_after=5",
		"error_event=1 error_after=5"} {
		res := g.Open("POST", "/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=24 "+scenario+"]] Hello",
			`,"stream":true`))
		raw, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		text := string(raw)
		if err == nil && !strings.Contains(text, `"error"`) {
			t.Errorf("%s: delivered as complete: %q", scenario, rig.Last(text, 300))
		}
		if err == nil && !strings.HasSuffix(text, "data: [DONE]\n\n") {
			t.Errorf("%s: the error event is not followed by [DONE]: %q", scenario, rig.Last(text, 300))
		}
		if strings.Contains(text, "127.0.0.1") {
			t.Errorf("%s: shows the upstream: %s", scenario, text)
		}
	}
	if a := g.Settled()["a"]; a.Held != 0 || a.USD+a.Spent != 1_000_000_000 {
		t.Errorf("the account is %+v", a)
	}
}

// A request body that needs no change is sent as it came, byte for byte; one
// that needs a change differs only there.
func TestRequestBytesAreKept(t *testing.T) {
	t.Parallel()
	sim, g := rig.StartPrepaid(t, "1")
	key := g.Key("a")
	sent := func(body string) string {
		t.Helper()
		if status, _, answer := g.Post("/chat/completions", key, body); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		return string(sim.Latest(t).Body)
	}
	for _, body := range []string{
		`{"model":"sim-chat","messages":[{"role":"user","content":"x"}],"max_completion_tokens":9}`,
		"{ \"model\" : \"sim-chat\", \"max_completion_tokens\": 9,\n\t\"messages\" : [ " +
			"{\"role\":\"user\",\"content\":\"\\u00e9\\n😀\"} ] , \"unknown\" : {\"a\":[1.0,1e5,null]}, " +
			"\"temperature\":0.70 }",
		`{"metadata":{"k":"v"},"store":true,"include":["x"],"model":"sim-chat","messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}],"seed":7,"max_completion_tokens":9}`,
	} {
		if got := sent(body); got != body {
			t.Errorf("sent    %s\narrived %s", body, got)
		}
	}
	for _, c := range []struct{ body, want string }{
		// A cap always goes upstream: the hold bounds the generated tokens.
		{`{"model":"sim-chat","messages":[{"role":"user","content":"x"}]}`,
			`{"max_completion_tokens":1000,"model":"sim-chat","messages":[{"role":"user","content":"x"}]}`},
		{`{"user":"me","model":"sim-chat","messages":[{"role":"user","content":"x"}],"max_completion_tokens":9}`,
			`{"model":"sim-chat","messages":[{"role":"user","content":"x"}],"max_completion_tokens":9}`},
		{`{"model":"sim-chat","messages":[{"role":"user","content":"x"}],"max_completion_tokens":9,"svc_parameters":{"strip_thinking_response":true},"top_k":3}`, `{"model":"sim-chat","messages":[{"role":"user","content":"x"}],"max_completion_tokens":9,"top_k":3}`},
		{`{"model":"sim-free","messages":[{"role":"user","content":"x"}],"max_completion_tokens":9}`,
			`{"model":"sim-chat","messages":[{"role":"user","content":"x"}],"max_completion_tokens":9}`},
	} {
		if got := sent(c.body); got != c.want {
			t.Errorf("sent    %s\narrived %s\nwant    %s", c.body, got, c.want)
		}
	}
	head := sim.Latest(t).Head
	if strings.Contains(head, key) || strings.Contains(head, "Go-http-client") {
		t.Errorf("headers of the client reached the upstream:\n%s", head)
	}
}

// Another target takes over while no byte has gone to the client.
func TestFailoverBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	good, bad := rig.StartUpstream(t, upstream.Options{}), rig.StartUpstream(t,
		upstream.Options{Faults: []upstream.Fault{{Share: 1, Scenario: "status=503"}}})
	dead := rig.FreeAddr(t)
	text := fmt.Sprintf(`
log: { level: warn, format: json }
upstreams:
  - { name: dead, base_url: "http://%s/v1" }
  - { name: bad, base_url: %s }
  - { name: good, base_url: %s }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 8192
    price: { input: 1, output: 2 }
    targets: [{ upstream: dead }, { upstream: bad, priority: 1 }, { upstream: good, priority: 2 }]
`, dead, bad.URL, good.URL)
	g := rig.StartGateway(t, text)
	g.NewAccount("a", "1")
	key := g.Key("a")
	for i := range 30 {
		more := ""
		if i%2 == 1 {
			more = `,"stream":true`
		}
		if status, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "Hello", more)); status != 200 {
			t.Fatalf("request %d: %d %s", i, status, answer)
		}
	}
	if n := bad.Idle(t).Requests; n > 15 {
		t.Errorf("the failing target was asked %d times: its breaker never opened", n)
	}
	tokens := good.Idle(t).Tokens
	if a := g.Settled()["a"]; a.Spent != rig.Money(tokens.PromptTokens*1000+tokens.CompletionTokens*2000) {
		t.Errorf("charged %s for %+v", a.Spent, tokens)
	}
}

// A target whose account is empty or whose key is wrong is passed over; one
// customer's refused content does not close a target for the others.
func TestTargetsFaultsAndRequestsFaults(t *testing.T) {
	t.Parallel()
	const text = `
log: { level: warn, format: json }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: first, base_url: %s, breaker: { failures: 3, open_for: 60s } }
  - { name: second, base_url: %s }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 8192
    price: { input: 1, output: 2 }
    targets: [{ upstream: first }, { upstream: second, priority: 1 }]
`
	for _, status := range []string{"401", "402", "404", "429", "500"} {
		first, second := rig.StartUpstream(t,
			upstream.Options{Faults: []upstream.Fault{{Share: 1, Scenario: "status=" + status}}}),
			rig.StartUpstream(t, upstream.Options{})
		g := rig.StartGateway(t, fmt.Sprintf(text, first.URL, second.URL))
		g.NewAccount("a", "1")
		key := g.Key("a")
		for range 6 {
			if got, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "Hello", "")); got != 200 {
				t.Errorf("%s at the first target: answered %d %s", status, got, answer)
			}
		}
		if n := first.Idle(t).Requests; n > 3 {
			t.Errorf("%s: the first target was asked %d times", status, n)
		}
	}
	first, second := rig.StartUpstream(t, upstream.Options{}), rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(text, first.URL, second.URL))
	g.NewAccount("a", "1")
	key := g.Key("a")
	for range 6 {
		g.Post("/chat/completions", key, rig.Ask("sim-chat", "[[sim status=403 kind=policy]] bad", ""))
	}
	before := second.Idle(t).Requests
	if got, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "Hello", "")); got != 200 {
		t.Errorf("after refused content a good request is answered %d %s", got, answer)
	}
	if second.Idle(t).Requests != before {
		t.Error("refused content closed the first target for all clients")
	}
}

// A 100 MB answer passes with flat memory.
func TestHugeAnswerIsRelayedFlat(t *testing.T) {
	if rig.RaceDetector() {
		t.Skip("memory under the race detector says nothing")
	}
	sim := rig.StartUpstream(t, upstream.Options{})
	large := strings.NewReplacer("max_completion_tokens: 100000", "max_completion_tokens: 50000000",
		"context_tokens: 128000", "context_tokens: 60000000")
	g := rig.StartGateway(t, large.Replace(fmt.Sprintf(rig.PrepaidConfig, sim.URL)))
	g.NewAccount("a", "1000")
	key := g.Key("a")
	fetch := func(size int) int64 {
		res := g.Open("POST", "/chat/completions", key, rig.Ask("sim-thinker", "[[sim big="+strconv.Itoa(size)+"]] x",
			`,"max_completion_tokens":50000000`))
		defer func() { _ = res.Body.Close() }()
		n, err := io.Copy(io.Discard, res.Body)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%d after %d bytes: %v", res.StatusCode, n, err)
		}
		return n
	}
	fetch(1 << 20)
	before := rig.ResidentKB(t, g.PID(), "VmRSS")
	if n := fetch(100 << 20); n < 100<<20 {
		t.Errorf("only %d bytes arrived", n)
	}
	if grown := rig.ResidentKB(t, g.PID(), "VmHWM") - before; grown > 4<<10 {
		t.Errorf("memory grew by %d KB while 100 MB were relayed", grown)
	}
	if a := g.Settled()["a"]; a.Spent == 0 {
		t.Error("the huge answer was not charged")
	}
}

// A request behind an early answer is not taken for another request's body.
func TestEarlyAnswerDoesNotOpenTheDoorToSmuggling(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:9"))
	addr := strings.TrimPrefix(g.Origin, "http://")
	smuggled := "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, request := range map[string]string{
		"length": "POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " +
			strconv.Itoa(8192+len(smuggled)) + "\r\n\r\n" + strings.Repeat(" ", 8192) + smuggled,
		"chunked": "POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n", len(smuggled)) + smuggled + "\r\n0\r\n\r\n",
		"both": "POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n0\r\n\r\n" + smuggled,
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
		_, _ = io.WriteString(conn, request)
		raw, _ := io.ReadAll(conn)
		_ = conn.Close()
		if bytes.Contains(raw, []byte("gen_ai_")) || bytes.Count(raw, []byte("HTTP/1.1 ")) > 1 && name != "both" {
			t.Errorf("%s: the smuggled request was answered:\n%s", name, raw)
		}
	}
}
