package billing

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"farebox/billing/money"
	"farebox/billing/store"
)

// Mistakes of an operator that a caller may want to tell apart.
var (
	ErrNoAccount = errors.New("there is no such account")
	ErrNoKey     = errors.New("there is no such key")
	ErrNameTaken = errors.New("there is an account of this name")
)

// CreateAccount makes an account without money.
func (l *Ledger) CreateAccount(name string) (Account, error) {
	l.operating.Lock()
	defer l.operating.Unlock()
	if err := checkName(name); err != nil {
		return Account{}, err
	}
	row := &store.AccountRow{ID: newUUID(), Name: name, CreatedUs: l.now() / 1000}
	switch err := l.store.AddAccount(row); {
	case errors.Is(err, store.ErrExists):
		return Account{}, fmt.Errorf("cannot create the account %q: %w", name, ErrNameTaken)
	case err != nil:
		return Account{}, fmt.Errorf("cannot create the account %q: %w", name, err)
	}
	return Account{ID: row.ID, Name: name}, nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxName || strings.TrimSpace(name) != name {
		return fmt.Errorf("cannot use the account name %q: expected 1 to %d bytes without space around", name, maxName)
	}
	return checkText("account name", name)
}

// checkText keeps control characters out of what is printed to terminals.
func checkText(what, text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) || strings.ToValidUTF8(text, "") != text {
		return fmt.Errorf("cannot use the %s %q: control characters are not allowed", what, text)
	}
	return nil
}

// Accounts lists all accounts with their money as it is now.
func (l *Ledger) Accounts() ([]AccountInfo, error) {
	rows, err := l.store.Accounts(l.Today())
	if err != nil {
		return nil, fmt.Errorf("cannot list the accounts: %w", err)
	}
	list := make([]AccountInfo, len(rows))
	for i, row := range rows {
		list[i] = l.describe(row)
	}
	return list, nil
}

// describe prefers memory: the store is behind by up to a projection. Of a
// shared store no process has the whole in memory.
func (l *Ledger) describe(row *store.AccountRow) AccountInfo {
	avail, spent, held, debt := row.Avail, row.Spent, Nano(0), row.Debt
	if _, shared := l.store.(store.Shared); !shared {
		if a := l.loaded(row.No); a != nil {
			a.mu.Lock()
			a.roll(l.Today())
			avail, held, spent, debt = a.avail, a.held.Total()+a.stale, a.spent, a.debt
			a.mu.Unlock()
		}
	}
	return AccountInfo{
		Account: Account{ID: row.ID, Name: row.Name}, CreatedAt: fromMicro(row.CreatedUs),
		Allowance: row.DIEMDaily, USD: avail[money.InUSD], DIEM: avail[money.InDIEM], Bundled: avail[money.InBundled],
		Leased: Leased{row.Leased[money.InUSD], row.Leased[money.InDIEM], row.Leased[money.InBundled]}, Held: held,
		Spent: spent.Total() - row.Refunded, Debt: debt, Status: row.Status, StatusAt: fromMicro(row.StatusUs),
	}
}

// Credit adds money to an account.
func (l *Ledger) Credit(account string, currency Currency, amount Nano, ref, memo string) (balance Nano, applied bool,
	err error) {
	if ref == "" {
		ref = "credit-" + rand.Text()
	}
	return l.credit(&store.Credit{Currency: currency, Amount: amount, Ref: ref, Memo: memo}, account)
}

