package billing

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Of many requests at once, exactly as many are admitted as the balance covers. The rest
// of their holds can be spent to the last request.
func TestBalanceForTenAdmitsTenOfSixtyFour(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	// So little that its prompt is counted, as it is where money is tight.
	g.NewAccount("tight", "0.0015")
	g.NewAccount("ten", "")
	tight, key := g.Key("tight"), g.Key("ten")

	// Every answer is held open until all 64 were decided.
	body := rig.Ask("sim-chat", "[[sim tokens=500 delay_ms=6000]] Hello", `,"max_completion_tokens":500`)
	hold := holdOf(t, g, tight, body)
	g.Credit("ten", (hold * 10).String())

	var mu sync.Mutex
	counts := map[int]int{}
	var wg sync.WaitGroup
	for range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			status, _, answer := g.Post("/chat/completions", key, body)
			mu.Lock()
			defer mu.Unlock()
			counts[status]++
			if status == 402 && !strings.Contains(string(answer), `"INSUFFICIENT_BALANCE"`) {
				t.Errorf("a 402 without its code: %s", answer)
			}
		}()
	}
	wg.Wait()
	if counts[200] != 10 || counts[402] != 54 {
		t.Errorf("64 requests at once on a balance for 10 gave %v; 10 times 200 and 54 times 402 are right", counts)
	}
	if a := g.Settled()["ten"]; a.USD < 0 || a.USD != hold*10-a.Spent {
		t.Errorf("after them the account is %+v", a)
	}
}

// holdOf is the hold of one running request, from the account list.
func holdOf(t *testing.T, g *rig.Gateway, key, body string) rig.Money {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if status, _, answer := g.Post("/chat/completions", key, body); status != 200 {
			t.Errorf("the probe was answered %d: %s", status, answer)
		}
	}()
	defer func() { <-done }()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if held := g.Accounts()["tight"].Held; held > 0 {
			return held
		}
	}
	t.Fatal("the probe never held anything")
	return 0
}

// A stream that reaches the limit of its account's money ends with an error event and
// [DONE]; it is charged to that point and the balance is not below zero.
func TestStreamEndsWhenTheMoneyDoes(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	g.NewAccount("small", "0.0012") // 1200 µUSD: 600 completion tokens less the prompts
	key := g.Key("small")

	// Each of the two could have all of it when it began.
	texts := make([]string, 2)
	var wg sync.WaitGroup
	for i := range texts {
		wg.Go(func() {
			res := g.Open("POST", "/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=900 gap_ms=2]] Go",
				`,"stream":true`))
			defer func() { _ = res.Body.Close() }()
			raw, err := io.ReadAll(res.Body)
			if texts[i] = string(raw); err != nil || res.StatusCode != 200 {
				t.Errorf("status %d, the stream did not end properly: %v", res.StatusCode, err)
			}
		})
	}
	wg.Wait()
	cut := 0
	for _, text := range texts {
		if strings.Contains(text, `"code":"insufficient_balance"`) && strings.HasSuffix(text, "data: [DONE]\n\n") {
			cut++
		}
	}
	if cut == 0 {
		t.Fatalf("neither was ended: %q, %q", rig.Last(texts[0], 400), rig.Last(texts[1], 400))
	}
	if n := strings.Count(texts[0]+texts[1], `"content":"`); n < 450 || n > 820 {
		t.Errorf("%d deltas were delivered for 1200 µUSD at 2 µUSD a token", n)
	}
	a := g.Settled()["small"]
	if a.USD < 0 || a.USD+a.Spent != 1_200_000 {
		t.Errorf("the account ends as %+v", a)
	}
	if a.USD > 100_000 {
		t.Errorf("the stream was cut with %s left", a.USD)
	}
	if status, _, answer := g.Post("/chat/completions", key,
		rig.Ask("sim-chat", strings.Repeat("more ", 200), "")); status != 402 {
		t.Errorf("the next request is answered %d: %s", status, answer)
	}
}

