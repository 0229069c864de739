package billing

import "testing"

// An account that ever paid has a share of its own, whatever its balance, also after a
// restart.
func TestAnAccountThatWasEverCreditedIsPaid(t *testing.T) {
	for name, credit := range map[string]func(f *fixture){
		"USD":          func(f *fixture) { f.credit("a", USD, usd) },
		"bundled":      func(f *fixture) { f.credit("a", Bundled, usd) },
		"DIEM":         func(f *fixture) { f.credit("a", DIEM, usd) },
		"an allowance": func(f *fixture) { f.allow("a", usd) },
		"credited and debited": func(f *fixture) {
			f.credit("a", USD, 2*usd)
			k, _ := f.key("a")
			f.spend(k, 1, usd)
			if _, _, err := f.Debit("a", USD, usd, "debit-1", "a mistake", false); err != nil {
				f.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := openLedger(t)
			f.account("a", 0)
			k, secret := f.key("a")
			if k.Account.Paid() {
				t.Fatal("an account without a credit is paid")
			}
			credit(f)
			if !k.Account.Paid() {
				t.Error("it is not paid")
			}
			f.reopen()
			k, err := f.Lookup([]byte(secret))
			if err != nil {
				t.Fatal(err)
			}
			if !k.Account.Paid() {
				t.Error("it is not paid after a restart")
			}
		})
	}
}
