package gemini

import (
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// The operator's setting has priority over the model's name.
func TestATargetsThinkingGoesBeforeItsName(t *testing.T) {
	f := func(name, thinking, want string) {
		t.Helper()
		c := chatOf(t, `{"model":"m","reasoning_effort":"high","messages":[{"role":"user","content":"hi"}]}`)
		c.Model.Chat.MaxCompletionTokens = 0
		var r proxy.Request
		var s dialect.Scratch
		to := targetOf(c, name)
		to.Thinking = thinking
		if err := (Dialect{}).Request(&r, c, to, &s); err != nil || !strings.HasSuffix(string(r.Body), want) {
			t.Errorf("%s: %v %s", thinking, err, r.Body)
		}
	}
	f("our-mirror", "", `"parts":[{"text":"hi"}]}]}`)
	f("our-mirror", "level", `"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH"}}}`)
	f("our-mirror", "budget", `"thinkingConfig":{"includeThoughts":true,"thinkingBudget":24576}}}`)
	f("gemini-3.8-flash", "none", `"parts":[{"text":"hi"}]}]}`)
	f("gemini-3-flash", "budget", `"thinkingBudget":24576}}}`)
}
