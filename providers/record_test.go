package providers

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

type record map[string]any

// listed are the ids of a list body, which must be in the exact envelope.
func listed(t testing.TB, body []byte) (ids []string) {
	t.Helper()
	for _, r := range recordsOf(t, body) {
		ids = append(ids, r["id"].(string))
	}
	return ids
}

func recordsOf(t testing.TB, body []byte) []record {
	t.Helper()
	var list struct {
		Object string
		Type   string
		Data   []record
	}
	if err := json.Unmarshal(body, &list); err != nil || list.Object != "list" || list.Data == nil {
		t.Fatalf("%v: %s", err, body)
	}
	return list.Data
}

// sampleConfig is the text, embedding and image records of the published sample,
// written as an operator would.
const sampleConfig = upstreamsText + `  - { name: n, dialect: native, base_url: "http://127.0.0.1:3/v1" }
models:
  - id: example-text-small
    name: Example Text Small
    description: Flat token price, no cache, no reasoning.
    created: 1727966436
    context_tokens: 131072
    capabilities: { quantization: fp16, tools: true, response_schema: true, logprobs: true }
    constraints: { temperature: 0.8, top_p: 0.9 }
    price: { input: 0.15, output: 0.6 }
    traits: [fastest]
    targets: [{ upstream: a }]
  - id: example-text-reasoning-cache
    name: Example Text Reasoning
    description: Cache-read price, reasoning effort levels, all text constraints.
    created: 1775520000
    context_tokens: 200000
    max_completion_tokens: 24000
    capabilities: { quantization: fp8, tools: true, reasoning: true, reasoning_effort: [none, low, medium, high], default_reasoning_effort: low, response_schema: true }
    constraints: { temperature: 0.7, top_p: 0.9, frequency_penalty: 0, presence_penalty: 0, repetition_penalty: 1.05 }
    price: { input: 1.54, cache_read: 0.286, output: 4.84 }
    traits: [default, function_calling_default]
    targets: [{ upstream: a }]
  - id: example-text-vision-cachewrite
    name: Example Text Vision
    description: Multi-image vision, cache write premium.
    privacy: anonymized
    created: 1784764800
    context_tokens: 1000000
    max_completion_tokens: 128000
    capabilities: { code: true, tools: true, reasoning: true, response_schema: true, vision: true, max_images: 10 }
    price: { input: 6, cache_read: 0.6, cache_write: 7.5, output: 30 }
    traits: [default_vision]
    targets: [{ upstream: a }]
  - id: example-text-long-context
    name: Example Text Long Context
    description: Second price tier above an input threshold; provider-side search.
    created: 1776470400
    context_tokens: 1000000
    capabilities: { tools: true, reasoning: true, reasoning_effort: [none, low, medium, high], default_reasoning_effort: low, response_schema: true, vision: true, max_images: 10 }
    price:
      input: 1.42
      cache_read: 0.23
      output: 2.83
      extended: { above: 200000, input: 2.83, output: 5.67, cache_read: 0.45 }
    deprecation: { date: 2026-12-31, starts_at: 2026-12-17, removes_at: 2026-12-31, replacement: example-text-reasoning-cache }
    targets: [{ upstream: a }]
  - id: e2ee-example-text
    name: Example Confidential Text
    description: Enclave model; client-side encryption.
    created: 1773792000
    context_tokens: 128000
    capabilities: { reasoning: true, reasoning_effort: [low, medium, high], default_reasoning_effort: low }
    tee: { kind: dstack }
    price: { input: 0.13, output: 0.65 }
    targets: [{ upstream: a }]
  - id: example-embedding
    type: embedding
    name: Example Embedding
    description: 1024 dimensions.
    created: 1741924661
    embedding_dimensions: 1024
    max_input_tokens: 8192
    custom_dimensions: true
    price: { input: 0.15, output: 0.6 }
    targets: [{ upstream: a }]
  - id: example-image-pixel
    type: image
    name: Example Image (pixel sizing)
    description: width/height model, flat price.
    created: 1764758779
    constraints: { prompt_characters: 2048, steps: { default: 25, max: 50 }, size_divisor: 8 }
    price: { generation: 0.01 }
    traits: [default, fastest]
    targets: [{ upstream: a }]
  - id: example-image-tiered-quality
    type: image
    name: Example Image (resolution and quality tiers)
    description: aspect_ratio + resolution + quality model.
    privacy: anonymized
    uncensored: true
    created: 1776729600
    capabilities: { web_search: true }
    constraints:
      prompt_characters: 2048
      steps: { default: 25, max: 50 }
      size_divisor: 8
      aspect_ratios: ["1:1", "16:9", "9:16", "3:2", "2:3"]
      resolutions: [1K, 2K, 4K]
      qualities: [low, medium, high]
      default_quality: high
      max_style_references: 3
      style_reference_strength: true
    price:
      resolutions: { 1K: 0.27, 2K: 0.51, 4K: 0.84 }
      quality:
        1K: { low: 0.02, medium: 0.07, high: 0.26 }
        2K: { low: 0.03, medium: 0.13, high: 0.5 }
        4K: { low: 0.05, medium: 0.21, high: 0.83 }
      web_search: 0.01
    traits: [highest_quality]
    targets: [{ upstream: a }]
  - id: example-image-edit
    type: inpaint
    name: Example Image Edit
    description: Prompt-driven edit; extra input images priced.
    privacy: anonymized
    created: 1776729600
    constraints:
      aspect_ratios: [auto, "1:1", "16:9", "9:16"]
      max_input_images: 14
      resolutions: [1K, 2K, 4K]
      qualities: [low, medium, high]
      default_quality: high
    price:
      inpaint: 0.34
      resolutions: { 1K: 0.34, 2K: 0.52, 4K: 0.84 }
      input_images: { included: 1, additional: 0.0092 }
      quality:
        1K: { low: 0.03, medium: 0.08, high: 0.34 }
        2K: { low: 0.03, medium: 0.14, high: 0.52 }
        4K: { low: 0.04, medium: 0.22, high: 0.84 }
    targets: [{ upstream: a }]
  - id: example-upscaler
    type: upscale
    name: Example Upscaler
    description: Priced per factor.
    created: 1744453050
    price: { generation: 0.01, upscale: { 2x: 0.02, 4x: 0.08 } }
    targets: [{ upstream: a }]
  - id: example-tts
    type: tts
    name: Example TTS
    description: Voice cloning capable.
    created: 1776384000
    voices: [Aurora, Blade, Britney, Carl]
    supported_formats: [wav]
    voice_cloning: { mode: zero_shot, price: 0 }
    price: { input: 50 }
    targets: [{ upstream: n }]
`