// Failures cost nothing and leave no hold behind.
func TestFailuresCostNothing(t *testing.T) {
	t.Parallel()
	sim, g := rig.StartPrepaid(t, "1")
	key := g.Key("a")
	for _, scenario := range []string{"status=500", "status=503", "status=429 retry_after=1", "status=400",
		"status=401", "garbage=1", "empty=1", "truncate=1", "encoding=gzip", "cut=rst cut_after=0"} {
		status, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "[[sim "+scenario+"]] x", ""))
		if status < 400 {
			t.Errorf("%s: answered %d %s", scenario, status, answer)
		}
		for _, secret := range []string{sim.URL, "127.0.0.1"} {
			if strings.Contains(string(answer), secret) {
				t.Errorf("%s: the answer shows the upstream: %s", scenario, answer)
			}
		}
	}
	if a := g.Settled()["a"]; a.Spent != 0 || a.USD != 1_000_000_000 {
		t.Errorf("failures changed the account: %+v", a)
	}
}

// A client's content outside the messages costs money, too: the hold still covers the
// largest cost of the request.
func TestHoldCoversWhatIsNotInTheMessages(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	g.NewAccount("small", "0.01")
	key := g.Key("small")
	dense := strings.Repeat("q7#", 130_000)
	for name, body := range map[string]string{
		"unknown member": rig.Ask("sim-chat", "hi", `,"x":"`+dense+`"`),
		"late text":      rig.Ask("sim-chat", strings.Repeat(" ", 66<<10)+dense, ""),
	} {
		if status, _, answer := g.Post("/chat/completions", key, body); status != 402 {
			t.Errorf("%s: %d %.200s", name, status, answer)
		}
	}
	if n := sim.Idle(t).Requests; n != 0 {
		t.Errorf("%d of them reached the upstream", n)
	}
	// A prompt that is only long in bytes fits.
	if status, _, answer := g.Post("/chat/completions", key,
		rig.Ask("sim-chat", strings.Repeat("the small river moves ", 700), `,"max_completion_tokens":16`)); status !=
		200 {
		t.Errorf("an affordable prompt is answered %d %s", status, answer)
	}
}

// Half an answer that is not a stream is free as long as nothing of it was delivered;
// delivered parts are charged.
func TestBrokenWholeAnswersCostTheDeliveredPart(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "10")
	key := g.Key("a")
	for scenario, delivered := range map[string]int64{
		"big=30000 cut=fin cut_after=5000": 0, "big=400000 cut=fin cut_after=50000": 200_000 / 4,
		"big=400000 cut=rst cut_after=50000": 64 << 10 / 4,
	} {
		before := g.Settled()["a"].Spent
		res := g.Open("POST", "/chat/completions", key, rig.Ask("sim-thinker", "[[sim "+scenario+"]] x",
			`,"max_completion_tokens":100000`))
		_, err := io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode == 200 && err == nil {
			t.Errorf("%s: delivered as complete", scenario)
		}
		spent := g.Settled()["a"].Spent - before
		if least := rig.Money(delivered * 2000 * 9 / 10); delivered == 0 && spent != 0 || spent < least ||
			spent > 200_100_000 {
			t.Errorf("%s: charged %s for about %d tokens", scenario, spent, delivered)
		}
	}
}

// A free model needs no balance; a priced one does.
func TestFreeModelNeedsNoMoney(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	g.NewAccount("empty", "")
	key := g.Key("empty")
	if status, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-free", "Hello", "")); status != 200 {
		t.Errorf("the free model answered %d: %s", status, answer)
	}
	if status, _, _ := g.Post("/chat/completions", key, rig.Ask("sim-chat", "Hello", "")); status != 402 {
		t.Errorf("the priced model answered %d without money", status)
	}
}

