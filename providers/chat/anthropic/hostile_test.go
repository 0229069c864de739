package anthropic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// Lists of a client's that are as long as a body has room for are read once.
func TestLongListsOfClientsAreReadOnce(t *testing.T) {
	const n = 10_000
	var calls, twins, results, ordered, tools, parts []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"f","arguments":""}}`, i))
		twins = append(twins, `{"id":"c","type":"function","function":{"name":"f","arguments":""}}`)
		results = append(results, fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":"x"}`, n-1-i))
		ordered = append(ordered, fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":"x"}`, i))
		tools = append(tools, `{"type":"custom"}`)
		parts = append(parts, `{"type":"input_audio"}`)
	}
	join := func(list []string) string { return strings.Join(list, ",") }
	turn := func(calls []string) string {
		return `"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[` + join(calls) + `]},`
	}
	for name, members := range map[string]string{
		"calls":            turn(calls) + join(results) + `]`,
		"calls in order":   turn(calls) + join(ordered) + `]`,
		"calls of one id":  turn(twins) + strings.Repeat(`{"role":"tool","tool_call_id":"c","content":"x"},`, n-1) + `{"role":"tool","tool_call_id":"c","content":"x"}]`,
		"calls of no kind": turn(tools) + `{"role":"user","content":"hi"}]`,
		"tools":            `"messages":[{"role":"user","content":"hi"}],"tools":[` + join(tools) + `]`,
		"strays":           `"messages":[{"role":"user","content":"hi"},` + join(results) + `]`,
		"no parts":         `"messages":[{"role":"user","content":[` + join(parts) + `]}]`,
	} {
		c := chatOf(t, `{"model":"m",`+members+`}`)
		var r proxy.Request
		var err error
		var took []time.Duration // a busy machine may stall: one of three is enough
		for len(took) == 0 || len(took) < 3 && slices.Min(took) > time.Second {
			r = proxy.Request{}
			began := time.Now()
			err = Dialect{}.Request(&r, c, target(c), &dialect.Scratch{})
			took = append(took, time.Since(began))
		}
		if slices.Min(took) > time.Second {
			t.Errorf("%s took %v", name, took)
		}
		if fits := strings.HasPrefix(name, "calls") && name != "calls of no kind"; (err == nil) != fits {
			t.Errorf("%s: %v", name, err)
		} else if fits && strings.Count(string(r.Body), `"type":"tool_result"`) != n {
			t.Errorf("%s lost results", name)
		}
	}
}
