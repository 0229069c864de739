package chat

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Chat, embeddings and pictures with an Idempotency-Key (addendum 13): carried
// out once, charged once, also when clients leave and processes die.

const keyedConfig = `
log: { level: warn, format: json }
billing: { minimum_balance: 0, stream_slice_tokens: 64, drain: { time: 1s } }
limits: { failed_requests: { count: 0 }, aborted_requests: { count: 0 } }
upstreams:
  - { name: only, base_url: %s, breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
  - id: sim-embed
    type: embedding
    tier: unlimited
    embedding_dimensions: 16
    max_input_tokens: 512
    price: { input: 1 }
    targets: [{ upstream: only }]
`

func startKeyed(t *testing.T, more string) (*rig.Gateway, *rig.Simulated, string) {
	t.Helper()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(keyedConfig, sim.URL)+more)
	g.NewAccount("a", "100")
	return g, sim, g.Key("a")
}

// "The same key twice made two calls, and both were charged."
func TestKeyedInferenceIsAnsweredAgainForNothing(t *testing.T) {
	t.Parallel()
	g, sim, key := startKeyed(t, "")
	chat := rig.Ask("sim-chat", "Hello", "")
	for i, f := range []struct{ path, body, contentType string }{
		{"/chat/completions", chat, "application/json"},
		{"/chat/completions", rig.Ask("sim-chat", "Hello", `,"stream":true`), "text/event-stream"},
		{"/chat/completions", rig.Ask("sim-chat", "[[sim big=200000]]", `,"max_completion_tokens":1000`),
			"application/json"},
		{"/embeddings", `{"model":"sim-embed","input":"Hello"}`, "application/json"},
	} {
		id := fmt.Sprint("key-", i)
		status, first, answer := g.WithKey(f.path, key, id, f.body)
		if status != 200 || first.Get("Idempotent-Replayed") != "" || answer == "" {
			t.Fatalf("%s: first %d %v %.200s", f.body, status, first, answer)
		}
		charged := g.Settled()["a"].Spent
		for range 2 {
			status, again, text := g.WithKey(f.path, key, id, f.body)
			if status != 200 || again.Get("Idempotent-Replayed") != "true" || text != answer ||
				!strings.HasPrefix(again.Get("Content-Type"), f.contentType) {
				t.Errorf("%s: again %d %v, %d bytes of %d", f.body, status, again, len(text), len(answer))
			}
			if first.Get("X-Svc-Model-Id") != again.Get("X-Svc-Model-Id") || again.Get("X-Svc-Balance-Usd") == "" ||
				first.Get("X-Request-Id") == again.Get("X-Request-Id") {
				t.Errorf("%s: headers %v, then %v", f.body, first, again)
			}
		}
		if spent := g.Settled()["a"].Spent; charged == 0 || spent != charged {
			t.Errorf("%s: charged %s, and %s after repeats", f.body, charged, spent)
		}
		if status, _, text := g.WithKey(f.path, key, id, strings.Replace(f.body, "H", "J", 1)+" "); status != 400 ||
			!strings.Contains(text, "Idempotency-Key") {
			t.Errorf("%s: another body: %d %s", f.body, status, text)
		}
		if n := sim.Idle(t).Requests; n != int64(i+1) {
			t.Errorf("%s: the upstream had %d requests, not %d", f.body, n, i+1)
		}
	}
	// The same key at another endpoint is another request.
	if status, _, _ := g.WithKey("/embeddings", key, "key-0", chat); status != 400 {
		t.Errorf("a key of chat at embeddings: %d", status)
	}
	g.CLI("verify")
}

func TestConcurrentKeyedChatsAreOneCall(t *testing.T) {
	t.Parallel()
	g, sim, key := startKeyed(t, "")
	for _, more := range []string{"", `,"stream":true`} {
		sim.Reset()
		before := g.Settled()["a"].Spent
		var fresh atomic.Int64
		var answers sync.Map
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				status, header, answer := g.WithKey("/chat/completions", key, "one"+fmt.Sprint(len(more)),
					rig.Ask("sim-chat", "[[sim delay_ms=200 tokens=20]] x", more))
				if status != 200 {
					t.Errorf("answered %d %s", status, answer)
				}
				answers.Store(answer, true)
				if header.Get("Idempotent-Replayed") == "" {
					fresh.Add(1)
				}
			})
		}
		wg.Wait()
		n := 0
		answers.Range(func(any, any) bool { n++; return true })
		tokens := sim.Idle(t)
		if fresh.Load() != 1 || n != 1 || tokens.Requests != 1 {
			t.Errorf("%d carried out, %d different answers, the upstream had %d", fresh.Load(), n, tokens.Requests)
		}
		if spent, want := g.Settled()["a"].Spent-before, rig.Money(tokens.Tokens.PromptTokens*1000+
			tokens.Tokens.CompletionTokens*2000); spent != want {
			t.Errorf("charged %s, not %s", spent, want)
		}
	}
}

