package store

import (
	"errors"
	"fmt"
	"strings"

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
	all, mine, err := c.OpenPayments("0xw")
	c.say("open: %d and %d %s", all, mine, fail(err))

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
	take(r, 2, 200, 99)  // somebody is at it
	take(r, 2, 200, 100) // nobody any more
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
	update(r) // nothing credits but a credit

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
		list, err := c.Payments(f, 2)
		c.say("list %+v: %s", f, fail(err))
		for _, r := range list {
			c.say("  %s %d bytes", r.ID, len(r.Order))
		}
	}
	a, err := c.Account(own, conformDay)
	c.say("the account: %+v %s", *a, fail(err))
}

// conformWallets is who gets the credit of a wallet, and by which key it is spent.
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
	link("0xnew", other, 0) // a wallet that nobody knows
}