func (l *Ledger) credit(c *store.Credit, account string) (balance Nano, applied bool, err error) {
	l.operating.Lock()
	defer l.operating.Unlock()
	currency, amount := c.Currency, c.Amount
	if amount <= 0 || amount > money.MaxCredit {
		return 0, false, fmt.Errorf("cannot credit %s %s: expected more than 0 and at most %s", amount, currency,
			money.MaxCredit)
	}
	if _, err := ParseCurrency(currency.String()); err != nil {
		return 0, false, err
	}
	if len(c.Ref) > maxMemo || len(c.Memo) > maxMemo {
		return 0, false, fmt.Errorf("cannot credit: reference and memo may have at most %d bytes", maxMemo)
	}
	if err := errors.Join(checkText("reference", c.Ref), checkText("memo", c.Memo)); err != nil {
		return 0, false, err
	}
	a, err := l.findAccount(account)
	if err != nil {
		return 0, false, err
	}
	if l.statusOf(a) == store.AccountClosed && !c.Refund {
		return 0, false, fmt.Errorf("cannot credit the account %q: %w", account, ErrClosed)
	}
	place := money.PlaceOf(currency)
	a.mu.Lock()
	a.roll(l.Today())
	day, room := a.day, money.MaxCredit-a.balance()-a.spent.Total()-a.stale
	a.mu.Unlock()
	if amount > room {
		return 0, false, fmt.Errorf("cannot credit %s %s: the account would have had more than %s", amount, currency,
			money.MaxCredit)
	}
	c.Account, c.Day, c.NowUs = a.no, day, l.now()/1000
	if c.Refund {
		if c.Charge, err = l.chargeNamed(a, c.Ref); err != nil {
			return 0, false, fmt.Errorf("cannot look for the request of the refund: %w", err)
		}
	}
	applied, err = l.store.Credit(c)
	if err != nil {
		return 0, false, fmt.Errorf("cannot credit the account %q: %w", account, err)
	}
	if a.lease != nil {
		l.node.see(a)
		a.mu.Lock()
		defer a.mu.Unlock()
		p := a.elsewhere()
		return a.avail[place] + a.held[place] + p[place], applied, nil
	}
	if l.journal == nil {
		// Nothing is kept in memory beside nodes; the store has paid what was owed.
		row, err := l.store.Account(a.no, day)
		if err != nil {
			return 0, applied, fmt.Errorf("the credit is booked, but the balance cannot be read: %w", err)
		}
		return row.Avail[place] + row.Leased[place], applied, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	// DIEM that midnight overtook on their way are gone, here as in the store.
	if applied && (currency != DIEM || a.day == day) {
		a.avail[place] += amount
		if a.owes() {
			a.pay(l.at())
		}
	}
	return a.avail[place] + a.held[place], applied, nil
}

// findAccount gives an account by id or name, in memory.
func (l *Ledger) findAccount(nameOrID string) (*AccountState, error) {
	row, err := l.store.FindAccount(nameOrID, l.Today())
	if errors.Is(err, store.ErrNoRow) {
		return nil, fmt.Errorf("cannot find the account %q: %w", nameOrID, ErrNoAccount)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the account %q: %w", nameOrID, err)
	}
	return l.account(row.No)
}

// CreateKey makes a key. It is valid when CreateKey returns.
func (l *Ledger) CreateKey(n NewKey) (KeyInfo, string, error) {
	l.operating.Lock()
	defer l.operating.Unlock()
	return l.createKey(n, 0)
}

// createKey makes at most perMinute keys of an account a minute; 0: any number.
func (l *Ledger) createKey(n NewKey, perMinute int) (KeyInfo, string, error) {
	if n.Privacy == 0 {
		n.Privacy = store.AnyModel
	}
	if n.Period == 0 {
		n.Period = store.Epoch
	}
	if err := errors.Join(n.check(), checkText("description", n.Description)); err != nil {
		return KeyInfo{}, "", err
	}
	now := l.clock()
	if !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now) {
		return KeyInfo{}, "", fmt.Errorf("cannot create a key that expired at %s", n.ExpiresAt.Format(time.RFC3339))
	}
	a, err := l.findAccount(n.Account)
	if err != nil {
		return KeyInfo{}, "", err
	}
	if err := refusal(l.statusOf(a)); err != nil {
		return KeyInfo{}, "", fmt.Errorf("cannot create a key: %w", err)
	}
	if err := l.mayMakeKey(a, perMinute); err != nil {
		return KeyInfo{}, "", err
	}
	secret := newSecret(l.brand, n.Type)
	row := &store.KeyRow{
		ID: newUUID(), Account: a.no, AccountID: a.ID, AccountName: a.Name, Type: n.Type,
		Digest: l.hasher.digest([]byte(secret)), Last6: secret[len(secret)-6:], Description: n.Description,
		Period:   n.Period,
		LimitUSD: n.LimitUSD, LimitDIEM: n.LimitDIEM, LimitTextUSD: n.TextUSD, LimitTextDIEM: n.TextDIEM,
		Privacy: n.Privacy, CreatedUs: now.UnixMicro(), ExpiresUs: toMicro(n.ExpiresAt),
	}
	if err := l.store.AddKey(row, store.MaxActiveKeys); err != nil {
		return KeyInfo{}, "", fmt.Errorf("cannot create a key for the account %q: %w", n.Account, err)
	}
	l.registry.strangers.announce(row.Digest)
	return keyInfo(row), secret, nil
}

