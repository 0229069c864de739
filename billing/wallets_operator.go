package billing

import (
	"errors"
	"fmt"
	"time"

	"farebox/billing/store"
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
	Resolved    string    `json:"resolved,omitempty"` // by whom, and why
	Balance     Nano      `json:"balanceAfter"`       // of the account, when it was credited
	CreatedAt   time.Time `json:"createdAt"`
	CreditedAt  time.Time `json:"creditedAt,omitzero"`
	EndedAt     time.Time `json:"endedAt,omitzero"`
	NextAt      time.Time `json:"nextLookAt,omitzero"`
	BusyUntil   time.Time `json:"busyUntil,omitzero"` // a node may be at it until then
	PayUntil    time.Time `json:"payUntil,omitzero"`
}

// WalletInfo is a wallet with the account that it spends.
type WalletInfo struct {
	Address string      `json:"wallet"`
	Linked  bool        `json:"linked"` // the account is another one than its own
	Since   time.Time   `json:"linkedSince,omitzero"`
	By      string      `json:"linkedBy,omitempty"`
	Account AccountInfo `json:"account"`
	Pending int         `json:"pending"` // payments without an outcome
}

// Mistakes about payments that a caller may want to tell apart.
var (
	ErrNoPayment   = errors.New("there is no such payment")
	ErrDecided     = errors.New("the payment is already resolved")
	ErrPaymentBusy = errors.New("a node is processing the payment: try again in some minutes, or stop that node")
)

// mostPayments bounds lists of payments and of wallets.
const mostPayments = 10_000

// PaymentList lists payments, newest first: of a wallet, or of all with "", and with
// open only those without an outcome.
func (l *Ledger) PaymentList(wallet string, open bool, most int) ([]PaymentInfo, error) {
	if most < 1 || most > mostPayments {
		return nil, fmt.Errorf("cannot list %d payments: expected 1 to %d", most, mostPayments)
	}
	rows, err := l.store.Payments(store.PaymentFilter{Wallet: wallet, Open: open}, most)
	if err != nil {
		return nil, fmt.Errorf("cannot list the payments: %w", err)
	}
	names := map[uint32]string{}
	list := make([]PaymentInfo, len(rows))
	for i, row := range rows {
		if list[i], err = l.paymentInfo(row, names); err != nil {
			return nil, fmt.Errorf("cannot list the payments: %w", err)
		}
	}
	return list, nil
}

// PaymentOf gives a payment.
func (l *Ledger) PaymentOf(id string) (PaymentInfo, error) {
	row, err := l.store.Payment(id)
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoPayment
	}
	if err != nil {
		return PaymentInfo{}, fmt.Errorf("cannot find the payment %q: %w", id, err)
	}
	return l.paymentInfo(row, map[uint32]string{})
}

// ResolvePayment decides a payment of which the chain does not say what became of it:
// credit credits it, for good; else it is dropped, and whatever the chain says later, it
// is not credited. Who decided, and why, stands in its row. Nobody decides over a node
// that is at it.
func (l *Ledger) ResolvePayment(id string, credit bool, by, reason string) (PaymentInfo, error) {
	fail := func(err error) (PaymentInfo, error) {
		return PaymentInfo{}, fmt.Errorf("cannot resolve the payment %q: %w", id, err)
	}
	if err := checkDecision(by, reason); err != nil {
		return fail(err)
	}
	p := l.Payments()
	row, err := l.store.Payment(id)
	switch {
	case errors.Is(err, store.ErrNoRow):
		return fail(ErrNoPayment)
	case err != nil:
		return fail(err)
	case !row.State.Open():
		return fail(ErrDecided)
	}
	// For a moment nobody else is at it, whatever the chain says meanwhile.
	if ok, err := l.store.TakePayment(row, 0, p.NowUs()+decisionUs, p.NowUs()); err != nil || !ok {
		return fail(errors.Join(err, ErrPaymentBusy))
	}
	if credit {
		err = l.resolveCredit(row, "credited by "+by+": "+reason)
	} else {
		row.State, row.EndedUs, row.LeaseUs = store.PaymentDead, p.NowUs(), 0
		row.Code, row.Reason, row.Resolved = "PAYMENT_VERIFICATION_FAILED", "dropped", "dropped by "+by+": "+reason
		var ok bool
		if ok, err = l.store.UpdatePayment(row); err == nil && !ok {
			err = ErrPaymentBusy
		}
	}
	if err != nil {
		return fail(err)
	}
	return l.PaymentOf(id)
}

// decisionUs is how long nobody else is at a payment that an operator decides.
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

func (l *Ledger) resolveCredit(row *store.PaymentRow, resolved string) error {
	after, applied, err := l.Payments().CreditPayment(&store.PaymentCredit{ID: row.ID, Epoch: row.Epoch,
		Transaction: row.Transaction, Final: true, Resolved: resolved})
	if err == nil && !applied && after.Resolved != resolved {
		err = ErrDecided
	}
	return err
}

func (l *Ledger) paymentInfo(r *store.PaymentRow, names map[uint32]string) (PaymentInfo, error) {
	if r.Account != 0 && names[r.Account] == "" {
		a, err := l.store.Account(r.Account, l.Today())
		if err != nil {
			return PaymentInfo{}, err
		}
		names[r.Account] = a.Name
	}
	info := PaymentInfo{ID: r.ID, Network: r.Network, Asset: r.Asset, Wallet: r.Wallet, AccountName: names[r.Account],
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

// WalletList lists the wallets that spend here, those that came last first.
func (l *Ledger) WalletList(most int) ([]WalletInfo, error) {
	if most < 1 || most > mostPayments {
		return nil, fmt.Errorf("cannot list %d wallets: expected 1 to %d", most, mostPayments)
	}
	keys, err := l.store.WalletKeys(most)
	if err != nil {
		return nil, fmt.Errorf("cannot list the wallets: %w", err)
	}
	list := make([]WalletInfo, len(keys))
	for i, k := range keys {
		if list[i], err = l.walletInfo(store.WalletOfKey(k), k.Account); err != nil {
			return nil, fmt.Errorf("cannot list the wallets: %w", err)
		}
	}
	return list, nil
}

// WalletOf gives a wallet with its account.
func (l *Ledger) WalletOf(address string) (WalletInfo, error) {
	row, err := l.walletRow(address)
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoAccount
	}
	var info WalletInfo
	if err == nil {
		info, err = l.walletInfo(address, row.No)
	}
	if err != nil {
		return WalletInfo{}, fmt.Errorf("cannot find the wallet %s: %w", address, err)
	}
	return info, nil
}

func (l *Ledger) walletInfo(address string, account uint32) (WalletInfo, error) {
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