// notOurs are the fields of the sample for features that this service lacks: searches,
// regions. We say no, or nothing.
var notOurs = map[string]bool{
	"model_spec.capabilities.supportsWebSearch": true, "model_spec.capabilities.supportsXSearch": true,
	"model_spec.regionRestrictions": true, "model_spec.supportsOptimizePromptThinking": true,
}

// Clients read these records by the letter, so they are those of the published
// sample, field by field.
func TestRecordsAreThoseOfTheSample(t *testing.T) {
	raw, err := os.ReadFile("testdata/models-sample.json")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]record{}
	for _, r := range recordsOf(t, raw) {
		if typ := r["type"]; typ == "text" || typ == "embedding" || typ == "image" || typ == "inpaint" ||
			typ == "upscale" || typ == "tts" {
			want[r["id"].(string)] = r
		}
	}
	c := catalogOf(t, sampleConfig, nil, today)
	body, _ := c.List("all", today)
	got := recordsOf(t, body)
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for _, r := range got {
		sample := want[r["id"].(string)]
		spec := sample["model_spec"].(map[string]any)
		if sample["type"] == "text" && spec["maxCompletionTokens"] == nil {
			spec["maxCompletionTokens"] = 16384.0 // our default, which the sample leaves out
		}
		if sample["type"] == "text" { // an addition
			spec["defaultCompletionTokens"] = min(16384.0, spec["maxCompletionTokens"].(float64))
		}
		compare(t, r["id"].(string), "", map[string]any(sample), map[string]any(r))
	}
	if text := string(body); !strings.Contains(text, `"quality":{"1K":{"low":{"usd":0.02,"diem":0.02},"medium":`) ||
		!strings.Contains(text, `"upscale":{"2x":{"usd":0.02,"diem":0.02},"4x":{`) {
		t.Errorf("prices out of order: %s", text)
	}
	if text := string(body); !strings.Contains(text, `"cache_input":{"usd":0.286,"diem":0.286}`) ||
		!strings.Contains(text, `"date":"2026-12-31T00:00:00.000Z"`) {
		t.Errorf("%s", text)
	}
}

