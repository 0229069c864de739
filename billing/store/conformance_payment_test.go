package store

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
)

func paymentRow(id, wallet string, amount money.Nano) *PaymentRow {
	r := &PaymentRow{ID: id, Network: "eip155:8453", Asset: "0xa", Wallet: wallet, Units: int64(amount) / 1000,
		Amount: amount, Order: []byte(`{"it's":1}`), PayUntilUs: conformUs + 1000, State: PaymentSubmitted, Owner: 1,
		LeaseUs: conformUs + 100, NextUs: conformUs, CreatedUs: conformUs + int64(len(id))}
	r.Same[0] = id[len(id)-1]
	return r
}

func walletKeyRow(wallet string, account uint32) *KeyRow {
	k := &KeyRow{ID: fmt.Sprintf("key of %s at %d", wallet, account), Account: account, Type: Wallet,
		Description: WalletKeyName(wallet), Last6: "abcdef", Period: Epoch, Privacy: AnyModel, CreatedUs: conformUs}
	copy(k.Digest[:], wallet)
	return k
}

func (c *conform) sayPayment(id string) *PaymentRow {
	r, err := c.Payment(id)
	if err != nil {
		c.say("  %s: %s", id, fail(err))
		return nil
	}
	c.say("  %+v", *r)
	return r
}

func (c *conform) addPayment(r *PaymentRow, most, own int) {
	found, err := c.AddPayment(r, most, own)
	c.say("add %s of %s: %s", r.ID, r.Wallet, fail(err))
	if errors.Is(err, ErrManyPayments) != strings.HasPrefix(r.ID, "many") {
		c.t.Errorf("adding %s: %v", r.ID, err)
	}
	if found != nil {
		c.say("  there is %s in state %s", found.ID, found.State)
	}
}

func (c *conform) creditPayment(id string, account uint32, epoch int64, final bool) *PaymentRow {
	r, applied, err := c.CreditPayment(&PaymentCredit{ID: id, Epoch: epoch, Account: account,
		Key: walletKeyRow("0xw", account), Transaction: "0xt" + id, Final: final, NextUs: conformUs + 50, Day: conformDay,
		NowUs: conformUs + 7})
	c.say("credit %s to %d in epoch %d: applied %t %s", id, account, epoch, applied, fail(err))
	if r != nil {
		c.say("  %+v", *r)
	}
	return r
}

// conformPayments is the life of payments: added, taken, credited, taken back, ended.
func conformPayments(c *conform) {
	own := c.account("0xw", money.Parts{})
	c.account("0xv", money.Parts{})
	for _, id := range []string{"p1", "p2", "p3"} {
		c.addPayment(paymentRow(id, "0xw", 5_000_000_000), 10, 3)
	}
	c.addPayment(paymentRow("p1", "0xw", 5_000_000_000), 10, 3)    // it is there
	c.addPayment(paymentRow("many1", "0xw", 5_000_000_000), 10, 3) // of this wallet
	c.addPayment(paymentRow("p4", "0xv", 6_000_000_000), 10, 3)
	c.addPayment(paymentRow("many2", "0xv", 5_000_000_000), 4, 3) // of all
	mine, err := c.OpenPayments("0xw")
	c.say("open: %d %s", mine, fail(err))

	due := func(now int64) {
		list, err := c.DuePayments(now, 3)
		c.say("due at %d: %s", now-conformUs, fail(err))
		for _, r := range list {
			c.say("  %s %d bytes", r.ID, len(r.Order))
		}
	}
	due(conformUs + 99)
	due(conformUs + 100)
	r := c.sayPayment("p1")
	take := func(r *PaymentRow, node uint32, until, now int64) {
		ok, err := c.TakePayment(r, node, conformUs+until, conformUs+now)
		c.say("take %s for %d: %t %s", r.ID, node, ok, fail(err))
	}
	old := *r
	take(r, 2, 200, 99)  // leased by a node
	take(r, 2, 200, 100) // the lease is over
	take(&old, 3, 300, 250)
	take(r, 3, 300, 150)
	update := func(r *PaymentRow) {
		ok, err := c.UpdatePayment(r)
		c.say("update %s to %s: %t %s", r.ID, r.State, ok, fail(err))
		c.sayPayment(r.ID)
	}
	r.Tries, r.Transaction = 1, "hint"
	update(r)
	old.State = PaymentDead
	update(&old) // it has changed since
	r.State, r.Code, r.Reason, r.LeaseUs = PaymentRefused, "SETTLEMENT_FAILED", "it's not funded", 0
	update(r)
	r.State = PaymentFinal
	update(r) // only a credit credits

	c.creditPayment("p1", own, 2, false) // not this epoch
	c.creditPayment("p1", own+7, 1, false)
	c.creditPayment("p1", own, 1, false)
	c.creditPayment("p1", own, 1, false)
	c.creditPayment("p2", own, 1, true)
	c.creditPayment("none", own, 1, true)
	c.sayPayment("p1")
	reverse := func(id string, epoch int64, owed money.Nano) {
		r, applied, err := c.ReversePayment(&PaymentReversal{ID: id, Epoch: epoch, Owed: owed, Day: conformDay,
			NextUs: conformUs + 60, NowUs: conformUs + 9})
		c.say("take back %s in epoch %d: applied %t %s", id, epoch, applied, fail(err))
		if r != nil {
			c.say("  %+v", *r)
		}
	}
	reverse("p2", 1, 0) // it is final
	reverse("p1", 1, 0)
	reverse("p1", 1, 0)
	c.creditPayment("p1", own, 1, false)
	c.creditPayment("p1", own, 2, false)
	reverse("p1", 2, 0)
	c.creditPayment("p1", own, 3, false)
	r = c.sayPayment("p1")
	r.State, r.EndedUs = PaymentFinal, conformUs+11
	update(r)
	dead, _ := c.Payment("p3")
	dead.State, dead.EndedUs, dead.Reason = PaymentDead, conformUs+12, "over"
	update(dead)
	c.creditPayment("p3", own, 1, false)
	take(dead, 5, 400, 390)
	due(conformUs + 500)
	free, _ := c.Payment("p4")
	free.LeaseUs = conformUs + 5000
	update(free)
	c.say("free: %s", fail(c.FreePayments(1, conformUs+600)))
	due(conformUs + 700)
	tally, err := c.TallyPayments()
	c.say("tally: %+v %s", tally, fail(err))
	for _, f := range []PaymentFilter{{}, {Wallet: "0xw"}, {State: PaymentDead}, {Wallet: "0xv", Open: true}} {
		list, _, err := c.Payments(f, 2)
		c.say("list %+v: %s", f, fail(err))
		for _, r := range list {
			c.say("  %s %d bytes", r.ID, len(r.Order))
		}
	}
	a, err := c.Account(own, conformDay)
	c.say("the account: %+v %s", *a, fail(err))
}

