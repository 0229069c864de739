package upstream

import (
	"bytes"
	"net"
	"testing"
	"time"
)

func FuzzScenario(f *testing.F) {
	for _, seed := range []string{"slow", "tokens=5 hold_after=3", "cut=rst,cut_after=0", "delay_ms=1e300", "tokens=-1",
		"=", "a=b=c", "split=utf8&crlf=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScenario(text)
		if err != nil {
			return
		}
		if s.Delay < 0 || s.Gap < 0 || s.Tokens.N < 0 || s.Big < 0 {
			t.Errorf("%q gives a negative scenario: %+v", text, s)
		}
	})
}

// Whatever comes over the wire, the server answers or closes; it does not
// panic and does not read past the request.
func FuzzRequest(f *testing.F) {
	body := `{"model":"sim-chat","messages":[{"role":"user","content":"hi"}],"max_tokens":2}`
	f.Add([]byte("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 78\r\n\r\n" + body))
	f.Add([]byte("POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4e\r\n" + body +
		"\r\n0\r\n\r\n"))
	f.Add([]byte("POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"))
	f.Add([]byte("GET /v1/models HTTP/1.0\r\n\r\nGET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n"))
	f.Add([]byte("POST /v1/embeddings HTTP/1.1\r\nContent-Length: -1\r\n\r\n"))
	f.Add([]byte("\r\n\r\n"))
	f.Add([]byte("X\r\n:\r\n\r\n"))
	s := New(Options{})
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.Contains(in, []byte("_ms")) || bytes.Contains(in, []byte("slow")) ||
			bytes.Contains(in, []byte("big")) || bytes.Contains(in, []byte("bench-")) {
			return // answers that take their time on purpose
		}
		client, server := net.Pipe()
		s.serveConn(server)
		_ = client.SetDeadline(time.Now().Add(5 * time.Second))
		go func() {
			_, _ = client.Write(in)
			time.Sleep(time.Millisecond)
			_ = client.Close()
		}()
		buf := make([]byte, 4096)
		for {
			if _, err := client.Read(buf); err != nil {
				break
			}
		}
		if !s.WaitIdle(5 * time.Second) {
			t.Fatalf("%q is still being answered", in)
		}
	})
}
