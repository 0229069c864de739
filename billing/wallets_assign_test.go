package billing

import (
	"errors"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/billing/store"
)

// proven is a payment of 5 USD on the chain.
func proven(id string) ProvenPayment {
	return ProvenPayment{ID: id, Network: "eip155:8453", Asset: "0xa", Payer: "0xb", Units: 5_000_000, Amount: 5 * usd,
		Order: []byte("order"), Transaction: "0xc"}
}

// "An exchange sent the customer's money": an operator gives it to a wallet or an account. Of many
// concurrent assignments one succeeds, and the chain may still take it back.
func TestOperatorAssignsMoneyOnce(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	everyWallet(t, func(t *testing.T, l *Ledger, op Operator) {
		for _, name := range []string{"company", "closed"} {
			if _, err := Do(op, CreateAccount{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Do(op, CloseAccount{Account: "closed"}); err != nil {
			t.Fatal(err)
		}
		for to, want := range map[string]error{"nobody": ErrNoAccount, "closed": ErrClosed} {
			if _, err := Do(op, AssignPayment{Payment: proven("pay_a"), To: to, By: "me", Reason: "because"}); !errors.Is(err, want) {
				t.Errorf("to %s: %v", to, err)
			}
		}
		if _, err := Do(op, AssignPayment{Payment: proven("pay_a"), To: "company", By: "me", Reason: ""}); err == nil ||
			!strings.Contains(err.Error(), "give both") {
			t.Errorf("without a reason: %v", err)
		}
		if list, err := All(op, ListPayments{Wallet: "", Open: false, Page: Page{Limit: 10}}); err != nil || len(list) != 0 {
			t.Fatalf("a refused call left %+v (%v)", list, err)
		}
		done := make(chan error, 8)
		for i := range cap(done) {
			go func() {
				to := []string{"company", testWallet}[i%2]
				_, err := Do(op, AssignPayment{Payment: proven("pay_a"), To: to, By: "me", Reason: "by bank"})
				done <- err
			}()
		}
		assigned := 0
		for range cap(done) {
			if <-done == nil {
				assigned++
			}
		}
		p, err := Do(op, GetPayment{ID: "pay_a"})
		if err != nil || assigned != 1 || p.State != "credited" || p.Transaction != "0xc" ||
			p.Resolved != "assigned by me: by bank (paid by 0xb)" {
			t.Fatalf("%d times assigned: %+v (%v)", assigned, p, err)
		}
		for _, to := range []string{"company", testWallet} {
			if _, err := Do(op, AssignPayment{Payment: proven("pay_" + to), To: to, By: "me", Reason: "because"}); err != nil {
				t.Fatal(err)
			}
			if _, err := Do(op, AssignPayment{Payment: proven("pay_" + to), To: to, By: "me", Reason: "because"}); !errors.Is(err, ErrDecided) {
				t.Errorf("to %s again: %v", to, err)
			}
		}
		undecided(t, l, "pay_open", 0)
		if _, err := Do(op, AssignPayment{Payment: proven("pay_open"), To: "company", By: "me", Reason: "because"}); err == nil ||
			!strings.Contains(err.Error(), "looks after it already") {
			t.Errorf("one that a node looks after: %v", err)
		}
		// A credit alone does not make an account a wallet.
		wallets, err := All(op, ListWallets{Page: Page{Limit: 10}})
		if err != nil || len(wallets) != 1 || wallets[0].Address != testWallet {
			t.Errorf("the wallets are %+v (%v)", wallets, err)
		}
		row, err := l.Payments().Payment("pay_company")
		if err != nil {
			t.Fatal(err)
		}
		after, applied, err := l.Payments().ReversePayment(&store.PaymentReversal{ID: row.ID, Epoch: row.Epoch})
		if err != nil || !applied || after.State != store.PaymentSubmitted {
			t.Errorf("it is taken back as %+v %v %v", after, applied, err)
		}
		if r, err := Do(op, Verify{}); err != nil || len(r.Faults) > 0 || r.Payments != 4 || r.Credited != 10*usd {
			t.Errorf("the recount says %+v (%v)", r, err)
		}
	})
}
