package image

import (
	"testing"

	"farebox/config"
)

// The prices are those of the published sample; every charge is exact.
func TestImageSales(t *testing.T) {
	each := func(usd string) config.Each {
		e, err := config.ParseEach(usd)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	at := func(usd string) *config.Each { e := each(usd); return &e }
	tiers := &config.ImagePrice{
		Generation:  at("0.3"),
		Resolutions: map[string]config.Each{"1K": each("0.27"), "2K": each("0.51")},
		Quality:     map[string]map[string]config.Each{"1K": {"low": each("0.02"), "high": each("0.26")}},
		WebSearch:   at("0.01"),
	}
	edit := &config.ImagePrice{
		Inpaint: at("0.34"), InputImages: &config.InputImages{Included: 1, Additional: each("0.0092")},
	}
	upscale := &config.ImagePrice{Upscale: map[string]config.Each{"2x": each("0.02"), "4x": each("0.08")}}
	own := &config.ImagePrice{Generation: at("0.01"), Upscale: upscale.Upscale}
	one := &config.ImagePrice{
		Quality: map[string]map[string]config.Each{"1K": {"low": each("0.02"), "high": each("0.26")}},
	}
	tiny := &config.ImagePrice{Generation: at("0.000000000001")}
	free := &config.ImagePrice{Free: true}
	for name, c := range map[string]struct {
		sale      imageSale
		delivered int64
		usd       string
	}{
		"quality before resolution":     {imageSale{Price: tiers, Resolution: "1K", Quality: "high"}, 1, "0.26"},
		"four of them":                  {imageSale{Price: tiers, Resolution: "1K", Quality: "low"}, 4, "0.08"},
		"no price for the quality":      {imageSale{Price: tiers, Resolution: "2K", Quality: "low"}, 1, "0.51"},
		"no price for the resolution":   {imageSale{Price: tiers, Resolution: "4K"}, 1, "0.3"},
		"searched once for all of them": {imageSale{Price: tiers, Resolution: "2K", WebSearch: true}, 3, "1.54"},
		"rewritten once for all": {imageSale{Price: tiers, Resolution: "2K", WebSearch: true, Rewritten: true,
			RewritePrice: each("0.04")}, 3, "1.58"},
		"rewritten and blocked": {imageSale{Price: tiers, Resolution: "2K", Rewritten: true,
			RewritePrice: each("0.04")}, 0, "0"},
		"not rewritten after all": {imageSale{Price: edit, Inputs: 4, RewritePrice: each("0.04")}, 1, "0.3676"},
		"rewritten with more inputs": {imageSale{Price: edit, Inputs: 4, Rewritten: true, RewritePrice: each("0.04")},
			1, "0.4076"},
		"rewritten for free pictures": {imageSale{Price: free, Rewritten: true, RewritePrice: each("0.04")}, 4,
			"0.04"},
		"rewritten for nothing":        {imageSale{Price: tiers, Resolution: "1K", Rewritten: true}, 1, "0.27"},
		"all blocked":                  {imageSale{Price: tiers, Resolution: "2K", WebSearch: true}, 0, "0"},
		"one row of qualities":         {imageSale{Price: one, Quality: "high"}, 1, "0.26"},
		"one input is included":        {imageSale{Price: edit, Inputs: 1}, 1, "0.34"},
		"three more inputs":            {imageSale{Price: edit, Inputs: 4}, 1, "0.3676"},
		"twice as large":               {imageSale{Price: upscale, Scale: 2}, 1, "0.02"},
		"between two factors":          {imageSale{Price: upscale, Scale: 2.5}, 1, "0.08"},
		"not larger":                   {imageSale{Price: upscale, Scale: 1}, 1, "0.02"},
		"not larger, at its own price": {imageSale{Price: own, Scale: 1}, 1, "0.01"},
		"less than a nano":             {imageSale{Price: tiny}, 1, "0.000000001"},
		"free":                         {imageSale{Price: free}, 4, "0"},
	} {
		if got := c.sale.Cost(c.delivered).String(); got != c.usd {
			t.Errorf("%s: %d pictures cost %s, want %s", name, c.delivered, got, c.usd)
		}
	}
}
