package billing

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/billing/store"
)

const testWallet = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"

// payAs credits a payment of a wallet.
func payAs(t testing.TB, l *Ledger, id, wallet string, amount Nano) *store.PaymentRow {
	t.Helper()
	p := l.Payments()
	row := &store.PaymentRow{ID: id, Network: "eip155:8453", Asset: "0xa", Wallet: wallet, Units: int64(amount) / 1000,
		Amount: amount, State: store.PaymentSubmitted, Owner: l.NodeNo(), LeaseUs: p.NowUs() + 1e6, NextUs: p.NowUs(),
		CreatedUs: p.NowUs()}
	if existing, err := p.AddPayment(row, 100_000, 100_000); existing != nil || err != nil {
		t.Fatalf("the payment %s: %+v, %v", id, existing, err)
	}
	row, applied, err := p.CreditPayment(&store.PaymentCredit{ID: id, Epoch: 1, Transaction: "0xt"})
	if err != nil || !applied {
		t.Fatalf("the credit of %s: applied %t, %v", id, applied, err)
	}
	return row
}

// "I signed in a second before my first top-up came, and was a stranger for five more."
func TestWalletSpendsRightAfterItsFirstCredit(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	if _, err := f.WalletKey(testWallet); !errors.Is(err, ErrUnknownKey) {
		t.Fatalf("a wallet without a ledger: %v", err)
	}
	row := payAs(t, f.Ledger, "pay_a", testWallet, 5*usd)
	k, err := f.WalletKey(testWallet)
	if err != nil || k.Account.Name() != testWallet || k.Type != store.Wallet || row.Balance != 5*usd {
		t.Fatalf("after its credit: %+v, %v, balance %s", k, err, row.Balance)
	}
	h := &Hold{}
	if d := f.Admit(h, f.ask(k, usd)); d.Code != Admitted {
		t.Fatalf("denied: %v", d)
	}
	f.settle(h, usd/2)
	if _, err := f.Lookup([]byte(testWallet)); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("the address as a secret: %v", err)
	}
	f.recount()
	f.reopen()
	if k, err = f.WalletKey(testWallet); err != nil || k.Account.Name() != testWallet {
		t.Errorf("after a restart: %v", err)
	}
	if row := payAs(t, f.Ledger, "pay_b", testWallet, usd); row.Balance != 5*usd+usd/2 {
		t.Errorf("the balance is %s", row.Balance)
	}
	f.recount()
}

// "The owner saw a key that nobody had made, and deleted it."
func TestKeyOfAWalletIsNotAmongItsOwnersKeys(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f := openLedger(t)
	payAs(t, f.Ledger, "pay_a", testWallet, 5*usd)
	k, err := f.WalletKey(testWallet)
	if err != nil {
		t.Fatal(err)
	}
	list, err := f.Accounts().Keyring(k.Account, 1, 10)
	if err != nil || len(list) != 0 {
		t.Errorf("its owner sees %+v (%v)", list, err)
	}
	if _, err := f.Accounts().KeyOf(k.Account, k.ID); !errors.Is(err, ErrNoKey) {
		t.Errorf("it is shown: %v", err)
	}
	if _, err := f.Accounts().UpdateKey(k.Account, k.ID, KeyChange{Description: new(string)}); !errors.Is(err, ErrNoKey) {
		t.Errorf("it is changed: %v", err)
	}
	if err := f.Accounts().DeleteKey(k.Account, k.ID); !errors.Is(err, ErrNoKey) {
		t.Errorf("it is deleted: %v", err)
	}
	if err := f.RevokeKey(k.ID); !errors.Is(err, ErrWalletKey) {
		t.Errorf("it is revoked: %v", err)
	}
	if all, err := f.Keys(testWallet); err != nil || len(all) != 1 || all[0].Type.String() != "WALLET" {
		t.Errorf("an operator sees %+v (%v)", all, err)
	}
	for i := range store.MaxActiveKeys {
		if _, _, err := f.CreateKey(NewKey{Account: testWallet, Type: store.Inference}); err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
	}
	if _, _, err := f.CreateKey(NewKey{Account: testWallet, Type: store.Wallet}); err == nil {
		t.Error("a key of type WALLET was created")
	}
}

