package store

import (
	"errors"
	"fmt"
	"strings"

	"farebox/billing/calendar"
	"farebox/billing/money"
)

// KeyType says which rights a key has. The numbers are stored.
type KeyType uint8

// The types of keys (addendum 3.2).
const (
	Inference KeyType = 1
	Admin     KeyType = 2
	// Wallet is the key that a wallet spends with that signed in: it has no secret, is
	// not among the keys that its account's owner sees, and has the rights of Inference.
	Wallet KeyType = 3
)

// ParseKeyType reads INFERENCE or ADMIN in any case.
func ParseKeyType(s string) (KeyType, error) {
	for _, t := range []KeyType{Inference, Admin} {
		if strings.EqualFold(s, t.String()) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("cannot use the key type %q: expected INFERENCE or ADMIN", s)
}

func (t KeyType) String() string {
	switch t {
	case Admin:
		return "ADMIN"
	case Wallet:
		return "WALLET"
	}
	return "INFERENCE"
}

// MarshalText writes the type's name.
func (t KeyType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the type's name.
func (t *KeyType) UnmarshalText(b []byte) (err error) {
	if string(b) == Wallet.String() {
		*t = Wallet
		return nil
	}
	*t, err = ParseKeyType(string(b))
	return err
}

// Period is how long a key's consumption limits hold (addendum 16.1). The
// numbers are stored.
type Period uint8

// The periods of consumption limits.
const (
	Epoch    Period = 1 // a UTC day
	Month    Period = 2 // a UTC month
	Lifetime Period = 3
)

var periodNames = map[Period]string{Epoch: "EPOCH", Month: "MONTH", Lifetime: "LIFETIME"}

// ParsePeriod reads EPOCH, MONTH or LIFETIME in any case; empty is EPOCH.
func ParsePeriod(s string) (Period, error) {
	if s == "" {
		return Epoch, nil
	}
	for p, name := range periodNames {
		if strings.EqualFold(s, name) {
			return p, nil
		}
	}
	return 0, fmt.Errorf("cannot use the limit period %q: expected EPOCH, MONTH or LIFETIME", s)
}

func (p Period) String() string { return periodNames[p] }

// MarshalText writes the period's name.
func (p Period) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the period's name.
func (p *Period) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePeriod(string(b))
	return err
}

// Number is the period that a day lies in.
func (p Period) Number(day int32) int32 {
	switch p {
	case Epoch:
		return day
	case Month:
		return calendar.MonthOf(day)
	}
	return 0
}

// Days is the range of days of the period that day lies in.
func (p Period) Days(day int32) (first, last int32) {
	switch p {
	case Epoch:
		return day, day
	case Month:
		m := calendar.MonthOf(day)
		return calendar.FirstDay(m), calendar.FirstDay(m+1) - 1
	}
	return 0, 1<<31 - 1
}

// ModelPrivacy is which models a key may use (addendum 16.1). The numbers are
// stored.
type ModelPrivacy uint8

// The privacy that a key asks of models.
const (
	AnyModel    ModelPrivacy = 1
	PrivateText ModelPrivacy = 2 // text and embedding models must be private, TEE or E2EE
	PrivateOnly ModelPrivacy = 3 // all models
)

var privacyNames = [...]string{AnyModel: "ALL", PrivateText: "PRIVATE_TEXT", PrivateOnly: "PRIVATE_ONLY"}

// ParseModelPrivacy reads ALL, PRIVATE_TEXT or PRIVATE_ONLY in any case; empty is ALL.
func ParseModelPrivacy(s string) (ModelPrivacy, error) {
	if s == "" {
		return AnyModel, nil
	}
	for p, name := range privacyNames {
		if name != "" && strings.EqualFold(s, name) {
			return ModelPrivacy(p), nil
		}
	}
	return 0, fmt.Errorf("cannot use the model privacy %q: expected ALL, PRIVATE_TEXT or PRIVATE_ONLY", s)
}

// String names the privacy; that of keys made before there was one is ALL.
func (p ModelPrivacy) String() string {
	if p == 0 || int(p) >= len(privacyNames) {
		return privacyNames[AnyModel]
	}
	return privacyNames[p]
}

// MarshalText writes the privacy's name.
func (p ModelPrivacy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the privacy's name.
func (p *ModelPrivacy) UnmarshalText(b []byte) (err error) {
	*p, err = ParseModelPrivacy(string(b))
	return err
}

// keyStore is the part of a Store for the owners of keys: the keys of an
// account page by page, their spending, refusals by limits, used sign-in
// tokens, and the daily allowance. Every change commits before its call
// returns.
type keyStore interface {
	// ActiveKeys are the keys of an account that are neither revoked nor expired,
	// in the order in which they were made. Keys of wallets are not among them, and
	// count nowhere.
	ActiveKeys(account uint32, nowUs int64, limit, offset int) ([]*KeyRow, error)
	// KeysMade counts the keys of an account that were made since a time, revoked
	// ones included, and says when the first of them was.
	KeysMade(account uint32, sinceUs int64) (n int, firstUs int64, err error)
	// UpdateKey writes description, limits with their texts, period, expiry and
	// privacy of a key that is not revoked and still has row.version, and counts
	// that up, in row too. errStale when it has another one by now.
	UpdateKey(row *KeyRow) error
	// TouchKeys records when keys were last used (Unix µs), by number; a time
	// never goes back.
	TouchKeys(lastUs map[int64]int64) error
	// KeySums adds up the daily usage of an account by key, for the days from
	// first to last. KeyUsed does it for one key and its period.
	KeySums(account uint32, first, last int32) (map[int64]KeySum, error)

	// AddViolations appends to the log of refusals and keeps the last
	// maxViolations of each account.
	AddViolations(list []Violation) error
	// Violations are the last ones of an account, newest first, at most maxViolations.
	Violations(account uint32) ([]Violation, error)

	// UseToken records the use of a single-use token until it expires; fresh is
	// false when it was used before. Tokens that expired before nowUs are forgotten.
	UseToken(id string, expiresUs, nowUs int64) (fresh bool, err error)

	// SetAllowance makes daily the DIEM that an account gets each UTC day
	// (account.diem_daily). The bucket of a day comes into being with the
	// allowance of then, under the reference diem:<account id>:<date>, at most
	// once: at the first charge, grant or DIEM credit of that day, or here. Here
	// the bucket of today is made with the old allowance where that is more than
	// 0 and today has none yet; then, where today has still none, with the new
	// one. So a change counts from the next day on, a first allowance at once.
	SetAllowance(account uint32, daily money.Nano, day int32, nowUs int64) error
	// KeyUsedLater is a key's spending in each of the days after day: of a
	// time when the clock was ahead.
	KeyUsedLater(account uint32, key int64, day int32) (map[int32]money.Parts, error)
	// LaterDIEM gives the DIEM of the days after day that have some in the store:
	// of a time when the clock was ahead.
	LaterDIEM(account uint32, day int32) (map[int32]DayDIEM, error)
}

// DayDIEM is the rest of a day's DIEM, and whether the day's allowance is booked in it.
type DayDIEM struct {
	avail   money.Nano
	allowed bool
}

// Left is the amount that can be spent on a day that has begun before.
func (d DayDIEM) Left(refill money.Nano) money.Nano {
	if d.allowed {
		return d.avail
	}
	return d.avail + refill
}

// ErrStale is a row that changed since it was read.
var ErrStale = errors.New("changed meanwhile")

// KeySum is the use of a key over some days.
type KeySum struct {
	Requests int64
	Spent    money.Parts
}

// MaxViolations is how many refusals by limits are kept for each account
// (addendum 16.5).
const MaxViolations = 50

// Violation is a request that a limit refused.
type Violation struct {
	Account uint32
	TimeUs  int64
	Key     int64  // number
	KeyID   string // only read: the store finds it by the number
	Model   string // id of the model, or the name of the limit
	Tier    string
	Kind    string // RPM RPH RPD RPMON TPM FAILED_REQUESTS UNSUPPORTED_FEATURE_REQUESTS ABORTED_REQUESTS
}
