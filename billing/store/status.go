package store

import (
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

// SetStatus writes the status of an account; done is false for one that is
// closed, which stays so.
func (s *sqlStore) SetStatus(account uint32, status AccountStatus, nowUs int64) (done bool, err error) {
	err = s.write(func(t *tx) error {
		var now AccountStatus
		if err := t.Row("SELECT status FROM account WHERE no = $1 {LOCK}", account).Scan(&now); err != nil {
			return noRow(err)
		}
		done = now == status || now != AccountClosed
		if now == status || !done {
			return nil
		}
		t.change(ChangeAccount, account, 0)
		_, err := t.exec("UPDATE account SET status = $2, status_us = $3 WHERE no = $1", account, int64(status), nowUs)
		return err
	})
	return done && err == nil, err
}
