package config

import (
	"maps"
	"slices"
	"strconv"
)

// VideoPrice is what quotes are computed from (addendum 10.2, 19.2), in USD as
// written, held as Each (1e-12 USD). Its tables go by resolution; the row `any` stands
// for those that have none of their own, and for models without resolutions. A price
// that no choice of a client can reach, and a choice without a price, are mistakes.
type VideoPrice struct {
	Free bool `yaml:"-"`
	// A second of the video; 0 to 100.
	Second map[string]Each `yaml:"second"`
	// A whole video; with durations in seconds and second:, of 1 gen only.
	Generation map[string]Each `yaml:"generation"`
	// A second where the client does without sound. Default: second.
	SecondSilent map[string]Each `yaml:"second_silent"`
	// A whole video where the client does without sound. Default: generation.
	GenerationSilent map[string]Each `yaml:"generation_silent"`
	// A second of the enlarged video, by the height of the result.
	Upscale []UpscaleBand `yaml:"upscale"`
	// Factor above 48 pictures a second, 1 to 10.
	FastFrames int64 `yaml:"fast_frames" default:"2"`
	// A second of all reference videos. Default: free.
	ReferenceSecond *Each `yaml:"reference_second"`
}

// UpscaleBand is the price of heights up to To, in lines of the picture. The last band
// has no To and holds for all heights above.
type UpscaleBand struct {
	// Height in lines up to which the price holds. The last entry has none.
	To int64 `yaml:"to"`
	// USD a second.
	Second Each `yaml:"second"`
}

func (p *VideoPrice) setFree() { p.Free = true }

// AnyResolution is the row of a price for all resolutions without a row.
const AnyResolution = "any"

// maxSecond is the highest price of a second: above is a slipped decimal point.
const maxSecond = maxEach / 100

// Whole says that a video of this duration is sold as one, not by its seconds.
func (p *VideoPrice) Whole(duration string) bool {
	return len(p.Second) == 0 || duration == OneGeneration
}

// Rate is the price of a video, or of a second of it, in a resolution.
func (p *VideoPrice) Rate(resolution, duration string, audio bool) (Each, bool) {
	table, silent := p.Second, p.SecondSilent
	if p.Whole(duration) {
		table, silent = p.Generation, p.GenerationSilent
	}
	if !audio {
		if each, ok := row(silent, resolution); ok {
			return each, true
		}
	}
	return row(table, resolution)
}

func row(table map[string]Each, resolution string) (Each, bool) {
	each, ok := table[resolution]
	if !ok {
		each, ok = table[AnyResolution]
	}
	return each, ok
}

// Enlarging is the price of a second of a video that comes out with this height.
func (p *VideoPrice) Enlarging(height int64, fast bool) Each {
	for _, band := range p.Upscale {
		if height <= band.To || band.To == 0 {
			if fast {
				return band.Second * Each(p.FastFrames)
			}
			return band.Second
		}
	}
	return 0
}

// sounds are the client's choices about sound.
func (c *VideoConstraints) sounds() []bool {
	if c.AudioConfigurable {
		return []bool{true, false}
	}
	return []bool{c.Audio}
}

func (vi *Video) checkPrice(v *validator, path string) {
	p, c := vi.Price, &vi.Constraints
	if p == nil {
		v.wrong(path, "a model without a price is not offered; expected what a video costs in USD, such as "+
			"second: { any: 0.05 }, or price: free if it is free")
		return
	}
	if p.Free || v.unread(path) {
		return
	}
	whole(v, path+".fast_frames", p.FastFrames, 1, 10)
	if e := p.ReferenceSecond; e != nil {
		v.second(path+".reference_second", *e)
		if vi.Inputs.ReferenceVideos == 0 {
			v.wrong(path+".reference_second",
				"the model accepts no reference videos; expected inputs: { reference_videos: … }, or no price")
		}
	}
	if vi.Upscales() {
		vi.checkUpscale(v, path)
		return
	}
	if len(p.Upscale) > 0 {
		v.wrong(path+".upscale", "the model enlarges nothing; expected inputs: { upscale_factors: … }, or no price")
	}
	for key, table := range map[string]map[string]Each{"second": p.Second, "second_silent": p.SecondSilent,
		"generation": p.Generation, "generation_silent": p.GenerationSilent} {
		at := path + "." + key
		for _, name := range slices.Sorted(maps.Keys(table)) {
			if name != AnyResolution && !slices.Contains(c.Resolutions, name) {
				v.wrongKey(join(at, name), "%s is not in constraints.resolutions; expected a resolution of the model, "+
					"or %s for all that have no price of their own", quote(name), AnyResolution)
				continue
			}
			v.second(join(at, name), table[name])
		}
	}
	if !c.AudioConfigurable && len(p.SecondSilent)+len(p.GenerationSilent) > 0 {
		v.wrong(path, "clients cannot switch audio off; expected constraints: { audio_configurable: true }, or no "+
			"prices without audio")
	}
	vi.checkVideoChoices(v, path)
}

