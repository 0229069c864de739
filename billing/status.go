package billing

import (
	"errors"
	"fmt"

	"farebox/billing/store"
)

// Errors of requests with keys of such accounts, and of operations on them.
var (
	ErrSuspended = errors.New("the account is suspended")
	ErrClosed    = errors.New("the account is closed")
)

// refusal is why keys of an account with a status are refused; nil: they are not.
func refusal(s store.AccountStatus) error {
	switch s {
	case store.AccountSuspended:
		return ErrSuspended
	case store.AccountClosed:
		return ErrClosed
	}
	return nil
}

// gateRevoked is the gate of a key that is refused for good. The others are the
// status of its account.
const gateRevoked = 255

// bar brings a status of its account to a key.
func (u *keyUse) bar(s store.AccountStatus) {
	for {
		now := u.gate.Load()
		if now == gateRevoked || now == uint32(s) || u.gate.CompareAndSwap(now, uint32(s)) {
			return
		}
	}
}

func (u *keyUse) revoked() bool { return u.gate.Load() == gateRevoked }

// barred is why a key that is not revoked is refused; nil: it is not.
func (u *keyUse) barred() error {
	if g := u.gate.Load(); g != gateRevoked {
		return refusal(store.AccountStatus(g))
	}
	return nil
}

// setStatus brings a status into force in this process.
func (a *AccountState) setStatus(s store.AccountStatus) {
	r := a.ledger.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.status == s {
		return
	}
	a.status = s
	for _, k := range r.byNo {
		if k.Account == a {
			k.use.bar(s)
		}
	}
}

// knownStatus is the status of an account as this process knows it.
func (a *AccountState) knownStatus() store.AccountStatus {
	r := a.ledger.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	return a.status
}

// SuspendAccount refuses the keys of an account until it is resumed. When it returns, that
// holds in this process, and within a second on all nodes. So do the next two.
type SuspendAccount struct {
	Account string `json:"account"` // id or name
}

// ResumeAccount ends a suspension.
type ResumeAccount struct {
	Account string `json:"account"`
}

// CloseAccount closes an account for good. One with a balance or debt is closed only with
// WithBalance: its money stays in the books.
type CloseAccount struct {
	Account     string `json:"account"`
	WithBalance bool   `json:"with_balance,omitempty"`
}

func (s SuspendAccount) carryOut(l *Ledger, c *call) (AccountInfo, error) {
	return l.changeStatus(c, s.Account, store.AccountSuspended, true)
}

func (r ResumeAccount) carryOut(l *Ledger, c *call) (AccountInfo, error) {
	return l.changeStatus(c, r.Account, store.AccountOpen, true)
}

// ErrBalance is an account with money or debt that is to be closed.
var ErrBalance = errors.New("the account has a balance or debt")

func (ca CloseAccount) carryOut(l *Ledger, c *call) (AccountInfo, error) {
	return l.changeStatus(c, ca.Account, store.AccountClosed, ca.WithBalance)
}

// changeStatus changes the status of an account; one with money or debt only with balance.
func (l *Ledger) changeStatus(c *call, account string, status store.AccountStatus, balance bool) (AccountInfo, error) {
	a, err := l.findAccount(account)
	if err != nil {
		return AccountInfo{}, err
	}
	c.account(l, a)
	if before := c.entry.BeforeFunc; !balance {
		c.entry.BeforeFunc = func(q *store.Query) (string, error) {
			row, err := q.Account(a.no, l.Today())
			if err != nil {
				return "", err
			}
			for _, info := range []AccountInfo{storedInfo(row), l.describe(row)} {
				if info.Amounts.Total()+info.Leased.Total()+info.Held+info.Debt != 0 {
					return "", ErrBalance
				}
			}
			return before(q)
		}
	}
	c.entry.AnswerFunc = c.entry.AfterFunc
	switch done, err := c.store.SetStatus(a.no, status, l.now()/1000); {
	case err != nil:
		return AccountInfo{}, fmt.Errorf("cannot change the status of the account %q: %w", account, err)
	case !done:
		return AccountInfo{}, fmt.Errorf("cannot change the status of the account %q: %w, for good; make a new one",
			account, ErrClosed)
	}
	a.setStatus(status)
	row, err := l.store.Account(a.no, l.Today())
	if err != nil {
		return AccountInfo{}, fmt.Errorf("the account %q is %s now, but cannot be read: %w", account, status, err)
	}
	return l.describe(row), nil
}
