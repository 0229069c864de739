package jobs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers"
	"farebox/proxy/scan"
	"farebox/routes"
	"farebox/routes/routestest"
)

// "A member was refused at the edge that its rule allows, or taken beyond it."
func TestRulesHoldAtTheirEdges(t *testing.T) {
	routestest.Edges(t, "", nil, New(providers.NewFetcher(config.Fetch{})))
}

// videoModelOf is a model of videos with the given keys.
func videoModelOf(t testing.TB, keys string) *config.Video {
	t.Helper()
	text := `
upstreams: [{ name: a, dialect: native, base_url: "http://127.0.0.1:1" }]
models:
  - id: m
    type: video
    targets: [{ upstream: a }]
` + keys
	cfg, err := config.Parse("test.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg.Models[0].Spec.(*config.Video)
}

// videoFormOf reads a body as an endpoint does that has found its model.
func videoFormOf(t testing.TB, m *config.Video, book *routes.Rulebook, body string) (*videoForm, *routes.Error) {
	t.Helper()
	var doc scan.Document
	if err := doc.SkimStrict([]byte(body), videoShape); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	f := &videoForm{form: videos.newForm([]byte(body), &doc, book), model: m}
	if f.spec, f.id = m, "m"; len(f.Issues) > 0 {
		return f, routes.Invalid(f.Issues...)
	}
	return f, nil
}

const (
	plain = `
    constraints: { durations: [5s, 10s], resolutions: [480p, 720p], aspect_ratios: ["16:9"], prompt_characters: 20 }
    price: { second: { 480p: 0.02, 720p: 0.05 } }
`
	rich = `
    constraints: { durations: [5s, auto], auto_seconds: 8, audio: true, audio_configurable: true }
    inputs:
      image: optional
      end_image: optional
      audio: optional
      video: optional
      reference_images: 2
      reference_videos: 2
      reference_audios: 1
      reference_documents: 1
      elements: 1
      scenes: 1
      keyframes: 2
      tasks: [edit, auto]
      bitrate_modes: [high]
    price: { generation: { any: 0.5 }, generation_silent: { any: 0.4 } }
`
	fromImage = `
    constraints: { model_type: image-to-video, durations: [1 gen] }
    price: { generation: { any: 0.5 } }
`
	larger = `
    inputs: { upscale_factors: [2, 4] }
    price: { upscale: [{ to: 720, second: 0.013 }, { to: 1080, second: 0.025 }, { second: 0.10 }] }
`
)

// "The upstream got what its model cannot do", and "my parameters were refused though the
// model takes them": bodies, and their issues or the orders that they make.
func TestBodiesBecomeOrdersOrAreRefused(t *testing.T) {
	const five = `"model":"m","prompt":"a cat","duration":"5s"`
	for i, test := range []struct{ model, body, want string }{
		{plain, five, `{"kind":"video","prompt":"a cat","duration":"5s","resolution":"480p"}`},
		{plain, five + `,"resolution":"720p","aspect_ratio":"16:9","negative_prompt":"dogs"`, `{"kind":"video",` +
			`"prompt":"a cat","negative_prompt":"dogs","duration":"5s","aspect_ratio":"16:9","resolution":"720p"}`},
		{plain, `"model":"m","prompt":"a cat"`, "duration: is required"},
		{plain, `"model":"m","duration":"5s"`, "prompt: is required"},
		{plain, `"model":"m","prompt":"   ","duration":"5s"`, "prompt: must not be blank"},
		{plain, `"model":"m","prompt":"","duration":"5s"`, "prompt: must not be empty"},
		{plain, `"model":"m","prompt":"` + strings.Repeat("ä", 21) + `","duration":"5s"`, "prompt: must have at most 20"},
		{plain, five + `,"negative_prompt":"` + strings.Repeat("ä", 21) + `"`, "negative_prompt: must have at most 20"},
		{plain, `"model":"m","prompt":"a","duration":"6s"`, "duration: model m takes one of 5s, 10s, not 6s"},
		{plain, `"model":"m","prompt":"a","duration":"31s"`, "duration: 31s is not allowed"},
		{plain, `"model":"m","prompt":"a","duration":5`, "duration: expected string"},
		{plain, five + `,"resolution":"1080p"`, "resolution: model m takes one of"},
		{plain, five + `,"resolution":"8k"`, "resolution: 8k is not allowed"},
		{plain, five + `,"aspect_ratio":"1:1"`, "aspect_ratio: model m takes one of"},
		{plain, five + `,"audio":true`, "does not support the choice of sound"},
		{plain, five + `,"upscale_factor":2`, "does not support enlarging"},
		{plain, five + `,"upscale_factor":3`, "upscale_factor: must be 1, 2 or 4"},
		{plain, five + `,"bitrate_mode":"high"`, "does not support bitrate modes"},
		{plain, five + `,"image_url":"https://a.example/x.png"`, "does not support an image"},
		{plain, five + `,"video_url":"https://a.example/x.mp4"`, "does not support a video"},
		{plain, five + `,"reference_image_urls":["https://a.example/x"]`, "does not support reference images"},
		{plain, five + `,"elements":[{}]`, "does not support elements"},
		{plain, five + `,"keyframes":[{"image_url":"https://a","frame_index":1}]`, "does not support keyframes"},
		{plain, five + `,"omni_reference_task_type":"auto"`, "does not support task types"},
		{plain, five + `,"seed":1`, "seed: is not accepted by this endpoint"},
		{plain, five + `,"input_height":1`, "input_height: is not accepted by this endpoint"},
		{plain, five + `,"reference_image_urls":[]`, `{"kind":"video","prompt":"a cat","duration":"5s","resolution":"480p"}`},

		{fromImage, `"model":"m","prompt":"a","duration":"1 gen"`, "image_url: is required by model m"},
		{fromImage, `"model":"m","prompt":"a","duration":"1 gen","image_url":"https://a/x"`,
			`{"kind":"video","prompt":"a","duration":"1 gen","image":"https://a/x"}`},
		{fromImage, `"model":"m","prompt":"a","duration":"1 gen","image_url":"https://a/x","end_image_url":"https://b"`,
			"does not support an end image"},

		{rich, five + `,"audio":false`, `{"kind":"video","prompt":"a cat","duration":"5s","audio":false}`},
		{rich, five + `,"omni_reference_task_type":"editing"`,
			`{"kind":"video","prompt":"a cat","duration":"5s","audio":true,"reference":"edit"}`},
		{rich, five + `,"omni_reference_task_type":"extension"`, "omni_reference_task_type: model m takes one of"},
		{rich, five + `,"end_image_url":"https://a/x"`, "end_image_url: needs image_url"},
		{rich, five + `,"reference_image_urls":["https://a","https://b","https://c"]`, "at most 2 elements for model m"},
		{rich, five + `,"reference_image_urls":"https://a"`, "reference_image_urls: expected array"},
		{rich, five + `,"reference_image_urls":[1]`, "reference_image_urls.0: expected string"},
		{rich, five + `,"reference_image_urls":[""]`, "reference_image_urls.0: must not be empty"},
		{rich, five + `,"reference_audio_urls":["https://a"]`, "needs an image or a video"},
		{rich, five + `,"reference_audio_urls":["https://a"],"image_url":"https://b"`,
			`{"kind":"video","prompt":"a cat","duration":"5s","audio":true,"image":"https://b","sounds":["https://a"]}`},
		{rich, five + `,"elements":[{"frontal_image_url":"https://a","reference_image_urls":["https://b"],"video_url":"https://c"}]`,
			`{"kind":"video","prompt":"a cat","duration":"5s","audio":true,` +
				`"elements":[{"front":"https://a","others":["https://b"],"video":"https://c"}]}`},
		{rich, five + `,"elements":[{}]`, "elements.0: needs frontal_image_url"},
		{rich, five + `,"elements":[{"name":"x"}]`, "elements.0.name: is not accepted"},
		{rich, five + `,"elements":["x"]`, "elements.0: expected object"},
		{rich, five + `,"elements":[{"reference_image_urls":["a","b","c","d"]}]`, "must have at most 3 elements"},
		{rich, five + `,"elements":[{"reference_image_urls":[7]}]`, "elements.0.reference_image_urls.0: expected a link"},
		{rich, five + `,"keyframes":[{"image_url":"https://a","frame_index":120},{"image_url":"https://b","frame_index":0}]`,
			`{"kind":"video","prompt":"a cat","duration":"5s","audio":true,` +
				`"keyframes":[{"image":"https://a","index":120},{"image":"https://b","index":0}]}`},
		{rich, five + `,"keyframes":[{"image_url":"https://a","frame_index":121}]`, "must be at most 120"},
		{rich, five + `,"keyframes":[{"image_url":"https://a","frame_index":1},{"image_url":"https://b","frame_index":1}]`,
			"keyframes.1.frame_index: 1 is given twice"},
		{rich, five + `,"keyframes":[{"image_url":"https://a","frame_index":-1}]`, "frame_index: must be at least 0"},
		{rich, five + `,"keyframes":[{"image_url":"https://a","frame_index":1.5}]`, "frame_index: expected an integer"},
		{rich, five + `,"keyframes":[{"frame_index":1}]`, "keyframes.0.image_url: is required"},
		{rich, five + `,"keyframes":[{"image_url":"https://a","frame_index":1,"weight":1}]`, "weight: is not accepted"},
		{rich, five + `,"consents":[]`, "consents: expected object"},

		{larger, `"model":"m","duration":"auto"`, "video_url: is required by model m"},
		{larger, `"model":"m","duration":"auto","video_url":"https://a/x"`,
			`{"kind":"video","upscale_factor":2,"footage":"https://a/x"}`},
		{larger, `"model":"m","video_url":"https://a/x","upscale_factor":4`,
			`{"kind":"video","upscale_factor":4,"footage":"https://a/x"}`},
		{larger, `"model":"m","video_url":"https://a/x","upscale_factor":1`, "upscale_factor: model m takes one of 2, 4"},
	} {
		f, e := videoFormOf(t, videoModelOf(t, test.model), videoQueueBook, "{"+test.body+"}")
		j := &videoJob{form: f}
		if e == nil {
			e = j.readOrder()
		}
		got := ""
		if e != nil {
			got = e.Message
		} else {
			b, err := json.Marshal(j.order)
			if err != nil {
				t.Fatal(err)
			}
			got = string(b)
		}
		if strings.HasPrefix(test.want, "{") && got != test.want || !strings.Contains(got, test.want) {
			t.Errorf("%d: %s\ngives %s\nwant %s", i, test.body, got, test.want)
		}
		if e != nil && e.Status != 400 {
			t.Errorf("%s gives %d", test.body, e.Status)
		}
	}
}

// "It was taken as agreed that I may upload faces." A model with terms is not asked
// before the client confirms all three of them for each provider.
func TestConsents(t *testing.T) {
	const model = `
    constraints: { durations: [5s] }
    inputs: { image: optional }
    consents:
      - { provider: one, version: "1", policy_text: x, docs_url: "https://example.com" }
      - { provider: two, version: "2", policy_text: y, docs_url: "https://example.com", face_media_roles: [image_url] }
    price: free
`
	all := func(provider string, last bool) string {
		return fmt.Sprintf(`%q:{"confirmed_terms_and_privacy":true,"confirmed_legal_right":true,`+
			`"confirmed_screening_acknowledged":%t}`, provider, last)
	}
	for body, want := range map[string]string{
		``:                                       "one",
		`,"consents":null`:                       "one",
		`,"consents":{}`:                         "one",
		`,"consents":{"one":true}`:               "one",
		`,"consents":{"one":{}}`:                 "one",
		`,"consents":{` + all("two", true) + `}`: "one",
		`,"consents":{` + all("one", false) + `}`:                                                        "one",
		`,"consents":{` + all("one", true) + `}`:                                                         "",
		`,"image_url":"https://a","consents":{` + all("one", true) + `}`:                                 "two",
		`,"image_url":"https://a","consents":{` + all("one", true) + `,` + all("two", true) + `}`:        "",
		`,"image_url":"https://a","consents":{"x":1,` + all("one", true) + `,` + all("two", false) + `}`: "two",
	} {
		f, e := videoFormOf(t, videoModelOf(t, model), videoQueueBook, `{"model":"m","prompt":"a","duration":"5s"`+body+`}`)
		if e != nil {
			t.Fatal(e)
		}
		got := ""
		if c := f.missingConsent(); c != nil {
			got = c.Provider
		}
		if got != want {
			t.Errorf("%s: consent %q is missing, want %q", body, got, want)
		}
	}
}
