// Package asyncjob has the types in which billing orders jobs from upstreams and providers
// answer. Neither of these rooms imports the other.
//
// Out of scope: the results of jobs, the wire of upstreams, money.
package asyncjob

import (
	"errors"
	"io"
	"time"
)

// Task is a job as an upstream needs to know it.
type Task struct {
	ID       string // also the idempotency key of upstreams
	Kind     string
	Model    string // its id here
	Upstream string
	Target   string
	Handle   []byte
	Order    []byte
	Account  uint64
	// Asking, if not nil, is called before a target gets the order. It records in the job's
	// row which target may have it, and whether that target takes it once (again, as in
	// Submitted): the process may die before the answer. False: the target must not be asked.
	Asking func(upstream, target string, again bool) bool
}

// Submitted is an order that an upstream has accepted.
type Submitted struct {
	Upstream, Target string
	Handle           []byte // names the job in later questions
	// Again says that the order may be sent again with the same Task.ID when its outcome is
	// unknown: the upstream takes it once.
	Again bool
	// Done, if not nil, is the result of a synchronous upstream.
	Done *Status
}

// Status is the status of a job at its upstream.
type Status struct {
	Done     bool
	Progress int    // 0 to 100; -1: unknown
	Result   []byte // for Fetch, of a job that is done; at most 4 KiB
	// Body is the result where the answer itself had it, and Type its type as the upstream
	// names it. It must be closed.
	Body   io.ReadCloser
	Type   string
	Failed *Refused      // the job is over without a result
	Retry  time.Duration // when the upstream wants to be asked again; 0: it did not say
}

// Refused is a final answer: the upstream makes nothing and charges nothing.
type Refused struct {
	Status     int    // of the answer to a client whose order is refused
	Code       string // of the service
	Message    string // for the customer, without names of upstreams
	Suggestion string // a prompt that would be accepted; empty: none
	Recommend  string // another model of ours that would accept it; empty: none
	RetryAfter time.Duration
}

func (r *Refused) Error() string { return r.Message }

// Unknown is an order that the upstream may or may not have.
type Unknown struct {
	Upstream, Target string
	Again            bool // as in Submitted
	Err              error
}

func (u *Unknown) Error() string {
	return "it is unknown whether the upstream has the job: " + u.Err.Error()
}

func (u *Unknown) Unwrap() error { return u.Err }

// Errors of a media store about a result. ErrUnfit is final for this result.
var (
	ErrUnfit = errors.New("the result is too large, or has another type than it claims")
	ErrFull  = errors.New("there is no space left for results")
)
