package billing

import (
	"errors"
	"fmt"
	"time"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
)

// Jobs are the jobs of the store, for the job machine (billing/job). A job is charged
// if and only if its row exists:
//
//	h.PrepareJob(s, row)        its charge is in the journal, and not made yet
//	Jobs().AddJob(row, since)   it is sold: a process that dies from here on makes the
//	                            charge at its next start
//	h.Settle(s)                 and it is made; or, where its upstream refuses the job,
//	Jobs().DropJob(row)         it is not sold after all, and
//	h.Void(now)                 nothing is charged
//
// A hold is settled where DropJob finds that its row has another owner, which goes on
// with the job. Void checks this itself, so that every end of a request is right.
type Jobs struct {
	store.JobStore
	l *Ledger
}

// Jobs are the jobs of the store.
func (l *Ledger) Jobs() *Jobs { return &Jobs{l.store, l} }

// NodeNo is the number of this node, which owns jobs; 1 on an embedded store.
func (l *Ledger) NodeNo() uint32 {
	if l.node == nil {
		return 1
	}
	return l.node.no
}

// errDeciding is a store that does not answer whether a job was sold.
var errDeciding = errors.New("the store does not say whether the job was sold")

// PrepareJob records the charge of a job, before it is sold, and writes into its row
// its account, where its charge is and that this node is its first owner. From
// here on the hold is one of a job: its charge is s, and at most the amount it
// holds, so that all of it can be given back.
func (h *Hold) PrepareJob(s Settlement, row *store.JobRow) error {
	if !h.Open() {
		return errors.New("cannot sell a job: its hold is not open")
	}
	l, a := h.ledger, h.key.Account
	a.mu.Lock()
	h.prepared = &s
	s.Cost = max(0, min(s.Cost, h.most()))
	rec := h.record(journal.Progress, &s)
	h.foresee(&rec, s.Cost)
	err := l.journal.Append(&rec, 0)
	a.mu.Unlock()
	if err != nil {
		h.prepared = nil
		return fmt.Errorf("cannot sell a job: %w", err)
	}
	row.Account, row.Key, row.Request = a.no, h.key.No, h.requestID
	row.Node, row.Hold, row.Owner, row.Epoch = l.NodeNo(), h.id, l.NodeNo(), 1
	row.State, row.CreatedUs = store.JobSubmitting, l.written(s.Now)/1000
	// The row must not come to a disk without its charge.
	l.journal.Wait(rec.Seq)
	return nil
}

// AddJob sells a job that was prepared. Where there is one already of the same Request
// that was made since then, that one is given, and the hold is to be voided. So it is
// after an error: the job is not there then. AddJob does not return before this is
// known.
func (j *Jobs) AddJob(row *store.JobRow, sinceUs int64) (existing *store.JobRow, err error) {
	existing, err = j.JobStore.AddJob(row, sinceUs)
	if err == nil {
		return existing, nil
	}
	if gone, dropErr := j.DropJob(row); dropErr != nil || !gone {
		return nil, errors.Join(errDeciding, err, dropErr)
	}
	return nil, fmt.Errorf("cannot write down the job: %w", err)
}

// decideEvery is how often a store is asked again that does not answer.
const decideEvery = 250 * time.Millisecond

// DropJob takes back a job that was not sold. gone says that its row is not there and
// never will be: the hold is to be voided; else a node drives it, and the hold is to
// be settled. It returns once this is known, or when the ledger is closed: the hold
// stays open then, and the next start decides.
func (j *Jobs) DropJob(row *store.JobRow) (gone bool, err error) {
	for {
		if gone, err = j.JobStore.DropJob(row); err == nil || j.l.closing.Load() {
			return gone, err
		}
		time.Sleep(decideEvery)
	}
}

// sold waits until it is known whether the job of a hold was sold, or the ledger is
// closed.
func (j *Jobs) sold(h *Hold) (sold bool, err error) {
	for {
		if sold, err = j.l.store.JobSold(j.l.NodeNo(), h.id); err == nil || j.l.closing.Load() {
			return sold, err
		}
		time.Sleep(decideEvery)
	}
}

