package store

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"farebox/billing/money"
)

// JobState is the state of a job. The numbers are stored; Completed and Failed are
// terminal: nothing leaves them.
type JobState uint8

// The states of a job. They are named in jobStates.
const (
	JobSubmitting JobState = 1 + iota // it is paid; its upstream may have been asked
	JobRunning                        // its upstream has it
	JobStoring                        // its upstream has made it, and it is being fetched
	JobCompleted                      // it can be fetched by its customer
	JobFailed                         // it produced nothing, and its cost is refunded
)

var jobStates = [...]string{"submitting", "running", "storing", "completed", "failed"}

func (s JobState) String() string {
	if s < JobSubmitting || s > JobFailed {
		return "unknown"
	}
	return jobStates[s-JobSubmitting]
}

// Terminal says that a job stays as it is.
func (s JobState) Terminal() bool { return s >= JobCompleted }

// JobRow is work that outlives its request: a track or a video.
//
// A job is charged if and only if its row exists: it is added while the hold of its
// request is open and has its charge prepared in the journal (Hold is its sequence
// there, of Node), and dropped before the hold is voided. The projector notes the
// charge (Paid) when it applies the settlement. A failed job is refunded once it is
// paid: whichever comes last.
type JobRow struct {
	ID      string   `db:"id"`    // queue_id: a UUID
	Kind    string   `db:"kind"`  // config.JobKind.Name
	Model   string   `db:"model"` // its id here
	Named   string   `db:"named"` // as its client called it, where that is another name
	Account uint32   `db:"account"`
	Key     int64    `db:"api_key"`      // its number
	Request [16]byte `db:"request,null"` // of the request that queued it; a repeat with an idempotency key has the same

	Node   uint32      `db:"node"` // in whose journal the charge is
	Hold   uint64      `db:"hold"` // and where
	Paid   money.Parts `db:"paid_{NAME},late"`
	PaidUs int64       `db:"paid_us,late"`     // when the charge was applied; 0: not yet
	Day    int32       `db:"day,date,late"`    // whose DIEM it took
	Back   money.Parts `db:"back_{NAME},late"` // refunded
	BackUs int64       `db:"back_us,late"`     // when; 0: not, or not yet
	Owed   bool        `db:"owed"`             // it is to be given back

	State    JobState `db:"state"`
	Owner    uint32   `db:"owner"`     // the node that drives it
	Epoch    int64    `db:"epoch"`     // counts its owners from 1: an earlier one changes nothing any more
	Upstream string   `db:"upstream"`  // the operator's label
	Target   string   `db:"target"`    // the model's name there
	Handle   []byte   `db:"handle"`    // the id of the job at the upstream; at most 4 KiB
	Order    []byte   `db:"ord,large"` // the request to the upstream, until it has it; empty: too large to keep
	Tries    int32    `db:"tries"`     // how often it was submitted
	Cancel   bool     `db:"cancel"`    // its upstream must be asked to stop, even when the job has ended already

	Code       string `db:"code"` // of a failure, for the customer
	Error      string `db:"error"`
	Suggestion string `db:"suggestion"`   // an order that would be taken
	Recommend  string `db:"recommend"`    // a model that would take it
	Detail     []byte `db:"detail,large"` // further members of the answers, written by the endpoints of its kind (JSON)

	MediaType  string `db:"media_type"` // of the result; empty: nothing is kept
	MediaBytes int64  `db:"media_bytes"`

	CreatedUs   int64  `db:"created_us"`
	SubmittedUs int64  `db:"submitted_us"`
	EndedUs     int64  `db:"ended_us"`
	ExpiresUs   int64  `db:"expires_us"`       // when it is forgotten with its media
	ReleasedUs  int64  `db:"released_us,late"` // when its customer deleted it: hidden from clients; 0: not
	LinksUs     int64  `db:"links_us,late"`    // when one of its links was used up or revoked, which ends all; 0: not
	Links       []byte `db:"links,late"`       // uses of the links for one download, written by the endpoint of links
	PokedUs     int64  `db:"poked_us,late"`    // when another node asked its owner to look at it; 0: it has looked
}