// conformWallets tests which account gets the credit of a wallet, and which key spends
// it.
func conformWallets(c *conform) {
	own, other := c.account("0xw", money.Parts{}), c.account("other", money.Parts{})
	key := func(at string) {
		k, err := c.KeyByDigest(walletKeyRow("0xw", 0).Digest)
		if err != nil {
			c.say("%s: %s", at, fail(err))
			return
		}
		c.say("%s: %s of %s, type %s, %s, revoked %t", at, k.ID, k.AccountName, k.Type, k.Description, k.RevokedUs != 0)
	}
	link := func(address string, account uint32, rest money.Nano) {
		retired, err := c.LinkWallet(&WalletLink{Address: address, Account: account, SinceUs: conformUs, By: "it's me"},
			walletKeyRow(address, account), rest)
		var f *FundsError
		if errors.As(err, &f) {
			err = fmt.Errorf("%w: has %s", ErrStale, f.Has)
		}
		c.say("link %s to %d: retired %d %s", address, account, retired, fail(err))
	}
	key("at first")
	c.addPayment(paymentRow("p1", "0xw", 5_000_000_000), 10, 3)
	c.creditPayment("p1", own, 1, false)
	key("credited")
	if list, err := c.ActiveKeys(own, conformUs, 10, 0); err != nil || len(list) != 0 {
		c.t.Errorf("its owner sees %d keys (%v)", len(list), err)
	}
	if n, _, err := c.KeysMade(own, 0); n != 0 || err != nil {
		c.t.Errorf("%d keys were made (%v)", n, err)
	}
	link("0xw", other, 4_999_999_999)
	link("0xw", other, 5_000_000_000)
	link("0xw", own, 5_000_000_000)
	key("linked")
	w, err := c.WalletLink("0xw")
	c.say("%+v %s", *w, fail(err))
	_, err = c.WalletLink("0xv")
	c.say("none: %s", fail(err))
	list, err := c.WalletLinks("", 10)
	c.say("%d links %s", len(list), fail(err))
	c.addPayment(paymentRow("p2", "0xw", 7_000_000_000), 10, 3)
	c.creditPayment("p2", own, 1, false) // stale
	c.creditPayment("p2", other, 1, false)
	unlink := func() {
		retired, err := c.UnlinkWallet("0xw", func() *KeyRow {
			k := walletKeyRow("0xw", 0)
			k.ID = "key again"
			return k
		}())
		c.say("unlink: retired %d %s", retired, fail(err))
	}
	unlink()
	unlink()
	key("unlinked")
	c.say("key: %s", fail(c.AddWalletKey(walletKeyRow("0xw", own))))
	c.say("key: %s", fail(c.AddWalletKey(walletKeyRow("0xw", other))))
	link("0xnew", other, 0) // an unknown wallet
}

