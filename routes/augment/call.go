package augment

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/proxy"
	"farebox/routes"
)

// call is one request. Its price is known before: it is held, and charged with
// the answer, or to a client that left when the work had begun.
type call struct {
	owner   *Capability
	call    *routes.Call
	view    *view
	product int
	// work makes the answer. begun says that it has cost something.
	work  func() *routes.Error
	begun atomic.Bool
	sale  routes.Flat
}

// begin makes the part of a request.
func (ca *Capability) begin(c *routes.Call, product int) *call {
	part := &call{owner: ca, call: c, view: c.Own(ca).(*view), product: product}
	part.sale = routes.Flat{Call: c, Held: part.lines, Do: part.sold, Children: product != searches, OnObserve: part.count}
	part.sale.Answer.Type = routes.JSONType
	c.Part = &part.sale
	return part
}

// sell has the work done and sold. within is how long it can take.
func (c *call) sell(within time.Duration, work func() *routes.Error) *routes.Error {
	c.work = work
	return c.call.SellFlat(&c.sale, routes.Terms{Patience: within + patience, Compress: true})
}

// patience is the time of a request for all but its work.
const patience = time.Minute

// lines are the price.
func (c *call) lines() (l money.Lines) {
	l.Add(products[c.product].kind, 1, c.view.price[c.product])
	return l
}

// sold has the work done, and charges it.
func (c *call) sold() *routes.Error {
	c.call.Hold().Book(c.view.slot)
	e := c.work()
	switch {
	case e == nil:
		c.call.Sold = routes.FlatBill(c.lines(), 0)
	case c.begun.Load() && c.call.Left() && !c.call.Finishes():
		c.call.Sold = routes.FlatBill(c.lines(), journal.FlagAborted)
		c.call.Settle()
	}
	return c.call.Overworked(e)
}

// grace is how much later than the time that work gives itself it is ended from
// here: only the work knows what took too long, or that it waited for its turn.
const grace = 3 * time.Second

// attend runs f, which takes at most within, while the client stays. One whose
// answer is to be kept for its retry goes on without it.
func (c *Capability) attend(rc *routes.Call, within time.Duration, f func(context.Context) error) (proxy.Cause,
	error) {
	ctx, cancel := context.WithTimeout(rc.Share(context.Background()), within+grace)
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				c.gateway.NotePanic(rc.Row.Path, v)
				err = fmt.Errorf("a panic")
			}
		}()
		err = f(ctx)
	}()
	// f uses values of the request: it must have ended when that does.
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

// count counts it.
func (c *call) count(took time.Duration) {
	switch {
	case c.call.Settled:
		c.owner.made[c.product].Inc()
		c.owner.took[c.product].Update(took.Seconds())
	case c.call.Ctx.Response.StatusCode() >= 500 && !c.call.Left():
		c.owner.failed[c.product].Inc()
	}
}

// gone is the answer to a client that is not there any more, or is cut off by the end of
// the process.
func (c *call) gone(cause proxy.Cause) *routes.Error {
	return c.call.Unreachable(&proxy.Result{Cause: cause})
}
