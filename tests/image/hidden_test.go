package image

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// hiddenModels are those of a dialect: each choice that is priced has a price of its own.
const hiddenModels = `
  - { id: %[1]s-paint, type: image, tier: unlimited, constraints: { steps: { default: 20, max: 30 }, size_divisor: 8 },
      price: { generation: 0.01 }, targets: [{ upstream: %[1]s, model: %[2]s%[3]s }] }
  - { id: %[1]s-tier, type: image, tier: unlimited, constraints: { aspect_ratios: ["1:1"], resolutions: [1K, 2K], qualities: [low, high] },
      price: { quality: { 1K: { low: 0.02, high: 0.03 }, 2K: { low: 0.05, high: 0.07 } } }, targets: [{ upstream: %[1]s, model: %[2]s%[3]s }] }
  - { id: %[1]s-edit, type: inpaint, tier: unlimited, constraints: { resolutions: [1K, 2K], max_input_images: 3 },
      price: { inpaint: 0.34, resolutions: { 2K: 0.52 }, input_images: { included: 1, additional: 0.0092 } },
      targets: [{ upstream: %[1]s, model: %[2]s%[3]s }] }
  - { id: %[1]s-grow, type: upscale, tier: unlimited, price: { upscale: { 2x: 0.11, 4x: 0.13 } }, targets: [{ upstream: %[1]s, model: %[2]s%[3]s }] }
`

// hiddenTargets are the models' names at the upstreams.
var hiddenTargets = map[string]string{"openai": "sim-image", "native": "sim-image", "sdapi": "sim.safetensors",
	"stability": "sd3.5-large", "fal": "fal-ai/sim/dev"}

var hider = rig.Hider{
	Names: strings.Fields(`model modelId model_id n num_images variants batch_size n_iter size width height aspect_ratio resolution quality
		steps num_inference_steps sampler_name override_settings scale upscale_factor upscaling_resize image image_2 image_3 images
		image[] image_url image_urls init_images mask prompt seed cfg_scale style_preset style_references strength format output_format
		response_format enable_web_search webhook webhook_url callback_url sync_mode enable_hr hr_scale stream partial_images user`),
	Values: strings.Fields(`2 4 "4" 10 4.0 4e0 1E1 -1 0 null true false "true" "high" "low" "2K" "4K" "1024x1024" "1792x1024" 1280 4096
		"http://169.254.169.254/" "https://x.example/hook" "native-edit" "openai-tier" [] {} [4] {"n":4} "auto" "16:9" "url" "b64_json" 30 1000
		["http://10.0.0.1/"] "a"`),
}

// takes are members of endpoints that decide about the price, or may seem to.
var takes = map[string][]string{
	"/image/generate": strings.Fields(`num_images=4 num_images=4.0 num_images=2e0 variants=3 n=4 steps=30 steps=31 width=128 height=1288
		resolution="2K" resolution="1K" quality="high" format="jpeg" seed=3 return_binary=true return_binary=false prompt="a\u0020dog"
		style_references=[] enable_web_search=false safe_mode=false cfg_scale=7.5 aspect_ratio="1:1" negative_prompt="x" user="u"`),
	"/images/generations": strings.Fields(`n=1 n=1.0 n=4 size="1024x1024" size="512x512" quality="hd" quality="low" style="vivid" user="u"
		output_format="jpeg" background="auto" moderation="low" response_format="b64_json" output_compression=50 prompt="x"`),
	"": strings.Fields(`resolution="2K" resolution="1K" quality="high" output_format="jpeg" safe_mode=false prompt="x" scale=4 scale=2.0
		scale=3e0 scale=1.5 n=1 n=4 size="1024x1024" quality="low" user="u" aspect_ratio="auto" enhance=true creativity=0.01 modelId="x"`),
}

// written are the members that a dialect writes: an upstream may do something for any other one.
var written = strings.Fields(`model modelId prompt n size quality output_format response_format moderation image image[] images width height
	aspect_ratio resolution format steps variants return_binary safe_mode scale batch_size n_iter seed send_images save_images
	override_settings denoising_strength init_images resize_mode upscaling_resize upscaler_1 mode strength num_images image_size
	background style output_compression num_inference_steps enable_safety_checker image_url image_urls cfg_scale guidance_scale style_preset enable_web_search
	creativity resemblance upscale_factor`)

