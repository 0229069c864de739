package routes

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/billing/replay"
	"farebox/billing/window"
	"farebox/config"
	"farebox/config/fair"
	"farebox/providers"
	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// RetrySoon is the Retry-After of conditions that usually pass within a second.
const RetrySoon = time.Second

// Call is the state of one request that all endpoints need. It is pooled and cleared as a whole;
// one goroutine owns it from begin to end.
type Call struct {
	g    *Gateway
	snap *snapshot
	Ctx  *fasthttp.RequestCtx // valid until the handler returns
	Row  *Row
	Part Part // the state of its capability; nil: nothing

	Began   time.Time
	StartNs int64
	raw     [16]byte
	ID      requestID
	number  [24]byte

	Key   *billing.Key
	owner fair.Owner // once the key is known; see Owner
	// wallet signed the request; empty: it came with a key.
	wallet string
	Model  *dialect.Model
	user   uint64 // hash of the OpenAI user string, 0 for none
	Body   []byte // JSON, read into Doc
	Doc    scan.Document

	want     billing.Admission // of AdmitCost
	occupies bool              // one of the requests that its account may have under way
	hold     billing.Hold
	quota    window.Quota
	// lead is held by a request with an idempotency key (idempotency.go).
	lead  *replay.Lead
	kept  replay.Answer // of a request with a lead, until it is charged
	doubt bool          // it may have changed something outside
	Sold  Bill          // its lines, cost and usage
	meter *fair.Meter   // of work in children; nil: there was none
	// finishes says that it holds a slot in Gateway.finishes, since it goes on
	// without its client.
	finishes atomic.Bool

	zip      *zip // compresses the answer on its way; nil: it leaves as it is
	OnDone   func(proxy.Outcome)
	relaying bool // the code that delivers the answer ends the Call

	// Fields that are logged and counted.
	Status    int
	errCode   string
	short     billing.Denial // why the account or the key could not pay
	refused   *billing.RefusedKey
	limitBy   string // the rate limit that refused it
	Hint      string // for the operator: the switch that would have served it
	Cause     string
	Upstream  string
	Router    string // that the upstream is, for its header
	Attempts  int
	Tried     []attempt.Tried // the attempts that failed
	Streams   bool            // the client asked for a stream
	Charged   billing.Nano
	shortfall billing.Nano
	Settled   bool
	Took      time.Duration // until the charge
	FirstByte time.Duration
}

// Part is the state that a capability adds to the Call of a request. However the request ends,
// Close is called once, then Observe and Log, then Recycle; after a panic only Close.
type Part interface {
	// Close releases the limits and resources that the request holds.
	Close()
	// Observe counts it in the metrics.
	Observe(took time.Duration)
	// Log adds its fields to the request's log line.
	Log(e *zerolog.Event) *zerolog.Event
	// Recycle clears it for another request.
	Recycle()
}

func newCall(g *Gateway) *Call {
	c := &Call{g: g}
	c.OnDone = c.finishRelay
	return c
}

func (c *Call) begin(ctx *fasthttp.RequestCtx, row *Row) {
	c.Ctx, c.Row = ctx, row
	c.snap = c.g.live.Load()
	c.Began = time.Now()
	c.StartNs = c.Began.UnixNano()
	c.raw, c.ID = newRequestID(c.StartNs)
	c.g.metrics.active.Add(1)
	c.setCommon()
}

// Accounts gives the ledger's view of accounts and their keys.
func (c *Call) Accounts() Accounts { return c.g.ledger.Accounts() }

// Owner is the customer whose share of common resources the request uses. With a key it may be
// called from any goroutine until the request ends.
func (c *Call) Owner() fair.Owner {
	if c.Key == nil {
		return fair.Unpaid(proxy.Address(c.Ctx))
	}
	return c.owner
}

