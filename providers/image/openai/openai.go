// Package openai makes images at everything that speaks OpenAI's images API:
// POST /images/generations with JSON, POST /images/edits with a multipart form.
//
// A target's options: `sizes`, the sizes it takes (1024x1024,1536x1024), nearest wins; by
// default any multiple of 16. `format: fixed`, it takes no output_format. `response_format:
// b64_json`, it must be asked to (servers other than OpenAI's that answer with links
// otherwise). `takes`, which of the members background, moderation, style, quality,
// output_compression and mask it takes; by default those of OpenAI's own models by the
// name, and of other servers all but style and mask.
//
// Code that other dialects could use belongs to package image.
package openai

import (
	"slices"
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

// maxCount is the most images one call makes.
const maxCount = 4

// Reach knows generation and edit.
func (Dialect) Reach(j *image.Job, t *image.Target) image.Reach {
	switch j.Kind {
	case image.Generate, image.Edit:
		perCall := maxCount
		if strings.HasPrefix(t.Model, "dall-e-3") {
			perCall = 1
		}
		return image.Reach{PerCall: perCall, Formats: format(j, t) != "", Masks: takes(t, "mask")}
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
		member := func(name, value string) {
			if takes(t, name) {
				o.TextUnless(name, value)
			}
		}
		member("quality", qualityOf(j, t))
		member("background", j.Background)
		member("style", j.Tone)
		if !j.SafeMode {
			member("moderation", "low")
		}
		if f := format(j, t); f != "" {
			o.Text("output_format", f)
			if compressed(j, t) {
				o.Int("output_compression", int64(j.Compression.V))
			}
		}
		o.TextUnless("response_format", responseFormat(t))
		r.Path, r.Source = pathGenerate, o.End()
		return
	}
	f := filebody.NewForm()
	f.Field("model", t.Model)
	f.Field("prompt", j.Words())
	f.Int("n", int64(n))
	f.FieldUnless("size", size)
	if takes(t, "quality") {
		f.FieldUnless("quality", qualityOf(j, t))
	}
	if takes(t, "background") {
		f.FieldUnless("background", j.Background)
	}
	if s := format(j, t); s != "" {
		f.Field("output_format", s)
		if compressed(j, t) {
			f.Int("output_compression", int64(j.Compression.V))
		}
	}
	f.FieldUnless("response_format", responseFormat(t))
	name := "image"
	if len(j.Inputs) > 1 {
		name = "image[]"
	}
	for i := range j.Inputs {
		image.AddFile(f, name, &j.Inputs[i])
	}
	if j.Mask != nil {
		image.AddFile(f, "mask", j.Mask)
	}
	r.Path, r.Type, r.Source = pathEdit, f.Type(), f.End()
}

// families are the members that OpenAI's models take, by the beginning of their names. Each
// refuses those of the others. The last row is for other servers.
var families = []struct {
	prefix, takes string
}{
	{"dall-e-3", "quality,style"},
	{"dall-e-2", "mask"},
	{"gpt-image-", "background,moderation,quality,output_compression,mask"},
	{"", "background,moderation,quality,output_compression"},
}

func takes(t *image.Target, member string) bool {
	list, said := t.Options["takes"]
	for i := range families {
		if f := &families[i]; !said && strings.HasPrefix(t.Model, f.prefix) {
			list, said = f.takes, true
		}
	}
	return slices.Contains(strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }), member)
}

// old says that the target is a model of OpenAI's from before gpt-image-1. It takes no
// output_format, and answers with links by default.
func old(t *image.Target) bool { return strings.HasPrefix(t.Model, "dall-e-") }

// qualityOf is the quality in the words of the model.
func qualityOf(j *image.Job, t *image.Target) string {
	if !old(t) {
		return j.Quality
	}
	switch j.Quality {
	case "high", "hd":
		return "hd"
	case "":
		return ""
	}
	return "standard"
}

func compressed(j *image.Job, t *image.Target) bool {
	return j.Compression.Set && j.Format != picture.PNG && takes(t, "output_compression")
}

func responseFormat(t *image.Target) string {
	if old(t) {
		return "b64_json"
	}
	return t.Options["response_format"]
}

// sizeOf is empty if the client did not ask for a size: the model decides.
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
	if t.Options["format"] == "fixed" || old(t) {
		return ""
	}
	return j.Format.String()
}

// Answer reads {data:[{b64_json|url, revised_prompt}], usage}. Links other than
// data URLs are not followed: the request asks for base64.
func Answer(r *image.Reply, n int) (*image.Outcome, *dialect.Failure) {
	out := &image.Outcome{}
	jsontext.Walk(r.Body, func(key, value []byte) bool {
		switch string(key) {
		case "data":
			jsontext.Each(value, func(item []byte) bool {
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
	jsontext.Walk(item, func(key, value []byte) bool {
		switch string(key) {
		case "b64_json":
			if text := jsontext.Quoted(value); len(text) > 0 {
				m.Text = text
			}
		case "url":
			if text := jsontext.Quoted(value); m.Text == nil && len(text) > 0 {
				m.Text = text
			}
		case "revised_prompt":
			m.RevisedPrompt = jsontext.Unquoted(value)
		}
		return true
	})
	return m
}

func readUsage(b []byte) (u image.Usage) {
	count := func(v []byte) int64 {
		n, _ := jsontext.ReadCount(v)
		return n
	}
	jsontext.Walk(b, func(key, value []byte) bool {
		switch string(key) {
		case "input_tokens":
			u.Input = count(value)
		case "output_tokens":
			u.Output = count(value)
		case "input_tokens_details":
			jsontext.Walk(value, func(key, value []byte) bool {
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
