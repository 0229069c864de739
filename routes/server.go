package routes

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/valyala/fasthttp"

	"farebox/config"
	"farebox/providers/image/picture"
	"farebox/proxy"
)

// ServerOptions are the limits of cfg towards clients, with refusals in the
// error shape of the API.
func (g *Gateway) ServerOptions(cfg *config.Config) proxy.ServerOptions {
	return proxy.ServerOptions{
		Uploads: g.uploads, MaxConnections: cfg.Server.MaxConnections,
		ReadTimeout: cfg.Server.ReadTimeout, IdleTimeout: cfg.Server.IdleTimeout, WriteTimeout: cfg.Server.ClientStall,
		Expect: g.expect, Refuse: g.unread, OnPanic: g.panicked,
	}
}

// maxForm bounds a form with several pictures: four of the largest.
const maxForm = 4*picture.MaxSize + 1<<20

// bodyLimit is what the body of a request may have. The cap of forms is one of
// 25 MB a file (addendum 3.1), so that those with several pictures may have more
// than JSON.
func (g *Gateway) bodyLimit(ctx *fasthttp.RequestCtx, row *route) int {
	cfg := g.live.Load().cfg
	most := int(cfg.Server.MaxBody)
	switch {
	case row == nil:
	case row.body == small:
		return maxKeyBody
	case row.body == forms:
		if media, _, _ := bytes.Cut(ctx.Request.Header.ContentType(), []byte(";")); bytes.EqualFold(bytes.TrimSpace(media), []byte("multipart/form-data")) {
			return max(most, min(maxForm, int(cfg.Server.MaxInFlight)))
		}
	}
	return most
}

// readBody reads a large body, which nobody does before its key is known.
func (c *Call) readBody() *Error {
	if !proxy.BodyPending(c.ctx) {
		return nil
	}
	from := proxy.Sender{Most: c.g.bodyLimit(c.ctx, c.row), Address: proxy.Address(c.ctx)}
	if c.key != nil {
		from.Account = c.key.Account.ID
	}
	if why, ok := c.g.uploads.Read(c.ctx, from); !ok {
		return c.g.unreadable(c.ctx, why)
	}
	return nil
}

// unreadable is the answer to a request that could not be read (addendum 3.1, 3.5).
func (g *Gateway) unreadable(ctx *fasthttp.RequestCtx, r proxy.Refusal) *Error {
	e := &Error{Status: r.Status(), Message: r.String(), Uncounted: true, Close: true}
	switch r {
	case proxy.LargeBody:
		e.Code = "PAYLOAD_TOO_LARGE"
		e.Message = "The request body is too large; at most " + config.Size(g.bodyLimit(ctx, g.rowOf(ctx))).String() + " are taken."
	case proxy.ServerIsFull:
		e.RetryAfter = retrySoon
	case proxy.SenderIsFull:
		e.Code, e.RetryAfter = "RATE_LIMIT_EXCEEDED", retrySoon
	default:
		e.Code = "INVALID_REQUEST"
	}
	return e
}

func (g *Gateway) unread(ctx *fasthttp.RequestCtx, r proxy.Refusal) {
	g.refuse(ctx, g.unreadable(ctx, r))
}

// expect answers "Expect: 100-continue" before the body is sent: a request
// that would be refused anyway is refused here.
func (g *Gateway) expect(ctx *fasthttp.RequestCtx, length int) int {
	row := g.rowOf(ctx)
	if length > g.bodyLimit(ctx, row) {
		g.unread(ctx, proxy.LargeBody)
		return fasthttp.StatusRequestEntityTooLarge
	}
	if row == nil || row.access == public {
		return fasthttp.StatusContinue
	}
	_, e := g.lookup(ctx)
	if e != nil {
		g.refuse(ctx, e)
		return e.Status
	}
	return fasthttp.StatusContinue
}

// panicked answers a request whose handler panicked.
func (g *Gateway) panicked(ctx *fasthttp.RequestCtx, v any) {
	g.notePanic("a handler", v)
	g.refuse(ctx, &Error{Status: 500, Code: "UNKNOWN_ERROR", Message: "An unexpected error occurred. Please retry.", Close: true})
}

// notePanic makes a panic an error in the log, with its stack, and counts it.
// It is called by who recovers. Nothing of the request goes along: what is
// panicked with may quote it, unless it is the runtime's own.
func (g *Gateway) notePanic(where string, v any) {
	g.metrics.panics.Inc()
	what := fmt.Sprintf("%T", v)
	if own, ok := v.(runtime.Error); ok {
		what = own.Error()
	}
	g.log.Error().Str("panic", what).Bytes("stack", debug.Stack()).Msg(where + " panicked: this is a fault of ours; please report it with this line")
}
