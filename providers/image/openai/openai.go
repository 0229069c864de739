// Package openai makes images at everything that speaks OpenAI's images API:
// POST /images/generations with JSON, POST /images/edits with a multipart form.
//
// A target's options: `sizes`, the sizes it takes (1024x1024,1536x1024), nearest
// wins; none: any multiple of 16. `format: fixed`, it takes no output_format.
// `response_format: b64_json`, it must be told so (servers other than OpenAI's
// that answer with links otherwise).
//
// What may not enter: what other dialects could use, which is image's.
package openai

import (
	"strconv"
	"strings"

	"farebox/providers/chat/dialect"
	"farebox/providers/image"
	"farebox/providers/image/picture"
	"farebox/proxy"
)

// Dialect implements image.Dialect.
type Dialect struct{}

// maxCount is the most images one call makes.
const maxCount = 4

// Reach knows generation and edit.
func (Dialect) Reach(j *image.Job, t *image.Target) image.Reach {
	switch j.Kind {
	case image.Generate, image.Edit:
		return image.Reach{PerCall: maxCount, Formats: t.Options["format"] != "fixed"}
	case image.Upscale, image.RemoveBackground:
	}
	return image.Reach{No: &dialect.Unsupported{Text: "The model cannot do this with an image."}}
}

// Begin starts a run of one request.
func (Dialect) Begin(j *image.Job, t *image.Target, n int) image.Run {
	return image.Once{Ask: func(s *image.Step) { request(&s.Request, j, t, n) },
		Answer: func(r *image.Reply) (*image.Outcome, *dialect.Failure) {
			return Answer(r, n)
		}}
}

var (
	pathGenerate = []byte("/images/generations")
	pathEdit     = []byte("/images/edits")
)

func request(r *proxy.Request, j *image.Job, t *image.Target, n int) {
	size := sizeOf(j, t)
	if j.Kind == image.Generate {
		var o image.Object
		o.Text("model", t.Model)
		o.Text("prompt", j.Words())
		o.Int("n", int64(n))
		o.TextUnless("size", size)
		o.TextUnless("quality", j.Quality)
		o.TextUnless("background", j.Background)
		o.TextUnless("style", j.Tone)
		if !j.SafeMode {
			o.Text("moderation", "low")
		}
		if f := format(j, t); f != "" {
			o.Text("output_format", f)
			if j.Compression.Set && j.Format != picture.PNG {
				o.Int("output_compression", int64(j.Compression.V))
			}
		}
		o.TextUnless("response_format", t.Options["response_format"])
		r.Path, r.Source = pathGenerate, o.End()
		return
	}
	f := image.NewForm()
	f.Field("model", t.Model)
	f.Field("prompt", j.Words())
	f.Int("n", int64(n))
	f.FieldUnless("size", size)
	f.FieldUnless("quality", j.Quality)
	f.FieldUnless("background", j.Background)
	if s := format(j, t); s != "" {
		f.Field("output_format", s)
		if j.Compression.Set && j.Format != picture.PNG {
			f.Int("output_compression", int64(j.Compression.V))
		}
	}
	f.FieldUnless("response_format", t.Options["response_format"])
	name := "image"
	if len(j.Inputs) > 1 {
		name = "image[]"
	}
	for i := range j.Inputs {
		f.File(name, &j.Inputs[i])
	}
	r.Path, r.Type, r.Source = pathEdit, f.Type(), f.End()
}

// sizeOf is empty when nobody asked for a size: the model decides.
func sizeOf(j *image.Job, t *image.Target) string {
	_, _, said := j.Shape()
	if !said && j.Resolution == "" || j.AspectRatio == "auto" && j.Resolution == "" {
		return ""
	}
	if list := t.Options["sizes"]; list != "" {
		return j.SizeOf(strings.Split(list, ","))
	}
	w, h := j.Pixels(16)
	return strconv.Itoa(w) + "x" + strconv.Itoa(h)
}

func format(j *image.Job, t *image.Target) string {
	if t.Options["format"] == "fixed" {
		return ""
	}
	return j.Format.String()
}

// Answer reads {data:[{b64_json|url, revised_prompt}], usage}. Links other than
// data URLs are not followed: the request asks for base64.
func Answer(r *image.Reply, n int) (*image.Outcome, *dialect.Failure) {
	out := &image.Outcome{}
	image.Walk(r.Body, func(key, value []byte) bool {
		switch string(key) {
		case "data":
			image.Each(value, func(item []byte) bool {
				if len(out.Images) < n {
					out.Images = append(out.Images, readImage(item))
				}
				return true
			})
		case "usage":
			out.Usage = readUsage(value)
		}
		return true
	})
	return out, nil // without images, or with too few, it is not enough for the engine
}

func readImage(item []byte) (m image.Image) {
	image.Walk(item, func(key, value []byte) bool {
		switch string(key) {
		case "b64_json":
			if text := image.Quoted(value); len(text) > 0 {
				m.Text = text
			}
		case "url":
			if text := image.Quoted(value); m.Text == nil && len(text) > 0 {
				m.Text = text
			}
		case "revised_prompt":
			m.RevisedPrompt = image.Unquoted(value)
		}
		return true
	})
	return m
}

func readUsage(b []byte) (u image.Usage) {
	count := func(v []byte) int64 {
		n, _ := dialect.ReadCount(v)
		return n
	}
	image.Walk(b, func(key, value []byte) bool {
		switch string(key) {
		case "input_tokens":
			u.Input = count(value)
		case "output_tokens":
			u.Output = count(value)
		case "input_tokens_details":
			image.Walk(value, func(key, value []byte) bool {
				switch string(key) {
				case "text_tokens":
					u.InputText = count(value)
				case "image_tokens":
					u.InputImage = count(value)
				}
				return true
			})
		}
		return true
	})
	return u
}