// checkVideoChoices looks up every combination that a client can ask for.
func (vi *Video) checkVideoChoices(v *validator, path string) {
	p, c := vi.Price, &vi.Constraints
	total, whole := Each(0), false
	for _, resolution := range orNone(c.Resolutions) {
		for _, duration := range orNone(c.Durations) {
			whole = whole || p.Whole(duration)
			if !p.Whole(duration) && VideoSeconds(duration) == 0 && c.AutoSeconds == 0 {
				v.wrong(path+".second", "a video without a requested length has no price; expected "+
					"constraints: { auto_seconds: … }, the longest that the model makes")
				return
			}
			for _, audio := range c.sounds() {
				each, ok := p.Rate(resolution, duration, audio)
				if !ok {
					key, of := "second", ""
					if p.Whole(duration) {
						key = "generation"
					}
					if resolution != "" {
						of = " of " + resolution
					}
					v.wrong(path, "a video%s has no price; expected it below %s:, in USD, or %s: for all that have none "+
						"of their own", of, key, AnyResolution)
					return
				}
				total += each
			}
		}
	}
	if len(p.Generation) > 0 && !whole {
		v.wrong(path+".generation", "videos are priced by their seconds, so that this would never be charged; "+
			"expected one of both, or 1 gen among constraints.durations")
	}
	if total == 0 {
		v.wrong(path, "every price is 0; expected price: free if the model is free")
	}
}

// orNone is a list of the client's choices; an empty text stands for no choice.
func orNone(list []string) []string {
	if len(list) == 0 {
		return []string{""}
	}
	return list
}

func (vi *Video) checkUpscale(v *validator, path string) {
	p := vi.Price
	if len(p.Second)+len(p.Generation)+len(p.SecondSilent)+len(p.GenerationSilent) > 0 {
		v.wrong(path, "the model upscales videos, with prices by height; expected upscale: and none of "+
			"second:, generation: and prices without audio")
		return
	}
	n := len(p.Upscale)
	if n == 0 || n > maxChoices || p.Upscale[n-1].To != 0 {
		v.wrong(path+".upscale", "not every height has a price; expected 1 to %d entries such as { to: 1080, second: "+
			"0.025 }, and a last one without to: for all above", maxChoices)
		return
	}
	total := Each(0)
	for i, band := range p.Upscale {
		at := path + ".upscale[" + strconv.Itoa(i) + "]"
		v.second(at+".second", band.Second)
		if last := i == n-1; !last && (band.To < 1 || band.To > 100_000 || i > 0 && band.To <= p.Upscale[i-1].To) {
			v.wrong(at+".to", "%s does not follow the heights before it; expected rising numbers of lines up to 100000",
				v.shown(at+".to"))
		}
		total += band.Second
	}
	if total == 0 {
		v.wrong(path, "every price is 0; expected price: free if the model is free")
	}
}

func (v *validator) second(path string, e Each) {
	if e < 0 || e > maxSecond {
		v.wrong(path, "%s is out of range; expected 0 to 100 USD", v.shown(path))
	}
}

// dearer says whether anything that a client of the other model could ask for costs
// more here.
func (vi *Video) dearer(than Spec) bool {
	other := than.(*Video)
	a, b := vi.Price, other.Price
	switch {
	case a == nil || b == nil || a.Free:
		return false
	case b.Free, vi.Upscales() != other.Upscales():
		return true
	case dearerEach(a.ReferenceSecond, b.ReferenceSecond):
		return true
	}
	for _, band := range slices.Concat(a.Upscale, b.Upscale) {
		for _, height := range []int64{band.To, band.To + 1} {
			for _, fast := range []bool{false, true} {
				if height > 0 && a.Enlarging(height, fast) > b.Enlarging(height, fast) {
					return true
				}
			}
		}
	}
	return !vi.Upscales() && vi.dearerVideo(other)
}

// dearerVideo is dearer for films that are made of a prompt.
func (vi *Video) dearerVideo(other *Video) bool {
	for _, resolution := range orNone(other.Constraints.Resolutions) {
		mine := resolution
		if !slices.Contains(vi.Constraints.Resolutions, resolution) {
			mine = vi.Constraints.DefaultResolution
		}
		for _, duration := range orNone(other.Constraints.Durations) {
			for _, audio := range other.Constraints.sounds() {
				if vi.of(mine, duration, audio) > other.of(resolution, duration, audio) {
					return true
				}
			}
		}
	}
	return false
}

// of is the price of a whole video; 0 for a choice that the model does not have.
func (vi *Video) of(resolution, duration string, audio bool) Each {
	each, _ := vi.Price.Rate(resolution, duration, audio || !vi.Constraints.AudioConfigurable)
	if vi.Price.Whole(duration) {
		return each
	}
	return each * Each(vi.Constraints.Seconds(duration))
}

// Seconds are the billed seconds of a video of a duration.
func (c *VideoConstraints) Seconds(duration string) int64 {
	if n := VideoSeconds(duration); n > 0 && len(c.Durations) > 0 {
		return n
	}
	return c.AutoSeconds
}

// dearerEach compares prices that need not be there.
func dearerEach(a, b *Each) bool { return a != nil && *a > 0 && (b == nil || *a > *b) }
