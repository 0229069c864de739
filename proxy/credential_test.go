package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// badge is a credential with a replaceable token.
type badge struct {
	line    atomic.Pointer[string]
	err     error
	refused func(q *Unproven, status int, date []byte) bool
	asked   atomic.Int32
}

func newBadge(line string) *badge {
	b := &badge{}
	b.line.Store(&line)
	return b
}

func (b *badge) AppendFields(dst []byte, q *Unproven) ([]byte, error) {
	b.asked.Add(1)
	q.Mark = uint64(b.asked.Load())
	return append(dst, *b.line.Load()...), b.err
}

func (b *badge) Refused(q *Unproven, status int, date []byte) bool {
	return b.refused != nil && b.refused(q, status, date)
}

// guarded answers 200 to requests whose head has a line, and a status to others.
func guarded(line, otherwise string) (func(net.Conn, *bufio.Reader, int), *atomic.Pointer[string]) {
	var seen atomic.Pointer[string]
	return func(c net.Conn, r *bufio.Reader, _ int) {
		for {
			head, _, err := readRequest(r)
			if err != nil {
				return
			}
			seen.Store(&head)
			answer := otherwise
			if strings.Contains(head, line+"\r\n") {
				answer = jsonAnswer(`{}`)
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}, &seen
}

const refusal = "HTTP/1.1 401 Unauthorized\r\nDate: Sun, 22 Nov 2026 21:00:00 GMT\r\nContent-Length: 2\r\n\r\n{}"

func askOnce(t *testing.T, tg *Endpoint, path string) (Result, *Exchange) {
	t.Helper()
	px := New(Options{})
	t.Cleanup(px.Close)
	x := &Exchange{}
	p := plan{endpoints: []*Endpoint{tg}, request: Request{Path: []byte(path), Body: []byte(`{"a":1}`)}}
	res := p.open(px, nil, x)
	t.Cleanup(func() { x.Close() })
	return res, x
}

func TestCredentialsAreInTheHead(t *testing.T) {
	serve, seen := guarded("Authorization: Bearer new", refusal)
	up := newUpstream(t, serve)
	b := newBadge("Authorization: Bearer new\r\nX-Amz-Date: now\r\n")
	tg := endpoint(t, up.addr, func(o *EndpointOptions) { o.Credential, o.Query = b, "api-version=2024-10-21" })
	if res, _ := askOnce(t, tg, "/chat"); res.Status != 200 {
		t.Fatalf("%+v", res)
	}
	for _, want := range []string{"POST /v1/chat?api-version=2024-10-21 HTTP/1.1\r\n", "\r\nX-Amz-Date: now\r\n"} {
		if !strings.Contains(*seen.Load(), want) {
			t.Errorf("no %q in\n%s", want, *seen.Load())
		}
	}
	if askOnce(t, tg, "/chat?alt=sse"); !strings.HasPrefix(*seen.Load(), "POST /v1/chat?alt=sse&api-version=2024-10-21 ") {
		t.Errorf("a path with a query of its own: %s", *seen.Load())
	}
}

// A token was revoked between two requests: the next request got a 401, and so did all
// others until the token expired.
func TestARefusedCredentialIsRenewedOnceAndSentAgain(t *testing.T) {
	serve, _ := guarded("Authorization: Bearer new", refusal)
	up := newUpstream(t, serve)
	b := newBadge("Authorization: Bearer old\r\n")
	var date string
	b.refused = func(q *Unproven, status int, at []byte) bool {
		date = string(at)
		next := "Authorization: Bearer new\r\n"
		b.line.Store(&next)
		return status == 401 && q.Mark == 1
	}
	tg := endpoint(t, up.addr, func(o *EndpointOptions) { o.Credential = b })
	res, _ := askOnce(t, tg, "/chat")
	if res.Status != 200 || b.asked.Load() != 2 || date != "Sun, 22 Nov 2026 21:00:00 GMT" {
		t.Errorf("%+v after %d tries, refused at %q", res, b.asked.Load(), date)
	}
}

func TestACredentialThatStaysRefusedIsTriedOnceMore(t *testing.T) {
	serve, _ := guarded("Authorization: Bearer never", refusal)
	up := newUpstream(t, serve)
	b := newBadge("Authorization: Bearer old\r\n")
	b.refused = func(*Unproven, int, []byte) bool { return true }
	res, x := askOnce(t, endpoint(t, up.addr, func(o *EndpointOptions) { o.Credential = b }), "/chat")
	if res.Status != 401 || b.asked.Load() != 2 {
		t.Errorf("%+v after %d tries", res, b.asked.Load())
	}
	if body, _, err := x.Body(nil, 100); err != nil || string(body) != "{}" {
		t.Errorf("the refusal reads %q, %v", body, err)
	}
}

func TestWithoutACredentialNothingIsSent(t *testing.T) {
	serve, _ := guarded("x", refusal)
	up := newUpstream(t, serve)
	b := newBadge("")
	b.err = errors.New("the token has expired")
	res, _ := askOnce(t, endpoint(t, up.addr, func(o *EndpointOptions) { o.Credential = b }), "/chat")
	if res.Cause != NoCredential || res.Sent || res.Err == nil || up.conns.Load() != 0 {
		t.Errorf("%+v with %d connections", res, up.conns.Load())
	}
}

// Tokens come from files and from other servers, which may lie.
func TestACredentialCannotWriteMoreThanItsLines(t *testing.T) {
	serve, _ := guarded("x", refusal)
	up := newUpstream(t, serve)
	for _, lines := range []string{
		"Authorization: Bearer x", "Authorization: Bearer x\r\n\r\nGET / HTTP/1.1\r\n", "Authorization: a\nb\r\n",
		"Bad name: x\r\n", ": x\r\n", "no colon\r\n", "A: \x00\r\n", "\r\n",
	} {
		tg := endpoint(t, up.addr, func(o *EndpointOptions) { o.Credential = newBadge(lines) })
		if res, _ := askOnce(t, tg, "/chat"); res.Cause != NoCredential {
			t.Errorf("%q: %+v", lines, res)
		}
	}
	for _, query := range []string{"a b", "a#b", "a?b", "a\r\nb", "é"} {
		if _, err := NewEndpoint(EndpointOptions{Name: "x", BaseURL: "http://h", Query: query}); err == nil {
			t.Errorf("the query %q is taken", query)
		}
	}
}

// The key of one upstream must not stay in memory that the next request, for another
// upstream, reuses.
func TestAResetExchangeHoldsNoSecret(t *testing.T) {
	serve, _ := guarded("x", refusal)
	up := newUpstream(t, serve)
	_, x := askOnce(t, endpoint(t, up.addr, func(o *EndpointOptions) { o.Credential = newBadge("A: secret\r\n") }), "/chat")
	x.Reset()
	if strings.Contains(string(x.proof[:cap(x.proof)]), "secret") || x.asks.Body != nil {
		t.Error("a secret is left")
	}
}
