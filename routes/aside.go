package routes

import (
	"time"

	"farebox/providers"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// InternalCompletion is a question to a text model on behalf of a request: nobody is charged for
// it, and its answer goes to no client.
type InternalCompletion struct {
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

// TextModels answer the prompts of capabilities. The errors of Ask hold no words of the client.
type TextModels interface {
	Ask(c *Call, a *InternalCompletion) error
	// Sell serves a chat completion that was asked for in another form.
	Sell(c *Call, r *TranslatedChat) *Error
}

// TranslatedChat is a chat completion that was asked for in another form.
type TranslatedChat struct {
	// Form is the client's; its body and the scan of it are those of the Call.
	Form dialect.Form
	// Body is the chat body that was made of it. Where the client's own has issues, only its model is
	// read, and no Body is needed.
	Body []byte
	// Issues are the problems of the client's own body. Problems of Body are reported under the
	// client's names.
	Issues []Issue
	// Missing is the reason that a part of the body is absent; nil: all is there. With it only a
	// stored answer of the same idempotency key is given.
	Missing *Error
}

// Wrong adds members of the client's own body that no upstream gets to its issues.
func (r *TranslatedChat) Wrong(members []dialect.Unsupported) {
	for _, m := range members {
		r.Issues = append(r.Issues, Issue{Code: "custom", Path: m.Path, Message: m.Text})
	}
}

// BeginAside gives a Call for an Aside. The taker gives it back with EndAside.
func (c *Call) BeginAside(model *providers.Model) *Call {
	a := c.g.calls.Get().(*Call)
	a.snap, a.Key, a.owner, a.Model = c.snap, c.Key, c.owner, model
	a.Began = time.Now()
	a.StartNs, a.ID = a.Began.UnixNano(), c.ID
	return a
}

// EndAside gives the Call of an Aside back.
func (c *Call) EndAside() {
	c.reset()
	c.g.calls.Put(c)
}
