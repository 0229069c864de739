package routes

import (
	"bytes"
	"errors"
	"time"

	"farebox/providers/dialect"
	"farebox/proxy"
)

// maxAttempts bounds how many targets one request may try.
const maxAttempts = 4

// Next is proxy.Plan: the next target to try and the request in its dialect.
func (c *Call) Next(attempt int) (*proxy.Target, *proxy.Request) {
	if attempt >= maxAttempts {
		return nil, nil
	}
	if attempt == 0 {
		c.targets.Begin(c.model)
	}
	now := c.startNs
	if attempt > 0 {
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
			c.target, c.attempts, c.upstream = t, attempt+1, t.Upstream.Name
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
	now := func() int64 { return time.Now().UnixNano() }
	switch a.Cause {
	case proxy.None:
	case proxy.ClientGone, proxy.ClientStalled, proxy.Shutdown:
		c.targets.Release(c.target)
		return proxy.Fail
	case proxy.NoFreeConn:
		// Our own cap, not the target's fault.
		c.targets.Release(c.target)
		return proxy.Retry
	default:
		c.targets.Failed(c.target, now(), 0)
		return proxy.Retry
	}
	switch {
	case a.Status >= 200 && a.Status < 300:
		if c.chat.Stream && !isEventStream(c.x.ContentType()) {
			c.targets.Failed(c.target, now(), 0)
			return proxy.Retry
		}
		c.targets.Succeeded(c.target)
		return proxy.Accept
	case a.Status == 403:
		// Content policy or a key without the right: another target may be
		// willing, but one customer's words must not open the breaker for all.
		c.targets.Release(c.target)
		return proxy.Retry
	case a.Status < 400 || a.Status >= 500 || operatorsFault[a.Status-400]:
		c.targets.Failed(c.target, now(), a.RetryAfter)
		return proxy.Retry
	}
	c.targets.Succeeded(c.target)
	return proxy.Accept
}

// operatorsFault are the 4xx answers that say something of the target and not
// of the request: its key, its account, its catalog or its load.
var operatorsFault = [100]bool{401 - 400: true, 402 - 400: true, 404 - 400: true, 405 - 400: true, 407 - 400: true, 408 - 400: true, 409 - 400: true, 421 - 400: true, 425 - 400: true, 429 - 400: true}

func isEventStream(contentType []byte) bool {
	media, _, _ := bytes.Cut(contentType, []byte(";"))
	return bytes.EqualFold(bytes.TrimSpace(media), []byte("text/event-stream"))
}

var _ proxy.Plan = (*Call)(nil)
var _ proxy.Lens = (*Call)(nil)
