package anthropic

import (
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// A client that takes the model for another one asks for thoughts in a way that the model
// refuses; it is asked in its own.
func TestModelsAreAskedToThinkInTheirOwnWay(t *testing.T) {
	t.Parallel()
	const (
		adaptive = `"thinking":{"type":"adaptive"}`
		budget   = `"thinking":{"type":"enabled","budget_tokens":4000}`
		disabled = `"thinking":{"type":"disabled"}`
		high     = `"output_config":{"effort":"high"}`
		both     = `"output_config":{"effort":"max","format":{"type":"json_schema","schema":{"type":"object"}}}`
		format   = `"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`
		told     = "thinking.budget_tokens"
	)
	for _, f := range []struct{ model, in, out, left string }{
		{"claude-opus-4-8", adaptive + "," + high, adaptive + "," + high, ""},
		{"claude-opus-4-8", budget, `"thinking":{"type":"adaptive","display":"summarized"}`, told},
		{"claude-sonnet-4-6", budget, budget, ""},
		{"claude-sonnet-4-5", adaptive + "," + high, `"thinking":{"type":"enabled","budget_tokens":4000}`, "output_config.effort"},
		{"claude-sonnet-4-5", high + "," + adaptive, `"thinking":{"type":"enabled","budget_tokens":4000}`, "output_config.effort"},
		{"claude-sonnet-4-5", both, format, "output_config.effort"},
		{"claude-opus-4-5", adaptive + "," + both, `"thinking":{"type":"enabled","budget_tokens":4750},` + strings.Replace(both, "max", "high", 1), "output_config.effort"},
		{"claude-3-haiku", adaptive + "," + high, "", "output_config.effort, thinking"},
		{"claude-3-haiku", budget, "", "thinking"},
		{"claude-opus-5-5", disabled, "", "thinking"},
		{"claude-sonnet-5-5", disabled, `"thinking":{"type":"between_tools"}`, "thinking.type"},
		{"claude-opus-4-8", disabled, disabled, ""},
		{"glm-5", adaptive + "," + high, adaptive + "," + high, ""},
	} {
		if f.out != "" {
			f.out = "," + f.out
		}
		const turns = `"messages":[{"role":"user","content":"a"}]`
		c := toldOf(t, `{"model":"m","max_tokens":5000,`+f.in+`,`+turns+`}`)
		c.AskedCompletion, c.MaxCompletion = 5000, 5000
		got, want := sentTo(t, c, f.model), `{"model":"`+f.model+`","max_tokens":5000`+f.out+`,`+turns+`}`
		if got != want || c.LeftOut.String() != f.left {
			t.Errorf("%s %s\n got %s\nwant %s\nleft %s, want %s", f.model, f.in, got, want, &c.LeftOut, f.left)
		}
	}
	// Calls whose thoughts are another maker's are not thought on, nor is there always room.
	call := func(before string) string {
		return `{"role":"user","content":"a"},{"role":"assistant","content":[` + before + `{"type":"tool_use","id":"t","name":"f","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}`
	}
	for turns, thinks := range map[string]bool{
		call(""): false, call(`{"type":"redacted_thinking","data":"fbx1.e30"},`): false, call(`{"type":"text","text":"so"},`): false,
		call(`{"type":"thinking","thinking":"x","signature":"c2ln"},`): true,
		`{"role":"user","content":"a"}`:                                true,
	} {
		c := toldOf(t, `{"model":"m","max_tokens":5000,`+adaptive+`,"messages":[`+turns+`]}`)
		for most, room := range map[int64]bool{5000: true, 2000: false} {
			c.AskedCompletion, c.MaxCompletion = 5000, most
			if got := sentTo(t, c, "claude-sonnet-4-5"); strings.Contains(got, `"enabled"`) != (thinks && room) || strings.Contains(got, "adaptive") {
				t.Errorf("%s with %d tokens\nis %s", turns, most, got)
			}
		}
	}
}

// sentTo is the body that a model of that name gets of a client's own.
func sentTo(t testing.TB, c *dialect.Chat, model string) string {
	t.Helper()
	to := target(c)
	to.Name, to.Quoted = model, []byte(`"`+model+`"`)
	var r proxy.Request
	if err := (Native{}).Request(&r, c, to, &dialect.Scratch{}); err != nil {
		t.Fatal(err)
	}
	out := proxy.AppendPatched(nil, r.Body, r.Patches)
	if !dialect.IsObject(out) {
		t.Fatalf("%s becomes %s", c.Told, out)
	}
	return string(out)
}
