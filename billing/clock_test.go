package billing

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/store"
	"farebox/billing/window"
	"farebox/config"
)

// Windows use the monotonic part of a reading; without one, its wall time.
func TestReadingOfTheClockHasBothTimes(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for range 100 {
		now := time.Now()
		from, to := At(began), At(now)
		if to.Wall != now.UnixNano() || to.Mono-from.Mono != int64(now.Sub(began)) {
			t.Fatalf("%s is %+v, %s is %+v", began, from, now, to)
		}
	}
	if got := At(began.Round(0)); got != at(began.UnixNano()) {
		t.Errorf("a reading of the wall clock alone is %+v", got)
	}
	if got := At(began); (time.Duration(got.Mono - got.Wall)).Abs() > time.Second {
		t.Errorf("the monotonic clock did not begin with the wall clock: %+v", got)
	}
}

// A node writes the store's time, even if the clock of its machine is set.
func TestClockThatIsSetMovesNothingThatANodeWrites(t *testing.T) {
	t.Parallel()
	l := &Ledger{}
	l.ahead.Store(5)
	if got := l.written(window.Instant{Wall: 100, Mono: 10}); got != 105 {
		t.Errorf("without other nodes the time of 100 is written as %d, not as 105", got)
	}
	l.node = &node{}
	for _, wall := range []int64{10, 1000, -1000} {
		if got := l.written(window.Instant{Wall: wall, Mono: 10}); got != 15 {
			t.Errorf("with the clock at %d a node writes %d, not 15", wall, got)
		}
	}
}

// "After the clock was put right every key got 429 for five hours", "and before
// that every limit began anew".
func TestClockThatIsSetMovesNoWindow(t *testing.T) {
	for _, jump := range []time.Duration{5 * time.Hour, -5 * time.Hour, 40 * 24 * time.Hour, -40 * 24 * time.Hour,
		3 * time.Second, -3 * time.Second} {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			f := openLedger(t)
			now := f.clock.at()
			budget := config.Budget{Count: 2, Window: 30 * time.Second, Block: 30 * time.Second}
			f.Configure(&config.Config{Limits: config.Limits{Key: config.Rate{RPM: 20}, FailedRequests: budget}})
			f.account("a", 1000*usd)
			k, _ := f.key("a")
			rate := &config.Rate{RPM: 10, RPH: 15, TPM: 100_000}
			ask := func() Denial {
				var h Hold
				a := Admission{Key: k, Slot: 1, Rate: rate, Hold: 1, Min: 1, Tokens: 10, Now: now}
				d := f.Admit(&h, &a)
				if d.Code == Admitted {
					h.Settle(Settlement{Cost: 1, Now: now, Tokens: 10})
				}
				return d
			}
			admitted := func(want int) Denial {
				t.Helper()
				for n := 0; ; n++ {
					if d := ask(); d.Code != Admitted {
						if n != want {
							t.Fatalf("%d were admitted, expected %d; then %+v", n, want, d)
						}
						return d
					}
				}
			}
			blocked := func() time.Duration {
				until, _ := f.FailureBlock(netip.Addr{}, k, 1, 7, now)
				return time.Duration(until - now.Wall)
			}
			admitted(10)
			for range 3 {
				f.NoteFailure(netip.Addr{}, k, 1, 7, false, now)
			}
			now.Wall += int64(jump)
			if d := admitted(0); d.Limit != "RPM" || d.RetryAfter > 6*time.Second || d.RetryAfter <= 0 {
				t.Errorf("after the clock was set by %s: %+v", jump, d)
			} else if resets := d.Reset.Sub(time.Unix(0, now.Wall)); resets < d.RetryAfter || resets > time.Minute {
				t.Errorf("after the clock was set by %s the limit resets in %s of the new time", jump, resets)
			}
			var q window.Quota
			if k.Quota(1, rate, now, &q); q.RemainingRequests != 0 || q.ResetRequestsUnix-now.Wall/1e9 < 0 ||
				q.ResetRequestsUnix-now.Wall/1e9 > 61 {
				t.Errorf("after the clock was set by %s the headers say %+v", jump, q)
			}
			if b := blocked(); b <= 0 || b > 30*time.Second {
				t.Errorf("after the clock was set by %s failures block for another %s", jump, b)
			}
			now = now.Add(time.Minute)
			if d := admitted(5); d.Limit != "RPH" || d.RetryAfter > 4*time.Minute {
				t.Errorf("a minute later: %+v", d)
			}
			if b := blocked(); b > 0 {
				t.Errorf("a minute later failures block for another %s", b)
			}
			now.Wall -= int64(jump) // it was a mistake
			if d := admitted(0); d.Limit != "RPH" || d.RetryAfter > 4*time.Minute {
				t.Errorf("after the clock was put right: %+v", d)
			}
			now = now.Add(time.Hour)
			admitted(10)
			f.recount()
		})
	}
}

