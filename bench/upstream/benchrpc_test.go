package upstream

import (
	"encoding/json"
	"io"
	"testing"
)

// The prepared answers are a node's answers to the prepared requests.
func TestMeasuredNodeAnswersItsRequests(t *testing.T) {
	t.Parallel()
	_, url := start(t, Options{})
	url += BenchRPCPath
	type call struct {
		ID     int             `json:"id"`
		Result json.RawMessage `json:"result"`
	}
	var one call
	askBench(t, url, BenchRPCCall, &one)
	if one.ID != 1 || len(one.Result) == 0 {
		t.Errorf("a call gave %+v", one)
	}
	var many, asked []call
	askBench(t, url, BenchRPCCalls, &many)
	if err := json.Unmarshal(BenchRPCCalls, &asked); err != nil {
		t.Fatal(err)
	}
	for i := range asked {
		if len(many) != len(asked) || many[i].ID != asked[i].ID {
			t.Fatalf("%d answers to %d calls; the one at %d is another's", len(many), len(asked), i)
		}
	}
	res := openBench(t, url, BenchRPCLogs)
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n < BenchRPCLarge || n > BenchRPCLarge+BenchRPCLarge/100 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
