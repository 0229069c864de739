package billing

import (
	"errors"
	"fmt"
	"math"
	"time"

	"farebox/billing/store"
	"farebox/config"
)

// PaymentInfo is a payment of a wallet as operators see it.
type PaymentInfo struct {
	ID          string    `json:"id"`
	Network     string    `json:"network"`
	Asset       string    `json:"asset"`
	Wallet      string    `json:"wallet"`
	AccountName string    `json:"account,omitempty"` // that was credited
	Units       int64     `json:"units"`
	Amount      Nano      `json:"amount"`
	State       string    `json:"state"`
	Epoch       int64     `json:"epoch"`    // counts its credits, the one to come included
	Attempts    int32     `json:"attempts"` // how often a facilitator was asked to settle it
	Looks       int32     `json:"looks"`    // how often the chain was asked, in this state
	Node        uint32    `json:"node"`     // that was at it last
	Transaction string    `json:"transaction,omitempty"`
	Code        string    `json:"code,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Resolved    string    `json:"resolved,omitempty"` // the operator, and the reason
	Balance     Nano      `json:"balance_after"`      // of the account, when it was credited
	CreatedAt   time.Time `json:"created_at"`
	CreditedAt  time.Time `json:"credited_at,omitzero"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	NextAt      time.Time `json:"next_look_at,omitzero"`
	BusyUntil   time.Time `json:"busy_until,omitzero"` // a node may be at it until then
	PayUntil    time.Time `json:"pay_until,omitzero"`
}

// WalletInfo is a wallet with the account that it spends.
type WalletInfo struct {
	Address string      `json:"wallet"`
	Linked  bool        `json:"linked"` // the account is another one than its own
	Since   time.Time   `json:"linked_since,omitzero"`
	By      string      `json:"linked_by,omitempty"`
	Account AccountInfo `json:"account"`
	Pending int         `json:"pending"` // payments without an outcome
}

// Mistakes about payments that a caller may want to tell apart.
var (
	ErrNoPayment   = errors.New("there is no such payment")
	ErrDecided     = errors.New("the payment is already resolved")
	ErrPaymentBusy = errors.New("a node is processing the payment: try again in some minutes, or stop that node")
)

// ListPayments lists payments of a wallet, or of all with "", newest first.
type ListPayments struct {
	Page
	Wallet  string    `json:"wallet,omitempty"`
	Account string    `json:"account,omitempty"` // that was credited, id or name
	Open    bool      `json:"open,omitempty"`    // only payments without an outcome
	From    time.Time `json:"from,omitzero"`     // of their creation
	To      time.Time `json:"to,omitzero"`
}

func (lp ListPayments) carryOut(l *Ledger, _ *call) (list List[PaymentInfo], err error) {
	f := store.PaymentFilter{Wallet: lp.Wallet, Open: lp.Open, FromUs: toMicro(lp.From), ToUs: toMicro(lp.To)}
	if f.Account, err = l.accountNo(lp.Account); err == nil {
		err = lp.after(&f.Behind.CreatedUs, &f.Behind.ID)
	}
	var rows []*store.PaymentRow
	var next *store.PaymentRow
	if err == nil {
		rows, next, err = l.store.Payments(f, lp.most())
	}
	if err == nil {
		list, err = page(rows, next, func(r *store.PaymentRow) string { return cursorAt(r.CreatedUs, r.ID) },
			func(rows []*store.PaymentRow) ([]PaymentInfo, error) { return describeAll(l, rows, paymentInfo) })
	}
	if err != nil {
		return list, fmt.Errorf("cannot list the payments: %w", err)
	}
	return list, nil
}

// GetPayment gives one payment.
type GetPayment struct {
	ID string `json:"id"`
}

func (g GetPayment) carryOut(l *Ledger, c *call) (PaymentInfo, error) {
	row, err := l.store.Payment(g.ID)
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoPayment
	}
	if err != nil {
		return PaymentInfo{}, fmt.Errorf("cannot find the payment %q: %w", g.ID, err)
	}
	return paymentInfo(l, row, accountNames{})
}

// ResolvePayment decides a payment whose outcome the chain does not tell: it is credited
// for good, or dropped, and then never credited, whatever the chain says later. Its row keeps
// the operator and the reason. A payment that a node is processing cannot be resolved.
type ResolvePayment struct {
	ID     string `json:"id"`
	Credit bool   `json:"credit"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason"`
}

