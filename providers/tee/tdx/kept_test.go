package tdx

import (
	"reflect"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream/enclave"
)

// fetched is made with the collateral checked, as the store of published data has it.
func fetched(t testing.TB, o enclave.Options) (*Quote, *Collateral, *Policy) {
	t.Helper()
	q, c, p := made(t, o)
	fmspc, _, err := q.FMSPC(p.Root, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Check(p.Root, fmspc, time.Now()); err != nil {
		t.Fatal(err)
	}
	return q, c, p
}

// "Every question of a client cost the signatures of what Intel published last month":
// they are checked once, by the fetcher.
func TestPublishedDataAreCheckedOnce(t *testing.T) {
	t.Parallel()
	q, c, p := fetched(t, enclave.Options{})
	first := c.kept.parsedCollateral
	for range 3 {
		if v := q.Verify(c, p, time.Now()); !v.Valid() || c.kept.parsedCollateral != first {
			t.Error(failed(v), c.kept.parsedCollateral != first)
		}
	}
}

// A remembered verdict is for these bytes, this root and any time, and for nothing else.
func TestWhatIsRememberedIsTakenForNothingElse(t *testing.T) {
	t.Parallel()
	q, c, p := fetched(t, enclave.Options{Published: enclave.Published{Status: OutOfDate}})
	now := time.Now()
	p.Accept = []string{OutOfDate}
	if v := q.Verify(c, p, now); !v.Valid() {
		t.Fatal(failed(v))
	}
	if v := q.Verify(c, p, now.Add(31*24*time.Hour)); v.Valid() || v.Holds(CheckTCBInfo) || v.Holds(CheckQEIdentity) ||
		v.Holds(CheckRevocation) {
		t.Error("it holds after its end")
	}
	if v := q.Verify(c, p, now.Add(-time.Hour)); v.Valid() || v.Holds(CheckTCBInfo) {
		t.Error("it holds before its beginning")
	}
	if v := q.Verify(c, strict, now); v.Valid() || v.Holds(CheckQEIdentity) {
		t.Error("under another root")
	}
	if v := q.Verify(c, p, now); !v.Valid() {
		t.Error("under its root again", failed(v))
	}
	changed := *c
	changed.TCBInfo = replaced(c.TCBInfo, OutOfDate, UpToDate)
	if v := q.Verify(&changed, p, now); v.Holds(CheckTCBInfo) {
		t.Error("a copy with other levels")
	}
	c.QEIdentity[len(c.QEIdentity)/2] ^= 1
	if v := q.Verify(c, p, now); v.Holds(CheckQEIdentity) || !v.Holds(CheckTCBInfo) {
		t.Error("with a byte changed in place")
	}
}

// A remembered verdict equals the first one, whatever that was.
func TestARememberedVerdictEqualsTheFirst(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, p := range map[string]enclave.Published{
		"honest": {}, "revoked": {RevokePCK: true}, "its authority revoked": {RevokeCA: true}, "old": {QEStatus: OutOfDate},
		"ended": {At: now.Add(-2 * time.Hour), Next: now.Add(-time.Hour)},
		"to be": {At: now.Add(time.Hour), Next: now.Add(2 * time.Hour)},
	} {
		q, c, policy := made(t, enclave.Options{Published: p})
		fresh := q.Verify(c, policy, now)
		fmspc, _, err := q.FMSPC(policy.Root, now)
		if err != nil {
			t.Fatal(err)
		}
		until, err := c.Check(policy.Root, fmspc, now)
		if kept := q.Verify(c, policy, now); !reflect.DeepEqual(kept, fresh) {
			t.Errorf("%s: %+v, and at first %+v", name, kept, fresh)
		}
		if ends := p.Next; !ends.IsZero() == (err == nil) || err == nil && until.Before(now) {
			t.Errorf("%s: until %s, %v", name, until, err)
		}
	}
}

// Clients ask at the same time, under one root or under two.
func TestManyAskAtOnce(t *testing.T) {
	t.Parallel()
	q, c, p := fetched(t, enclave.Options{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 10 {
				if i%4 == 3 {
					if q.Verify(c, strict, time.Now()).Valid() {
						t.Error("under another root")
					}
				} else if v := q.Verify(c, p, time.Now()); !v.Valid() {
					t.Error(failed(v))
				}
			}
		})
	}
	all.Wait()
}

// A verdict costs the checks of the quote itself, its three certificates most of all: 385
// allocations of 1,100.
func TestAllocationsOfAVerdict(t *testing.T) {
	q, c, p := fetched(t, enclave.Options{})
	fresh := *c
	fresh.kept = nil
	now := time.Now()
	first := testing.AllocsPerRun(20, func() { q.Verify(&fresh, p, now) })
	if n := testing.AllocsPerRun(20, func() { q.Verify(c, p, now) }); n > first/2 {
		t.Errorf("%.0f allocations; %.0f where nothing is remembered", n, first)
	}
}
