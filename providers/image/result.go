package image

import (
	"time"

	"farebox/config/fair"
	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/providers/filebody"
	"farebox/providers/image/picture"
	"farebox/proxy"
)

// Image is one image of an answer; exactly one of Text and Raw is set, as the upstream sent
// it. Format, Width and Height are those of its header.
type Image struct {
	Text []byte // padded standard base64 without line ends
	Raw  []byte

	Format        picture.Format
	Width, Height int

	Seed          Maybe[int64]
	RevisedPrompt string
	// Blocked: the upstream withheld the image for its content. A black image takes its
	// place, which costs nothing (addendum 3.7).
	Blocked bool
	Blurred bool // safe mode blurred it
}

// Size is the length of the file in bytes.
func (m *Image) Size() int64 { return filebody.Size(m.Text, m.Raw) }

// Result is the outcome of a Job: 1 to Job.Count images. When upstreams failed for
// some of them only, there are fewer than asked for, and Missing says why.
// Release must be called when the client has them.
type Result struct {
	Images  []Image
	Missing *Failed
	// Target made the first of the images.
	Target *Target
	// Flags of the whole answer (addendum 3.7): x-svc-is-blurred,
	// is-content-violation, is-adult-model-content-violation, contains-minor.
	Blurred, Violation, AdultViolation, Minor bool
	// EnhancedPrompt is the prompt that an upstream of our own kind rewrote.
	EnhancedPrompt string
	Usage          Usage

	// Queued is the time that the job waited in the upstream's queue, Working the
	// rest of the time at upstreams, Converting our own time for formats.
	Queued, Working, Converting time.Duration
	Calls                       int // runs that made images
	Attempts                    int // targets asked, the failed ones among them
	Tried                       []attempt.Tried

	engine *Engine
	owner  fair.Owner
	held   int64 // of the engine's room
}

// Release gives the memory of the images back; none of them may be used after
// it. It may be called more than once.
func (r *Result) Release() {
	if r.engine != nil {
		r.engine.held.Give(r.owner, r.held)
		r.engine, r.held, r.Images = nil, 0, nil
	}
}

// Delivered counts the images that are not Blocked: the ones to be paid for.
func (r *Result) Delivered() (n int) {
	for i := range r.Images {
		if !r.Images[i].Blocked {
			n++
		}
	}
	return n
}

// Usage is the token usage that an upstream reported, summed over its calls; all zero when
// it reported none.
type Usage struct{ Input, InputText, InputImage, Output int64 }

// Failed is the reason that a Job has no images. Exactly one of Cause and Failure says it:
// with Cause None an upstream answered, and Failure is its answer as the client
// may see it.
type Failed struct {
	Cause      proxy.Cause // transport: no target, client gone, a limit ran out …
	Failure    dialect.Failure
	Err        error   // for the operator; names no hosts and no secrets
	Target     *Target // the last one asked, may be nil
	RetryAfter time.Duration
	Attempts   int
	Tried      []attempt.Tried // the targets that failed
}

func (f *Failed) Error() string {
	if f.Cause != proxy.None {
		return "no image: " + f.Cause.String()
	}
	return "no image: " + f.Failure.Message
}
