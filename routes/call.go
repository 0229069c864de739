package routes

import (
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/providers"
	"farebox/providers/attempt"
	"farebox/providers/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// retrySoon is the Retry-After of conditions that usually pass within a second.
const retrySoon = time.Second

// Call is one request on its way through the rooms. It is pooled and cleared
// as a whole; one goroutine owns it from begin to end.
type Call struct {
	g    *Gateway
	snap *snapshot
	ctx  *fasthttp.RequestCtx // valid until the handler returns
	row  *route

	began   time.Time
	startNs int64
	raw     [16]byte
	id      requestID
	number  [24]byte

	key   *billing.Key
	model *dialect.Model
	user  uint64 // hash of the OpenAI user string, 0 for none

	doc       scan.Document
	chat      dialect.Chat
	scratch   *dialect.Scratch // until a stream begins
	request   proxy.Request
	admission billing.Admission
	hold      billing.Hold
	quota     billing.Quota
	x         proxy.Exchange
	answer    []byte // non-stream answer, at most maxBuffered

	// Choice of targets (forward.go).
	targets     providers.Plan
	target      *dialect.Target
	attempts    int
	unsupported *dialect.Unsupported // why the target cannot take the request
	reply       reply                // of the last attempt
	room        int                  // the largest whole answer that is held, 0: maxBuffered
	tried       []attempt.Tried      // the attempts that failed

	rpc *rpcCall // of blockchain calls (crypto.go), else nil
	// lead is held by a request with an idempotency key (idempotency.go).
	lead *billing.Lead
	kept billing.Answer // of a request with a lead, until it is charged
	// toEnd says that the answer is read to its end without the client, whoever
	// pays; finishes, that it holds a place in Gateway.finishes for that.
	toEnd    bool
	finishes atomic.Bool

	// Stream (relay.go).
	stream     dialect.Stream
	full       bool        // the whole cap is held before the model is asked
	lowered    bool        // the cap is what the account can pay, less than was asked
	sent       bool        // the last attempt's upstream had something of the request
	carries    bool        // the answer is read on when the client leaves
	covered    int64       // completion tokens that the hold pays for
	cut        bool        // the money ran out
	endless    bool        // the answer went on far beyond its cap
	counted    int64       // tokens of the prompt's text, where they were counted
	finished   bool        // the model came to its end
	finishing  atomic.Bool // the same, for the watcher
	likely     int64       // prompt tokens by estimate
	progressNs int64
	nextMark   int64
	tail       []byte
	zip        *zip // compresses the answer on its way; nil: it leaves as it is
	onDone     func(proxy.Outcome)
	onGone     func() (time.Duration, bool)
	onCost     func(dst []byte, u *dialect.Usage) []byte
	flags      brandFlags  // of a chat whose answer repeats them
	drains     atomic.Bool // it holds a place in Gateway.drains
	relaying   bool

	// What is logged and counted.
	status    int
	errCode   string
	hint      string // for the operator: the switch that would have served it
	cause     string
	upstream  string
	usage     dialect.Usage
	images    int64 // that were delivered and charged
	charged   billing.Nano
	shortfall billing.Nano
	settled   bool
	took      time.Duration // until the charge
	firstByte time.Duration
}

func newCall(g *Gateway) *Call {
	c := &Call{g: g}
	c.onDone, c.onGone, c.onCost = c.finishRelay, c.mayDrain, c.appendCost
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
	c.giveRPC()
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
	defer c.releaseRPC()
	defer func() {
		if c.drains.Swap(false) {
			c.g.drains.Add(-1)
		}
		if c.finishes.Swap(false) {
			c.g.finishes.Add(-1)
		}
	}()
	defer c.targets.End()
	defer c.x.Close()
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
		streamed := 0
		if c.chat.Stream {
			streamed = 1
		}
		if c.settled {
			mm.duration[streamed].Update(took.Seconds())
			if c.firstByte > 0 && c.chat.Stream {
				mm.firstToken.Update(c.firstByte.Seconds())
			}
			mm.input.AddInt64(c.usage.Prompt)
			mm.output.AddInt64(c.usage.Completion)
			mm.cached.AddInt64(c.usage.Cached)
			if c.images > 0 {
				mm.images.AddInt64(c.images)
			}
			mm.chargedUSD.Add(float64(c.charged) / 1e9)
			if c.usage.Estimated {
				mm.estimated.Inc()
			} else if c.cause == "" {
				mm.pace.note(c.usage.Completion, c.took)
				mm.prompts.note(c.usage.Prompt, c.counted)
			}
			mm.claimed.AddInt64(c.usage.Claimed)
		}
		if c.attempts > 1 {
			mm.retries.Add(c.attempts - 1)
		}
	}
	if c.rpc != nil {
		c.rpc.observe(c, took)
	}
	c.log(took)
}

// giveScratch gives back what only the way to the answer needed: thousands of
// open streams need not hold it.
func (c *Call) giveScratch() {
	if c.scratch != nil {
		c.scratch.Reset()
		c.g.scratches.Put(c.scratch)
		c.scratch = nil
	}
}

// reset clears everything that belonged to the request; buffers and parts with
// state of their own are reset, not dropped.
func (c *Call) reset() {
	c.releaseStream()
	c.hold.Reset()
	c.doc.Reset()
	c.giveScratch()
	c.x.Reset()
	c.snap, c.ctx, c.row = nil, nil, nil
	c.key, c.model, c.user = nil, nil, 0
	c.chat = dialect.Chat{}
	c.request = proxy.Request{Patches: c.request.Patches[:0]}
	c.admission = billing.Admission{}
	c.flags = brandFlags{}
	c.quota = billing.Quota{}
	c.targets = providers.Plan{}
	c.target, c.attempts, c.unsupported, c.reply, c.room, c.tried = nil, 0, nil, reply{}, 0, c.tried[:0]
	c.stream, c.covered, c.likely, c.cut, c.progressNs, c.nextMark, c.relaying = nil, 0, 0, false, 0, 0, false
	c.counted = 0
	c.full, c.lowered, c.sent, c.carries, c.endless, c.finished = false, false, false, false, false, false
	c.finishing.Store(false)
	c.tail = c.tail[:0]
	if c.zip != nil {
		c.zip.release()
		c.zip = nil
	}
	if cap(c.answer) > maxBuffered {
		c.answer = nil
	}
	c.status, c.errCode, c.hint, c.cause, c.upstream = 0, "", "", "", ""
	c.images, c.kept, c.toEnd = 0, billing.Answer{}, false
	c.usage, c.charged, c.shortfall, c.settled, c.took, c.firstByte = dialect.Usage{}, 0, 0, false, 0, 0
}
