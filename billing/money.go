package billing

import (
	"farebox/billing/money"
	"farebox/config"
)

// Words of package money that this room uses in every file.
type (
	Nano     = money.Nano
	Currency = money.Currency
)

// The currencies that an account can hold, and VCU, a legacy label that filters
// may name.
const (
	USD     = money.USD
	DIEM    = money.DIEM
	Bundled = money.Bundled
	VCU     = money.VCU
)

// ParseCurrency reads USD, DIEM or BUNDLED_CREDITS in any case.
func ParseCurrency(s string) (Currency, error) { return money.ParseCurrency(s) }

// maxCredit bounds one credit and one balance (in units of the currency), so
// that sums of amounts cannot leave int64.
const maxCredit = Nano(9_000_000_000_000_000_000)

// Places of the currencies in a parts, in the order in which they are spent
// (addendum 19.1).
const (
	inDIEM = iota
	inBundled
	inUSD
	currencies
)

// spendOrder names the currency of each place.
var spendOrder = [currencies]Currency{DIEM, Bundled, USD}

func placeOf(c Currency) int {
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
