package image

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// imageRefusal is a request for pictures that must not get any.
type imageRefusal struct {
	name, path, body string
	status           int
	code             string
	field            string
	words            []string
}

// Every refusal of the specification names the field, the reason and the
// range; nothing reaches the upstream, and nothing is charged.
func TestImageRefusals(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "10")
	picture := base64.StdEncoding.EncodeToString(painting(512, 256))
	small := base64.StdEncoding.EncodeToString(painting(200, 200))
	const generate, simple, edit, multi, upscale, cut = "/image/generate", "/images/generations", "/image/edit",
		"/image/multi-edit", "/image/upscale", "/image/background-remove"
	pixels := func(more string) string { return `{"model":"pixels","prompt":"x",` + more + `}` }
	tiers := func(more string) string { return `{"model":"tiers","prompt":"x",` + more + `}` }
	edits := func(more string) string { return `{"prompt":"x","image":"` + picture + `",` + more + `}` }
	large := func(more string) string { return `{"image":"` + picture + `",` + more + `}` }
	const bad = "INVALID_REQUEST"
	for _, c := range []imageRefusal{
		{"no prompt", generate, `{"model":"pixels"}`, 400, bad, "prompt", []string{"required"}},
		{"empty prompt", generate, `{"model":"pixels","prompt":""}`, 400, bad, "prompt", []string{"empty"}},
		{"blank prompt", generate, `{"model":"pixels","prompt":" \n"}`, 400, bad, "prompt", []string{"blank"}},
		{"prompt above the endpoint", generate, `{"model":"pixels","prompt":"` + strings.Repeat("é", 7501) + `"}`, 400,
			bad, "prompt", []string{"7500", "7501"}},
		{"prompt above the model", generate, `{"model":"tiers","prompt":"` + strings.Repeat("é", 101) + `"}`, 400, bad,
			"prompt", []string{"100", "101", "tiers"}},
		{"no model", generate, `{"prompt":"x"}`, 400, bad, "model", []string{"required"}},
		{"unknown model", generate, `{"model":"nobody","prompt":"x"}`, 404, "MODEL_NOT_FOUND", "model",
			[]string{"nobody"}},
		{"model of another type", generate, `{"model":"retouch","prompt":"x"}`, 400, "INVALID_MODEL", "model", nil},
		{"negative prompt", generate, pixels(`"negative_prompt":"y"`), 400, bad, "negative_prompt",
			[]string{"not accepted"}},
		{"unknown member", generate, pixels(`"loras":1`), 400, bad, "loras", []string{"not accepted"}},
		{"member of another endpoint", generate, pixels(`"size":"512x512"`), 400, bad, "size",
			[]string{"not accepted"}},
		{"width zero", generate, pixels(`"width":0`), 400, bad, "width", []string{"at least 1"}},
		{"width above", generate, pixels(`"width":1288`), 400, bad, "width", []string{"between 1 and 1280", "1288"}},
		{"height not divisible", generate, pixels(`"height":1001`), 400, bad, "height", []string{"multiple of 8"}},
		{"width not whole", generate, pixels(`"width":512.5`), 400, bad, "width", []string{"integer"}},
		{"ratio for pixels", generate, pixels(`"aspect_ratio":"16:9"`), 400, bad, "aspect_ratio",
			[]string{"width and height"}},
		{"resolution for pixels", generate, pixels(`"resolution":"2K"`), 400, bad, "resolution",
			[]string{"does not support"}},
		{"quality for pixels", generate, pixels(`"quality":"high"`), 400, bad, "quality", []string{"does not support"}},
		{"unknown ratio", generate, tiers(`"aspect_ratio":"3:7"`), 400, bad, "aspect_ratio",
			[]string{"1:1, 16:9, 9:16"}},
		{"unknown resolution", generate, tiers(`"resolution":"4K"`), 400, bad, "resolution", []string{"1K, 2K"}},
		{"quality of no spelling", generate, tiers(`"quality":"hd"`), 400, bad, "quality",
			[]string{"low, medium, high"}},
		{"quality not of the model", generate, tiers(`"quality":"medium"`), 400, bad, "quality", []string{"low, high"}},
		{"steps above", generate, pixels(`"steps":51`), 400, bad, "steps", []string{"at most 50"}},
		{"steps zero", generate, pixels(`"steps":0`), 400, bad, "steps", []string{"at least 1"}},
		{"cfg_scale zero", generate, pixels(`"cfg_scale":0`), 400, bad, "cfg_scale",
			[]string{"greater than 0 and at most 20"}},
		{"cfg_scale above", generate, pixels(`"cfg_scale":20.1`), 400, bad, "cfg_scale",
			[]string{"greater than 0 and at most 20"}},
		{"seed above", generate, pixels(`"seed":1000000000`), 400, bad, "seed",
			[]string{"between -999999999 and 999999999"}},
		{"no picture", generate, pixels(`"num_images":0`), 400, bad, "num_images", []string{"between 1 and 4"}},
		{"five pictures", generate, pixels(`"variants":5`), 400, bad, "variants", []string{"between 1 and 4"}},
		{"two counts", generate, pixels(`"variants":2,"num_images":3`), 400, bad, "variants", []string{"num_images"}},
		{"two counts of another spelling", generate, pixels(`"variants":2.0,"num_images":2,"return_binary":true`), 400,
			bad, "return_binary", []string{"one picture"}},
		{"several in one file", generate, pixels(`"variants":2,"return_binary":true`), 400, bad, "return_binary",
			[]string{"one picture"}},
		{"style in another case", generate, pixels(`"style_preset":"anime"`), 400, bad, "style_preset",
			[]string{"/image/styles"}},
		{"style that is a mark", generate, pixels(`"style_preset":"Minecraft"`), 400, bad, "style_preset", nil},
		{"lora_strength", generate, pixels(`"lora_strength":101`), 400, bad, "lora_strength",
			[]string{"between 0 and 100"}},
		{"format", generate, pixels(`"format":"gif"`), 400, bad, "format", []string{"jpeg, png, webp"}},
		{"return_binary as text", generate, pixels(`"return_binary":"true"`), 400, bad, "return_binary",
			[]string{"expected boolean"}},
		{"web search", generate, pixels(`"enable_web_search":true`), 400, bad, "enable_web_search",
			[]string{"web search"}},
		{"enhance_prompt", generate, pixels(`"enhance_prompt":true`), 400, bad, "enhance_prompt",
			[]string{"no model that rewrites prompts"}},
		{"enhance_prompt of an edit", edit, edits(`"enhance_prompt":true`), 400, bad, "enhance_prompt",
			[]string{"no model that rewrites prompts"}},
		{"enhance_prompt of an edit of several", multi, edits(`"enhance_prompt":true`), 400, bad, "enhance_prompt",
			[]string{"no model that rewrites prompts"}},
		{"prompt optimization", generate, pixels(`"disable_prompt_optimization_thinking":true`), 400, bad,
			"disable_prompt_optimization_thinking", []string{"does not support"}},
		{"prompt optimization of an edit", edit, edits(`"disable_prompt_optimization_thinking":true`), 400, bad,
			"disable_prompt_optimization_thinking", []string{"does not support"}},
		{"enhance_prompt in OpenAI's form", simple, `{"prompt":"x","enhance_prompt":true}`, 400, bad, "enhance_prompt",
			[]string{"not accepted"}},
		{"style references", generate, pixels(`"style_references":[{"image":"` + picture + `"}]`), 400, bad,
			"style_references", []string{"does not support"}},
		{"two style references", generate, tiers(`"style_references":[{"image":"` + picture + `"},{"image":"` +
			picture + `"}]`), 400, bad, "style_references", []string{"at most 1"}},
		{"strength of a style reference", generate, tiers(`"style_references":[{"image":"` + picture +
			`","strength":0.5}]`), 400, bad, "style_references", []string{"strength"}},
		{"strength out of range", generate, tiers(`"style_references":[{"image":"` + picture + `","strength":0.05}]`),
			400, bad, "style_references.0.strength", []string{"between 0.1 and 1"}},
		{"style reference without picture", generate, tiers(`"style_references":[{}]`), 400, bad,
			"style_references.0.image", []string{"required"}},
		{"style reference with more", generate, tiers(`"style_references":[{"image":"` + picture + `","weight":1}]`),
			400, bad, "style_references.0", []string{"image and strength"}},
		{"style reference is a picture alone", generate, tiers(`"style_references":["` + picture + `"]`), 400, bad,
			"style_references.0", []string{"expected object"}},
		{"style reference is not a picture", generate, tiers(`"style_references":[{"image":"AAAA"}]`), 400,
			"CORRUPTED_IMAGE", "style_references.0.image", nil},
		{"model twice", generate, `{"model":"pixels","prompt":"x","model":"tiers"}`, 400, bad, "model",
			[]string{"more than once"}},
		{"not JSON", generate, `{"model":`, 400, bad, "", nil},

		{"long simple prompt", simple, `{"prompt":"` + strings.Repeat("x", 1501) + `"}`, 400, bad, "prompt",
			[]string{"1500"}},
		{"no simple prompt", simple, `{}`, 400, bad, "prompt", []string{"required"}},
		{"n", simple, `{"prompt":"x","n":2}`, 400, bad, "n", []string{"n: must be 1, is 2"}},
		{"size", simple, `{"prompt":"x","size":"640x480"}`, 400, bad, "size", []string{"auto, 256x256"}},
		{"response_format", simple, `{"prompt":"x","response_format":"file"}`, 400, bad, "response_format",
			[]string{"b64_json, url"}},
		{"output_format", simple, `{"prompt":"x","output_format":"jpg"}`, 400, bad, "output_format",
			[]string{"jpeg, png, webp"}},
		{"simple quality", simple, `{"prompt":"x","quality":"best"}`, 400, bad, "quality",
			[]string{"auto, high, medium, low, hd, standard"}},
		{"style", simple, `{"prompt":"x","style":"dull"}`, 400, bad, "style", []string{"vivid, natural"}},
		{"background", simple, `{"prompt":"x","background":"green"}`, 400, bad, "background",
			[]string{"transparent, opaque, auto"}},
		{"moderation", simple, `{"prompt":"x","moderation":"none"}`, 400, bad, "moderation", []string{"auto, low"}},
		{"output_compression", simple, `{"prompt":"x","output_compression":101}`, 400, bad, "output_compression",
			[]string{"between 0 and 100"}},
		{"safe_mode", simple, `{"prompt":"x","safe_mode":false}`, 400, bad, "safe_mode", []string{"not accepted"}},

		{"edit without picture", edit, `{"prompt":"x"}`, 400, bad, "image", []string{"required"}},
		{"edit without prompt", edit, `{"image":"` + picture + `"}`, 400, bad, "prompt", []string{"required"}},
		{"edit prompt above", edit, `{"image":"` + picture + `","prompt":"` + strings.Repeat("x", 32769) + `"}`, 400,
			bad, "prompt", []string{"32768"}},
		{"edit with a model that generates", edit, edits(`"model":"pixels"`), 400, "INVALID_MODEL", "model", nil},
		{"two models", edit, edits(`"model":"retouch","modelId":"other"`), 400, bad, "modelId", []string{"model"}},
		{"edit ratio", edit, edits(`"aspect_ratio":"2:1"`), 400, bad, "aspect_ratio", []string{"auto, 1:1, 3:2"}},
		{"edit ratio not of the model", edit, edits(`"aspect_ratio":"9:16"`), 400, bad, "aspect_ratio",
			[]string{"auto, 1:1, 16:9"}},
		{"edit resolution", edit, edits(`"resolution":"8K"`), 400, bad, "resolution", []string{"1K, 2K"}},
		{"long resolution", edit, edits(`"resolution":"12345678901"`), 400, bad, "resolution", []string{"at most 10"}},
		{"edit format", edit, edits(`"output_format":"bmp"`), 400, bad, "output_format",
			[]string{"jpg, jpeg, png, webp"}},
		{"edit quality", edit, edits(`"quality":"high"`), 400, bad, "quality", []string{"does not support"}},
		{"edit of two", edit, edits(`"image_2":"` + picture + `"`), 400, bad, "image_2", []string{"not accepted"}},
		{"edit of a small picture", edit, `{"prompt":"x","image":"` + small + `"}`, 400, "IMAGE_TOO_SMALL", "image",
			[]string{"65536"}},
		{"edit of no base64", edit, `{"prompt":"x","image":"%%%"}`, 400, "CORRUPTED_IMAGE", "image", nil},
		{"edit of a link elsewhere", edit, `{"prompt":"x","image":"ftp://example.com/x.png"}`, 400, "CORRUPTED_IMAGE",
			"image", nil},

		{"multi-edit without pictures", multi, `{"prompt":"x"}`, 400, bad, "image", []string{"required"}},
		{"multi-edit of none", multi, `{"prompt":"x","images":[]}`, 400, bad, "images", []string{"at least 1"}},
		{"multi-edit of numbers", multi, `{"prompt":"x","images":[1]}`, 400, bad, "images.0", []string{"base64"}},
		{"multi-edit of four", multi, `{"prompt":"x","images":["` + picture + `","` + picture + `","` + picture +
			`","` + picture + `"]}`, 400, bad, "images", []string{"at most 3"}},
		{"second picture broken", multi, `{"prompt":"x","images":["` + picture + `","AAAA"]}`, 400, "CORRUPTED_IMAGE",
			"images.1", nil},

		{"upscale without picture", upscale, `{"scale":2}`, 400, bad, "image", []string{"required"}},
		{"scale above", upscale, large(`"scale":4.5`), 400, bad, "scale", []string{"between 1 and 4"}},
		{"scale below", upscale, large(`"scale":0.5`), 400, bad, "scale", []string{"between 1 and 4"}},
		{"scale 1 alone", upscale, large(`"scale":1`), 400, bad, "scale", []string{"enhance"}},
		{"enhance", upscale, large(`"enhance":"yes"`), 400, bad, "enhance", []string{"true, false"}},
		{"enhanceCreativity", upscale, large(`"enhanceCreativity":1.1`), 400, bad, "enhanceCreativity",
			[]string{"between 0 and 1"}},
		{"replication", upscale, large(`"replication":-0.1`), 400, bad, "replication", []string{"between 0 and 1"}},
		{"enhancePrompt", upscale, large(`"enhancePrompt":"` + strings.Repeat("x", 1501) + `"`), 400, bad,
			"enhancePrompt", []string{"1500"}},
		{"model for upscale", upscale, large(`"model":"enlarge"`), 400, bad, "model", []string{"not accepted"}},

		{"nothing to cut out", cut, `{}`, 400, bad, "image", []string{"image_url"}},
		{"two to cut out", cut, large(`"image_url":"https://example.com/x.png"`), 400, bad, "image",
			[]string{"exactly one"}},
		{"image_url not a link", cut, `{"image_url":"` + picture + `"}`, 400, bad, "image_url", []string{"https://"}},

		{"mask", "/images/edits", edits(`"mask":"` + picture + `"`), 400, bad, "mask", []string{"not accepted"}},
		{"streamed edit", "/images/edits", edits(`"stream":true`), 400, bad, "stream", []string{"one piece"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, _, answer := s.Post(c.path, s.key, c.body)
			checkRefusal(t, &c, status, answer)
		})
	}
	if n := s.requests(); n != 0 {
		t.Errorf("%d refused requests reached the upstream", n)
	}
	if spent := s.spent(); spent != 0 {
		t.Errorf("refusals cost %s", spent)
	}
}

