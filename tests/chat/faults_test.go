package chat

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// answerFaults are answers of 2xx that are of no use, whole and streamed.
var answerFaults = []struct {
	name   string
	stream bool
	answer func(net.Conn, string)
}{
	{"reset", false, rig.Resets(rig.HTTPAnswer(200, "application/json", rig.GoodAnswer[:40],
		"Content-Length: 300\r\n"))},
	{"cut off", false, rig.Sends(rig.HTTPAnswer(200, "application/json", rig.GoodAnswer[:40],
		"Content-Length: 300\r\n"))},
	{"cut JSON", false, rig.Sends(rig.HTTPAnswer(200, "application/json", rig.GoodAnswer[:80]))},
	{"no JSON", false, rig.Sends(rig.HTTPAnswer(200, "application/json", "upstream connect error"))},
	{"no answer", false, rig.Sends(rig.HTTPAnswer(200, "application/json", `{"status":"ok"}`))},
	{"HTML", false, rig.Sends(rig.HTTPAnswer(200, "text/html", "<html><body>Welcome</body></html>"))},
	{"large HTML", false, rig.Sends(rig.HTTPAnswer(200, "text/html", "<html>"+strings.Repeat("x", 100_000)))},
	{"empty", false, rig.Sends(rig.HTTPAnswer(200, "application/json", ""))},
	{"error object", false, rig.Sends(rig.HTTPAnswer(200, "application/json",
		`{"error":{"message":"worker died","type":"server_error","code":500}}`))},
	{"garbage", false, rig.Sends("SSH-2.0-OpenSSH\r\n")},
	{"stream reset", true, rig.Resets(rig.SSEChunked)},
	{"stream cut in its first event", true, rig.Sends(rig.SSEChunked + rig.SSEChunk(rig.GoodChunk[:60]))},
	{"stream without events", true, rig.Sends(rig.SSEChunked + "0\r\n\r\n")},
	{"stream of an end alone", true, rig.Sends(rig.SSEChunked + rig.SSEChunk("data: [DONE]\n\n") + "0\r\n\r\n")},
	{"stream of an error", true, rig.Sends(
		rig.SSEChunked + rig.SSEChunk(`data: {"error":{"message":"worker died","code":503}}`+"\n\n") + "0\r\n\r\n")},
	{"stream that is JSON", true, rig.Sends(rig.HTTPAnswer(200, "text/event-stream", rig.GoodAnswer))},
	{"stream that is HTML", true, rig.Sends(rig.HTTPAnswer(200, "text/html", "<html></html>"))},
}

// While no byte has gone to the client, an answer that breaks is a failed
// attempt: a healthy standby answers instead, the target's breaker opens, and
// only the standby's answer is charged.
func TestBrokenAnswersGoToTheStandby(t *testing.T) {
	t.Parallel()
	good := rig.StartUpstream(t, upstream.Options{})
	text := "log: { level: warn, format: json }\nlimits: { failed_requests: { count: 0 } }\nupstreams:\n  - { name: " +
		"good, base_url: " + good.URL + " }\n"
	models, faulty := "models:\n", make([]*rig.RawUpstream, len(answerFaults))
	for i, f := range answerFaults {
		faulty[i] = rig.StartRaw(t, f.answer)
		text += fmt.Sprintf("  - { name: faulty-%d, base_url: %q, breaker: { failures: 5, open_for: 60s } }\n", i,
			faulty[i].URL)
		models += fmt.Sprintf("  - { id: m-%d, tier: unlimited, context_tokens: 8192, price: { input: 1, output: 2 "+
			"}, targets: [{ upstream: faulty-%d }, { upstream: good, model: sim-chat, priority: 1 }] }\n", i, i)
	}
	g := rig.StartGateway(t, text+models)
	g.NewAccount("a", "100")
	key := g.Key("a")
	const n, at = 100, 4
	for i, f := range answerFaults {
		more := `,"max_completion_tokens":8`
		if f.stream {
			more += `,"stream":true`
		}
		var failed atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for range at {
			wg.Go(func() {
				for range n / at {
					status, _, answer := g.Post("/chat/completions", key,
						rig.Ask(fmt.Sprintf("m-%d", i), "Hello", more))
					if status != 200 || !strings.Contains(string(answer), "choices") ||
						strings.Contains(string(answer), `"error"`) {
						failed.Add(1)
						t.Errorf("%s: %d %.200s", f.name, status, answer)
					}
				}
			})
		}
		wg.Wait()
		// One more for each that was under way, and for each probe after a rest of five seconds.
		if asked, most := faulty[i].Asked.Load(), int64(5+at+2+time.Since(began)/(5*time.Second)); asked > most {
			t.Errorf("%s: the faulty target was asked %d times, at most %d are needed to know it", f.name, asked, most)
		}
	}
	tokens := good.Idle(t).Tokens
	if a := g.Settled()["a"]; a.Spent != rig.Money(tokens.PromptTokens*1000+tokens.CompletionTokens*2000) {
		t.Errorf("charged %s for %+v", a.Spent, tokens)
	}
}

