package anthropic

import (
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy"
)

// A cloud gets only the betas it knows, under its own names.
func TestCloudsGetKnownMembers(t *testing.T) {
	t.Parallel()
	known := CloudBetas{"effort-2025-11-24": "effort-2025-11-24", "advanced-tool-use-2025-11-20": "tool-search"}
	for given, want := range map[string][2]string{
		"":                                       {"", ""},
		"effort-2025-11-24":                      {"effort-2025-11-24", ""},
		"advanced-tool-use-2025-11-20":           {"tool-search", ""},
		"claude-code-20250219,effort-2025-11-24": {"effort-2025-11-24", "anthropic-beta"},
		"claude-code-20250219":                   {"", "anthropic-beta"},
	} {
		c := toldOf(t, `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"a"}]}`)
		c.Form.(*messages.Form).SetBetas([][]byte{[]byte(given)})
		var r proxy.Request
		if err := (Native{}).Request(&r, c, target(c), &dialect.Scratch{}); err != nil {
			t.Fatal(err)
		}
		known.Keep(&r, c)
		if r.Further[0][1] != want[0] || (r.Further[0][0] != "") != (want[0] != "") || c.LeftOut.String() != want[1] {
			t.Errorf("%q goes out as %q, %q is left out", given, r.Further, &c.LeftOut)
		}
	}
}