// A client that leaves gets its answer with its retry, charged once, wherever
// it left.
func TestKeyedChatGoesOnWithoutItsClient(t *testing.T) {
	t.Parallel()
	g, sim, key := startKeyed(t, "")
	for name, f := range map[string]struct {
		more  string
		after int // bytes of the answer
	}{"whole": {"", 0}, "stream before its head": {`,"stream":true`, 0},
		"stream in the middle": {`,"stream":true`, 300}} {
		sim.Reset()
		before := g.Settled()["a"].Spent
		id := strings.ReplaceAll(name, " ", "-")
		body := rig.Ask("sim-chat", "[[sim delay_ms=600 tokens=30 gap_ms=20]] x", f.more)
		ctx, cancel := context.WithCancel(context.Background())
		req, _ := http.NewRequestWithContext(ctx, "POST", g.URL+"/chat/completions", strings.NewReader(body))
		req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + key},
			"Idempotency-Key": {id}}
		if f.after == 0 {
			go func() {
				rig.Await(t, "the request arrives", func() bool { return sim.Stats().Open > 0 })
				cancel()
			}()
		}
		if res, err := rig.Client.Do(req); err == nil {
			_, _ = io.ReadFull(res.Body, make([]byte, f.after))
			cancel()
			_ = res.Body.Close()
		} else if f.after > 0 {
			t.Fatal(err)
		}
		cancel()
		status, header, answer := g.WithKey("/chat/completions", key, id, body)
		if status != 200 || header.Get("Idempotent-Replayed") != "true" || f.more != "" &&
			!strings.HasSuffix(answer, "data: [DONE]\n\n") {
			t.Errorf("%s: the retry got %d %v %.200s", name, status, header, answer)
		}
		tokens := sim.Idle(t)
		if spent, want := g.Settled()["a"].Spent-before, rig.Money(tokens.Tokens.PromptTokens*1000+
			tokens.Tokens.CompletionTokens*2000); tokens.Requests != 1 || spent != want {
			t.Errorf("%s: %d requests upstream, charged %s, not %s", name, tokens.Requests, spent, want)
		}
	}
	g.MetricIs("farebox_unattended_keyed", func(n float64) bool { return n == 0 })
}

// Above the limit of requests that continue for their retries, a keyed request ends like any other;
// its retry gets an error that says so, and does not cost a second time.
func TestKeyedChatThatWasLeftIsNotCarriedOutAgain(t *testing.T) {
	t.Parallel()
	g, sim, key := startKeyed(t, "idempotency: { unattended: 0 }\n")
	body := rig.Ask("sim-chat", "[[sim tokens=20 hold_after=10]] x", `,"stream":true`)
	req, _ := http.NewRequest("POST", g.URL+"/chat/completions", strings.NewReader(body))
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + key},
		"Idempotency-Key": {"k"}}
	res, err := rig.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(res.Body, make([]byte, 500))
	_ = res.Body.Close()
	g.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	spent := g.Settled()["a"].Spent
	if status, _, answer := g.WithKey("/chat/completions", key, "k", body); status != 409 ||
		!strings.Contains(answer, "IDEMPOTENT_ANSWER_NOT_KEPT") {
		t.Errorf("the retry: %d %s", status, answer)
	}
	if again := g.Settled()["a"].Spent; spent == 0 || again != spent || sim.Stats().Requests != 1 {
		t.Errorf("charged %s, then %s, %d requests upstream", spent, again, sim.Stats().Requests)
	}
}

