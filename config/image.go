package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Image is the Spec of a model that makes or changes pictures (interface.md,
// Images; addendum 7 and 8).
type Image struct {
	// The model's features.
	Capabilities ImageCapabilities `yaml:"capabilities"`
	// The model's limits. Lists that are empty mean that clients cannot choose.
	Constraints ImageConstraints `yaml:"constraints"`
	// USD of one picture or edit, at most 12 decimals, 0 to 10000. Everything that clients may choose needs a price.
	// Required; write price: free if it is free.
	Price *ImagePrice `yaml:"price"`

	typ string // one of imageKinds
}

// ImageCapabilities are the features of a model of pictures.
type ImageCapabilities struct {
	// It has no meaning for pictures and may be written.
	Files bool `yaml:"files"`
	// It searches the web for the picture: enable_web_search.
	WebSearch bool `yaml:"web_search" only:"image"`
	// Clients may have prompts rewritten without reasoning: disable_prompt_optimization_thinking.
	OptimizePromptThinking bool `yaml:"optimize_prompt_thinking" only:"image inpaint"`
}

// ImageConstraints are the limits of a model of pictures (addendum 7.4). Lists that are empty
// mean that the client cannot choose.
type ImageConstraints struct {
	// Longest prompt in characters; 0 stands for the default. Default 1500.
	PromptCharacters int64 `yaml:"prompt_characters" range:"1..32768|0" only:"image inpaint"`
	// Steps of a diffusion model.
	Steps Steps `yaml:"steps" only:"image"`
	// Width and height are multiples of it.
	SizeDivisor int64 `yaml:"size_divisor" zero:"1" range:"1..1024" only:"image"`

	// Ratios in quotes such as "16:9", or auto. Default: clients give width and height.
	AspectRatios []string `yaml:"aspect_ratios" most:"32 values" only:"image inpaint"`
	// Ratio when the client names none. Default: the first.
	DefaultAspectRatio string `yaml:"default_aspect_ratio" only:"image"`
	// Resolutions such as 1K. Default: clients cannot choose.
	Resolutions []string `yaml:"resolutions" most:"32 values" only:"image inpaint"`
	// Resolution when the client names none. Default: the first.
	DefaultResolution string `yaml:"default_resolution" only:"image inpaint"`
	// Qualities. Default: clients cannot choose.
	Qualities []string `yaml:"qualities" most:"32 values" oneof:"low medium high" unique:"value" only:"image inpaint"`
	// Quality when the client names none. Default: the first.
	DefaultQuality string `yaml:"default_quality" only:"image inpaint"`

	// Style references of a request; 0: none.
	MaxStyleReferences int `yaml:"max_style_references" default:"0" range:"0..64" only:"image"`
	// Clients may set the strength of style references.
	StyleReferenceStrength bool `yaml:"style_reference_strength" only:"image"`

	// Pictures of a request; 0 stands for the default. Default 3.
	MaxInputImages int `yaml:"max_input_images" range:"1..64|0" only:"inpaint"`
	// aspect_ratio counts for a single picture, too. Default true.
	SingleImageAspectRatio *bool `yaml:"single_image_aspect_ratio" only:"inpaint"`
}

// Steps of a diffusion model; Max 0: the client cannot choose.
type Steps struct {
	// Steps when the client names none, 0 to max.
	Default int64 `yaml:"default" default:"0"`
	// Most steps; 0: clients cannot choose.
	Max int64 `yaml:"max" default:"0" range:"0..1000"`
}

// PixelSized says that clients give width and height instead of an aspect
// ratio or a resolution.
func (c *ImageConstraints) PixelSized() bool { return len(c.AspectRatios)+len(c.Resolutions) == 0 }

// ImagePrice is the price of one picture or one edit in USD as written, held as Each (1e-12 USD).
// A price that no choice of the client can reach, and a choice without a price, are mistakes.
type ImagePrice struct {
	Free bool `yaml:"-"`
	// A picture without a price below; for upscale a scale of 1, by default as 2x.
	Generation *Each `yaml:"generation" only:"image upscale background_removal"`
	// An edit without a price below.
	Inpaint *Each `yaml:"inpaint" only:"inpaint"`
	// By resolution.
	Resolutions map[string]Each `yaml:"resolutions" only:"image inpaint"`
	// By resolution and quality. It goes before the prices above.
	Quality map[string]map[string]Each `yaml:"quality" only:"image inpaint"`
	// By factor: 2x for scales up to 2, 4x above.
	Upscale map[string]Each `yaml:"upscale" only:"upscale"`
	// Pictures beyond those included. Default: free.
	InputImages *InputImages `yaml:"input_images" only:"inpaint"`
	// A request that asks for a search of the web. Needed with web_search: true.
	WebSearch *Each `yaml:"web_search" only:"image"`
}

// InputImages is the price of input pictures.
type InputImages struct {
	// Pictures that the price of an edit includes, 1 to 64.
	Included int64 `yaml:"included"`
	// USD of each further picture. Required.
	Additional Each `yaml:"additional"`
}

// Base is the price of one picture in a resolution and quality (empty: the
// model has none to choose from), or of one edit.
func (p *ImagePrice) Base(resolution, quality string) (Each, bool) {
	if quality != "" {
		// Without resolutions there is one row, whatever it is called.
		if resolution == "" && len(p.Quality) == 1 {
			for _, row := range p.Quality {
				each, ok := row[quality]
				return each, ok
			}
		}
		if each, ok := p.Quality[resolution][quality]; ok {
			return each, true
		}
	}
	if each, ok := p.Resolutions[resolution]; ok && resolution != "" {
		return each, true
	}
	for _, flat := range []*Each{p.Generation, p.Inpaint} {
		if flat != nil {
			return *flat, true
		}
	}
	return 0, false
}

// Factor is the price of enlarging by a scale: 1 is the price of 2x unless it
// has its own, above 2 it is that of 4x (addendum 8.4).
func (p *ImagePrice) Factor(scale float64) Each {
	switch {
	case scale <= 1 && p.Generation != nil:
		return *p.Generation
	case scale <= 2:
		return p.Upscale["2x"]
	}
	return p.Upscale["4x"]
}

const (
	maxChoices     = 32                               // aspect ratios or resolutions of a model
	maxEach        = Each(10_000 * 1_000_000_000_000) // 10,000 USD for a picture: above is a slipped decimal point
	maxInputImages = 64
	maxOptions     = 32

	// defaultPromptCharacters is the cap of a prompt where the model has none
	// of its own (interface.md, Limits), maxPromptCharacters that of the
	// endpoint with the highest one.
	defaultPromptCharacters = 1500
	maxPromptCharacters     = 32768
	defaultInputImages      = 3 // addendum 7.4
)

var (
	aspectRatio = regexp.MustCompile(`^(?:auto|[1-9][0-9]{0,2}:[1-9][0-9]{0,2})$`)
	resolution  = regexp.MustCompile(`^[0-9A-Za-z.]{1,10}$`) // addendum 8.5
	factors     = []string{"2x", "4x"}
)

// imageKinds are the types of models of pictures: image generates, inpaint
// edits, upscale enlarges, background_removal cuts out.
var imageKinds = []kind{imageKind("image"), imageKind("inpaint"), imageKind("upscale"), imageKind("background_removal")}

func imageKind(name string) kind {
	return kind{name, "image", Rate{RPM: 20}, func() Spec { return filledSpec(&Image{typ: name}) }}
}

func (p *ImagePrice) setFree() { p.Free = true }

// Text is false: the answers are pictures.
func (i *Image) Text() bool { return false }

// Free says that `price: free` is written.
func (i *Image) Free() bool { return i.Price != nil && i.Price.Free }

func (i *Image) complete(*Model) {
	c := &i.Constraints
	if c.PromptCharacters == 0 && (i.typ == "image" || i.typ == "inpaint") {
		c.PromptCharacters = defaultPromptCharacters
	}
	first := func(value *string, list []string) {
		if *value == "" && len(list) > 0 {
			*value = list[0]
		}
	}
	first(&c.DefaultAspectRatio, c.AspectRatios)
	first(&c.DefaultResolution, c.Resolutions)
	first(&c.DefaultQuality, c.Qualities)
	if i.typ == "inpaint" {
		if c.MaxInputImages == 0 {
			c.MaxInputImages = defaultInputImages
		}
		if c.SingleImageAspectRatio == nil {
			yes := true
			c.SingleImageAspectRatio = &yes
		}
	}
}

func (i *Image) check(v *validator, path string, _ *Model) {
	i.checkConstraints(v, path+".constraints")
	i.checkPrice(v, path+".price")
}

func (i *Image) checkConstraints(v *validator, path string) {
	c := &i.Constraints
	whole(v, path+".steps.default", c.Steps.Default, 0, max(c.Steps.Max, 0))
	if c.StyleReferenceStrength && c.MaxStyleReferences == 0 {
		v.wrong(path+".style_reference_strength",
			"the model accepts no style references; expected max_style_references: too")
	}
	v.choices(path+".aspect_ratios", c.AspectRatios, aspectRatio.MatchString,
		"expected a ratio in quotes, such as \"16:9\", or auto")
	v.choices(path+".resolutions", c.Resolutions, resolution.MatchString, "expected 1 to 10 letters and digits, such as 1K")
	v.standard(path, "default_aspect_ratio", c.DefaultAspectRatio, "aspect_ratios", c.AspectRatios)
	v.standard(path, "default_resolution", c.DefaultResolution, "resolutions", c.Resolutions)
	v.standard(path, "default_quality", c.DefaultQuality, "qualities", c.Qualities)
}

// choices checks the values of a list that clients may choose from.
func (v *validator) choices(path string, list []string, good func(string) bool, expected string) {
	for i, value := range list {
		item := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case !good(value):
			v.wrong(item, "%s is not known; %s", v.shown(item), expected)
		case slices.Contains(list[:i], value):
			v.wrong(item, "%s is listed already; expected every value once", quote(value))
		}
	}
}

