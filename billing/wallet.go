package billing

import (
	"errors"
	"fmt"
	"time"

	"farebox/billing/store"
)

// DeriveSecret makes a secret of 32 bytes for a purpose out of the pepper: the
// same on all nodes that share a store and after every restart.
func (l *Ledger) DeriveSecret(purpose string) []byte {
	d := l.hasher.digest([]byte("farebox secret for " + purpose))
	return d[:]
}

// UseToken records that a single-use token was used; fresh is false when it
// was before, on whichever node.
func (l *Ledger) UseToken(id string, expires time.Time) (fresh bool, err error) {
	fresh, err = l.store.UseToken(id, expires.UnixMicro(), l.now()/1000)
	if err != nil {
		return false, fmt.Errorf("cannot record the use of a token: %w", err)
	}
	return fresh, nil
}

// WalletAccount gives the account of a wallet, whose name is the address in
// lower case. With open it is made where there is none, else ErrNoAccount.
func (l *Ledger) WalletAccount(address string, open bool) (Account, error) {
	for {
		row, err := l.store.FindAccount(address, l.Today())
		switch {
		case err == nil && row.Name == address:
			return Account{ID: row.ID, Name: row.Name}, nil
		case err != nil && !errors.Is(err, store.ErrNoRow):
			return Account{}, fmt.Errorf("cannot find the account of wallet %s: %w", address, err)
		case !open:
			return Account{}, fmt.Errorf("cannot find the account of wallet %s: %w", address, ErrNoAccount)
		}
		a, err := l.CreateAccount(address)
		if !errors.Is(err, ErrNameTaken) {
			return a, err
		}
		open = false // another request of this wallet was faster
	}
}
