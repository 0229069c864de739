package billing

import (
	"fmt"
	"math"
	"strings"

	"farebox/config"
)

// Nano is an amount of money in 1e-9 of its currency.
type Nano = config.Nano

// maxCredit bounds one credit and one balance (in units of the currency), so
// that sums of amounts cannot leave int64.
const maxCredit = Nano(9_000_000_000_000_000_000)

// Currency is what a balance is held in. One unit of each is worth 1 USD of
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
	for _, c := range spendOrder {
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

// Places of the currencies in a parts, in the order in which they are spent
// (addendum 19.1).
const (
	inDIEM = iota
	inBundled
	inUSD
	currencies
)

var spendOrder = [currencies]Currency{DIEM, Bundled, USD}

func (c Currency) place() int {
	switch c {
	case DIEM:
		return inDIEM
	case Bundled:
		return inBundled
	}
	return inUSD
}

// parts is an amount split by currency, in spend order.
type parts [currencies]Nano

func (p *parts) total() Nano { return p[inDIEM] + p[inBundled] + p[inUSD] }

func (p *parts) add(q *parts) {
	for i := range p {
		p[i] += q[i]
	}
}

func (p *parts) sub(q *parts) {
	for i := range p {
		p[i] -= q[i]
	}
}

// take moves up to want out of p in spend order and gives what it got.
func (p *parts) take(want Nano) (got parts) {
	for i := range p {
		if want <= 0 {
			break
		}
		got[i] = min(want, p[i])
		p[i] -= got[i]
		want -= got[i]
	}
	return got
}

// addNano adds amounts that are not negative; a sum beyond int64 stays at its end.
func addNano(a, b Nano) Nano {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// amount is a Nano that is a decimal string in JSON, so that no reader takes it
// for a float.
type amount Nano

// MarshalText writes the shortest exact decimal.
func (a amount) MarshalText() ([]byte, error) { return []byte(Nano(a).String()), nil }

// UnmarshalText reads a decimal with up to 9 decimals.
func (a *amount) UnmarshalText(b []byte) error {
	v, err := config.ParseNano(string(b))
	*a = amount(v)
	return err
}
