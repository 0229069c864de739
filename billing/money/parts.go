package money

// MaxCredit bounds one credit and one balance (in units of the currency), so
// that sums of amounts cannot leave int64.
const MaxCredit = Nano(9_000_000_000_000_000_000)

// Places of the currencies in a [Parts], in the order in which they are spent
// (addendum 19.1).
const (
	InDIEM = iota
	InBundled
	InUSD
	Currencies
)

// SpendOrder names the currency of each place.
var SpendOrder = [Currencies]Currency{DIEM, Bundled, USD}

// PlaceOf is the place of a currency.
func PlaceOf(c Currency) int {
	switch c {
	case DIEM:
		return InDIEM
	case Bundled:
		return InBundled
	}
	return InUSD
}

// Parts is an amount split by currency, in spend order.
type Parts [Currencies]Nano

// Total is the sum of all currencies.
func (p *Parts) Total() Nano { return p[InDIEM] + p[InBundled] + p[InUSD] }

// Add adds q to p.
func (p *Parts) Add(q *Parts) {
	for i := range p {
		p[i] += q[i]
	}
}

// Sub takes q from p.
func (p *Parts) Sub(q *Parts) {
	for i := range p {
		p[i] -= q[i]
	}
}

// Take moves up to want out of p in spend order and returns the taken amounts.
func (p *Parts) Take(want Nano) (got Parts) {
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
