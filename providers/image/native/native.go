// Package native makes images at an upstream that speaks this very
// specification (interface.md, Images; addendum 8): another farebox, or the
// service whose interface it is. The base URL ends in /api/v1.
//
// A target's option `brand` is the brand word in the upstream's header names,
// svc when it is not set.
//
// One image arrives as raw bytes, several as base64 in JSON. Input images go out
// in multipart forms, as raw bytes. negative_prompt is not sent: the
// specification refuses it.
package native

import (
	"net/url"
	"strconv"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/providers/filebody"
	"farebox/providers/image"
	"farebox/providers/image/picture"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// Dialect implements image.Dialect.
type Dialect struct{}

// maxCount is the most images of one request (8.1).
const maxCount = 4

// Reach knows all kinds. Upscaled images and those without background are PNG.
func (Dialect) Reach(j *image.Job, _ *image.Target) image.Reach {
	r := image.Reach{PerCall: 1, Metadata: true}
	switch j.Kind {
	case image.Generate:
		r.PerCall, r.Formats = maxCount, true
	case image.Edit:
		r.Formats = true
		r.Metadata = false
	case image.Upscale, image.RemoveBackground:
		r.Metadata = false
	}
	return r
}

// Begin starts a run of one request.
func (Dialect) Begin(j *image.Job, t *image.Target, n int) image.Run {
	return image.Once{
		Ask: func(s *image.Step) { request(&s.Request, j, t, n) },
		Answer: func(r *image.Reply) (*image.Outcome, *dialect.Failure) {
			return answer(r, t, n)
		},
	}
}

var (
	pathGenerate  = []byte("/image/generate")
	pathEdit      = []byte("/image/edit")
	pathMultiEdit = []byte("/image/multi-edit")
	pathUpscale   = []byte("/image/upscale")
	pathRemove    = []byte("/image/background-remove")
)

func request(r *proxy.Request, j *image.Job, t *image.Target, n int) {
	if j.Kind == image.Generate {
		r.Path, r.Source = pathGenerate, generate(j, t, n)
		return
	}
	f := filebody.NewForm()
	field := "image"
	switch j.Kind {
	case image.Edit:
		r.Path = pathEdit
		if len(j.Inputs) > 1 {
			r.Path, field = pathMultiEdit, "images"
			f.FieldUnless("modelId", t.Model)
		} else {
			f.FieldUnless("model", t.Model)
		}
		f.Field("prompt", j.Words())
		f.FieldUnless("aspect_ratio", j.AspectRatio)
		f.FieldUnless("resolution", j.Resolution)
		f.FieldUnless("quality", j.Quality)
		f.FieldUnless("output_format", j.Format.String())
		f.Field("safe_mode", strconv.FormatBool(j.SafeMode))
		if j.NoPromptThinking {
			f.Field("disable_prompt_optimization_thinking", "true")
		}
	case image.Upscale:
		r.Path = pathUpscale
		upscale(f, j)
	case image.RemoveBackground:
		r.Path = pathRemove
	case image.Generate:
	}
	for i := range j.Inputs {
		image.AddFile(f, field, &j.Inputs[i])
	}
	r.Type, r.Source = f.Type(), f.End()
}

func generate(j *image.Job, t *image.Target, n int) *filebody.Pieces {
	var o image.Object
	o.Text("model", t.Model)
	o.Text("prompt", j.Prompt)
	if j.Width > 0 && j.Height > 0 {
		o.Int("width", int64(j.Width))
		o.Int("height", int64(j.Height))
	}
	o.TextUnless("aspect_ratio", j.AspectRatio)
	o.TextUnless("resolution", j.Resolution)
	o.TextUnless("quality", j.Quality)
	o.TextUnless("style_preset", j.Style)
	o.TextUnless("format", j.Format.String())
	if j.Steps.Set {
		o.Int("steps", int64(j.Steps.V))
	}
	if j.CFGScale.Set {
		o.Float("cfg_scale", j.CFGScale.V)
	}
	if j.Seed.Set {
		o.Int("seed", j.Seed.V)
	}
	if j.LoraStrength.Set {
		o.Int("lora_strength", int64(j.LoraStrength.V))
	}
	if n > 1 {
		o.Int("variants", int64(n)) // the name that both generations of the interface take
	} else {
		o.Bool("return_binary", true)
	}
	o.Bool("safe_mode", j.SafeMode)
	if j.HideWatermark {
		o.Bool("hide_watermark", true)
	}
	if j.EmbedMetadata {
		o.Bool("embed_exif_metadata", true)
	}
	if j.WebSearch {
		o.Bool("enable_web_search", true)
	}
	if j.NoPromptThinking {
		o.Bool("disable_prompt_optimization_thinking", true)
	}
	if len(j.References) > 0 {
		references(&o, j.References)
	}
	return o.End()
}

func references(o *image.Object, list []image.Reference) {
	o.Raw("style_references", "[")
	for i := range list {
		if i > 0 {
			o.AddString(",")
		}
		var one image.Object
		one.Image("image", "", &list[i].Input)
		one.Float("strength", list[i].Strength)
		o.Join(one.End())
	}
	o.AddString("]")
}

func upscale(f *filebody.Form, j *image.Job) {
	if j.Scale.Set {
		f.Float("scale", j.Scale.V)
	}
	if j.Enhance {
		f.Field("enhance", "true")
	}
	for name, v := range map[string]image.Maybe[float64]{
		"enhanceCreativity": j.EnhanceCreativity, "replication": j.Replication, "creativity": j.Creativity,
	} {
		if v.Set {
			f.Float(name, v.V)
		}
	}
	f.FieldUnless("enhancePrompt", j.EnhancePrompt)
}

// answer reads raw bytes, or {images:[base64], request, timing}.
func answer(r *image.Reply, t *image.Target, n int) (*image.Outcome, *dialect.Failure) {
	brand := t.Options["brand"]
	if brand == "" {
		brand = "svc"
	}
	flag := func(name string) bool { return string(r.Header("x-"+brand+"-"+name)) == "true" }
	out := &image.Outcome{
		Blurred: flag("is-blurred"), Violation: flag("is-content-violation"),
		AdultViolation: flag("is-adult-model-content-violation"), Minor: flag("contains-minor"),
	}
	if text, err := url.QueryUnescape(string(r.Header("x-" + brand + "-enhanced-prompt"))); err == nil {
		out.EnhancedPrompt = text
	}
	if picture.Sniff(r.Body) != picture.Unknown {
		out.Images = []image.Image{{Raw: r.Body}}
	} else {
		jsontext.Walk(r.Body, func(key, value []byte) bool {
			switch string(key) {
			case "images":
				jsontext.Each(value, func(v []byte) bool {
					if text := jsontext.Quoted(v); len(text) > 0 && len(out.Images) < n {
						out.Images = append(out.Images, image.Image{Text: text})
					}
					return true
				})
			case "timing":
				jsontext.Walk(value, func(key, value []byte) bool {
					if string(key) == "inferenceQueueTime" {
						ms, _ := jsontext.ReadCount(value)
						out.Queued = time.Duration(min(ms, maxQueuedMs)) * time.Millisecond
					}
					return true
				})
			}
			return true
		})
	}
	for i := range out.Images {
		// An image that the upstream withheld is a placeholder and free (addendum 3.7).
		out.Images[i].Blocked, out.Images[i].Blurred = out.Violation, out.Blurred
	}
	return out, nil
}

// maxQueuedMs bounds the queue time that an upstream reports.
const maxQueuedMs = 3_600_000
