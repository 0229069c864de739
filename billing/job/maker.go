package job

import (
	"context"
	"errors"
	"io"
	"time"
)

// Maker is the side of the upstreams. Its calls are made for no client and end with
// their context; it may be used by several goroutines.
type Maker interface {
	// Submit hands an order to the target that Upstream and Target of the job name, or,
	// where they are empty, to the one that it chooses. What it returns was accepted;
	// else the error is a *Refused or an *Unknown.
	Submit(ctx context.Context, t Task) (*Submitted, error)
	// Poll asks how it stands. An error means that this is not known: it is asked again.
	Poll(ctx context.Context, t Task) (*Standing, error)
	// Cancel has the upstream stop, and says whether it confirms that it charges nothing.
	// An error means that it is to be asked again.
	Cancel(ctx context.Context, t Task) (free bool, err error)
	// Fetch opens what was made. Type is what the upstream calls it.
	Fetch(ctx context.Context, t Task, result []byte) (body io.ReadCloser, contentType string, err error)
}

// Synchronous is a Maker some of whose upstreams answer with what they made, which
// takes as long as making it: their clients are not kept waiting for Submit.
type Synchronous interface {
	// AtOnce says that the upstreams of a model of ours do so.
	AtOnce(kind, model string) bool
}

// Task is what a Maker is told of a job.
type Task struct {
	ID       string // also what an upstream is given as its idempotency key
	Kind     string
	Model    string // its id here
	Upstream string
	Target   string
	Handle   []byte
	Order    []byte
	Account  uint64
	// Asking is to be called before an upstream is handed the order. It has the job's row
	// say where that may be, if the upstream takes it once (again, as in Submitted): the
	// process may die before the answer is there. False: the upstream must not be asked.
	Asking func(upstream, target string, again bool) bool
}

// Submitted is what an upstream has accepted.
type Submitted struct {
	Upstream, Target string
	Handle           []byte // what it is asked by from now on
	// Again says that an order may be handed over again under the same Task.ID when its
	// outcome is not known: the upstream takes it once.
	Again bool
	// Done, if not nil, is what a synchronous upstream has made already.
	Done *Standing
}

// Standing is how a job stands at its upstream.
type Standing struct {
	Done     bool
	Progress int    // 0 to 100; -1: unknown
	Result   []byte // what Fetch is given, of a job that is done; at most 4 KiB
	Body     io.ReadCloser
	// Type is that of Body, which is there where the answer itself was what was made.
	Type   string
	Failed *Refused      // it is over, and nothing was made
	Retry  time.Duration // when the upstream wants to be asked again; 0: it does not say
}

// Refused is an upstream's last word: nothing is made, and it charges nothing.
type Refused struct {
	Status     int    // what a client is told at queue time
	Code       string // of the service
	Message    string // for the customer, without names of upstreams
	Suggestion string // a prompt that would be taken; empty: none
	// Recommend is another model of ours that would take it; empty: none.
	Recommend  string
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

// What a Keeper says of a body that it does not take, whoever sends it again.
var (
	ErrUnfit = errors.New("the result is too large, or has another type than it claims")
	ErrFull  = errors.New("there is no space left for the result")
)

// Keeper keeps what was made (providers/media).
type Keeper interface {
	// Put keeps a body under an id and says how large it was. It replaces what was there.
	// What is larger than most, or does not have the form of its type, is ErrUnfit; what passes a quota is ErrFull.
	Put(ctx context.Context, id string, body io.Reader, contentType string, most int64) (size int64, err error)
	// Delete forgets it; what is not there is no error.
	Delete(ctx context.Context, id string) error
}
