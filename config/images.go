package config

import (
	"fmt"
	"slices"
	"time"
)

// Images are settings of the endpoints for pictures.
type Images struct {
	// Names for style_preset. Default: the 70 of GET /image/styles.
	Styles []string `yaml:"styles" most:"1000 styles"`
	// Add the six names that are marks of other companies.
	BrandedStyles bool `yaml:"branded_styles"`
	// Compress JSON with pictures for clients that take gzip or br: a quarter less to send, about 5 ms of CPU a MB.
	Compress bool `yaml:"compress" default:"true"`

	// Id of the text model that rewrites prompts for enhance_prompt. Default: none, and enhance_prompt is refused.
	PromptModel string `yaml:"prompt_model"`
	// Time for the rewriting. After it the client's own words are used.
	PromptTimeout time.Duration `yaml:"prompt_timeout" default:"30s" range:"1s..30s"`
	// USD of a request whose prompt was rewritten.
	PromptPrice Each `yaml:"prompt_price" default:"0.04" range:"0..10000"`

	// Time of one request at its upstreams.
	Timeout time.Duration `yaml:"timeout" default:"5m" range:"1s..1h" restart:"key"`
	// Requests that go on when their client disconnects: their pictures are made and charged. Beyond it requests are
	// stopped at the upstream and charged as ordered.
	Unattended int `yaml:"unattended" default:"64" range:"0..10000"`
	// Pictures of all answers together, and as much of fetched ones; above it 503.
	Memory Size `yaml:"memory" default:"1GB" range:"64MB..1024GB" restart:"key"`
}

func (i *Images) complete() {
	if i.Styles == nil {
		i.Styles = slices.Clone(builtinStyles)
	}
	if i.BrandedStyles {
		i.Styles = append(i.Styles, brandedStyles...)
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

func (v *validator) images() {
	v.promptModel(&v.c.Images)
	if v.ruledOut["images.styles"] {
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

// promptModel checks the model that rewrites prompts.
func (v *validator) promptModel(c *Images) {
	if c.PromptModel == "" {
		for _, key := range []string{"images.prompt_timeout", "images.prompt_price"} {
			if v.has(key) {
				v.wrong(key, "no prompt is rewritten; expected prompt_model: with the id of a text model")
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
