package providers

import (
	"maps"
	"slices"

	"farebox/config"
)

// recordType is the type of a model in its record. Background removal is none
// of the nine types of addendum 7.2; its price has the shape of an image's.
func recordType(typ string) string {
	if typ == "background_removal" {
		return "image"
	}
	return typ
}

// image writes what only records of models of pictures have (addendum 7.4).
func (w *writer) image(m *config.Model, upscale *config.Price) {
	c := &m.Constraints.ImageConstraints
	switch m.Type {
	case "image":
		w.open("constraints")
		w.number("promptCharacterLimit", c.PromptCharacters)
		w.open("steps")
		w.number("default", c.Steps.Default)
		w.number("max", c.Steps.Max)
		w.close()
		w.number("widthHeightDivisor", c.SizeDivisor)
		w.choices("aspectRatios", "defaultAspectRatio", c.AspectRatios, c.DefaultAspectRatio)
		w.choices("resolutions", "defaultResolution", c.Resolutions, c.DefaultResolution)
		w.choices("qualities", "defaultQuality", c.Qualities, c.DefaultQuality)
		if c.MaxStyleReferences > 0 {
			w.number("maxStyleReferences", int64(c.MaxStyleReferences))
			w.flag("supportsStyleReferenceStrength", c.StyleReferenceStrength)
		}
		w.close()
		w.flag("supportsStyleReferences", c.MaxStyleReferences > 0)
		if m.Capabilities.WebSearch {
			w.flag("supportsWebSearch", true)
		}
		w.optimizing(m)
	case "inpaint":
		w.optimizing(m)
		w.open("constraints")
		w.texts("aspectRatios", c.AspectRatios)
		w.number("promptCharacterLimit", c.PromptCharacters)
		w.flag("combineImages", c.MaxInputImages > 1)
		w.number("maxInputImages", int64(c.MaxInputImages))
		w.flag("singleImageAspectRatio", *c.SingleImageAspectRatio)
		w.choices("resolutions", "defaultResolution", c.Resolutions, c.DefaultResolution)
		w.choices("qualities", "defaultQuality", c.Qualities, c.DefaultQuality)
		w.close()
	}
	w.imagePricing(m, upscale)
}

// optimizing says that disable_prompt_optimization_thinking is taken (addendum 8.1).
func (w *writer) optimizing(m *config.Model) {
	if m.Capabilities.OptimizePromptThinking {
		w.flag("supportsOptimizePromptThinking", true)
	}
}

func (w *writer) choices(list, standard string, values []string, value string) {
	if len(values) == 0 {
		return
	}
	w.texts(list, values)
	w.text(standard, value)
}

func (w *writer) imagePricing(m *config.Model, upscale *config.Price) {
	p := m.Price
	zero := config.Each(0)
	if p.Free {
		free := &config.Price{}
		switch m.Type {
		case "inpaint":
			free.Inpaint = &zero
		case "upscale":
			free.Upscale = map[string]config.Each{"2x": 0, "4x": 0}
		default:
			free.Generation = &zero
		}
		p = free
	}
	w.open("pricing")
	if p.Generation != nil {
		w.each("generation", *p.Generation)
	}
	if p.Inpaint != nil {
		w.each("inpaint", *p.Inpaint)
	}
	if len(p.Resolutions) > 0 {
		w.open("resolutions")
		w.eaches(p.Resolutions, m.Constraints.Resolutions)
		w.close()
	}
	if in := p.InputImages; in != nil {
		w.open("inputImages")
		w.number("included", in.Included)
		w.each("additional", in.Additional)
		w.close()
	}
	if len(p.Quality) > 0 {
		w.open("quality")
		for _, row := range inOrder(slices.Collect(maps.Keys(p.Quality)), m.Constraints.Resolutions) {
			w.open(row)
			w.eaches(p.Quality[row], m.Constraints.Qualities)
			w.close()
		}
		w.close()
	}
	switch {
	case m.Type == "upscale":
		upscale = p
	case m.Type != "image" || upscale == nil:
		upscale = &config.Price{}
	}
	if len(upscale.Upscale) > 0 {
		w.open("upscale")
		w.eaches(upscale.Upscale, nil)
		w.close()
	}
	w.close()
}

func (w *writer) eaches(prices map[string]config.Each, order []string) {
	for _, key := range inOrder(slices.Collect(maps.Keys(prices)), order) {
		w.each(key, prices[key])
	}
}

// inOrder sorts keys as they stand in order, those that do not by name.
func inOrder(keys, order []string) []string {
	slices.Sort(keys)
	slices.SortStableFunc(keys, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return keys
}

// each writes one leaf; a DIEM is worth a USD.
func (w *writer) each(name string, e config.Each) {
	w.open(name)
	w.raw("usd", e.String())
	w.raw("diem", e.String())
	w.close()
}
