package routes

import (
	"time"

	"farebox/providers"
	"farebox/proxy"
)

// Aside is a question to a text model on behalf of a request: nobody is charged for
// it, and its answer goes to no client.
type Aside struct {
	Model      *providers.Model
	Body       []byte // in OpenAI's form; dialects make theirs of it
	MostTokens int64  // of the completion
	MostBytes  int    // of the whole answer, reasoning and all
	Within     time.Duration
	NoThinking bool
	// Stay says whether the answer is waited for when the client left. The watcher
	// asks it, from its own goroutine.
	Stay func() bool

	// Answer is the completion in OpenAI's form.
	Answer   []byte
	Upstream string
	Sent     bool // the upstream had something of it
	// Cause is why there is no answer, None where there is another reason.
	Cause proxy.Cause
}

// TextModels answer what a capability asks of them. The errors of Ask hold no words
// of the client.
type TextModels interface {
	Ask(c *Call, a *Aside) error
}

// BeginAside gives a Call for an Aside. Whoever took it gives it back with EndAside.
func (c *Call) BeginAside(model *providers.Model) *Call {
	a := c.g.calls.Get().(*Call)
	a.snap, a.Key, a.Model = c.snap, c.Key, model
	a.Began = time.Now()
	a.StartNs, a.ID = a.Began.UnixNano(), c.ID
	return a
}

// EndAside gives the Call of an Aside back.
func (c *Call) EndAside() {
	c.reset()
	c.g.calls.Put(c)
}