// An error object that is the client's own fault stays its answer, and says
// nothing of the target.
func TestAnErrorObjectMayBeTheClientsFault(t *testing.T) {
	t.Parallel()
	u := rig.StartRaw(t, rig.Sends(rig.HTTPAnswer(200, "application/json",
		`{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`)))
	g := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, u.URL, ""))
	g.NewAccount("a", "1")
	key := g.Key("a")
	for range 7 {
		if status, _, answer := g.Post("/chat/completions", key, rig.Ask("m", "Hello", "")); status != 400 ||
			!strings.Contains(string(answer), "context_length_exceeded") {
			t.Fatalf("%d %s", status, answer)
		}
	}
	if n := u.Asked.Load(); n != 7 {
		t.Errorf("the target was asked %d times", n)
	}
}

// A stream that breaks midway cannot be repeated, but the failure counts.
func TestStreamsThatBreakRestTheirTarget(t *testing.T) {
	t.Parallel()
	u := rig.StartRaw(t, rig.Sends(rig.SSEChunked+rig.SSEChunk(rig.GoodChunk)))
	g := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, u.URL, ", breaker: { failures: 3, open_for: 60s }"))
	g.NewAccount("a", "1")
	key := g.Key("a")
	for range 3 {
		if status, _, answer := g.Post("/chat/completions", key, rig.Ask("m", "Hello", `,"stream":true`)); status !=
			200 || !strings.Contains(string(answer), "four") || !strings.Contains(string(answer), "upstream_error") {
			t.Fatalf("%d %s", status, answer)
		}
	}
	g.MetricIs(`farebox_target_state{gen_ai_request_model="m",upstream="only",upstream_model="m"}`,
		func(v float64) bool { return v == 1 })
	g.MetricIs(`farebox_target_changes_total{gen_ai_request_model="m",upstream="only",upstream_model="m",to="open"}`,
		func(v float64) bool { return v == 1 })
	g.AwaitLog(`"breaker":"open"`)
	u.Answer(rig.Sends(rig.SSEChunked + rig.SSEChunk(rig.GoodChunk) + rig.SSEChunk("data: [DONE]\n\n") + "0\r\n\r\n"))
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		// A lone target is asked all the same, by one probe at a time.
		if status, _, _ := g.Post("/chat/completions", key, rig.Ask("m", "Hello", `,"stream":true`)); status == 200 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the target that is well again is never asked")
		}
	}
	g.AwaitLog(`"breaker":"closed"`)
}

// One customer's limit at the upstream rests the model for no other customer, and the refused
// client gets the real waiting time.
func TestOneCustomersRefusalRestsNobodyElse(t *testing.T) {
	t.Parallel()
	slow := rig.HTTPAnswer(429, "application/json", `{"error":{"message":"slow down"}}`, "Retry-After: 90\r\n")
	var everybody, hold atomic.Bool
	probed := make(chan struct{})
	u := rig.StartRaw(t, func(c net.Conn, body string) {
		if hold.Load() {
			<-probed
		}
		if everybody.Load() || strings.Contains(body, "greedy") {
			_, _ = io.WriteString(c, slow)
			return
		}
		_, _ = io.WriteString(c, rig.HTTPAnswer(200, "application/json", rig.GoodAnswer))
	})
	g := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, u.URL, ""))
	for _, name := range []string{"a", "b", "c", "d"} {
		g.NewAccount(name, "1")
	}
	a, b, c, d := g.Key("a"), g.Key("b"), g.Key("c"), g.Key("d")
	for range 5 {
		if status, header, answer := g.Post("/chat/completions", a, rig.Ask("m", "greedy", "")); status != 429 &&
			status != 503 || status == 429 && header.Get("Retry-After") != "90" {
			t.Fatalf("%d %v %s", status, header, answer)
		}
		if status, _, answer := g.Post("/chat/completions", b, rig.Ask("m", "modest", "")); status != 200 {
			t.Fatalf("another customer: %d %s", status, answer)
		}
	}
	// When all meet it, it is the target's own; it is asked by one at a time.
	everybody.Store(true)
	for _, key := range []string{a, b} {
		if status, _, answer := g.Post("/chat/completions", key, rig.Ask("m", "greedy", "")); status != 429 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	hold.Store(true)
	before := u.Asked.Load()
	answered := make(chan int)
	go func() {
		status, _, _ := g.Post("/chat/completions", c, rig.Ask("m", "modest", ""))
		answered <- status
	}()
	for end := time.Now().Add(time.Minute); u.Asked.Load() == before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	status, header, answer := g.Post("/chat/completions", d, rig.Ask("m", "modest", ""))
	if wait, _ := strconv.Atoi(header.Get("Retry-After")); status != 503 || wait < 60 || wait > 90 {
		t.Errorf("beside a probe: %d, Retry-After %q: %s", status, header.Get("Retry-After"), answer)
	}
	close(probed)
	if status := <-answered; status != 429 {
		t.Errorf("the probe: %d", status)
	}
	everybody.Store(false)
	hold.Store(false)
	if status, _, answer := g.Post("/chat/completions", d, rig.Ask("m", "modest", "")); status != 200 {
		t.Errorf("the upstream is well again after half its time: %d %s", status, answer)
	}
}

