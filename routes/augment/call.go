package augment

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/replay"
	"farebox/proxy"
	"farebox/routes"
)

// call is one request. Its price is known before: it is held, and charged with
// the answer, or to a client that left when the work had begun.
type call struct {
	of   *Capability
	call *routes.Call
	view *view
	ware int
	// work makes body, of contentType. begun says that it has cost something.
	work        func() *routes.Error
	begun       atomic.Bool
	body        []byte
	contentType string
	truncated   bool // body ends before the document does
	want        billing.Admission
}

// begin makes the part of a request.
func (of *Capability) begin(c *routes.Call, ware int) *call {
	part := &call{of: of, call: c, view: c.Own(of).(*view), ware: ware, contentType: routes.JSONType}
	c.Part = part
	return part
}

// sell has the work done and sold. within is how long it can take.
func (c *call) sell(within time.Duration, work func() *routes.Error) *routes.Error {
	c.work = work
	return c.call.Sell(c, routes.Terms{Patience: within + patience, Compress: true})
}

// patience is what a request takes beside its work.
const patience = time.Minute

// lines are what n things are sold as.
func (c *call) lines(n int64) (l money.Lines) {
	l.Add(wares[c.ware].kind, n, c.view.price[c.ware])
	return l
}

// Admit holds the price.
func (c *call) Admit(again bool) *routes.Error {
	n := int64(1)
	if again {
		n = 0
	}
	if !again && c.ware != searches {
		if e := c.call.MayWork(); e != nil {
			return e
		}
	}
	sold := c.lines(n)
	full := sold.Cost()
	c.want = billing.Admission{Hold: full, Min: full}
	d := c.call.Admit(&c.want)
	if d.Code != billing.Admitted {
		return c.call.Overrun(c.call.Row.Rate, &d, c.call.Row.Path)
	}
	c.call.Hold().Book(c.view.slot)
	return nil
}

// CarryOut has the work done.
func (c *call) CarryOut() (relayed bool, e *routes.Error) {
	e = c.work()
	switch {
	case e == nil:
		c.bill(0)
	case c.begun.Load() && c.call.Left():
		c.bill(journal.FlagAborted)
		c.call.Settle()
	}
	return false, c.call.Overworked(e)
}

func (c *call) bill(flags journal.Flags) {
	lines := c.lines(1)
	c.call.Sold = routes.Bill{Lines: lines, Cost: lines.Cost(), Flags: flags, Status: 200}
}

// grace is how much later than the time that work gives itself it is ended from
// here: only the work knows what took too long, or that it waited for its turn.
const grace = 3 * time.Second

// attend runs f, which takes at most within, while the client stays. One whose
// answer is to be kept for its retry goes on without it.
func (of *Capability) attend(rc *routes.Call, within time.Duration, f func(context.Context) error) (proxy.Cause,
	error) {
	ctx, cancel := context.WithTimeout(rc.Share(context.Background()), within+grace)
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				of.gateway.NotePanic(rc.Row.Path, v)
				err = fmt.Errorf("a panic")
			}
		}()
		err = f(ctx)
	}()
	// What f works with is the request's: it must have ended when that does.
	defer func() { cancel(); <-done }()
	wait := func(left context.Context) error {
		select {
		case <-done:
		case <-left.Done():
		}
		return nil
	}
	cause, _ := rc.Proxy().Await(rc.Ctx, 0, wait)
	if (cause == proxy.ClientGone || cause == proxy.ClientStalled) && rc.Keeps() && rc.MayFinish() {
		cause, _ = rc.Proxy().Await(nil, 0, wait)
	}
	if cause != proxy.None {
		rc.Cause = cause.String()
		return cause, nil
	}
	<-done
	return cause, err
}

// KeepAnswer keeps the answer for a repeat.
func (c *call) KeepAnswer() {
	var headers []replay.Header
	if c.truncated {
		headers = append(headers, replay.Header{Name: string(c.view.truncated), Value: "true"})
	}
	c.call.Keep(c.contentType, c.body, headers...)
}

// Respond makes the answer the response.
func (c *call) Respond() {
	answer := &c.call.Ctx.Response
	answer.SetStatusCode(200)
	answer.Header.SetContentType(c.contentType)
	if c.truncated {
		answer.Header.SetCanonical(c.view.truncated, []byte("true"))
	}
	answer.SetBodyRaw(c.body)
	c.call.Compress()
}

// Close is routes.Part: nothing was taken from others.
func (c *call) Close() {}

// Observe counts it.
func (c *call) Observe(took time.Duration) {
	switch {
	case c.call.Settled:
		c.of.made[c.ware].Inc()
		c.of.took[c.ware].Update(took.Seconds())
	case c.call.Ctx.Response.StatusCode() >= 500 && !c.call.Left():
		c.of.failed[c.ware].Inc()
	}
}

// Log says what was charged.
func (c *call) Log(e *zerolog.Event) *zerolog.Event {
	if c.call.Settled {
		e = e.Str("charged_usd", c.call.Charged.String())
	}
	return e
}

// Recycle does nothing: it is not used again.
func (c *call) Recycle() {}

// gone is the answer to who is not there any more, or is cut off by the end of
// the process.
func (c *call) gone(cause proxy.Cause) *routes.Error {
	return c.call.Unreachable(&proxy.Result{Cause: cause})
}
