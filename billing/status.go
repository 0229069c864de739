package billing

import (
	"errors"
	"fmt"
)

// AccountStatus says whether an account may be used. The numbers are stored.
type AccountStatus uint8

// An account is open until an operator suspends it, which can be undone, or
// closes it, which cannot. Either way its keys are refused, with the reason, from
// the next request on; requests that were admitted before run on. Its money,
// its books and its keys' records stay.
const (
	AccountOpen AccountStatus = iota
	AccountSuspended
	AccountClosed
)

var statusNames = [...]string{"open", "suspended", "closed"}

func (s AccountStatus) String() string { return statusNames[min(int(s), len(statusNames)-1)] }

// MarshalText writes the status in words.
func (s AccountStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *AccountStatus) UnmarshalText(b []byte) error {
	for i, name := range statusNames {
		if string(b) == name {
			*s = AccountStatus(i)
			return nil
		}
	}
	return fmt.Errorf("cannot use the account status %q: expected open, suspended or closed", b)
}

// What keys of such accounts, and those who want to work with them, are told.
var (
	ErrSuspended = errors.New("the account is suspended")
	ErrClosed    = errors.New("the account is closed")
)

func (s AccountStatus) err() error {
	switch s {
	case AccountSuspended:
		return ErrSuspended
	case AccountClosed:
		return ErrClosed
	}
	return nil
}

// gateRevoked is the gate of a key that is refused for good. The others are the
// status of its account.
const gateRevoked = 255

// bar brings a status of its account to a key.
func (u *keyUse) bar(s AccountStatus) {
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
		return AccountStatus(g).err()
	}
	return nil
}

// setStatus brings a status into force in this process.
func (l *Ledger) setStatus(a *AccountState, s AccountStatus) {
	r := l.registry
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

// statusOf is the status of an account as this process knows it.
func (l *Ledger) statusOf(a *AccountState) AccountStatus {
	r := l.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	return a.status
}

// SetStatus suspends, resumes (AccountOpen) or closes an account. When it
// returns, it holds in this process, and within a second on all nodes.
func (l *Ledger) SetStatus(account string, s AccountStatus) (AccountInfo, error) {
	l.operating.Lock()
	defer l.operating.Unlock()
	a, err := l.findAccount(account)
	if err != nil {
		return AccountInfo{}, err
	}
	switch done, err := l.store.SetStatus(a.no, s, l.now()/1000); {
	case err != nil:
		return AccountInfo{}, fmt.Errorf("cannot change the status of the account %q: %w", account, err)
	case !done:
		return AccountInfo{}, fmt.Errorf("cannot change the status of the account %q: %w, for good; make a new one", account, ErrClosed)
	}
	l.setStatus(a, s)
	row, err := l.store.Account(a.no, l.Today())
	if err != nil {
		return AccountInfo{}, fmt.Errorf("the account %q is %s now, but cannot be read: %w", account, s, err)
	}
	return l.describe(row), nil
}

// SetStatus writes the status of an account; done is false for one that is
// closed, which stays so.
func (s *sqlStore) SetStatus(account uint32, status AccountStatus, nowUs int64) (done bool, err error) {
	err = s.write(func(t *tx) error {
		var now AccountStatus
		if err := t.row("SELECT status FROM account WHERE no = $1 {LOCK}", account).Scan(&now); err != nil {
			return noRow(err)
		}
		done = now == status || now != AccountClosed
		if now == status || !done {
			return nil
		}
		t.change(changeAccount, account, 0)
		_, err := t.exec("UPDATE account SET status = $2, status_us = $3 WHERE no = $1", account, int64(status), nowUs)
		return err
	})
	return done && err == nil, err
}