// "The key's daily limit of 1 USD let 2 USD through": a day that was used while the clock
// was ahead is not new when it begins.
func TestKeyLimitHoldsInAPeriodThatWasUsedBefore(t *testing.T) {
	for period, ahead := range map[store.Period]time.Duration{store.Epoch: 48 * time.Hour,
		store.Month: 41 * 24 * time.Hour} {
		for _, relimited := range []bool{false, true} {
			t.Run(fmt.Sprint(period, relimited), func(t *testing.T) {
				t.Parallel()
				f := openLedger(t)
				f.account("a", 1000*usd)
				info, secret, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference, Period: period,
					LimitUSD: nano(3 * usd)})
				if err != nil {
					t.Fatal(err)
				}
				spend := func(n Nano) DenialCode {
					t.Helper()
					k, err := f.Lookup([]byte(secret))
					if err != nil {
						t.Fatal(err)
					}
					var h Hold
					d := f.Admit(&h, f.ask(k, n))
					if d.Code == Admitted {
						f.settle(&h, n)
					}
					return d.Code
				}
				f.clock.advance(ahead)
				if code := spend(2 * usd); code != Admitted {
					t.Fatal(code)
				}
				f.clock.advance(-ahead)
				f.reopen()
				if code := spend(3 * usd); code != Admitted {
					t.Errorf("today has its own limit, but the code is %d", code)
				}
				if relimited {
					for _, limit := range []*Nano{nil, nano(3 * usd)} {
						row, err := f.store.KeyByID(info.ID)
						if err != nil {
							t.Fatal(err)
						}
						row.LimitUSD = limit
						err = f.store.UpdateKey(row)
						if err == nil {
							_, err = f.replaceKey(row)
						}
						if err != nil {
							t.Fatal(err)
						}
					}
				}
				f.clock.advance(ahead)
				if code := spend(2 * usd); code != KeyLimitUSD {
					t.Errorf("2 USD of a limit of 3 were used in this period before, and 2 more get the code %d", code)
				}
				if code := spend(usd); code != Admitted {
					t.Errorf("the 1 USD that is left gets the code %d", code)
				}
				f.recount()
			})
		}
	}
}

// The clock of one machine is set again and again by hours and days while two
// nodes spend an account's money and its DIEM: sessions and leases live on,
// a day's DIEM come once, and every charge is booked.
func TestClockOfANodeIsSetUnderLoad(t *testing.T) {
	t.Parallel()
	address := servers.Database(t)
	var local atomic.Int64
	const daily = 2 * usd
	times := nodeTimes{
		beat: 50 * time.Millisecond, ttl: 10 * time.Second, poll: 20 * time.Millisecond, keep: 50 * time.Millisecond,
		idle: time.Second, ask: 10 * time.Second, recall: 500 * time.Millisecond,
	}
	nodes := nodesOn(t, address, 2, func(i int, o *Options) {
		o.times, o.compares, o.Clock = times, true, time.Now
		o.Leases = config.Leases{Reclaim: "relaxed", Grace: 20 * time.Second}
		if i == 0 {
			o.Clock = func() time.Time { return time.Now().Add(time.Duration(local.Load())) }
		}
	})
	a, err := nodes[0].CreateAccount("a")
	if err == nil {
		_, _, err = nodes[0].Credit(a.ID, USD, 1000*usd, "", "")
	}
	if err == nil {
		_, err = nodes[0].SetAllowance(a.ID, daily)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := nodes[0].CreateKey(NewKey{Account: a.ID, Type: store.Inference})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var charged, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 6 {
		l := nodes[i%2]
		k, err := l.Lookup([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(5, uint64(i)))
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var h Hold
				n := Nano(rnd.Int64N(int64(usd / 50)))
				if d := l.Admit(&h, &Admission{Key: k, Slot: -1, Hold: n, Min: n, Now: l.at()}); d.Code != Admitted {
					refused.Add(1)
					t.Errorf("denied with %+v", d)
					return
				}
				c, _ := h.Settle(Settlement{Cost: n, Now: l.at(), Status: 200})
				charged.Add(int64(c))
				time.Sleep(time.Millisecond)
			}
		})
	}
	for _, jump := range []time.Duration{5 * time.Hour, -7 * time.Hour, 40 * 24 * time.Hour, -24 * time.Hour, 0} {
		local.Store(int64(jump))
		time.Sleep(300 * time.Millisecond)
		if err := nodes[0].Healthy(); err != nil {
			t.Errorf("with the clock set by %s: %v", jump, err)
		}
		if age := nodes[0].Stats().SessionAge; age < 0 || age > times.ttl {
			t.Errorf("with the clock set by %s the session was confirmed %s ago", jump, age)
		}
	}
	close(stop)
	all.Wait()
	rows, err := nodes[1].store.(store.Shared).Nodes()
	if err != nil || len(rows) != 2 || rows[0].Left || rows[1].Left {
		t.Errorf("the nodes are %+v, %v", rows, err)
	}
	for _, l := range nodes {
		if err := l.project.drain(); err != nil {
			t.Fatal(err)
		}
		r, err := l.Audit()
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range r.Faults {
			t.Error(fault)
		}
		if r.Shortfall != 0 {
			t.Errorf("%s shortfall", r.Shortfall)
		}
	}
	list, err := nodes[0].ListAccounts()
	if err != nil {
		t.Fatal(err)
	}
	if b := list[0]; b.Spent != Nano(charged.Load()) || b.USD+b.DIEM+b.Leased.Total()+b.Spent != 1000*usd+daily {
		t.Errorf("%s were charged, the account is %+v", Nano(charged.Load()), b)
	}
	if charged.Load() < int64(daily) {
		t.Errorf("only %s were charged, which proves nothing about the DIEM", Nano(charged.Load()))
	}
}
