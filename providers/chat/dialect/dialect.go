package dialect

import (
	"time"

	"farebox/providers/attempt"
	"farebox/proxy"
)

// Dialect translates chat completions to an upstream's format, and its answers back.
// Implementations hold no state.
type Dialect interface {
	// Request fills path, body and patches of r for the model's name at t. s is
	// memory that r then points into.
	Request(r *proxy.Request, c *Chat, t *Target, s *Scratch) error
	// Answer turns a complete 2xx body into a chat completion; out may be body itself
	// and is valid until s is reused. A dialect that translates fills c.Said instead, unless
	// that is nil.
	Answer(body []byte, c *Chat, t *Target, s *Scratch) (out []byte, u Usage, err error)
	// Error reads an upstream's error answer and judges it. Where the vendor
	// hides in a body an error with a status of its own, that status counts.
	Error(status int, retryAfter time.Duration, body []byte) Failure
	// Stream starts reading one streaming answer. A dialect that translates writes it for
	// c.Client, unless that is nil.
	Stream(c *Chat, t *Target) Stream
	// Translates says that an answer must be whole to be turned into the
	// client's; otherwise a BodyMeter can relay it.
	Translates() bool
}

// Stream reads an answer on its way to the client. One goroutine owns it.
type Stream interface {
	// Pass is given the next bytes of the upstream's answer and returns those
	// for the client: whole events, or p itself. They are valid until the next call.
	Pass(p []byte) []byte
	// Finish ends the answer and returns the client's last bytes. complete says
	// that the upstream ended it properly, as far as transport goes.
	Finish(complete bool) []byte
	// Usage is the answer's use; to be called after Finish. Seen is false
	// and Estimated true when the upstream did not say and we counted.
	Usage() Usage
	// Produced is about how many completion tokens there were so far, at least
	// one for each event with data.
	Produced() int64
	// Exceeds says that more than most completion tokens of known text, or more events,
	// were delivered.
	Exceeds(most int64) bool
	// Cut ends an answer that continues beyond its cap as the model should have: with the
	// finish_reason length. short is the remaining part of the last result of Pass, tail goes
	// behind it and ends the answer; nil: it cannot be ended here.
	Cut(out []byte) (short, tail []byte)
	// AtBoundary says that an event may be written after the result of Pass.
	AtBoundary() bool
	// Done says that the answer came to its end: [DONE] went out, or will with Finish.
	Done() bool
	// Finished says that the model came to the end of its answer: the rest may
	// only have its usage.
	Finished() bool
	// Failed says that the upstream reported a failure inside the answer, and
	// FailedWith in which JSON; nil: in none that can be read.
	Failed() bool
	FailedWith() []byte
	// Release gives the Stream back; it must not be used afterwards.
	Release()
}

// Failure is an upstream's error answer as the client may see it: it names no
// host, key or organisation.
type Failure struct {
	Status     int    // the client's status
	Code       string // machine code of addendum 3.5, or context_length_exceeded
	Type       string // OpenAI's kind of error
	Message    string
	Param      string // only with context_length_exceeded
	RetryAfter time.Duration
	// Verdict is the consequence for the request and for the target's health.
	Verdict attempt.Verdict
}

// Failed is an error object that an upstream sent in place of an answer of 2xx.
type Failed struct{ JSON []byte }

func (f *Failed) Error() string { return "the upstream reports an error in an answer of status 200" }

// Status is the status of the error.
func (f *Failed) Status() int { return ErrorStatus(f.JSON) }

// Unsupported is a request that a dialect cannot express. Path names the
// member that is in the way; Text is for the client.
type Unsupported struct {
	Path, Text string
	// Own says that the Path is one of the client's own body, not of the chat body that
	// was made of it.
	Own bool
}

func (u *Unsupported) Error() string { return u.Text }
