package store

import (
	"errors"
	"fmt"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
)

// Charges and refunds of jobs. The transaction that books the charge of a job notes it in
// its row, so that row and account always agree, whenever the journal of its node comes in.

// jobCharge is a settlement of a job.
type jobCharge struct {
	hold    uint64
	account uint32
	day     int32
	timeUs  int64
	amounts money.Parts
	record  []byte
}

func (b *Batch) chargeJob(r *journal.Record) {
	b.jobs = append(b.jobs, jobCharge{r.Hold, r.Account, r.Day, r.TimeNs / 1000, r.Amounts, r.Bytes()})
}

var paidJob = jobs.statement("UPDATE job SET charge = $1, {SET paid_us, day, " + byCurrency("paid_{NAME}", ", ") + `}
	WHERE node = :node AND hold = :hold AND paid_us = 0`)

// lockJobs keeps refunds away from the jobs of a batch until it is booked.
func (t *tx) lockJobs(b *Batch) error {
	for i := range b.jobs {
		if err := t.lockRows("SELECT id FROM job WHERE node = $1 AND hold = $2 {LOCK}", t.s.node,
			b.jobs[i].hold); err != nil {
			return err
		}
	}
	return nil
}

// payJobs notes the cost of the jobs of a batch. Of a charge that came too late, which the
// house has paid, nothing will be given back.
func (t *tx) payJobs(b *Batch, c *charged) error {
	for i := range b.jobs {
		j := &b.jobs[i]
		paid := j.amounts
		for place := range paid {
			paid[place] -= c.takeLate(j, place, paid[place])
		}
		row := JobRow{Node: t.s.node, Hold: j.hold, PaidUs: max(1, j.timeUs), Day: j.day, Paid: paid}
		if _, err := paidJob.exec(t, &row, j.record); err != nil {
			return fmt.Errorf("cannot record the cost of the job of hold %d: %w", j.hold, err)
		}
	}
	return nil
}

// takeLate is the part of the cost of a job that came too late.
func (c *charged) takeLate(j *jobCharge, place int, amount money.Nano) (late money.Nano) {
	for i := range c.list {
		e := &c.list[i]
		if e.account != j.account || e.place != place || place == money.InDIEM && e.day != j.day {
			continue
		}
		n := min(amount-late, e.late-e.noted)
		e.noted += n
		late += n
	}
	return late
}

func (s *sqlStore) JobSold(node uint32, hold uint64) (sold bool, err error) {
	err = s.write(func(t *tx) error {
		// A commit of a process that has died may be on its way still: an insert in
		// the same place waits for it.
		id := fmt.Sprintf("%d:%d", node, hold)
		added, err := addJob.exec(t, &JobRow{ID: id, Node: node, Hold: hold})
		if sold = added == 0; !sold && err == nil {
			_, err = t.exec("DELETE FROM job WHERE id = $1", id)
		}
		return err
	})
	return sold && err == nil, err
}

func (s *sqlStore) RefundsDue(most int) ([]string, error) {
	return ask(s, func(q *Query) ([]string, error) {
		return values[string](q, "SELECT id FROM job WHERE "+jobDue+" AND paid_us > 0 ORDER BY created_us, id LIMIT $1",
			most)
	})
}

func (s *sqlStore) OweJob(id string) error {
	_, err := s.affect("UPDATE job SET owed = 1 WHERE id = $1 AND state >= 4", id)
	return err
}

var refundJob = jobs.statement("UPDATE job SET {SET back_us, " + byCurrency("back_{NAME}", ", ") + "} WHERE id = :id")

// jobRef is the reference of the refund of a job in a currency.
func jobRef(id string, c money.Currency) string { return "job:" + id + ":" + c.String() }

func (s *sqlStore) RefundJob(id string, day int32, nowUs int64) (r *JobRow, err error) {
	err = s.write(func(t *tx) error {
		var err error
		r, err = jobs.one(&t.Query, "id = $1 AND "+jobDue+" AND paid_us > 0 {LOCK}", id)
		if errors.Is(err, ErrNoRow) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := t.giveJobBack(r, day, nowUs); err != nil {
			return fmt.Errorf("cannot refund the job %s: %w", id, err)
		}
		return nil
	})
	if err != nil {
		r = nil
	}
	return r, err
}

