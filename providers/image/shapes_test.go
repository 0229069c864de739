package image_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"sort"
	"strings"
	"testing"

	"farebox/providers/image"
	"farebox/providers/image/picture"
)

// shapeOf is a step's request as text: path and fields, files by their sniffed
// format.
func shapeOf(t *testing.T, s *image.Step) string {
	t.Helper()
	r := &s.Request
	var body bytes.Buffer
	n, err := r.Source.WriteTo(&body)
	if err != nil || n != r.Source.Len() {
		t.Fatalf("%d of %d bytes, %v", n, r.Source.Len(), err)
	}
	fields := map[string]string{}
	if media, params, _ := mime.ParseMediaType(r.Type); media == "multipart/form-data" {
		form := multipart.NewReader(&body, params["boundary"])
		for {
			p, err := form.NextPart()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(p)
			value := string(b)
			if p.FileName() != "" {
				value = fmt.Sprintf("<%s %s %s>", p.FileName(), p.Header.Get("Content-Type"), picture.Sniff(b))
			}
			fields[p.FormName()] += value
		}
	} else {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(body.Bytes(), &m); err != nil {
			t.Fatalf("%v: %.300s", err, body.Bytes())
		}
		for name, v := range m {
			value := string(v)
			if i := strings.Index(value, "iVBOR"); i >= 0 {
				value = value[:i] + "<png>"
			}
			fields[name] = value
		}
	}
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	sort.Strings(names)
	out := string(r.Path)
	for _, name := range names {
		out += "\n" + name + "=" + fields[name]
	}
	return out
}

// full is a job that says everything there is to say.
func full(t *testing.T, kind image.Kind) *image.Job {
	j := &image.Job{
		Kind: kind, Prompt: "a cat", NegativePrompt: "dogs", AspectRatio: "16:9", Resolution: "2K", Quality: "high",
		Steps: image.Some(8), CFGScale: image.Some(7.5),
		Seed: image.Some[int64](-7), Count: 1, Style: "Lowpoly", StyleText: "low polygon count",
		LoraStrength: image.Some(40), Format: picture.WebP, Compression: image.Some(80),
		Background: "opaque", Tone: "vivid", HideWatermark: true, WebSearch: true, NoPromptThinking: true,
		EmbedMetadata: true,
	}
	if kind != image.Generate {
		j.Inputs = []image.Input{input(t, pngOf(300, 256))}
	}
	if kind == image.Upscale {
		j.Scale, j.Enhance, j.EnhanceCreativity, j.EnhancePrompt, j.Replication = image.Some(2.5), true,
			image.Some(0.5), "sharp", image.Some(0.35)
	}
	return j
}