// "My wallet was linked, and its next top-up went to the old account." A wallet with
// money of its own is not linked; ten cents stay behind.
func TestLinkSendsCreditAndSpendingToTheOtherAccount(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	f.account("company", 10*usd)
	payAs(t, f.Ledger, "pay_a", testWallet, 5*usd)
	k, err := f.WalletKey(testWallet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.LinkWallet(testWallet, "company", "me"); !errors.Is(err, ErrFunds) {
		t.Fatalf("with money of its own: %v", err)
	}
	h := &Hold{}
	if d := f.Admit(h, f.ask(k, 5*usd)); d.Code != Admitted {
		t.Fatal(d)
	}
	if _, err := f.LinkWallet(testWallet, "company", "me"); !errors.Is(err, ErrFunds) {
		t.Fatalf("with a request under way: %v", err)
	}
	f.settle(h, 5*usd-walletRest/2)
	w, err := f.LinkWallet(testWallet, "company", "me")
	if err != nil || w.Account != "company" {
		t.Fatalf("%+v, %v", w, err)
	}
	if f.Live(k) {
		t.Error("its old key is good still")
	}
	if _, err := f.LinkWallet(testWallet, "company", "me"); !errors.Is(err, ErrLinked) {
		t.Errorf("linked twice: %v", err)
	}
	linked, err := f.WalletKey(testWallet)
	if err != nil || linked.Account.Name() != "company" {
		t.Fatalf("its key is now %+v, %v", linked, err)
	}
	if row := payAs(t, f.Ledger, "pay_b", testWallet, 7*usd); row.Balance != 17*usd {
		t.Errorf("the balance is %s", row.Balance)
	}
	if a, err := f.Accounts().WalletAccount(testWallet, true); err != nil || a.Name != "company" {
		t.Errorf("its account is %+v, %v", a, err)
	}
	f.recount()
	f.reopen()
	if linked, err = f.WalletKey(testWallet); err != nil || linked.Account.Name() != "company" {
		t.Errorf("after a restart: %v, %v", linked, err)
	}
	if err := f.UnlinkWallet(testWallet); err != nil {
		t.Fatal(err)
	}
	if err := f.UnlinkWallet(testWallet); !errors.Is(err, ErrNotLinked) {
		t.Errorf("unlinked twice: %v", err)
	}
	if k, err = f.WalletKey(testWallet); err != nil || k.Account.Name() != testWallet {
		t.Errorf("afterwards: %v, %v", k, err)
	}
	if row := payAs(t, f.Ledger, "pay_c", testWallet, usd); row.Balance != usd+walletRest/2 {
		t.Errorf("its own account has %s", row.Balance)
	}
	f.recount()
}

// "One node knew of the link, and the other spent the old account."
func TestNodesHearOfWalletsWithinASecond(t *testing.T) {
	t.Parallel()
	nodes := nodesOn(t, servers.Database(t), 2, func(int, *Options) {})
	becomes := func(name string) {
		t.Helper()
		var last string
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			k, err := nodes[1].WalletKey(testWallet)
			if last = fmt.Sprint(err); err == nil {
				last = k.Account.Name()
			}
			if last == name {
				return
			}
		}
		t.Fatalf("the other node has %s, expected %s", last, name)
	}
	becomes(ErrUnknownKey.Error())
	payAs(t, nodes[0], "pay_a", testWallet, walletRest/2)
	becomes(testWallet)
	if _, err := nodes[0].CreateAccount("company"); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0].LinkWallet(testWallet, "company", "me"); err != nil {
		t.Fatal(err)
	}
	becomes("company")
	payAs(t, nodes[1], "pay_b", testWallet, 5*usd)
	if err := nodes[0].UnlinkWallet(testWallet); err != nil {
		t.Fatal(err)
	}
	becomes(testWallet)
	a, err := nodes[1].store.FindAccount("company", nodes[1].Today())
	if err != nil || a.Avail.Total()+a.Leased.Total() != 5*usd {
		t.Errorf("the company has %+v, %v", a, err)
	}
}

