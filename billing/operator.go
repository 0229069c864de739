package billing

import (
	"crypto/rand"
	"encoding/hex"
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
	ErrExternal  = store.ErrExternalID
)

// CreateAccount makes an account without money.
type CreateAccount struct {
	Name string `json:"name"`
	Profile
}

func (ca CreateAccount) carryOut(l *Ledger, c *call) (Account, error) {
	row, err := l.newAccount(ca)
	if err != nil {
		return Account{}, err
	}
	account := Account{ID: row.ID, Name: ca.Name}
	c.entry.Subject = row.ID
	c.entry.AnswerFunc = jsonOf(fixed(account))
	c.entry.AfterFunc = jsonOf(func(*store.Query) (any, error) {
		c.entry.Account = row.No
		return profileInfo(row.Profile)
	})
	return account, l.addAccount(c.store, row)
}

// newAccount is the row of a new account.
func (l *Ledger) newAccount(q CreateAccount) (*store.AccountRow, error) {
	row := &store.AccountRow{ID: newUUID(), Name: q.Name, CreatedUs: l.now() / 1000}
	row.Profile = &store.ProfileRow{ID: row.ID, Name: q.Name, Version: 1}
	err := errors.Join(checkName(q.Name), q.Profile.check())
	if err == nil {
		err = q.Profile.fill(row.Profile)
	}
	return row, err
}

func (l *Ledger) addAccount(db store.Store, row *store.AccountRow) error {
	if err := db.AddAccount(row); err != nil {
		return fmt.Errorf("cannot create the account %q: %w", row.Name, taken(err))
	}
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxName || strings.TrimSpace(name) != name {
		return fmt.Errorf("cannot use the account name %q: expected 1 to %d bytes without space around", name, maxName)
	}
	return checkText("account name", name)
}

// checkText keeps control characters out of terminals.
func checkText(what, text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) || strings.ToValidUTF8(text, "") != text {
		return fmt.Errorf("cannot use the %s %q: control characters are not allowed", what, text)
	}
	return nil
}

// ListAccounts lists accounts with their money as it is now, in the order of their creation.
type ListAccounts struct {
	Page
	ExternalID string               `json:"external_id,omitempty"`
	Status     *store.AccountStatus `json:"status,omitempty"`
	From       time.Time            `json:"from,omitzero"` // of their creation
	To         time.Time            `json:"to,omitzero"`
}

func (la ListAccounts) carryOut(l *Ledger, _ *call) (list List[AccountInfo], err error) {
	f := store.AccountFilter{ExternalID: la.ExternalID, Status: la.Status, FromUs: toMicro(la.From), ToUs: toMicro(la.To)}
	var rows []*store.AccountRow
	var next *store.AccountRow
	if err = la.after(&f.Behind.CreatedUs, &f.Behind.No); err == nil {
		rows, next, err = l.store.AccountsOf(f, l.Today(), la.most())
	}
	if err != nil {
		return list, fmt.Errorf("cannot list the accounts: %w", err)
	}
	return page(rows, next, func(r *store.AccountRow) string { return cursorAt(r.CreatedUs, r.No) },
		func(rows []*store.AccountRow) (list []AccountInfo, err error) {
			for _, row := range rows {
				list = append(list, l.describe(row))
			}
			return list, nil
		})
}

// describe prefers memory: the store is behind by up to a projection. Of a
// shared store no process has the whole in memory.
func (l *Ledger) describe(row *store.AccountRow) AccountInfo {
	info := storedInfo(row)
	if _, shared := l.store.(store.Shared); shared {
		return info
	}
	if a := l.loaded(row.No); a != nil {
		a.mu.Lock()
		a.roll(l.Today())
		info.Amounts = a.avail.Amounts()
		info.Held, info.Spent, info.Debt = a.held.Total()+a.stale, a.spent.Total()-row.Refunded, a.debt
		a.mu.Unlock()
	}
	return info
}

// storedInfo is an account as the store has it.
func storedInfo(row *store.AccountRow) AccountInfo {
	return AccountInfo{
		Account: Account{ID: row.ID, Name: row.Name}, CreatedAt: fromMicro(row.CreatedUs), Allowance: row.DIEMDaily,
		Amounts: row.Avail.Amounts(), Leased: Leased{row.Leased.Amounts()},
		Spent: row.Spent.Total() - row.Refunded, Debt: row.Debt, Status: row.Status, StatusAt: fromMicro(row.StatusUs),
	}
}

