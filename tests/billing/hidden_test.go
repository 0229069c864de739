package billing

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// A model that thinks 100,000 tokens in silence and then says 40 words cost a customer with 0.15
// USD one slice, and the operator the rest: 64 streams had 15.01 USD worth of answers for 0.15.
// Possible thoughts are held, so that the upstream is asked for no more than the money covers.
func TestThoughtsThatNobodySeesAreHeldAndPaid(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"inside", "beside", "total"} {
		for _, stream := range []string{"true", "false"} {
			t.Run("thoughts are counted "+how+" the usage where stream is "+stream, func(t *testing.T) {
				t.Parallel()
				sim := rig.StartUpstream(t, upstream.Options{})
				g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
				const balance = rig.Money(150_000_000)
				g.NewAccount("a", balance.String())
				key := g.Key("a")
				body := rig.Ask("sim-thinker", "[[sim tokens=40 hidden=100000 think_ms=200 hidden_in="+how+"]] Go",
					`,"stream":`+stream)
				var wg sync.WaitGroup
				for range 16 {
					wg.Go(func() { g.Post("/chat/completions", key, body) })
				}
				wg.Wait()
				tokens, a := sim.Idle(t).Tokens, g.Settled()["a"]
				worth := rig.Money(tokens.PromptTokens*1000 + tokens.CompletionTokens*2000)
				if a.USD < 0 || a.Spent > balance || a.Spent != worth {
					t.Errorf("charged %s for usage worth %s; the account is %+v", a.Spent, worth, a)
				}
				if a.Spent < balance*9/10 {
					t.Errorf("only %s of %s could be spent", a.Spent, balance)
				}
			})
		}
	}
}

// A key limit of 0.05 USD on a rich account let 5.00 through.
func TestKeyLimitHoldsForThoughtsThatNobodySees(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	g.NewAccount("rich", "100")
	key := g.Key("rich", "--limit-usd", "0.05")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			g.Post("/chat/completions", key, rig.Ask("sim-thinker", "[[sim tokens=40 hidden=100000 think_ms=100]] Go",
				`,"stream":true`))
		})
	}
	wg.Wait()
	tokens := sim.Idle(t).Tokens
	if a := g.Settled()["rich"]; a.Spent > 50_000_000 || a.Spent !=
		rig.Money(tokens.PromptTokens*1000+tokens.CompletionTokens*2000) {
		t.Errorf("charged %s with a limit of 0.05, for %+v", a.Spent, tokens)
	}
}

// 400 visible words, then closed before the usage: 0.004 was charged where the
// same answer read to its end costs 0.2. Models that may think unseen, and
// whole answers, are read to their end without their client.
func TestLeavingBeforeTheUsageCostsTheSame(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"true", "false"} {
		t.Run("leaving where stream is "+stream, func(t *testing.T) {
			t.Parallel()
			sim := rig.StartUpstream(t, upstream.Options{})
			g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
			g.NewAccount("a", "10")
			key := g.Key("a")
			res := make(chan struct{})
			go func() {
				defer close(res)
				left := openAndLeave(t, g, sim, key, rig.Ask("sim-thinker",
					"[[sim tokens=400 hidden=90000 gap_ms=2 delay_ms=500]] Go",
					`,"max_completion_tokens":100000,"stream":`+stream), 300*time.Millisecond)
				if !left {
					t.Error("it did not leave")
				}
			}()
			<-res
			tokens := sim.Idle(t).Tokens
			eventuallySpent(t, g, rig.Money(tokens.PromptTokens*1000+tokens.CompletionTokens*2000))
			if tokens.CompletionTokens != 90400 {
				t.Errorf("the upstream produced %d tokens", tokens.CompletionTokens)
			}
		})
	}
}

// Without a free place to read on, hidden tokens are estimated: the elapsed time at the
// model's pace.
func TestLeavingWithoutADrainPlaceCostsAnEstimate(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(strings.Replace(rig.PrepaidConfig, "billing: {",
		"billing: { drain: { streams: 1, time: 20s },", 1), sim.URL))
	t.Cleanup(sim.Close) // at the end, do not wait for the stream that has the place
	g.NewAccount("a", "10")
	key := g.Key("a")
	begin := time.Now()
	for i := range 2 {
		openAndLeave(t, g, sim, key, rig.Ask("sim-thinker", fmt.Sprintf("[[sim id=d%d hang=1]] Go", i), `,"stream":true`),
			1200*time.Millisecond)
	}
	var spent rig.Money
	for end := time.Now().Add(time.Minute); time.Now().Before(end) &&
		spent == 0; time.Sleep(20 * time.Millisecond) {
		spent = g.Accounts()["a"].Spent
	}
	// At 60 tokens a second and 2 µUSD a token, and the prompt. A busy gateway may take its time to see that they left.
	most := 100_000 + rig.Money(time.Since(begin).Microseconds())*60*2000/1_000_000
	if spent < 140_000 || spent > most {
		t.Errorf("charged %s, expected at most %s", spent, most)
	}
}

