// Package sdapi makes images at AUTOMATIC1111's web UI and other servers with its API
// (Forge, SD.Next): /sdapi/v1/txt2img, /img2img and /extra-single-image. The base URL is
// the server's root.
//
// A target's options: `sampler`; `upscaler`, R-ESRGAN 4x+ when it is not set;
// `denoising`, 0 to 1, how far an edit may go from its image, 0.75 when it is
// not set; `model: loaded` leaves the checkpoint that is loaded, otherwise the
// target's model name is the checkpoint.
package sdapi

import (
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/providers/image"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// Dialect implements image.Dialect.
type Dialect struct{}

const (
	maxCount         = 4
	defaultUpscaler  = "R-ESRGAN 4x+"
	defaultDenoising = 0.75
	// sizeStep divides widths and heights.
	sizeStep = 8
)

// Reach knows all but the removal of backgrounds. The server's settings decide
// on the format.
func (Dialect) Reach(j *image.Job, _ *image.Target) image.Reach {
	switch j.Kind {
	case image.Generate:
		return image.Reach{PerCall: maxCount}
	case image.Edit:
		if len(j.Inputs) == 1 {
			return image.Reach{PerCall: maxCount}
		}
		return image.Reach{No: &dialect.Unsupported{Text: "The model edits one image at a time."}}
	case image.Upscale:
		return image.Reach{PerCall: 1}
	case image.RemoveBackground:
	}
	return image.Reach{No: &dialect.Unsupported{Text: "The model cannot remove backgrounds."}}
}

// Begin starts a run of one request.
func (Dialect) Begin(j *image.Job, t *image.Target, n int) image.Run {
	return image.Once{
		Ask: func(s *image.Step) { request(&s.Request, j, t, n) },
		Answer: func(r *image.Reply) (*image.Outcome, *dialect.Failure) {
			return answer(r, n), nil
		},
	}
}

var (
	pathText    = []byte("/sdapi/v1/txt2img")
	pathImage   = []byte("/sdapi/v1/img2img")
	pathUpscale = []byte("/sdapi/v1/extra-single-image")
)

func request(r *proxy.Request, j *image.Job, t *image.Target, n int) {
	var o image.Object
	if j.Kind == image.Upscale {
		o.Int("resize_mode", 0)
		o.Float("upscaling_resize", j.Scale.Or(2))
		upscaler := t.Options["upscaler"]
		if upscaler == "" {
			upscaler = defaultUpscaler
		}
		o.Text("upscaler_1", upscaler)
		o.Image("image", "", &j.Inputs[0])
		r.Path, r.Source = pathUpscale, o.End()
		return
	}
	w, h := j.Pixels(sizeStep)
	o.Text("prompt", j.Words())
	o.TextUnless("negative_prompt", j.NegativePrompt)
	o.Int("width", int64(w))
	o.Int("height", int64(h))
	o.Int("batch_size", int64(n))
	o.Int("n_iter", 1)
	if j.Steps.Set {
		o.Int("steps", int64(j.Steps.V))
	}
	if j.CFGScale.Set {
		o.Float("cfg_scale", j.CFGScale.V)
	}
	o.Int("seed", j.Seed.Or(-1))
	o.TextUnless("sampler_name", t.Options["sampler"])
	o.Bool("send_images", true)
	o.Bool("save_images", false)
	var settings image.Object
	settings.Bool("return_grid", false)
	if t.Options["model"] != "loaded" {
		settings.TextUnless("sd_model_checkpoint", t.Model)
	}
	o.Raw("override_settings", "")
	o.Join(settings.End())
	r.Path = pathText
	if j.Kind == image.Edit {
		denoising, err := strconv.ParseFloat(t.Options["denoising"], 64)
		if err != nil || denoising < 0 || denoising > 1 {
			denoising = defaultDenoising
		}
		o.Float("denoising_strength", denoising)
		o.Images("init_images", j.Inputs)
		r.Path = pathImage
	}
	r.Source = o.End()
}

// answer reads {images:[base64], info:"{json}"} and {image:base64}.
func answer(r *image.Reply, n int) *image.Outcome {
	out := &image.Outcome{}
	var texts [][]byte
	var seeds []image.Maybe[int64]
	first := 0
	jsontext.Walk(r.Body, func(key, value []byte) bool {
		switch string(key) {
		case "images":
			jsontext.Each(value, func(v []byte) bool {
				texts = append(texts, jsontext.Quoted(v))
				return len(texts) < maxListed
			})
		case "image":
			texts = append(texts, jsontext.Quoted(value))
		case "info":
			first, seeds = readInfo([]byte(jsontext.Unquoted(value)))
		}
		return true
	})
	// A grid of all images precedes them where the server makes one.
	if first > 0 && first < len(texts) {
		texts = texts[first:]
	} else if first == 0 && n > 1 && len(texts) == n+1 {
		texts = texts[1:]
	}
	for i, text := range texts {
		if len(text) == 0 || i == n {
			break
		}
		m := image.Image{Text: text}
		if i < len(seeds) {
			m.Seed = seeds[i]
		}
		out.Images = append(out.Images, m)
	}
	return out
}

// maxListed bounds the entries read of a list.
const maxListed = 16

func readInfo(b []byte) (first int, seeds []image.Maybe[int64]) {
	jsontext.Walk(b, func(key, value []byte) bool {
		switch string(key) {
		case "index_of_first_image":
			n, _ := jsontext.ReadCount(value)
			first = int(min(n, maxListed))
		case "all_seeds":
			jsontext.Each(value, func(v []byte) bool {
				seeds = append(seeds, image.Whole(v))
				return len(seeds) < maxListed
			})
		}
		return true
	})
	return first, seeds
}
