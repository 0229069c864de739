package money

import (
	"math"
	"math/bits"

	"farebox/config"
)

// Usage is the use of a request for text, in tokens. Cached and CacheWrite are
// parts of Prompt.
type Usage struct {
	Prompt, Cached, CacheWrite, Completion int64
}

// tiered are the prices of one tier, in pico a token.
type tiered struct{ input, cacheRead, cacheWrite, output Pico }

// Text are the lines of a usage (addendum 19.2): disjoint classes of tokens,
// each with its own price. There is one of output at least, even where there was
// none. Impossible usage (negative, parts larger than the whole) is cut to the
// possible range.
func Text(p *config.Price, u Usage) (l Lines) {
	t := pricesFor(p, u.Prompt)
	input, cached, written := u.prompt()
	if input > 0 {
		l.Add(InputTokens, input, t.input)
	}
	if cached > 0 {
		l.Add(CacheReadTokens, cached, t.cacheRead)
	}
	if written > 0 {
		l.Add(CacheWriteTokens, written, t.cacheWrite)
	}
	l.Add(OutputTokens, u.Completion, t.output)
	return l
}

// Embedding are the lines of a usage without output.
func Embedding(p *config.Price, u Usage) (l Lines) {
	t := pricesFor(p, u.Prompt)
	input, cached, written := u.prompt()
	l.Add(EmbeddingTokens, input, t.input)
	if cached > 0 {
		l.Add(EmbeddingCacheTokens, cached, t.cacheRead)
	}
	if written > 0 {
		l.Add(EmbeddingStoredTokens, written, t.cacheWrite)
	}
	return l
}

// Worst is the most that a request with up to prompt prompt tokens and up to
// completion completion tokens can cost, whichever classes and tier apply. A
// prompt of 0 has an unknown size: it is for more completion tokens of a request
// that is held already.
func Worst(p *config.Price, prompt, completion int64) Nano {
	if p == nil || p.Free {
		return 0
	}
	prompt, completion = max(0, prompt), max(0, completion)
	base := basePrices(p)
	in, out := base.dearestInput(), base.output
	rounding := base.roundingSlack()
	if x := p.Extended; x != nil && (prompt == 0 || prompt > x.Above) {
		extended := extendedPrices(x)
		in, out = max(in, extended.dearestInput()), max(out, extended.output)
		rounding = max(rounding, extended.roundingSlack())
	}
	worst := AddNano(cost(prompt, in), cost(completion, out))
	if prompt > 1 {
		worst = AddNano(worst, min(rounding, Nano(prompt-1)))
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

// prompt divides the prompt into disjoint classes.
func (u *Usage) prompt() (input, cached, written int64) {
	prompt := max(0, u.Prompt)
	cached = min(max(0, u.Cached), prompt)
	written = min(max(0, u.CacheWrite), prompt-cached)
	return prompt - cached - written, cached, written
}

// pricesFor are the prices for a request with this prompt: the extended tier
// replaces all of them.
func pricesFor(p *config.Price, prompt int64) tiered {
	if p == nil || p.Free {
		return tiered{}
	}
	if p.Extended != nil && prompt > p.Extended.Above {
		return extendedPrices(p.Extended)
	}
	return basePrices(p)
}

func basePrices(p *config.Price) tiered {
	return makePrices(p.Input, p.Output, p.CacheRead, p.CacheWrite)
}

func extendedPrices(x *config.ExtendedPrice) tiered {
	return makePrices(x.Input, x.Output, x.CacheRead, x.CacheWrite)
}

// makePrices fills in that a missing cache price is the input price.
func makePrices(in, out Pico, read, write *Pico) tiered {
	t := tiered{input: in, cacheRead: in, cacheWrite: in, output: out}
	if read != nil {
		t.cacheRead = *read
	}
	if write != nil {
		t.cacheWrite = *write
	}
	return t
}

func (t *tiered) dearestInput() Pico { return max(t.input, t.cacheRead, t.cacheWrite) }

// roundingSlack is how much more than one line of all prompt tokens the three
// input lines can cost, since each is rounded up for itself. Prices in whole
// nano a token round nothing.
func (t *tiered) roundingSlack() Nano {
	if t.input%picoPerNano == 0 && t.cacheRead%picoPerNano == 0 && t.cacheWrite%picoPerNano == 0 {
		return 0
	}
	return 2
}
