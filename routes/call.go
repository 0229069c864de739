package routes

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/providers/attempt"
	"farebox/providers/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// retrySoon is the Retry-After of conditions that usually pass within a second.
const retrySoon = time.Second

// Call is one request on its way through the rooms: what every request has. It
// is pooled and cleared as a whole; one goroutine owns it from begin to end.
type Call struct {
	g    *Gateway
	snap *snapshot
	ctx  *fasthttp.RequestCtx // valid until the handler returns
	row  *route
	part part // what its capability has beside this; nil: nothing

	began   time.Time
	startNs int64
	raw     [16]byte
	id      requestID
	number  [24]byte

	key   *billing.Key
	model *dialect.Model
	user  uint64 // hash of the OpenAI user string, 0 for none
	body  []byte // JSON, read into doc
	doc   scan.Document

	admission billing.Admission
	hold      billing.Hold
	quota     billing.Quota
	// lead is held by a request with an idempotency key (idempotency.go).
	lead *billing.Lead
	kept billing.Answer // of a request with a lead, until it is charged
	sold bill           // what it came to
	// finishes says that it holds a place in Gateway.finishes, since it goes on
	// without its client.
	finishes atomic.Bool

	zip      *zip // compresses the answer on its way; nil: it leaves as it is
	onDone   func(proxy.Outcome)
	relaying bool // what delivers the answer ends the Call

	// What is logged and counted.
	status    int
	errCode   string
	hint      string // for the operator: the switch that would have served it
	cause     string
	upstream  string
	router    string // that the upstream is, for its header
	attempts  int
	tried     []attempt.Tried // the attempts that failed
	streams   bool            // the client asked for a stream
	charged   billing.Nano
	shortfall billing.Nano
	settled   bool
	took      time.Duration // until the charge
	firstByte time.Duration
}

// part is what a capability has beside the Call of a request. However the
// request ends, Close is called once, then Observe and Log, then Recycle; after a
// panic only Close.
type part interface {
	// Close gives back what the request has taken from others.
	Close()
	// Observe counts it in the metrics.
	Observe(took time.Duration)
	// Log adds what the request's log line says of it.
	Log(e *zerolog.Event) *zerolog.Event
	// Recycle clears it for another request.
	Recycle()
}

func newCall(g *Gateway) *Call {
	c := &Call{g: g}
	c.onDone = c.finishRelay
	return c
}

func (c *Call) begin(ctx *fasthttp.RequestCtx, row *route) {
	c.ctx, c.row = ctx, row
	c.snap = c.g.live.Load()
	c.began = time.Now()
	c.startNs = c.began.UnixNano()
	c.raw, c.id = newRequestID()
	c.g.metrics.active.Add(1)
	c.setCommon()
}

// fail makes e the answer, and counts it where the specification says so.
func (c *Call) fail(e *Error) {
	c.errCode = e.Code
	if c.key != nil && e.counts() {
		c.g.ledger.NoteFailure(c.key, c.slot(), c.user, e.Unsupported, c.startNs)
	}
	shape := shapeFor(c.snap.cfg.Compat.ErrorShape, &c.ctx.Request.Header)
	writeError(c.ctx, e, shape, c.id[:])
	if c.key != nil {
		c.setQuotaHeaders()
	}
}

func (c *Call) slot() int {
	if c.model == nil {
		return -1
	}
	return c.model.Slot
}

func (c *Call) setQuotaHeaders() {
	if c.model == nil {
		return
	}
	c.key.Quota(c.model.Slot, c.model.Rate, c.startNs, &c.quota)
	setQuota(&c.ctx.Response.Header, &c.quota, &c.number)
}

// end observes the request and gives the Call back.
func (c *Call) end() {
	c.release()
	if !c.relaying {
		c.status = c.ctx.Response.StatusCode()
	}
	if c.attempts > 0 && c.left() {
		c.g.ledger.NoteAbort(c.key, time.Now().UnixNano())
	}
	c.observe()
	if c.part != nil {
		c.part.Recycle()
	}
	g := c.g
	c.reset()
	g.calls.Put(c)
}

// left says that the client did not stay until its answer was there.
func (c *Call) left() bool {
	return c.cause == proxy.ClientGone.String() || c.cause == proxy.ClientStalled.String()
}

// release gives back what the request has taken from others: the one list for
// requests that came to their end and for those whose handler panicked. A step
// that panics does not keep the others from being taken.
func (c *Call) release() {
	defer c.g.metrics.active.Add(-1)
	defer func() {
		if c.finishes.Swap(false) {
			c.g.finishes.Add(-1)
		}
	}()
	defer func() {
		if c.part != nil {
			c.part.Close()
		}
	}()
	defer func() {
		if c.lead != nil {
			// Without an answer that was kept it is as if it had not been.
			c.lead.Forget()
			c.lead = nil
		}
	}()
	if c.hold.Open() {
		// It belongs to a request that failed: nothing of it is charged.
		c.hold.Void(time.Now().UnixNano())
	}
}

func (c *Call) observe() {
	took := c.took
	if took == 0 || c.relaying {
		took = time.Since(c.began)
	}
	m := c.g.metrics
	m.status(c.status)
	if c.cause != "" {
		m.cause(c.cause)
	}
	if c.model != nil && c.model.Index < len(c.snap.models) {
		mm := c.snap.models[c.model.Index]
		if c.settled {
			mm.duration[boolIndex(c.streams)].Update(took.Seconds())
			mm.chargedUSD.Add(float64(c.charged) / 1e9)
		}
		if c.attempts > 1 {
			mm.retries.Add(c.attempts - 1)
		}
	}
	if c.part != nil {
		c.part.Observe(took)
	}
	c.log(took)
}

// reset clears everything that belonged to the request; buffers and what has a
// state of its own are reset, not dropped.
func (c *Call) reset() {
	c.hold.Reset()
	c.doc.Reset()
	c.snap, c.ctx, c.row, c.part = nil, nil, nil, nil
	c.key, c.model, c.user, c.body = nil, nil, 0, nil
	c.admission = billing.Admission{}
	c.quota = billing.Quota{}
	c.kept, c.sold, c.router = billing.Answer{}, bill{}, ""
	if c.zip != nil {
		c.zip.release()
		c.zip = nil
	}
	c.relaying = false
	c.status, c.errCode, c.hint, c.cause, c.upstream = 0, "", "", "", ""
	c.attempts, c.tried, c.streams = 0, c.tried[:0], false
	c.charged, c.shortfall, c.settled, c.took, c.firstByte = 0, 0, false, 0, 0
}
