package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
)

// drawn is a picture of a size, the same in every recording.
func drawn(format string, width, height int) []byte {
	m := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.RGBA{200, 30, 90, 255}})
	var b bytes.Buffer
	switch format {
	case "jpeg":
		_ = jpeg.Encode(&b, m, nil)
	case "gif":
		_ = gif.Encode(&b, m, nil)
	default:
		_ = png.Encode(&b, m)
	}
	return b.Bytes()
}

func text64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// form is a multipart body; its boundary is always the same.
type form struct{ b strings.Builder }

const boundary = "record-boundary"

func (f *form) field(name, value string) *form {
	fmt.Fprintf(&f.b, "--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n", boundary, name, value)
	return f
}

func (f *form) file(name string, data []byte) *form {
	fmt.Fprintf(&f.b, "--%s\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"a.png\"\r\nContent-Type: "+
		"image/png\r\n\r\n%s\r\n", boundary, name, data)
	return f
}

func (f *form) end() string { return f.b.String() + "--" + boundary + "--\r\n" }

var formType = []string{"Content-Type: multipart/form-data; boundary=" + boundary}

var dialects = []string{"openai", "native", "sdapi", "stability", "fal"}

// pictures are those that come out, and those that upstreams spoil.
func (l *lab) pictures(c *customer) {
	post := func(name, path, body string, headers ...string) {
		l.post("pictures: "+name, path, c.worker, body, headers...)
	}
	small := text64(drawn("png", 256, 256))
	for _, d := range dialects {
		for _, format := range []string{"png", "jpeg", "webp"} {
			for _, more := range []string{"", `,"return_binary":true`} {
				post(d+" "+format+more, "/image/generate", `{"model":"`+d+
					`-paint","prompt":"a cat","width":64,"height":128,"format":"`+format+`"`+more+`}`)
			}
		}
		post(d+" all members", "/image/generate", `{"model":"`+d+
			`-paint","prompt":"a \"cat\"","negative_prompt":"dogs","width":64,"height":64,"steps":7,"cfg_scale":3.5,"seed":7,"num_images":2,"style_preset":"Analog Film","lora_strength":5,"safe_mode":false,"hide_watermark":true,"embed_exif_metadata":true,"format":"png"}`)
		post(d+" simple", "/images/generations", `{"model":"`+d+
			`-paint","prompt":"a cat","size":"256x256","quality":"hd","style":"vivid","background":"opaque","moderation":"low","output_compression":50,"user":"u"}`)
		post(d+" simple as a link", "/images/generations", `{"model":"`+d+
			`-paint","prompt":"a cat","size":"256x256","response_format":"url","output_format":"jpeg"}`)
		post(d+" edited", "/image/edit", `{"model":"`+d+`-edit","prompt":"a hat","image":"`+small+`"}`)
		post(d+" edited as jpeg", "/image/edit", `{"modelId":"`+d+
			`-edit","prompt":"a hat","image":"data:image/png;base64,`+small+`","output_format":"jpeg"}`)
		post(d+" edited as a form", "/image/edit", new(form).field("model", d+"-edit").field("prompt", "a hat").
			file("image", drawn("jpeg", 256, 256)).end(), formType...)
		post(d+" several", "/image/multi-edit", `{"model":"`+d+`-edit","prompt":"a hat","images":["`+small+`","`+small+
			`"]}`)
		post(d+" several as a form", "/image/multi-edit",
			new(form).field("modelId", d+"-edit").field("prompt", "a hat").file("image", drawn("png", 256, 256)).
				file("image_2", drawn("png", 300, 256)).file("image_3", drawn("jpeg", 256, 300)).end(), formType...)
		post(d+" edits of OpenAI", "/images/edits",
			new(form).field("model", d+"-edit").field("prompt", "a hat").file("image[]", drawn("png", 256, 256)).
				file("image[]", drawn("png", 256, 256)).end(), formType...)
		post(d+" edits of OpenAI in JSON", "/images/edits", `{"model":"`+d+`-edit","prompt":"a hat","image":["`+small+
			`"],"response_format":"url"}`)
		for _, s := range append([]string{"image=blocked", "image=cut", "image=text", "image=gif", "image=missing",
			"image=escaped", "image=prefixed", "at=status status=500", "at=result status=500", "at=file status=404",
			"polls=0", "polls=3", "html=1", "status=422 kind=policy"}, scenarios...) {
			if !strings.HasPrefix(s, "image=") && !strings.HasPrefix(s, "at=") && !strings.HasPrefix(s, "polls=") &&
				!strings.HasPrefix(s, "status=") && !strings.HasPrefix(s, "wrong=") && !strings.Contains(s, "cut") &&
				s != "empty=1" && s != "garbage=1" && !strings.HasPrefix(s, "truncate=1") && s != "html=1" &&
				s != "chunk=7" && s != "close=1" {
				continue
			}
			if d == "fal" && (strings.Contains(s, "cut") || strings.HasPrefix(s, "truncate=1") || s == "garbage=1") {
				continue // an idle poll may meet it at another step
			}
			post(d+" "+s, "/image/generate", `{"model":"`+d+`-paint","prompt":"[[sim `+s+
				`]] a cat","width":64,"height":64,"format":"png"}`)
			if strings.HasPrefix(s, "image=") || strings.HasPrefix(s, "status=4") {
				post(d+" edited "+s, "/image/edit", `{"model":"`+d+`-edit","prompt":"[[sim `+s+`]] a hat","image":"`+
					small+`"}`)
			}
		}
	}
	for _, more := range lines("image-members", "small", small) {
		post("tiers "+more[:min(len(more), 60)], "/image/generate",
			`{"model":"tiers","prompt":"a cat","format":"png",`+more+`}`)
		post("ratios "+more[:min(len(more), 60)], "/image/edit",
			`{"model":"ratios","prompt":"a cat","output_format":"png","image":"`+small+`",`+more+`}`)
	}
	for _, body := range []string{`{"image":"` + small + `"}`, `{"image":"` + small + `","scale":4}`,
		`{"image":"` + small + `","scale":1,"enhance":true}`, `{"image":"` + small + `","scale":1}`,
		`{"image":"` + small + `","scale":2.5,"enhance":"true","enhanceCreativity":0.2,"enhancePrompt":"sharp","replication":0.3,"creativity":9}`,
		`{"image":"` + text64(drawn("png", 16, 16)) + `"}`, `{"image":"` + text64(drawn("gif", 256, 256)) + `"}`,
		`{"image":"` + text64(drawn("png", 256, 256)[:80]) + `"}`, `{"image":"AAAA"}`, `{"image":"x y"}`, `{}`,
		`{"image":"http://127.0.0.1:1/x"}`, `{"image":"` + small + `","model":"enlarge"}`} {
		post("upscaled "+body[max(0, len(body)-60):], "/image/upscale", body)
		post("upscaled as packages do "+body[max(0, len(body)-60):], "/images/upscale", body)
		post("cut out "+body[max(0, len(body)-60):], "/image/background-remove", body)
	}
	post("upscaled as a form", "/image/upscale", new(form).field("scale", "4").file("image", drawn("png", 256, 256)).
		end(), formType...)
	post("cut out of a form", "/image/background-remove", new(form).file("image", drawn("jpeg", 256, 256)).end(),
		formType...)
	for _, link := range lines("image-links", "simURL", l.simURL) {
		post("cut out behind "+link, "/image/background-remove", `{"image_url":"`+link+`"}`)
	}
	for _, h := range []string{"Accept-Encoding: gzip", "Accept-Encoding: br", "Accept: image/png"} {
		post("head "+h, "/image/generate",
			`{"model":"openai-paint","prompt":"a cat","width":64,"height":64,"num_images":2}`, h)
	}
	for i, body := range []string{"", "--" + boundary, "--" + boundary + "--\r\n", new(form).field("prompt", "x").end(),
		new(form).field("prompt", "x").field("prompt", "y").file("image", drawn("png", 256, 256)).end(),
		new(form).field("x", "y").file("image", nil).end(), new(form).field("prompt", "x").file("other",
			drawn("png", 256, 256)).end()} {
		post(fmt.Sprint("bad form ", i), "/image/edit", body, formType...)
		post(fmt.Sprint("bad form of OpenAI ", i), "/images/edits", body, formType...)
	}
}

