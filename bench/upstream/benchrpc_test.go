package upstream

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// The prepared answers are what a node would say to the prepared requests.
func TestMeasuredNodeAnswersWhatItIsAsked(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ask := func(body []byte, into any) {
		t.Helper()
		res, err := http.Post(strings.TrimSuffix(url, "/v1")+BenchRPCPath, "application/json", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if err := json.NewDecoder(res.Body).Decode(into); err != nil || res.StatusCode != 200 {
			t.Fatalf("answered %d, %v", res.StatusCode, err)
		}
	}
	type call struct {
		ID     int             `json:"id"`
		Result json.RawMessage `json:"result"`
	}
	var one call
	ask(BenchRPCCall, &one)
	if one.ID != 1 || len(one.Result) == 0 {
		t.Errorf("a call gave %+v", one)
	}
	var many, asked []call
	ask(BenchRPCCalls, &many)
	if err := json.Unmarshal(BenchRPCCalls, &asked); err != nil {
		t.Fatal(err)
	}
	for i := range asked {
		if len(many) != len(asked) || many[i].ID != asked[i].ID {
			t.Fatalf("%d answers to %d calls; the one at %d is another's", len(many), len(asked), i)
		}
	}
	res, err := http.Post(strings.TrimSuffix(url, "/v1")+BenchRPCPath, "application/json", strings.NewReader(string(BenchRPCLogs)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n < BenchRPCLarge || n > BenchRPCLarge+BenchRPCLarge/100 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
