package chat

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/providers"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
	"farebox/routes"
)

// inference is the part of a request to a text model: a chat completion or
// embeddings. It is pooled.
type inference struct {
	owner *Capability
	call  *routes.Call
	view  *view

	chat    dialect.Chat
	doc     *scan.Document   // of a body that was made of another form's; nil: it never had one
	native  bool             // the target speaks the client's form
	missing *routes.Error    // why the request can only be answered again; nil: it is whole
	schema  []byte           // that whole answers must follow; nil: none, or not for us to check
	scratch *dialect.Scratch // until a stream begins
	request proxy.Request
	x       proxy.Exchange
	want    billing.Admission
	number  [24]byte           // as a header has it
	answer  []byte             // non-stream answer, at most maxBuffered
	said    dialect.Completion // it, for a client of another form
	usage   dialect.Usage

	// Choice of targets (forward.go).
	targets     providers.Picker
	target      *dialect.Target
	unsupported *dialect.Unsupported // why the target cannot take the request
	reply       reply                // of the last attempt
	res         proxy.Result         // of its request
	room        int                  // the largest whole answer that is held, 0: maxBuffered
	limit       time.Duration        // for all attempts together, 0: none but the targets' own
	eventless   bool                 // the stream has begun with comments only

	// Stream (relay.go).
	stream     dialect.Stream
	full       bool        // the whole cap is held before the model is asked
	carries    bool        // the answer is read on when the client leaves
	toEnd      bool        // …to its end, even without payment
	covered    int64       // completion tokens that the hold pays for
	cut        bool        // the money ran out
	endless    bool        // the answer went on far beyond its cap
	cap        []byte      // …and this ends it as the model should have
	sized      bool        // its length is known: it comes to its end
	size, line int64       // bytes of it so far, and where its last event ended
	counted    int64       // tokens of the prompt's text, where they were counted
	finished   bool        // the model came to its end
	finishing  atomic.Bool // the same, for the watcher
	marked     bool        // the cost of the whole answer is in the journal
	likely     int64       // prompt tokens by estimate
	progressNs int64
	nextMark   int64
	tail       []byte
	onGone     func() (time.Duration, bool)
	onCost     func(dst []byte, u *dialect.Usage) []byte
	flags      brandFlags  // of a chat
	parses     bool        // its file parts become text
	files      []file      // until they are read
	lookup     *lookup     // nil: nothing is looked up
	cites      *cites      // nil: no source is cited in a chat completion
	tells      []byte      // members for the first event of a stream
	shows      bool        // its first delta gets the found texts as a tool call
	drains     atomic.Bool // it holds a slot in Capability.drains

	// Wishes of a client that the model does not meet (retold.go).
	forgotten   int  // pictures of earlier messages that the model is not shown
	clamped     bool // the cap is the model's, less than was asked
	unreasoned  bool // it asked for thoughts, and the model has none
	otherEffort bool // it asked for an effort that the model does not know
	noEffort    bool // it wants no thoughts, and the model cannot but think

	enclave enclosure
}

func newInference(owner *Capability) *inference {
	c := &inference{owner: owner}
	c.onGone, c.onCost = c.mayDrain, c.appendCost
	return c
}

// begin makes a request one to a text model.
func (ca *Capability) begin(call *routes.Call) *inference {
	c := ca.inferences.Get().(*inference)
	c.call, c.view, call.Part = call, call.Own(ca).(*view), c
	return c
}

// Close releases the slot, the stream and the buffers of the request. A step that panics does not
// skip the others.
func (c *inference) Close() {
	defer func() {
		if c.drains.Swap(false) {
			c.owner.drains.Give(c.call.Owner(), 1)
		}
	}()
	defer c.targets.End()
	c.x.Close()
}

