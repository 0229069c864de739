package billing

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/billing/window"
)

// The operations of an account's owner on its keys (addendum 16). An operator's
// calls take any account; these see the keys of one account alone: of others
// they know as little as of keys that do not exist.

const (
	keysPerMinute = 20 // of one account, addendum 3.6
	// updateTries is how often an update begins again because another node
	// changed the key in between, each time after a random pause of up to twice
	// as long: two nodes in a loop would otherwise starve each other.
	updateTries = 10
	updatePause = 2 * time.Millisecond
)

// KeyUsage is the use of a key.
type KeyUsage struct {
	DIEM Nano `json:"diem"`
	USD  Nano `json:"usd"` // with bundled credits
}

// KeyRecord is a key with its use.
type KeyRecord struct {
	KeyInfo
	Week    KeyUsage  // today and the six UTC days before
	Current *KeyUsage // of the current period; nil for a key without limits
}

// KeyChange is an update of a key; a nil member changes nothing.
type KeyChange struct {
	Description *string             `json:"description,omitempty"`
	ExpiresAt   *time.Time          `json:"expires_at,omitempty"` // zero: never
	USD         *money.Limit        `json:"limit_usd,omitempty"`  // a money.Limit that is not set: none
	DIEM        *money.Limit        `json:"limit_diem,omitempty"`
	Period      *store.Period       `json:"period,omitempty"`
	Privacy     *store.ModelPrivacy `json:"model_privacy,omitempty"`
}

// TooSoon is a refusal to make another key so soon.
type TooSoon struct{ After time.Duration }

func (t *TooSoon) Error() string {
	return fmt.Sprintf("cannot make more than %d keys of an account a minute", keysPerMinute)
}

// Accounts is the part of a ledger that the owners of accounts work with.
type Accounts struct{ *Ledger }

// Accounts is for the owners of accounts.
func (l *Ledger) Accounts() Accounts { return Accounts{l} }

// Keyring lists the live keys of an account in the order in which they were
// made, page by page from 1.
func (ac Accounts) Keyring(a *AccountState, page, limit int) ([]KeyRecord, error) {
	page, limit = max(1, page), max(1, limit)
	rows, err := ac.store.ActiveKeys(a.no, ac.now()/1000, limit, min(page-1, math.MaxInt/limit)*limit)
	if err != nil {
		return nil, fmt.Errorf("cannot list the keys of the account %q: %w", a.Name(), err)
	}
	return ac.keyRecords(a, rows)
}

// KeyOf gives a key of the account that is not revoked.
func (ac Accounts) KeyOf(a *AccountState, id string) (KeyRecord, error) {
	row, err := ac.ownKey(a, id)
	if err != nil {
		return KeyRecord{}, err
	}
	list, err := ac.keyRecords(a, []*store.KeyRow{row})
	if err != nil {
		return KeyRecord{}, err
	}
	return list[0], nil
}

// keyRecords adds the use of the keys: all of this node's requests, and those
// that other nodes have reported.
func (ac Accounts) keyRecords(a *AccountState, rows []*store.KeyRow) ([]KeyRecord, error) {
	list := make([]KeyRecord, len(rows))
	if len(rows) == 0 {
		return list, nil
	}
	newest{ac.Ledger, a}.Days()
	day := ac.Today()
	week, err := ac.store.KeySums(a.no, day-6, day)
	if err != nil {
		return nil, fmt.Errorf("cannot add up the usage of keys of the account %q: %w", a.Name(), err)
	}
	periods := map[store.Period]map[int64]store.KeySum{}
	for i, row := range rows {
		ac.useOf(row)
		list[i] = KeyRecord{KeyInfo: keyInfo(row), Week: usageOf(week[row.No].Spent)}
		if row.LimitUSD == nil && row.LimitDIEM == nil {
			continue
		}
		used, err := ac.periodUse(row, day, periods)
		if err != nil {
			return nil, fmt.Errorf("cannot add up the usage of key %s: %w", row.ID, err)
		}
		list[i].Current = &used
	}
	return list, nil
}

// periodUse is the use of a key in its current period. Days and months are read
// once for all keys of the account.
func (ac Accounts) periodUse(row *store.KeyRow, day int32, read map[store.Period]map[int64]store.KeySum) (KeyUsage,
	error) {
	if row.Period == store.Lifetime {
		used, err := ac.store.KeyUsed(row.Account, row.No, store.Lifetime, day)
		return usageOf(used), err
	}
	sums, done := read[row.Period]
	if !done {
		first, last := row.Period.Days(day)
		var err error
		if sums, err = ac.store.KeySums(row.Account, first, last); err != nil {
			return KeyUsage{}, err
		}
		read[row.Period] = sums
	}
	return usageOf(sums[row.No].Spent), nil
}