// A consumption limit of a key stops that key alone.
func TestKeyLimitStopsOnlyThatKey(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "1")
	tight, free := g.Key("a", "--limit-usd", "0.0001"), g.Key("a")
	refused := false
	for range 20 {
		status, _, answer := g.Post("/chat/completions", tight,
			rig.Ask("sim-chat", "Hello", `,"max_completion_tokens":20`))
		if status == 402 {
			refused = true
			if !strings.Contains(string(answer), "API_KEY_USD_SPEND_LIMIT_EXCEEDED") {
				t.Errorf("the refusal has another code: %s", answer)
			}
			break
		}
	}
	if !refused {
		t.Error("20 requests passed a key limit of 0.0001 USD")
	}
	if status, _, answer := g.Post("/chat/completions", free,
		rig.Ask("sim-chat", "Hello", `,"max_completion_tokens":20`)); status != 200 {
		t.Errorf("the other key is answered %d: %s", status, answer)
	}
	if a := g.Settled()["a"]; a.Spent > 200_000 {
		t.Errorf("the account spent %s", a.Spent)
	}
}

// A client that leaves in mid-stream is charged for the generated tokens, and its
// upstream is closed soon after.
func TestLeavingClientClosesTheUpstreamAndPays(t *testing.T) {
	t.Parallel()
	sim, g := rig.StartPrepaid(t, "1")
	key := g.Key("a")
	rig.Soon(t, closing, 500*time.Millisecond, func(try int) time.Duration {
		id := fmt.Sprint("mid-", try)
		res := g.Open("POST", "/chat/completions", key, rig.Ask("sim-chat",
			"[[sim id="+id+" tokens=50 hold_after=10]] Go", `,"stream":true`))
		r := bufio.NewReader(res.Body)
		for events := 0; events < 10; {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, `"content":"`) {
				events++
			}
		}
		left := time.Now()
		_ = res.Body.Close()
		return time.Unix(0, waitAbort(t, sim, id).NoticedNs).Sub(left)
	})
	a := g.Settled()["a"]
	tokens := sim.Idle(t).Tokens
	if want := rig.Money(tokens.PromptTokens*1000 + tokens.CompletionTokens*2000); a.Spent != want {
		t.Errorf("charged %s; the upstream produced %d prompt and %d completion tokens, which is %s", a.Spent,
			tokens.PromptTokens, tokens.CompletionTokens, want)
	}
}

// A client that leaves before the first byte closes the upstream, too, and pays
// for its prompt, which was sent. Whole answers are read on for a while.
func TestLeavingBeforeTheFirstByteCostsThePrompt(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(strings.Replace(rig.PrepaidConfig, "billing: {",
		"billing: { drain: { time: 100ms },", 1), sim.URL))
	g.NewAccount("a", "1")
	key := g.Key("a")
	began := time.Now()
	for _, stream := range []string{"false", "true"} {
		rig.Soon(t, closing, 500*time.Millisecond, func(try int) time.Duration {
			id := fmt.Sprint("early-", stream, try)
			g.Leave("/chat/completions", key, rig.Ask("sim-chat", "[[sim id="+id+" hang=1]] x", `,"stream":`+stream),
				func() bool { return sim.Stats().Open > 0 })
			left := time.Now()
			closed := time.Unix(0, waitAbort(t, sim, id).NoticedNs).Sub(left)
			if stream == "false" {
				closed -= 350 * time.Millisecond // drain.time, and the tick within which it ends
			}
			return closed
		})
	}
	tokens, a := sim.Idle(t).Tokens, g.Settled()["a"]
	least := rig.Money(tokens.PromptTokens * 1000)
	// At 60 tokens a second, all of the time.
	most := least + 5*60*2*2000 + rig.Money(time.Since(began).Microseconds())*60*2000/1_000_000
	if a.Spent < least || a.Spent > most {
		t.Errorf("charged %s for %d prompt tokens and nothing seen", a.Spent, tokens.PromptTokens)
	}
}

// closing is that of the upstream after its client left.
const closing = "closing the upstream"

func waitAbort(t *testing.T, sim *rig.Simulated, id string) upstream.Abort {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, a := range sim.Stats().Aborts {
			if a.ID == id {
				return a
			}
		}
	}
	t.Fatalf("the upstream never noticed that the client of %s left", id)
	return upstream.Abort{}
}