// Observe counts tokens and first bytes, and updates the model's averages.
func (c *inference) Observe(time.Duration) {
	if !c.call.Settled || c.call.Model.Index >= len(c.view.meters) {
		return
	}
	mm := c.view.meters[c.call.Model.Index]
	if c.call.FirstByte > 0 && c.chat.Stream {
		mm.firstToken.Update(c.call.FirstByte.Seconds())
	}
	mm.input.AddInt64(c.usage.Prompt)
	mm.output.AddInt64(c.usage.Completion)
	mm.cached.AddInt64(c.usage.Cached)
	if c.usage.Estimated {
		mm.estimated.Inc()
	} else if c.call.Cause == "" && c.lookup == nil {
		mm.pace.note(c.usage.Completion, c.call.Took)
		mm.prompts.note(c.usage.Prompt, c.counted)
	}
	if l := c.lookup; l != nil && l.x && !c.usage.Estimated {
		mm.sources.note(c.usage.Sources)
	}
	mm.claimed.AddInt64(c.usage.Claimed)
	c.noteCharacter()
}

// Log adds the usage and the charge.
func (c *inference) Log(e *zerolog.Event) *zerolog.Event {
	if !c.call.Settled {
		return e
	}
	e = e.Int64("prompt_tokens", c.usage.Prompt).Int64("completion_tokens", c.usage.Completion).
		Str("charged_usd", c.call.Charged.String()).Bool("estimated", c.usage.Estimated)
	if c.call.FirstByte > 0 {
		e = e.Dur("first_byte_ms", c.call.FirstByte)
	}
	if mode := c.enclave.mode; mode != noEnclave {
		e = e.Stringer("enclave", mode)
	}
	return e
}

// Recycle clears it; buffers and parts with state of their own are reset, not dropped.
func (c *inference) Recycle() {
	c.releaseStream()
	c.giveScratch()
	c.x.Reset()
	c.native, c.schema, c.missing, c.said = false, nil, nil, dialect.Completion{}
	if c.doc != nil {
		c.doc.Reset()
	}
	c.call, c.view = nil, nil
	c.chat, c.want = dialect.Chat{}, billing.Admission{}
	c.request = proxy.Request{Patches: c.request.Patches[:0]}
	c.usage, c.flags = dialect.Usage{}, brandFlags{}
	c.lookup, c.cites, c.tells, c.shows, c.parses, c.files = nil, nil, nil, false, false, nil
	c.targets, c.target, c.unsupported, c.reply, c.room = providers.Picker{}, nil, nil, reply{}, 0
	c.res, c.limit, c.eventless = proxy.Result{}, 0, false
	c.covered, c.likely, c.counted, c.progressNs, c.nextMark = 0, 0, 0, 0, 0
	c.full, c.carries, c.toEnd = false, false, false
	c.forgotten = 0
	c.clamped, c.unreasoned, c.otherEffort, c.noEffort = false, false, false, false
	c.cut, c.endless, c.cap, c.finished = false, false, nil, false
	c.sized, c.marked, c.size, c.line = false, false, 0, 0
	c.finishing.Store(false)
	c.enclave.reset()
	c.tail = c.tail[:0]
	if cap(c.answer) > maxBuffered {
		c.answer = nil
	}
	c.owner.inferences.Put(c)
}

// giveScratch gives back the buffers that only the request's preparation needed: thousands of
// open streams need not hold them.
func (c *inference) giveScratch() {
	if c.scratch != nil {
		c.scratch.Reset()
		c.owner.scratches.Put(c.scratch)
		c.scratch = nil
	}
}

// patience is how long carrying out an inference can take.
func (c *inference) patience() (longest time.Duration) {
	if !c.call.Keyed() {
		return 0
	}
	for _, t := range c.call.Model.Targets {
		total := t.Upstream.Config.Timeouts.Total
		if total <= 0 {
			return keyedLongest
		}
		longest = max(longest, total)
	}
	longest *= time.Duration(len(c.call.Model.Targets))
	if c.parses || c.lookup.asks() {
		longest += keyedBefore
	}
	return min(longest, keyedLongest)
}

// keyedLongest is how long an answer may take whose upstreams have no limit for
// the whole of it.
const keyedLongest = time.Hour

// keyedBefore is how long the steps before the model may take: files and lookups.
const keyedBefore = 10 * time.Minute