// "Somebody was credited twice, and verify said that all was well."
func TestRecountFindsDamagedPayments(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			for name, damage := range map[string]struct{ statement, found string }{
				"amount changed": {"UPDATE payment SET amount = amount + 1 WHERE id = 'p1'",
					"is credited 5 by its entry"},
				"credit forgotten": {"UPDATE payment SET state = 1, credited_us = 0 WHERE id = 'p1'",
					"is credited 5 by its entry"},
				"credited by nothing": {"UPDATE payment SET state = 3, account = 1, credited_us = 9 WHERE id = 'p3'",
					"is credited 0"},
				"another account": {"UPDATE payment SET account = 2 WHERE id = 'p1'", "is credited 0"},
				"entry lost":      {"UPDATE entry SET ref = 'x' WHERE ref = 'payment:p1:1'", "is credited 0"},
				"entry of nobody": {"UPDATE entry SET ref = 'payment:p9:1' WHERE ref = 'payment:p1:1'", "is credited 0"},
				"one entry more": {"INSERT INTO entry(id, ts_us, kind, ref) VALUES(999, 1, 'TOP_UP', 'payment:p9:1')",
					"credits were booked"},
				"one reversal more": {"INSERT INTO entry(id, ts_us, kind, ref) VALUES(999, 1, 'ADJUST', 'payment:p1:1:reversed')",
					"credits were booked"},
				"epoch set back": {"UPDATE payment SET epoch = 1 WHERE id = 'p2'", "credits were booked"},
				"reversal lost": {"UPDATE entry SET ref = 'x' WHERE ref = 'payment:p2:1:reversed'",
					"was taken back in epoch 1"},
				"row lost":          {"DELETE FROM payment WHERE id = 'p1'", "credits were booked"},
				"ended and is not":  {"UPDATE payment SET state = 4 WHERE id = 'p1'", "ended at 0"},
				"a state of nobody": {"UPDATE payment SET state = 9 WHERE id = 'p3'", "in state 9"},
			} {
				t.Run(name, func(t *testing.T) {
					c := e.open(t)
					if c.shared != nil {
						c.Store = c.shared
					} else {
						t.Cleanup(func() { _ = c.Close() })
					}
					c.t, c.b = t, NewBatch()
					c.b.Begin(0)
					own := c.account("0xw", money.Parts{})
					c.account("other", money.Parts{})
					for _, id := range []string{"p1", "p2", "p3"} {
						c.addPayment(paymentRow(id, "0xw", 5_000_000_000), 9, 9)
					}
					c.creditPayment("p1", own, 1, false)
					c.creditPayment("p2", own, 1, false)
					_, done, err := c.ReversePayment(&PaymentReversal{ID: "p2", Epoch: 1, Day: conformDay, NowUs: conformUs})
					if !done || err != nil {
						t.Fatal(err)
					}
					c.recount()
					if _, err := c.Store.(interface{ DB() *sql.DB }).DB().Exec(damage.statement); err != nil {
						t.Fatal(err)
					}
					r, err := c.Recount(func() {})
					if err != nil {
						t.Fatal(err)
					}
					if all := strings.Join(r.Report().Faults, "\n"); !strings.Contains(all, damage.found) {
						t.Errorf("found: %q", all)
					}
				})
			}
		})
	}
}

// A call that is repeated after a lost answer gives the same result.
func TestPaymentsWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	cut, s := openThroughCut(t, servers.Database(t), "node")
	own := addAccount(t, s, "0xw", money.Parts{})
	stop := make(chan struct{})
	var losing sync.WaitGroup
	losing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(40*time.Millisecond + rand.N(80*time.Millisecond)):
				cut.LoseAnswers(1 + rand.N(int64(2))) // the answer to the repeated call may be lost, too
			}
		}
	})
	const many = 80
	// once repeats a call until its outcome is known, and checks that it was done once.
	once := func(id string, do func() (done bool, err error)) {
		for try := range 20 {
			done, err := do()
			if err != nil {
				continue // the server could not be reached for long: the outcome is unknown
			}
			if !done && try == 0 {
				t.Errorf("%s: it was done before the first call", id)
			}
			return
		}
		t.Errorf("%s: the server cannot be reached", id)
	}
	added := 0
	for ; added < many || cut.Cuts() < 3 && added < 10*many; added++ {
		id := fmt.Sprint("p", added)
		once(id, func() (bool, error) {
			existing, err := s.AddPayment(paymentRow(id, "0xw", 5_000_000_000), 20*many, 10*many)
			return existing == nil, err
		})
		once(id, func() (bool, error) {
			_, applied, err := s.CreditPayment(&PaymentCredit{ID: id, Epoch: 1, Account: own,
				Key: walletKeyRow("0xw", own), NowUs: conformUs, Day: conformDay})
			return applied, err
		})
		once(id, func() (bool, error) {
			_, applied, err := s.ReversePayment(&PaymentReversal{ID: id, Epoch: 1, NowUs: conformUs, Day: conformDay})
			return applied, err
		})
		if row, err := s.Payment(id); err == nil && (row.State != PaymentSubmitted || row.Epoch != 2) {
			t.Errorf("%s: %+v, %v", id, row, err)
		}
	}
	close(stop)
	losing.Wait()
	if cut.Cuts() < 3 {
		t.Errorf("%d answers were lost", cut.Cuts())
	}
	r, err := s.Recount(func() {})
	if err != nil || len(r.Report().Faults) > 0 || r.Payments != int64(added) {
		t.Errorf("the recount finds %+v (%v)", r.Report(), err)
	}
}