// noteOwner finds the owner of a request that has a key. The watcher needs it when the
// client leaves, and the request's context may be gone by then. A connection remembers
// that an account is paid, which takes the account's lock to learn.
func (c *Call) noteOwner() {
	client := proxy.ClientOf(c.Ctx.Conn())
	var last *remembered
	if client != nil {
		last, _ = client.Kept.(*remembered)
	}
	known := last != nil && last.key == c.Key
	if known && last.paid || c.Key.Account.Paid() {
		c.owner = fair.Paid(c.Key.Account.Number())
	} else {
		c.owner = fair.Unpaid(proxy.Address(c.Ctx))
	}
	if known {
		last.paid = c.owner.Account != 0
	}
	if client != nil {
		client.Owner = c.owner
	}
}

// Hold is the hold that pays for the request, once Admit opened it.
func (c *Call) Hold() Hold { return &c.hold }

// Proxy carries requests to upstreams.
func (c *Call) Proxy() *proxy.Proxy { return c.g.proxy }

// Logger is the log of the process.
func (c *Call) Logger() *zerolog.Logger { return &c.g.log }

// Config is the operator's config at the time when the request began.
func (c *Call) Config() *config.Config { return c.snap.cfg }

// Rules are those of the body; nil where the row has none.
func (c *Call) Rules() *Rulebook { return c.snap.books[c.Row] }

// RateClasses are those with limits of their own that the config offers.
func (c *Call) RateClasses() []*RateClass { return c.snap.classes }

// Catalog are the models that the config offered when the request began.
func (c *Call) Catalog() *providers.Catalog { return c.snap.catalog }

// fail makes e the answer, and counts it where the specification says so.
func (c *Call) fail(e *Error) {
	c.errCode = e.Code
	if c.Key != nil && e.counts() {
		c.noteFailure(e.Unsupported)
	}
	writeError(c.Ctx, e, c.errorShape(), c.ID[:])
	if c.Key != nil {
		c.setQuotaHeaders()
	}
}

// ErrorBody is the body of an error that is charged like an answer.
func (c *Call) ErrorBody(e *Error) []byte {
	c.errCode = e.Code
	return AppendError(nil, e, c.errorShape(), c.ID[:])
}

// errorShape is the shape of this request's refusals.
func (c *Call) errorShape() ErrorShape {
	row := c.Row
	if row == nil { // it was refused before its row was asked
		row = c.g.rowOf(c.Ctx)
	}
	if row != nil && row.Errors != nil {
		return row.Errors
	}
	return shapeFor(c.snap.cfg.Compat.ErrorShape, &c.Ctx.Request.Header)
}

// Rest is the part of the request's path after the fixed part of its row, with its escapes
// resolved; nil where they lead elsewhere.
func (c *Call) Rest() []byte {
	path, ok := below(c.Ctx.Path())
	rest, follows := bytes.CutPrefix(path, ViewBytes(c.Row.fixed()))
	if !ok || !follows {
		return nil
	}
	return rest
}

// slot tells the failures of a model apart, and those of a row without one (addendum 3.6).
func (c *Call) slot() int {
	switch {
	case c.Model != nil:
		return c.Model.Slot
	case c.Row != nil:
		return c.Row.slot
	}
	return -1
}

// window is the window that counts the request beside the limits of its key: its model's, or its
// route's.
func (c *Call) window() (w classWindow, ok bool) {
	if c.Model != nil {
		return classWindow{c.Model.Slot, c.Model.Rate}, true
	}
	if c.Row == nil {
		return w, false
	}
	w, ok = c.snap.windows[c.Row.Rate]
	return w, ok
}

func (c *Call) setQuotaHeaders() {
	if w, ok := c.window(); ok {
		c.Key.Quota(w.slot, w.rate, billing.At(c.Began), &c.quota)
		setQuota(&c.Ctx.Response.Header, &c.quota, &c.number)
	}
}

// end observes the request and gives the Call back.
func (c *Call) end() {
	c.release()
	if !c.relaying {
		c.Status = c.Ctx.Response.StatusCode()
	}
	if c.Attempts > 0 && c.Left() {
		c.g.ledger.NoteAbort(c.Key, billing.At(time.Now()))
	}
	c.observe()
	if c.Part != nil {
		c.Part.Recycle()
	}
	g := c.g
	c.reset()
	g.calls.Put(c)
}

