package billing

import (
	"math"
	"math/bits"

	"farebox/billing/money"
	"farebox/config"
)

// Usage is what a request used. Cached and CacheWrite are parts of Prompt,
// Reasoning is a part of Completion and billed as output.
type Usage struct {
	Prompt, Cached, CacheWrite, Completion, Reasoning int64
	Seen                                              bool // the upstream reported it
	Estimated                                         bool // we counted
}

// The lines of a charge: disjoint classes of tokens, each with its own price
// (addendum 19.2). The order is stored.
const (
	lineInput = iota
	lineCacheRead
	lineCacheWrite
	lineOutput
	lineCount
)

// picoPerNano is the scale between prices and amounts.
const picoPerNano = 1000

// lines holds one number for each line: units, prices or amounts.
type lines [lineCount]int64

// Cost is the price of a usage (addendum 19.2). Each line is rounded up to 1
// nano. Impossible usage (negative, parts larger than the whole) is cut to
// what is possible; an amount beyond int64 stays at its end.
func Cost(p *config.Price, u Usage) Nano {
	if p == nil || p.Free {
		return 0
	}
	units, prices := u.lines(), pricesFor(p, u.Prompt)
	var sum Nano
	for i := range units {
		sum = money.AddNano(sum, lineCost(units[i], prices[i]))
	}
	return sum
}

// Worst is the most that a request with up to prompt prompt tokens and up to
// completion completion tokens can cost, whichever classes and tier apply. A
// prompt of 0 stands for one whose size is not known: more completion tokens
// of a request that has been held for already.
func Worst(p *config.Price, prompt, completion int64) Nano {
	if p == nil || p.Free {
		return 0
	}
	prompt, completion = max(0, prompt), max(0, completion)
	base := basePrices(p)
	in, out := dearestInput(&base), base[lineOutput]
	rounding := roundingSlack(&base)
	if x := p.Extended; x != nil && (prompt == 0 || prompt > x.Above) {
		extended := extendedPrices(x)
		in, out = max(in, dearestInput(&extended)), max(out, extended[lineOutput])
		rounding = max(rounding, roundingSlack(&extended))
	}
	worst := money.AddNano(lineCost(prompt, in), lineCost(completion, out))
	if prompt > 1 {
		worst = money.AddNano(worst, min(rounding, Nano(prompt-1)))
	}
	return worst
}

// Affords is how many completion tokens rest pays for, at the dearest tier.
func Affords(p *config.Price, rest Nano) int64 {
	if p == nil || p.Free {
		return math.MaxInt64
	}
	price := p.Output
	if p.Extended != nil {
		price = max(price, p.Extended.Output)
	}
	if price <= 0 {
		return math.MaxInt64
	}
	if rest <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(rest), picoPerNano)
	if hi >= uint64(price) {
		return math.MaxInt64
	}
	tokens, _ := bits.Div64(hi, lo, uint64(price))
	return int64(min(tokens, math.MaxInt64))
}

// lines are the disjoint classes of u.
func (u *Usage) lines() lines {
	prompt := max(0, u.Prompt)
	cached := min(max(0, u.Cached), prompt)
	written := min(max(0, u.CacheWrite), prompt-cached)
	return lines{lineInput: prompt - cached - written, lineCacheRead: cached, lineCacheWrite: written, lineOutput: max(0, u.Completion)}
}

// pricesFor are the prices in pico a token for a request with this prompt: the
// extended tier replaces all of them.
func pricesFor(p *config.Price, prompt int64) lines {
	if p == nil || p.Free {
		return lines{}
	}
	if p.Extended != nil && prompt > p.Extended.Above {
		return extendedPrices(p.Extended)
	}
	return basePrices(p)
}

func basePrices(p *config.Price) lines {
	return makePrices(p.Input, p.Output, p.CacheRead, p.CacheWrite)
}

func extendedPrices(x *config.ExtendedPrice) lines {
	return makePrices(x.Input, x.Output, x.CacheRead, x.CacheWrite)
}

// makePrices fills in that a missing cache price is the input price.
func makePrices(in, out config.Pico, read, write *config.Pico) lines {
	l := lines{lineInput: int64(in), lineCacheRead: int64(in), lineCacheWrite: int64(in), lineOutput: int64(out)}
	if read != nil {
		l[lineCacheRead] = int64(*read)
	}
	if write != nil {
		l[lineCacheWrite] = int64(*write)
	}
	return l
}

func dearestInput(prices *lines) int64 {
	return max(prices[lineInput], prices[lineCacheRead], prices[lineCacheWrite])
}

// roundingSlack is how much more than one line of all prompt tokens the three
// input lines can cost, since each is rounded up for itself. Prices in whole
// nano a token round nothing.
func roundingSlack(prices *lines) Nano {
	for _, price := range prices[:lineOutput] {
		if price%picoPerNano != 0 {
			return 2
		}
	}
	return 0
}

// lineCost is ceil(units x price / 1000), at most MaxInt64.
func lineCost(units, price int64) Nano {
	l := money.Line{Units: units, Price: money.Pico(price)}
	return l.Cost()
}
