package providers

import (
	"maps"
	"slices"

	"farebox/config"
)

// imageTypes are the types of models of pictures. Addendum 7.2 has no type for background
// removal: its models serve none of the endpoints of the nine types.
var imageTypes = map[string]capability{
	"image": {target: pictures, record: func(w *writer, m *config.Model, upscale *config.ImagePrice) {
		i := m.Spec.(*config.Image)
		w.generating(i)
		if upscale == nil {
			upscale = &config.ImagePrice{}
		}
		w.imagePricing(i, &config.ImagePrice{Generation: new(config.Each)}, upscale.Upscale)
	}},
	"inpaint": {target: pictures, record: func(w *writer, m *config.Model, _ *config.ImagePrice) {
		i := m.Spec.(*config.Image)
		w.editing(i)
		w.imagePricing(i, &config.ImagePrice{Inpaint: new(config.Each)}, nil)
	}},
	"upscale": {target: pictures, record: func(w *writer, m *config.Model, _ *config.ImagePrice) {
		i := m.Spec.(*config.Image)
		upscale := i.Price.Upscale
		if i.Price.Free {
			upscale = map[string]config.Each{"2x": 0, "4x": 0}
		}
		w.imagePricing(i, &config.ImagePrice{}, upscale)
	}},
	"background_removal": {target: pictures,
		record: func(w *writer, m *config.Model, _ *config.ImagePrice) {
			w.imagePricing(m.Spec.(*config.Image), &config.ImagePrice{Generation: new(config.Each)}, nil)
		}},
}

// generating writes the members of models that make pictures alone (addendum 7.4).
func (w *writer) generating(i *config.Image) {
	c := &i.Constraints
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
	if i.Capabilities.WebSearch {
		w.flag("supportsWebSearch", true)
	}
	w.optimizing(i)
}

// editing writes the members of models that edit alone.
func (w *writer) editing(i *config.Image) {
	c := &i.Constraints
	w.optimizing(i)
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

// optimizing says that disable_prompt_optimization_thinking is taken (addendum 8.1).
func (w *writer) optimizing(i *config.Image) {
	if i.Capabilities.OptimizePromptThinking {
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

// imagePricing writes the prices: free are those of a model that costs nothing,
// upscale those of enlarging its pictures.
func (w *writer) imagePricing(i *config.Image, free *config.ImagePrice, upscale map[string]config.Each) {
	p := i.Price
	if p.Free {
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
		w.eaches(p.Resolutions, i.Constraints.Resolutions)
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
		for _, row := range inOrder(slices.Collect(maps.Keys(p.Quality)), i.Constraints.Resolutions) {
			w.open(row)
			w.eaches(p.Quality[row], i.Constraints.Qualities)
			w.close()
		}
		w.close()
	}
	if len(upscale) > 0 {
		w.open("upscale")
		w.eaches(upscale, nil)
		w.close()
	}
	w.close()
}

func (w *writer) eaches(prices map[string]config.Each, order []string) {
	for _, key := range inOrder(slices.Collect(maps.Keys(prices)), order) {
		w.each(key, prices[key])
	}
}

// inOrder sorts keys as they are in order, those that do not by name.
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
