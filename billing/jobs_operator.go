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

// ListJobs lists jobs of an account (id or name), or of all with "", newest first.
type ListJobs struct {
	Account string `json:"account,omitempty"`
	Most    int    `json:"most"`
}

func (q ListJobs) carryOut(l *Ledger) ([]JobInfo, error) {
	no, err := l.accountNo(q.Account)
	if err != nil {
		return nil, fmt.Errorf("cannot list the jobs of %q: %w", q.Account, err)
	}
	if q.Most < 1 || q.Most > mostJobs {
		return nil, fmt.Errorf("cannot list %d jobs: expected 1 to %d", q.Most, mostJobs)
	}
	rows, err := l.store.Jobs(no, store.JobPlace{}, q.Most)
	var list []JobInfo
	if err == nil {
		list, err = describeAll(l, rows, jobInfo)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the jobs: %w", err)
	}
	return list, nil
}

// GetJob gives one job.
type GetJob struct {
	ID string `json:"id"`
}

func (q GetJob) carryOut(l *Ledger) (JobInfo, error) {
	row, err := l.store.Job(q.ID)
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoJob
	}
	if err != nil {
		return JobInfo{}, fmt.Errorf("cannot find the job %q: %w", q.ID, err)
	}
	return jobInfo(l, row, accountNames{})
}

// RefundJob gives back the cost of a job that has ended, even of one that was done.
type RefundJob struct {
	ID string `json:"id"`
}

func (q RefundJob) carryOut(l *Ledger) (JobInfo, error) {
	j, err := GetJob(q).carryOut(l)
	if err != nil {
		return j, err
	}
	switch {
	case j.EndedAt.IsZero():
		err = ErrJobRuns
	case !j.RefundedAt.IsZero():
		err = ErrJobGiven
	default:
		err = l.store.OweJob(q.ID)
	}
	if err != nil {
		return j, fmt.Errorf("cannot refund the job %q: %w", q.ID, err)
	}
	if l.journal != nil {
		err = l.project.catchUp()
	}
	if err == nil {
		_, err = l.Jobs().RefundJob(q.ID)
	}
	if err != nil {
		return j, fmt.Errorf("the job %q is marked for a refund, which follows later: %w", q.ID, err)
	}
	return GetJob(q).carryOut(l)
}

func jobInfo(l *Ledger, r *store.JobRow, names accountNames) (JobInfo, error) {
	account, err := names.of(l, r.Account)
	if err != nil {
		return JobInfo{}, err
	}
	return JobInfo{ID: r.ID, Kind: r.Kind, Model: r.Model, AccountName: account, State: r.State.String(),
		Node: r.Owner, Upstream: r.Upstream, Target: r.Target, Tries: r.Tries, Paid: jobAmount(&r.Paid),
		Refunded: jobAmount(&r.Back), Owed: r.Owed, Code: r.Code, Error: r.Error, MediaType: r.MediaType,
		MediaBytes: r.MediaBytes, CreatedAt: fromMicro(r.CreatedUs), EndedAt: fromMicro(r.EndedUs),
		ExpiresAt: fromMicro(r.ExpiresUs), ReleasedAt: fromMicro(r.ReleasedUs), PaidAt: fromMicro(r.PaidUs),
		RefundedAt: fromMicro(r.BackUs)}, nil
}
