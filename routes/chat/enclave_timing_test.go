//go:build !race && unix

package chat_test

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"farebox/bench/upstream/enclave"
	"farebox/routes"
	"farebox/routes/chat"
	"farebox/routes/routestest"
)

// BenchmarkEncryptedEvents measures the cost of a stream's event that arrives alone, as
// tokens do: in the clear, in the clear from an enclave, and sealed, all of one length.
// The time is the processor time of the whole process, so the upstream's and the client's
// share is in all three.
func BenchmarkEncryptedEvents(b *testing.B) {
	one, err := enclave.New(enclave.Options{})
	if err != nil {
		b.Fatal(err)
	}
	client, err := enclave.NewClient()
	if err != nil {
		b.Fatal(err)
	}
	seal := func(key, text string) string {
		sealed, err := client.Seal(key, text)
		if err != nil {
			b.Fatal(err)
		}
		return sealed
	}
	event := []byte(strings.Replace(eventText, " word", seal(client.Public(), "word"), 1))
	for name, row := range map[string]struct{ config, head string }{
		"plain": {"", ""},
		"tee":   {"tee: {}", ""},
		"e2ee": {"tee: {}", "X-Svc-TEE-Client-Pub-Key: " + client.Public() + "\r\nX-Svc-TEE-Model-Pub-Key: " + one.Public() +
			"\r\nX-Svc-TEE-Signing-Algo: ecdsa\r\n"},
	} {
		b.Run(name, func(b *testing.B) {
			more, id := make(chan int), "e2ee-m"
			if row.config == "" {
				id = "m"
			}
			up := paced(b, event, more)
			config := strings.NewReplacer("id: m", "id: "+id+"\n    max_completion_tokens: 10000000",
				"context_tokens: 128000", "context_tokens: 10000000",
				"targets:", row.config+"\n    targets:").Replace(allocConfig)
			k := &known{proven: map[string]string{one.Public(): "only"}, away: map[string]bool{}}
			rig := routestest.Start(b, config, up, chat.New(nil, nil, k))
			conn, err := net.Dial("tcp", rig.Address)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			body := `{"model":"` + id + `","stream":true,"max_completion_tokens":10000000,"messages":[{"role":"user",` +
				`"content":"` + seal(one.Public(), "Hello") + `"}]}`
			if _, err := io.WriteString(conn, "POST "+routes.Prefix+"/chat/completions HTTP/1.1\r\nHost: x\r\n"+
				"Content-Type: application/json\r\nAuthorization: Bearer "+rig.Secret+"\r\n"+row.head+
				"Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body); err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, 1<<16)
			next := func() {
				more <- 1
				for n := 0; !bytes.HasSuffix(buf[:n], []byte("\n\n\r\n")); {
					m, err := conn.Read(buf[n:])
					if err != nil {
						b.Fatal(err)
					}
					n += m
				}
			}
			for range 2000 {
				next()
			}
			b.ResetTimer()
			before := processor()
			for range b.N {
				next()
			}
			b.ReportMetric(float64(processor()-before)/float64(b.N), "cpu-ns/event")
		})
	}
}

// processor is the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // a figure of 0 is seen
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// paced is an upstream that sends one event for each value of more.
func paced(b *testing.B, event []byte, more <-chan int) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ln.Close() })
	chunk := append([]byte(strconv.FormatInt(int64(len(event)), 16)+"\r\n"), append(event, "\r\n"...)...)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		_, _ = c.Read(make([]byte, 64<<10))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-E2EE-Applied: true\r\nContent-Type: text/event-stream\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n")
		for range more {
			_, _ = c.Write(chunk)
		}
	}()
	return ln.Addr().String()
}
