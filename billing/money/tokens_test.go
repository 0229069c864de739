package money

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"farebox/config"
)

// drawPrice draws a price, with or without cache prices and an extended tier.
func drawPrice(t *rapid.T) *config.Price {
	pico := func(name string) config.Pico {
		return config.Pico(rapid.OneOf(rapid.Int64Range(0, 400_000_000), rapid.Int64Range(0, 2000),
			rapid.Int64Range(0, math.MaxInt64)).Draw(t, name))
	}
	cache := func(name string) *config.Pico {
		if !rapid.Bool().Draw(t, "has "+name) {
			return nil
		}
		p := pico(name)
		return &p
	}
	p := &config.Price{Input: pico("input"), Output: pico("output"), CacheRead: cache("read"),
		CacheWrite: cache("write")}
	if rapid.Bool().Draw(t, "extended") {
		p.Extended = &config.ExtendedPrice{
			Above: rapid.Int64Range(0, 1_000_000).Draw(t, "above"),
			Input: pico("xinput"), Output: pico("xoutput"), CacheRead: cache("xread"), CacheWrite: cache("xwrite"),
		}
	}
	return p
}

func drawTokens(t *rapid.T, name string) int64 {
	return rapid.OneOf(rapid.Int64Range(0, 2_000_000), rapid.Int64Range(0, 3), rapid.Int64Range(0, math.MaxInt64)).
		Draw(t, name)
}

// exactCost is addendum 19.2 in unbounded numbers.
func exactCost(p *config.Price, u Usage) Nano {
	in, out, read, write := p.Input, p.Output, p.CacheRead, p.CacheWrite
	if x := p.Extended; x != nil && u.Prompt > x.Above {
		in, out, read, write = x.Input, x.Output, x.CacheRead, x.CacheWrite
	}
	if read == nil {
		read = &in
	}
	if write == nil {
		write = &in
	}
	sum := new(big.Int)
	line := func(units int64, price config.Pico) {
		v := new(big.Int).Mul(big.NewInt(units), big.NewInt(int64(price)))
		v.Add(v, big.NewInt(999)).Quo(v, big.NewInt(1000))
		sum.Add(sum, v)
	}
	line(u.Prompt-u.Cached-u.CacheWrite, in)
	line(u.Cached, *read)
	line(u.CacheWrite, *write)
	line(u.Completion, out)
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return Nano(sum.Int64())
}

func drawUsage(t *rapid.T, prompt, completion int64) Usage {
	cached := rapid.Int64Range(0, prompt).Draw(t, "cached")
	return Usage{
		Prompt: prompt, Cached: cached, CacheWrite: rapid.Int64Range(0, prompt-cached).Draw(t, "written"),
		Completion: completion,
	}
}

// "I was billed for cached tokens twice", "the price of a fraction of a cent was lost."
func TestCostIsTheSumOfItsLinesToTheNano(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPrice(t)
		u := drawUsage(t, drawTokens(t, "prompt"), drawTokens(t, "completion"))
		if got, want := textCost(p, u), exactCost(p, u); got != want {
			t.Fatalf("cost of %+v at %+v: %d, exactly %d", u, p, got, want)
		}
	})
}

// "The hold was smaller than what the request came to."
func TestWorstCoversEveryUsageWithinIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPrice(t)
		prompt, completion := drawTokens(t, "prompt"), drawTokens(t, "completion")
		worst := Worst(p, prompt, completion)
		u := drawUsage(t, rapid.Int64Range(0, prompt).Draw(t, "used prompt"),
			rapid.Int64Range(0, completion).Draw(t, "used completion"))
		if got := textCost(p, u); got > worst {
			t.Fatalf("worst of %d and %d tokens at %+v is %d, but %+v costs %d", prompt, completion, p, worst, u, got)
		}
	})
}

// "My balance bought fewer tokens than the price list says", "or more."
func TestAffordsIsTheLargestCompletionThatRestPaysFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPrice(t)
		// no balance is larger, and costs end at the largest int64
		rest := min(Nano(drawTokens(t, "rest")), 9_000_000_000_000_000_000)
		n := Affords(p, rest)
		if n == math.MaxInt64 {
			return
		}
		if got := Worst(p, 0, n); got > rest {
			t.Fatalf("%d tokens cost %d, more than %d", n, got, rest)
		}
		if got := Worst(p, 0, n+1); got <= rest {
			t.Fatalf("%d tokens cost %d, within %d, but only %d were affordable", n+1, got, rest, n)
		}
	})
}

func TestCostOfTheSpecificationsExample(t *testing.T) {
	read := config.Pico(286_000)
	p := &config.Price{Input: 1_540_000, Output: 4_840_000, CacheRead: &read}
	if got := textCost(p, Usage{Prompt: 10_000, Cached: 4_000, Completion: 500}); got != 12_804_000 {
		t.Errorf("cost is %s USD, the specification says 0.012804", got)
	}
	p.Extended = &config.ExtendedPrice{Above: 9_999, Input: 3_080_000, Output: 9_680_000}
	if got := textCost(p, Usage{Prompt: 10_000, Completion: 500}); got != 35_640_000 {
		t.Errorf("the extended tier gives %s USD, expected 0.03564", got)
	}
}

// "The upstream reported -5 tokens and I was paid for it."
func TestImpossibleUsageNeitherPaysNorPanics(t *testing.T) {
	p := &config.Price{Input: 1_000_000, Output: 2_000_000}
	for _, u := range []Usage{
		{Prompt: -5, Completion: -5},
		{Prompt: 10, Cached: 50, CacheWrite: 50, Completion: -1},
		{Prompt: math.MinInt64, Cached: math.MaxInt64, CacheWrite: math.MaxInt64, Completion: math.MinInt64},
	} {
		if got := textCost(p, u); got < 0 || got > 10_000 {
			t.Errorf("cost of %+v is %d", u, got)
		}
	}
	if got := Worst(p, -1, -1); got != 0 {
		t.Errorf("worst of negative tokens is %d", got)
	}
	if got := Affords(p, -1); got != 0 {
		t.Errorf("a debt affords %d tokens", got)
	}
	free := &config.Price{Free: true}
	if textCost(free, Usage{Prompt: 100, Completion: 100}) != 0 || Worst(free, 100, 100) != 0 ||
		Affords(free, 0) != math.MaxInt64 {
		t.Error("a free model costs something")
	}
}

func textCost(p *config.Price, u Usage) Nano {
	sold := Text(p, u)
	return sold.Cost()
}
