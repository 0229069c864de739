package money

import (
	"math"
	"math/bits"
)

// Line is one charged item of a request: so many units of a kind, at a price
// each. The journal and the store keep it as it was sold, so that later changes
// of a model do not change it.
type Line struct {
	Kind  Kind
	Units int64
	Price Pico // a unit
}

// Cost is the line's cost, rounded up to 1 nano; an amount beyond int64
// stays at its end.
func (l *Line) Cost() Nano { return cost(l.Units, l.Price) }

// MaxLines is how many lines one request can have.
const MaxLines = 8

// Lines are the lines of one request, in the order in which they are listed and
// paid. It is a value: adding to it allocates nothing, and two are equal when
// they have the same lines.
type Lines struct {
	n  uint8
	at [MaxLines]Line
}

// Add appends a line. Negative units count as none; a line of no units names
// the sold kind where nothing of it was used. A ninth line is a mistake of the
// seller, and panics.
func (l *Lines) Add(k Kind, units int64, price Pico) {
	l.at[l.n] = Line{k, max(0, units), price}
	l.n++
}

// All are the lines, as they are in l.
func (l *Lines) All() []Line { return l.at[:l.n] }

// Cost is the sum of the lines, each rounded up for itself; a sum beyond int64
// stays at its end.
func (l *Lines) Cost() (sum Nano) {
	for i := range l.All() {
		sum = AddNano(sum, l.at[i].Cost())
	}
	return sum
}

// picoPerNano is the scale between prices and amounts.
const picoPerNano = 1000

// cost is ceil(units x price / 1000), at most MaxInt64.
func cost(units int64, price Pico) Nano {
	if units <= 0 || price <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(units), uint64(price))
	lo, carry := bits.Add64(lo, picoPerNano-1, 0)
	hi += carry
	if hi >= picoPerNano {
		return math.MaxInt64
	}
	nano, _ := bits.Div64(hi, lo, picoPerNano)
	return Nano(min(nano, math.MaxInt64))
}
