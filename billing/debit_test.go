package billing

import (
	"errors"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/billing/store"
)

// everyOperator runs a test on every way to a ledger: in the process, through the control
// socket of the process that has it open, and on a shared store.
func everyOperator(t *testing.T, test func(t *testing.T, op Operator)) {
	t.Run("own", func(t *testing.T) { test(t, openLedger(t).Ledger) })
	t.Run("socket", func(t *testing.T) {
		f := openLedger(t)
		if err := f.ServeControl(); err != nil {
			t.Fatal(err)
		}
		op, via, err := Operate(f.options.Dir, "svc")
		if err != nil || !via {
			t.Fatalf("via %v, %v", via, err)
		}
		t.Cleanup(func() { _ = op.Close() })
		test(t, op)
	})
	t.Run("shared", func(t *testing.T) {
		op, err := OperateShared(servers.Database(t), "svc")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = op.Close() })
		test(t, op)
	})
}

// "I credited the wrong account and cannot take it back."
func TestDebitTakesMoneyBackAndNeverBelowZero(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	everyOperator(t, func(t *testing.T, op Operator) {
		if _, err := Do(op, CreateAccount{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		credit := func(c Currency, n Nano) {
			t.Helper()
			if _, err := Do(op, CreditAccount{Account: "a", Currency: c, Amount: n}); err != nil {
				t.Fatal(err)
			}
		}
		debit := func(c Currency, n Nano, ref string, mayOwe, applied bool, left, bundled, owed Nano) {
			t.Helper()
			debited, err := Do(op, DebitAccount{CreditAccount: CreditAccount{Account: "a", Currency: c, Amount: n, Ref: ref, Memo: "mistake"}, MayOwe: mayOwe})
			a, done := debited.Info, debited.Applied
			if err != nil || done != applied || a.USD != left || a.Bundled != bundled || a.Debt != owed {
				t.Errorf("a debit of %s %s: applied %v, %s and %s bundled left, %s owed, %v", n, c, done, a.USD,
					a.Bundled, a.Debt, err)
			}
		}
		credit(USD, 10*usd)
		credit(Bundled, usd)
		debit(USD, 4*usd, "r1", false, true, 6*usd, usd, 0)
		debit(USD, 4*usd, "r1", false, false, 6*usd, usd, 0)
		debit(Bundled, usd/2, "r2", false, true, 6*usd, usd/2, 0)
		if _, err := Do(op, DebitAccount{CreditAccount: CreditAccount{Account: "a", Currency: USD, Amount: 7 * usd, Ref: "r3", Memo: "mistake"}, MayOwe: false}); err == nil ||
			!strings.Contains(err.Error(), "only 6 is free") || !strings.Contains(err.Error(), "--allow-debt") {
			t.Errorf("a debit of more than there is: %v", err)
		}
		if _, err := Do(op, DebitAccount{CreditAccount: CreditAccount{Account: "a", Currency: USD, Amount: 3 * usd, Ref: "r1", Memo: "mistake"}, MayOwe: false}); err == nil ||
			!strings.Contains(err.Error(), "another entry") {
			t.Errorf("another debit under a used reference: %v", err)
		}
		for _, bad := range []error{
			func() error {
				_, err := Do(op, DebitAccount{CreditAccount: CreditAccount{Account: "a", Currency: USD, Amount: 0, Ref: "r", Memo: "x"}, MayOwe: false})
				return err
			}(),
			func() error {
				_, err := Do(op, DebitAccount{CreditAccount: CreditAccount{Account: "a", Currency: USD, Amount: usd, Ref: "", Memo: "x"}, MayOwe: false})
				return err
			}(),
			func() error {
				_, err := Do(op, DebitAccount{CreditAccount: CreditAccount{Account: "a", Currency: USD, Amount: usd, Ref: "r"}, MayOwe: false})
				return err
			}(),
			func() error {
				_, err := Do(op, DebitAccount{CreditAccount: CreditAccount{Account: "b", Currency: USD, Amount: usd, Ref: "r", Memo: "x"}, MayOwe: false})
				return err
			}(),
		} {
			if bad == nil {
				t.Error("a debit that makes no sense was booked")
			}
		}
		// Bundled credits pay debt in USD at once.
		debit(USD, 8*usd, "r4", true, true, 0, 0, 3*usd/2)
		debit(USD, 8*usd, "r4", true, false, 0, 0, 3*usd/2)
		credit(USD, 2*usd)
		debit(USD, usd/2, "r5", false, true, 0, 0, 0)
		r, err := Do(op, Verify{})
		if err != nil || len(r.Faults) > 0 || r.Debt != 0 || r.Charged != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// "I debited while requests were running, and the balance went below zero."
func TestDebitLeavesHolds(t *testing.T) {
	f := openLedger(t)
	f.account("a", 10*usd)
	k, _ := f.key("a")
	var h Hold
	f.Admit(&h, f.ask(k, 8*usd))
	if _, _, err := f.Debit("a", USD, 3*usd, "r1", "x", false); err == nil {
		t.Error("money that an open request holds was taken")
	}
	if a, _, err := f.Debit("a", USD, 2*usd, "r2", "x", false); err != nil || a.USD != 0 || a.Held != 8*usd {
		t.Errorf("%+v, %v", a, err)
	}
	f.settle(&h, 8*usd)
	f.recount()
	f.reopen()
	f.recount()
}

// "Nodes had leased what I wanted to take back."
func TestDebitRecallsLeases(t *testing.T) {
	t.Parallel()
	d := newDebtNodes(t)
	d.credit(0, 10*usd)
	for _, k := range d.keys(nil) {
		h, denial := d.admit(k, 3*usd)
		if denial.Code != Admitted {
			t.Fatalf("denied with %d", denial.Code)
		}
		d.settle(h, usd)
	}
	d.row()
	if a, applied, err := d.nodes[0].Debit("a", USD, 7*usd, "r", "x", false); err != nil || !applied ||
		a.USD+a.Leased.USD != 0 || a.Debt != 0 {
		t.Errorf("applied %v, %+v, %v", applied, a, err)
	}
	d.audit()
}

// "I closed the account, and its keys worked on."
func TestKeysOfSuspendedAndClosedAccountsAreRefused(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	f.account("b", usd)
	k, secret := f.key("a")
	_, unused, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference})
	if err != nil {
		t.Fatal(err)
	}
	other, _ := f.key("b")
	expect := func(want error) {
		t.Helper()
		for _, s := range []string{secret, unused} {
			if _, err := f.Lookup([]byte(s)); !errors.Is(err, want) {
				t.Errorf("a key gives %v, expected %v", err, want)
			}
		}
		if f.Live(k) != (want == nil) || !f.Live(other) {
			t.Errorf("keys that requests have found are live: %v, another account's %v", f.Live(k), f.Live(other))
		}
	}
	set := func(s store.AccountStatus) {
		t.Helper()
		if a, err := f.SetStatus("a", s); err != nil || a.Status != s || a.StatusAt.IsZero() || a.USD != usd {
			t.Errorf("%+v, %v", a, err)
		}
	}
	set(store.AccountSuspended)
	expect(ErrSuspended)
	if _, _, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference}); !errors.Is(err, ErrSuspended) {
		t.Errorf("a key was made: %v", err)
	}
	f.reopen()
	expect(ErrSuspended)
	set(store.AccountOpen)
	if k, err = f.Lookup([]byte(secret)); err != nil {
		t.Fatal(err)
	}
	if other, err = f.Lookup([]byte(secret)); err != nil { // of this process
		t.Fatal(err)
	}
	set(store.AccountClosed)
	other, _ = f.key("b")
	expect(ErrClosed)
	if _, err := f.SetStatus("a", store.AccountOpen); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed account was opened: %v", err)
	}
	if _, _, err := f.Credit("a", USD, usd, "", ""); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed account was credited: %v", err)
	}
	f.recount()
}

