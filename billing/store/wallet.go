package store

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"farebox/billing/money"
)

// WalletLink has the credit and the spending of a wallet go to another account than its
// own, which is the one that has its address for a name.
type WalletLink struct {
	Address string `db:"address"`
	Account uint32 `db:"account"`
	Name    string `db:"name" from:"a.name"` // of the account
	SinceUs int64  `db:"since_us"`
	By      string `db:"made_by"`
}

// WalletStore keeps whose the credit of wallets is.
type WalletStore interface {
	// WalletLink gives the link of a wallet, or ErrNoRow.
	WalletLink(address string) (*WalletLink, error)
	// WalletLinks lists links by address, after one.
	WalletLinks(after string, most int) ([]*WalletLink, error)
	// LinkWallet links a wallet that has no link, and gives it a key of the other account
	// in the place of its own. A wallet whose own account has more than rest, or owes
	// something, is refused with FundsError, one that is linked with ErrExists. retired is
	// the number of the key that it had before, 0: none.
	LinkWallet(w *WalletLink, key *KeyRow, rest money.Nano) (retired int64, err error)
	// UnlinkWallet ends a link, or gives ErrNoRow. Where the wallet has an account of its
	// own, key becomes one of that.
	UnlinkWallet(address string, key *KeyRow) (retired int64, err error)
	// WalletKeys gives the live keys of wallets, those that were made last first; before: with smaller
	// numbers. next is where the list continues; nil: at its end.
	WalletKeys(before int64, most int) (rows []*KeyRow, next *KeyRow, err error)
	// AddWalletKey makes the key of a wallet, unless there is one with its digest.
	AddWalletKey(key *KeyRow) error
}

// FundsError is a wallet that has money of its own, or owes some.
type FundsError struct{ Has, Owes money.Nano }

func (e *FundsError) Error() string { return fmt.Sprintf("it has %s and owes %s", e.Has, e.Owes) }

var (
	walletLinks   = newTable[WalletLink]("wallet_link w JOIN account a ON a.no = w.account")
	addWalletLink = walletLinks.statement("INSERT INTO wallet_link{INSERT}")
)

func (s *sqlStore) WalletLink(address string) (*WalletLink, error) {
	return walletLinks.find(s, "w.address = $1", address)
}

func (s *sqlStore) WalletLinks(after string, most int) ([]*WalletLink, error) {
	return walletLinks.list(s, "w.address > $1 ORDER BY w.address LIMIT $2", after, most)
}

// walletHas says that an account is that of a wallet: the one that it is linked to, or
// else its own. ErrStale: it is another one.
func (t *tx) walletHas(address string, account uint32) error {
	var linked uint32
	err := t.Row("SELECT account FROM wallet_link WHERE address = $1", address).Scan(&linked)
	if errors.Is(err, sql.ErrNoRows) {
		err = t.Row("SELECT no FROM account WHERE name = $1", address).Scan(&linked)
	}
	if err != nil {
		return noRow(err)
	}
	if linked != account {
		return ErrStale
	}
	return nil
}

// haveWalletKey makes the key of a wallet, unless it has one.
func (t *tx) haveWalletKey(key *KeyRow) error {
	if key.Type != Wallet {
		return fmt.Errorf("a key of type %s does not belong to a wallet", key.Type)
	}
	err := t.Row(addWalletKey.text, addWalletKey.args(key)...).Scan(&key.No)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	t.change(ChangeKey, key.Account, 0)
	return err
}

func (s *sqlStore) WalletKeys(before int64, most int) (rows []*KeyRow, next *KeyRow, err error) {
	l := listing[KeyRow]{text: keys.brief + "k.type = 3 AND k.revoked_us = 0 AND ", order: "k.no", down: true, scan: keys.scan,
		place: (*KeyRow).place}
	if before != 0 {
		l.behind = []any{before}
	}
	return l.readPage(s, most)
}

// WalletOfKey is the wallet that a key is of; empty for one of no wallet.
func WalletOfKey(key *KeyRow) string {
	if key.Type != Wallet {
		return ""
	}
	return strings.TrimPrefix(key.Description, walletKeyName)
}

func (s *sqlStore) AddWalletKey(key *KeyRow) error {
	return s.write(func(t *tx) error {
		if err := t.alonePayments(); err != nil {
			return err
		}
		if err := t.walletHas(WalletOfKey(key), key.Account); err != nil {
			return err
		}
		return t.haveWalletKey(key)
	})
}

// walletKeyName begins the description of a wallet's key; its address follows.
const walletKeyName = "Wallet "

// WalletKeyName is the description of the key of a wallet.
func WalletKeyName(address string) string { return walletKeyName + address }

// retireKey revokes the key of a wallet and frees its digest for another one.
func (t *tx) retireKey(digest Digest, nowUs int64) (number int64, err error) {
	var account uint32
	var id string
	err = t.Row("SELECT no, account, id FROM api_key WHERE secret_mac = $1 {LOCK}", digest[:]).Scan(&number, &account, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// No secret and no wallet has it: no client can choose its text.
	other := sha256.Sum256([]byte("retired key " + id))
	_, err = t.exec("UPDATE api_key SET revoked_us = $2, secret_mac = $3, version = version + 1 WHERE no = $1", number, nowUs,
		other[:])
	t.change(ChangeKey, account, number)
	return number, err
}

func (s *sqlStore) LinkWallet(w *WalletLink, key *KeyRow, rest money.Nano) (retired int64, err error) {
	tried := false
	err = s.write(func(t *tx) error {
		if err := t.alonePayments(); err != nil {
			return err
		}
		var account uint32
		var since int64
		err := t.Row("SELECT account, since_us FROM wallet_link WHERE address = $1", w.Address).Scan(&account, &since)
		switch {
		case err == nil && tried && account == w.Account && since == w.SinceUs:
			return nil // only the answer of the attempt before was lost
		case err == nil:
			return ErrExists
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if err := t.noFunds(w.Address, rest); err != nil {
			return err
		}
		tried = true
		if _, err := addWalletLink.exec(t, w); err != nil {
			return err
		}
		if retired, err = t.retireKey(key.Digest, w.SinceUs); err != nil {
			return err
		}
		return t.haveWalletKey(key)
	})
	return retired, err
}

// noFunds refuses a wallet whose own account has money or debt.
func (t *tx) noFunds(address string, rest money.Nano) error {
	var f FundsError
	err := t.Row(`SELECT CAST(coalesce((SELECT sum(avail + escrow) FROM bucket b WHERE b.account = a.no), 0) AS {I64}),
		coalesce((SELECT incurred - paid FROM debt d WHERE d.account = a.no), 0) FROM account a WHERE a.name = $1`,
		address).Scan(&f.Has, &f.Owes)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil && (f.Has > rest || f.Owes > 0) {
		return &f
	}
	return err
}

func (s *sqlStore) UnlinkWallet(address string, key *KeyRow) (retired int64, err error) {
	tried := false
	err = s.write(func(t *tx) error {
		if err := t.alonePayments(); err != nil {
			return err
		}
		switch n, err := t.affect("DELETE FROM wallet_link WHERE address = $1", address); {
		case err != nil:
			return err
		case n == 0 && tried:
			return nil
		case n == 0:
			return ErrNoRow
		}
		tried = true
		var err error
		if retired, err = t.retireKey(key.Digest, key.CreatedUs); err != nil {
			return err
		}
		err = t.Row("SELECT no FROM account WHERE name = $1", address).Scan(&key.Account)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return t.haveWalletKey(key)
	})
	return retired, err
}
