package queue

import (
	"io"
	"time"
)

// Task is what the engine is told of a job.
type Task struct {
	ID       string // also what an upstream is given as its idempotency key
	Kind     string
	Model    string // its id here
	Upstream string
	Target   string
	Handle   []byte
	Order    []byte
	Account  uint64
	// Asking, if not nil, is called before a target is handed the order, where Submit
	// chooses: what it returns must be known by the next process. again is as in
	// Submitted. False: the target must not be asked.
	Asking func(upstream, target string, again bool) bool
}

// Submitted is what an upstream has accepted.
type Submitted struct {
	Upstream, Target string
	Handle           []byte
	// Again says that the order may be handed over again under the same Task.ID.
	Again bool
	// Done, if not nil, is what a synchronous upstream has made already.
	Done *Standing
}

// Standing is how a job stands at its upstream.
type Standing struct {
	Done     bool
	Progress int    // 0 to 100; -1: unknown
	Result   []byte // what Fetch is given, of a job that is done
	// Body is what was made, where the answer itself brought it, and Type what the
	// upstream calls it. It must be closed.
	Body   io.ReadCloser
	Type   string
	Failed *Refused      // it is over, and nothing was made
	Retry  time.Duration // when the upstream wants to be asked again; 0: it does not say
}

// Refused is an upstream's last word: nothing is made.
type Refused struct {
	Status     int    // what a client is told at queue time
	Code       string // of the service
	Message    string // for the customer, without names of upstreams
	Suggestion string // a prompt that would be taken; empty: none
	Recommend  string // another model of ours that would take it; empty: none
	RetryAfter time.Duration
}

func (r *Refused) Error() string { return r.Message }

// Unknown is an order of which nobody can say whether the upstream has it.
type Unknown struct {
	Upstream, Target string
	Again            bool // as in Submitted
	Err              error
}

func (u *Unknown) Error() string {
	return "it is unknown whether the upstream has the job: " + u.Err.Error()
}

func (u *Unknown) Unwrap() error { return u.Err }
