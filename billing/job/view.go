package job

import (
	"time"

	"farebox/billing/store"
)

// View is what the customer of a job may know of it.
type View struct {
	ID, Kind, Model string
	// State is one of the store's; its customer knows three: a job that is not terminal
	// is processing.
	State store.JobState
	// Progress is in percent, 0 to 99 until the job is completed: its upstream's word, or
	// what the time says.
	Progress int
	Began    time.Time
	Took     time.Duration // until it ended, or until now
	Average  time.Duration // what four of five jobs of its model stay below

	// Of a failed one. Code is machine-readable, Message for people; Suggestion is a
	// prompt that would be taken, Recommend another model. Refunded says that its price
	// is, or will be, given back.
	Code, Message         string
	Suggestion, Recommend string
	Refunded              bool

	// Of a completed one.
	MediaType  string
	MediaBytes int64
	URL        string // where media.links is on: where it is fetched, without a key
	ExpiresAt  time.Time

	Detail []byte // what its kind's endpoints noted when it was queued
}

// Failed says that nothing was made.
func (v *View) Failed() bool { return v.State == store.JobFailed }

// Completed says that what was made can be fetched.
func (v *View) Completed() bool { return v.State == store.JobCompleted }