func checkRefusal(t *testing.T, c *imageRefusal, status int, answer []byte) {
	t.Helper()
	var e struct {
		Error, Code string
		Issues      []struct {
			Path    []any
			Message string
		}
	}
	if err := json.Unmarshal(answer, &e); err != nil || status != c.status || e.Error == "" || e.Code != c.code ||
		len(e.Issues) == 0 {
		t.Fatalf("answered %d %.500s (%v), want %d %s", status, answer, err, c.status, c.code)
	}
	var parts []string
	for _, p := range e.Issues[0].Path {
		parts = append(parts, fmt.Sprint(p))
	}
	if got := strings.Join(parts, "."); got != c.field {
		t.Errorf("the issue is at %q, want %q: %.500s", got, c.field, answer)
	}
	for _, w := range c.words {
		if !strings.Contains(e.Issues[0].Message, w) {
			t.Errorf("the message %q does not say %q", e.Issues[0].Message, w)
		}
	}
}

// form is a multipart body.
type form struct {
	bytes.Buffer
	w *multipart.Writer
}

func newForm() *form {
	f := &form{}
	f.w = multipart.NewWriter(&f.Buffer)
	return f
}

func (f *form) field(name, value string) *form {
	_ = f.w.WriteField(name, value)
	return f
}

func (f *form) file(name string, data []byte) *form {
	w, _ := f.w.CreateFormFile(name, "picture.bin")
	_, _ = w.Write(data)
	return f
}

