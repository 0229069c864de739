// Package stability makes images at Stability's v2beta API: one image a call,
// requests are multipart forms, answers raw bytes with the outcome in headers.
// The base URL ends in /v2beta.
//
// The target's model name is core, ultra, or a model of the sd3 endpoint
// (sd3.5-large); for upscaling fast or conservative. The option `strength`, 0
// to 1, is how far an edit may go from its image, 0.7 when it is not set.
package stability

import (
	"strconv"
	"strings"

	"farebox/providers/chat/dialect"
	"farebox/providers/filebody"
	"farebox/providers/image"
	"farebox/providers/image/picture"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// Dialect implements image.Dialect.
type Dialect struct{}

const (
	defaultStrength = 0.7
	// maxSeed is the largest seed it takes; larger and negative ones are folded.
	maxSeed = 4294967294
)

var ratios = []string{"1:1", "16:9", "21:9", "2:3", "3:2", "4:5", "5:4", "9:16", "9:21"}

// presets are the styles it knows, by our names (8.3).
var presets = map[string]string{
	"3D Model": "3d-model", "Analog Film": "analog-film", "Anime": "anime", "Cinematic": "cinematic",
	"Comic Book": "comic-book", "Craft Clay": "modeling-compound", "Digital Art": "digital-art", "Enhance": "enhance",
	"Fantasy Art": "fantasy-art", "Isometric Style": "isometric", "Line Art": "line-art", "Lowpoly": "low-poly",
	"Neon Punk": "neon-punk", "Origami": "origami", "Photographic": "photographic", "Pixel Art": "pixel-art",
	"Texture": "tile-texture",
}

// Reach knows all kinds, as far as the model does.
func (Dialect) Reach(j *image.Job, t *image.Target) image.Reach {
	refuse := func(text string) image.Reach { return image.Reach{No: &dialect.Unsupported{Text: text}} }
	r := image.Reach{PerCall: 1, Formats: true}
	switch j.Kind {
	case image.Generate:
		r.Formats = endpoint(t) != "sd3" || j.Format != picture.WebP
	case image.Edit:
		if len(j.Inputs) > 1 || t.Model == "core" {
			return refuse("The model edits no image, or one at a time.")
		}
		r.Formats = endpoint(t) != "sd3" || j.Format != picture.WebP
	case image.Upscale:
		// Its factor is 4; the engine scales the rest down.
	case image.RemoveBackground:
		r.Formats = j.Format != picture.JPEG
	}
	return r
}

// endpoint is the last part of the path of generations.
func endpoint(t *image.Target) string {
	if t.Model == "core" || t.Model == "ultra" {
		return t.Model
	}
	return "sd3"
}

// Begin starts a run of one request.
func (Dialect) Begin(j *image.Job, t *image.Target, _ int) image.Run {
	return run{image.Once{
		Ask:    func(s *image.Step) { request(&s.Request, j, t) },
		Answer: answer,
	}}
}

// run is Once with Stability's own form of refusals.
type run struct{ image.Once }

// Next is image.Run.
func (r run) Next(s *image.Step, last *image.Reply) (*image.Outcome, *dialect.Failure) {
	if last != nil && (last.Status == 403 || last.Status == 400) && moderated(last.Body) {
		return nil, &dialect.Failure{
			Status: 422, Code: "CONTENT_POLICY_VIOLATION", Type: "invalid_request_error",
			Message: "The request was refused by the model's content policy.",
		}
	}
	return r.Once.Next(s, last)
}

// moderated reads {name, errors}.
func moderated(body []byte) (yes bool) {
	jsontext.Walk(body, func(key, value []byte) bool {
		yes = yes || string(key) == "name" && strings.Contains(jsontext.Unquoted(value), "moderation")
		return true
	})
	return yes
}

func request(r *proxy.Request, j *image.Job, t *image.Target) {
	f := filebody.NewForm()
	switch j.Kind {
	case image.Generate, image.Edit:
		kind := endpoint(t)
		r.Path = []byte("/stable-image/generate/" + kind)
		if kind == "sd3" {
			f.Field("model", t.Model)
			if j.CFGScale.Set {
				f.Float("cfg_scale", min(10, max(1, j.CFGScale.V)))
			}
		}
		preset := presets[j.Style]
		if kind == "core" && preset != "" {
			f.Field("prompt", j.Prompt)
			f.Field("style_preset", preset)
		} else {
			f.Field("prompt", j.Words())
		}
		f.FieldUnless("negative_prompt", j.NegativePrompt)
		if j.Seed.Set {
			f.Int("seed", fold(j.Seed.V))
		}
		if j.Kind == image.Edit {
			strength, err := strconv.ParseFloat(t.Options["strength"], 64)
			if err != nil || strength < 0 || strength > 1 {
				strength = defaultStrength
			}
			if kind == "sd3" {
				f.Field("mode", "image-to-image")
			}
			f.Float("strength", strength)
		} else {
			f.FieldUnless("aspect_ratio", j.Ratio(ratios))
		}
	case image.Upscale:
		model := "fast"
		if t.Model == "conservative" {
			model = t.Model
			prompt := j.EnhancePrompt
			if prompt == "" {
				prompt = "a sharp, detailed image"
			}
			f.Field("prompt", prompt)
		}
		r.Path = []byte("/stable-image/upscale/" + model)
	case image.RemoveBackground:
		r.Path = []byte("/stable-image/edit/remove-background")
	}
	f.FieldUnless("output_format", format(j, t))
	if len(j.Inputs) > 0 {
		image.AddFile(f, "image", &j.Inputs[0])
	}
	r.Accept, r.Type, r.Source = "image/*", f.Type(), f.End()
}

// format is the nearest that the endpoint can make.
func format(j *image.Job, t *image.Target) string {
	if j.Format == picture.WebP && j.Kind != image.RemoveBackground && j.Kind != image.Upscale &&
		endpoint(t) == "sd3" ||
		j.Format == picture.JPEG && j.Kind == image.RemoveBackground {
		return "png"
	}
	return j.Format.String()
}

// fold brings any seed into the range that is taken; 0 would mean random.
func fold(seed int64) int64 {
	if seed < 0 {
		seed += 1 << 32
	}
	return min(max(seed, 1), maxSeed)
}

// answer reads raw bytes with finish-reason and seed in headers, or
// {image, finish_reason, seed}.
func answer(r *image.Reply) (*image.Outcome, *dialect.Failure) {
	var m image.Image
	reason := ""
	if picture.Sniff(r.Body) != picture.Unknown {
		m.Raw = r.Body
		m.Seed = image.Whole(r.Header("seed"))
		reason = string(r.Header("finish-reason"))
	} else {
		jsontext.Walk(r.Body, func(key, value []byte) bool {
			switch string(key) {
			case "image":
				m.Text = jsontext.Quoted(value)
			case "seed":
				m.Seed = image.Whole(value)
			case "finish_reason":
				reason = jsontext.Unquoted(value)
			}
			return true
		})
	}
	if reason == "CONTENT_FILTERED" {
		m.Blurred, m.Blocked = true, true // blurred beyond recognition, and free
	}
	return &image.Outcome{Images: []image.Image{m}, Blurred: m.Blurred}, nil
}
