package image

import (
	"math"
	"slices"
	"strconv"

	"farebox/config"
	"farebox/providers/image"
	"farebox/providers/image/picture"
	"farebox/routes"
)

// serveEdit answers POST /image/edit (interface.md, Images; addendum 8.5).
func (ca *Capability) serveEdit(c *routes.Call) *routes.Error {
	return ca.edit(c, []int{imageImage})
}

// serveMultiEdit answers POST /image/multi-edit (addendum 8.6): the pictures
// come as image, image_2, image_3 or as images, the base first (D30).
func (ca *Capability) serveMultiEdit(c *routes.Call) *routes.Error {
	return ca.edit(c, []int{imageImage, imageImages, imageImage2, imageImage3})
}

// edit is the common part of both; members are those for input pictures.
func (ca *Capability) edit(c *routes.Call, members []int) *routes.Error {
	p, e := ca.read(c, image.Edit)
	if e != nil {
		return e
	}
	f := p.form
	prompt := f.prompt(imagePrompt)
	f.together(imageModel, imageModelID)
	for _, id := range members {
		p.sources = append(p.sources, f.pictures(id)...)
	}
	p.wantSources(members[0], members)
	if e := p.choose("inpaint", f.choice(imageModel, f.words(imageModelID)), false); e != nil {
		return e
	}
	if e := p.gateEdit(prompt, f.words(imageResolution), f.words(imageQuality)); e != nil {
		return e
	}
	p.job.SafeMode = f.flag(imageSafeMode, true)
	p.job.Format = picture.ParseFormat(f.words(imageOutputFormat))
	if p.job.Format == picture.Unknown {
		// PNG for 1K and JPEG for larger pictures (interface.md, Images).
		p.job.Format = picture.JPEG
		if p.job.Resolution == "" || p.job.Resolution == "1K" {
			p.job.Format = picture.PNG
		}
	}
	if e := p.setRatio(f.words(imageAspectRatio)); e != nil {
		return e
	}
	return p.makeFile()
}

// wantSources refuses a request without a picture, or with more than one where
// one is taken.
func (p *pictures) wantSources(id int, members []int) {
	name := imageShape.Name(id)
	switch {
	case len(p.sources) == 0 && len(p.form.v.Issues) == 0:
		p.form.noPicture(name)
	case len(p.sources) > 1 && len(members) == 1:
		p.form.v.Add(routes.Issue{Code: "too_big", Path: name, Maximum: "1",
			Message: name + ": one picture is taken here; POST " + routes.Prefix + "/image/multi-edit takes several."})
	}
}

// gateEdit applies the record of an edit model (addendum 7.4).
func (p *pictures) gateEdit(prompt, resolution, quality string) *routes.Error {
	if e := p.setPrompt(prompt); e != nil {
		return e
	}
	if resolution == "1K" && len(p.limits().Resolutions) == 0 {
		resolution = "" // the default of the endpoint is not a choice
	}
	if e := p.setTier(resolution, quality); e != nil {
		return e
	}
	if n, most := len(p.sources), p.limits().MaxInputImages; n > most {
		text := strconv.Itoa(most)
		return routes.Invalid(routes.Issue{Code: "too_big", Path: "images", Maximum: text,
			Message: "images: model " + p.call.Model.ID + " takes at most " + text + " pictures, not " +
				strconv.Itoa(n) + "."})
	}
	return p.setEnhancing()
}

// setRatio takes the aspect ratio of an edit; without one it is that of the
// first picture, which fit finds out.
func (p *pictures) setRatio(ratio string) *routes.Error {
	l := p.limits()
	if ratio == "" || len(p.sources) == 1 && !*l.SingleImageAspectRatio {
		return nil
	}
	if len(l.AspectRatios) == 0 {
		if ratio == "auto" {
			return nil
		}
		return p.unsupported(imageAspectRatio, "aspect ratios")
	}
	if e := p.oneOf(imageAspectRatio, ratio, l.AspectRatios); e != nil {
		return e
	}
	p.job.AspectRatio = ratio
	return nil
}

