package messages

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Lists of a client's that are as long as a body has room for are read once.
func TestLongListsOfClientsAreReadOnce(t *testing.T) {
	const n = 10_000
	var tools, deferred, calls, results, found, blocks, gone []string
	for i := range n {
		tools = append(tools, fmt.Sprintf(`{"name":"tool_%d","input_schema":{"type":"object"}}`, i))
		deferred = append(deferred, fmt.Sprintf(`{"name":"tool_%d","input_schema":{"type":"object"},"defer_loading":true}`, i))
		calls = append(calls, fmt.Sprintf(`{"type":"tool_use","id":"c%d","name":"f","input":{}}`, i))
		results = append(results, fmt.Sprintf(`{"type":"tool_result","tool_use_id":"c%d","content":"x"}`, n-1-i))
		found = append(found, fmt.Sprintf(`{"type":"tool_reference","tool_name":"tool_%d"}`, n-1-i))
		blocks = append(blocks, `{"type":"image"}`)
		gone = append(gone, fmt.Sprintf(`{"type":"tool_removal","tool":{"type":"tool_reference","name":"tool_%d"}}`, n-1-i))
	}
	join := func(list []string) string { return strings.Join(list, ",") }
	ask := func(messages, members string) string {
		return `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}` + messages + `]` + members + `}`
	}
	for name, body := range map[string]string{
		"tools": ask("", `,"tools":[`+join(tools)+`]`),
		"calls": ask(`,{"role":"assistant","content":[`+join(calls)+`]},{"role":"user","content":[`+join(results)+`]}`, ""),
		"found": ask(`,{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[`+
			`{"type":"tool_result","tool_use_id":"c","content":[`+join(found)+`]}]}`, `,"tools":[`+join(deferred)+`]`),
		"gone":   ask(`,{"role":"system","content":[`+join(gone)+`]}`, `,"tools":[`+join(tools)+`]`),
		"blocks": ask(`,{"role":"assistant","content":[`+join(blocks)+`]}`, ""),
	} {
		var took []time.Duration // a busy machine may stall: one of three is enough
		for len(took) == 0 || len(took) < 3 && slices.Min(took) > time.Second {
			began := time.Now()
			read(t, body)
			took = append(took, time.Since(began))
		}
		if slices.Min(took) > time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}