// RefundJob refunds a job whose row says that it is owed, once, in the currency that paid
// it; the debt of the account is paid first. DIEM of a past day are gone. Its use
// of its key's limits is given back, too. nil: there is nothing to give back, or
// not yet, or it was given back before.
func (j *Jobs) RefundJob(id string) (*store.JobRow, error) {
	l := j.l
	l.operating.Lock()
	defer l.operating.Unlock()
	row, err := l.store.Job(id)
	if err != nil || !row.Owed || row.PaidUs == 0 || row.BackUs != 0 {
		return nil, err
	}
	// The account comes into memory before it has more money in the store, and no key
	// gets other limits until memory has followed.
	a, err := l.account(row.Account)
	if err != nil {
		return nil, err
	}
	l.registry.replacing.Lock()
	defer l.registry.replacing.Unlock()
	before := l.registry.byNumber(row.Key)
	day, _ := a.roomForCredit()
	row, err = l.store.RefundJob(id, day, l.now()/1000)
	if err == nil && row != nil {
		a.followRefund(before, row)
	}
	return row, err
}

// followRefund brings the account in memory to the state in the store. before is the key of
// the job as it was in memory before the refund.
func (a *AccountState) followRefund(before *Key, row *store.JobRow) {
	l := a.ledger
	if a.lease != nil {
		l.node.see(a)
		return // only the store knows the rest of the limits
	}
	if l.journal == nil {
		return
	}
	r := l.registry
	r.mu.Lock()
	after := r.byNo[row.Key]
	if after == nil {
		r.changed() // concurrent readers of its use read it again
	}
	r.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	back := row.Back
	if a.day != row.Day {
		back[money.InDIEM] = 0 // gone since, here as in the store
	}
	a.avail.Add(&back)
	if a.owes() {
		a.pay(l.at())
	}
	switch {
	case after == nil:
	case before != nil && after.use == before.use:
		after.use.uncount(row.Day, &row.Paid)
	default:
		// It came into memory meanwhile, and may have read its use before or after.
		if l.project.catchUp() == nil {
			if used, err := l.keyUsed(after, after.use.kind, a.day); err == nil {
				after.use.quota = quotaOf(after.use.kind.Number(a.day), &used)
			}
		}
	}
}

// uncount takes back the use of a day, unless its period is over.
func (u *keyUse) uncount(day int32, p *money.Parts) {
	if u.kind.Number(day) == u.quota.period {
		diem, usd := p.ByLimit()
		u.quota.diem, u.quota.usd = max(0, u.quota.diem-diem), max(0, u.quota.usd-usd)
	}
}

// refundsMost is how many jobs are given back in one go.
const refundsMost = 1000

// RefundAll refunds all jobs that are owed, and says how many. The ledger
// does this by itself every second.
func (j *Jobs) RefundAll() (n int, err error) {
	due, err := j.l.store.RefundsDue(refundsMost)
	for _, id := range due {
		row, err := j.RefundJob(id)
		if err != nil {
			return n, fmt.Errorf("cannot refund the job %s: %w", id, err)
		}
		if row != nil {
			n++
		}
	}
	return n, err
}

// Voices are the cloned voices of the store.
func (l *Ledger) Voices() store.VoiceStore { return l.store }

