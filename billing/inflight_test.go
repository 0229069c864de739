package billing

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Requests never exceed the slots. A request that waits long enough gets one, one that
// gives up leaves the queue, and no state remains.
func TestNoMoreThanTheSlotsAreTaken(t *testing.T) {
	t.Parallel()
	l := &Ledger{}
	a, other := &AccountState{}, &AccountState{}
	const most = 3
	var inside, peak, got, gaveUp atomic.Int64
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			if i%4 == 0 {
				cancel() // these do not wait
			}
			defer cancel()
			if !l.Acquire(ctx, a, most) {
				gaveUp.Add(1)
				return
			}
			n := inside.Add(1)
			for old := peak.Load(); n > old && !peak.CompareAndSwap(old, n); old = peak.Load() {
			}
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			got.Add(1)
			l.Release(a)
		})
	}
	all.Wait()
	if peak.Load() > most || got.Load() < 150 || got.Load()+gaveUp.Load() != 200 || gaveUp.Load() == 0 {
		t.Errorf("at most %d at once, %d got a slot, %d gave up", peak.Load(), got.Load(), gaveUp.Load())
	}
	if !l.Acquire(context.Background(), a, 1) || !l.Acquire(context.Background(), other, 1) {
		t.Error("accounts wait for each other, or a place was lost")
	}
	l.Release(a)
	l.Release(other)
	if len(l.inFlight.accounts) != 0 {
		t.Errorf("%d accounts still have slots", len(l.inFlight.accounts))
	}
}
