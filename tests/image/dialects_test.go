package image

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// dialectsConfig has an upstream of every dialect that makes pictures, all at
// the simulated upstream, and a model of each.
const dialectsConfig = `
billing: { minimum_balance: 0 }
fetch: { allow: [127.0.0.1] }
upstreams:
  - { name: openai, base_url: "%[1]s/v1", key: sim-key }
  - { name: native, dialect: native, base_url: "%[1]s/api/v1", key: sim-key }
  - { name: sdapi, dialect: sdapi, base_url: "%[1]s", key: sim-key }
  - { name: stability, dialect: stability, base_url: "%[1]s/v2beta", key: sim-key }
  - { name: fal, dialect: fal, base_url: "%[1]s/fal", key: sim-key }
models:
`

func dialectModels() string {
	b := &strings.Builder{}
	names := map[string]string{"openai": "sim-image", "native": "sim-image", "sdapi": "sim.safetensors",
		"stability": "ultra", "fal": "fal-ai/sim/dev"}
	for _, d := range []string{"openai", "native", "sdapi", "stability", "fal"} {
		options := ""
		if d == "fal" {
			options = ", options: { poll: 5ms }"
		}
		fmt.Fprintf(b, "  - { id: %[1]s-paint, type: image, tier: unlimited, price: { generation: 0.01 }, targets: "+
			"[{ upstream: %[1]s, model: %[2]s%[3]s }] }\n", d, names[d], options)
		fmt.Fprintf(b, "  - { id: %[1]s-edit, type: inpaint, tier: unlimited, price: { inpaint: 0.1 }, targets: [{ "+
			"upstream: %[1]s, model: %[2]s%[3]s }] }\n", d, names[d], options)
	}
	return b.String()
}

// Pictures are made and edited at upstreams of every dialect, in the format that the
// client wants, and cost the right price.
func TestPicturesOfEveryDialect(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "sim-key"})
	g := rig.StartGateway(t, fmt.Sprintf(dialectsConfig, strings.TrimSuffix(sim.URL, "/v1"))+dialectModels())
	g.NewAccount("a", "100")
	key := g.Key("a")
	for _, d := range []string{"openai", "native", "sdapi", "stability", "fal"} {
		for _, format := range []string{"png", "jpeg", "webp"} {
			status, header, answer := g.Post("/image/generate", key,
				`{"model":"`+d+`-paint","prompt":"a cat","width":512,"height":512,"format":"`+format+
					`","return_binary":true}`)
			if status != 200 || header.Get("Content-Type") != "image/"+format || int64(len(answer)) == 0 {
				t.Fatalf("%s %s: %d %.300s", d, format, status, answer)
			}
			if format != "webp" {
				if _, got, err := image.DecodeConfig(bytes.NewReader(answer)); err != nil || got != format {
					t.Errorf("%s: %s is %s, %v", d, format, got, err)
				}
			}
		}
		status, header, answer := g.Post("/image/edit", key,
			`{"model":"`+d+`-edit","prompt":"a hat","image":"`+base64.StdEncoding.EncodeToString(painting(300, 256))+
				`"}`)
		if status != 200 || header.Get("Content-Type") != "image/png" {
			t.Errorf("%s: %d %.300s", d, status, answer)
		}
	}
	if got, want := g.Settled()["a"].Spent, rig.Money(650_000_000); got != want {
		t.Errorf("spent %v, want %v", got, want)
	}
}

// One farebox is the upstream of another: the second one made every picture that the
// first one's clients get, and both charge for it.
func TestOneFareboxBeforeAnother(t *testing.T) {
	t.Parallel()
	back := startStudio(t, "100")
	front := rig.StartGateway(t, fmt.Sprintf(`
billing: { minimum_balance: 0 }
upstreams:
  - { name: back, dialect: native, base_url: "%s", key: %s }
models:
  - { id: paint, type: image, tier: unlimited, price: { generation: 0.02 }, targets: [{ upstream: back, model: pixels }] }
  - { id: edit, type: inpaint, tier: unlimited, constraints: { max_input_images: 3 }, price: { inpaint: 0.5 }, targets: [{ upstream: back, model: retouch }] }
  - { id: grow, type: upscale, tier: unlimited, price: { upscale: { 2x: 0.05, 4x: 0.1 } }, targets: [{ upstream: back, model: enlarge }] }
  - { id: cut, type: background_removal, tier: unlimited, price: { generation: 0.07 }, targets: [{ upstream: back, model: cut }] }
`, back.Gateway.URL, back.key))
	front.NewAccount("a", "100")
	key := front.Key("a")
	picture := base64.StdEncoding.EncodeToString(painting(320, 256))
	f := func(path, body, contentType string) []byte {
		t.Helper()
		status, header, answer := front.Post(path, key, body)
		if status != 200 || header.Get("Content-Type") != contentType {
			t.Fatalf("%s: %d %s %.300s", path, status, header.Get("Content-Type"), answer)
		}
		return answer
	}
	var native struct{ Images [][]byte }
	if err := json.Unmarshal(f("/image/generate", `{"model":"paint","prompt":"a cat","num_images":3,"format":"png"}`,
		"application/json"), &native); err != nil || len(native.Images) != 3 {
		t.Errorf("%d images, %v", len(native.Images), err)
	}
	f("/image/generate", `{"model":"paint","prompt":"a cat","return_binary":true,"format":"jpeg"}`, "image/jpeg")
	f("/image/edit", `{"model":"edit","prompt":"a hat","image":"`+picture+`","output_format":"webp"}`, "image/webp")
	f("/image/multi-edit", `{"modelId":"edit","prompt":"a hat","images":["`+picture+`","`+picture+`"]}`, "image/png")
	f("/image/upscale", `{"image":"`+picture+`","scale":2}`, "image/png")
	f("/image/background-remove", `{"image":"`+picture+`"}`, "image/png")
	if got, want := front.Settled()["a"].Spent, rig.Money(1_200_000_000); got != want {
		t.Errorf("the front spent %v, want %v", got, want)
	}
	// 4 x 0.01, 0.34, 0.34 + 0.0092, 0.02, 0.03
	if got, want := back.spent(), rig.Money(779_200_000); got != want {
		t.Errorf("the back spent %v, want %v", got, want)
	}
}

// Two public packages call /images/upscale, and name the model.
func TestUpscaleUnderTheNameOfPublicPackages(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	const config = `
billing: { minimum_balance: 0 }
compat: { openai_extras: %v }
upstreams:
  - { name: sd, dialect: sdapi, base_url: "%s" }
models:
  - { id: grow, type: upscale, tier: unlimited, price: { upscale: { 2x: 0.05, 4x: 0.1 } }, targets: [{ upstream: sd }] }
`
	picture := base64.StdEncoding.EncodeToString(painting(320, 256))
	body := `{"model":"grow","image":"` + picture + `","scale":2}`
	origin := strings.TrimSuffix(sim.URL, "/v1")
	for _, on := range []bool{true, false} {
		g := rig.StartGateway(t, fmt.Sprintf(config, on, origin))
		g.NewAccount("a", "10")
		key := g.Key("a")
		for _, path := range []string{"/images/upscale", "/image/upscale"} {
			want := 200
			if !on {
				want = map[string]int{"/images/upscale": 404, "/image/upscale": 400}[path]
			}
			if status, _, answer := g.Post(path, key, body); status != want {
				t.Errorf("%v %s: %d %.300s", on, path, status, answer)
			}
		}
	}
}
