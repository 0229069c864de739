package upstream

import (
	"strings"
	"testing"
)

// "Through a gateway that re-encodes requests, the simulated upstream took the slow path and was measured, too."
func TestTheMeasuredPathIsFoundInReEncodedBodies(t *testing.T) {
	long := strings.Repeat("x", 2*benchLook)
	f := func(body, model string, streams bool) {
		t.Helper()
		got, ok := benchModel([]byte(body))
		if got != model || !ok {
			t.Errorf("%.40s…: model %q, %v", body, got, ok)
		}
		if benchStreams([]byte(body)) != streams {
			t.Errorf("%.40s…: stream is not %v", body, streams)
		}
	}
	f(`{"model":"bench-1k","stream":true,"messages":[]}`, "bench-1k", true)
	f(`{"model": "bench-1k", "stream": true, "messages": []}`, "bench-1k", true)
	f(`{"model": "bench-1k", "stream": false, "messages": []}`, "bench-1k", false)
	f(`{"messages":[{"role":"user","content":"`+long+`"}],"model":"bench-sse","stream":true}`, "bench-sse", true)
	f(`{"messages":[{"role":"user","content":"`+long+`"}],"model":"bench-sse"}`, "bench-sse", false)
	for _, body := range []string{`{"model":"sim-chat","messages":[{"role":"user","content":"\"model\":\"bench-1k\""}]}`, `{"model":"gpt"}`, `bench-`} {
		if model, ok := benchModel([]byte(body)); ok {
			t.Errorf("%s is measured as %q", body, model)
		}
	}
}
