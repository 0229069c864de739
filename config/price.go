package config

// Price of a text or embedding model in USD per 1,000,000 tokens as written,
// held as Pico (1e-12 USD) per token. A missing cache price is the input price.
type Price struct {
	Free bool `yaml:"-"`
	// Prompt tokens. Required.
	Input Pico `yaml:"input"`
	// Completion tokens. Required for text; free, if they cost nothing.
	Output Pico `yaml:"output"`
	// Prompt tokens that are read from the cache. Default: input.
	CacheRead *Pico `yaml:"cache_read"`
	// Prompt tokens that are written to the cache. Default: input.
	CacheWrite *Pico `yaml:"cache_write"`
	// Prices of the whole request when its prompt is longer. Default: none.
	Extended *ExtendedPrice `yaml:"extended"`
	// Unusual prices are meant: below 0.001, above 1000, or in an unusual proportion to each other.
	Confirmed bool `yaml:"confirmed"`
}

// ExtendedPrice replaces the prices of the whole request when its prompt has
// more than Above tokens (addendum 19.2).
type ExtendedPrice struct {
	// Prompt tokens above which these prices hold, below context_tokens. Required.
	Above int64 `yaml:"above"`
	// Prompt tokens. Required.
	Input Pico `yaml:"input"`
	// Completion tokens. Required for text.
	Output Pico `yaml:"output"`
	// Prompt tokens that are read from the cache. Default: input.
	CacheRead *Pico `yaml:"cache_read"`
	// Prompt tokens that are written to the cache. Default: input.
	CacheWrite *Pico `yaml:"cache_write"`
}

// priced is a price that can be written as `price: free`.
type priced interface{ setFree() }

func (p *Price) setFree() { p.Free = true }

const (
	maxTokenSpan = 100_000_000
	leastPrice   = Pico(1000)                // 0.001 USD per 1,000,000 tokens: below is the price of a token, as LiteLLM writes it
	dearPrice    = Pico(1000 * 1_000_000)    // 1000 USD per 1,000,000 tokens: above is more than any model costs
	maxPrice     = Pico(100_000 * 1_000_000) // 100,000 USD per 1,000,000 tokens: above is a slipped decimal point
)

// tokenPrice checks the price of tokens; context is the size of the context
// that prompts must fit in, 0 if absent.
func (v *validator) tokenPrice(path string, p *Price, output bool, context int64) {
	if p == nil {
		v.wrong(path, "a model without a price is not offered; expected input: and output: in USD per 1,000,000 "+
			"tokens, "+
			"or price: free if it is free")
		return
	}
	if p.Free {
		return
	}
	v.rates(path, output, p.Confirmed, p.Input, p.Output, p.CacheRead, p.CacheWrite)
	if v.has(path+".input") && p.Input == 0 && p.Output == 0 && !v.bad[path+".input"] && !v.bad[path+".output"] {
		v.wrong(path, "every price is 0; expected price: free if the model is free")
	}
	e := p.Extended
	if e == nil {
		return
	}
	above := path + ".extended.above"
	if !v.has(above) {
		v.wrong(above, "the prices for long prompts need the number of prompt tokens they begin above; expected "+
			"above: from 1 to %d", maxTokenSpan)
	} else {
		whole(v, above, e.Above, 1, maxTokenSpan)
	}
	if context > 0 && e.Above >= context && e.Above <= maxTokenSpan {
		v.wrong(above, "%s is not below context_tokens (%d), so that no prompt could reach it; expected less",
			v.shown(above), context)
	}
	v.rates(path+".extended", output, p.Confirmed, e.Input, e.Output, e.CacheRead, e.CacheWrite)
}

func (v *validator) rates(path string, output, confirmed bool, in, out Pico, read, write *Pico) {
	if !v.has(path + ".input") {
		v.wrong(path+".input", "the price of input tokens is missing; expected input: in USD per 1,000,000 tokens")
	}
	if output && !v.has(path+".output") {
		v.wrong(path+".output", "the price of output tokens is missing; expected output: in USD per 1,000,000 tokens")
	}
	if output && v.has(path+".output") && out == 0 && in > 0 && v.at[path+".output"].node.text != freeRate {
		v.wrong(path+".output", "output tokens would be free while input tokens cost %s USD per 1,000,000; "+
			"expected their price, or output: free if that is meant", in.PerMillion())
	}
	for key, p := range map[string]*Pico{"input": &in, "output": &out, "cache_read": read, "cache_write": write} {
		if p != nil && *p > maxPrice {
			v.wrong(path+"."+key, "%s is out of range; expected 0 to %s USD per 1,000,000 tokens",
				v.shown(path+"."+key), maxPrice.PerMillion())
		} else if p != nil && *p > 0 && *p < leastPrice && !confirmed {
			v.wrong(path+"."+key, "%s USD per 1,000,000 tokens looks like the price of one token; expected %s, or "+
				"confirmed: true beside it if it is meant", p.PerMillion(), (*p * 1_000_000).PerMillion())
		}
	}
	if !confirmed {
		v.doubtRates(path, in, out, read, write)
	}
}

// dearer says whether any token of a costs more than with b.
func dearer(a, b *Price) bool {
	if a == nil || b == nil || a.Free {
		return false
	}
	cache := func(p *Price, own *Pico) Pico {
		if own != nil {
			return *own
		}
		return p.Input
	}
	if a.Input > b.Input || a.Output > b.Output ||
		cache(a, a.CacheRead) > cache(b, b.CacheRead) || cache(a, a.CacheWrite) > cache(b, b.CacheWrite) {
		return true
	}
	return a.Extended != nil && dearer(a.Extended.price(), b.long()) || a.Extended == nil && b.Extended != nil &&
		dearer(a, b.long())
}

// price is the extended tier as a price of its own.
func (e *ExtendedPrice) price() *Price {
	return &Price{Input: e.Input, Output: e.Output, CacheRead: e.CacheRead, CacheWrite: e.CacheWrite}
}

// long is the price of long prompts: the extended tier, or the usual price.
func (p *Price) long() *Price {
	if p.Extended == nil {
		return &Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
	}
	return p.Extended.price()
}