// "They took back a payment that I had spent, and my balance was below zero": it is 0,
// and the rest is debt.
func TestPaymentThatTheChainLostIsTakenBack(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	payAs(t, f.Ledger, "pay_a", testWallet, 5*usd)
	k, err := f.WalletKey(testWallet)
	if err != nil {
		t.Fatal(err)
	}
	h := &Hold{}
	if d := f.Admit(h, f.ask(k, 2*usd)); d.Code != Admitted {
		t.Fatal(d)
	}
	f.settle(h, 2*usd)
	p := f.Payments()
	for i, want := range []bool{true, false} {
		row, applied, err := p.ReversePayment(&store.PaymentReversal{ID: "pay_a", Epoch: 1})
		if err != nil || applied != want || row.State != store.PaymentSubmitted || row.Epoch != 2 {
			t.Fatalf("time %d: %+v, applied %t, %v", i, row, applied, err)
		}
	}
	if owed := k.Owed(); owed != 2*usd {
		t.Errorf("it owes %s", owed)
	}
	if d := f.Admit(&Hold{}, f.ask(k, usd)); d.Code != InDebt {
		t.Errorf("a request of a debtor: %v", d)
	}
	f.recount()
	row, applied, err := p.CreditPayment(&store.PaymentCredit{ID: "pay_a", Epoch: 2, Transaction: "0xu", Final: true})
	if err != nil || !applied || row.Balance != 3*usd || row.State != store.PaymentFinal {
		t.Errorf("credited again: %+v, applied %t, %v", row, applied, err)
	}
	if owed := k.Owed(); owed != 0 {
		t.Errorf("it owes %s", owed)
	}
	if r := f.recount(); r.Payments != 1 || r.Credited != 5*usd {
		t.Errorf("the recount says %+v", r)
	}
}

// "My account was closed while my payment was under way, and the money was gone": money
// that moved on the chain is credited.
func TestClosedAccountsGetPaymentsOnTheChain(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	payAs(t, f.Ledger, "pay_a", testWallet, 5*usd)
	if _, err := f.SetStatus(testWallet, store.AccountClosed); err != nil {
		t.Fatal(err)
	}
	if row := payAs(t, f.Ledger, "pay_b", testWallet, 5*usd); row.Balance != 10*usd {
		t.Errorf("the balance is %s", row.Balance)
	}
	if _, err := f.WalletKey(testWallet); !errors.Is(err, ErrClosed) {
		t.Errorf("its key: %v", err)
	}
	f.recount()
}