// standard checks the default of a list that clients may choose from.
func (v *validator) standard(path, standardKey, standard, key string, list []string) {
	at := path + "." + standardKey
	switch {
	case standard == "" || v.ruledOut[path+"."+key]:
	case len(list) == 0:
		v.wrong(at, "a default needs %s; expected the list of possible values too", key)
	case !slices.Contains(list, standard):
		v.wrong(at, "%s is not in %s; expected %s", v.shown(at), key, choice(list))
	}
}

// unread says whether something below path could not be read.
func (v *validator) unread(path string) bool {
	for bad := range v.bad {
		if strings.HasPrefix(bad, path+".") && !v.ruledOut[bad] {
			return true
		}
	}
	return false
}

// checkPrice checks that everything a client may choose has a price, and that
// every price can be reached.
func (i *Image) checkPrice(v *validator, path string) {
	p, c := i.Price, &i.Constraints
	if p == nil {
		v.wrong(path, "a model without a price is not offered; expected what a picture costs in USD, "+
			"such as generation: 0.04, or price: free if it is free")
		return
	}
	if p.Free || v.unread(path) {
		return
	}
	for key, each := range map[string]*Each{"generation": p.Generation, "inpaint": p.Inpaint,
		"web_search": p.WebSearch} {
		if each != nil {
			v.each(path+"."+key, *each)
		}
	}
	v.priceKeys(path+".resolutions", p.Resolutions, c.Resolutions, "constraints.resolutions")
	rows := c.Resolutions
	if len(rows) == 0 && len(p.Quality) == 1 {
		rows = slices.Collect(maps.Keys(p.Quality)) // one row, whatever it is called
	}
	for _, row := range slices.Sorted(maps.Keys(p.Quality)) {
		at := join(path+".quality", row)
		if !slices.Contains(rows, row) {
			v.wrongKey(at, "%s is not in constraints.resolutions; expected a resolution of the model", quote(row))
			continue
		}
		v.priceKeys(at, p.Quality[row], c.Qualities, "constraints.qualities")
	}
	if in := p.InputImages; in != nil {
		whole(v, path+".input_images.included", in.Included, 1, maxInputImages)
		v.each(path+".input_images.additional", in.Additional)
		if !v.has(path + ".input_images.additional") {
			v.wrong(path+".input_images.additional",
				"the price of a further picture is missing; expected additional: in USD")
		}
	}
	if i.Capabilities.WebSearch && p.WebSearch == nil {
		v.wrong(path+".web_search",
			"the model searches the web, and a search has no price; expected web_search: in USD, 0 if it is free")
	}
	if p.WebSearch != nil && !i.Capabilities.WebSearch {
		v.wrong(path+".web_search",
			"the model does not search the web; expected capabilities: { web_search: true }, or no price")
	}
	if i.typ == "upscale" {
		v.priceKeys(path+".upscale", p.Upscale, factors, "the factors")
		for _, factor := range factors {
			if _, ok := p.Upscale[factor]; !ok {
				v.wrong(path+".upscale",
					"the price of %s is missing; expected upscale: { 2x: …, 4x: … } in USD of a picture", factor)
			}
		}
		if p.Upscale["2x"]+p.Upscale["4x"] == 0 {
			v.wrong(path, "every price is 0; expected price: free if the model is free")
		}
		return
	}
	i.checkChoices(v, path)
}

