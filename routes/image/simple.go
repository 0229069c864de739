package image

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"farebox/config"
	"farebox/providers/image"
	"farebox/providers/image/picture"
	"farebox/proxy"
	"farebox/routes"
)

// OpenAI's form of asking for pictures and of answering: POST
// /images/generations, and /images/edits for their packages.

// simpleBookOf and simpleEditBookOf describe bodies in OpenAI's form.
func simpleBookOf(cfg *config.Config) *routes.Rulebook {
	if cfg.Compat.OpenAIImages {
		return largerBook
	}
	return simpleBook
}

func simpleEditBookOf(cfg *config.Config) *routes.Rulebook {
	if cfg.Compat.OpenAIImages {
		return largerEditBook
	}
	return simpleEditBook
}

// serveGenerations answers POST /images/generations in OpenAI's form
// (interface.md, Images; addendum 8.2).
func (ca *Capability) serveGenerations(c *routes.Call) *routes.Error {
	p, e := ca.read(c, image.Generate)
	if e != nil {
		return e
	}
	prompt := p.form.prompt(imagePrompt)
	if e := p.choose("image", p.form.choice(imageModel, "default"), true); e != nil {
		return e
	}
	if e := p.setPrompt(prompt); e != nil {
		return e
	}
	p.simpleSize()
	p.job.Tone = p.form.words(imageStyle)
	return p.makeSimple()
}

// serveSimpleEdit answers POST /images/edits, the route that OpenAI's packages
// call for edits, in their form.
func (ca *Capability) serveSimpleEdit(c *routes.Call) *routes.Error {
	p, e := ca.read(c, image.Edit)
	if e != nil {
		return e
	}
	f := p.form
	prompt := f.prompt(imagePrompt)
	p.sources = f.pictures(imageImage)
	p.wantSources(imageImage, []int{imageImage, imageImages})
	if p.masks = f.pictures(imageMask); len(p.masks) > 0 && !c.Config().Compat.OpenAIImages {
		c.Hint = "compat.openai_images: true takes masks, n up to 4 and longer prompts"
		f.v.Wrong("mask", "masks are not accepted; describe the change in the prompt.")
	} else if len(p.masks) > 1 || len(p.masks) == 1 && p.masks[0].link() != "" {
		f.v.Wrong("mask", "must be one picture, as a file or as base64.")
	}
	if f.flag(imageStream, false) {
		f.v.Wrong("stream", "pictures come in one piece; leave it out.")
	}
	if e := p.choose("inpaint", f.choice(imageModel, "default"), true); e != nil {
		return e
	}
	if e := p.gateEdit(prompt, "", ""); e != nil {
		return e
	}
	if size := f.words(imageSize); size != "" && size != "auto" && len(p.limits().AspectRatios) > 0 {
		p.simpleSize()
	}
	return p.makeSimple()
}

// makeSimple does the common part of both, has the pictures made and answers.
func (p *pictures) makeSimple() *routes.Error {
	p.simpleTier()
	p.simpleOptions()
	return p.make(func() (proxy.Source, string) { return p.simpleBody(p.form.words(imageResponseFormat) == "url") })
}

// simpleTier takes OpenAI's quality; models without qualities ignore it.
func (p *pictures) simpleTier() {
	l := p.limits()
	quality := map[string]string{"hd": "high", "high": "high", "standard": "medium", "medium": "medium",
		"low": "low"}[p.form.words(imageQuality)]
	if !slices.Contains(l.Qualities, quality) {
		quality = l.DefaultQuality
	}
	p.job.Quality, p.job.Resolution = quality, l.DefaultResolution
	p.sale.Quality, p.sale.Resolution = quality, l.DefaultResolution
}

// simpleSize takes OpenAI's size, in whichever way the model is sized.
func (p *pictures) simpleSize() {
	l := p.limits()
	w, h, found := strings.Cut(p.form.words(imageSize), "x")
	width, errW := strconv.Atoi(w)
	height, errH := strconv.Atoi(h)
	sized := found && errW == nil && errH == nil
	switch {
	case !l.PixelSized() && sized:
		p.job.AspectRatio = cmp.Or(nearestRatio(l.AspectRatios, float64(width)/float64(height)), l.DefaultAspectRatio)
	case !l.PixelSized():
		p.job.AspectRatio = l.DefaultAspectRatio
	case sized:
		p.job.Width, p.job.Height = width, height
	default:
		p.job.Width, p.job.Height = defaultPixelSide, defaultPixelSide
	}
}

// simpleOptions takes the rest of OpenAI's members.
func (p *pictures) simpleOptions() {
	f := p.form
	p.job.Count = max(1, int(f.v.Integer(imageN)))
	p.job.Format = picture.ParseFormat(f.choice(imageOutputFormat, "png"))
	p.job.SafeMode = f.words(imageModeration) != "low"
	p.job.Background = f.words(imageBackground)
	if f.has(imageOutputCompression) {
		p.job.Compression = image.Some(int(f.v.Integer(imageOutputCompression)))
	}
}