// LinkUse is how far links were used from now on.
type LinkUse struct {
	Links []byte // nil: as before
	EndUs int64  // when they ended; 0: they go on
}

// JobStore keeps jobs.
type JobStore interface {
	// AddJob adds a job, whose first owner has Epoch 1. Where its account has one of the
	// same Request that was made at sinceUs or later, nothing is added, and that one is
	// given. The same row may be added again: after an error it is not known whether it
	// is there.
	AddJob(r *JobRow, sinceUs int64) (existing *JobRow, err error)
	// DropJob removes a job that was not sold, and that only its first owner has
	// had. gone says that it is not there and will not come, not even by an AddJob
	// whose answer was lost; else another node has taken it over, and it was sold.
	DropJob(r *JobRow) (gone bool, err error)
	// Job gives a job, or ErrNoRow.
	Job(id string) (*JobRow, error)
	// JobsOf gives the jobs that an owner has to do something for: those that have not
	// ended, those with something to cancel, and those whose customer let them go and
	// that have media still. Order and Detail are left out: [Job] has them.
	JobsOf(owner uint32) ([]*JobRow, error)
	// UpdateJob changes a job that is in one of the given states and still has the owner
	// and the epoch of r; else it changes nothing and says false. From a state that is
	// terminal it stays in that. It changes everything but its identity
	// (Account, Request, Node, Hold and so on), the payment and refund, Owner,
	// Epoch, CreatedUs, LinksUs, Links, PokedUs, and ReleasedUs, which it reads into r. Owed stays once it is set.
	// Order and Detail stay where r has nil; empty ones replace them.
	UpdateJob(r *JobRow, from ...JobState) (ok bool, err error)
	// ReleaseJob notes that its customer let a job go, whichever node owns it, once. On a shared
	// store its owner is notified, as by PokeJob.
	ReleaseJob(id string, nowUs int64) (ok bool, err error)
	// PokeJob notifies the owner of a job that a client asks for its state.
	PokeJob(id string, nowUs int64) error
	// PokedJobs gives the jobs with a new notification for their owner, each once.
	// Order and Detail are left out.
	PokedJobs(owner uint32) ([]*JobRow, error)
	// RevokeLinks ends the links to the result of a job, whichever node owns it, once.
	RevokeLinks(id string, nowUs int64) (ok bool, err error)
	// UseLinks changes how far the links to the result of a job were used, one at a time,
	// whichever node does it. use is not called once they have ended; it may be called
	// again. alive says whether a node's session continues.
	UseLinks(id string, use func(links []byte, alive func(node uint32) bool) LinkUse) error
	// TakeJobs makes owner the owner of all jobs with something left to do, or with media,
	// whose owner's session has ended, and gives their number. With own it takes its own,
	// too: those of the process before this one.
	TakeJobs(owner uint32, own bool) (n int, err error)
	// JobCounts counts jobs that have not ended, and the media of all.
	JobCounts(account uint32) (JobCounts, error)
	// JobTally counts by account the jobs of other owners that have not ended, and the
	// media of all.
	JobTally(owner uint32) ([]JobTally, error)
	// FinishedTimes gives how long the last n jobs of a model took that were completed.
	FinishedTimes(model string, n int) ([]time.Duration, error)
	// ExpiredJobs gives jobs of an owner that have ended and whose time is over, and that
	// have media still.
	ExpiredJobs(owner uint32, nowUs int64, most int) ([]*JobRow, error)
	// PurgeJobs removes jobs that ended before a time and with which everything is done:
	// those that are paid, given back if they were owed, and without media. A job whose
	// charge has not come yet stays, since its node may come back with it.
	PurgeJobs(beforeUs int64, most int) (n int, err error)
	// Jobs lists jobs of an account, or of all with 0, newest first, from behind a place on.
	// Order and Detail are left out.
	Jobs(account uint32, behind JobPlace, most int) ([]*JobRow, error)
}

