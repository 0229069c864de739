package money

import (
	"fmt"
	"math"
	"strings"

	"farebox/config"
)

// Nano is an amount of money in 1e-9 of its currency.
type Nano = config.Nano

// Pico is a price of one unit in 1e-12 USD.
type Pico = config.Pico

// AddNano adds amounts that are not negative; a sum beyond int64 stays at its end.
func AddNano(a, b Nano) Nano {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Currency is the currency of a balance. One unit of each is worth 1 USD of
// price (addendum 19.1). The numbers are stored.
type Currency uint8

// The currencies that an account can hold.
const (
	USD     Currency = 1
	DIEM    Currency = 2
	Bundled Currency = 4
)

// VCU is a legacy label that filters may name; nothing is held or paid in it.
const VCU Currency = 3

// ParseCurrency reads USD, DIEM or BUNDLED_CREDITS in any case.
func ParseCurrency(s string) (Currency, error) {
	for _, c := range [...]Currency{USD, DIEM, Bundled} {
		if strings.EqualFold(s, c.String()) {
			return c, nil
		}
	}
	return 0, fmt.Errorf("cannot use the currency %q: expected USD, DIEM or BUNDLED_CREDITS", s)
}

func (c Currency) String() string {
	switch c {
	case USD:
		return "USD"
	case DIEM:
		return "DIEM"
	case Bundled:
		return "BUNDLED_CREDITS"
	case VCU:
		return "VCU"
	}
	return fmt.Sprintf("currency %d", uint8(c))
}

// MarshalText writes the currency's name.
func (c Currency) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the currency's name.
func (c *Currency) UnmarshalText(b []byte) (err error) {
	*c, err = ParseCurrency(string(b))
	return err
}