func (r ResolvePayment) carryOut(l *Ledger, c *call) (PaymentInfo, error) {
	fail := func(err error) (PaymentInfo, error) {
		return PaymentInfo{}, fmt.Errorf("cannot resolve the payment %q: %w", r.ID, err)
	}
	r.By, r.Reason = c.by(r.By), c.why(r.Reason)
	if err := checkDecision(r.By, r.Reason); err != nil {
		return fail(err)
	}
	p := &Payments{c.store, l}
	row, err := l.store.Payment(r.ID)
	switch {
	case errors.Is(err, store.ErrNoRow):
		return fail(ErrNoPayment)
	case err != nil:
		return fail(err)
	case !row.State.Open():
		return fail(ErrDecided)
	}
	c.entry.Account, c.entry.Subject = row.Account, row.ID
	// For a moment no node works on it, whatever the chain's state.
	if ok, err := l.store.TakePayment(row, 0, p.NowUs()+decisionUs, p.NowUs()); err != nil || !ok {
		return fail(errors.Join(err, ErrPaymentBusy))
	}
	if r.Credit {
		resolved := "credited by " + r.By + ": " + r.Reason
		var after *store.PaymentRow
		var applied bool
		after, applied, err = p.CreditPayment(&store.PaymentCredit{ID: row.ID, Epoch: row.Epoch,
			Transaction: row.Transaction, Final: true, Resolved: resolved})
		if err == nil && !applied && after.Resolved != resolved {
			err = ErrDecided
		}
	} else {
		row.State, row.EndedUs, row.LeaseUs = store.PaymentDead, p.NowUs(), 0
		row.Code, row.Reason, row.Resolved = "PAYMENT_VERIFICATION_FAILED", "dropped", "dropped by "+r.By+": "+r.Reason
		var ok bool
		if ok, err = c.store.UpdatePayment(row); err == nil && !ok {
			err = ErrPaymentBusy
		}
	}
	if err != nil {
		return fail(err)
	}
	return GetPayment{r.ID}.carryOut(l, c)
}

// decisionUs is how long no node works on a payment that an operator decides.
const decisionUs = int64(60 * 1e6)

// checkDecision checks who decides a payment, and why.
func checkDecision(by, reason string) error {
	if by == "" || reason == "" {
		return errors.New("the books record the operator and the reason: give both")
	}
	if len(by) > maxMemo || len(reason) > maxMemo {
		return fmt.Errorf("the operator and the reason may have at most %d bytes each", maxMemo)
	}
	return errors.Join(checkText("name", by), checkText("reason", reason))
}

func paymentInfo(l *Ledger, r *store.PaymentRow, names accountNames) (PaymentInfo, error) {
	account, err := names.of(l, r.Account)
	if err != nil {
		return PaymentInfo{}, err
	}
	info := PaymentInfo{ID: r.ID, Network: r.Network, Asset: r.Asset, Wallet: r.Wallet, AccountName: account,
		Units: r.Units, Amount: r.Amount, State: r.State.String(), Epoch: r.Epoch, Attempts: r.Tries, Looks: r.Looks,
		Node: r.Owner, Transaction: r.Transaction, Code: r.Code, Reason: r.Reason, Resolved: r.Resolved,
		Balance: r.Balance, CreatedAt: fromMicro(r.CreatedUs), CreditedAt: fromMicro(r.CreditedUs),
		EndedAt: fromMicro(r.EndedUs), PayUntil: fromMicro(r.PayUntilUs)}
	if r.EndedUs == 0 {
		info.NextAt = fromMicro(r.NextUs)
		if r.LeaseUs > l.now()/1000 {
			info.BusyUntil = fromMicro(r.LeaseUs)
		}
	}
	return info, nil
}

// ListWallets lists the wallets that spend here, the latest first.
type ListWallets struct{ Page }

func (lw ListWallets) carryOut(l *Ledger, _ *call) (list List[WalletInfo], err error) {
	var before int64
	var keys []*store.KeyRow
	var next *store.KeyRow
	if err = lw.after(&before); err == nil {
		keys, next, err = l.store.WalletKeys(before, lw.most())
	}
	if err == nil {
		list, err = page(keys, next, func(k *store.KeyRow) string { return cursorAt(k.No) }, l.describeWallets)
	}
	if err != nil {
		return list, fmt.Errorf("cannot list the wallets: %w", err)
	}
	return list, nil
}

