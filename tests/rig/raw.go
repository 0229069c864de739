package rig

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// RawUpstream answers each request with bytes as they are, and closes. It counts
// the requests.
type RawUpstream struct {
	URL    string
	Asked  atomic.Int64
	answer atomic.Pointer[func(c net.Conn, body string)]
}

// StartRaw serves such an upstream on loopback until the test ends.
func StartRaw(t testing.TB, answer func(c net.Conn, body string)) *RawUpstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	u := &RawUpstream{URL: "http://" + ln.Addr().String() + "/v1"}
	u.Answer(answer)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go u.Serve(c)
		}
	}()
	return u
}

// Answer changes all later answers.
func (u *RawUpstream) Answer(f func(c net.Conn, body string)) { u.answer.Store(&f) }

// Serve answers one connection.
func (u *RawUpstream) Serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	body, _ := io.ReadAll(req.Body)
	u.Asked.Add(1)
	(*u.answer.Load())(c, string(body))
}

// Sends answers with a text and ends the connection properly.
func Sends(text string) func(net.Conn, string) {
	return func(c net.Conn, _ string) { _, _ = io.WriteString(c, text) }
}

// Resets answers with a text and ends the connection with a RST.
func Resets(text string) func(net.Conn, string) {
	return func(c net.Conn, _ string) {
		_, _ = io.WriteString(c, text)
		time.Sleep(20 * time.Millisecond) // a RST overtakes unread bytes
		_ = c.(*net.TCPConn).SetLinger(0)
	}
}

// HTTPAnswer is a whole answer whose length is right unless it gets another.
func HTTPAnswer(status int, kind, body string, more ...string) string {
	length := "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	if strings.Contains(strings.Join(more, ""), "Content-Length") {
		length = ""
	}
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: %s\r\n%s%sConnection: close\r\n\r\n%s",
		status, kind, length, strings.Join(more, ""), body)
}

// Answers of a good chat upstream: whole, and the parts of a stream.
const (
	GoodAnswer = `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"four"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`
	GoodChunk  = `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"four"},"finish_reason":null}]}` + "\n\n"
	SSEChunked = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: " +
		"close\r\n\r\n"
)

func SSEChunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
