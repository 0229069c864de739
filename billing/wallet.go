package billing

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"farebox/billing/store"
	"farebox/config/fair"
)

// A wallet is an account that has its address for a name, as wallet.Address writes it.
// It spends with a key like everybody ([Wallets.Key]), which has no secret: its
// digest is of the address, under a key that no secret is hashed with. A link sends the
// credit and the spending of a wallet to another account; the rest of its own account
// then stays there, until the link ends.

// Mistakes about wallets that a caller may want to tell apart.
var (
	ErrLinked    = errors.New("the wallet is linked to an account")
	ErrNotLinked = errors.New("the wallet is linked to no account")
	ErrFunds     = errors.New("the wallet has money or debt of its own")
	ErrWalletKey = errors.New("it is the key that a wallet signs in with: suspend its account, or unlink the wallet")
)

// walletRest bounds the own account of a wallet when it is linked: less than
// a request needs by default (x402.min_balance), so that it could not be spent anyway.
const walletRest = Nano(100_000_000)

// WalletLink is a wallet that is linked to an account.
type WalletLink struct {
	Address   string    `json:"wallet"`
	AccountID string    `json:"account_id"`
	Account   string    `json:"account"`
	Since     time.Time `json:"since"`
	By        string    `json:"by"`
}

// DeriveSecret makes a secret of 32 bytes for a purpose out of the pepper: the
// same on all nodes that share a store and after every restart.
func (l *Ledger) DeriveSecret(purpose string) []byte {
	d := l.hasher.digest([]byte("farebox secret for " + purpose))
	return d[:]
}

// UseToken records that a single-use token was used; fresh is false when it
// was before, on whichever node. ErrManyTokens says that o has used its share of
// those that are remembered.
func (l *Ledger) UseToken(o fair.Owner, id string, expires time.Time) (fresh bool, err error) {
	if !l.tokens.take(o, expires, l.now()) {
		return false, ErrManyTokens
	}
	fresh, err = l.store.UseToken(id, expires.UnixMicro(), l.now()/1000)
	if err != nil {
		return false, fmt.Errorf("cannot record the use of a token: %w", err)
	}
	return fresh, nil
}

// Wallets is the part of a ledger for wallets: their accounts, keys and links.
type Wallets struct{ *Ledger }

// Wallets are the accounts, keys and links of wallets.
func (l *Ledger) Wallets() Wallets { return Wallets{l} }

// WalletAccount gives the account of a wallet: the one that it is linked to, or else its
// own, whose name is the address. With open a missing one is made, else the
// error is ErrNoAccount.
func (ac Accounts) WalletAccount(address string, open bool) (Account, error) {
	for {
		row, err := ac.Wallets().row(address)
		switch {
		case err == nil:
			return Account{ID: row.ID, Name: row.Name}, nil
		case !errors.Is(err, store.ErrNoRow):
			return Account{}, fmt.Errorf("cannot find the account of wallet %s: %w", address, err)
		case !open:
			return Account{}, fmt.Errorf("cannot find the account of wallet %s: %w", address, ErrNoAccount)
		}
		a, err := ac.createAccount(address)
		if !errors.Is(err, ErrNameTaken) {
			return a, err
		}
		open = false // another request of this wallet was faster
	}
}

// createAccount makes an account for its owner.
func (ac Accounts) createAccount(name string) (Account, error) {
	ac.operating.Lock()
	defer ac.operating.Unlock()
	row, err := ac.newAccount(CreateAccount{Name: name})
	if err == nil {
		err = ac.addAccount(ac.store, row)
	}
	return Account{ID: row.ID, Name: name}, err
}

// row is the account of a wallet, or ErrNoRow.
func (l Wallets) row(address string) (*store.AccountRow, error) {
	w, err := l.store.WalletLink(address)
	switch {
	case err == nil:
		return l.store.Account(w.Account, l.Today())
	case !errors.Is(err, store.ErrNoRow):
		return nil, err
	}
	row, err := l.store.FindAccount(address, l.Today())
	if err == nil && row.Name != address {
		err = store.ErrNoRow
	}
	return row, err
}

// WalletState gives the account of a wallet as it is in memory, whatever its status, for
// reports, or ErrNoAccount.
func (ac Accounts) WalletState(address string) (*AccountState, error) {
	row, err := ac.Wallets().row(address)
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoAccount
	}
	var a *AccountState
	if err == nil {
		a, err = ac.account(row.No)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the account of wallet %s: %w", address, err)
	}
	return a, nil
}

// Key finds the live key that a wallet spends with, as LookupFrom finds the key of a secret:
// in memory, except for its first use, for which the client at from waits its turn.
// ErrUnknownKey is a wallet that was never credited and never linked; ErrSuspended and
// ErrClosed are of its account.
func (l Wallets) Key(from netip.Addr, address string) (*Key, error) {
	d := l.wallets.digest([]byte(address))
	k := l.registry.get(&d)
	if k == nil {
		var err error
		if k, err = l.loadKey(from, &d); err != nil {
			return nil, err
		}
	}
	if err := l.usable(k); err != nil {
		return nil, err
	}
	return k, nil
}

// keyRow is the key of a wallet as it is made.
func (l Wallets) keyRow(address string, account uint32) *store.KeyRow {
	return &store.KeyRow{ID: newUUID(), Account: account, Type: store.Wallet, Digest: l.wallets.digest([]byte(address)),
		Last6: address[max(0, len(address)-6):], Description: store.WalletKeyName(address), Period: store.Epoch,
		Privacy: store.AnyModel, CreatedUs: l.now() / 1000}
}

