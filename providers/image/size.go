package image

import (
	"math"
	"strconv"
	"strings"
)

// Sides of resolutions: an image of 1:1 has them, others the same area.
var sides = map[string]int{"1K": 1024, "2K": 2048, "4K": 4096}

// ratios are the aspect ratios that requests name (addendum 8.5).
var ratios = []string{"1:1", "3:2", "2:3", "16:9", "9:16", "21:9", "3:4", "4:3", "4:5", "5:4"}

// Shape is the wanted aspect ratio as two numbers: of the request, else of the
// base image; ok is false if neither has one.
func (j *Job) Shape() (w, h int, ok bool) {
	if w, h, ok = parseRatio(j.AspectRatio); ok {
		return w, h, true
	}
	if j.Width > 0 && j.Height > 0 {
		return j.Width, j.Height, true
	}
	if len(j.Inputs) > 0 && j.Inputs[0].Width > 0 && j.Inputs[0].Height > 0 {
		return j.Inputs[0].Width, j.Inputs[0].Height, true
	}
	return 1, 1, false
}

// Pixels is the wanted size for upstreams that want one: the
// request's own, else made of resolution and ratio, in multiples of step.
func (j *Job) Pixels(step int) (w, h int) {
	if j.Width > 0 && j.Height > 0 {
		return j.Width, j.Height
	}
	side, ok := sides[j.Resolution]
	if !ok {
		side = sides["1K"]
	}
	rw, rh, _ := j.Shape()
	k := math.Sqrt(float64(rw) / float64(rh))
	round := func(f float64) int { return max(step, int(math.Round(f/float64(step)))*step) }
	return round(float64(side) * k), round(float64(side) / k)
}

// Ratio is the wanted aspect ratio for upstreams that know only some: the nearest of list,
// or of the specification's when list is nil. Empty if there is no shape.
func (j *Job) Ratio(list []string) string {
	w, h, ok := j.Shape()
	if !ok {
		return ""
	}
	if list == nil {
		list = ratios
	}
	return nearest(w, h, list, parseRatio)
}

// SizeOf is the nearest of a list of sizes like 1024x1536: the best ratio, and among equals
// the nearest area.
func (j *Job) SizeOf(list []string) string {
	w, h := j.Pixels(16)
	return nearest(w, h, list, parseSize)
}

func nearest(w, h int, list []string, parse func(string) (int, int, bool)) (best string) {
	least := math.Inf(1)
	for _, s := range list {
		sw, sh, ok := parse(s)
		if !ok {
			continue
		}
		// Ratios first: a wrong shape is worse than a wrong size.
		d := math.Abs(math.Log(float64(w)/float64(h)*float64(sh)/float64(sw)))*1e3 +
			math.Abs(math.Log(float64(w)*float64(h)/float64(sw)/float64(sh)))
		if d < least {
			best, least = s, d
		}
	}
	return best
}

func parseRatio(s string) (w, h int, ok bool) { return parsePair(s, ":") }
func parseSize(s string) (w, h int, ok bool)  { return parsePair(s, "x") }

func parsePair(s, between string) (w, h int, ok bool) {
	a, b, ok := strings.Cut(s, between)
	if !ok || len(a) > 5 || len(b) > 5 {
		return 0, 0, false
	}
	w, err := strconv.Atoi(a)
	if err != nil || w <= 0 {
		return 0, 0, false
	}
	h, err = strconv.Atoi(b)
	return w, h, err == nil && h > 0
}

// Words is the prompt for upstreams without style presets and a negative prompt: the style
// joins it in the operator's words.
func (j *Job) Words() string {
	if j.StyleText != "" {
		return j.Prompt + ", " + j.StyleText
	}
	return j.Prompt
}