// Each dialect sends the fields that its upstream knows, under its names, and
// no others.
func TestRequestsHaveTheirShape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dialect, model string
		kind           image.Kind
		options        map[string]string
		want           string
	}{
		{"openai", "", image.Generate, nil, `/images/generations
background="opaque"
model="sim-image"
moderation="low"
n=2
output_compression=80
output_format="webp"
prompt="a cat, low polygon count"
quality="high"
size="2736x1536"`},
		{"openai", "dall-e-3", image.Generate, map[string]string{"sizes": "1024x1024,1792x1024"}, `/images/generations
model="dall-e-3"
n=2
prompt="a cat, low polygon count"
quality="hd"
response_format="b64_json"
size="1792x1024"
style="vivid"`},
		{"openai", "own", image.Generate, map[string]string{"takes": "style, quality", "format": "fixed"}, `/images/generations
model="own"
n=2
prompt="a cat, low polygon count"
quality="high"
size="2736x1536"
style="vivid"`},
		{"openai", "", image.Edit, map[string]string{"sizes": "1024x1024,1536x1024,1024x1536", "format": "fixed",
			"response_format": "b64_json"}, `/images/edits
background=opaque
image=<image.png image/png png>
model=sim-image
n=2
prompt=a cat, low polygon count
quality=high
response_format=b64_json
size=1536x1024`},
		{"native", "", image.Generate, nil, `/image/generate
aspect_ratio="16:9"
cfg_scale=7.5
disable_prompt_optimization_thinking=true
embed_exif_metadata=true
enable_web_search=true
format="webp"
hide_watermark=true
lora_strength=40
model="sim-image"
prompt="a cat"
quality="high"
resolution="2K"
safe_mode=false
seed=-7
steps=8
style_preset="Lowpoly"
variants=2`},
		{"native", "", image.Edit, nil, `/image/edit
aspect_ratio=16:9
disable_prompt_optimization_thinking=true
image=<image.png image/png png>
model=sim-image
output_format=webp
prompt=a cat, low polygon count
quality=high
resolution=2K
safe_mode=false`},
		{"native", "", image.Upscale, nil, `/image/upscale
enhance=true
enhanceCreativity=0.5
enhancePrompt=sharp
image=<image.png image/png png>
replication=0.35
scale=2.5`},
		{"native", "", image.RemoveBackground, nil, `/image/background-remove
image=<image.png image/png png>`},
		{"sdapi", "", image.Generate, map[string]string{"sampler": "Euler a"}, `/sdapi/v1/txt2img
batch_size=2
cfg_scale=7.5
height=1536
n_iter=1
negative_prompt="dogs"
override_settings={"return_grid":false,"sd_model_checkpoint":"sim.safetensors"}
prompt="a cat, low polygon count"
sampler_name="Euler a"
save_images=false
seed=-7
send_images=true
steps=8
width=2728`},
		{"sdapi", "", image.Edit, map[string]string{"model": "loaded", "denoising": "0.4"}, `/sdapi/v1/img2img
batch_size=2
cfg_scale=7.5
denoising_strength=0.4
height=1536
init_images=["<png>
n_iter=1
negative_prompt="dogs"
override_settings={"return_grid":false}
prompt="a cat, low polygon count"
save_images=false
seed=-7
send_images=true
steps=8
width=2728`},
		{"sdapi", "", image.Upscale, nil, `/sdapi/v1/extra-single-image
image="<png>
resize_mode=0
upscaler_1="R-ESRGAN 4x+"
upscaling_resize=2.5`},
		{"stability", "core", image.Generate, nil, `/stable-image/generate/core
aspect_ratio=16:9
negative_prompt=dogs
output_format=webp
prompt=a cat
seed=4294967289
style_preset=low-poly`},
		{"stability", "sd3.5-large", image.Edit, map[string]string{"strength": "0.6"}, `/stable-image/generate/sd3
cfg_scale=7.5
image=<image.png image/png png>
mode=image-to-image
model=sd3.5-large
negative_prompt=dogs
output_format=png
prompt=a cat, low polygon count
seed=4294967289
strength=0.6`},
		{"stability", "conservative", image.Upscale, nil, `/stable-image/upscale/conservative
image=<image.png image/png png>
output_format=webp
prompt=sharp`},
		{"stability", "any", image.RemoveBackground, nil, `/stable-image/edit/remove-background
image=<image.png image/png png>
output_format=webp`},
		{"fal", "", image.Generate, nil, `/fal-ai/sim/dev
enable_safety_checker=false
guidance_scale=7.5
image_size={"width":2728,"height":1536}
negative_prompt="dogs"
num_images=2
num_inference_steps=8
prompt="a cat, low polygon count"
seed=-7`},
		{"fal", "", image.Edit, map[string]string{"images": "image_urls"}, `/fal-ai/sim/dev
enable_safety_checker=false
guidance_scale=7.5
image_size={"width":2728,"height":1536}
image_urls=["data:image/png;base64,<png>
negative_prompt="dogs"
num_images=2
num_inference_steps=8
prompt="a cat, low polygon count"
seed=-7`},
		{"fal", "", image.Upscale, map[string]string{"scale": "upscaling_factor"}, `/fal-ai/sim/dev
creativity=0.5
image_url="data:image/png;base64,<png>
prompt="sharp"
resemblance=0.35
upscaling_factor=2.5`},
	} {
		d := dialects[c.dialect]
		tg := &image.Target{Dialect: d.dialect, Model: d.model, Options: c.options}
		if c.model != "" {
			tg.Model = c.model
		}
		j := full(t, c.kind)
		if r := d.dialect.Reach(j, tg); r.No != nil || r.PerCall < 1 {
			t.Fatalf("%s %v: %+v", c.dialect, c.kind, r)
		}
		var s image.Step
		if out, no := d.dialect.Begin(j, tg, 2).Next(&s, nil); out != nil || no != nil {
			t.Fatal(out, no)
		}
		if got := shapeOf(t, &s); got != c.want {
			t.Errorf("%s %v:\n%s\nwant:\n%s", c.dialect, c.kind, got, c.want)
		}
	}
}

