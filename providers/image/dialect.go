package image

import (
	"time"

	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/providers/health"
	"farebox/proxy"
)

// Dialect puts jobs to one kind of upstream. Implementations hold no state.
type Dialect interface {
	// Reach is the upstream's support for j at t.
	Reach(j *Job, t *Target) Reach
	// Begin starts a run that makes n images, 1 to Reach.PerCall.
	Begin(j *Job, t *Target, n int) Run
}

// Reach is an upstream's support for a job.
type Reach struct {
	// No is the reason that it cannot do the job at all; the target is skipped then, and
	// the client gets the text when no other target can.
	No *dialect.Unsupported
	// PerCall is how many images one run can make, at least 1. A job that wants
	// more takes several runs.
	PerCall int
	// Formats says that the images come in Job.Format already. Otherwise the
	// engine converts those in another one.
	Formats bool
	// Masks says that the upstream takes Job.Mask.
	Masks bool
	// Metadata says that the upstream itself embeds metadata when asked to.
	Metadata bool
}

// Run is one exchange with a target: one request, or several with waits in
// between. One goroutine owns it.
type Run interface {
	// Next is given the answer to the last step, nil at first, and does one of three
	// things: it fills s with the next step, returns the outcome, or returns the failure.
	// It gets answers of 300 and above, too.
	Next(s *Step, last *Reply) (*Outcome, *dialect.Failure)
	// Cancel fills s with the request to stop, after the client left or a limit ran out;
	// false if nothing is to be sent. Its answer is read and forgotten.
	Cancel(s *Step) bool
}

// Step is the next step that a Run asks for.
type Step struct {
	// Wait is how long to wait first; a client that leaves ends the wait.
	Wait time.Duration
	// Request goes to the run's target, unless URL is set.
	Request proxy.Request
	// URL is fetched through the guard instead: it is from the upstream, and as hostile as
	// a client's.
	URL string
	// Most bounds the answer in bytes; 0: the largest images the run can make.
	Most int
	// Repeats says that the step may be sent again at the same target when its
	// answer was lost on the way: it starts no work.
	Repeats bool
}

// Reply is a complete answer to a step. Body stays valid until the Result is
// released: images are slices of it.
type Reply struct {
	Status      int
	ContentType string
	Header      func(name string) []byte // nil after a fetch; valid during Next
	Body        []byte
	RetryAfter  time.Duration
}

// Outcome is the result of a run: at least one image. Formats, sizes and base64
// need not be checked by the dialect; the engine does it for all.
type Outcome struct {
	Images                                    []Image
	Blurred, Violation, AdultViolation, Minor bool
	EnhancedPrompt                            string
	Usage                                     Usage
	Queued                                    time.Duration
}

// Target is one upstream that serves an image model. Immutable.
type Target struct {
	Upstream string // the operator's label, for logs and metrics only
	Model    string // the model's name there
	Dialect  Dialect
	Proxy    *proxy.Endpoint
	Base     string // the base URL, which addresses that the upstream names must begin with
	// Options are the dialect's own settings as the operator wrote them, e.g.
	// sampler for AUTOMATIC1111; each dialect lists its keys.
	Options map[string]string
	// Breaker is its health; Weight and Priority say when it is asked.
	Breaker          *health.Breaker
	Weight, Priority int
}

// picker chooses the targets of one run: those of the lowest priority number
// come first.
type picker = attempt.ByPriority[*Target]

// Turn is attempt.Ranked.
func (t *Target) Turn() (*health.Breaker, int, int) { return t.Breaker, t.Weight, t.Priority }