// JobPlace is the place of a job in a list; the zero one is before all.
type JobPlace struct {
	CreatedUs int64
	ID        string
}

// Place is the place of a job in a list.
func (r *JobRow) Place() JobPlace { return JobPlace{r.CreatedUs, r.ID} }

// refundStore refunds jobs that failed.
type refundStore interface {
	// RefundsDue gives the ids of jobs that are to be given back and can be.
	RefundsDue(most int) ([]string, error)
	// OweJob says that a job is to be given back that has ended.
	OweJob(id string) error
	FindJobs(f JobFilter, most int) (rows []*JobRow, next *JobRow, err error)
	// RefundJob refunds a job, once: as credits with the references
	// job:<id>:<currency>. DIEM of another day than the given one are gone. nil: there
	// is nothing to give back, or it was given back before.
	RefundJob(id string, day int32, nowUs int64) (*JobRow, error)
	// JobSold says whether there is a job whose charge is that of a hold of a node.
	JobSold(node uint32, hold uint64) (bool, error)
}

// JobTally has the counts of one account.
type JobTally struct {
	Account        uint32
	Waiting, Bytes int64
}

// JobCounts are jobs that wait and media that are kept, of an account and in all.
type JobCounts struct {
	Waiting, AllWaiting int64
	Bytes, AllBytes     int64
}

const (
	// jobLeft are the jobs that need another step, now or when their time
	// is over; jobDue those that are owed. Indexes are made of both.
	jobLeft = "(state < 4 OR cancel <> 0 OR media_type <> '')"
	jobDue  = "owed <> 0 AND back_us = 0"
)

var (
	jobs   = newTable[JobRow]("job")
	addJob = jobs.statement("INSERT INTO job{INSERT} ON CONFLICT DO NOTHING")
	// dropJob removes a job as its first owner added it.
	dropJob = jobs.statement(`DELETE FROM job WHERE id = :id AND owner = :owner AND epoch = 1 AND state = 1
		AND node = :owner AND hold = :hold AND paid_us = 0`)
	updateJob = jobs.statement(`UPDATE job SET {SET state, upstream, target, handle, tries, cancel, code, error, suggestion,
		recommend, media_type, media_bytes, submitted_us, ended_us, expires_us}, ord = coalesce(:ord, ord),
		detail = coalesce(:detail, detail), owed = CASE WHEN owed <> 0 THEN 1 ELSE CAST(:owed AS {I64}) END
		WHERE id = :id AND owner = :owner AND epoch = :epoch AND (state < 4 OR state = :state) AND state IN (`)
)

func (s *sqlStore) AddJob(r *JobRow, sinceUs int64) (existing *JobRow, err error) {
	if r.ID == "" || r.State != JobSubmitting || r.Epoch != 1 {
		return nil, fmt.Errorf("cannot add the job %q in state %d of owner number %d", r.ID, r.State, r.Epoch)
	}
	err = s.write(func(t *tx) error {
		existing = nil
		// Somebody may have added one in between: then it is found the next time.
		for range 3 {
			n, err := addJob.exec(t, r)
			if n > 0 || err != nil {
				return err
			}
			found, err := jobs.one(&t.Query, "account = $1 AND request = $2", r.Account, r.Request[:])
			switch {
			case errors.Is(err, ErrNoRow):
				found, err = jobs.one(&t.Query, "id = $1", r.ID)
				if errors.Is(err, ErrNoRow) {
					continue
				}
				if err == nil && (found.Node != r.Node || found.Hold != r.Hold) {
					return ErrExists
				}
				return err
			case err != nil:
				return err
			case found.ID == r.ID:
				return nil
			case found.CreatedUs >= sinceUs:
				existing = found
				return nil
			}
			if _, err := t.exec("UPDATE job SET request = NULL WHERE id = $1", found.ID); err != nil {
				return err
			}
		}
		return ErrExists
	})
	if err != nil {
		existing = nil
	}
	return existing, err
}

