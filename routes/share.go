package routes

import (
	"context"
	"time"

	"farebox/config/fair"
	"farebox/proxy"
)

// Share makes a context for work that all customers share, such as children, fetches and
// renderers: it takes turns as this request's owner, and the processor time of children
// counts in the owner's budget unless the request is charged.
func (c *Call) Share(ctx context.Context) context.Context {
	o := c.Owner()
	if c.meter == nil {
		c.meter = c.g.unpaid.Meter(o)
	}
	return fair.WithMeter(fair.With(ctx, o), c.meter)
}

// Piece is Share for a part of a request that may come to nothing while the rest is
// charged. end says whether the part is; ctx is one of Share's.
func (c *Call) Piece(ctx context.Context) (piece context.Context, end func(paid bool)) {
	m := c.g.unpaid.Meter(fair.Of(ctx))
	return fair.WithMeter(ctx, m), m.End
}

// Await runs f while the client stays, for limit at most (0: no limit), with a context of
// Share.
func (c *Call) Await(limit time.Duration, f func(context.Context) error) (proxy.Cause, error) {
	return c.g.proxy.Await(c.Ctx, limit, func(ctx context.Context) error { return f(c.Share(ctx)) })
}

// TakeTurn waits for a place of t while the client stays, for limit at most. Without a place and with
// cause None there was none in time.
func (c *Call) TakeTurn(t *fair.Turns, limit time.Duration) (place fair.Place, taken bool, cause proxy.Cause) {
	if place, taken = t.Try(c.Owner()); taken {
		return place, true, proxy.None
	}
	cause, _ = c.Await(limit, func(ctx context.Context) (err error) {
		place, err = t.Take(ctx, c.Owner())
		taken = err == nil
		return err
	})
	switch {
	case taken && cause == proxy.None:
		return place, true, proxy.None
	case taken:
		place.Done() // it became free as the wait ended
	}
	if cause == proxy.TotalTimeout {
		cause = proxy.None
	}
	return fair.Place{}, false, cause
}

// MayWork refuses a request that needs children while its owner has used up the time that
// they may work unpaid.
func (c *Call) MayWork() *Error {
	wait := c.g.unpaid.Wait(c.Owner(), time.Now())
	if wait <= 0 {
		return nil
	}
	return &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: max(RetrySoon, wait), Uncounted: true,
		Message: "Rate limit exceeded: documents, pages or schemas of requests that failed took too much time. Retry " +
			"after the time in the Retry-After header."}
}

// Overworked is e, or the refusal of MayWork where that is why there was no place for the
// work. Such a request was admitted before the budget was used up.
func (c *Call) Overworked(e *Error) *Error {
	if e != nil && e.Status == 503 {
		if refusal := c.MayWork(); refusal != nil {
			return refusal
		}
	}
	return e
}
