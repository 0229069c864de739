package billing

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/replay"
	"farebox/billing/store"
)

// sold returns a job that a key has bought, with its hold open.
func sold(t testing.TB, k *Key, id string, cost Nano) (*Hold, *store.JobRow) {
	t.Helper()
	l := k.Account.ledger
	h, row := &Hold{}, &store.JobRow{ID: id, Kind: "music", Model: "m"}
	if d := l.Admit(h, &Admission{Key: k, Slot: -1, Hold: cost, Min: cost, Now: l.at()}); d.Code != Admitted {
		t.Fatalf("a job for %s is denied: %d", cost, d.Code)
	}
	s := Settlement{Cost: cost, Status: 200, Now: l.at()}
	s.Lines.Add(money.Tracks, 1, money.Pico(cost*1000))
	if err := h.PrepareJob(s, row); err != nil {
		t.Fatal(err)
	}
	if found, err := l.Jobs().AddJob(row, 0); found != nil || err != nil {
		t.Fatalf("%+v (%v)", found, err)
	}
	return h, row
}

// failed ends a job without a result.
func failed(t testing.TB, l *Ledger, id string) {
	t.Helper()
	row, err := l.Jobs().Job(id)
	if err != nil {
		t.Fatal(err)
	}
	from := row.State
	row.State, row.Owed, row.EndedUs = store.JobFailed, true, l.now()/1000
	if ok, err := l.Jobs().UpdateJob(row, from); !ok || err != nil {
		t.Fatalf("%t (%v)", ok, err)
	}
}

