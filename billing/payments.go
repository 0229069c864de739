package billing

import (
	"errors"
	"fmt"

	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config"
)

// Payments are the payments of wallets, for the payment machine (billing/payment). Credits
// and their reversals are in memory, too, when the calls return.
type Payments struct {
	store.PaymentStore
	l *Ledger
}

// Payments are the payments of the store.
func (l *Ledger) Payments() *Payments { return &Payments{l.store, l} }

// NowUs is the clock of the store's rows.
func (p *Payments) NowUs() int64 { return p.l.now() / 1000 }

// linkTries is how often a credit begins again because the wallet was linked, or
// unlinked, meanwhile.
const linkTries = 5

// CreditPayment credits a payment that is not decided, once in its epoch, to the account
// of its wallet, and creates the account if needed. Debt is paid first, and suspended
// and closed accounts are credited, too: the money has moved on the chain. applied is
// false where it was credited before, or ended otherwise: the row says which.
func (p *Payments) CreditPayment(c *store.PaymentCredit) (row *store.PaymentRow, applied bool, err error) {
	fail := func(err error) (*store.PaymentRow, bool, error) {
		return nil, false, fmt.Errorf("cannot credit the payment %s: %w", c.ID, err)
	}
	row, err = p.PaymentStore.Payment(c.ID)
	if err != nil {
		return fail(err)
	}
	if !row.State.Open() || row.Epoch != c.Epoch {
		return row, false, nil
	}
	for range linkTries {
		var account Account
		if account, err = p.l.Accounts().WalletAccount(row.Wallet, true); err != nil {
			return fail(err)
		}
		var after *store.PaymentRow
		after, applied, err = p.credit(c, row, account.ID)
		if err == nil {
			return after, applied, nil
		}
		if !errors.Is(err, store.ErrStale) {
			break
		}
	}
	return fail(err)
}

func (p *Payments) credit(c *store.PaymentCredit, row *store.PaymentRow, account string) (after *store.PaymentRow,
	applied bool, err error) {
	l := p.l
	l.operating.Lock()
	defer l.operating.Unlock()
	a, err := l.findAccount(account)
	if err != nil {
		return nil, false, err
	}
	day, room := a.roomForCredit()
	if row.Amount > room {
		return nil, false, fmt.Errorf("the account %q would have had more than %s", a.Name(), money.MaxCredit)
	}
	if l.journal != nil {
		// The payer gets the balance of the store.
		if err := l.project.catchUp(); err != nil {
			return nil, false, err
		}
	}
	credit := *c
	credit.Account, credit.Day, credit.NowUs = a.no, day, l.now()/1000
	if config.IsWallet(row.Wallet) {
		credit.Key = l.Wallets().keyRow(row.Wallet, a.no)
	}
	after, applied, err = p.PaymentStore.CreditPayment(&credit)
	if err != nil && l.alone() {
		// Nobody else writes to this store: if it is credited now, this was it.
		if now, reading := l.store.Payment(c.ID); reading == nil && now.State.Paid() && now.Epoch == c.Epoch {
			after, applied, err = now, true, nil
		}
	}
	if err != nil {
		return nil, false, err
	}
	if credit.Key != nil {
		l.Wallets().expectKey(credit.Key)
	}
	switch {
	case a.lease != nil:
		l.node.see(a)
	case l.journal != nil && applied:
		a.mu.Lock()
		a.avail[money.InUSD] += row.Amount
		if a.owes() {
			a.pay(l.at())
		}
		a.mu.Unlock()
	}
	return after, applied, nil
}

// alone says that no other process writes to the store.
func (l *Ledger) alone() bool {
	_, shared := l.store.(store.Shared)
	return !shared
}

// ReversePayment takes back the credit of a payment that the chain has lost; the part that the
// account does not have any more becomes debt. applied is false where it was taken back
// before, or is not a credited one.
func (p *Payments) ReversePayment(c *store.PaymentReversal) (row *store.PaymentRow, applied bool, err error) {
	l := p.l
	l.operating.Lock()
	defer l.operating.Unlock()
	row, err = l.store.Payment(c.ID)
	if err == nil && (row.State != store.PaymentCredited || row.Epoch != c.Epoch) {
		return row, false, nil
	}
	var a *AccountState
	if err == nil {
		a, err = l.account(row.Account)
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot take back the payment %s: %w", c.ID, err)
	}
	back := *c
	back.NowUs = l.now() / 1000
	var after *store.PaymentRow
	book := func(d *store.Debit) (done bool, err error) {
		back.Owed, back.Day = d.Owed, d.Day
		after, done, err = l.store.ReversePayment(&back)
		if err != nil && l.alone() {
			if now, reading := l.store.Payment(c.ID); reading == nil && now.Epoch == c.Epoch+1 {
				after, done, err = now, true, nil
			}
		}
		return done, err
	}
	d := &store.Debit{Account: a.no, Currency: USD, Day: l.Today(), Amount: row.Amount, MayOwe: true}
	if l.alone() {
		applied, err = a.debit(d, book)
	} else {
		applied, err = book(d)
		if err == nil && l.node != nil {
			l.node.see(a)
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot take back the payment %s: %w", c.ID, err)
	}
	return after, applied, nil
}
