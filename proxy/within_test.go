package proxy

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// patient is a plan that tries its target again until all attempts together
// have no time left.
type patient struct {
	target *Target
	tries  int
}

const maxPatience = 300

func (p *patient) Next(attempt int) (*Target, *Request) {
	if attempt >= maxPatience {
		return nil, nil
	}
	p.tries = attempt + 1
	return p.target, &Request{Path: chatPath, Body: []byte("{}")}
}

func (p *patient) Verdict(_ *Target, a Attempt) Action {
	if a.Cause == TotalTimeout {
		return Fail
	}
	return Retry
}

// A limit for a whole conversation holds for all its attempts together, and
// for none that comes after it.
func TestLimitOfAllAttempts(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = r.ReadByte()
	})
	px := New(Options{Tick: 5 * time.Millisecond})
	t.Cleanup(px.Close)
	tg := target(t, u.addr, func(o *TargetOptions) { o.FirstByte = 20 * time.Millisecond })
	var x Exchange
	p := &patient{target: tg}
	if res := px.OpenWithin(nil, &x, 300*time.Millisecond, p); res.Cause != TotalTimeout || p.tries < 2 {
		t.Errorf("after %d attempts: %s", p.tries, res.Cause)
	}
	x.Reset()
	few := &patient{target: tg, tries: 0}
	if res := px.OpenAlone(&x, &upTo{few, 30}); res.Cause != FirstByteTimeout || few.tries != 30 {
		t.Errorf("without a limit, after %d attempts: %s", few.tries, res.Cause)
	}
}

// upTo is a plan that ends after so many attempts.
type upTo struct {
	*patient
	most int
}

func (u *upTo) Next(attempt int) (*Target, *Request) {
	if attempt >= u.most {
		return nil, nil
	}
	return u.patient.Next(attempt)
}