func keyInfo(r *store.KeyRow) KeyInfo {
	return KeyInfo{
		ID: r.ID, AccountID: r.AccountID, AccountName: r.AccountName, Type: r.Type, Last6: r.Last6,
		Description: r.Description,
		Period:      r.Period, LimitUSD: r.LimitUSD, LimitDIEM: r.LimitDIEM, TextUSD: r.LimitTextUSD,
		TextDIEM: r.LimitTextDIEM, Privacy: r.Privacy,
		CreatedAt: fromMicro(r.CreatedUs), ExpiresAt: fromMicro(r.ExpiresUs), RevokedAt: fromMicro(r.RevokedUs),
		LastUsedAt: fromMicro(r.LastUsedUs),
	}
}

// Keys lists the keys of an account, or of all, revoked ones included.
func (l *Ledger) Keys(account string) ([]KeyInfo, error) {
	no := uint32(0)
	if account != "" {
		row, err := l.store.FindAccount(account, l.Today())
		if errors.Is(err, store.ErrNoRow) {
			return nil, fmt.Errorf("cannot list the keys of %q: %w", account, ErrNoAccount)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list the keys of %q: %w", account, err)
		}
		no = row.No
	}
	rows, err := l.store.Keys(no)
	if err != nil {
		return nil, fmt.Errorf("cannot list the keys: %w", err)
	}
	if l.journal != nil {
		if err := l.project.catchUp(); err != nil {
			return nil, fmt.Errorf("cannot bring the use of keys up to date: %w", err)
		}
	}
	list := make([]KeyInfo, len(rows))
	read := map[uint32]map[store.Period]map[int64]store.KeySum{} // by account
	for i, row := range rows {
		if list[i] = keyInfo(row); row.LimitUSD == nil && row.LimitDIEM == nil {
			continue
		}
		if read[row.Account] == nil {
			read[row.Account] = map[store.Period]map[int64]store.KeySum{}
		}
		used, err := l.periodUse(row, l.Today(), read[row.Account])
		if err != nil {
			return nil, fmt.Errorf("cannot add up the usage of key %s: %w", row.ID, err)
		}
		list[i].Used = &used
	}
	return list, nil
}

// RevokeKey makes a key invalid, for good. When it returns, the key is refused;
// requests that were admitted before run on.
func (l *Ledger) RevokeKey(id string) error {
	l.operating.Lock()
	defer l.operating.Unlock()
	row, err := l.store.KeyByID(id)
	if errors.Is(err, store.ErrNoRow) {
		return fmt.Errorf("cannot revoke the key %q: %w", id, ErrNoKey)
	}
	if err == nil && row.Type == store.Wallet {
		return fmt.Errorf("cannot revoke the key %q: %w", id, ErrWalletKey)
	}
	if err == nil {
		err = l.store.RevokeKey(row.No, l.now()/1000)
	}
	if err != nil {
		return fmt.Errorf("cannot revoke the key %q: %w", id, err)
	}
	// A lookup that read the row before it was revoked finds that keys have
	// changed, and reads it again.
	r := l.registry
	r.mu.Lock()
	k := r.byNo[row.No]
	if k == nil {
		r.changed()
	}
	r.mu.Unlock()
	if k != nil {
		l.forgetKey(k)
	}
	return nil
}