// checkChoices looks up every combination that a client can ask for.
func (i *Image) checkChoices(v *validator, path string) {
	total := Each(0)
	for _, choice := range i.Constraints.combinations() {
		each, ok := i.Price.Base(choice[0], choice[1])
		if !ok {
			key := "generation"
			if i.typ == "inpaint" {
				key = "inpaint"
			}
			what := ""
			if choice[0] != "" {
				what += " of " + choice[0]
			}
			if choice[1] != "" {
				what += " in " + choice[1] + " quality"
			}
			v.wrong(path, "a picture%s has no price; expected %s: in USD of a picture, or a price for each choice "+
				"below resolutions: or quality:", what, key)
			return
		}
		total += each
	}
	if total == 0 {
		v.wrong(path, "every price is 0; expected price: free if the model is free")
	}
}

// combinations are the resolutions and qualities that go together; empty
// strings stand for no choice.
func (c *ImageConstraints) combinations() (list [][2]string) {
	or := func(list []string) []string {
		if len(list) == 0 {
			return []string{""}
		}
		return list
	}
	for _, r := range or(c.Resolutions) {
		for _, q := range or(c.Qualities) {
			list = append(list, [2]string{r, q})
		}
	}
	return list
}

func (v *validator) priceKeys(path string, prices map[string]Each, keys []string, where string) {
	for _, key := range slices.Sorted(maps.Keys(prices)) {
		at := join(path, key)
		if !slices.Contains(keys, key) {
			v.wrongKey(at, "%s is not in %s; a price there would never be charged", quote(key), where)
			continue
		}
		v.each(at, prices[key])
	}
}

