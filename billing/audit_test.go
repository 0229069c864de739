package billing

import (
	"sync"
	"testing"
)

// Beside traffic the single requests are compared, too.
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