// Enclaves are the answers of enclaves in the store.
func (l *Ledger) Enclaves() store.EnclaveStore { return l.store }

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
	MediaType   string    `json:"media_type,omitempty"`
	MediaBytes  int64     `json:"media_bytes,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
	ReleasedAt  time.Time `json:"released_at,omitzero"`
	PaidAt      time.Time `json:"paid_at,omitzero"`
	RefundedAt  time.Time `json:"refunded_at,omitzero"`
}

// JobAmount is the cost or the refund of a job.
type JobAmount struct{ money.Amounts }

// Mistakes about jobs that a caller may want to tell apart.
var (
	ErrNoJob    = errors.New("there is no such job")
	ErrJobRuns  = errors.New("the job has not ended")
	ErrJobGiven = errors.New("the job is already refunded")
)

// ListJobs lists jobs of an account (id or name), or of all with "", newest first.
type ListJobs struct {
	Page
	Account string    `json:"account,omitempty"`
	Model   string    `json:"model,omitempty"`
	From    time.Time `json:"from,omitzero"` // of their creation
	To      time.Time `json:"to,omitzero"`
}

func (lj ListJobs) carryOut(l *Ledger, _ *call) (list List[JobInfo], err error) {
	f := store.JobFilter{Model: lj.Model, FromUs: toMicro(lj.From), ToUs: toMicro(lj.To)}
	if f.Account, err = l.accountNo(lj.Account); err != nil {
		return list, fmt.Errorf("cannot list the jobs of %q: %w", lj.Account, err)
	}
	var rows []*store.JobRow
	var next *store.JobRow
	if err = lj.after(&f.Behind.CreatedUs, &f.Behind.ID); err == nil {
		rows, next, err = l.store.FindJobs(f, lj.most())
	}
	if err == nil {
		list, err = page(rows, next, func(r *store.JobRow) string { return cursorAt(r.CreatedUs, r.ID) },
			func(rows []*store.JobRow) ([]JobInfo, error) { return describeAll(l, rows, jobInfo) })
	}
	if err != nil {
		return list, fmt.Errorf("cannot list the jobs: %w", err)
	}
	return list, nil
}

// GetJob gives one job.
type GetJob struct {
	ID string `json:"id"`
}

func (g GetJob) carryOut(l *Ledger, c *call) (JobInfo, error) {
	row, err := l.store.Job(g.ID)
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoJob
	}
	if err != nil {
		return JobInfo{}, fmt.Errorf("cannot find the job %q: %w", g.ID, err)
	}
	return jobInfo(l, row, accountNames{})
}

// RefundJob gives back the cost of a job that has ended, even of one that was done.
type RefundJob struct {
	ID string `json:"id"`
}

func (r RefundJob) carryOut(l *Ledger, c *call) (JobInfo, error) {
	j, err := GetJob(r).carryOut(l, c)
	if err != nil {
		return j, err
	}
	switch {
	case j.EndedAt.IsZero():
		err = ErrJobRuns
	case !j.RefundedAt.IsZero():
		err = ErrJobGiven
	default:
		c.entry.Subject = r.ID
		err = c.store.OweJob(r.ID)
	}
	if err != nil {
		return j, fmt.Errorf("cannot refund the job %q: %w", r.ID, err)
	}
	if l.journal != nil {
		err = l.project.catchUp()
	}
	if err == nil {
		_, err = l.Jobs().RefundJob(r.ID)
	}
	if err != nil {
		return j, fmt.Errorf("the job %q is marked for a refund, which follows later: %w", r.ID, err)
	}
	return GetJob(r).carryOut(l, c)
}

func jobInfo(l *Ledger, r *store.JobRow, names accountNames) (JobInfo, error) {
	account, err := names.of(l, r.Account)
	if err != nil {
		return JobInfo{}, err
	}
	return JobInfo{ID: r.ID, Kind: r.Kind, Model: r.Model, AccountName: account, State: r.State.String(),
		Node: r.Owner, Upstream: r.Upstream, Target: r.Target, Tries: r.Tries, Paid: JobAmount{r.Paid.Amounts()},
		Refunded: JobAmount{r.Back.Amounts()}, Owed: r.Owed, Code: r.Code, Error: r.Error, MediaType: r.MediaType,
		MediaBytes: r.MediaBytes, CreatedAt: fromMicro(r.CreatedUs), EndedAt: fromMicro(r.EndedUs),
		ExpiresAt: fromMicro(r.ExpiresUs), ReleasedAt: fromMicro(r.ReleasedUs), PaidAt: fromMicro(r.PaidUs),
		RefundedAt: fromMicro(r.BackUs)}, nil
}
