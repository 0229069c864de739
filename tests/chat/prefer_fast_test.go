package chat

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/tests/rig"
)

// pair is a model with two equal targets behind a gateway. The slow one says that it
// is at work, as some do, and answers after a time.
type pair struct {
	g          *rig.Gateway
	key        string
	more       string // of a request's body
	slow, fast *rig.RawUpstream
	waitNs     atomic.Int64
}

func startPair(t *testing.T, stream bool, model string) *pair {
	p := &pair{more: `,"max_completion_tokens":8`}
	answer := func(wait func() time.Duration) func(net.Conn, string) {
		return func(c net.Conn, body string) {
			if !stream {
				time.Sleep(wait())
				rig.Sends(rig.HTTPAnswer(200, "application/json", rig.GoodAnswer))(c, body)
				return
			}
			rig.Sends(rig.SSEChunked+rig.SSEChunk(": PROCESSING\n\n"))(c, body)
			time.Sleep(wait())
			rig.Sends(rig.SSEChunk(rig.GoodChunk)+rig.SSEChunk("data: [DONE]\n\n")+"0\r\n\r\n")(c, body)
		}
	}
	if stream {
		p.more += `,"stream":true`
	}
	p.slow = rig.StartRaw(t, answer(func() time.Duration { return time.Duration(p.waitNs.Load()) }))
	p.fast = rig.StartRaw(t, answer(func() time.Duration { return 5 * time.Millisecond }))
	p.waitNs.Store(int64(2 * time.Second))
	p.g = rig.StartGateway(t, fmt.Sprintf("log: { level: warn }\nupstreams:\n  - { name: slow, base_url: %q }\n"+
		"  - { name: fast, base_url: %q }\nmodels:\n  - { id: m, tier: unlimited, context_tokens: 8192, price: { input: 1, "+
		"output: 2 }, %stargets: [{ upstream: slow }, { upstream: fast }] }\n", p.slow.URL, p.fast.URL, model))
	p.g.NewAccount("a", "100")
	p.key = p.g.Key("a")
	return p
}

// run has clients ask for a while or longer, fifty times a second at most, and counts how often each
// target was asked.
func (p *pair) run(t *testing.T, d time.Duration) (slow, fast int64) {
	t.Helper()
	slow, fast = p.slow.Asked.Load(), p.fast.Asked.Load()
	var wg sync.WaitGroup
	for range d / (20 * time.Millisecond) {
		wg.Go(func() {
			if status, _, answer := p.g.Post("/chat/completions", p.key, rig.Ask("m", "Hello", p.more)); status != 200 {
				t.Errorf("%d %s", status, answer)
			}
		})
		time.Sleep(20 * time.Millisecond)
	}
	wg.Wait()
	return p.slow.Asked.Load() - slow, p.fast.Asked.Load() - fast
}

// "One of our two providers takes two seconds longer today, and half of our customers wait for it."
// Early comments do not count as an answer.
func TestSlowTargetsLoseTheirTurns(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]bool{"whole": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startPair(t, stream, "")
			p.run(t, 3*time.Second)
			if slow, fast := p.run(t, 2*time.Second); slow*20 > slow+fast || fast < 30 {
				t.Errorf("the slow target was asked %d times, the fast one %d times", slow, fast)
			}
			labels := func(upstream string) string {
				return fmt.Sprintf(`{gen_ai_request_model="m",upstream=%q,upstream_model="m",status="2xx",streamed="%t"`,
					upstream, stream)
			}
			for _, times := range []string{"first_byte", "duration"} {
				name := "farebox_upstream_" + times + "_seconds"
				p.g.MetricIs(name+"_count"+labels("fast")+"}", func(n float64) bool { return n > 60 })
				p.g.MetricIs(name+"_count"+labels("slow")+"}", func(n float64) bool { return n > 0 })
				p.g.MetricIs(name+"_bucket"+labels("slow")+`,le="1.28"}`, func(n float64) bool { return n == 0 })
			}
		})
	}
}

// The slow target has its share again when it is fast again, and with prefer_fast
// false it always has.
func TestLongATargetThatIsFastAgainComesBack(t *testing.T) {
	t.Parallel()
	p := startPair(t, true, "")
	p.run(t, 10*time.Second)
	if slow, fast := p.run(t, 10*time.Second); slow*20 > slow+fast {
		t.Errorf("the slow target was asked %d times, the fast one %d times", slow, fast)
	}
	p.waitNs.Store(int64(5 * time.Millisecond))
	p.run(t, 40*time.Second)
	if slow, fast := p.run(t, 5*time.Second); slow*3 < slow+fast || fast*3 < slow+fast {
		t.Errorf("after its recovery the target was asked %d times, the other one %d times", slow, fast)
	}
}

// An operator who has reasons of his own for the shares gets them.
func TestWithoutPreferFastOnlyWeightsCount(t *testing.T) {
	t.Parallel()
	p := startPair(t, false, "prefer_fast: false, ")
	p.waitNs.Store(int64(300 * time.Millisecond))
	p.run(t, time.Second)
	if slow, fast := p.run(t, 3*time.Second); slow*3 < slow+fast || fast*3 < slow+fast {
		t.Errorf("the slow target was asked %d times, the fast one %d times", slow, fast)
	}
}

// A target that fails at once, and is never rested for it, is not a fast one.
func TestFailuresAreNotFast(t *testing.T) {
	t.Parallel()
	faulty := rig.StartRaw(t, rig.Sends(rig.HTTPAnswer(503, "application/json", `{"error":{"message":"busy"}}`)))
	good := rig.StartRaw(t, func(c net.Conn, body string) {
		time.Sleep(40 * time.Millisecond)
		rig.Sends(rig.HTTPAnswer(200, "application/json", rig.GoodAnswer))(c, body)
	})
	g := rig.StartGateway(t, fmt.Sprintf("log: { level: warn }\nupstreams:\n  - { name: faulty, base_url: %q, breaker: { "+
		"failures: 0 } }\n  - { name: good, base_url: %q }\nmodels:\n  - { id: m, tier: unlimited, context_tokens: 8192, "+
		"price: { input: 1, output: 2 }, targets: [{ upstream: faulty }, { upstream: good }] }\n", faulty.URL, good.URL))
	g.NewAccount("a", "100")
	key := g.Key("a")
	for range 100 {
		if status, _, answer := g.Post("/chat/completions", key, rig.Ask("m", "Hello", "")); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	if n := faulty.Asked.Load(); n > 15 {
		t.Errorf("the target that fails was asked %d of 100 times", n)
	}
	if text := g.Metrics(); !strings.Contains(text, `upstream="faulty",upstream_model="m",status="5xx",streamed="false"} `) {
		t.Errorf("no time of a failure in the metrics")
	}
}