// fit settles the options that depend on the size of the input pictures.
func (p *pictures) fit() *routes.Error {
	switch p.job.Kind {
	case image.Edit:
		l, base := p.limits(), &p.job.Inputs[0]
		if p.job.AspectRatio == "" && len(l.AspectRatios) > 0 && base.Height > 0 {
			p.job.AspectRatio = "auto"
			if !slices.Contains(l.AspectRatios, "auto") {
				p.job.AspectRatio = nearestRatio(l.AspectRatios, float64(base.Width)/float64(base.Height))
			}
		}
	case image.Upscale:
		return p.fitScale()
	}
	return nil
}

// openAIExtras says that the operator takes the additions of public packages to the
// specification: two of them call POST /images/upscale.
func openAIExtras(cfg *config.Config) bool { return cfg.Compat.OpenAIExtras }

// upscaleBookOf describes a request to enlarge a picture under a config.
func upscaleBookOf(cfg *config.Config) *routes.Rulebook {
	if openAIExtras(cfg) {
		return upscaleExtraBook
	}
	return upscaleBook
}

// serveUpscale answers POST /image/upscale (interface.md, Images; addendum 8.4, D32).
func (ca *Capability) serveUpscale(c *routes.Call) *routes.Error {
	p, e := ca.read(c, image.Upscale)
	if e != nil {
		return e
	}
	f := p.form
	p.sources = f.pictures(imageImage)
	if len(p.sources) != 1 {
		p.wantSources(imageImage, []int{imageImage})
	}
	p.job.Enhance = f.flag(imageEnhance, false)
	p.job.EnhancePrompt = f.prompt(imageEnhanceWords)
	scale, given := f.number(-1, imageScale)
	if !given {
		scale = 2
	}
	if scale == 1 && !p.job.Enhance {
		f.v.Wrong("scale", "1 only has a meaning with enhance: true.")
	}
	p.job.Scale, p.sale.Scale = image.Some(scale), scale
	if p.job.Enhance {
		p.job.EnhanceCreativity = image.Some(f.numberOr(imageEnhanceCreativity, 0.5))
		p.job.Replication = image.Some(f.numberOr(imageReplication, 0.35))
	}
	if x, ok := f.number(-1, imageCreativity); ok {
		p.job.Creativity = image.Some(min(max(x, 0), 0.02))
	}
	if e := p.choose("upscale", f.choice(imageModel, ""), false); e != nil {
		return e
	}
	p.job.Format = picture.PNG
	return p.makeFile()
}

func (f *imageForm) numberOr(id int, otherwise float64) float64 {
	if x, ok := f.number(-1, id); ok {
		return x
	}
	return otherwise
}

// fitScale keeps the result within the most pixels, and charges for no more than the result has.
func (p *pictures) fitScale() *routes.Error {
	in := &p.job.Inputs[0]
	scale := p.job.Scale.V
	most := math.Sqrt(maxUpscaledPixels / (float64(in.Width) * float64(in.Height)))
	if most < 1 {
		return refused(p.sources[0].path, &picture.Refusal{Status: 422, Code: "IMAGE_TOO_LARGE",
			Text: "The image is too large: a picture may have at most 16777216 pixels after it was enlarged."})
	}
	if scale > most {
		scale = math.Floor(most*100) / 100
		p.job.Scale, p.sale.Scale = image.Some(scale), scale
	}
	return nil
}

// serveCutOut answers POST /image/background-remove (interface.md, Images; addendum 8.7).
func (ca *Capability) serveCutOut(c *routes.Call) *routes.Error {
	p, e := ca.read(c, image.RemoveBackground)
	if e != nil {
		return e
	}
	f := p.form
	whole, links := f.pictures(imageImage), f.pictures(imageURL)
	p.sources = append(whole, links...)
	switch {
	case len(p.sources) > 1:
		f.v.Wrong("image", "give exactly one of image and image_url.")
	case len(p.sources) == 0 && len(f.v.Issues) == 0:
		f.v.Missing("image", "string", "is required, or image_url.")
	case len(links) == 1 && links[0].link() == "":
		f.v.Add(routes.Issue{Code: "invalid_string", Path: "image_url",
			Message: "image_url: must be an http:// or https:// link."})
	}
	if e := p.choose("background_removal", "", false); e != nil {
		return e
	}
	p.job.Format = picture.PNG
	return p.makeFile()
}
