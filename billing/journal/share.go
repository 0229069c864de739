package journal

import (
	"math/bits"

	"farebox/billing/money"
)

// Share is the part of a line that one currency paid.
type Share struct {
	Line, Place uint8
	Kind        money.Kind
	Units       int64
	Amount      money.Nano
}

// Shares are a charge by line and currency, in the order of the lines and then
// of spending; parts of nothing are left out. The request itself counts with the
// first currency that paid and the last line.
type Shares struct {
	First int        // place of the first currency that paid
	Last  money.Kind // of the last line
	n     int
	at    [money.MaxLines + money.Currencies]Share
}

// All are the shares, in order.
func (s *Shares) All() []Share { return s.at[:s.n] }

func (s *Shares) add(line, place int, kind money.Kind, units int64, amount money.Nano) {
	if units == 0 && amount == 0 {
		return
	}
	s.at[s.n] = Share{uint8(line), uint8(place), kind, units, amount}
	s.n++
}

// nothing replaces the lines of a charge without lines.
var nothing = []money.Line{{Kind: money.OutputTokens}}

// Sold are the lines of a charge, at least one.
func (r *Record) Sold() []money.Line {
	if sold := r.Lines.All(); len(sold) > 0 {
		return sold
	}
	return nothing
}

// Spread divides a charge among the currencies that paid it. Lines are paid in
// order, each from the first currency with something left, so that amounts add
// up exactly in both directions; units of a line that two currencies paid are
// divided as its amount is. Where the charge was not the sum of its lines (money
// ran out, no output, settled after a crash) the last lines give way.
func (r *Record) Spread(s *Shares) {
	sold := r.Sold()
	first, only := r.payer()
	s.First, s.Last, s.n = first, sold[len(sold)-1].Kind, 0
	rest, charged := r.Amounts, r.Amounts.Total()
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

// payer is the first currency that paid, and whether it is the only one. A charge of
// nothing counts as USD.
func (r *Record) payer() (first int, only bool) {
	first, only = money.InUSD, true
	for i := money.Currencies - 1; i >= 0; i-- {
		if r.Amounts[i] > 0 {
			only = only && (first == money.InUSD && r.Amounts[money.InUSD] == 0 || first == i)
			first = i
		}
	}
	return first, only
}