func (v *validator) each(path string, e Each) {
	if e < 0 || e > maxEach {
		v.wrong(path, "%s is out of range; expected 0 to 10000 USD", v.shown(path))
	} else if e > 100*maxEach/10_000 {
		v.doubt(path, "%s USD is the price of one, and more than any costs; expected less", e)
	}
}

// checkTarget checks the form of a target's options; the dialect checks their meaning.
func (i *Image) checkTarget(v *validator, path string, _ *Model, t *Target, u *Upstream) {
	v.draws(path, t, u)
	v.options(path, t)
}

// options checks the form of a target's options.
func (v *validator) options(path string, t *Target) {
	path += ".options"
	if n := len(t.Options); n > maxOptions {
		v.wrong(path, "%d options are listed; expected at most %d", n, maxOptions)
	}
	for _, key := range slices.Sorted(maps.Keys(t.Options)) {
		if text := t.Options[key]; len(key) > 64 || len(text) > 4096 {
			v.wrongKey(join(path, key), "the option is too long; expected at most 64 bytes of name and 4096 of text")
		}
	}
}

// dearer says whether anything that a client of the other model could ask for
// costs more here.
func (i *Image) dearer(than Spec) bool {
	other := than.(*Image)
	a, b := i.Price, other.Price
	switch {
	case a == nil || b == nil || a.Free:
		return false
	case b.Free:
		return true
	}
	for _, choice := range other.Constraints.combinations() {
		theirs, ok := a.Base(i.Constraints.fit(choice))
		ours, had := b.Base(choice[0], choice[1])
		if ok && had && theirs > ours {
			return true
		}
	}
	for _, factor := range []float64{1, 2, 4} {
		if i.typ == "upscale" && a.Factor(factor) > b.Factor(factor) {
			return true
		}
	}
	more := func(p *ImagePrice) (included int64, each Each) {
		if p.InputImages == nil {
			return maxInputImages, 0
		}
		return p.InputImages.Included, p.InputImages.Additional
	}
	aIncluded, aEach := more(a)
	bIncluded, bEach := more(b)
	if aEach > bEach || aEach > 0 && aIncluded < bIncluded {
		return true
	}
	return a.WebSearch != nil && b.WebSearch != nil && *a.WebSearch > *b.WebSearch
}

// fit is a choice as a model with these constraints takes it.
func (c *ImageConstraints) fit(choice [2]string) (resolution, quality string) {
	resolution, quality = choice[0], choice[1]
	if !slices.Contains(c.Resolutions, resolution) {
		resolution = c.DefaultResolution
	}
	if !slices.Contains(c.Qualities, quality) {
		quality = c.DefaultQuality
	}
	return resolution, quality
}