func (s *sqlStore) DropJob(r *JobRow) (gone bool, err error) {
	err = s.write(func(t *tx) error {
		// An AddJob whose answer was lost may be about to commit. It holds its id until
		// then, so that another insert of the same id waits for it.
		added := *r
		added.Request = [16]byte{}
		if _, err := addJob.exec(t, &added); err != nil {
			return err
		}
		if _, err := dropJob.exec(t, r); err != nil {
			return err
		}
		var left int
		err := t.Row("SELECT count(*) FROM job WHERE id = $1", r.ID).Scan(&left)
		gone = left == 0
		return err
	})
	return gone && err == nil, err
}

func (s *sqlStore) Job(id string) (*JobRow, error) {
	return jobs.find(s, "id = $1", id)
}

func (s *sqlStore) JobsOf(owner uint32) ([]*JobRow, error) {
	return jobs.list(s, "owner = $1 AND "+jobLeft+
		" AND (state < 4 OR cancel <> 0 OR released_us > 0) ORDER BY created_us, id", owner)
}

func (s *sqlStore) UpdateJob(r *JobRow, from ...JobState) (ok bool, err error) {
	states := make([]string, len(from))
	for i, state := range from {
		states[i] = strconv.Itoa(int(state))
	}
	if len(states) == 0 {
		return false, errors.New("cannot change a job from no state")
	}
	text := updateJob.text + strings.Join(states, ", ") + ") RETURNING released_us"
	err = s.write(func(t *tx) error {
		ok = false
		err := t.Row(text, updateJob.args(r)...).Scan(&r.ReleasedUs)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		ok = err == nil
		return err
	})
	return ok && err == nil, err
}

func (s *sqlStore) ReleaseJob(id string, nowUs int64) (ok bool, err error) {
	more := ""
	if s.shared {
		more = ", poked_us = $2" // its owner may be another node
	}
	n, err := s.affect("UPDATE job SET released_us = $2"+more+" WHERE id = $1 AND released_us = 0", id, nowUs)
	return n > 0, err
}

func (s *sqlStore) PokeJob(id string, nowUs int64) error {
	_, err := s.affect("UPDATE job SET poked_us = $2 WHERE id = $1 AND poked_us = 0", id, nowUs)
	return err
}

// mostPoked is how many notifications an owner reads at a time.
const mostPoked = 1000

