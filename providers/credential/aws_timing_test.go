package credential

import (
	"fmt"
	"testing"

	"github.com/rs/zerolog"

	"farebox/config"
	"farebox/proxy"
)

// The cost of a signature for a request beside a key in a fixed header: the hash of the
// body, about 0.7 µs a KB, and some 10 µs for the rest.
func BenchmarkSignature(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10, 1 << 20} {
		for _, session := range []string{"", "with a session token"} {
			b.Run(fmt.Sprintf("%d KB %s", size>>10, session), func(b *testing.B) {
				s := suiteSpec()
				if session != "" {
					s.SessionToken = config.Secret("session")
				}
				g := newSigner(s, zerolog.Nop())
				defer g.Close()
				q := proxy.Unproven{Method: "POST", Host: "bedrock-runtime.us-east-1.amazonaws.com", Prefix: "/openai/v1",
					Path: []byte("/chat/completions"), Body: make([]byte, size),
					Patches: []proxy.Patch{{From: 9, To: 20, With: []byte(`"openai.gpt-oss-120b-1:0"`)}}}
				dst := make([]byte, 0, 4096)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := g.AppendFields(dst, &q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A kept token is copied.
func TestAKeptTokenIsShownWithoutAllocating(t *testing.T) {
	k := newTokenCache(bearerSpec(), &endpointOf{life: 3600e9}, zerolog.Nop())
	defer k.Close()
	dst, q := make([]byte, 0, 4096), &proxy.Unproven{}
	if n := testing.AllocsPerRun(100, func() { _, _ = k.AppendFields(dst, q) }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
