package billing

import (
	"errors"
	"sync"
	"testing"

	"farebox/billing/store"
)

// Under traffic the single requests are compared, too.
func TestVerifyBesideTrafficComparesTheDetail(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				f.breathe()
				var h Hold
				if d := f.Admit(&h, f.ask(k, 3)); d.Code != Admitted {
					t.Errorf("denied with %d", d.Code)
					return
				}
				f.settle(&h, 2)
			}
		})
	}
	for range 5 {
		count, err := f.countStore()
		if err != nil {
			t.Fatal(err)
		}
		if r := count.Report(); len(r.Faults) > 0 || count.DetailBehind {
			t.Errorf("%v, detail behind: %v", r.Faults, count.DetailBehind)
		}
	}
	close(stop)
	wg.Wait()
	f.recount()
}

// Operators see the progress of a recount and the result of the last one. Only one runs at a time.
func TestARecountIsFollowed(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	state := func() Verification {
		t.Helper()
		v, err := Do[Verification](f.Ledger, GetVerification{})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := state(); !v.StartedAt.IsZero() || v.Report != nil {
		t.Errorf("before any recount: %+v", v)
	}
	for range 7 {
		var h Hold
		if d := f.Admit(&h, f.ask(k, 3)); d.Code != Admitted {
			t.Fatal(d.Code)
		}
		f.settle(&h, 2)
	}
	if _, err := Do[store.Report](f.Ledger, Verify{}); err != nil {
		t.Fatal(err)
	}
	if v := state(); v.EndedAt.IsZero() || v.Report == nil || len(v.Report.Faults) > 0 || v.Counted != 7 || v.Requests != 7 || v.By == "" {
		t.Errorf("after a recount: %+v", v)
	}
	f.verifying.Store(true)
	if _, err := Do[store.Report](f.Ledger, Verify{}); !errors.Is(err, ErrVerifying) {
		t.Errorf("a second recount at the same time: %v", err)
	}
}
