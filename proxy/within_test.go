package proxy

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// patience asks a target repeatedly, until all attempts together have used their time.
func patience(x *Exchange, tg *Endpoint, most int) (res Result, tries int) {
	for tries < most && res.Cause != TotalTimeout {
		res = x.Ask(tg, &Request{Path: chatPath, Body: []byte("{}")})
		tries++
	}
	return res, tries
}

// A limit for a whole conversation covers all its attempts together, and none of the next
// conversation.
func TestLimitOfAllAttempts(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = r.ReadByte()
	})
	px := New(Options{Tick: 5 * time.Millisecond})
	t.Cleanup(px.Close)
	tg := endpoint(t, u.addr, func(o *EndpointOptions) { o.FirstByte = 20 * time.Millisecond })
	var x Exchange
	px.Open(nil, &x, 300*time.Millisecond)
	if res, tries := patience(&x, tg, 300); res.Cause != TotalTimeout || tries < 2 {
		t.Errorf("after %d attempts: %s", tries, res.Cause)
	}
	x.Reset()
	px.Open(nil, &x, 0)
	if res, tries := patience(&x, tg, 30); res.Cause != FirstByteTimeout || tries != 30 {
		t.Errorf("without a limit, after %d attempts: %s", tries, res.Cause)
	}
	x.Reset()
}
