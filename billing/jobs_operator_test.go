package billing

import (
	"errors"
	"testing"

	"farebox/billing/money"
	"farebox/billing/store"
)

// "An operator wants to see what became of an order, and to give it back."
func TestOperatorSeesJobsAndGivesThemBack(t *testing.T) {
	f := openLedger(t)
	if err := f.ServeControl(); err != nil {
		t.Fatal(err)
	}
	k, _ := mixed(f)
	h, row := sold(t, k, "j", 7*usd)
	f.settle(h, 7*usd)
	op, via, err := Operate(f.options.Dir, "svc")
	if err != nil || !via {
		t.Fatalf("by way of the server: %t (%v)", via, err)
	}
	defer func() { _ = op.Close() }()
	if _, err := Do(op, RefundJob{ID: "j"}); !errors.Is(err, ErrJobRuns) {
		t.Errorf("a job that runs is refunded: %v", err)
	}
	if _, err := Do(op, GetJob{ID: "nothing"}); !errors.Is(err, ErrNoJob) {
		t.Errorf("there is a job: %v", err)
	}
	row.State, row.EndedUs, row.MediaType, row.MediaBytes = store.JobCompleted, f.now()/1000, "audio/mpeg", 9
	if ok, err := f.Jobs().UpdateJob(row, store.JobSubmitting); !ok || err != nil {
		t.Fatal(ok, err)
	}
	j, err := Do(op, RefundJob{ID: "j"})
	if err != nil || j.Refunded != (JobAmount{money.Amounts{USD: 4 * usd, DIEM: usd, Bundled: 2 * usd}}) || j.Paid != j.Refunded ||
		j.State != "completed" || j.AccountName != "a" || j.MediaBytes != 9 {
		t.Errorf("%+v (%v)", j, err)
	}
	if _, err := Do(op, RefundJob{ID: "j"}); !errors.Is(err, ErrJobGiven) {
		t.Errorf("refunded again: %v", err)
	}
	if list, err := All(op, ListJobs{Account: "a", Page: Page{Limit: 10}}); err != nil || len(list) != 1 || list[0] != j {
		t.Errorf("%+v (%v)", list, err)
	}
	if _, err := All(op, ListJobs{Account: "nobody", Page: Page{Limit: 10}}); !errors.Is(err, ErrNoAccount) {
		t.Errorf("jobs of an unknown account: %v", err)
	}
	if _, err := All(op, ListJobs{Page: Page{Limit: -1}}); err == nil {
		t.Error("a negative limit was accepted")
	}
	f.recount()
}