// expectKey makes a key that was just written known here at once: a request may
// have asked for it before.
func (l Wallets) expectKey(key *store.KeyRow) {
	r := l.registry
	r.reads.announce(key.Digest)
	r.mu.Lock()
	r.changed()
	r.mu.Unlock()
}

// LinkWallet links a wallet to an account, for its owner.
func (ac Accounts) LinkWallet(address, account, by string) (WalletLink, error) {
	act := Act{By: Actor{Name: by, Role: MayOwn, From: "wallet"}}
	return perform(ac.Ledger, &call{Act: act, ctx: context.Background()}, LinkWallet{address, account, by})
}

// LinkWallet sends the credit of a wallet to an account from now on, and its sign-ins
// spend that account. A wallet that has money or debt of its own is refused, with
// ErrFunds; less than ten cents stay in its own account. On other nodes it holds within
// a second.
type LinkWallet struct {
	Address string `json:"address"`
	Account string `json:"account"`
	By      string `json:"by,omitempty"`
}

func (lw LinkWallet) carryOut(l *Ledger, c *call) (WalletLink, error) {
	address, account, by := lw.Address, lw.Account, c.by(lw.By)
	fail := func(err error) (WalletLink, error) {
		return WalletLink{}, fmt.Errorf("cannot link the wallet %s to the account %q: %w", address, account, err)
	}
	if err := errors.Join(checkName(address), checkText("maker of the link", by)); err != nil {
		return fail(err)
	}
	if len(by) > maxMemo {
		return fail(fmt.Errorf("the maker of the link may have at most %d bytes", maxMemo))
	}
	a, err := l.findAccount(account)
	switch {
	case err != nil:
		return fail(err)
	case a.Name() == address:
		return fail(errors.New("it is the wallet's own"))
	case a.knownStatus() == store.AccountClosed:
		return fail(ErrClosed)
	}
	if l.journal != nil {
		// The spending of its own account must be in the store.
		if err := l.project.catchUp(); err != nil {
			return fail(err)
		}
	}
	row := &store.WalletLink{Address: address, Account: a.no, Name: a.Name(), SinceUs: l.now() / 1000, By: by}
	key := l.Wallets().keyRow(address, a.no)
	made := WalletLink{Address: address, AccountID: a.ID, Account: a.Name(), Since: fromMicro(row.SinceUs), By: by}
	c.entry.Account, c.entry.Subject = a.no, address
	c.answers(fixed(made))
	retired, err := c.store.LinkWallet(row, key, walletRest)
	var funds *store.FundsError
	switch {
	case errors.As(err, &funds):
		return fail(fmt.Errorf("%w: %w; let it spend that first, or move it with farebox account debit and credit",
			ErrFunds, funds))
	case errors.Is(err, store.ErrExists):
		return fail(ErrLinked)
	case err != nil:
		return fail(err)
	}
	l.Wallets().changeKey(retired, key)
	return made, nil
}

// UnlinkWallet ends the link of a wallet: its credit goes to its own account again. Earlier
// credit stays where it is.
type UnlinkWallet struct {
	Address string `json:"address"`
}

func (u UnlinkWallet) carryOut(l *Ledger, c *call) (Nothing, error) {
	key := l.Wallets().keyRow(u.Address, 0)
	c.entry.Subject = u.Address
	c.answers(fixed(Nothing{}))
	retired, err := c.store.UnlinkWallet(u.Address, key)
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNotLinked
	}
	if err != nil {
		return Nothing{}, fmt.Errorf("cannot unlink the wallet %s: %w", u.Address, err)
	}
	l.Wallets().changeKey(retired, key)
	return Nothing{}, nil
}

// changeKey brings into force that a wallet has another key.
func (l Wallets) changeKey(retired int64, key *store.KeyRow) {
	if k := l.registry.byNumber(retired); k != nil {
		k.outdated.Store(true)
		l.forgetKey(k)
	}
	l.expectKey(key)
}

// ErrManyTokens is a single-use token of an owner that has its share of those that are
// remembered.
var ErrManyTokens = errors.New("too many single-use tokens were used that have not expired")

// tokenRoom bounds the used tokens that the store remembers until they expire. A sign-in
// is recorded before its request is admitted, so that without a bound a wallet without
// money could fill the store. Each node counts its own, of this process.
type tokenRoom struct {
	room *fair.Space

	mu   sync.Mutex
	held map[int64]map[fair.Owner]int64 // by the minute after which they have expired
}

// mostTokens is how many are remembered, of 100 bytes each.
const mostTokens = 1 << 20

func newTokenRoom(most int64) *tokenRoom {
	return &tokenRoom{room: fair.NewRoom(most), held: map[int64]map[fair.Owner]int64{}}
}

// take counts a token of an owner until it expires, or says that it has its share.
func (t *tokenRoom) take(o fair.Owner, expires time.Time, nowNs int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for minute, owners := range t.held {
		if minute*int64(time.Minute) > nowNs {
			continue
		}
		delete(t.held, minute)
		for o, n := range owners {
			t.room.Give(o, n)
		}
	}
	if !t.room.Take(o, 1) {
		return false
	}
	minute := max(expires.UnixNano(), nowNs)/int64(time.Minute) + 1
	if t.held[minute] == nil {
		t.held[minute] = map[fair.Owner]int64{}
	}
	t.held[minute][o]++
	return true
}