func usageOf(p money.Parts) KeyUsage {
	diem, usd := p.ByLimit()
	return KeyUsage{USD: usd, DIEM: diem}
}

// useOf brings the time of a key's last use up to date.
func (ac Accounts) useOf(row *store.KeyRow) {
	if k := ac.registry.byNumber(row.No); k != nil {
		row.LastUsedUs = max(row.LastUsedUs, k.use.lastUsed())
	}
}

// ownKey reads a key of the account that is not revoked.
func (ac Accounts) ownKey(a *AccountState, id string) (*store.KeyRow, error) {
	row, err := ac.store.KeyByID(id)
	if errors.Is(err, store.ErrNoRow) || err == nil && (row.Account != a.no || row.RevokedUs != 0 || row.Type == store.Wallet) {
		return nil, fmt.Errorf("cannot find the key %q: %w", id, ErrNoKey)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the key %q: %w", id, err)
	}
	return row, nil
}

// MakeKey makes a key for the owner of its account, with a bounded number a
// minute (TooSoon) and in all (ErrManyKeys).
func (ac Accounts) MakeKey(n NewKey) (KeyInfo, string, error) {
	ac.operating.Lock()
	defer ac.operating.Unlock()
	return ac.createKey(n, keysPerMinute, nil)
}

// mayMakeKey counts the keys that were made in the last minute, in the store:
// so it holds for all nodes together and after a restart.
func (ac Accounts) mayMakeKey(a *AccountState, perMinute int) error {
	if perMinute == 0 {
		return nil
	}
	now := ac.clock()
	n, firstUs, err := ac.store.KeysMade(a.no, now.Add(-time.Minute).UnixMicro())
	if err != nil {
		return fmt.Errorf("cannot count the keys of the account %q: %w", a.Name(), err)
	}
	if n >= perMinute {
		return &TooSoon{After: time.UnixMicro(firstUs).Add(time.Minute).Sub(now)}
	}
	return nil
}

// UpdateKey changes a key of the account. When it returns, the change is in the
// store and in force in this process; the key's use so far stays.
func (ac Accounts) UpdateKey(a *AccountState, id string, c KeyChange) (KeyInfo, error) {
	return ac.updateKey(ac.store, a, id, c)
}

// updateKey is UpdateKey through a view of the store.
func (ac Accounts) updateKey(db store.Store, a *AccountState, id string, c KeyChange) (KeyInfo, error) {
	ac.operating.Lock()
	defer ac.operating.Unlock()
	for try := range updateTries {
		row, err := ac.ownKey(a, id)
		if err != nil {
			return KeyInfo{}, err
		}
		if err := c.apply(row); err != nil {
			return KeyInfo{}, fmt.Errorf("cannot change the key %q: %w", id, err)
		}
		err = db.UpdateKey(row)
		if errors.Is(err, store.ErrStale) {
			time.Sleep(rand.N(updatePause << try))
			continue
		}
		if err != nil {
			return KeyInfo{}, fmt.Errorf("cannot change the key %q: %w", id, err)
		}
		if err := ac.enforceKey(row); err != nil {
			return KeyInfo{}, err
		}
		ac.useOf(row)
		return keyInfo(row), nil
	}
	return KeyInfo{}, fmt.Errorf("cannot change the key %q: somebody else keeps changing it", id)
}

// ChangeKey is UpdateKey for an operator, for keys of any account.
type ChangeKey struct {
	ID string `json:"id"`
	KeyChange
}

func (ck ChangeKey) carryOut(l *Ledger, c *call) (KeyInfo, error) {
	row, err := l.store.KeyByID(ck.ID)
	if errors.Is(err, store.ErrNoRow) {
		err = ErrNoKey
	}
	if err != nil {
		return KeyInfo{}, fmt.Errorf("cannot change the key %q: %w", ck.ID, err)
	}
	a, err := l.account(row.Account)
	if err != nil {
		return KeyInfo{}, err
	}
	c.key(row)
	return l.Accounts().updateKey(c.store, a, ck.ID, ck.KeyChange)
}

// enforceKey brings a row that was just written into force in this process. On
// a shared store another node may have changed the key again meanwhile, and the
// feed may have told of that already: the store's present value counts.
func (ac Accounts) enforceKey(row *store.KeyRow) error {
	if ac.node != nil {
		return ac.node.reloadKey(row.No)
	}
	_, err := ac.replaceKey(row)
	return err
}

