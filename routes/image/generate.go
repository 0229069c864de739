package image

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"farebox/providers/image"
	"farebox/providers/image/picture"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

// serveStyles answers GET /image/styles (addendum 8.3): names only (D57).
func (ca *Capability) serveStyles(c *routes.Call) *routes.Error {
	b := []byte(`{"object":"list","data":[`)
	for _, name := range c.Config().Images.Styles {
		b = jsontext.AppendString(jsontext.Comma(b), name)
	}
	c.Ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	c.Ctx.Response.SetBodyRaw(append(b, "]}"...))
	return nil
}

// serveGenerate answers POST /image/generate (interface.md, Images; addendum 8.1).
func (ca *Capability) serveGenerate(c *routes.Call) *routes.Error {
	p, e := ca.read(c, image.Generate)
	if e != nil {
		return e
	}
	f := p.form
	prompt := f.prompt(imagePrompt)
	f.together(imageNumImages, imageVariants)
	p.job.Count = int(max(1, f.v.Integer(imageNumImages), f.v.Integer(imageVariants)))
	binary := f.flag(imageReturnBinary, false)
	if binary && p.job.Count > 1 {
		f.v.Wrong("return_binary", "one answer carries one picture; ask for several without it.")
	}
	p.readStyle()
	p.readDiffusion()
	if e := p.choose("image", f.words(imageModel), false); e != nil {
		return e
	}
	if e := p.gateGenerate(prompt); e != nil {
		return e
	}
	p.job.Format = picture.ParseFormat(f.choice(imageFormat, "webp"))
	p.job.SafeMode = f.flag(imageSafeMode, true)
	p.job.HideWatermark = f.flag(imageHideWatermark, false)
	p.job.EmbedMetadata = f.flag(imageEmbedEXIF, false)
	echo := f.v.Body
	if len(p.references) > 0 {
		echo = nil // pictures are not repeated, and reading them changed the body
	}
	if binary {
		return p.makeFile()
	}
	return p.make(func() (proxy.Source, string) { return p.nativeBody(echo) })
}

// readStyle checks the name of a style preset: exact, case and all.
func (p *pictures) readStyle() {
	name := p.form.words(imageStylePreset)
	if !p.form.has(imageStylePreset) || slices.Contains(p.call.Config().Images.Styles, name) {
		p.job.Style, p.job.StyleText = name, name
		return
	}
	p.form.v.Add(routes.Issue{Code: "invalid_enum_value", Path: "style_preset", Received: routes.Excerpt([]byte(name)),
		Message: "style_preset: " + routes.Excerpt([]byte(name)) + " is not a style; GET " + routes.Prefix +
			"/image/styles lists the names."})
}

// readDiffusion takes the numbers that steer a diffusion model.
func (p *pictures) readDiffusion() {
	f := p.form
	if x, ok := f.number(-1, imageCFGScale); ok {
		p.job.CFGScale = image.Some(x)
	}
	if f.has(imageSeed) {
		p.job.Seed = image.Some(f.v.Integer(imageSeed))
	}
	if f.has(imageLoraStrength) {
		p.job.LoraStrength = image.Some(int(f.v.Integer(imageLoraStrength)))
	}
	i := f.v.Doc.TopIndex(imageStyleReferences)
	if i < 0 || f.v.Doc.Fields[i].Kind != scan.Array {
		return
	}
	for at := i + 1; at < f.v.Doc.Fields[i].Next; at = f.v.Doc.Fields[at].Next {
		known := int32(0)
		for _, id := range []int{referenceImage, referenceStrength} {
			if f.v.Doc.Member(at, id) >= 0 {
				known++
			}
		}
		if path := f.v.Doc.Path(at); f.v.Doc.Fields[at].Kind == scan.Object && f.v.Doc.Fields[at].Len > known {
			f.v.Add(routes.Issue{Code: "unrecognized_keys", Path: path,
				Message: path + ": takes only image and strength."})
		}
		strength, ok := f.number(at, referenceStrength)
		if !ok {
			strength = 0.5
		}
		p.references = append(p.references, source{path: f.v.Doc.Path(at) + ".image", quoted: f.v.Text(at, referenceImage)})
		p.job.References = append(p.job.References, image.Reference{Strength: strength})
	}
}