// The log says why an upstream fails, for each target that was tried, without
// secrets and without the client's words.
func TestTheLogSaysWhyAnUpstreamFails(t *testing.T) {
	t.Parallel()
	const secret, prompt = "sk-live-4f9a8b7c6d5e4f3a2b1c", "the diary of a nobody in particular"
	wrongKey := rig.StartRaw(t, rig.Sends(rig.HTTPAnswer(401, "application/json",
		`{"error":{"message":"Incorrect API key provided: `+secret+
			`. Ask for another one.","code":"invalid_api_key"}}`)))
	wrongPath := rig.StartRaw(t, rig.Sends(rig.HTTPAnswer(404, "application/json", `{"detail":"Not Found"}`)))
	echoing := rig.StartRaw(t, func(c net.Conn, body string) {
		_, _ = io.WriteString(c, rig.HTTPAnswer(500, "application/json",
			`{"error":{"message":"cannot tokenize '`+prompt+`'"}}`))
	})
	const dead = "127.0.0.1:9" // no listener
	g := rig.StartGateway(t, fmt.Sprintf(`
log: { level: info, format: json, sample_above: 0 }
upstreams:
  - { name: wrong-key, base_url: %q }
  - { name: wrong-path, base_url: %q }
  - { name: echoing, base_url: %q }
  - { name: dead, base_url: "http://%s/v1" }
models:
  - id: m
    tier: unlimited
    context_tokens: 8192
    price: { input: 1, output: 2 }
    targets: [{ upstream: wrong-key }, { upstream: wrong-path, priority: 1 }, { upstream: echoing, priority: 2 }, { upstream: dead, priority: 3 }]
`, wrongKey.URL, wrongPath.URL, echoing.URL, dead))
	g.NewAccount("a", "1")
	if status, _, answer := g.Post("/chat/completions", g.Key("a"), rig.Ask("m", prompt, "")); status != 503 ||
		!strings.Contains(string(answer), "cannot be reached") {
		t.Errorf("%d %s", status, answer)
	}
	log := g.AwaitLog(`"tried":[`)
	for _, want := range []string{
		`{"upstream":"wrong-key","status":401,"error":"Incorrect API key provided: [removed]. Ask for another one."}`,
		`{"upstream":"wrong-path","status":404,"error":"Not Found"}`,
		`{"upstream":"echoing","status":500,"error":"cannot tokenize …"}`,
		`{"upstream":"dead","cause":"connect_failed","error":"connection refused"}`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	if strings.Contains(log, secret) || strings.Contains(log, "diary") {
		t.Error("a secret or a prompt is in the log")
	}
	if t.Failed() {
		t.Log(log)
	}
}

// An upstream reports the operator's empty account, wrong key or unknown model with 400. The
// client is not to blame, and gets a 503 or another target.
func TestAnEmptyAccountIsNotTheClientsFault(t *testing.T) {
	t.Parallel()
	const sentence = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to " +
		"upgrade or purchase credits."
	message := func(text string) func(net.Conn, string) {
		return rig.Sends(rig.HTTPAnswer(400, "application/json",
			`{"type":"error","error":{"type":"invalid_request_error","message":"`+text+`"}}`))
	}
	u := rig.StartRaw(t, message(sentence))
	plain := rig.StartRaw(t, message(sentence))
	good := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(`
log: { level: info, format: json, sample_above: 0 }
upstreams:
  - { name: claude, dialect: anthropic, base_url: %q }
  - { name: plain, base_url: %q }
  - { name: good, base_url: %q }
models:
  - { id: alone, tier: unlimited, context_tokens: 8192, max_completion_tokens: 99, price: { input: 1, output: 2 }, targets: [{ upstream: claude, model: claude-alone }] }
  - { id: paired, tier: unlimited, context_tokens: 8192, max_completion_tokens: 99, price: { input: 1, output: 2 }, targets: [{ upstream: claude, model: claude-paired }, { upstream: good, model: sim-chat, priority: 1 }] }
  - { id: plain, tier: unlimited, context_tokens: 8192, max_completion_tokens: 99, price: { input: 1, output: 2 }, targets: [{ upstream: plain }] }
`, u.URL, plain.URL, good.URL))
	g.NewAccount("a", "1")
	key := g.Key("a")
	for i := range 25 {
		status, _, answer := g.Post("/chat/completions", key, rig.Ask("alone", "Hello", ""))
		if status != 503 || strings.Contains(string(answer), "credit") ||
			strings.Contains(string(answer), "Anthropic") {
			t.Fatalf("request %d: %d %s", i, status, answer)
		}
		if i < 3 {
			if status, _, answer := g.Post("/chat/completions", key, rig.Ask("paired", "Hello", "")); status != 200 {
				t.Fatalf("with a standby: %d %s", status, answer)
			}
		}
	}
	// Any client could write these words elsewhere.
	u.Answer(message("messages.0.content: " + sentence))
	rig.Await(t, "the words in the middle of a message are the client's fault", func() bool {
		status, _, answer := g.Post("/chat/completions", key, rig.Ask("alone", "Hello", ""))
		if status != 400 && status != 503 { // whose probe failed leaves the next one to others for a second
			t.Fatalf("in the middle of a message: %d %s", status, answer)
		}
		return status == 400
	})
	for _, row := range []struct {
		said   string
		status int // of the upstream
		want   int
	}{
		{`{"error":{"message":"` + sentence + `","type":"invalid_request_error"}}`, 400, 503},
		{`{"error":{"message":"You exceeded your current quota.","code":"insufficient_quota"}}`, 429, 503},
		{`{"error":{"message":"The model ` + "`plain`" + ` does not exist","type":"invalid_request_error"}}`, 400, 503},
		{`{"error":{"message":"No such model","code":"model_not_found"}}`, 400, 503},
		{`{"error":{"message":"messages.0: ` + sentence + `","type":"invalid_request_error"}}`, 400, 400},
		{`{"error":{"message":"Slow down","code":"rate_limit_exceeded"}}`, 429, 429},
	} {
		plain.Answer(rig.Sends(rig.HTTPAnswer(row.status, "application/json", row.said)))
		rig.Await(t, "the upstream's words are judged", func() bool {
			status, head, answer := g.Post("/chat/completions", key, rig.Ask("plain", "Hello", ""))
			if status == 429 && head.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", row.said)
			}
			if status != row.want && status != 503 {
				t.Fatalf("%s: %d %s", row.said, status, answer)
			}
			return status == row.want
		})
	}
}