func (s *sqlStore) PokedJobs(owner uint32) ([]*JobRow, error) {
	list, err := jobs.list(s, "owner = $1 AND poked_us > 0 LIMIT $2", owner, mostPoked)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	err = s.write(func(t *tx) error {
		for _, r := range list {
			if _, err := t.exec("UPDATE job SET poked_us = 0 WHERE id = $1 AND poked_us = $2", r.ID, r.PokedUs); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

func (s *sqlStore) RevokeLinks(id string, nowUs int64) (ok bool, err error) {
	n, err := s.affect("UPDATE job SET links_us = $2 WHERE id = $1 AND links_us = 0", id, nowUs)
	return n > 0, err
}

func (s *sqlStore) UseLinks(id string, use func(links []byte, alive func(node uint32) bool) LinkUse) error {
	return s.write(func(t *tx) error {
		r, err := jobs.one(&t.Query, "id = $1 {LOCK}", id)
		if err != nil || r.LinksUs != 0 {
			return err
		}
		var failed error
		alive := func(node uint32) bool {
			if !s.shared {
				return false // this process is the only one
			}
			var n int
			err := t.Row("SELECT count(*) FROM node WHERE no = $1 AND ended = 0 AND expires_us > {NOW}", node).Scan(&n)
			failed = errors.Join(failed, err)
			return n > 0
		}
		u := use(r.Links, alive)
		if failed != nil || u.Links == nil && u.EndUs == 0 {
			return failed
		}
		_, err = t.exec("UPDATE job SET links = coalesce($2, links), links_us = $3 WHERE id = $1", id, u.Links, u.EndUs)
		return err
	})
}

func (s *sqlStore) TakeJobs(owner uint32, own bool) (int, error) {
	of := "owner <> $1"
	if s.shared {
		of += " AND NOT EXISTS(SELECT 1 FROM node n WHERE n.no = job.owner AND n.ended = 0 AND n.expires_us > {NOW})"
	}
	if own {
		of = "(owner = $1 OR " + of + ")"
	}
	return s.affect("UPDATE job SET owner = $1, epoch = epoch + 1 WHERE "+jobLeft+" AND "+of, owner)
}

func (s *sqlStore) JobCounts(account uint32) (c JobCounts, err error) {
	return ask(s, func(q *Query) (c JobCounts, err error) {
		err = q.Row(`SELECT CAST(coalesce(sum(CASE WHEN account = $1 AND state < 4 THEN 1 ELSE 0 END), 0) AS {I64}),
			CAST(coalesce(sum(CASE WHEN state < 4 THEN 1 ELSE 0 END), 0) AS {I64}),
			CAST(coalesce(sum(CASE WHEN account = $1 AND media_type <> '' THEN media_bytes ELSE 0 END), 0) AS {I64}),
			CAST(coalesce(sum(CASE WHEN media_type <> '' THEN media_bytes ELSE 0 END), 0) AS {I64})
			FROM job WHERE `+jobLeft, account).Scan(&c.Waiting, &c.AllWaiting, &c.Bytes, &c.AllBytes)
		return c, err
	})
}

func (s *sqlStore) JobTally(owner uint32) ([]JobTally, error) {
	return ask(s, func(q *Query) ([]JobTally, error) {
		return list(q, func(t *JobTally) []any { return []any{&t.Account, &t.Waiting, &t.Bytes} },
			`SELECT account, CAST(coalesce(sum(CASE WHEN state < 4 AND owner <> $1 THEN 1 ELSE 0 END), 0) AS {I64}),
			CAST(coalesce(sum(CASE WHEN media_type <> '' THEN media_bytes ELSE 0 END), 0) AS {I64})
			FROM job WHERE `+jobLeft+" GROUP BY account ORDER BY account", owner)
	})
}

func (s *sqlStore) FinishedTimes(model string, n int) ([]time.Duration, error) {
	return ask(s, func(q *Query) ([]time.Duration, error) {
		times, err := values[int64](q, `SELECT ended_us - CASE WHEN submitted_us > 0
			THEN submitted_us ELSE created_us END FROM job WHERE model = $1 AND state = 4
			ORDER BY ended_us DESC LIMIT $2`, model, n)
		all := make([]time.Duration, len(times))
		for i, us := range times {
			all[i] = time.Duration(us) * time.Microsecond
		}
		return all, err
	})
}

func (s *sqlStore) ExpiredJobs(owner uint32, nowUs int64, most int) ([]*JobRow, error) {
	return jobs.list(s, "owner = $1 AND "+jobLeft+" AND state >= 4 AND media_type <> '' AND expires_us > 0 "+
		"AND expires_us <= $2 ORDER BY expires_us, id LIMIT $3", owner, nowUs, most)
}

func (s *sqlStore) PurgeJobs(beforeUs int64, most int) (int, error) {
	return s.affect(`DELETE FROM job WHERE id IN (SELECT id FROM job WHERE state >= 4 AND ended_us < $1 AND paid_us > 0
		AND (owed = 0 OR back_us > 0) AND media_type = '' AND cancel = 0 ORDER BY ended_us LIMIT $2)`, beforeUs, most)
}

func (s *sqlStore) Jobs(account uint32, behind JobPlace, most int) ([]*JobRow, error) {
	if behind == (JobPlace{}) {
		behind.CreatedUs = math.MaxInt64
	}
	text, args := "created_us <= $1 AND (created_us < $1 OR id < $2)", []any{behind.CreatedUs, behind.ID, most}
	if account != 0 { // so that it is found by job_account
		text, args = text+" AND account = $4", append(args, account)
	}
	return jobs.list(s, text+" ORDER BY created_us DESC, id DESC LIMIT $3", args...)
}
