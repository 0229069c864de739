package routes

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/providers"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// inference is the part of a request to a text model: a chat completion or
// embeddings. It is pooled.
type inference struct {
	*Call

	chat    dialect.Chat
	scratch *dialect.Scratch // until a stream begins
	request proxy.Request
	x       proxy.Exchange
	want    billing.Admission
	answer  []byte // non-stream answer, at most maxBuffered
	usage   dialect.Usage

	// Choice of targets (forward.go).
	targets     providers.Picker
	target      *dialect.Target
	unsupported *dialect.Unsupported // why the target cannot take the request
	reply       reply                // of the last attempt
	room        int                  // the largest whole answer that is held, 0: maxBuffered

	// Stream (relay.go).
	stream     dialect.Stream
	full       bool        // the whole cap is held before the model is asked
	lowered    bool        // the cap is what the account can pay, less than was asked
	sent       bool        // the last attempt's upstream had something of the request
	carries    bool        // the answer is read on when the client leaves
	toEnd      bool        // …to its end, whoever pays
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
	onGone     func() (time.Duration, bool)
	onCost     func(dst []byte, u *dialect.Usage) []byte
	flags      brandFlags  // of a chat whose answer repeats them
	drains     atomic.Bool // it holds a place in Gateway.drains
}

func newInference() *inference {
	c := &inference{}
	c.onGone, c.onCost = c.mayDrain, c.appendCost
	return c
}

// inference makes a request one to a text model.
func (g *Gateway) inference(call *Call) *inference {
	c := g.inferences.Get().(*inference)
	c.Call, call.Part = call, c
	return c
}

// Close gives back what the request has taken from others. A step that panics
// does not keep the others from being taken.
func (c *inference) Close() {
	defer func() {
		if c.drains.Swap(false) {
			c.g.drains.Add(-1)
		}
	}()
	defer c.targets.End()
	c.x.Close()
}

// Observe counts tokens and first bytes, and learns from what it saw.
func (c *inference) Observe(time.Duration) {
	if !c.Settled || c.Model.Index >= len(c.snap.models) {
		return
	}
	mm := c.snap.models[c.Model.Index]
	if c.FirstByte > 0 && c.chat.Stream {
		mm.firstToken.Update(c.FirstByte.Seconds())
	}
	mm.input.AddInt64(c.usage.Prompt)
	mm.output.AddInt64(c.usage.Completion)
	mm.cached.AddInt64(c.usage.Cached)
	if c.usage.Estimated {
		mm.estimated.Inc()
	} else if c.Cause == "" {
		mm.pace.note(c.usage.Completion, c.Took)
		mm.prompts.note(c.usage.Prompt, c.counted)
	}
	mm.claimed.AddInt64(c.usage.Claimed)
}

// Log says what was used and charged.
func (c *inference) Log(e *zerolog.Event) *zerolog.Event {
	if !c.Settled {
		return e
	}
	e = e.Int64("prompt_tokens", c.usage.Prompt).Int64("completion_tokens", c.usage.Completion).
		Str("charged_usd", c.Charged.String()).Bool("estimated", c.usage.Estimated)
	if c.FirstByte > 0 {
		e = e.Dur("first_byte_ms", c.FirstByte)
	}
	return e
}

// Recycle clears it; buffers and what has a state of its own are reset, not
// dropped.
func (c *inference) Recycle() {
	g := c.g
	c.releaseStream()
	c.giveScratch()
	c.x.Reset()
	c.Call = nil
	c.chat, c.want = dialect.Chat{}, billing.Admission{}
	c.request = proxy.Request{Patches: c.request.Patches[:0]}
	c.usage, c.flags = dialect.Usage{}, brandFlags{}
	c.targets, c.target, c.unsupported, c.reply, c.room = providers.Picker{}, nil, nil, reply{}, 0
	c.covered, c.likely, c.counted, c.progressNs, c.nextMark = 0, 0, 0, 0, 0
	c.full, c.lowered, c.sent, c.carries, c.toEnd = false, false, false, false, false
	c.cut, c.endless, c.finished = false, false, false
	c.finishing.Store(false)
	c.tail = c.tail[:0]
	if cap(c.answer) > maxBuffered {
		c.answer = nil
	}
	g.inferences.Put(c)
}

// giveScratch gives back what only the way to the answer needed: thousands of
// open streams need not hold it.
func (c *inference) giveScratch() {
	if c.scratch != nil {
		c.scratch.Reset()
		c.g.scratches.Put(c.scratch)
		c.scratch = nil
	}
}