// timeouts.total is how long a client waits at most, however many targets there are. The second
// target is not blamed for the little time that the first one left.
func TestTimeLimitHoldsOverAllAttempts(t *testing.T) {
	t.Parallel()
	hangs := func(c net.Conn, _ string) { _, _ = io.Copy(io.Discard, c) }
	one, two := rig.StartRaw(t, hangs), rig.StartRaw(t, hangs)
	g := rig.StartGateway(t, fmt.Sprintf(`
log: { level: info, format: json, sample_above: 0 }
upstreams:
  - { name: one, base_url: %q, timeouts: { total: 3s } }
  - { name: two, base_url: %q, timeouts: { total: 3s } }
models:
  - { id: m, tier: unlimited, context_tokens: 8192, price: { input: 1, output: 2 }, targets: [{ upstream: one }, { upstream: two, priority: 1 }] }
`, one.URL, two.URL))
	g.NewAccount("a", "1")
	began := time.Now()
	status, _, answer := g.Post("/chat/completions", g.Key("a"), rig.Ask("m", "Hello", ""))
	if took := time.Since(began); status != 504 || took > 30*time.Second {
		t.Errorf("after %s: %d %s", took, status, answer)
	}
	if n := one.Asked.Load(); n != 1 {
		t.Errorf("the first target was asked %d times", n)
	}
	if n := two.Asked.Load(); n != 0 {
		t.Errorf("the second target was asked %d times when no time was left", n)
	}
}