func compare(t *testing.T, id, path string, want, got map[string]any) {
	t.Helper()
	for name, w := range want {
		at := strings.TrimPrefix(path+"."+name, ".")
		g, ok := got[name]
		switch wm, nested := w.(map[string]any); {
		case notOurs[at]:
			if ok && g != false {
				t.Errorf("%s: %s is %v", id, at, g)
			}
		case !ok:
			t.Errorf("%s: %s is missing", id, at)
		case nested:
			compare(t, id, at, wm, g.(map[string]any))
		case !reflect.DeepEqual(w, g):
			t.Errorf("%s: %s is %v, want %v", id, at, g, w)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s.%s is not in the sample", id, path, name)
		}
	}
}

func TestRecordsHaveTheOperatorsTexts(t *testing.T) {
	c := catalogOf(t, upstreamsText+`
brand: acme
models:
  - { id: m, name: "Größe \"1\"", context_tokens: 5, beta: true, uncensored: true, offline: true, source: "https://x", price: free,
      capabilities: { vision: true, video: true, max_videos: 3, audio: true }, targets: [{ upstream: a }] }
  - { id: v, type: embedding, price: { input: 0.000001, confirmed: true }, targets: [{ upstream: a }] }
`, nil, today)
	body, _ := c.List("all", today)
	want := `{"object":"list","type":"all","data":[{"id":"m","object":"model","created":0,"owned_by":"acme","type":"text","context_length":5,"model_spec":{` +
		`"name":"Größe \"1\"","description":"","modelSource":"https://x","privacy":"private","offline":true,"beta":false,"betaModel":true,"uncensored":true,` +
		`"availableContextTokens":5,"maxCompletionTokens":5,"defaultCompletionTokens":5,"capabilities":{"optimizedForCode":false,"quantization":"not-available","supportsFunctionCalling":false,` +
		`"supportsAudioInput":true,"supportsReasoning":false,"supportsReasoningEffort":false,"supportsResponseSchema":false,"supportsMultipleImages":false,` +
		`"supportsVision":true,"supportsVideoInput":true,"supportsWebSearch":false,"supportsLogProbs":false,"supportsTeeAttestation":false,"supportsE2EE":false,` +
		`"supportsXSearch":false,"maxVideos":3},"pricing":{"input":{"usd":0,"diem":0},"output":{"usd":0,"diem":0}},"traits":[]}},` +
		`{"id":"v","object":"model","created":0,"owned_by":"acme","type":"embedding","model_spec":{"name":"v","description":"","modelSource":"","privacy":"private",` +
		`"offline":false,"beta":false,"betaModel":false,"supportsCustomDimensions":false,"pricing":{"input":{"usd":0.000001,"diem":0.000001},"output":{"usd":0,"diem":0}},"traits":[]}}]}`
	if string(body) != want {
		t.Errorf("got\n%s\nwant\n%s", body, want)
	}
	if m := c.Models()[0]; m.HeaderName != "" || c.Models()[1].HeaderName != "v" {
		t.Errorf("%q is not valid in a header", m.HeaderName)
	}
}

// Background removal is not a type of the specification: its record is an image's, and
// its names never mean a model that generates.
func TestBackgroundRemovalIsListedAsImage(t *testing.T) {
	c := catalogOf(t, upstreamsText+`
models:
  - { id: cut, type: background_removal, price: { generation: 0.03 }, traits: [default], targets: [{ upstream: a }] }
  - { id: paint, type: image, price: free, traits: [default], targets: [{ upstream: a }] }
`, nil, today)
	body, _ := c.List("image", today)
	for _, r := range recordsOf(t, body) {
		price, _ := json.Marshal(r["model_spec"].(map[string]any)["pricing"])
		want := map[any]string{"cut": `{"generation":{"diem":0.03,"usd":0.03}}`,
			"paint": `{"generation":{"diem":0,"usd":0}}`}[r["id"]]
		if string(price) != want || r["type"] != "image" {
			t.Errorf("%v is of type %v and costs %s, want %s", r["id"], r["type"], price, want)
		}
	}
	traits, _ := c.Traits("image")
	if want := `{"object":"list","type":"image","data":{"default":"paint"}}`; string(traits) != want {
		t.Errorf("traits are %s", traits)
	}
	if c.Default("background_removal").ID != "cut" || c.Default("image").ID != "paint" || c.Default("upscale") != nil {
		t.Error("the default models are wrong")
	}
}
