package relay

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
)

func TestAnswersComeThroughWholeAndStreamed(t *testing.T) {
	s := upstream.New(upstream.Options{})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, stream := range []bool{false, true} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		relay, err := New(strings.TrimSuffix(url, "/v1"), stream)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = relay.Serve(ln) }()
		body := `{"model":"sim-chat@gap_ms=600","stream":` + map[bool]string{true: "true", false: "false"}[stream] +
			`,"max_completion_tokens":10,"messages":[{"role":"user","content":"hi"}]}`
		start := time.Now()
		resp, err := http.Post("http://"+ln.Addr().String()+"/v1/chat/completions", "application/json",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		head := time.Since(start)
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("stream %v: %d %v %s", stream, resp.StatusCode, err, b)
		}
		if stream && (!strings.Contains(string(b), "[DONE]") || head > 4*time.Second) {
			t.Errorf("head after %v, body %q", head, b)
		}
	}
}

func TestWrongUpstreamIsRefused(t *testing.T) {
	if _, err := New("127.0.0.1:9000", false); err == nil {
		t.Error("an address without a scheme was accepted")
	}
}