// pictureRules are all members of all bodies with odd values.
func (l *lab) pictureRules(c *customer) {
	small := text64(drawn("png", 256, 256))
	for _, e := range []struct{ path, base, members string }{
		{"/image/generate", `"width":64,"height":64`,
			`negative_prompt width height aspect_ratio resolution quality steps cfg_scale seed num_images variants style_preset lora_strength format return_binary safe_mode hide_watermark embed_exif_metadata enable_web_search enhance_prompt disable_prompt_optimization_thinking style_references inpaint unknown`},
		{"/images/generations", `"size":"256x256"`,
			`n size response_format output_format quality style background moderation output_compression user unknown stream`},
		{"/images/edits", `"image":"` + small + `"`,
			`n size response_format output_format quality background moderation output_compression user image mask input_fidelity stream partial_images unknown`},
		{"/image/edit", `"image":"` + small + `"`,
			`modelId image aspect_ratio resolution output_format quality safe_mode enhance_prompt disable_prompt_optimization_thinking unknown`},
		{"/image/multi-edit", `"image":"` + small + `"`, `image_2 image_3 images output_format unknown`},
		{"/image/upscale", `"image":"` + small + `"`,
			`scale enhance enhanceCreativity enhancePrompt replication creativity unknown`},
		{"/image/background-remove", `"image":"` + small + `"`, `image image_url unknown`},
	} {
		model := map[string]string{"/image/generate": "native-paint", "/images/generations": "native-paint"}[e.path]
		if model == "" {
			model = "native-edit"
		}
		named := `"model":"` + model + `","prompt":"a cat",`
		if e.path == "/image/upscale" || e.path == "/image/background-remove" {
			named = ""
		}
		for _, member := range strings.Fields(e.members) {
			base := e.base
			if strings.Contains(base, `"`+member+`":`) {
				base = `"user":"u"`
			}
			for _, v := range []string{`null`, `true`, `"x"`, `0`, `1.5`, `-7`, `{}`, `["x"]`} {
				l.post(e.path+" "+member+" "+v, e.path, c.worker, `{`+named+base+`,"`+member+`":`+v+`}`)
			}
		}
		for _, b := range lines("image-bodies") {
			l.post(e.path+" body "+b[:min(len(b), 80)], e.path, c.worker, b)
		}
	}
}
