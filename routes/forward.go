package routes

import (
	"bytes"
	"errors"
	"time"

	"farebox/providers"
	"farebox/providers/attempt"
	"farebox/providers/dialect"
	"farebox/proxy"
)

// Next is proxy.Plan: the next target to try and the request in its dialect.
func (c *Call) Next(n int) (*proxy.Target, *proxy.Request) {
	if n >= providers.MaxAttempts {
		return nil, nil
	}
	if n == 0 {
		c.targets.BeginFor(c.model, c.key.Account.Number())
	}
	now := c.startNs
	if n > 0 {
		now = time.Now().UnixNano()
	}
	for {
		t := c.targets.Next(now)
		if t == nil {
			return nil, nil
		}
		c.request.Patches = c.request.Patches[:0]
		c.request.Body, c.request.ID = c.chat.Body, c.id[:]
		err := t.Upstream.Dialect.Request(&c.request, &c.chat, t, c.scratch)
		if err == nil {
			c.target, c.attempts, c.upstream = t, n+1, t.Upstream.Name
			return t.Upstream.Proxy, &c.request
		}
		// What one dialect cannot say another one may: the next target is asked.
		c.targets.Release(t)
		var no *dialect.Unsupported
		if errors.As(err, &no) {
			c.unsupported = no
		} else {
			c.g.log.Warn().Err(err).Str("upstream", t.Upstream.Name).Bytes("request_id", c.id[:]).Msg("cannot make the upstream request")
		}
	}
}

// Verdict is proxy.Plan: it tells the target's breaker how the attempt went
// and decides whether another target may be tried. No byte has gone to the
// client yet.
func (c *Call) Verdict(_ *proxy.Target, a proxy.Attempt) proxy.Action {
	c.sent = a.Sent
	v := attempt.Lost(a.Cause)
	if a.Cause == proxy.None {
		v = attempt.Judge(a.Status, a.RetryAfter)
		if v.Health == attempt.Good && c.chat.Stream && !isEventStream(c.x.ContentType()) {
			v = attempt.Broken()
		}
	}
	c.targets.Report(c.target, v, time.Now().UnixNano())
	return v.Do
}

func isEventStream(contentType []byte) bool {
	media, _, _ := bytes.Cut(contentType, []byte(";"))
	return bytes.EqualFold(bytes.TrimSpace(media), []byte("text/event-stream"))
}

var _ proxy.Plan = (*Call)(nil)
var _ proxy.Lens = (*Call)(nil)