// giveJobBack books the refund of a job. DIEM are for one day each: those of a day
// that is over would have expired.
func (t *tx) giveJobBack(r *JobRow, day int32, nowUs int64) error {
	limits := t.bulk(`INSERT INTO key_back(account, api_key, day, currency, amount) {ROWS iiiii}
		ON CONFLICT(account, api_key, day, currency) DO UPDATE SET amount = key_back.amount + excluded.amount`)
	charge, err := t.chargeOfJob(r)
	if err != nil {
		return err
	}
	r.Back, r.BackUs = money.Parts{}, nowUs
	for place, n := range r.Paid {
		if n == 0 {
			continue
		}
		currency, date := money.SpendOrder[place], int64(0)
		limits.add(r.Account, r.Key, calendar.Date(r.Day), int64(currency), int64(n))
		if currency == money.DIEM {
			if r.Day != day {
				continue
			}
			date = calendar.Date(day)
		}
		entry, err := t.entry(&bookEntry{kind: "REFUND", ref: jobRef(r.ID, currency), memo: "job " + r.ID,
			reason: r.whyRefunded(), nowUs: nowUs})
		if err == nil && entry == 0 {
			err = errors.New("its reference is used already")
		}
		if err != nil {
			return err
		}
		if err := t.grant(entry, "refunds", r.Account, currency, date, n); err != nil {
			return err
		}
		if err := t.refund(entry, nowUs, refundOf(charge, place, n)); err != nil {
			return err
		}
		r.Back[place] = n
	}
	if _, err := refundJob.exec(t, r); err != nil {
		return err
	}
	if err := limits.flush(); err != nil || r.Back.Total() == 0 {
		return err
	}
	t.change(ChangeCredit, r.Account, 0)
	return t.collectNow(r.Account, day, nowUs)
}

// whyRefunded is the reason of the entry that refunds a job.
func (r *JobRow) whyRefunded() string {
	if r.Code == "" {
		return "the job was not done"
	}
	return "the job ended with " + r.Code
}

// chargeOfJob is the charge of a job. Jobs from before version 11 have it in the detail.
func (t *tx) chargeOfJob(r *JobRow) (*journal.Record, error) {
	var kept []byte
	if err := t.Row("SELECT charge FROM job WHERE id = $1", r.ID).Scan(&kept); err != nil {
		return nil, err
	}
	if len(kept) > 0 {
		return journal.ReadRecord(kept, t.s.before)
	}
	charge, err := t.chargeOf(r.Account, r.Node, r.Hold)
	if err != nil || charge != nil {
		return charge, err
	}
	charge = &journal.Record{Account: r.Account, Key: uint32(r.Key)}
	err = t.Row("SELECT coalesce(max(no), 0) FROM model WHERE id = $1", r.Model).Scan(&charge.Model)
	return charge, err
}

// jobAt is the place of a job's charge.
type jobAt struct {
	node uint32
	hold uint64
}

// countJobs checks that jobs have the charges of their requests, without those that
// came too late, and gave back at most that, by an entry in each currency; that keys
// have back the refunds of jobs; and that states and times fit together.
func (r *Recount) countJobs(q *Query) error {
	err := jobs.each(q, func(j *JobRow) {
		r.Jobs++
		if r.Accounts[j.Account] == nil {
			r.fault("the job %s is of account %d, which does not exist", j.ID, j.Account)
		}
		if j.State < JobSubmitting || j.State > JobFailed || j.State.Terminal() != (j.EndedUs != 0) {
			r.fault("the job %s is in state %d and ended at %d", j.ID, j.State, j.EndedUs)
		}
		if j.BackUs != 0 && (!j.Owed || j.PaidUs == 0) || j.PaidUs == 0 && j.Paid != (money.Parts{}) ||
			j.BackUs == 0 && j.Back != (money.Parts{}) {
			r.fault("the job %s paid %v at %d, is owed: %t, and gave back %v at %d", j.ID, j.Paid, j.PaidUs, j.Owed,
				j.Back, j.BackUs)
		}
		charged, known := r.jobs[jobAt{j.Node, j.Hold}]
		for place := range j.Paid {
			if j.Back[place] > j.Paid[place] {
				r.fault("the job %s paid %v and gave back %v", j.ID, j.Paid, j.Back)
			}
			if known && (j.PaidUs == 0 || j.Paid[place] > charged[place] || !q.s.shared && j.Paid[place] < charged[place]) {
				r.fault("the job %s paid %v, by its request %v", j.ID, j.Paid, charged)
			}
		}
		if !known && !r.DetailBehind && j.Paid.Total() > 0 && j.PaidUs >= r.prunedUs {
			r.fault("the job %s paid %v, and no request was charged for it", j.ID, j.Paid)
		}
	}, jobs.brief+"true")
	if err != nil {
		return err
	}
	return r.none(q, "the job %s gave back %s nano of currency %d, by its entry %s",
		[]any{new(string), new(money.Nano), new(money.Currency), new(money.Nano)}, `
		SELECT j.id, j.back, j.currency, coalesce(p.amount, 0) FROM (
			`+byCurrency("SELECT id, account, back_{NAME} AS back, {NO} AS currency, '{LABEL}' AS name FROM job", " UNION ALL ")+`) AS j
		LEFT JOIN entry e ON e.ref = 'job:' || j.id || ':' || j.name
		LEFT JOIN posting p ON p.entry = e.id AND p.book = 'customer' AND p.account = j.account AND p.currency = j.currency
		WHERE j.back <> coalesce(p.amount, 0)`)
}
