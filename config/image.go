package config

import (
	"slices"
	"time"
)

// ImageTypes are the types of models that make or change pictures (interface.md,
// Images; addendum 7 and 8): image generates, inpaint edits, upscale enlarges,
// background_removal cuts out.
var ImageTypes = []string{"image", "inpaint", "upscale", "background_removal"}

// IsImage says that the model makes or changes pictures.
func (m *Model) IsImage() bool { return slices.Contains(ImageTypes, m.Type) }

// ImageConstraints are what a model of pictures takes (addendum 7.4). Lists
// that are empty mean that the client cannot choose.
type ImageConstraints struct {
	PromptCharacters int64 `yaml:"prompt_characters"` // promptCharacterLimit; default 1500 for image and inpaint
	Steps            Steps `yaml:"steps"`
	SizeDivisor      int64 `yaml:"size_divisor"` // widthHeightDivisor; default 1

	AspectRatios       []string `yaml:"aspect_ratios"` // such as 16:9, in quotes; auto
	DefaultAspectRatio string   `yaml:"default_aspect_ratio"`
	Resolutions        []string `yaml:"resolutions"` // such as 1K
	DefaultResolution  string   `yaml:"default_resolution"`
	Qualities          []string `yaml:"qualities"` // low, medium, high
	DefaultQuality     string   `yaml:"default_quality"`

	MaxStyleReferences     int  `yaml:"max_style_references"`     // 0: takes none
	StyleReferenceStrength bool `yaml:"style_reference_strength"` // supportsStyleReferenceStrength

	MaxInputImages         int   `yaml:"max_input_images"`          // inpaint; default 3; 1: combineImages is false
	SingleImageAspectRatio *bool `yaml:"single_image_aspect_ratio"` // inpaint; default true
}

// Steps of a diffusion model; Max 0: the client cannot choose.
type Steps struct {
	Default int64 `yaml:"default"`
	Max     int64 `yaml:"max"`
}

// PixelSized says that clients give width and height instead of an aspect
// ratio or a resolution.
func (c *ImageConstraints) PixelSized() bool { return len(c.AspectRatios)+len(c.Resolutions) == 0 }

// ImagePrice is what one picture or one edit costs in USD as written, held as
// Each (1e-12 USD). A price that no choice of the client can reach, and a
// choice without a price, are mistakes.
type ImagePrice struct {
	Generation  *Each                      `yaml:"generation"` // image, background_removal, upscale by 1
	Inpaint     *Each                      `yaml:"inpaint"`
	Resolutions map[string]Each            `yaml:"resolutions"` // instead of the above, by resolution
	Quality     map[string]map[string]Each `yaml:"quality"`     // instead of both, by resolution and quality
	Upscale     map[string]Each            `yaml:"upscale"`     // by factor: 2x, 4x
	InputImages *InputImages               `yaml:"input_images"`
	WebSearch   *Each                      `yaml:"web_search"` // a request that asks for it
}

// InputImages is what pictures beyond the included ones cost, each.
type InputImages struct {
	Included   int64 `yaml:"included"`
	Additional Each  `yaml:"additional"`
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

// Images are settings of the endpoints for pictures.
type Images struct {
	// Styles are the names for style_preset; default: those of the addendum.
	Styles []string `yaml:"styles"`
	// BrandedStyles adds the names that are marks of other companies.
	BrandedStyles bool `yaml:"branded_styles"`
	// Compress sends pictures in JSON compressed to clients that take gzip or br
	// (default true): a quarter less to send for about 5 ms of CPU a MB.
	Compress bool `yaml:"compress"`

	// PromptModel is the id of the text model that rewrites prompts for
	// enhance_prompt (addendum 8.1); empty: enhance_prompt is refused. Within
	// PromptTimeout (default and at most 30s) or not at all. A request whose
	// prompt was rewritten costs PromptPrice more (default 0.04 USD, addendum 19.2).
	PromptModel   string        `yaml:"prompt_model"`
	PromptTimeout time.Duration `yaml:"prompt_timeout"`
	PromptPrice   Each          `yaml:"prompt_price"`

	Timeout time.Duration `yaml:"timeout"` // of one request at its upstreams; default 5m
	// Unattended is how many requests may go on when their client left: their
	// pictures are made and charged. What is beyond it is given up at the
	// upstream, and charged as it was asked for. Default 64, 0 to 10000.
	Unattended int  `yaml:"unattended"`
	Memory     Size `yaml:"memory"` // pictures of all answers together, and as much of fetched ones; default 1GB
}