// Members that were not given are not sent.
func TestShortRequestsStayShort(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"openai":    "/images/generations\nmodel=\"sim-image\"\nn=1\nprompt=\"a cat\"",
		"native":    "/image/generate\nmodel=\"sim-image\"\nprompt=\"a cat\"\nreturn_binary=true\nsafe_mode=true",
		"stability": "/stable-image/generate/ultra\nprompt=a cat",
		"fal":       "/fal-ai/sim/dev\nenable_safety_checker=true\nnum_images=1\nprompt=\"a cat\"",
	} {
		d := dialects[name]
		var s image.Step
		_, _ = d.dialect.Begin(simple(), &image.Target{Dialect: d.dialect, Model: d.model}, 1).Next(&s, nil)
		if got := shapeOf(t, &s); got != want {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// Style references of a native upstream go along as base64.
func TestStyleReferencesAreSent(t *testing.T) {
	t.Parallel()
	j := simple()
	j.References = []image.Reference{{Input: input(t, pngOf(256, 256)), Strength: 0.5},
		{Input: input(t, pngOf(257, 256)), Strength: 1}}
	d := dialects["native"]
	var s image.Step
	_, _ = d.dialect.Begin(j, &image.Target{Dialect: d.dialect, Model: "m"}, 1).Next(&s, nil)
	var body bytes.Buffer
	_, _ = s.Request.Source.WriteTo(&body)
	var m struct {
		References []struct {
			Image    []byte
			Strength float64
		} `json:"style_references"`
	}
	if err := json.Unmarshal(body.Bytes(), &m); err != nil || len(m.References) != 2 ||
		m.References[0].Strength != 0.5 || !bytes.Equal(m.References[1].Image, pngOf(257, 256)) {
		t.Errorf("%v, %d references", err, len(m.References))
	}
}

// No text of a client breaks out of its field.
func TestClientsCannotAddFields(t *testing.T) {
	t.Parallel()
	for _, evil := range []string{`","model":"other`,
		"\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nother", `\`, "\x00\x1f", "\xff\xfe", "\u2028",
		strings.Repeat("--farebox-", 50)} {
		for name, d := range dialects {
			for _, kind := range []image.Kind{image.Generate, image.Edit} {
				j := full(t, kind)
				j.Prompt, j.NegativePrompt = evil, evil
				tg := &image.Target{Dialect: d.dialect, Model: d.model}
				var s image.Step
				_, _ = d.dialect.Begin(j, tg, 1).Next(&s, nil)
				shape := shapeOf(t, &s)
				if strings.Contains(shape, "model=\"other\"") || strings.Contains(shape, "model=other") {
					t.Errorf("%s: %q got out", name, evil)
				}
			}
		}
	}
}

// FuzzAnswers: no answer of any upstream does more than fail.
func FuzzAnswers(f *testing.F) {
	file := text(hollow(256, 256))
	for _, s := range []string{
		`{"data":[{"b64_json":"` + file +
			`","revised_prompt":"\u00"}],"usage":{"input_tokens":-5,"input_tokens_details":{"text_tokens":1e99}}}`,
		`{"images":["` + file + `"],"timing":{"inferenceQueueTime":1e300},"info":"{\"all_seeds\":[1,\"x\"],\"index_of_first_image\":99}"}`,
		`{"image":"` + file + `","finish_reason":"CONTENT_FILTERED","seed":"18446744073709551616"}`,
		`{"image":{"url":"http://169.254.169.254/"},"seed":1}`,
		`{"status":"COMPLETED","request_id":"a/../b"}`, `{"status":"IN_QUEUE","request_id":"abc"}`,
		`{"images":[{"url":"data:image/png;base64,` + file + `"}],"has_nsfw_concepts":[true,true,true]}`,
		`{"name":"content_moderation"}`, `{`, `[`, `"`, `{"data":[[[[`, `{"images":[{"url":5},null,[],{}]}`, "",
	} {
		f.Add([]byte(s), 200, 0)
	}
	kinds := []image.Kind{image.Generate, image.Edit, image.Upscale, image.RemoveBackground}
	in, err := image.ReadRaw(hollow(256, 256))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, status, pick int) {
		for _, d := range dialects {
			j := &image.Job{Kind: kinds[uint(pick)%4], Prompt: "x", Count: 2, Inputs: []image.Input{in}, SafeMode: true}
			run := d.dialect.Begin(j, &image.Target{Dialect: d.dialect, Model: d.model}, 2)
			var last *image.Reply
			for range 8 {
				var s image.Step
				out, no := run.Next(&s, last)
				if (out != nil) == (no != nil) && out != nil {
					t.Fatal("both an outcome and a failure")
				}
				if out != nil || no != nil {
					break
				}
				for _, c := range s.Request.Path {
					if c <= ' ' || c >= 0x7f {
						t.Fatalf("the path is %q", s.Request.Path)
					}
				}
				last = &image.Reply{Status: status, Body: append([]byte(nil), body...),
					Header: func(string) []byte { return body }}
			}
			var s image.Step
			run.Cancel(&s)
		}
	})
}
