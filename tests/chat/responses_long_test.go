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

// BenchmarkResponsesBesideChats measures the cost of an event of /responses beside a chunk of
// a relayed chat, in processor time of the gateway: at most half as much again where
// it is translated, hardly more where it is passed through. Each is the least of the
// rounds, which the machine's other work disturbed least.
func BenchmarkResponsesBesideChats(b *testing.B) {
	sim := rig.StartUpstream(b, upstream.Options{})
	g, key := startResponses(b, sim.URL, "sdk")
	const tokens, streams, rounds = 8000, 16, 5
	for _, writes := range []string{"1", "16"} {
		b.Run("events a write: "+writes, func(b *testing.B) {
			cost := func(path, body string) float64 {
				watch := load.Watch([]int{g.PID()})
				for range streams {
					res := g.Open("POST", path, key, body)
					n, err := io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					if err != nil || res.StatusCode != 200 || n < tokens*50 {
						b.Fatalf("%s is answered %d with %d bytes, %v", path, res.StatusCode, n, err)
					}
				}
				return watch.Stop().CPUSeconds * 1e9 / streams / tokens
			}
			directive := fmt.Sprintf("[[sim tokens=%d events_per_write=%s]]", tokens, writes)
			chat, told, own := math.Inf(1), math.Inf(1), math.Inf(1)
			for b.Loop() {
				for range rounds {
					chat = min(chat, cost("/chat/completions", rig.Ask("plain", directive, `,"stream":true`)))
					told = min(told, cost("/responses", `{"model":"plain","stream":true,"input":"`+directive+`"}`))
					own = min(own, cost("/responses", `{"model":"same","stream":true,"input":"`+directive+`"}`))
				}
			}
			b.ReportMetric(chat, "ns/chunk")
			b.ReportMetric(told/chat, "x-translated")
			b.ReportMetric(own/chat, "x-passed")
		})
	}
}
