package chat

import (
	"fmt"
	"io"
	"math"
	"testing"

	"farebox/bench/load"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// A stream of chunks that becomes one of events costs at most half as much again as
// one that is relayed, and one that is passed through hardly more.
func TestLongResponsesCostLittleMoreThanChats(t *testing.T) {
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	const tokens, streams, least, most = 8000, 2, 20, 150
	for _, writes := range []string{"1", "16"} {
		cost := func(path, body string) float64 {
			watch := load.Watch([]int{g.PID()})
			for range streams {
				res := g.Open("POST", path, key, body)
				n, err := io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != 200 || n < tokens*50 {
					t.Fatalf("%s is answered %d with %d bytes, %v", path, res.StatusCode, n, err)
				}
			}
			return watch.Stop().CPUSeconds * 1e9 / streams / tokens
		}
		directive := fmt.Sprintf("[[sim tokens=%d events_per_write=%s]]", tokens, writes)
		// The least of each is what the machine's other work disturbed least.
		chat, told, own := math.Inf(1), math.Inf(1), math.Inf(1)
		for n := 1; n <= most && (n <= least || told > 1.5*chat || own > 1.1*chat); n++ {
			chat = min(chat, cost("/chat/completions", rig.Ask("plain", directive, `,"stream":true`)))
			told = min(told, cost("/responses", `{"model":"plain","stream":true,"input":"`+directive+`"}`))
			own = min(own, cost("/responses", `{"model":"same","stream":true,"input":"`+directive+`"}`))
		}
		t.Logf("%s events a write: chat %.0f ns, translated %.0f (%.2f), passed through %.0f (%.2f)", writes, chat, told,
			told/chat, own, own/chat)
		if told > 1.5*chat || own > 1.1*chat {
			t.Errorf("%s events a write: translated is above 1.5 times a chat, or passed through above 1.1", writes)
		}
	}
}
