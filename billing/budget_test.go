package billing

import (
	"net/netip"
	"testing"
	"time"

	"farebox/config"
)

func budgetLedger(t *testing.T) (*fixture, *Key) {
	f := openLedger(t)
	f.Configure(&config.Config{Limits: config.Limits{
		FailedRequests:      config.Budget{Count: 20, Window: 30 * time.Second, Block: 30 * time.Second},
		UnsupportedFeatures: config.Budget{Count: 200, Window: 30 * time.Second, Block: 10 * time.Second},
	}})
	f.account("a", usd)
	k, _ := f.key("a")
	return f, k
}

// "A broken client sent the same bad request ten thousand times."
func TestTooManyFailuresBlockOnlyTheirOwnBucket(t *testing.T) {
	f, k := budgetLedger(t)
	other, _ := f.key("a")
	now := f.clock.nano()
	for i := range 20 {
		f.NoteFailure(netip.Addr{}, k, 1, 7, false, at(now+int64(i)))
		if until := f.blockedUntil(k, 1, 7, now+int64(i)); until != 0 {
			t.Fatalf("blocked after %d failures", i+1)
		}
	}
	f.NoteFailure(netip.Addr{}, k, 1, 7, false, at(now+20))
	until := f.blockedUntil(k, 1, 7, now+20)
	if until != now+20+int64(30*time.Second) {
		t.Fatalf("21 failures block until %d, expected 30 s", until-now)
	}
	for name, free := range map[string]int64{
		"another key":   f.blockedUntil(other, 1, 7, now+20),
		"another model": f.blockedUntil(k, 2, 7, now+20),
		"another user":  f.blockedUntil(k, 1, 8, now+20),
		"after it":      f.blockedUntil(k, 1, 7, until),
	} {
		if free != 0 {
			t.Errorf("%s is blocked, too", name)
		}
	}
	if f.blockedUntil(k, 1, 7, until-1) != until {
		t.Error("free before the end of the block")
	}
	f.NoteFailure(netip.Addr{}, k, 1, 7, false, at(until))
	if f.blockedUntil(k, 1, 7, until) != 0 {
		t.Error("the first failure after a block blocks again")
	}
}

func TestFailuresFarApartDoNotBlock(t *testing.T) {
	f, k := budgetLedger(t)
	now := f.clock.nano()
	for range 200 {
		now += int64(2 * time.Second)
		f.NoteFailure(netip.Addr{}, k, 1, 0, false, at(now))
		if f.blockedUntil(k, 1, 0, now) != 0 {
			t.Fatal("blocked by a failure every 2 s, 15 in a window")
		}
	}
}

func TestRefusedFeaturesHaveTheirOwnBudget(t *testing.T) {
	f, k := budgetLedger(t)
	now := f.clock.nano()
	for range 200 {
		f.NoteFailure(netip.Addr{}, k, 1, 0, true, at(now))
	}
	if f.blockedUntil(k, 1, 0, now) != 0 {
		t.Fatal("blocked after 200 refused features")
	}
	f.NoteFailure(netip.Addr{}, k, 1, 0, true, at(now))
	if until := f.blockedUntil(k, 1, 0, now); until != now+int64(10*time.Second) {
		t.Errorf("201 refused features block for %s", time.Duration(until-now))
	}
}

// "Random user names in failing requests filled the memory."
func TestFailureBucketsAreBounded(t *testing.T) {
	f, k := budgetLedger(t)
	now := f.clock.nano()
	for i := range uint64(3 * budgetShards * budgetEntries) {
		f.NoteFailure(netip.Addr{}, k, 1, i*0x9e3779b97f4a7c15, false, at(now+int64(i)))
	}
	total := 0
	for i := range f.budgets.shards {
		total += len(f.budgets.shards[i].m)
	}
	if total > budgetShards*budgetEntries {
		t.Errorf("%d buckets are kept", total)
	}
	f.Configure(&config.Config{})
	f.NoteFailure(netip.Addr{}, k, 9, 9, false, at(now))
	if f.blockedUntil(k, 9, 9, now) != 0 {
		t.Error("a budget of 0 blocks")
	}
}

func (f *fixture) blockedUntil(k *Key, slot int, user uint64, now int64) int64 {
	until, _ := f.FailureBlock(netip.Addr{}, k, slot, user, at(now))
	return until
}