// "I have you price one small picture, and the upstream make four large ones." Every server
// behind the gateway reads the paid order, however a body has its members twice.
func TestEveryPainterReadsThePricedOrder(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "sim-key", Keep: 64})
	text := "log: { level: error, format: json }\nlimits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }\ncompat: { openai_extras: true }" +
		fmt.Sprintf(dialectsConfig, strings.TrimSuffix(sim.URL, "/v1"))
	for _, d := range []string{"openai", "native", "sdapi", "stability", "fal"} {
		text += fmt.Sprintf(hiddenModels, d, hiddenTargets[d], map[bool]string{true: ", options: { poll: 2ms }"}[d == "fal"])
	}
	g := rig.StartGateway(t, text)
	g.NewAccount("a", "100000")
	picture := painting(64, 64)
	coded := `"` + base64.StdEncoding.EncodeToString(picture) + `"`
	one := rig.Field{Name: "image", File: "a.png", Value: string(picture)}
	model := ""
	h := rig.Hidden{Gateway: g, Sim: sim, Key: g.Key("a", "--type", "ADMIN")}
	h.Price = func(path string, body map[string]any) (int64, error) { return painted(model, path, body) }
	h.Body = func(r *rand.Rand, _ string) (path, body, contentType string) {
		d := []string{"openai", "native", "sdapi", "stability", "fal"}[r.IntN(5)]
		kind := []string{"paint", "paint", "tier", "edit", "edit", "grow"}[r.IntN(6)]
		switch { // the others know no quality, or one scale only
		case kind == "tier" && d != "openai" && d != "native", kind == "grow" && (d == "openai" || d == "stability"):
			d = "native"
		}
		model = d + "-" + kind
		name := `{"model":"` + model + `",`
		path, contentType = "/image/generate", "application/json"
		switch form := r.IntN(3) == 0; {
		case kind == "paint" && form:
			path, body = "/images/generations", name+`"prompt":"a cat","n":1,"size":"256x256","response_format":"b64_json"}`
		case kind == "paint":
			body = name + `"prompt":"a cat","width":64,"height":64,"num_images":1,"format":"png","steps":20,"seed":7}`
		case kind == "tier":
			body = name + `"prompt":"a cat","resolution":"1K","quality":"low","variants":1,"format":"png"}`
		case kind == "edit" && form:
			path = []string{"/image/edit", "/image/multi-edit", "/images/edits"}[r.IntN(3)]
			hider.Known = takes[""]
			body, contentType = hider.Form(r, []rig.Field{{Name: "model", Value: model}, {Name: "prompt", Value: "a hat"}, one})
		case kind == "edit":
			path, body = "/image/edit", name+`"prompt":"a hat","resolution":"1K","image":`+coded+`}`
			switch r.IntN(3) {
			case 0:
				path, body = "/image/multi-edit", name+`"prompt":"a hat","images":[`+coded+`,`+coded+`]}`
			case 1:
				path, body = "/images/edits", name+`"prompt":"a hat","n":1,"image":`+coded+`}`
			}
		case form:
			path, hider.Known = "/image/upscale", takes[""]
			body, contentType = hider.Form(r, []rig.Field{{Name: "model", Value: model}, {Name: "scale", Value: "2"}, one})
		default:
			path, body = "/image/upscale", name+`"scale":2,"image":`+coded+`}`
		}
		if contentType == "application/json" {
			if hider.Known = takes[path]; hider.Known == nil {
				hider.Known = takes[""]
			}
			body = hider.JSON(r, body)
		}
		return path, body, contentType
	}
	h.Run(t, servers.Campaign(600))
}

// painted is the price of the pictures that a request orders of an upstream.
func painted(model, path string, body map[string]any) (int64, error) {
	d, kind, _ := strings.Cut(model, "-")
	for name := range body {
		if !slices.Contains(written, name) {
			return 0, fmt.Errorf("%s is not a member of %s", name, d)
		}
	}
	number := func(names ...string) int64 {
		for _, name := range names {
			if said := rig.Said(body, name); said != "" {
				n, err := strconv.ParseFloat(said, 64)
				if err != nil {
					return -1
				}
				return int64(n)
			}
		}
		return 0
	}
	said := rig.Said(body, "model") + rig.Said(body, "modelId") + rig.Said(body, "override_settings.sd_model_checkpoint")
	width, height := number("width", "image_size.width"), number("height", "image_size.height")
	if w, h, ok := strings.Cut(rig.Said(body, "size"), "x"); ok {
		width, _ = strconv.ParseInt(w, 10, 64)
		height, _ = strconv.ParseInt(h, 10, 64)
	}
	n := max(1, number("n", "num_images", "variants", "batch_size")) * max(1, number("n_iter"))
	large := rig.Said(body, "resolution") == "2K" || width*height > 2_000_000
	switch {
	case said != "" && said != hiddenTargets[d], d == "fal" && !strings.HasSuffix(path, hiddenTargets[d]):
		return 0, fmt.Errorf("%s makes it", said)
	case number("steps", "num_inference_steps") > 30 || kind == "paint" && max(width, height) > 1280:
		return 0, fmt.Errorf("there are too many steps or pixels")
	case kind == "paint":
		return n * 10_000_000, nil
	case kind == "tier":
		tiers := map[bool]map[string]int64{false: {"low": 20_000_000, "high": 30_000_000}, true: {"low": 50_000_000, "high": 70_000_000}}
		return n * tiers[large][rig.Said(body, "quality")], nil
	case kind == "edit":
		images := len(files(body["image"])) + len(files(body["image[]"])) + len(files(body["images"])) +
			len(files(body["init_images"])) + len(files(body["image_url"])) + len(files(body["image_urls"]))
		each := map[bool]int64{false: 340_000_000, true: 520_000_000}[large]
		return n*each + 9_200_000*int64(images-1), nil
	case kind == "grow":
		return map[bool]int64{false: 110_000_000, true: 130_000_000}[number("scale", "upscaling_resize", "upscale_factor") > 2], nil
	}
	return 0, nil
}

// files are the pictures of a member.
func files(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}