// Errors are not kept, nor are answers beyond the limit, which are charged once.
func TestKeyedChatFailuresAndLargeAnswers(t *testing.T) {
	t.Parallel()
	g, sim, key := startKeyed(t, "idempotency: { max_answer: 2KB }\n")
	body := rig.Ask("sim-chat", "[[sim id=f status=500 fail_first=1]] x", "")
	if status, _, answer := g.WithKey("/chat/completions", key, "f",
		rig.Ask("sim-chat", "[[sim status=500]] x", "")); status < 500 {
		t.Errorf("a failure: %d %s", status, answer)
	}
	if status, header, answer := g.WithKey("/chat/completions", key, "f",
		strings.Replace(body, "status=500 fail_first=1", "tokens=5", 1)); status != 200 ||
		header.Get("Idempotent-Replayed") != "" {
		t.Errorf("after a failure the key is good for another try: %d %v %s", status, header, answer)
	}
	for _, more := range []string{"", `,"stream":true`} {
		before := g.Settled()["a"].Spent
		large := rig.Ask("sim-chat", "[[sim tokens=900]] x", more)
		if status, _, answer := g.WithKey("/chat/completions", key, "large"+fmt.Sprint(len(more)), large); status !=
			200 || len(answer) < 2<<10 {
			t.Errorf("a large answer: %d, %d bytes", status, len(answer))
		}
		spent := g.Settled()["a"].Spent
		if status, _, answer := g.WithKey("/chat/completions", key, "large"+fmt.Sprint(len(more)), large); status !=
			409 {
			t.Errorf("its repeat: %d %.200s", status, answer)
		}
		if again := g.Settled()["a"].Spent; spent == before || again != spent {
			t.Errorf("charged %s, then %s", spent-before, again-spent)
		}
	}
	sim.Idle(t)
	g.CLI("verify")
}

// Killed at random moments, with clients that leave and try again until they are
// answered: each request is charged exactly once, and gives the same answer for
// ever after.
func TestKillWithRetriesChargesKeyedChatsOnce(t *testing.T) { killKeyedChats(t, 3, "") }

func TestLongKillWithRetriesChargesKeyedChatsOnce(t *testing.T) {
	killKeyedChats(t, servers.Campaign(8), "")
}

func TestLongKillWithRetriesChargesKeyedChatsOnceOnRedis(t *testing.T) {
	r := servers.StartRedis(t)
	killKeyedChats(t, servers.Campaign(5), "redis: { addresses: [\""+r.Addr+"\"], timeout: 5s }\n")
}

func killKeyedChats(t *testing.T, rounds int, more string) {
	t.Parallel()
	g, _, key := startKeyed(t, more)
	var next, made atomic.Int64
	type kept struct{ body, answer string }
	var answers sync.Map
	stop := make(chan struct{})
	var wg sync.WaitGroup
	source := rig.Seeded(t)
	for w := range uint64(12) {
		wg.Go(func() {
			random := source(w)
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := next.Add(1)
				more := ""
				if n%2 == 0 {
					more = `,"stream":true`
				}
				id, body := fmt.Sprint("k", n), rig.Ask("sim-chat", "[[sim tokens=10 delay_ms=5 gap_ms=1]] x", more)
				for {
					c := rig.Client
					if random.IntN(4) == 0 { // it may leave early
						c = &http.Client{Timeout: time.Duration(1+random.IntN(20)) * time.Millisecond}
					}
					status, _, answer, err := rig.Try(c, g.URL+"/chat/completions", key, body, "Idempotency-Key", id)
					if err == nil && status == 200 && (more == "" || strings.HasSuffix(answer, "data: [DONE]\n\n")) {
						answers.Store(id, kept{body, answer})
						made.Add(1)
						break
					}
					if err == nil && status != 200 && status != 409 && status != 503 {
						t.Errorf("%s is answered %d %s", id, status, answer)
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	random := source(100)
	for range rounds {
		time.Sleep(time.Duration(200+random.IntN(300)) * time.Millisecond)
		g.Kill()
		g.Start()
	}
	time.Sleep(200 * time.Millisecond)
	close(stop)
	wg.Wait()
	a := g.Settled()["a"]
	each := rig.Money(0)
	answers.Range(func(id, v any) bool {
		k := v.(kept)
		status, header, answer := g.WithKey("/chat/completions", key, id.(string), k.body)
		if status != 200 || header.Get("Idempotent-Replayed") != "true" || answer != k.answer {
			t.Errorf("%v again: %d %v, the same %v", id, status, header, answer == k.answer)
		}
		return true
	})
	for _, more := range []string{"", `,"stream":true`} {
		before := g.Settled()["a"].Spent
		g.Must(200, "POST", "/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=10 delay_ms=5 gap_ms=1]] x",
			more), nil)
		if price := g.Settled()["a"].Spent - before; each != 0 && price != each {
			t.Fatalf("a stream costs %s, a whole answer %s", price, each)
		} else {
			each = price
		}
	}
	if want := each * rig.Money(made.Load()); a.Spent != want {
		t.Errorf("%d requests at %s were charged %s, not %s", made.Load(), each, a.Spent, want)
	}
	t.Logf("%d requests over %d kills", made.Load(), rounds)
	g.CLI("verify")
}