// P5 for accounts: suspended on one node, refused on all within a second.
func TestSuspendedAccountIsRefusedOnAllNodes(t *testing.T) {
	t.Parallel()
	d := newDebtNodes(t)
	d.credit(0, usd)
	_, secret, err := d.nodes[0].CreateKey(NewKey{Account: "a", Type: store.Inference})
	if err != nil {
		t.Fatal(err)
	}
	becomes := func(want error) {
		t.Helper()
		for i, l := range d.nodes {
			began := time.Now()
			for {
				_, err := l.Lookup([]byte(secret))
				if errors.Is(err, want) {
					break
				}
				if time.Since(began) > 20*time.Second {
					t.Fatalf("node %d says %v, expected %v", i, err, want)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	becomes(nil)
	for _, s := range []struct {
		status store.AccountStatus
		want   error
	}{{store.AccountSuspended, ErrSuspended}, {store.AccountOpen, nil}, {store.AccountClosed, ErrClosed}} {
		if _, err := d.nodes[2].SetStatus("a", s.status); err != nil {
			t.Fatal(err)
		}
		becomes(s.want)
	}
}

// The report adds up to the charges, however it is grouped.
func TestUsageReportAddsUp(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f := openLedger(t)
	f.account("a", 100*usd)
	f.account("b", 100*usd)
	f.credit("b", DIEM, usd)
	ka, _ := f.key("a")
	kb, _ := f.key("b")
	f.spend(ka, 3, usd)
	f.spend(kb, 2, usd)
	f.clock.advance(24 * time.Hour)
	f.spend(ka, 1, 5*usd)
	from, to := f.clock.now().AddDate(0, 0, -1), f.clock.now()
	for by, want := range map[string]int{"account": 2, "key": 2, "model": 1, "upstream": 1, "day": 2} {
		list, err := f.UsageReport(report.SumQuery{From: from, To: to, By: by})
		var sum, diem Nano
		var n int64
		for _, s := range list {
			sum, diem, n = sum+s.USD+s.DIEM+s.Bundled, diem+s.DIEM, n+s.Requests
		}
		if err != nil || len(list) != want || sum != 10*usd || diem != usd || n != 6 {
			t.Errorf("by %s: %d rows, %s with %s DIEM of %d requests, %v: %+v", by, len(list), sum, diem, n, err, list)
		}
	}
	if list, err := f.UsageReport(report.SumQuery{Account: "b", From: to, To: to, By: "account"}); err != nil ||
		len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := f.UsageReport(report.SumQuery{From: from, To: to, By: "weather"}); err == nil {
		t.Error("a report by weather was made")
	}
	everyOperator(t, func(t *testing.T, op Operator) {
		for _, by := range []string{"account", "model", "upstream", "key", "day"} {
			if list, err := Do(op, ReportUsage{SumQuery: report.SumQuery{From: from, To: to, By: by}}); err != nil || len(list) != 0 {
				t.Errorf("by %s: %+v, %v", by, list, err)
			}
		}
	})
}

// "The limit of a key can only be changed by its owner."
func TestOperatorChangesLimitsOfAnyKey(t *testing.T) {
	t.Parallel()
	everyOperator(t, func(t *testing.T, op Operator) {
		if _, err := Do(op, CreateAccount{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		created, err := Do(op, CreateKey{NewKey: NewKey{Account: "a", Type: store.Inference, LimitDIEM: nano(usd)}})
		if err != nil {
			t.Fatal(err)
		}
		k := created.Info
		limit, none, month, privacy := money.Limit{Set: true, Amount: 5 * usd}, money.Limit{}, store.Month, store.PrivateOnly
		at := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
		if _, err := Do(op, ChangeKey{ID: k.ID, KeyChange: KeyChange{USD: &limit, DIEM: &none, Period: &month, ExpiresAt: &at,
			Privacy: &privacy}}); err != nil {
			t.Fatal(err)
		}
		list, err := All(op, ListKeys{Account: "a"})
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		if k := list[0]; k.LimitUSD == nil || *k.LimitUSD != 5*usd || k.LimitDIEM != nil || k.Period != store.Month ||
			!k.ExpiresAt.Equal(at) || k.Privacy != store.PrivateOnly || k.Used == nil || *k.Used != (KeyUsage{}) {
			t.Errorf("the key is %+v", k)
		}
		if _, err := Do(op, ChangeKey{ID: "nobody", KeyChange: KeyChange{USD: &limit}}); !errors.Is(err, ErrNoKey) {
			t.Errorf("a key that there is not: %v", err)
		}
	})
}
