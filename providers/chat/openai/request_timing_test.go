package openai

import (
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// BenchmarkDrops is the making of an upstream request that goes out as it
// came, with and without a list of members that are not sent.
func BenchmarkDrops(b *testing.B) {
	turn := `{"role":"user","content":"hello"},{"role":"assistant","content":"hi"},`
	for name, turns := range map[string]int{"1 message": 0, "41 messages": 20} {
		c := chatOf(b, `{"model":"m","messages":[`+strings.Repeat(turn, turns)+
			`{"role":"user","content":"hi"}],"temperature":0.5}`)
		for list, drops := range map[string][]string{"": nil, ", drops": append(testDrops, config.DropCacheTTL)} {
			b.Run(name+list, func(b *testing.B) {
				target := targetOf(c.Model, "m", config.Quirks{})
				target.Upstream.Config.Drop = drops
				target.Upstream.SetDrops(testShape)
				for range 32 - len(target.Upstream.Drops) {
					if drops != nil {
						target.Upstream.Drops = append(target.Upstream.Drops, target.Upstream.Drops[0])
					}
				}
				var r proxy.Request
				var s dialect.Scratch
				b.ReportAllocs()
				for b.Loop() {
					_ = Dialect{}.Request(&r, c, target, &s)
				}
			})
		}
	}
}
