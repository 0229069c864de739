package money

import "slices"

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
	if i := slices.Index(SpendOrder[:], c); i >= 0 {
		return i
	}
	return InUSD
}

// Parts is an amount split by currency, in spend order.
type Parts [Currencies]Nano

// Total is the sum of all currencies.
func (p *Parts) Total() (sum Nano) {
	for _, n := range p {
		sum += n
	}
	return sum
}

// LimitPlace is the place of the limit of a key on the currency of a place: the limit in USD
// holds for all currencies but DIEM together.
func LimitPlace(place int) int {
	if place == InDIEM {
		return InDIEM
	}
	return InUSD
}

// ByLimit are the amounts under the limits of a key in DIEM and in USD.
func (p *Parts) ByLimit() (diem, usd Nano) { return p[InDIEM], p.Total() - p[InDIEM] }

// Amounts is an amount split by currency, as answers and lists have it.
type Amounts struct {
	USD     Nano `json:"usd"`
	DIEM    Nano `json:"diem"`
	Bundled Nano `json:"bundled"`
}

// At is the amount of a place.
func (a *Amounts) At(place int) *Nano {
	return [Currencies]*Nano{InDIEM: &a.DIEM, InBundled: &a.Bundled, InUSD: &a.USD}[place]
}

// Total is the sum of all currencies.
func (a Amounts) Total() Nano { return a.USD + a.DIEM + a.Bundled }

// Lasting is the sum of all currencies but DIEM, which end with their day.
func (a Amounts) Lasting() Nano { return a.Total() - a.DIEM }

// Texts are the amounts in the order of [Listed].
func (a Amounts) Texts() []string {
	return []string{a.USD.String(), a.DIEM.String(), a.Bundled.String()}
}

// Amounts names the currencies.
func (p *Parts) Amounts() (a Amounts) {
	for place, n := range p {
		*a.At(place) = n
	}
	return a
}

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
