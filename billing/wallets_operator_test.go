package billing

import (
	"errors"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/billing/store"
)

// everyWallet runs a test on every way to a ledger that takes payments.
func everyWallet(t *testing.T, test func(t *testing.T, l *Ledger, op Operator)) {
	t.Run("own", func(t *testing.T) { f := openLedger(t); test(t, f.Ledger, f.Ledger) })
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
		test(t, f.Ledger, op)
	})
	t.Run("shared", func(t *testing.T) {
		address := servers.Database(t)
		l := nodesOn(t, address, 1, func(int, *Options) {})[0]
		op, err := OperateShared(address, "svc")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = op.Close() })
		test(t, l, op)
	})
}

// undecided adds a payment with an unknown outcome.
func undecided(t *testing.T, l *Ledger, id string, lease int64) {
	t.Helper()
	p := l.Payments()
	row := &store.PaymentRow{ID: id, Network: "eip155:8453", Asset: "0xa", Wallet: testWallet, Units: 5, Amount: 5 * usd,
		State: store.PaymentSubmitted, Owner: l.NodeNo(), LeaseUs: p.NowUs() + lease, NextUs: p.NowUs(), CreatedUs: p.NowUs(),
		Order: []byte("order")}
	if existing, err := p.AddPayment(row, 100, 100); existing != nil || err != nil {
		t.Fatalf("the payment %s: %+v, %v", id, existing, err)
	}
}

// "The chain says nothing, and the customer waits": an operator decides, once, and the
// books record who and why.
func TestOperatorDecidesPaymentsOnce(t *testing.T) {
	t.Parallel()
	everyWallet(t, func(t *testing.T, l *Ledger, op Operator) {
		undecided(t, l, "pay_a", 0)
		undecided(t, l, "pay_b", 0)
		undecided(t, l, "pay_busy", 1e9)
		open, err := All(op, ListPayments{Wallet: testWallet, Open: true, Page: Page{Limit: 10}})
		if err != nil || len(open) != 3 {
			t.Fatalf("%d are open (%v)", len(open), err)
		}
		if _, err := Do(op, ResolvePayment{ID: "pay_a", Credit: true, By: "me", Reason: ""}); err == nil || !strings.Contains(err.Error(), "give both") {
			t.Errorf("without a reason: %v", err)
		}
		if _, err := Do(op, ResolvePayment{ID: "pay_busy", Credit: true, By: "me", Reason: "because"}); !errors.Is(err, ErrPaymentBusy) {
			t.Errorf("one that a node is at: %v", err)
		}
		if _, err := Do(op, ResolvePayment{ID: "pay_none", Credit: true, By: "me", Reason: "because"}); !errors.Is(err, ErrNoPayment) {
			t.Errorf("one that is not there: %v", err)
		}
		p, err := Do(op, ResolvePayment{ID: "pay_a", Credit: true, By: "me", Reason: "it's there"})
		if err != nil || p.State != "final" || p.Resolved != "credited by me: it's there" || p.AccountName != testWallet {
			t.Fatalf("credited: %+v, %v", p, err)
		}
		if p, err = Do(op, ResolvePayment{ID: "pay_b", Credit: false, By: "me", Reason: "never came"}); err != nil || p.State != "dead" ||
			p.Resolved != "dropped by me: never came" || p.AccountName != "" {
			t.Fatalf("dropped: %+v, %v", p, err)
		}
		for _, id := range []string{"pay_a", "pay_b"} {
			for _, credit := range []bool{true, false} {
				if _, err := Do(op, ResolvePayment{ID: id, Credit: credit, By: "me", Reason: "again"}); !errors.Is(err, ErrDecided) {
					t.Errorf("%s again, credit %t: %v", id, credit, err)
				}
			}
		}
		if p, err := Do(op, GetPayment{ID: "pay_busy"}); err != nil || p.State != "submitted" || p.BusyUntil.IsZero() {
			t.Errorf("the busy one is %+v (%v)", p, err)
		}
		w, err := Do(op, GetWallet{Address: testWallet})
		if err != nil || w.Account.USD+w.Account.Leased.USD != 5*usd || w.Pending != 1 || w.Linked {
			t.Errorf("the wallet is %+v (%v)", w, err)
		}
		if r, err := Do(op, Verify{}); err != nil || len(r.Faults) > 0 || r.Payments != 3 || r.Credited != 5*usd {
			t.Errorf("the recount says %+v (%v)", r, err)
		}
	})
}

// An operator links and unlinks wallets, and sees whose they are.
func TestOperatorLinksWallets(t *testing.T) {
	t.Parallel()
	everyWallet(t, func(t *testing.T, l *Ledger, op Operator) {
		if _, err := Do(op, CreateAccount{Name: "company"}); err != nil {
			t.Fatal(err)
		}
		if _, err := Do(op, GetWallet{Address: testWallet}); !errors.Is(err, ErrNoAccount) {
			t.Errorf("an unknown wallet: %v", err)
		}
		if _, err := Do(op, LinkWallet{Address: testWallet, Account: "nobody", By: "me"}); !errors.Is(err, ErrNoAccount) {
			t.Errorf("to no account: %v", err)
		}
		link, err := Do(op, LinkWallet{Address: testWallet, Account: "company", By: "me"})
		if err != nil || link.Account != "company" || link.By != "me" {
			t.Fatalf("%+v, %v", link, err)
		}
		if _, err := Do(op, LinkWallet{Address: testWallet, Account: "company", By: "me"}); !errors.Is(err, ErrLinked) {
			t.Errorf("twice: %v", err)
		}
		payAs(t, l, "pay_a", testWallet, 5*usd)
		list, err := All(op, ListWallets{Page: Page{Limit: 10}})
		if err != nil || len(list) != 1 || !list[0].Linked || list[0].Account.Name != "company" ||
			list[0].Account.USD+list[0].Account.Leased.USD != 5*usd {
			t.Errorf("the wallets are %+v (%v)", list, err)
		}
		if _, err := Do(op, UnlinkWallet{Address: testWallet}); err != nil {
			t.Fatal(err)
		}
		if _, err := Do(op, UnlinkWallet{Address: testWallet}); !errors.Is(err, ErrNotLinked) {
			t.Errorf("twice: %v", err)
		}
		if list, err := All(op, ListWallets{Page: Page{Limit: 10}}); err != nil || len(list) != 0 {
			t.Errorf("the wallets are %+v (%v)", list, err)
		}
		if r, err := Do(op, Verify{}); err != nil || len(r.Faults) > 0 {
			t.Errorf("the recount says %+v (%v)", r, err)
		}
	})
}
