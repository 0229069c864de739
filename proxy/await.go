package proxy

import (
	"context"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// Await runs f while ctx's client stays: f's context ends when the client leaves (ClientGone),
// limit runs out (TotalTimeout; 0: none) or the process ends (Shutdown), and the cause says
// which. With cause None the error is f's. It is for waits of a request outside an Exchange: a
// pause between two questions, a download. Without ctx no client waits for it.
func (p *Proxy) Await(ctx *fasthttp.RequestCtx, limit time.Duration, f func(context.Context) error) (cause Cause,
	err error) {
	c, cancel := context.WithCancel(context.Background())
	defer cancel()
	g := new(guard)
	var client net.Conn
	if ctx != nil {
		client = ctx.Conn()
	}
	p.watch.add(g, client)
	defer func() { cause = p.watch.remove(g) }()
	if g.attach(nil, cancel) != None {
		return None, nil // the deferred call tells the cause
	}
	if limit > 0 {
		g.total.Store(p.watch.due(limit))
	}
	return None, f(c)
}

// Pause waits for d, or until ctx's client leaves or the process ends.
func (p *Proxy) Pause(ctx *fasthttp.RequestCtx, d time.Duration) Cause {
	cause, _ := p.Await(ctx, 0, func(c context.Context) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.Done():
		}
		return nil
	})
	return cause
}
