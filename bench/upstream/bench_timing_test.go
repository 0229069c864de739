package upstream

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// One keep-alive connection, so this is the cost of both ends in turn.
func BenchmarkBenchAnswer(b *testing.B) {
	s := New(Options{})
	url, err := s.Start()
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	body := `{"model":"bench-1k","stream":false,"messages":[{"role":"user","content":"` + strings.Repeat("x", 900) +
		`"}]}`
	request := []byte("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: " +
		"application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	b.RunParallel(func(pb *testing.PB) {
		nc, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/v1"))
		if err != nil {
			b.Error(err)
			return
		}
		defer nc.Close()
		br := bufio.NewReaderSize(nc, 8<<10)
		answer := make([]byte, len(benchAnswer))
		for pb.Next() {
			if _, err := nc.Write(request); err != nil {
				b.Error(err)
				return
			}
			if _, err := io.ReadFull(br, answer); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