// openAndLeave sends a request and closes its connection a while after it reached its upstream.
func openAndLeave(t *testing.T, g *rig.Gateway, sim *rig.Simulated, key, body string, after time.Duration) bool {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.Origin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	open := sim.Stats().Open
	_, _ = fmt.Fprintf(conn,
		"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: "+
			"application/json\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
	rig.Await(t, "the request arrives", func() bool { return sim.Stats().Open > open })
	_ = conn.SetReadDeadline(time.Now().Add(after))
	_, err = io.Copy(io.Discard, conn)
	return err != nil
}

func eventuallySpent(t *testing.T, g *rig.Gateway, want rig.Money) {
	t.Helper()
	var got rig.Money
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = g.Accounts()["a"].Spent; got == want {
			return
		}
	}
	t.Errorf("charged %s, expected %s", got, want)
}

// Text in members that are read no further was free, and so was text beside a
// usage that names none of it.
func TestTextIsPaidWhereverItStands(t *testing.T) {
	t.Parallel()
	sim, g := rig.StartPrepaid(t, "10")
	key := g.Key("a")
	for _, lie := range []string{
		"usage=none said_in=array", "usage=none said_in=function_call", "usage=none said_in=audio",
		"usage=none said_in=refusal", "usage=none said_in=unknown",
		"usage=zero", "usage=negative", "usage=less", "usage=contradict", "usage=early", "usage=none",
		"usage=totalonly",
	} {
		for _, stream := range []string{"true", "false"} {
			before, made := g.Settled()["a"].Spent, sim.Idle(t).Tokens
			g.Post("/chat/completions", key, rig.Ask("sim-thinker", "[[sim tokens=600 "+lie+"]] Go",
				`,"max_completion_tokens":2000,"stream":`+stream))
			time.Sleep(150 * time.Millisecond) // eight texts a second beside a usage are counted whole, others are sampled
			now := sim.Idle(t).Tokens
			worth := rig.Money((now.PromptTokens-made.PromptTokens)*1000 +
				(now.CompletionTokens-made.CompletionTokens)*2000)
			if spent := g.Settled()["a"].Spent - before; spent < worth*95/100 || spent > worth*105/100 {
				t.Errorf("%s, stream %s: charged %s for usage worth %s", lie, stream, spent, worth)
			}
		}
	}
}

// A cap that an upstream ignores bounds the charge; a claim above the cap is not
// believed, and an answer that goes on is ended as the model should have ended it.
func TestNothingAboveTheCapIsCharged(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "10")
	key := g.Key("a")
	for _, c := range []struct {
		lie   string
		ended bool
	}{{"tokens=5000 ignore_cap=1", true}, {"tokens=5000 ignore_cap=1 usage=none", true},
		{"tokens=20 usage=huge", false}, {"tokens=20 usage=over", false}} {
		for _, model := range []string{"sim-chat", "sim-thinker"} {
			before := g.Settled()["a"].Spent
			_, _, answer := g.Post("/chat/completions", key,
				rig.Ask(model, "[["+"sim "+c.lie+"]] Go", `,"max_completion_tokens":300,"stream":true`))
			if spent := g.Settled()["a"].Spent - before; spent > 300*2000+8192*1000 || c.ended && spent < 300*2000 {
				t.Errorf("%s of %s: charged %s", c.lie, model, spent)
			}
			if n := bytes.Count(answer, []byte(`"content":"`)); n > 300*9/8+350 {
				t.Errorf("%s of %s: %d tokens were delivered", c.lie, model, n)
			}
			if n := bytes.Count(answer, []byte(`"finish_reason":"length"`)); c.ended && n != 1 ||
				bytes.Contains(answer, []byte(`"upstream_error"`)) || !bytes.HasSuffix(answer, []byte("data: [DONE]\n\n")) {
				t.Errorf("%s of %s ends %s", c.lie, model, rig.Last(string(answer), 300))
			}
		}
	}
}

// A client whose upstream reports no usage gets the usage that is charged.
func TestClientsSeeTheUsageThatIsCharged(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "10")
	key := g.Key("a")
	for _, stream := range []string{"true", "false"} {
		for _, usage := range []string{"none", "null"} {
			before := g.Settled()["a"].Spent
			_, _, answer := g.Post("/chat/completions", key,
				rig.Ask("sim-chat", "[[sim tokens=30 usage="+usage+"]] Go", `,"stream":`+stream))
			spent := g.Settled()["a"].Spent - before
			var prompt, completion int64
			for line := range bytes.Lines(answer) {
				if at := bytes.Index(line, []byte(`"usage":{"prompt_tokens":`)); at >= 0 {
					if _, err := fmt.Fscanf(bufio.NewReader(bytes.NewReader(line[at:])),
						`"usage":{"prompt_tokens":%d,"completion_tokens":%d`, &prompt, &completion); err != nil {
						t.Errorf("%s: %v", line, err)
					}
				}
			}
			if completion != 30 || spent != rig.Money(prompt*1000+completion*2000) {
				t.Errorf("stream %s, usage %s: charged %s, sent %d and %d", stream, usage, spent, prompt, completion)
			}
		}
	}
}

