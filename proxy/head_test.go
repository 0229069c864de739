package proxy

import (
	"strings"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := func(value string, want time.Duration) {
		t.Helper()
		var h head
		if err := h.parse([]byte("HTTP/1.1 429 x\r\nRetry-After: "+value+"\r\n\r\n"), now); err != nil ||
			h.retryAfter != want {
			t.Errorf("%q: %s %v, want %s", value, h.retryAfter, err, want)
		}
	}
	f("0", 0)
	f("17", 17*time.Second)
	f("-5", 0)
	f("1.5", 0)
	f("soon", 0)
	f("", 0)
	f("99999999999999999999", 0)
	f("9999999999", maxRetryAfter)
	f("Fri, 02 Jan 2026 03:04:35 GMT", 30*time.Second)
	f("Fri, 02 Jan 2026 03:04:00 GMT", 0)
	f("Friday, 02-Jan-26 03:05:05 GMT", time.Minute)
	f("Mon, 02 Jan 2126 03:04:35 GMT", maxRetryAfter)
}

// Nothing that reaches a request head can add a line to it.
func TestRequestHeadsCannotBeInjected(t *testing.T) {
	tg, err := NewEndpoint(EndpointOptions{BaseURL: "https://h:8443/a%20b/"})
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	f := func(r Request, size int, want string) {
		t.Helper()
		b, ok := tg.appendHead(nil, &r, int64(size), nil)
		if ok != (want != "") || ok && string(b) != want {
			t.Errorf("%+v: %v %q", r, ok, b)
		}
	}
	const fields = " HTTP/1.1\r\nHost: h:8443\r\nUser-Agent: farebox/1\r\nAccept-Encoding: identity\r\n"
	f(Request{}, 0, "GET /a%20b"+fields+"Accept: */*\r\n\r\n")
	f(Request{Path: []byte("/models"), Accept: "a/b"}, 0, "GET /a%20b/models"+fields+"Accept: a/b\r\n\r\n")
	f(Request{Method: "DELETE", Path: []byte("/x")}, 0, "DELETE /a%20b/x"+fields+
		"Accept: */*\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n")
	f(Request{Body: []byte("12"), Type: "text/plain"}, 2, "POST /a%20b"+fields+
		"Accept: */*\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n")
	f(Request{Path: []byte("/x y")}, 0, "")
	f(Request{Path: []byte("/x\r\nA: b")}, 0, "")
	f(Request{Path: []byte("/é")}, 0, "")
	f(Request{ID: []byte("1\r\nA: b")}, 0, "")
	f(Request{ID: []byte("1\n")}, 0, "")
	f(Request{Accept: "a\r\nb"}, 0, "")
	f(Request{Further: Fields{{"X-A", "b"}}}, 0, "GET /a%20b"+fields+"Accept: */*\r\nX-A: b\r\n\r\n")
	f(Request{Further: Fields{{"X-A", "b"}, {"X-B", ""}, {"X-C", "d"}}}, 0,
		"GET /a%20b"+fields+"Accept: */*\r\nX-A: b\r\nX-B: \r\nX-C: d\r\n\r\n")
	f(Request{Further: Fields{{"X-A", "b"}, {}, {"X-C", "d\r\nE: f"}}}, 0, "")
	f(Request{Further: Fields{{"X-A", "b\r\nc: d"}}}, 0, "")
	f(Request{Further: Fields{{"X A", "b"}}}, 0, "")
	f(Request{Type: "a\x00b"}, 0, "")
	f(Request{Method: "GET /x HTTP/1.1\r\n"}, 0, "")

	bare, err := NewEndpoint(EndpointOptions{BaseURL: "http://h"})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	if b, _ := bare.appendHead(nil, &Request{}, 0, nil); !strings.HasPrefix(string(b), "GET / HTTP/1.1\r\nHost: h\r\n") ||
		bare.address != "h:80" {
		t.Errorf("%q to %s", b, bare.address)
	}
}

func TestCausesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for c := None; c <= NoCredential; c++ {
		if s := c.String(); s == "" || seen[s] {
			t.Errorf("cause %d is %q", c, s)
		} else {
			seen[s] = true
		}
	}
	if Cause(200).String() != "unknown" {
		t.Error("an unknown cause has a name")
	}
}
