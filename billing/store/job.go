package store

import "farebox/billing/money"

// JobState is where a job stands. The numbers are stored; Completed and Failed are
// terminal: nothing leaves them.
type JobState uint8

// The states of a job.
const (
	JobSubmitting JobState = 1 + iota // it is paid; its upstream may have been asked
	JobRunning                        // its upstream has it
	JobStoring                        // its upstream has made it, and it is being fetched
	JobCompleted                      // it can be fetched by its customer
	JobFailed                         // it came to nothing, and what it cost is given back
)

// Terminal says that a job stays as it is.
func (s JobState) Terminal() bool { return s >= JobCompleted }

// JobRow is work that outlives its request: a track or a video.
//
// A job is charged if and only if its row exists: it is added while the hold of its
// request is open and has its charge prepared in the journal (Hold is its sequence
// there, of Node), and dropped before the hold is voided. The projector notes what was
// charged (Paid) when it applies the settlement. What failed is refunded once it is
// paid: whichever comes last.
type JobRow struct {
	ID      string // queue_id: a UUID
	Kind    string // of what the endpoints sell: music, video
	Model   string // its id here
	Account uint32
	Key     int64
	Request [16]byte // of the request that queued it; a repeat with an idempotency key has the same

	Node   uint32 // in whose journal the charge stands
	Hold   uint64 // and where
	Paid   money.Parts
	PaidUs int64       // when the charge was applied; 0: not yet
	Day    int32       // whose DIEM it took
	Back   money.Parts // what was given back
	BackUs int64       // when; 0: not, or not yet
	Owed   bool        // it is to be given back

	State    JobState
	Owner    uint32 // the node that drives it
	Epoch    int64  // counts the changes of its owner: an earlier one changes nothing any more
	Upstream string // the operator's label
	Target   string // the model's name there
	Handle   []byte // what the upstream is asked about it by; at most 4 KiB
	Order    []byte // what the upstream is asked for, until it has it, or for a resend
	Tries    int32  // how often it was submitted

	Code, Error string // of a failure, for the customer
	Detail      []byte // what the answers say besides, as the endpoints of its kind write it (JSON)

	MediaType  string // of what was made; empty: nothing is kept
	MediaBytes int64

	CreatedUs, SubmittedUs, EndedUs int64
	ExpiresUs                       int64 // when it is forgotten with its media
	ReleasedUs                      int64 // when its customer let it go: for everybody outside it is gone; 0: not
}
