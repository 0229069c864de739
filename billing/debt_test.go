package billing

import (
	"testing"
	"time"

	"farebox/billing/store"
)

func (f *fixture) find(secret string) *Key {
	f.t.Helper()
	k, err := f.Lookup([]byte(secret))
	if err != nil {
		f.t.Fatal(err)
	}
	return k
}

// "I credit 0.15 again and again, and each time get answers for 15."
func TestShortfallIsOwedAndPaidByTheNextCredit(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	k, secret := f.key("a")
	var h Hold
	f.Admit(&h, f.ask(k, usd))
	if c, owed := f.settle(&h, 4*usd); c != usd || owed != 3*usd {
		t.Fatalf("a cost of 4 on 1 is charged %s, and %s is owed", c, owed)
	}
	f.recount()
	refused := func(owed Nano) {
		t.Helper()
		var h Hold
		if d := f.Admit(&h, f.ask(k, usd/10)); d.Code != InDebt || d.Owed != owed {
			t.Errorf("a request of an account that owes %s is answered with %d and %s", owed, d.Code, d.Owed)
		}
	}
	refused(3 * usd)
	f.reopen()
	k = f.find(secret)
	refused(3 * usd)
	f.credit("a", USD, usd)
	if balance, _, _ := k.Balance(); balance != 0 {
		t.Errorf("the credit left %s in spite of a debt", balance)
	}
	refused(2 * usd)
	f.recount()
	f.credit("a", Bundled, 5*usd)
	if _, _, balance := k.Balance(); balance != 3*usd {
		t.Errorf("of 5 bundled, %s is left after a debt of 2", balance)
	}
	if s := f.Stats(); s.Debt != 0 || s.Shortfall != 3*usd {
		t.Errorf("figures say that %s is owed of %s", s.Debt, s.Shortfall)
	}
	h.Reset()
	if d := f.Admit(&h, f.ask(k, 3*usd)); d.Code != Admitted {
		t.Errorf("after the debt is paid, a request is answered with %d", d.Code)
	}
	f.settle(&h, 3*usd)
	if r := f.recount(); r.Charged != 4*usd || r.Shortfall != 3*usd || r.Debt != 0 {
		t.Errorf("recounted %s charged, %s short, %s owed", r.Charged, r.Shortfall, r.Debt)
	}
	f.reopen()
	f.recount()
}

// "My key's limit is 0.05, and it was charged 5."
func TestOverrunOfALimitedKeyIsPaidByItsRichAccount(t *testing.T) {
	f := openLedger(t)
	f.account("a", 100*usd)
	k, _ := f.key("a", func(n *NewKey) { n.LimitUSD, n.Period = nano(2*usd), store.Lifetime })
	other, _ := f.key("a")
	var h Hold
	f.Admit(&h, f.ask(k, usd))
	if c, owed := f.settle(&h, 7*usd); c != 2*usd || owed != 5*usd {
		t.Errorf("a cost of 7 under a limit of 2 is charged %s, and %s is owed", c, owed)
	}
	if balance, _, _ := k.Balance(); balance != 93*usd {
		t.Errorf("the account is left with %s of 93", balance)
	}
	if err := f.project.drain(); err != nil {
		t.Fatal(err)
	}
	if used, err := f.keyUsed(k, store.Lifetime, k.Account.day); err != nil || used.Total() != 2*usd {
		t.Errorf("the key has used %s of 2 (%v)", used.Total(), err)
	}
	h.Reset()
	if d := f.Admit(&h, f.ask(k, 1)); d.Code != KeyLimitUSD {
		t.Errorf("the key is answered with %d", d.Code)
	}
	if d := f.Admit(&h, f.ask(other, usd)); d.Code != Admitted {
		t.Errorf("the account's other key is answered with %d", d.Code)
	}
	h.Void(f.clock.at())
	f.recount()
}

// "My DIEM of today were there, and the debt of yesterday still stood."
func TestDIEMOfTheNewDayPayDebtFirst(t *testing.T) {
	f := openLedger(t)
	f.account("a", 0)
	if _, err := f.SetAllowance("a", 10*usd); err != nil {
		t.Fatal(err)
	}
	k, secret := f.key("a")
	var h Hold
	f.Admit(&h, f.ask(k, usd))
	if c, owed := f.settle(&h, 13*usd); c != 10*usd || owed != 3*usd {
		t.Errorf("a cost of 13 on 10 is charged %s, and %s is owed", c, owed)
	}
	f.clock.advance(24 * time.Hour)
	h.Reset()
	if d := f.Admit(&h, f.ask(k, 7*usd)); d.Code != Admitted {
		t.Errorf("7 with a debt of 3 are answered with %d", d.Code)
	}
	f.settle(&h, 7*usd)
	if s := f.Stats(); s.Debt != 0 {
		t.Errorf("%s is owed", s.Debt)
	}
	f.recount()
	f.reopen()
	if _, diem, _ := f.find(secret).Balance(); diem != 0 {
		t.Errorf("after a restart %s DIEM are there again", diem)
	}
	f.recount()
}

// "Two requests were under way, and what the one did not need paid nothing."
func TestRestsOfOtherHoldsPayDebt(t *testing.T) {
	f := openLedger(t)
	f.account("a", 10*usd)
	k, _ := f.key("a")
	var h, other, third Hold
	f.Admit(&h, f.ask(k, usd))
	f.Admit(&other, f.ask(k, 5*usd))
	f.Admit(&third, f.ask(k, 4*usd))
	f.settle(&h, 7*usd)
	f.settle(&other, usd)
	if s := f.Stats(); s.Debt != 2*usd {
		t.Errorf("%s is owed, expected 2", s.Debt)
	}
	third.Void(f.clock.at())
	if balance, _, _ := k.Balance(); balance != 2*usd || f.Stats().Debt != 0 {
		t.Errorf("%s is left, and %s owed", balance, f.Stats().Debt)
	}
	f.recount()
}

// "A crash in mid-answer, and what it cost beyond its hold was forgotten."
func TestCrashLeavesItsDebt(t *testing.T) {
	f := openLedger(t)
	f.account("a", 2*usd)
	k, secret := f.key("a")
	var h Hold
	f.Admit(&h, f.ask(k, 2*usd))
	h.Progress(worth(5 * usd))
	f.journal.Flush()
	c := f.crash(func([]byte) {})
	c.open()
	found, err := c.Lookup([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	if found.Owed() != 3*usd || c.Stats().Debt != 3*usd {
		t.Errorf("%s is owed after the crash, expected 3", found.Owed())
	}
	c.credit("a", USD, 4*usd)
	if balance, _, _ := found.Balance(); balance != usd {
		t.Errorf("%s is left", balance)
	}
	c.recount()
}
