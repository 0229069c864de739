package chat

import (
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// What a translation leaves out of a request is told in a header and counted; upstreams
// that speak the client's form are sent all of it.
func TestLeftOutIsTold(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	g, key := startMessages(t, sim.URL)
	const all = `{"type":"clear_thinking_20251015","keep":"all"}`
	for _, stream := range []string{"", `"stream":true,`} {
		for model, want := range map[string]string{"own": "", "openai": "context_management", "google": "context_management"} {
			for edits, want := range map[string]string{all: "", all + `,{"type":"clear_tool_uses_20250919"}`: want} {
				status, header, answer, err := rig.Try(rig.Client, g.URL+"/messages", key, `{"model":"`+model+`","max_tokens":20,`+stream+
					`"messages":[{"role":"user","content":"hi"}],"context_management":{"edits":[`+edits+`]}}`, "anthropic-beta", claudeBetas)
				if got := header.Get("X-Svc-Left-Out"); status != 200 || got != want || err != nil {
					t.Errorf("%s %s is answered %d %s\nand tells %q, want %q", model, edits, status, answer, got, want)
				}
				if sent := string(sim.Latest(t).Body); strings.Contains(sent, edits) != (model == "own") {
					t.Errorf("%s was sent %s", model, sent)
				}
			}
		}
	}
	if n, _ := g.Metric(`farebox_left_out_total{name="context_management"}`); n != 4 {
		t.Errorf("%v were counted, want 4", n)
	}
}
