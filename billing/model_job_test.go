package billing

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"farebox/billing/money"
	"farebox/billing/store"
)

// Jobs among the commands of TestLedgerAgreesWithItsModel: a job is charged if and only
// if it has a row, and refunded if and only if it failed and was charged.

// modelJob is a job whose row is there, or may come.
type modelJob struct {
	row    *store.JobRow
	h      *Hold // open; nil: it is resolved
	hold   *modelHold
	cost   Nano
	sold   bool
	failed bool
	paid   *money.Parts // nil: not yet
}

// PrepareJob makes an open hold one of a job.
func (s *ledgerMachine) PrepareJob(t *rapid.T) {
	h := s.drawHold(t)
	j := &modelJob{h: h, hold: s.m.holds[h], cost: amountUpTo(12).Draw(t, "cost")}
	j.row = &store.JobRow{ID: fmt.Sprint("job-", s.sold), Kind: "music", Model: "m"}
	if err := h.PrepareJob(Settlement{Cost: j.cost, Now: s.f.clock.at()}, j.row); err != nil {
		t.Fatal(err)
	}
	s.sold++
	s.jobs = append(s.jobs, j)
	s.open = slices.DeleteFunc(s.open, func(o *Hold) bool { return o == h })
}

func (s *ledgerMachine) drawJob(t *rapid.T, is func(j *modelJob) bool) *modelJob {
	var list []*modelJob
	for _, j := range s.jobs {
		if is(j) {
			list = append(list, j)
		}
	}
	if len(list) == 0 {
		t.Skip("no such job")
	}
	return rapid.SampledFrom(list).Draw(t, "job")
}

func (s *ledgerMachine) SellJob(t *rapid.T) {
	j := s.drawJob(t, func(j *modelJob) bool { return j.h != nil && !j.sold })
	if found, err := s.f.Jobs().AddJob(j.row, 0); found != nil || err != nil {
		t.Fatalf("sold as %+v (%v)", found, err)
	}
	j.sold = true
}

// charge is the cost of a job, within its hold.
func (j *modelJob) charge() money.Parts {
	held := j.hold.part
	return held.Take(min(j.cost, held.Total()-j.hold.beyond))
}

// end is the end of a job's hold in the model.
func (s *ledgerMachine) end(j *modelJob) {
	charged := money.Parts{}
	if j.sold {
		charged = j.charge()
		j.paid = &charged
	}
	s.resolve(j.h, charged, 0)
	j.h = nil
}

// SettleJob settles or voids, with the same result: only the sale counts.
func (s *ledgerMachine) SettleJob(t *rapid.T) {
	j := s.drawJob(t, func(j *modelJob) bool { return j.h != nil })
	if j.sold && rapid.Bool().Draw(t, "settle") {
		// A cost beyond the hold cannot be refunded.
		s.f.settle(j.h, j.cost)
	} else {
		j.h.Void(s.f.clock.at())
	}
	s.end(j)
	s.m.pay(s.day())
	s.refund(t)
}

// DropJob drops a job while its hold is open, and reports it.
func (s *ledgerMachine) DropJob(t *rapid.T) {
	j := s.drawJob(t, func(j *modelJob) bool { return j.h != nil })
	gone, err := s.f.Jobs().DropJob(j.row)
	if err != nil || gone == j.failed {
		t.Fatalf("dropped %+v: %t (%v), has failed: %t", j.row, gone, err, j.failed)
	}
	if gone {
		j.sold = false
	}
}

func (s *ledgerMachine) FailJob(t *rapid.T) {
	j := s.drawJob(t, func(j *modelJob) bool { return j.sold && !j.failed })
	row, err := s.f.store.Job(j.row.ID)
	if err != nil {
		t.Fatal(err)
	}
	row.State, row.Owed, row.EndedUs = store.JobFailed, true, s.f.now()/1000
	if ok, err := s.f.Jobs().UpdateJob(row, store.JobSubmitting); !ok || err != nil {
		t.Fatalf("%t (%v)", ok, err)
	}
	j.failed = true
	s.refund(t)
}

// refund refunds failed jobs, in the ledger and in the model.
func (s *ledgerMachine) refund(t *rapid.T) {
	if err := s.f.project.drain(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.f.Jobs().RefundAll(); err != nil {
		t.Fatal(err)
	}
	for _, j := range s.jobs {
		if !j.failed || j.paid == nil {
			continue
		}
		back := *j.paid
		s.m.count(j.hold, back, -1)
		for _, name := range []string{"usd", "diem"} {
			n := back[money.InDIEM]
			if name == "usd" {
				n = back[money.InBundled] + back[money.InUSD]
			}
			s.m.charged[fmt.Sprint(j.hold.key.No, name, j.hold.key.Period.Number(j.hold.day))] -= n
		}
		if j.hold.day != s.day() {
			back[money.InDIEM] = 0
		}
		s.m.move(s.day(), back, 1)
		s.m.pay(s.day())
		row, err := s.f.store.Job(j.row.ID)
		if err != nil || row.Back != back || row.Paid != *j.paid || row.BackUs == 0 {
			t.Fatalf("the job is %+v, and it paid %v and has back %v (%v)", row, *j.paid, back, err)
		}
		j.failed, j.paid = false, nil
		j.sold = false // and done with
		if again, err := s.f.Jobs().RefundJob(j.row.ID); again != nil || err != nil {
			t.Fatalf("refunded twice: %+v (%v)", again, err)
		}
	}
	s.jobs = slices.DeleteFunc(s.jobs, func(j *modelJob) bool { return j.h == nil && !j.sold })
}

// endJobs acts as the next process: sold jobs are charged as they were prepared.
func (s *ledgerMachine) endJobs() {
	for _, j := range s.jobs {
		if j.h != nil {
			s.end(j)
		}
	}
}
