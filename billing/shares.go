package billing

import (
	"math/bits"

	"farebox/billing/money"
)

// share is the part of a line that one currency paid.
type share struct {
	line, place uint8
	kind        money.Kind
	units       int64
	amount      Nano
}

// shares are a charge by line and currency, in the order of the lines and then
// of spending; parts of nothing are left out. The request itself counts with the
// first currency that paid and the last line.
type shares struct {
	first int        // place of the first currency that paid
	last  money.Kind // of the last line
	n     int
	at    [money.MaxLines + money.Currencies]share
}

func (s *shares) all() []share { return s.at[:s.n] }

func (s *shares) add(line, place int, kind money.Kind, units int64, amount Nano) {
	if units == 0 && amount == 0 {
		return
	}
	s.at[s.n] = share{uint8(line), uint8(place), kind, units, amount}
	s.n++
}

// nothing stands for the lines of a charge that has none.
var nothing = []money.Line{{Kind: money.OutputTokens}}

// sold are the lines of a charge, at least one.
func (r *record) sold() []money.Line {
	if sold := r.lines.All(); len(sold) > 0 {
		return sold
	}
	return nothing
}

// spread divides a charge among the currencies that paid it. Lines are paid in
// order, each from the first currency with something left, so that amounts add
// up exactly in both directions; units of a line that two currencies paid are
// divided as its amount is. Where the charge was not the sum of its lines (money
// ran out, no output, settled after a crash) the last lines give way.
func (r *record) spread(s *shares) {
	sold := r.sold()
	first, only := r.payer()
	s.first, s.last, s.n = first, sold[len(sold)-1].Kind, 0
	rest, charged := r.amounts, r.amounts.Total()
	for i := range sold {
		units, left := sold[i].Units, min(sold[i].Cost(), charged)
		charged -= left
		if i == len(sold)-1 {
			left += charged
		}
		if only {
			s.add(i, first, sold[i].Kind, units, left)
			continue
		}
		for place := first; place < money.Currencies && left > 0; place++ {
			part := min(left, rest[place])
			if part == 0 {
				continue
			}
			share := units
			if part < left {
				hi, lo := bits.Mul64(uint64(units), uint64(part))
				q, _ := bits.Div64(hi, lo, uint64(left))
				share = int64(q)
			}
			s.add(i, place, sold[i].Kind, share, part)
			rest[place] -= part
			left -= part
			units -= share
		}
		s.add(i, first, sold[i].Kind, units, 0)
	}
}

// payer is the first currency that paid, and whether it is the only one. What
// cost nothing counts as USD.
func (r *record) payer() (first int, only bool) {
	first, only = money.InUSD, true
	for i := money.Currencies - 1; i >= 0; i-- {
		if r.amounts[i] > 0 {
			only = only && (first == money.InUSD && r.amounts[money.InUSD] == 0 || first == i)
			first = i
		}
	}
	return first, only
}
