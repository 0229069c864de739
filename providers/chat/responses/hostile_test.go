package responses

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Lists of a client's that are as long as a body has room for are read once.
func TestLongListsOfClientsAreReadOnce(t *testing.T) {
	const n = 24_000
	var tools, calls, results, searches []string
	for i := range n {
		tools = append(tools, fmt.Sprintf(`{"type":"function","name":"tool_%d","parameters":{}}`, i))
		if i < n*2/3 {
			searches = append(searches, fmt.Sprintf(`{"type":"tool_search_output","call_id":"s%d","tools":[{"type":"function","name":"found_%d"}]}`, i, i))
		}
		if i < n/2 {
			calls = append(calls, fmt.Sprintf(`{"type":"function_call","call_id":"c%d","name":"tool_%d","arguments":"{}"}`, i, n-1-i))
			results = append(results, fmt.Sprintf(`{"type":"function_call_output","call_id":"c%d","output":"x"}`, n/2-1-i))
		}
	}
	join := func(list []string) string { return strings.Join(list, ",") }
	for name, body := range map[string]string{
		"tools":           `{"model":"m","input":"hi","tools":[` + join(tools) + `]}`,
		"calls":           `{"model":"m","input":[` + join(calls) + `,` + join(results) + `]}`,
		"searches":        `{"model":"m","input":[` + join(searches) + `]}`,
		"calls and tools": `{"model":"m","input":[` + join(calls[:n/4]) + `,` + join(results[n/4:]) + `],"tools":[` + join(tools[:n/2]) + `]}`,
	} {
		var took []time.Duration // a busy machine may stall: one of three is enough
		for len(took) == 0 || len(took) < 3 && slices.Min(took) > 3*time.Second {
			began := time.Now()
			f := formOf(t, &Options{}, body)
			chatOf(t, f)
			took = append(took, time.Since(began))
		}
		if slices.Min(took) > 3*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}