// apply changes the row, after the checks of a new key.
func (c *KeyChange) apply(row *store.KeyRow) error {
	n := NewKey{Type: row.Type, Description: row.Description, Period: row.Period, LimitUSD: row.LimitUSD,
		LimitDIEM: row.LimitDIEM, TextUSD: row.LimitTextUSD, TextDIEM: row.LimitTextDIEM}
	if c.Description != nil {
		n.Description = *c.Description
	}
	if c.Period != nil {
		n.Period = *c.Period
	}
	if c.USD != nil {
		n.LimitUSD, n.TextUSD = c.USD.Enforced(), c.USD.Text
	}
	if c.DIEM != nil {
		n.LimitDIEM, n.TextDIEM = c.DIEM.Enforced(), c.DIEM.Text
	}
	if err := errors.Join(n.check(), checkText("description", n.Description)); err != nil {
		return err
	}
	row.Description, row.Period = n.Description, n.Period
	row.LimitUSD, row.LimitTextUSD, row.LimitDIEM, row.LimitTextDIEM = n.LimitUSD, n.TextUSD, n.LimitDIEM, n.TextDIEM
	if c.ExpiresAt != nil {
		row.ExpiresUs = toMicro(*c.ExpiresAt)
	}
	if c.Privacy != nil {
		row.Privacy = *c.Privacy
	}
	return nil
}

// DeleteKey revokes a key of the account: from its return on no request gets in
// with it.
func (ac Accounts) DeleteKey(a *AccountState, id string) error {
	if _, err := ac.ownKey(a, id); err != nil {
		return err
	}
	ac.operating.Lock()
	defer ac.operating.Unlock()
	return ac.revokeKey(ac.store, id)
}

// WindowUse is the use of a limit. Limit is -1 without a limit.
type WindowUse struct {
	Limit, Used, Remaining int64
	Resets                 time.Time
}

// KeyWindows are the requests of a key over all models, by minute, hour, day
// and month, and the rest of its limits.
func (ac Accounts) KeyWindows(k *Key, now window.Instant) (w [4]WindowUse, err error) {
	nowNs := now.Wall
	a, day := k.Account, k.Account.ledger.day(nowNs)
	month := calendar.MonthOf(day)
	ends := [4]int64{nowNs - nowNs%window.MinuteNs + window.MinuteNs, nowNs - nowNs%window.HourNs + window.HourNs,
		int64(day+1) * window.DayNs, int64(calendar.FirstDay(month+1)) * window.DayNs}
	for i := range w {
		w[i] = WindowUse{Limit: -1, Resets: time.Unix(0, ends[i]).UTC()}
	}
	// Days and months are those of the store: all nodes, and before the start.
	newest{ac.Ledger, a}.Days()
	for i, first := range map[int]int32{2: day, 3: calendar.FirstDay(month)} {
		sums, err := ac.store.KeySums(a.no, first, day)
		if err != nil {
			return w, fmt.Errorf("cannot add up the requests of key %s: %w", k.ID, err)
		}
		w[i].Used = sums[k.No].Requests
	}
	rate := ac.keyRate.Load()
	var all window.Window
	overall := false
	if rate != nil && ac.redis != nil {
		q := ac.overall(k, -1, nil, rate, now)
		all, overall = ac.redis.Key(&q)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w[0].Used, w[1].Used = k.use.tally.At(nowNs)
	if rate != nil {
		u := &k.use.window
		if overall {
			u = &all
		}
		gcra := func(w *WindowUse, tat, limit, period, ahead int64) {
			if limit > 0 {
				used := limit - window.Left(tat, now.Mono, limit, period, period)
				*w = WindowUse{Limit: limit, Used: used, Remaining: window.Left(tat, now.Mono, limit, period, ahead),
					Resets: time.Unix(0, now.WallAt(max(tat, now.Mono))).UTC()}
			}
		}
		_, ahead := window.Burst(rate)
		gcra(&w[0], u.Minute, rate.RPM, window.MinuteNs, ahead)
		gcra(&w[1], u.Hour, rate.RPH, window.HourNs, window.HourNs)
		counted := func(w *WindowUse, limit, used int64) {
			if limit > 0 {
				w.Limit, w.Used, w.Remaining = limit, used, max(0, limit-used)
			}
		}
		inDay, inMonth := int64(0), int64(0)
		if u.Day == day {
			inDay = u.InDay
		}
		if u.Month == month {
			inMonth = u.InMonth
		}
		counted(&w[2], rate.RPD, inDay)
		counted(&w[3], rate.RPMon, inMonth)
	}
	return w, nil
}
