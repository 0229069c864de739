package chat

import (
	"testing"
	"time"

	"farebox/billing"
	"farebox/billing/store"
	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/routes"
)

// "The process was killed while the model was still thinking, and I paid for my
// prompt": a stream that has produced nothing is free, after a crash, too.
func TestCrashBeforeTheFirstTokenChargesNothing(t *testing.T) {
	t.Parallel()
	const usd = billing.Nano(1_000_000_000)
	for produced, charged := range map[int64]billing.Nano{0: 0, 5: 15 * usd} {
		o := billing.Options{Dir: t.TempDir(), Brand: "svc"}
		ledger, err := billing.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := billing.Do(ledger, billing.CreateAccount{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		if _, err := billing.Do(ledger, billing.CreditAccount{Account: "a", Currency: billing.USD, Amount: 100 * usd}); err != nil {
			t.Fatal(err)
		}
		key, err := billing.Do(ledger, billing.CreateKey{NewKey: billing.NewKey{Account: "a", Type: store.Inference}})
		if err != nil {
			t.Fatal(err)
		}
		c := &inference{call: &routes.Call{Model: &dialect.Model{Price: &config.Price{Input: 1_000_000_000_000,
			Output: 1_000_000_000_000}}}, likely: 10}
		if c.call.Key, err = ledger.Lookup([]byte(key.Secret)); err != nil {
			t.Fatal(err)
		}
		ask := billing.Admission{Key: c.call.Key, Slot: -1, Hold: 50 * usd, Min: 50 * usd, Now: billing.At(time.Now())}
		if d := ledger.Admit(c.call.Hold().(*billing.Hold), &ask); d.Code != billing.Admitted {
			t.Fatal(d.Code)
		}
		c.progress(produced)
		// The hold stays open, as in a process that dies.
		if err := ledger.Close(); err != nil {
			t.Fatal(err)
		}
		if ledger, err = billing.Open(o); err != nil {
			t.Fatal(err)
		}
		accounts, err := billing.All(ledger, billing.ListAccounts{})
		if err != nil || accounts[0].Spent != charged {
			t.Errorf("%d tokens: %s were charged, %v", produced, accounts[0].Spent, err)
		}
		if err := ledger.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