// send posts the form.
func (f *form) send(t testing.TB, g *rig.Gateway, path, key string) (status int, header http.Header, answer []byte) {
	t.Helper()
	_ = f.w.Close()
	req, err := http.NewRequest(http.MethodPost, g.URL+path, &f.Buffer)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", f.w.FormDataContentType())
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := rig.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var b bytes.Buffer
	_, _ = b.ReadFrom(res.Body)
	return res.StatusCode, res.Header, b.Bytes()
}

// Forms are held to the rules of JSON bodies.
func TestImageFormRefusals(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "10")
	picture := painting(512, 256)
	for name, c := range map[string]struct {
		form *form
		want imageRefusal
	}{
		"no file": {newForm().field("prompt", "x"),
			imageRefusal{path: "/image/edit", status: 400, code: "INVALID_REQUEST", field: "image",
				words: []string{"required"}}},
		"unknown field": {newForm().field("prompt", "x").file("image", picture).field("strength", "1"),
			imageRefusal{path: "/image/edit", status: 400, code: "INVALID_REQUEST", field: "strength"}},
		"file where no file": {newForm().file("prompt", []byte("x")).file("image", picture),
			imageRefusal{path: "/image/edit", status: 400, code: "INVALID_REQUEST", field: "prompt"}},
		"prompt twice": {newForm().field("prompt", "x").field("prompt", "y").file("image", picture),
			imageRefusal{path: "/image/edit", status: 400, code: "INVALID_REQUEST", field: "prompt"}},
		"two files": {newForm().field("prompt", "x").file("image", picture).file("image", picture),
			imageRefusal{path: "/image/edit", status: 400, code: "INVALID_REQUEST", field: "image",
				words: []string{"multi-edit"}}},
		"scale as words": {newForm().field("scale", "two").file("image", picture),
			imageRefusal{path: "/image/upscale", status: 400, code: "INVALID_REQUEST", field: "scale",
				words: []string{"expected number"}}},
		"scale out of range": {newForm().field("scale", "5").file("image", picture),
			imageRefusal{path: "/image/upscale", status: 400, code: "INVALID_REQUEST", field: "scale",
				words: []string{"between 1 and 4"}}},
		"broken file": {newForm().file("image", picture[:100]),
			imageRefusal{path: "/image/upscale", status: 400, code: "CORRUPTED_IMAGE", field: "image"}},
		"text as file": {newForm().file("image", []byte("<svg/>")),
			imageRefusal{path: "/image/background-remove", status: 400, code: "CORRUPTED_IMAGE", field: "image"}},
		"too many files": {newForm().field("prompt", "x").file("images", picture).file("images", picture).file("images",
			picture).file("images", picture), imageRefusal{path: "/image/multi-edit", status: 400,
			code: "INVALID_REQUEST", field: "images", words: []string{"at most 3"}}},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, answer := c.form.send(t, s.Gateway, c.want.path, s.key)
			checkRefusal(t, &c.want, status, answer)
		})
	}
	// Content types, and a body that is not a form at all.
	for contentType, want := range map[string]int{
		"text/plain": 415, "multipart/form-data": 400, "multipart/form-data; boundary=x": 400,
		"multipart/mixed; boundary=x": 415, "": 415,
	} {
		req, _ := http.NewRequest(http.MethodPost, s.Gateway.URL+"/image/edit", strings.NewReader("--y--"))
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Authorization", "Bearer "+s.key)
		res, err := rig.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("a body of type %q is answered %d, want %d", contentType, res.StatusCode, want)
		}
	}
	if status, _, answer := newForm().field("prompt", "x").send(t, s.Gateway, "/image/generate", s.key); status != 415 {
		t.Errorf("a form for /image/generate is answered %d %s", status, answer)
	}
	if n := s.requests(); n != 0 {
		t.Errorf("%d refused requests reached the upstream", n)
	}
}
