package billing

import (
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/store"
)

// A settlement that races with Close is either on disk afterwards or reported
// as lost; it never vanishes after it was accepted.
func TestSettlementDuringCloseIsNotLostSilently(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		open := func() *Ledger {
			t.Helper()
			l, err := Open(Options{Dir: dir, Brand: "svc", Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := open()
		account, err := l.CreateAccount("a")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Credit(account.ID, USD, 1_000_000, "", ""); err != nil {
			t.Fatal(err)
		}
		_, secret, err := l.CreateKey(NewKey{Account: account.ID, Type: store.Inference})
		if err != nil {
			t.Fatal(err)
		}
		k, err := l.Lookup([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		holds := make([]Hold, 200)
		now := At(time.Now())
		for i := range holds {
			if d := l.Admit(&holds[i], &Admission{Key: k, Hold: 1000, Min: 1000, Now: now}); d.Code != Admitted {
				t.Fatalf("denied: %+v", d)
			}
		}
		var charged Nano
		var done sync.WaitGroup
		done.Add(1)
		go func() {
			defer done.Done()
			for i := range holds {
				c, _ := holds[i].Settle(Settlement{Cost: 100, Now: now})
				charged += c
			}
		}()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		done.Wait()
		lost := Nano(l.lost.Load()) * 100
		l = open()
		list, err := l.ListAccounts()
		if err != nil {
			t.Fatal(err)
		}
		if spent := list[0].Spent; spent+lost != charged {
			t.Errorf("charged %d, on disk %d, reported as lost %d", charged, spent, lost)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