// CreditAccount adds money, which first pays the account's debt. A ref that was used
// before for the same credit changes nothing; an empty ref is always a new credit. DIEM are
// for the current UTC day.
type CreditAccount struct {
	Account  string   `json:"account"` // id or name
	Currency Currency `json:"currency"`
	Amount   Nano     `json:"amount"`
	Ref      string   `json:"ref,omitempty"`
	Memo     string   `json:"memo,omitempty"`
}

// Credited is the result of a credit or refund.
type Credited struct {
	Balance Nano     `json:"balance"`
	Applied bool     `json:"applied"` // false: the ref was booked before
	Booking *Booking `json:"booking,omitempty"`
}

func (ca CreditAccount) carryOut(l *Ledger, c *call) (Credited, error) {
	if ca.Ref == "" {
		ca.Ref = "credit-" + rand.Text()
		if c.Key != "" {
			secret := c.secretOf(l)
			ca.Ref = "credit-" + hex.EncodeToString(secret[:16])
		}
	}
	return ca.book(l, c, false)
}

// RefundAccount gives back the cost of a request, in the currency in which it was charged
// (addendum 19). It is a credit that needs a ref, so that the same refund is given once; one
// that begins with the id of a request counts under the model and key of that request.
// Refunded DIEM are today's.
type RefundAccount CreditAccount

func (r RefundAccount) carryOut(l *Ledger, c *call) (Credited, error) {
	if r.Ref == "" {
		return Credited{}, errors.New(
			"cannot refund without a reference: name the request or the case, so that it is refunded once")
	}
	return CreditAccount(r).book(l, c, true)
}

func (ca CreditAccount) book(l *Ledger, on *call, refund bool) (done Credited, err error) {
	if ca.Amount <= 0 || ca.Amount > money.MaxCredit {
		return done, fmt.Errorf("cannot credit %s %s: expected more than 0 and at most %s", ca.Amount, ca.Currency,
			money.MaxCredit)
	}
	if _, err := ParseCurrency(ca.Currency.String()); err != nil {
		return done, err
	}
	if len(ca.Ref) > maxMemo || len(ca.Memo) > maxMemo {
		return done, fmt.Errorf("cannot credit: reference and memo may have at most %d bytes", maxMemo)
	}
	if err := errors.Join(checkRef(ca.Ref), checkText("memo", ca.Memo)); err != nil {
		return done, err
	}
	a, err := l.findAccount(ca.Account)
	if err != nil {
		return done, err
	}
	if a.knownStatus() == store.AccountClosed && !refund {
		return done, fmt.Errorf("cannot credit the account %q: %w", ca.Account, ErrClosed)
	}
	day, room := a.roomForCredit()
	if ca.Amount > room {
		return done, fmt.Errorf("cannot credit %s %s: the account would have had more than %s", ca.Amount, ca.Currency,
			money.MaxCredit)
	}
	c := &store.Credit{Account: a.no, Currency: ca.Currency, Day: day, Amount: ca.Amount, Ref: ca.Ref, Memo: ca.Memo,
		Refund: refund, NowUs: l.now() / 1000}
	if refund {
		if c.Charge, err = a.chargeNamed(ca.Ref); err != nil {
			return done, fmt.Errorf("cannot look for the request of the refund: %w", err)
		}
	}
	on.account(l, a)
	on.entry.AnswerFunc = jsonOf(func(*store.Query) (any, error) {
		return Credited{Balance: c.Booked.Balance, Applied: true, Booking: bookingOf(c.Booked, a.Name())}, nil
	})
	if done.Applied, err = on.store.Credit(c); err != nil {
		return Credited{}, fmt.Errorf("cannot credit the account %q: %w", ca.Account, l.refTaken(err))
	}
	done.Booking = bookingOf(c.Booked, a.Name())
	place := money.PlaceOf(ca.Currency)
	switch {
	case a.lease != nil:
		l.node.see(a)
		a.mu.Lock()
		defer a.mu.Unlock()
		p := a.elsewhere()
		done.Balance = a.avail[place] + a.held[place] + p[place]
	case l.journal == nil:
		// An operator's process on a shared store keeps nothing in memory; the store has paid the debt.
		row, err := l.store.Account(a.no, day)
		if err != nil {
			return done, fmt.Errorf("the credit is booked, but the balance cannot be read: %w", err)
		}
		done.Balance = row.Avail[place] + row.Leased[place]
	default:
		a.mu.Lock()
		defer a.mu.Unlock()
		// DIEM that midnight overtook on their way are gone, here as in the store.
		if done.Applied && (ca.Currency != DIEM || a.day == day) {
			a.avail[place] += ca.Amount
			if a.owes() {
				a.pay(l.at())
			}
		}
		done.Balance = a.avail[place] + a.held[place]
	}
	return done, nil
}

