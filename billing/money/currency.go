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

// Labels are the names of currencies by their numbers, with the legacy label.
var Labels = []string{USD: "USD", DIEM: "DIEM", VCU: "VCU", Bundled: "BUNDLED_CREDITS"}

// The currencies in the order in which lists have them, their names in requests,
// those in lists and columns of tables, and what messages expect.
var (
	Listed   = [Currencies]Currency{USD, DIEM, Bundled}
	Names    = []string{"USD", "DIEM", "BUNDLED_CREDITS"}
	Shorts   = []string{"usd", "diem", "bundled"}
	Expected = "USD, DIEM or BUNDLED_CREDITS"
)

// ParseCurrency reads the name of a currency in any case.
func ParseCurrency(s string) (Currency, error) {
	for _, c := range Listed {
		if strings.EqualFold(s, c.String()) {
			return c, nil
		}
	}
	return 0, fmt.Errorf("cannot use the currency %q: expected %s", s, Expected)
}

func (c Currency) String() string {
	if c > 0 && int(c) < len(Labels) {
		return Labels[c]
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