// An upstream that adds a prompt of its own is charged within prompt_overhead, and
// the client reads the usage that is charged.
func TestPromptsThatUpstreamsAddAreChargedAsConfigured(t *testing.T) {
	t.Parallel()
	for _, overhead := range []string{"0", "30000"} {
		told := rig.HTTPAnswer(200, "application/json", `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[`+
			`{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20000,"completion_tokens":2,"total_tokens":20002}}`)
		u := rig.StartRaw(t, func(c net.Conn, body string) {
			if strings.Contains(body, `"stream":true`) {
				rig.Sends(rig.HTTPAnswer(200, "text/event-stream",
					`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`+"\n\n"+
						`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":20000,"completion_tokens":2,"total_tokens":20002}}`+
						"\n\ndata: [DONE]\n\n"))(c, body)
				return
			}
			rig.Sends(told)(c, body)
		})
		g := rig.StartGateway(t, fmt.Sprintf(`
upstreams: [{ name: u, base_url: %q }]
models:
  - { id: m, tier: unlimited, context_tokens: 100000, max_completion_tokens: 100, prompt_overhead: %s, price: { input: 1, output: 2 }, targets: [{ upstream: u }] }
`, u.URL, overhead))
		g.NewAccount("a", "5")
		key := g.Key("a")
		for _, stream := range []string{"false", "true"} {
			before := g.Settled()["a"].Spent
			_, _, answer := g.Post("/chat/completions", key, rig.Ask("m", "Hello", `,"stream":`+stream))
			spent := g.Settled()["a"].Spent - before
			at := bytes.LastIndex(answer, []byte(`"prompt_tokens":`))
			prompt := int64(0)
			if _, err := fmt.Sscanf(string(answer[max(at, 0):]), `"prompt_tokens":%d`, &prompt); err != nil ||
				spent != rig.Money(prompt*1000+2*2000) || (prompt == 20000) != (overhead == "30000") || prompt > 20000 ||
				bytes.Count(answer, []byte(`"prompt_tokens"`)) != 1 {
				t.Errorf("overhead %s, stream %s: charged %s, reported %s (%v)", overhead, stream, spent, answer, err)
			}
		}
	}
}

// 256 at once on a balance for 10 of them: 3 were served and 1.40 of 2.00 USD
// were left, since the first kept one token a byte of a prompt.
func TestMoneyThatIsThereIsNotRefused(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	body := rig.Ask("sim-thinker", "[[sim tokens=1000 think_ms=400]] "+strings.Repeat("the small river moves past ",
		400), `,"max_completion_tokens":1000`)
	g.NewAccount("rich", "10")
	g.Post("/chat/completions", g.Key("rich"), body)
	one := g.Settled()["rich"].Spent
	g.NewAccount("a", (one * 10).String())
	key := g.Key("a")
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() { g.Post("/chat/completions", key, body) })
	}
	wg.Wait()
	// The rest after the first ones' exact charge serves later ones.
	for range 10 {
		g.Post("/chat/completions", key, body)
	}
	if a := g.Settled()["a"]; a.USD < 0 || a.Spent < one*10*98/100 {
		t.Errorf("%s of %s could be spent: %+v", a.Spent, one*10, a)
	}
}

// "Insufficient balance to cover this request" was the answer to an account
// that could cover it and has less than the minimum.
func TestRefusalNamesTheMinimum(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(strings.Replace(rig.PrepaidConfig, "minimum_balance: 0,",
		"minimum_balance: 0.25,", 1), sim.URL))
	g.NewAccount("a", "0.2")
	status, _, answer := g.Post("/chat/completions", g.Key("a"), rig.Ask("sim-chat", "Hello", ""))
	if status != 402 || !bytes.Contains(answer, []byte("below the minimum of 0.25 USD")) ||
		!bytes.Contains(answer, []byte("INSUFFICIENT_BALANCE")) {
		t.Errorf("%d %s", status, answer)
	}
}

// A short balance lowered the cap of an answer without a word.
func TestLoweredCapIsReported(t *testing.T) {
	t.Parallel()
	sim, g := rig.StartPrepaid(t, "0.01")
	key := g.Key("a")
	for _, stream := range []string{"true", "false"} {
		res := g.Open("POST", "/chat/completions", key, rig.Ask("sim-thinker", "[[sim tokens=20]] x",
			`,"max_completion_tokens":90000,"stream":`+stream))
		_ = rig.ReadAll(t, res)
		if told := res.Header.Get("X-Svc-Max-Completion-Tokens"); told == "" ||
			!strings.Contains(string(sim.Latest(t).Body), `"max_completion_tokens":`+told) {
			t.Errorf("stream %s: reported %q, sent %s", stream, told, sim.Latest(t).Body)
		}
	}
}