func (l *Ledger) describeWallets(keys []*store.KeyRow) (list []WalletInfo, err error) {
	list = make([]WalletInfo, len(keys))
	for i, k := range keys {
		if list[i], err = walletInfo(l, store.WalletOfKey(k), k.Account); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// GetWallet gives one wallet, with the account that it spends.
type GetWallet struct {
	Address string `json:"address"`
}

func (g GetWallet) carryOut(l *Ledger, c *call) (WalletInfo, error) {
	row, err := l.Wallets().row(g.Address)
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoAccount
	}
	var info WalletInfo
	if err == nil {
		info, err = walletInfo(l, g.Address, row.No)
	}
	if err != nil {
		return WalletInfo{}, fmt.Errorf("cannot find the wallet %s: %w", g.Address, err)
	}
	return info, nil
}

func walletInfo(l *Ledger, address string, account uint32) (WalletInfo, error) {
	row, err := l.store.Account(account, l.Today())
	if err != nil {
		return WalletInfo{}, err
	}
	info := WalletInfo{Address: address, Account: l.describe(row)}
	if row.Name != address {
		w, err := l.store.WalletLink(address)
		switch {
		case err == nil:
			info.Linked, info.Since, info.By = true, fromMicro(w.SinceUs), w.By
		case !errors.Is(err, store.ErrNoRow):
			return WalletInfo{}, err
		}
	}
	info.Pending, err = l.store.OpenPayments(address)
	return info, err
}

// ProvenPayment is money that the chain has at pay_to, by the word of its witnesses, and
// that no payment is of. Its ID is the one that the same money always has.
type ProvenPayment struct {
	ID          string `json:"id"`
	Network     string `json:"network"`
	Asset       string `json:"asset"`
	Payer       string `json:"payer"`
	Units       int64  `json:"units"`
	Amount      Nano   `json:"amount"`
	Order       []byte `json:"order"` // for finding it again
	Transaction string `json:"transaction"`
	Final       bool   `json:"final"` // the chain cannot lose it any more
}

// nextLookUs is when the chain is asked again about an assigned payment.
const nextLookUs = int64(20 * 1e6)

// AssignPayment credits money that reached pay_to without a payment to a wallet, or to an
// account by id or name. It becomes a payment like any other: it is credited once, even when
// it is sent or assigned again, and taken back when the chain loses it.
type AssignPayment struct {
	Payment ProvenPayment `json:"payment"`
	To      string        `json:"to"`
	By      string        `json:"by,omitempty"`
	Reason  string        `json:"reason"`
}

func (ap AssignPayment) carryOut(l *Ledger, c *call) (PaymentInfo, error) {
	p, to := &ap.Payment, ap.To
	fail := func(err error) (PaymentInfo, error) {
		return PaymentInfo{}, fmt.Errorf("cannot assign the payment %q to %q: %w", p.ID, to, err)
	}
	ap.By, ap.Reason = c.by(ap.By), c.why(ap.Reason)
	if err := checkDecision(ap.By, ap.Reason); err != nil {
		return fail(err)
	}
	if !config.IsWallet(to) {
		a, err := l.findAccount(to)
		switch {
		case err != nil:
			return fail(err)
		case a.knownStatus() == store.AccountClosed:
			return fail(ErrClosed)
		}
		to = a.Name()
	}
	now := l.Payments().NowUs()
	row := &store.PaymentRow{ID: p.ID, Network: p.Network, Asset: p.Asset, Wallet: to, Units: p.Units, Amount: p.Amount,
		Order: p.Order, State: store.PaymentSubmitted, LeaseUs: now + decisionUs, NextUs: now, CreatedUs: now}
	c.entry.Subject = row.ID
	existing, err := c.store.AddPayment(row, math.MaxInt32, math.MaxInt32)
	switch {
	case err != nil:
		return fail(err)
	case existing != nil && existing.State.Open():
		return fail(fmt.Errorf("a node looks after it already, in state %s for %s: it is credited by itself, or "+
			"farebox wallet resolve decides it", existing.State, existing.Wallet))
	case existing != nil:
		return fail(fmt.Errorf("%w: it is %s, for %s", ErrDecided, existing.State, existing.Wallet))
	}
	resolved := "assigned by " + ap.By + ": " + ap.Reason + " (paid by " + p.Payer + ")"
	after, applied, err := l.Payments().CreditPayment(&store.PaymentCredit{ID: p.ID, Epoch: row.Epoch,
		Transaction: p.Transaction, Final: p.Final, Resolved: resolved, NextUs: now + nextLookUs})
	if err == nil && !applied && after.Resolved != resolved {
		err = errors.New("somebody else resolved it meanwhile")
	}
	if err != nil {
		return fail(err)
	}
	return GetPayment{p.ID}.carryOut(l, c)
}