// Left says that the client did not stay until its answer was there.
func (c *Call) Left() bool {
	return c.Cause == proxy.ClientGone.String() || c.Cause == proxy.ClientStalled.String()
}

// release gives back all that the request holds of shared resources. Requests that end and
// requests whose handler panicked share this list. A step that panics does not skip the others.
func (c *Call) release() {
	defer c.g.metrics.active.Add(-1)
	defer func() {
		if c.finishes.Swap(false) {
			c.g.finishes.Give(c.owner, 1)
		}
	}()
	defer func() {
		if c.Part != nil {
			c.Part.Close()
		}
	}()
	defer func() {
		if c.occupies {
			c.occupies = false
			c.g.ledger.Release(c.Key.Account)
		}
	}()
	defer func() {
		if c.lead != nil {
			// Without an answer that was kept it is as if it had not been.
			c.endLead()
			c.lead = nil
		}
	}()
	if c.meter != nil {
		c.meter.End(c.Settled)
		c.meter = nil
	}
	if c.hold.Open() {
		// It belongs to a request that failed: nothing of it is charged.
		c.hold.Void(billing.At(time.Now()))
	}
}

func (c *Call) observe() {
	took := c.Took
	if took == 0 || c.relaying {
		took = time.Since(c.Began)
	}
	m := c.g.metrics
	m.status(c.Status)
	if c.Cause != "" {
		m.cause(c.Cause)
	}
	if c.Model != nil && c.Model.Index < len(c.snap.models) {
		mm := c.snap.models[c.Model.Index]
		if c.Settled {
			mm.duration[boolIndex(c.Streams)].Update(took.Seconds())
			mm.chargedUSD.Add(float64(c.Charged) / 1e9)
		}
		if c.Attempts > 1 {
			mm.retries.Add(c.Attempts - 1)
		}
	}
	if c.Part != nil {
		c.Part.Observe(took)
	}
	if (c.Key != nil || c.refused != nil) && c.unusual() {
		c.countErrors()
		c.noteUnusual(took)
	}
	c.log(took)
}

// reset clears everything that belonged to the request; buffers and parts with state of their own
// are reset, not dropped.
func (c *Call) reset() {
	c.hold.Reset()
	c.Doc.Reset()
	c.snap, c.Ctx, c.Row, c.Part = nil, nil, nil, nil
	c.Key, c.owner, c.wallet, c.Model, c.user, c.Body = nil, fair.Owner{}, "", nil, 0, nil
	c.want, c.short, c.limitBy, c.refused = billing.Admission{}, billing.Denial{}, "", nil
	c.quota = window.Quota{}
	c.kept, c.Sold, c.Router = replay.Answer{}, Bill{}, ""
	if c.zip != nil {
		c.zip.release()
		c.zip = nil
	}
	c.relaying, c.doubt = false, false
	c.Status, c.errCode, c.Hint, c.Cause, c.Upstream = 0, "", "", "", ""
	c.Attempts, c.Tried, c.Streams = 0, c.Tried[:0], false
	c.Charged, c.shortfall, c.Settled, c.Took, c.FirstByte = 0, 0, false, 0, 0
}

// Deliver writes a body that was paid for to the client and ends the request.
func (c *Call) Deliver(body proxy.Source) {
	c.g.proxy.Deliver(c.Ctx, body, func(_ int64, err error) {
		if err != nil && c.Cause == "" {
			c.Cause = proxy.ClientGone.String()
		}
		c.end()
	})
	c.Relays()
}

// Relays says that the relay of the answer was attached to the response and will call OnDone,
// which ends the request. Nothing of its context is used after it.
func (c *Call) Relays() { c.relaying, c.Status, c.Ctx = true, 200, nil }

// finishRelay runs when the last byte of a relayed answer is gone or given up.
func (c *Call) finishRelay(o proxy.Outcome) {
	c.FirstByte = o.FirstByte
	if c.Cause == "" && o.Cause != proxy.None {
		c.Cause = o.Cause.String()
	}
	if o.Cause == proxy.Panic {
		c.Status = 500 // its head said 200, but that is not how it went
	}
	c.end()
}