// gateGenerate applies the model's record (addendum 7.4).
func (p *pictures) gateGenerate(prompt string) *routes.Error {
	f, l := p.form, p.limits()
	if e := p.setPrompt(prompt); e != nil {
		return e
	}
	if e := p.setTier(f.words(imageResolution), f.words(imageQuality)); e != nil {
		return e
	}
	if e := p.setSize(); e != nil {
		return e
	}
	if n := f.v.Integer(imageSteps); l.Steps.Max > 0 && n > l.Steps.Max {
		most := strconv.FormatInt(l.Steps.Max, 10)
		return routes.Invalid(routes.Issue{Code: "too_big", Path: "steps", Maximum: most,
			Message: "steps: must be at most " + most + " for model " + p.call.Model.ID + ", is " + strconv.FormatInt(n,
				10) + "."})
	} else if l.Steps.Max > 0 && (n > 0 || l.Steps.Default > 0) {
		if n == 0 {
			n = l.Steps.Default
		}
		p.job.Steps = image.Some(int(n))
	}
	if f.flag(imageWebSearch, false) {
		if !p.spec.Capabilities.WebSearch {
			return p.unsupported(imageWebSearch, "web search")
		}
		p.job.WebSearch, p.sale.WebSearch = true, true
	}
	if n := len(p.references); n > 0 {
		most := strconv.Itoa(l.MaxStyleReferences)
		switch {
		case l.MaxStyleReferences == 0:
			return p.unsupported(imageStyleReferences, "style references")
		case n > l.MaxStyleReferences:
			return routes.Invalid(routes.Issue{Code: "too_big", Path: "style_references", Maximum: most,
				Message: "style_references: must have at most " + most + " elements for model " + p.call.Model.ID +
					", has " + strconv.Itoa(n) + "."})
		case !l.StyleReferenceStrength && p.form.anyStrength():
			return p.unsupported(imageStyleReferences, "the strength of style references")
		}
	}
	return p.setEnhancing()
}

func (f *imageForm) anyStrength() bool {
	i := f.v.Doc.TopIndex(imageStyleReferences)
	for at := i + 1; at < f.v.Doc.Fields[i].Next; at = f.v.Doc.Fields[at].Next {
		if f.v.Member(at, referenceStrength) != nil {
			return true
		}
	}
	return false
}

// setSize takes width and height for models that are sized in pixels, and an
// aspect ratio for the others (D29). Pixels for a model of ratios stand for the
// nearest one it has.
func (p *pictures) setSize() *routes.Error {
	f, l := p.form, p.limits()
	width, height, ratio := f.v.Integer(imageWidth), f.v.Integer(imageHeight), f.words(imageAspectRatio)
	if !l.PixelSized() {
		if ratio != "" && len(l.AspectRatios) == 0 {
			return p.unsupported(imageAspectRatio, "aspect ratios")
		}
		if ratio != "" {
			if e := p.oneOf(imageAspectRatio, ratio, l.AspectRatios); e != nil {
				return e
			}
		} else if width > 0 && height > 0 {
			ratio = nearestRatio(l.AspectRatios, float64(width)/float64(height))
		}
		p.job.AspectRatio = cmp.Or(ratio, l.DefaultAspectRatio)
		return nil
	}
	if ratio != "" {
		return p.unsupported(imageAspectRatio, "aspect ratios; give width and height")
	}
	for _, side := range []struct {
		id int
		n  int64
	}{{imageWidth, width}, {imageHeight, height}} {
		name, n := imageShape.Name(side.id), side.n
		switch {
		case n == 0:
		case n > maxPixelSide:
			return routes.Invalid(routes.Issue{Code: "too_big", Path: name, Minimum: "1",
				Maximum: strconv.Itoa(maxPixelSide), Message: name + ": must be between 1 and " +
					strconv.Itoa(maxPixelSide) + " for model " + p.call.Model.ID + ", is " + strconv.FormatInt(n, 10) +
					"."})
		case n%l.SizeDivisor != 0:
			divisor := strconv.FormatInt(l.SizeDivisor, 10)
			return routes.Invalid(routes.Issue{Code: "custom", Path: name,
				Message: name + ": must be a multiple of " + divisor + " for model " + p.call.Model.ID + ", is " +
					strconv.FormatInt(n, 10) + "."})
		}
	}
	p.job.Width, p.job.Height = defaultPixelSide, defaultPixelSide
	if width > 0 {
		p.job.Width = int(width)
	}
	if height > 0 {
		p.job.Height = int(height)
	}
	return nil
}

// nearestRatio is the one of a list that is closest to width / height; auto is
// none. Empty for an empty list.
func nearestRatio(list []string, want float64) (best string) {
	least := math.Inf(1)
	for _, ratio := range list {
		w, h, ok := strings.Cut(ratio, ":")
		x, err := strconv.ParseFloat(w, 64)
		y, err2 := strconv.ParseFloat(h, 64)
		if !ok || err != nil || err2 != nil || y == 0 || want <= 0 {
			continue
		}
		if off := math.Abs(math.Log(x / y / want)); off < least {
			best, least = ratio, off
		}
	}
	return best
}
