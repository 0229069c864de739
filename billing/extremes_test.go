package billing

import (
	"crypto/sha256"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
)

// "I made a key that lasts until 9999, and it was refused from the first request on":
// such a time does not fit into nanoseconds.
func TestKeyThatExpiresInFarYearsIsLive(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f := openLedger(t)
	f.account("a", usd)
	for _, year := range []int{2262, 2263, 2300, 2600, 2900, 9999} {
		expires := time.Date(year, 12, 31, 23, 59, 59, 0, time.UTC)
		info, secret, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference, ExpiresAt: expires})
		if err != nil {
			t.Fatal(err)
		}
		k, err := f.Lookup([]byte(secret))
		if err != nil {
			t.Errorf("a key that expires in %d is refused", year)
			continue
		}
		if !k.ExpiresAt.Equal(expires) || !f.Live(k) {
			t.Errorf("a key that expires in %d expires at %s", year, k.ExpiresAt)
		}
		past := f.clock.now().Add(time.Minute)
		if _, err := f.Accounts().UpdateKey(k.Account, info.ID, KeyChange{ExpiresAt: &past}); err != nil {
			t.Fatal(err)
		}
		f.clock.advance(time.Hour)
		if _, err := f.Lookup([]byte(secret)); err == nil {
			t.Errorf("a key of %d is not over after it was changed to expire", year)
		}
	}
}

// "My account was so rich that it was refused for having no money": sums of all
// currencies stay in range, in whatever order they were given.
func TestMostMoneyOfAllKindsCanBeSpent(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	for name, give := range map[string]func(*fixture) [3]error{
		"allowance last": func(f *fixture) (errs [3]error) {
			_, _, errs[0] = f.Credit("a", USD, money.MaxCredit, "", "")
			_, errs[1] = f.SetAllowance("a", maxAllowance)
			_, _, errs[2] = f.Credit("a", Bundled, money.MaxCredit, "", "")
			return errs
		},
		"allowance first": func(f *fixture) (errs [3]error) {
			_, errs[0] = f.SetAllowance("a", maxAllowance)
			_, _, errs[1] = f.Credit("a", USD, money.MaxCredit-maxAllowance, "", "")
			_, _, errs[2] = f.Credit("a", DIEM, money.MaxCredit, "", "")
			return errs
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := openLedger(t)
			f.account("a", 0)
			k, _ := f.key("a")
			if errs := give(f); errs[0] != nil || errs[1] != nil || errs[2] == nil {
				t.Fatalf("given: %v", errs)
			}
			for day := range 3 {
				var h Hold
				if d := f.Admit(&h, f.ask(k, maxAllowance/2)); d.Code != Admitted {
					t.Fatalf("day %d: denied with %d", day, d.Code)
				}
				if b, err := f.Reports(k.Account).Balance(); err != nil || !b.CanConsume {
					t.Errorf("the account cannot spend: %+v, %v", b, err)
				}
				f.settle(&h, maxAllowance/4)
				f.clock.advance(24 * time.Hour)
			}
			f.recount()
		})
	}
}

// The largest amounts that can be asked for and charged fit into the integers.
func TestAbsurdAmountsAreHeldToTheBalance(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	f.account("a", usd)
	k, _ := f.key("a")
	var h Hold
	for _, n := range []Nano{math.MaxInt64, math.MaxInt64 - 1, money.MaxCredit} {
		if d := f.Admit(&h, f.ask(k, n)); d.Code != InsufficientBalance {
			t.Errorf("a hold of %s: code %d", n, d.Code)
		}
	}
	a := f.ask(k, math.MaxInt64)
	a.Min = 1
	if d := f.Admit(&h, a); d.Code != Admitted || h.Granted() != usd {
		t.Fatalf("code %d, granted %s", d.Code, h.Granted())
	}
	if h.Extend(math.MaxInt64) || h.Extend(-1) {
		t.Error("extended by more than there is")
	}
	if n, short := f.settle(&h, -usd); n != 0 || short != 0 {
		t.Errorf("a negative cost charged %s and left %s", n, short)
	}
	f.recount()
}

// "Our data lies in /srv/[prod]": the journal's files and kept answers are found, reused
// and removed under any path.
func TestDirectoryWithPatternCharacters(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f := &keyedFixture{fixture: openLedger(t, func(o *Options) {
		o.Dir, o.detailNow = filepath.Join(t.TempDir(), "[prod] a*b?"), true
	})}
	f.account("a", 1000*usd)
	var secret string
	f.k, secret = f.key("a")
	claim := f.claim("key", "request")
	claim.Fingerprint = sha256.Sum256([]byte("request"))
	lead, _, err := f.begin(claim)
	if err != nil {
		t.Fatal(err)
	}
	f.carryOut(lead, 1, "answer")
	for range 6 {
		f.spend(f.k, 1000, 1)
		if err := f.project.drain(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(f.journalDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > journal.Spares+3 {
		t.Errorf("%d files of the journal are left", len(files))
	}
	f.reopen()
	if f.k, err = f.Lookup([]byte(secret)); err != nil {
		t.Fatal(err)
	}
	if _, a, err := f.Idempotency().Begin(f.claim("key", "request")); err != nil || a == nil ||
		string(a.Body) != "answer" {
		t.Errorf("the answer is forgotten: %v, %v", a, err)
	}
	f.recount()
}