// given waits until a job is refunded.
func given(t testing.TB, l *Ledger, id string) *store.JobRow {
	t.Helper()
	for range 6000 {
		if err := l.project.drain(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Jobs().RefundAll(); err != nil {
			t.Fatal(err)
		}
		row, err := l.Jobs().Job(id)
		if err != nil {
			t.Fatal(err)
		}
		if row.BackUs != 0 {
			return row
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the job %s is not refunded", id)
	return nil
}

func mixed(f *fixture) (*Key, string) {
	f.account("a", 5*usd)
	f.credit("a", Bundled, 2*usd)
	f.credit("a", DIEM, usd)
	return f.key("a", func(n *NewKey) { n.LimitUSD, n.LimitDIEM, n.Period = nano(6*usd), nano(9*usd), store.Lifetime })
}

func purse(k *Key) money.Parts {
	free, diem, bundled := k.Balance()
	return money.Parts{diem, bundled, free}
}

// "It failed, and my money came back as another one, or twice, or my key was used up."
func TestFailedJobIsRefundedOnceInItsCurrencies(t *testing.T) {
	f := openLedger(t)
	k, secret := mixed(f)
	before := purse(k)
	h, _ := sold(t, k, "j", 7*usd)
	if c, owed := h.Settle(Settlement{Cost: 9 * usd, Now: f.clock.at()}); c != 7*usd || owed != 0 {
		t.Errorf("a job of 7 is charged %s, and %s is owed", c, owed)
	}
	failed(t, f.Ledger, "j")
	failed2, _ := f.Jobs().UpdateJob(&store.JobRow{ID: "j", Owner: 1, Epoch: 1, State: store.JobRunning}, store.JobFailed)
	if failed2 {
		t.Error("a job that has failed runs again")
	}
	row := given(t, f.Ledger, "j")
	if want := (money.Parts{usd, 2 * usd, 4 * usd}); row.Paid != want || row.Back != want || row.Day != f.Today() {
		t.Errorf("it paid %v on day %d and has back %v, expected %v", row.Paid, row.Day, row.Back, want)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if again, err := f.Jobs().RefundJob("j"); again != nil || err != nil {
				t.Errorf("refunded twice: %+v (%v)", again, err)
			}
		})
	}
	wg.Wait()
	if got := purse(k); got != before {
		t.Errorf("the account has %v, and had %v", got, before)
	}
	f.recount()
	// The refund restored the job's part of the key's limit of 6 USD.
	h, _ = sold(t, k, "k", 7*usd)
	f.settle(h, 7*usd)
	f.reopen()
	k = f.find(secret)
	var over Hold
	f.credit("a", USD, 9*usd)
	if d := f.Admit(&over, f.ask(k, usd)); d.Code != KeyLimitUSD {
		t.Errorf("beyond its limit the key is answered with %d", d.Code)
	}
	if r := f.recount(); r.Jobs != 2 {
		t.Errorf("%d jobs were recounted", r.Jobs)
	}
}

// "It failed the next day, and I got DIEM of a day that was over."
func TestDIEMComeBackOnlyOnTheirDay(t *testing.T) {
	f := openLedger(t)
	k, _ := mixed(f)
	h, _ := sold(t, k, "j", 4*usd)
	f.settle(h, 4*usd)
	late, _ := sold(t, k, "late", 2*usd)
	f.clock.advance(24 * time.Hour)
	f.settle(late, 2*usd)
	failed(t, f.Ledger, "j")
	failed(t, f.Ledger, "late")
	if row := given(t, f.Ledger, "j"); row.Back != (money.Parts{0, 2 * usd, usd}) {
		t.Errorf("a job of yesterday that paid %v has back %v", row.Paid, row.Back)
	}
	if row := given(t, f.Ledger, "late"); row.Back != (money.Parts{0, 0, 2 * usd}) || row.Day != f.Today()-1 {
		t.Errorf("a job of yesterday that was settled today: %+v", row)
	}
	if got := purse(k); got != (money.Parts{0, 2 * usd, 5 * usd}) {
		t.Errorf("the account has %v", got)
	}
	f.recount()
}

// "It owes, and was paid out."
func TestRefundPaysDebtFirst(t *testing.T) {
	f := openLedger(t)
	f.account("a", 5*usd)
	k, _ := f.key("a")
	h, _ := sold(t, k, "j", 3*usd)
	f.settle(h, 3*usd)
	var over Hold
	f.Admit(&over, f.ask(k, 2*usd))
	f.settle(&over, 4*usd)
	failed(t, f.Ledger, "j")
	given(t, f.Ledger, "j")
	if got, owed := purse(k), k.Owed(); got != (money.Parts{0, 0, usd}) || owed != 0 {
		t.Errorf("the account has %v and owes %s", got, owed)
	}
	f.recount()
}

// crashed returns the next process after a kill -9; idle: it is an operator's command.
func (f *fixture) crashed(idle bool) *fixture {
	f.t.Helper()
	f.journal.Flush()
	c := f.crash(func([]byte) {})
	c.options.idle = idle
	c.open()
	return c
}

// "It was killed in between, and I was charged for nothing, or it was free." An operator's
// command between the two processes decides alike.
func TestKilledBetweenChargeAndRowDecidesByTheRow(t *testing.T) {
	for _, idle := range []bool{false, true} {
		t.Run(fmt.Sprint("by a command: ", idle), func(t *testing.T) {
			t.Parallel()
			f := openLedger(t)
			f.account("a", 10*usd)
			k, secret := f.key("a")
			prepared := &Hold{}
			f.Admit(prepared, f.ask(k, usd))
			if err := prepared.PrepareJob(Settlement{Cost: usd, Now: f.clock.at()}, &store.JobRow{ID: "no"}); err != nil {
				t.Fatal(err)
			}
			sold(t, k, "open", 2*usd)
			_, dropped := sold(t, k, "dropped", usd)
			if gone, err := f.Jobs().DropJob(dropped); !gone || err != nil {
				t.Fatalf("%t (%v)", gone, err)
			}
			sold(t, k, "failed", 3*usd)
			failed(t, f.Ledger, "failed")
			if row, err := f.Jobs().RefundJob("failed"); row != nil || err != nil {
				t.Errorf("refunded before it is paid: %+v (%v)", row, err)
			}
			c := f.crashed(idle)
			if idle {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				c.options.idle = false
				c.open()
			}
			defer func() { _ = c.Close() }()
			k = c.find(secret)
			row, err := c.Jobs().Job("open")
			if err != nil || row.Paid != (money.Parts{0, 0, 2 * usd}) {
				t.Errorf("the sold job is now %+v (%v)", row, err)
			}
			if row := given(t, c.Ledger, "failed"); row.Back != (money.Parts{0, 0, 3 * usd}) {
				t.Errorf("the failed job is now %+v", row)
			}
			if got := purse(k); got != (money.Parts{0, 0, 8 * usd}) {
				t.Errorf("the account has %v", got)
			}
			c.recount()
		})
	}
}

// "The request ended somewhere in the middle, and its job ran for nothing."
func TestHoldOfASoldJobIsNotVoided(t *testing.T) {
	f := openLedger(t)
	f.account("a", 10*usd)
	k, _ := f.key("a")
	h, _ := sold(t, k, "left", usd)
	h.Reset()
	h, _ = sold(t, k, "voided", 2*usd)
	h.Void(f.clock.at())
	h.Settle(Settlement{Cost: 2 * usd, Now: f.clock.at()})
	h.Reset()
	h, row := sold(t, k, "taken", 4*usd)
	if n, err := f.Jobs().TakeJobs(1, true); n == 0 || err != nil {
		t.Fatal(n, err)
	}
	if gone, err := f.Jobs().DropJob(row); gone || err != nil {
		t.Errorf("a job that was taken over is dropped (%v)", err)
	}
	h.Void(f.clock.at())
	h.Reset()
	var open Hold
	f.Admit(&open, f.ask(k, usd))
	if f.Admit(&h2, f.ask(k, usd)); h2.prepared != nil {
		t.Error("the next request has the job of the last one")
	}
	h2.Void(f.clock.at())
	open.Void(f.clock.at())
	if got := purse(k); got != (money.Parts{0, 0, 3 * usd}) {
		t.Errorf("the account has %v", got)
	}
	if s := f.Stats(); s.Twice != 1 || s.Leaked != 1 {
		t.Errorf("%+v", s)
	}
	f.recount()
}

var h2 Hold

// "The answer could not be kept under its key, and the job was free."
func TestKeyedJobIsChargedAlsoWhereItsAnswerIsNotKept(t *testing.T) {
	f := openKeyed(t, nil)
	_, secret := f.key("a")
	k := f.find(secret)
	lead, _, err := f.begin(f.claim("key", "request"))
	if err != nil {
		t.Fatal(err)
	}
	h, _ := sold(t, k, "j", usd)
	c, _ := h.SettleKept(Settlement{Cost: usd, Now: f.clock.at()}, lead, &replay.Answer{Status: 200, Body: []byte("{}")})
	if c != usd || !lead.Kept() {
		t.Errorf("charged %s, and its answer is kept: %t", c, lead.Kept())
	}
	// Killed before it was settled: the flag of a job decides before that of a key.
	h, _ = sold(t, k, "k", 2*usd)
	h.prepare(&Settlement{Cost: 2 * usd, Now: f.clock.at(), Flags: journal.FlagKeyed})
	next := f.crashed(false)
	defer func() { _ = next.Close() }()
	if got := purse(next.find(secret)); got != (money.Parts{0, 0, 997 * usd}) {
		t.Errorf("the account has %v", got)
	}
	next.recount()
}

// "The gateway was stopped while the store was away, and the job was free."
func TestTheNextStartDecidesUnknownOutcomes(t *testing.T) {
	flaky := &flakyStore{}
	f := openLedger(t, func(o *Options) {
		o.wrapStore = func(s store.Store) store.Store {
			flaky.Store = s
			return flaky
		}
	})
	f.account("a", 10*usd)
	k, secret := f.key("a")
	h, row := sold(t, k, "j", usd)
	flaky.mu.Lock()
	flaky.broken = 2
	flaky.mu.Unlock()
	f.closing.Store(true)
	if gone, err := f.Jobs().DropJob(row); gone || err == nil {
		t.Errorf("dropped: %t (%v)", gone, err)
	}
	h.Void(f.clock.at())
	h.Reset()
	f.closing.Store(false)
	f.reopen()
	if got := purse(f.find(secret)); got != (money.Parts{0, 0, 9 * usd}) {
		t.Errorf("the account has %v", got)
	}
	f.recount()
}

// flakyStore loses answers about jobs.
type flakyStore struct {
	store.Store
	mu     sync.Mutex
	lose   int // answers, after the work was done
	broken int // calls, before
}

var errFlaky = errors.New("the connection broke")

func (s *flakyStore) fails(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken > 0 {
		s.broken--
		return errFlaky
	}
	err := do()
	if s.lose > 0 {
		s.lose--
		return errFlaky
	}
	return err
}

func (s *flakyStore) AddJob(r *store.JobRow, since int64) (found *store.JobRow, err error) {
	err = s.fails(func() error {
		found, err = s.Store.AddJob(r, since)
		return err
	})
	return found, err
}

func (s *flakyStore) JobSold(node uint32, hold uint64) (sold bool, err error) {
	err = s.fails(func() error {
		sold, err = s.Store.JobSold(node, hold)
		return err
	})
	return sold, err
}

func (s *flakyStore) DropJob(r *store.JobRow) (gone bool, err error) {
	err = s.fails(func() error {
		gone, err = s.Store.DropJob(r)
		return err
	})
	return gone, err
}

// "The store did not answer, and nobody knew whether it was sold."
func TestUnknownOutcomeOfASaleIsFoundOut(t *testing.T) {
	for _, lose := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(lose, " answers lost"), func(t *testing.T) {
			t.Parallel()
			flaky := &flakyStore{}
			f := openLedger(t, func(o *Options) {
				o.wrapStore = func(s store.Store) store.Store {
					flaky.Store = s
					return flaky
				}
			})
			f.account("a", 10*usd)
			k, _ := f.key("a")
			var h Hold
			f.Admit(&h, f.ask(k, usd))
			row := &store.JobRow{ID: "j"}
			if err := h.PrepareJob(Settlement{Cost: usd, Now: f.clock.at()}, row); err != nil {
				t.Fatal(err)
			}
			flaky.lose, flaky.broken = lose, 2-lose
			if found, err := f.Jobs().AddJob(row, 0); found != nil || !errors.Is(err, errFlaky) || errors.Is(err, errDeciding) {
				t.Fatalf("%+v (%v)", found, err)
			}
			if _, err := f.Jobs().Job("j"); !errors.Is(err, store.ErrNoRow) {
				t.Errorf("the row is there (%v)", err)
			}
			h.Void(f.clock.at())
			if got := purse(k); got != (money.Parts{0, 0, 10 * usd}) {
				t.Errorf("the account has %v", got)
			}
			f.recount()
		})
	}
}
