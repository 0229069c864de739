package store

import (
	"fmt"
	"strings"

	"farebox/billing/calendar"
)

// KeyType says what a key may do. The numbers are stored.
type KeyType uint8

// The types of keys (addendum 3.2).
const (
	Inference KeyType = 1
	Admin     KeyType = 2
	// Wallet is the key that a wallet spends with that signed in: it has no secret, is
	// not among the keys that its account's owner sees, and may do what Inference may.
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
