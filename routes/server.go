package routes

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/valyala/fasthttp"

	"farebox/config"
	"farebox/proxy"
	"farebox/proxy/listen"
)

// ServerOptions are the limits of cfg towards clients, with refusals in the
// error shape of the API.
func (g *Gateway) ServerOptions(cfg *config.Config) proxy.ServerOptions {
	return proxy.ServerOptions{
		Uploads: g.uploads, MaxConnections: cfg.Server.MaxConnections,
		ReadBuffer:  headRoom(cfg),
		ReadTimeout: cfg.Server.ReadTimeout, IdleTimeout: cfg.Server.IdleTimeout, WriteTimeout: cfg.Server.ClientStall,
		Expect: g.expect, Refuse: g.unread, OnPanic: g.panicked,
	}
}

// ListenOptions are how clients are listened to under cfg.
func ListenOptions(cfg *config.Config, inherited *listen.Inherited) proxy.ListenOptions {
	o := proxy.ListenOptions{Cert: cfg.TLS.Cert, Key: cfg.TLS.Key, Inherited: inherited,
		Unsent: int(cfg.Server.SendBuffer), Stall: cfg.Server.ClientStall}
	if s := &cfg.Server; len(s.TrustedProxies) > 0 {
		o.Front = &listen.Front{Trusted: config.Prefixes(s.TrustedProxies),
			Unix: slices.Contains(s.TrustedProxies, config.Unix), ProxyProtocol: s.ProxyProtocol}
	}
	return o
}

// bodyLimit is how many bytes of a request's body are read: the limit of its row. With a key it
// is never less than server.max_body, so that the row itself can refuse a body that is too large
// for it (Call.mostBody).
func (g *Gateway) bodyLimit(ctx *fasthttp.RequestCtx, row *Row) int {
	cfg := g.live.Load().cfg
	most := maxBody(cfg)
	switch {
	case row == nil:
	case row.Access == Public:
		return row.most(cfg)
	case row.FormLimit != nil && IsMedia(ctx.Request.Header.ContentType(), "multipart/form-data"):
		return max(most, row.FormLimit(cfg))
	}
	return most
}

// toldLimit is the limit that a body has to keep, which may be below the one up to
// which it is read. Forms with a file have some room around it, of which nobody need
// know.
func (g *Gateway) toldLimit(ctx *fasthttp.RequestCtx, row *Row) int {
	const mega = 1 << 20
	most := g.bodyLimit(ctx, row)
	if row != nil && row.Limit != nil && row.FormLimit == nil {
		own := row.most(g.live.Load().cfg)
		if own > mega {
			own -= own % mega
		}
		most = min(most, own)
	}
	return most
}

// MostBody is how much of a body the row of the request takes.
func (c *Call) MostBody() int { return c.Row.most(c.snap.cfg) }

// readBody reads a large body, which nobody does before its key is known.
func (c *Call) readBody() *Error {
	if !proxy.BodyPending(c.Ctx) {
		return nil
	}
	from := proxy.Sender{Most: c.g.bodyLimit(c.Ctx, c.Row), Owner: c.Owner()}
	if why, ok := c.g.uploads.Read(c.Ctx, from); !ok {
		return c.g.unreadable(c.Ctx, why)
	}
	return nil
}

// unreadable is the answer to a request that could not be read (addendum 3.1, 3.5).
func (g *Gateway) unreadable(ctx *fasthttp.RequestCtx, r proxy.Refusal) *Error {
	e := &Error{Status: r.Status(), Message: r.String(), Uncounted: true, Close: true}
	switch r {
	case proxy.LargeBody:
		e.Code = "PAYLOAD_TOO_LARGE"
		e.Message = "The request body is too large; at most " + config.Size(g.toldLimit(ctx, g.rowOf(ctx))).String() +
			" are taken."
	case proxy.ServerIsFull:
		e.RetryAfter = RetrySoon
	case proxy.SenderIsFull:
		e.Code, e.RetryAfter = "RATE_LIMIT_EXCEEDED", RetrySoon
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
	if row == nil || row.Access == Public {
		return fasthttp.StatusContinue
	}
	if w := g.live.Load().wallets; w != nil && w.takes(row) && signInHeader(ctx) != nil {
		return fasthttp.StatusContinue // the signer is found before the body is read, and once
	}
	_, e := g.lookup(ctx, row)
	if e != nil {
		g.refuse(ctx, e)
		return e.Status
	}
	return fasthttp.StatusContinue
}

// panicked answers a request whose handler panicked.
func (g *Gateway) panicked(ctx *fasthttp.RequestCtx, v any) {
	g.NotePanic("a handler", v)
	g.refuse(ctx, &Error{Status: 500, Code: "UNKNOWN_ERROR", Message: "An unexpected error occurred. Please retry.",
		Close: true})
}

// NotePanic makes a panic an error in the log, with its stack, and counts it. The code that
// recovers calls it. The value of the panic may quote the request, so only the runtime's own are
// logged.
func (g *Gateway) NotePanic(where string, v any) {
	g.metrics.panics.Inc()
	what := fmt.Sprintf("%T", v)
	if own, ok := v.(runtime.Error); ok {
		what = own.Error()
	}
	g.log.Error().Str("panic", what).Bytes("stack", debug.Stack()).
		Msg(where + " panicked: this is a fault of ours; please report it with this line")
}