// roomForCredit is the most that can be credited to an account, and the day of its DIEM.
func (a *AccountState) roomForCredit() (day int32, room Nano) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roll(a.ledger.Today())
	return a.day, money.MaxCredit - a.balance() - a.spent.Total() - a.stale
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

// accountNames are the names of accounts by number, each read once for a list.
type accountNames map[uint32]string

// of is the name of an account; that of account 0 is empty.
func (n accountNames) of(l *Ledger, number uint32) (string, error) {
	if number != 0 && n[number] == "" {
		row, err := l.store.Account(number, l.Today())
		if err != nil {
			return "", err
		}
		n[number] = row.Name
	}
	return n[number], nil
}

// describeAll describes the rows of a list to an operator.
func describeAll[R, I any](l *Ledger, rows []*R, describe func(*Ledger, *R, accountNames) (I, error)) (list []I,
	err error) {
	names := accountNames{}
	list = make([]I, len(rows))
	for i, row := range rows {
		if list[i], err = describe(l, row, names); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// accountNo is the number of an account, by id or name; 0 for "", which is all accounts.
func (l *Ledger) accountNo(nameOrID string) (uint32, error) {
	if nameOrID == "" {
		return 0, nil
	}
	row, err := l.store.FindAccount(nameOrID, l.Today())
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoAccount
	}
	if err != nil {
		return 0, err
	}
	return row.No, nil
}

// CreateKey makes a key, which is valid at once.
type CreateKey struct{ NewKey }

// CreatedKey is a new key. Its secret is never shown again.
type CreatedKey struct {
	Info   KeyInfo `json:"info"`
	Secret string  `json:"secret,omitempty"`
}

func (ck CreateKey) carryOut(l *Ledger, c *call) (k CreatedKey, err error) {
	k.Info, k.Secret, err = l.Accounts().createKey(ck.NewKey, 0, c)
	return k, err
}

// reveal gives the secret again.
func (ck CreateKey) reveal(l *Ledger, c *call, k *CreatedKey) {
	k.Secret = newSecret(l.brand, k.Info.Type, c.secretOf(l))
}

// createKey makes at most perMinute keys of an account a minute; 0: any number. c is the
// operation; nil: the owner of the account makes the key.
func (ac Accounts) createKey(n NewKey, perMinute int, c *call) (KeyInfo, string, error) {
	if n.Privacy == 0 {
		n.Privacy = store.AnyModel
	}
	if n.Period == 0 {
		n.Period = store.Epoch
	}
	if err := errors.Join(n.check(), checkText("description", n.Description)); err != nil {
		return KeyInfo{}, "", err
	}
	now := ac.clock()
	if !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now) {
		return KeyInfo{}, "", fmt.Errorf("cannot create a key that expired at %s", n.ExpiresAt.Format(time.RFC3339))
	}
	a, err := ac.findAccount(n.Account)
	if err != nil {
		return KeyInfo{}, "", err
	}
	if err := refusal(a.knownStatus()); err != nil {
		return KeyInfo{}, "", fmt.Errorf("cannot create a key: %w", err)
	}
	if err := ac.mayMakeKey(a, perMinute); err != nil {
		return KeyInfo{}, "", err
	}
	secret := newSecret(ac.brand, n.Type, c.secretOf(ac.Ledger))
	row := &store.KeyRow{
		ID: newUUID(), Account: a.no, AccountID: a.ID, AccountName: a.Name(), Type: n.Type,
		Digest: ac.hasher.digest([]byte(secret)), Last6: secret[len(secret)-6:], Description: n.Description,
		Period:   n.Period,
		LimitUSD: n.LimitUSD, LimitDIEM: n.LimitDIEM, LimitTextUSD: n.TextUSD, LimitTextDIEM: n.TextDIEM,
		Privacy: n.Privacy, CreatedUs: now.UnixMicro(), ExpiresUs: toMicro(n.ExpiresAt),
	}
	db := ac.store
	if c != nil {
		db, c.entry.Account, c.entry.Subject = c.store, a.no, row.ID
		c.answers(fixed(CreatedKey{Info: keyInfo(row)}))
	}
	if err := db.AddKey(row, store.MaxActiveKeys); err != nil {
		return KeyInfo{}, "", fmt.Errorf("cannot create a key for the account %q: %w", n.Account, err)
	}
	ac.registry.reads.announce(row.Digest)
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

// ListKeys lists the keys of an account (id or name), or of all with "", revoked ones
// included.
type ListKeys struct {
	Page
	Account string `json:"account,omitempty"`
	Last    string `json:"last,omitempty"` // up to six characters at the end of the secret
	Live    bool   `json:"live,omitempty"` // neither revoked nor expired
}

func (lk ListKeys) carryOut(l *Ledger, _ *call) (list List[KeyInfo], err error) {
	f := store.KeyFilter{Last: lk.Last, Live: lk.Live, NowUs: l.now() / 1000}
	if f.Account, err = l.accountNo(lk.Account); err != nil {
		return list, fmt.Errorf("cannot list the keys of %q: %w", lk.Account, err)
	}
	if strings.Trim(lk.Last, base62) != "" || len(lk.Last) > 6 {
		return list, fmt.Errorf("%w: last is %q; expected up to 6 letters and digits", ErrQuery, lk.Last)
	}
	var rows []*store.KeyRow
	var next *store.KeyRow
	if err = lk.after(&f.After); err == nil {
		rows, next, err = l.store.KeysOf(f, lk.most())
	}
	if err != nil {
		return list, fmt.Errorf("cannot list the keys: %w", err)
	}
	if l.journal != nil {
		if err := l.project.catchUp(); err != nil {
			return list, fmt.Errorf("cannot bring the use of keys up to date: %w", err)
		}
	}
	return page(rows, next, func(r *store.KeyRow) string { return cursorAt(r.No) }, l.describeKeys)
}

func (l *Ledger) describeKeys(rows []*store.KeyRow) ([]KeyInfo, error) {
	list := make([]KeyInfo, len(rows))
	read := map[uint32]map[store.Period]map[int64]store.KeySum{} // by account
	for i, row := range rows {
		if list[i] = keyInfo(row); row.LimitUSD == nil && row.LimitDIEM == nil {
			continue
		}
		if read[row.Account] == nil {
			read[row.Account] = map[store.Period]map[int64]store.KeySum{}
		}
		used, err := l.Accounts().periodUse(row, l.Today(), read[row.Account])
		if err != nil {
			return nil, fmt.Errorf("cannot add up the usage of key %s: %w", row.ID, err)
		}
		list[i].Used = &used
	}
	return list, nil
}

// RevokeKey makes a key invalid, for good. When it returns, the key is refused;
// requests that were admitted before run on.
type RevokeKey struct {
	ID string `json:"id"`
}

func (r RevokeKey) carryOut(l *Ledger, c *call) (Nothing, error) {
	if row, err := l.store.KeyByID(r.ID); err == nil {
		c.key(row)
		c.entry.AnswerFunc = jsonOf(fixed(Nothing{}))
	}
	return Nothing{}, l.revokeKey(c.store, r.ID)
}

func (l *Ledger) revokeKey(db store.Store, id string) error {
	row, err := l.store.KeyByID(id)
	switch {
	case errors.Is(err, store.ErrNoRow):
		err = ErrNoKey
	case err == nil && row.Type == store.Wallet:
		err = ErrWalletKey
	case err == nil:
		err = db.RevokeKey(row.No, l.now()/1000)
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
