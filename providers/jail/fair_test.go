package jail

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/config/fair"
)

// "Somebody sends twenty documents at once, and mine waits for all of them. He sends a
// hundred and forty, and mine is refused."
func TestAnHonestJobWaitsForOneRunningJob(t *testing.T) {
	t.Parallel()
	unpaid := func(i int) fair.Owner { return fair.Unpaid(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})) }
	for name, greedy := range map[string]func(int) fair.Owner{
		"a paid account":   func(int) fair.Owner { return fair.Paid(1) },
		"unpaid addresses": unpaid,
	} {
		for _, n := range []int{20, 140} {
			t.Run(fmt.Sprintf("%s sends %d", name, n), func(t *testing.T) {
				t.Parallel()
				p := pool(t, Options{Workers: 2})
				works(t, p)
				works(t, p)
				var began, refused atomic.Int64
				var all sync.WaitGroup
				for i := range n {
					ctx := OnStart(fair.With(t.Context(), greedy(i)), func() { began.Add(1) })
					all.Go(func() {
						if _, err := p.Do(ctx, "nap", "150ms", nil); errors.Is(err, ErrBusy) {
							refused.Add(1)
						} else if err != nil {
							t.Error(err)
						}
					})
				}
				queued := int64(min(n, 2+defaultQueue))
				for p.Waiting()+refused.Load()+began.Load() < queued {
					time.Sleep(time.Millisecond)
				}
				at, ahead := began.Load(), int64(-1)
				ctx := OnStart(fair.With(t.Context(), fair.Paid(2)), func() { ahead = began.Load() - at })
				if out, err := p.Do(ctx, "echo", "", []byte("honest")); err != nil || string(out) != "honest" {
					t.Errorf("%q, %v", out, err)
				}
				if ahead > 2 {
					t.Errorf("%d more of the greedy one's jobs began before it", ahead)
				}
				if most := int64(n) - queued + 1; refused.Load() > most {
					t.Errorf("%d jobs were refused, expected at most %d", refused.Load(), most)
				}
				all.Wait()
				if p.Waiting() != 0 {
					t.Errorf("%d jobs are left", p.Waiting())
				}
			})
		}
	}
}

// Jobs that fail use processor time, too. An owner whose budget is used up gets no child.
func TestUnpaidProcessorTimeIsCounted(t *testing.T) {
	t.Parallel()
	p := pool(t, Options{Workers: 1, CPU: 400 * time.Millisecond})
	works(t, p)
	if _, ok := cpuOf(1); !ok {
		t.Skip("the system does not show the processor time of other processes")
	}
	b, o := fair.NewBudget(200*time.Millisecond), fair.Paid(1)
	for _, c := range []struct {
		job  string
		paid bool
		want error
		wait bool
	}{
		{"echo", false, nil, false}, {"loop", true, ErrTooSlow, false}, {"loop", false, ErrTooSlow, true},
		{"echo", false, ErrBusy, true},
	} {
		m := b.Meter(o)
		if _, err := p.Do(fair.WithMeter(t.Context(), m), c.job, "", nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, expected %v", c.job, err, c.want)
		}
		m.End(c.paid)
		// 400 of 200 ms a minute are a minute too much.
		if w := b.Wait(o, time.Now()); (w > 0) != c.wait || w > 3*time.Minute {
			t.Errorf("%s, paid %v: waits %v", c.job, c.paid, w)
		}
	}
	works(t, p) // others have their own
}
