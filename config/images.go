package config

import (
	"fmt"
	"slices"
	"time"
)

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

func defaultImages() Images {
	return Images{
		Compress: true, PromptTimeout: maxPromptTimeout, PromptPrice: 40_000_000_000, // 0.04 USD
		Timeout: 5 * time.Minute, Memory: 1 << 30, Unattended: 64,
	}
}

func (c *Images) complete() {
	if c.Styles == nil {
		c.Styles = slices.Clone(builtinStyles)
	}
	if c.BrandedStyles {
		c.Styles = append(c.Styles, brandedStyles...)
	}
}

// builtinStyles are the names for style_preset (addendum 8.3), in the order in
// which they are listed.
var builtinStyles = []string{
	"3D Model", "Analog Film", "Anime", "Cinematic", "Comic Book", "Craft Clay", "Digital Art", "Enhance",
	"Fantasy Art",
	"Isometric Style", "Line Art", "Lowpoly", "Neon Punk", "Origami", "Photographic", "Pixel Art", "Texture",
	"Advertising",
	"Food Photography", "Real Estate", "Abstract", "Cubist", "Graffiti", "Hyperrealism", "Impressionist", "Pointillism",
	"Pop Art", "Psychedelic", "Renaissance", "Steampunk", "Surrealist", "Typography", "Watercolor", "Fighting Game",
	"Retro Arcade", "Retro Game", "RPG Fantasy Game", "Strategy Game", "Architectural", "Disco", "Dreamscape",
	"Dystopian",
	"Fairy Tale", "Gothic", "Grunge", "Horror", "Minimalist", "Monochrome", "Nautical", "Space", "Stained Glass",
	"Techwear Fashion", "Tribal", "Zentangle", "Collage", "Flat Papercut", "Kirigami", "Paper Mache", "Paper Quilling",
	"Papercut Collage", "Papercut Shadow Box", "Stacked Papercut", "Thick Layered Papercut", "Alien", "Film Noir",
	"HDR",
	"Long Exposure", "Neon Noir", "Silhouette", "Tilt-Shift",
}

// brandedStyles are marks of other companies: off unless the operator says so.
var brandedStyles = []string{"GTA", "Super Mario", "Minecraft", "Pokemon", "Street Fighter", "Legend of Zelda"}

const (
	maxStyles = 1000
	// maxPromptTimeout is what enhance_prompt may add to a request (addendum 8.1).
	maxPromptTimeout = 30 * time.Second
)

func (v *validator) images() {
	v.duration("images.timeout", v.c.Images.Timeout, time.Second, time.Hour)
	whole(v, "images.unattended", v.c.Images.Unattended, 0, 10_000)
	size(v, "images.memory", v.c.Images.Memory, 64<<20, 1<<40)
	v.promptModel(&v.c.Images)
	if n := len(v.c.Images.Styles); n > maxStyles {
		v.wrong("images.styles", "%d styles are listed; expected at most %d", n, maxStyles)
		return
	}
	for i, name := range v.c.Images.Styles {
		at := fmt.Sprintf("images.styles[%d]", i)
		switch {
		case name == "" || len(name) > 64:
			v.wrong(at, "this cannot be the name of a style; expected 1 to 64 bytes of text")
		case slices.Contains(v.c.Images.Styles[:i], name):
			v.wrong(at, "%s is listed already; expected every style once", quote(name))
		}
	}
}

// promptModel checks what rewrites prompts.
func (v *validator) promptModel(c *Images) {
	v.duration("images.prompt_timeout", c.PromptTimeout, time.Second, maxPromptTimeout)
	v.each("images.prompt_price", c.PromptPrice)
	if c.PromptModel == "" {
		for _, key := range []string{"images.prompt_timeout", "images.prompt_price"} {
			if v.has(key) {
				v.wrong(key, "no prompt is rewritten; expected prompt_model: with the id of a text model beside it")
			}
		}
		return
	}
	i := slices.IndexFunc(v.c.Models, func(m Model) bool { return m.ID == c.PromptModel })
	if i < 0 {
		v.wrong("images.prompt_model", "there is no model %s; expected the id of a text model below models:",
			v.shown("images.prompt_model"))
		return
	}
	if typ := v.c.Models[i].Type; typ != "text" {
		v.wrong("images.prompt_model", "%s is a model of type %s and cannot write; expected the id of a text model",
			v.shown("images.prompt_model"), typ)
	}
}
