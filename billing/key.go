package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/billing/window"
)

// Limits of texts that an operator may write.
const (
	maxDescription = 64 // addendum 16.1
	maxName        = 128
	maxMemo        = 256
)

// Key is one version of a key's record and never changes, but for outdated,
// which says that there is a newer one: a key that is
// updated gets a new Key (registry.replaceKey), while requests that found the
// old one go on. The changing state, on which limits are enforced, is in
// the one keyUse that all versions share.
type Key struct {
	// The fields that every request touches are here, in one pair of cache lines, and
	// all else elsewhere: with 100,000 keys a request mostly waits for memory,
	// and less so when the keys' part of it is small.
	expiresNs int64
	No        int64 // dense number, used in rows
	Account   *AccountState
	use       *keyUse
	*keyRecord
	outdated atomic.Bool
	first    keyUse // the target of use in this and all later versions
}

// keyRecord has the members of a key that requests seldom need.
type keyRecord struct {
	ID          string // UUID
	Type        store.KeyType
	Last6       string
	Description string
	CreatedAt   time.Time
	ExpiresAt   time.Time // zero: never

	Privacy   store.ModelPrivacy
	Period    store.Period
	LimitUSD  *Nano // of USD and BUNDLED_CREDITS together in a period; nil: none
	LimitDIEM *Nano

	digest  store.Digest // of its secret
	version uint64       // of its row
}

// keyUse is the state of a key: one for all versions of its record, so that a
// new limit finds the earlier use. Guarded by Account.mu but for gate
// and touch.
type keyUse struct {
	gate              atomic.Uint32 // whether it is refused, see status.go
	regime            uint32        // counts changes after which older holds do not count any more
	touch             touch
	tally             window.Tally
	kind              store.Period // of the limits that are enforced now
	quota             quota
	mostUSD, mostDIEM Nano // the most of quota in its period; maxCredit: no limit
	*keyRest
}

// keyRest is the state of a key that few requests need.
type keyRest struct {
	lease  *quotaLease   // on a shared store
	window window.Window // of all models together
	// later is the use of periods that have begun before, when the clock
	// was ahead and this process did not run yet; mostly nil.
	later map[int32]quota
}

// quota is the use of a key's limits in the current period, held money
// included: a limit that only counted charges would let concurrent
// requests through together.
type quota struct {
	period int32
	usd    Nano
	diem   Nano
}

func quotaOf(period int32, used *money.Parts) quota {
	diem, usd := used.ByLimit()
	return quota{period: period, usd: usd, diem: diem}
}

// limitOf is how far the use of a key may go in a period.
func limitOf(n *Nano) Nano {
	if n == nil {
		return money.MaxCredit
	}
	return *n
}

// roll begins a new period. A period never comes back, whatever the clock does.
func (u *keyUse) roll(day int32) {
	if n := u.kind.Number(day); n > u.quota.period {
		if u.lease != nil {
			u.beginPeriod(n)
			return
		}
		u.quota = u.later[n]
		u.quota.period = n
	}
}

// count adds the use of h, or subtracts it with a negative sign. Amounts
// of a hold from an earlier period belong to that one.
func (u *keyUse) count(p *money.Parts, sign Nano, h *Hold) {
	if !u.counts(h) {
		if u.lease != nil && sign < 0 {
			u.lease.late(p, h)
		}
		return
	}
	diem, usd := p.ByLimit()
	u.quota.diem += sign * diem
	u.quota.usd += sign * usd
}

// counts says whether the use of h counts in the period and under the limits
// that are in force now.
func (u *keyUse) counts(h *Hold) bool {
	return u.kind.Number(h.day) == u.quota.period && h.regime == u.regime
}

// roomFor is the room in the limits for the cost of h beyond its hold.
// The rest of an earlier period's limits is unknown: nothing, then.
func (u *keyUse) roomFor(h *Hold) (diem, usd Nano) {
	if u.counts(h) {
		return u.room()
	}
	diem, usd = money.MaxCredit, money.MaxCredit
	if u.mostDIEM != money.MaxCredit {
		diem = 0
	}
	if u.mostUSD != money.MaxCredit {
		usd = 0
	}
	return diem, usd
}

// room is the rest of the limits in this period.
func (u *keyUse) room() (diem, usd Nano) {
	return max(0, u.mostDIEM-u.quota.diem), max(0, u.mostUSD-u.quota.usd)
}

// NewKey is an operator's order for a key.
type NewKey struct {
	Account     string        `json:"account"` // id or name
	Type        store.KeyType `json:"type,omitzero"`
	Description string        `json:"description,omitempty"`
	ExpiresAt   time.Time     `json:"expires_at,omitzero"`
	Period      store.Period  `json:"period,omitzero"`
	LimitUSD    *Nano         `json:"limit_usd,omitempty"`
	LimitDIEM   *Nano         `json:"limit_diem,omitempty"`
	// The limits as written, where they are beyond the integer range.
	TextUSD  string             `json:"limit_text_usd,omitempty"`
	TextDIEM string             `json:"limit_text_diem,omitempty"`
	Privacy  store.ModelPrivacy `json:"model_privacy,omitzero"`
}

