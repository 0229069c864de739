package billing

import (
	"errors"
	"fmt"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
)

// JobInfo is a job as operators see it.
type JobInfo struct {
	ID          string    `json:"id"`
	Kind        string    `json:"kind"`
	Model       string    `json:"model"`
	AccountName string    `json:"account"`
	State       string    `json:"state"`
	Node        uint32    `json:"node"` // that drives it
	Upstream    string    `json:"upstream,omitempty"`
	Target      string    `json:"target,omitempty"`
	Tries       int32     `json:"tries"`
	Paid        JobAmount `json:"paid"`
	Refunded    JobAmount `json:"refunded"`
	Owed        bool      `json:"owed"` // it is to be given back, or was
	Code        string    `json:"code,omitempty"`
	Error       string    `json:"error,omitempty"`
	MediaType   string    `json:"mediaType,omitempty"`
	MediaBytes  int64     `json:"mediaBytes,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`
	EndedAt     time.Time `json:"endedAt,omitzero"`
	ExpiresAt   time.Time `json:"expiresAt,omitzero"`
	ReleasedAt  time.Time `json:"releasedAt,omitzero"`
	PaidAt      time.Time `json:"paidAt,omitzero"`
	RefundedAt  time.Time `json:"refundedAt,omitzero"`
}

// JobAmount is what a job cost or gave back.
type JobAmount struct {
	USD     Nano `json:"usd"`
	DIEM    Nano `json:"diem"`
	Bundled Nano `json:"bundled"`
}

func jobAmount(p *money.Parts) JobAmount {
	return JobAmount{p[money.InUSD], p[money.InDIEM], p[money.InBundled]}
}

// Mistakes about jobs that a caller may want to tell apart.
var (
	ErrNoJob    = errors.New("there is no such job")
	ErrJobRuns  = errors.New("the job has not ended")
	ErrJobGiven = errors.New("the job is already refunded")
)

// mostJobs bounds a list of jobs.
const mostJobs = 10_000

// JobList lists jobs of an account, or of all with "", newest first.
func (l *Ledger) JobList(account string, most int) ([]JobInfo, error) {
	no := uint32(0)
	if account != "" {
		row, err := l.store.FindAccount(account, l.Today())
		if errors.Is(err, store.ErrNoRow) {
			err = ErrNoAccount
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list the jobs of %q: %w", account, err)
		}
		no = row.No
	}
	if most < 1 || most > mostJobs {
		return nil, fmt.Errorf("cannot list %d jobs: expected 1 to %d", most, mostJobs)
	}
	rows, err := l.store.Jobs(no, store.JobPlace{}, most)
	if err != nil {
		return nil, fmt.Errorf("cannot list the jobs: %w", err)
	}
	names := map[uint32]string{}
	list := make([]JobInfo, len(rows))
	for i, row := range rows {
		if list[i], err = l.jobInfo(row, names); err != nil {
			return nil, fmt.Errorf("cannot list the jobs: %w", err)
		}
	}
	return list, nil
}

// JobOf gives a job.
func (l *Ledger) JobOf(id string) (JobInfo, error) {
	row, err := l.store.Job(id)
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoJob
	}
	if err != nil {
		return JobInfo{}, fmt.Errorf("cannot find the job %q: %w", id, err)
	}
	return l.jobInfo(row, map[uint32]string{})
}

// GiveJobBack gives back what a job cost that has ended, whatever became of it.
func (l *Ledger) GiveJobBack(id string) (JobInfo, error) {
	j, err := l.JobOf(id)
	if err != nil {
		return j, err
	}
	switch {
	case j.EndedAt.IsZero():
		err = ErrJobRuns
	case !j.RefundedAt.IsZero():
		err = ErrJobGiven
	default:
		err = l.store.OweJob(id)
	}
	if err != nil {
		return j, fmt.Errorf("cannot refund the job %q: %w", id, err)
	}
	if l.journal != nil {
		err = l.project.catchUp()
	}
	if err == nil {
		_, err = l.RefundJob(id)
	}
	if err != nil {
		return j, fmt.Errorf("the job %q is marked for a refund, which follows later: %w", id, err)
	}
	return l.JobOf(id)
}

func (l *Ledger) jobInfo(r *store.JobRow, names map[uint32]string) (JobInfo, error) {
	if names[r.Account] == "" {
		a, err := l.store.Account(r.Account, l.Today())
		if err != nil {
			return JobInfo{}, err
		}
		names[r.Account] = a.Name
	}
	return JobInfo{ID: r.ID, Kind: r.Kind, Model: r.Model, AccountName: names[r.Account], State: r.State.String(),
		Node: r.Owner, Upstream: r.Upstream, Target: r.Target, Tries: r.Tries, Paid: jobAmount(&r.Paid),
		Refunded: jobAmount(&r.Back), Owed: r.Owed, Code: r.Code, Error: r.Error, MediaType: r.MediaType,
		MediaBytes: r.MediaBytes, CreatedAt: fromMicro(r.CreatedUs), EndedAt: fromMicro(r.EndedUs),
		ExpiresAt: fromMicro(r.ExpiresUs), ReleasedAt: fromMicro(r.ReleasedUs), PaidAt: fromMicro(r.PaidUs),
		RefundedAt: fromMicro(r.BackUs)}, nil
}
