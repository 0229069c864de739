package routes

import (
	"time"

	"farebox/billing/job"
	"farebox/providers/queue"
)

// JobSale is a job on its way to be sold: the fourth ending of a sale.
type JobSale struct {
	Kind  queue.Kind
	Order *queue.Order
	// MediaTypes are those of which what is made may be: audio/mpeg, video/mp4. Empty:
	// any that the kind can be.
	MediaTypes []string
	// Detail is what the endpoints want to know of the job later on: JSON, at most 4 KiB.
	Detail []byte
}

// Queue sells a job and has an upstream asked for it, from a CarryOut whose Sold says
// what it costs already. When it returns an id, the job is the store's, and its
// upstream has it or will be asked until it has; the rest is the machine's. After an
// error nothing was sold, or it was sold and is given back, as the error says then.
func (c *Call) Queue(s *JobSale) (id string, e *Error) {
	return "", &Error{Status: 503, Code: "MODEL_OFFLINE", Message: "Jobs are not taken right now.",
		RetryAfter: RetrySoon}
}

// Job is what the request's account may know of a job of a kind and a model: 404 where
// it has none of that id, or let it go. An upstream that has it is asked soon.
func (c *Call) Job(kind queue.Kind, model, id []byte) (*job.View, *Error) {
	return nil, NoMedia(id)
}

// ReleaseJob lets a job go, in any state: from here on it is unknown to its customer,
// what it made is deleted, and an upstream that still has it is told to stop. ok is
// false where what it made could not be deleted now: it is as before, and can be let
// go once more.
func (c *Call) ReleaseJob(v *job.View) (ok bool, e *Error) {
	return false, NoMedia([]byte(v.ID))
}

// DeliverMedia makes what a completed job made the answer, streamed from where it is
// kept. With release the job is let go once the last byte was taken; a client that left
// before that can fetch it again.
func (c *Call) DeliverMedia(v *job.View, release bool) *Error {
	return NoMedia([]byte(v.ID))
}

// JobAverage is what four of five jobs of a model took no longer than.
func (c *Call) JobAverage(model string) time.Duration { return time.Minute }

// NoMedia is the answer to an id that names nothing of this account.
func NoMedia(id []byte) *Error {
	return &Error{Status: 404, Code: "MEDIA_NOT_FOUND", Message: "There is no job " + Excerpt(id) +
		" of this model: it is unknown, has expired or was released."}
}