// "The list said that I had money which I never had": each balance is the one before it
// plus its own movement, the first is the current balance, and pages fit together.
func TestTransactionsAddUp(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	f.account("a", 0)
	if _, err := f.LinkWallet(testWallet, "a", "me"); err != nil {
		t.Fatal(err)
	}
	payAs(t, f.Ledger, "pay_a", testWallet, 5*usd)
	k, err := f.WalletKey(testWallet)
	if err != nil {
		t.Fatal(err)
	}
	spend := func(n int) {
		for i := range n {
			f.clock.advance(time.Second)
			var lines money.Lines
			lines.Add(money.InputTokens, int64(1000+i), 1_000_000)
			lines.Add(money.OutputTokens, 7, 2_000_000)
			f.charge(k, fmt.Sprint("model-", i%3), lines)
		}
	}
	spend(40)
	f.clock.advance(time.Second)
	f.credit("a", DIEM, usd/1000)
	f.credit("a", USD, usd)
	spend(400)
	if _, _, err := f.Refund("a", USD, 5, "refund", ""); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(time.Second)
	if _, _, err := f.Debit("a", USD, 9, "debit", "mistake", false); err != nil {
		t.Fatal(err)
	}
	spend(3)
	f.clock.advance(time.Second)
	if _, _, err := f.Payments().ReversePayment(&store.PaymentReversal{ID: "pay_a", Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(time.Second)
	if _, _, err := f.Payments().CreditPayment(&store.PaymentCredit{ID: "pay_a", Epoch: 2}); err != nil {
		t.Fatal(err)
	}
	listsAddUp(t, f.Ledger, k, 5*usd+usd+5*usd) // the payment was credited twice, and taken back by a charge
	f.recount()
}

// listsAddUp reads all transactions of an account in pages of several sizes.
func listsAddUp(t *testing.T, l *Ledger, k *Key, topped Nano) {
	t.Helper()
	kinds := map[string]int{}
	for _, limit := range []int{100, 7, 33} {
		var all []report.Transaction
		ids := map[string]bool{}
		for more := true; more; {
			list, err := l.Reports(k.Account).Transactions(limit, len(all))
			if err != nil || list.Behind || len(list.List) != limit && list.More {
				t.Fatalf("%d transactions, more %t, behind %t, %v", len(list.List), list.More, list.Behind, err)
			}
			if len(all) == 0 && (len(list.List) == 0 || list.List[0].BalanceAfter != list.Balance) {
				t.Fatalf("the balance is %s, the list begins with %+v", list.Balance, list.List)
			}
			all, more = append(all, list.List...), list.More
		}
		sum := Nano(0)
		for i := range all {
			x := &all[i]
			kinds[x.Type]++
			if ids[x.ID] || x.ID == "" {
				t.Fatalf("the id %q is there twice", x.ID)
			}
			ids[x.ID] = true
			if i > 0 && (all[i-1].AtUs < x.AtUs || all[i-1].BalanceAfter-all[i-1].Amount != x.BalanceAfter) {
				t.Fatalf("number %d: %+v is before %+v", i, x, all[i-1])
			}
			if (x.Request != nil) != strings.HasPrefix(x.Model, "model-") {
				t.Fatalf("%+v has request %v", x, x.Request)
			}
			if sum += x.Amount; x.Type == "TOP_UP" {
				topped -= x.Amount
			}
		}
		if last := all[len(all)-1]; last.BalanceAfter != last.Amount || sum != all[0].BalanceAfter {
			t.Errorf("the list ends with %+v and adds up to %s", last, sum)
		}
		if topped != 0 {
			t.Errorf("top-ups are wrong by %s", topped)
		}
		topped = 0
		for i := range all {
			if all[i].Type == "TOP_UP" {
				topped += all[i].Amount
			}
		}
	}
	if kinds["CHARGE"] < 3*400 || kinds["REFUND"] != 3 {
		t.Errorf("the kinds are %v", kinds)
	}
	for _, bad := range [][2]int{{0, 0}, {10, -1}, {100, report.MaxTransactions}} {
		if _, err := l.Reports(k.Account).Transactions(bad[0], bad[1]); !errors.Is(err, report.ErrTooDeep) {
			t.Errorf("%d transactions from %d: %v", bad[0], bad[1], err)
		}
	}
}

// "The list of my busy wallet took a minute", and on another node it was another one.
func TestTransactionsOfNodesAddUp(t *testing.T) {
	t.Parallel()
	nodes := nodesOn(t, servers.Database(t), 2, func(int, *Options) {})
	if _, err := nodes[0].CreateAccount("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0].LinkWallet(testWallet, "a", "me"); err != nil {
		t.Fatal(err)
	}
	payAs(t, nodes[0], "pay_a", testWallet, 50*usd)
	var keys []*Key
	for _, l := range nodes {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			k, err := l.WalletKey(testWallet)
			if err == nil {
				keys = append(keys, k)
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	var wg sync.WaitGroup
	for i, k := range keys {
		wg.Go(func() {
			for n := range 300 {
				var lines money.Lines
				lines.Add(money.InputTokens, int64(100+n), 1_000_000)
				h := &Hold{}
				a := &Admission{Key: k, Slot: nodes[i].ModelNumber("model-x"), Hold: lines.Cost(), Now: nodes[i].at()}
				if d := nodes[i].Admit(h, a); d.Code != Admitted {
					t.Errorf("denied: %v", d)
					return
				}
				h.Settle(Settlement{Cost: lines.Cost(), Lines: lines, Now: nodes[i].at()})
			}
		})
	}
	// A list always adds up to the balance that it shows. Money in transit from the other node is
	// missing from both.
	for range 40 {
		list, err := nodes[0].Reports(keys[0].Account).Transactions(100, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(list.List); i++ {
			if list.List[i-1].BalanceAfter-list.List[i-1].Amount != list.List[i].BalanceAfter {
				t.Fatalf("number %d does not add up", i)
			}
		}
	}
	wg.Wait()
	whole := func(l *Ledger, k *Key) bool {
		list, err := l.Reports(k.Account).Transactions(1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		last := list.List[len(list.List)-1]
		if !list.More && last.BalanceAfter != last.Amount {
			t.Fatalf("a list of %d, behind %t, ends with %+v", len(list.List), list.Behind, last)
		}
		return len(list.List) == 601 && !list.Behind
	}
	for end := time.Now().Add(time.Minute); !whole(nodes[0], keys[0]) || !whole(nodes[1], keys[1]); {
		time.Sleep(50 * time.Millisecond)
		if time.Now().After(end) {
			t.Fatal("the nodes do not come to have all")
		}
	}
}