// SetLimits takes over limits; one that is not set is no limit.
func (n *NewKey) SetLimits(usd, diem money.Limit) {
	n.LimitUSD, n.TextUSD = usd.Enforced(), usd.Text
	n.LimitDIEM, n.TextDIEM = diem.Enforced(), diem.Text
}

func (n *NewKey) check() error {
	switch {
	case n.Type != store.Inference && n.Type != store.Admin:
		return errors.New("cannot create a key without a type: expected INFERENCE or ADMIN")
	case n.Period.String() == "":
		return errors.New("cannot create a key without a limit period: expected EPOCH, MONTH or LIFETIME")
	case len([]rune(n.Description)) > maxDescription:
		return fmt.Errorf("cannot create a key: its description has more than %d characters", maxDescription)
	}
	for _, limit := range []*Nano{n.LimitUSD, n.LimitDIEM} {
		if limit != nil && *limit < 0 {
			return errors.New("cannot create a key with a negative limit; leave the limit out for none")
		}
	}
	return nil
}

// KeyInfo describes a key to an operator. The secret is not in it.
type KeyInfo struct {
	ID          string             `json:"id"`
	AccountID   string             `json:"account_id"`
	AccountName string             `json:"account"`
	Type        store.KeyType      `json:"type"`
	Last6       string             `json:"last6"`
	Description string             `json:"description"`
	Period      store.Period       `json:"limit_period"`
	TextUSD     string             `json:"limit_text_usd,omitempty"`
	TextDIEM    string             `json:"limit_text_diem,omitempty"`
	Privacy     store.ModelPrivacy `json:"model_privacy"`
	LastUsedAt  time.Time          `json:"last_used_at,omitzero"`
	CreatedAt   time.Time          `json:"created_at"`
	ExpiresAt   time.Time          `json:"expires_at,omitzero"`
	RevokedAt   time.Time          `json:"revoked_at,omitzero"`

	LimitUSD  *Nano     `json:"limit_usd"`
	LimitDIEM *Nano     `json:"limit_diem"`
	Used      *KeyUsage `json:"used_in_period,omitempty"` // of the limits in their period; nil: no limits
}

// USD is the limit of USD and bundled credits, DIEM that of DIEM.
func (k *KeyInfo) USD() money.Limit { return money.StoredLimit(k.LimitUSD, k.TextUSD) }

// DIEM is the limit of DIEM.
func (k *KeyInfo) DIEM() money.Limit { return money.StoredLimit(k.LimitDIEM, k.TextDIEM) }

// State is live, expired or revoked.
func (k KeyInfo) State() string {
	switch {
	case !k.RevokedAt.IsZero():
		return "revoked"
	case !k.ExpiresAt.IsZero() && !time.Now().Before(k.ExpiresAt):
		return "expired"
	}
	return "live"
}

// MarshalJSON adds the state.
func (k KeyInfo) MarshalJSON() ([]byte, error) {
	type plain KeyInfo
	return json.Marshal(struct {
		plain
		State string `json:"state"`
	}{plain(k), k.State()})
}

// touch is when a key was last used, to the second. Every request looks at it,
// so it is written once a second and is on a list at most once.
type touch struct {
	second atomic.Uint32 // Unix
	listed atomic.Bool
}

// touched are the keys whose last use the store does not have yet.
type touched struct {
	mu   sync.Mutex
	keys []*Key
}

// Touch records that the key was used now.
func (k *Key) Touch(nowNs int64) {
	t := &k.use.touch
	second := uint32(nowNs / int64(time.Second))
	if t.second.Load() >= second {
		return
	}
	t.second.Store(second)
	if !t.listed.Swap(true) {
		list := &k.Account.ledger.touched
		list.mu.Lock()
		list.keys = append(list.keys, k)
		list.mu.Unlock()
	}
}

// lastUsed is when the key was last used in this process, in Unix µs.
func (u *keyUse) lastUsed() int64 { return int64(u.touch.second.Load()) * 1e6 }

// flush writes the listed keys. Failed writes are tried again.
func (t *touched) flush(store store.Store) error {
	t.mu.Lock()
	list := t.keys
	t.keys = nil
	t.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	last := make(map[int64]int64, len(list))
	for _, k := range list {
		k.use.touch.listed.Store(false) // before the time is read: a later use lists it again
		last[k.No] = k.use.lastUsed()
	}
	err := store.TouchKeys(last)
	if err != nil {
		for _, k := range list {
			if !k.use.touch.listed.Swap(true) {
				t.mu.Lock()
				t.keys = append(t.keys, k)
				t.mu.Unlock()
			}
		}
	}
	return err
}
