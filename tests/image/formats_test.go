package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gen2brain/webp"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// formatsConfig has an upstream that makes PNG only, and one that makes one
// picture a call.
const formatsConfig = `
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
brand: acme
upstreams:
  - { name: easel, base_url: %s, breaker: { failures: 0 } }
  - { name: single, dialect: stability, base_url: %s, breaker: { failures: 0 } }
  - { name: native, dialect: native, base_url: %s, breaker: { failures: 0 } }
models:
  - id: png-only
    type: image
    tier: unlimited
    constraints: { prompt_characters: 2048, size_divisor: 8 }
    price: { generation: 0.01 }
    targets: [{ upstream: easel, options: { format: fixed } }]
  - id: one-by-one
    type: image
    tier: unlimited
    constraints: { prompt_characters: 2048, aspect_ratios: ["1:1", "16:9"] }
    price: { generation: 0.03 }
    targets: [{ upstream: single, model: core }]
  - id: blockable
    type: image
    tier: unlimited
    constraints: { prompt_characters: 2048, size_divisor: 8 }
    price: { generation: 0.05 }
    targets: [{ upstream: native }]
`

func startFormats(t *testing.T) (*studio, *rig.Simulated) {
	t.Helper()
	e, sim := startEasel(t), rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(formatsConfig, e.URL, sim.URL, sim.URL))
	g.NewAccount("a", "10")
	return &studio{g, e, sim, g.Key("a")}, sim
}

// Whatever the upstream makes, the client gets the format that it asked for,
// with the metadata that it asked for.
func TestPicturesHaveTheFormatAskedFor(t *testing.T) {
	t.Parallel()
	s, _ := startFormats(t)
	decoders := map[string]func(b []byte) (image.Config, error){
		"png":  func(b []byte) (image.Config, error) { return png.DecodeConfig(bytes.NewReader(b)) },
		"jpeg": func(b []byte) (image.Config, error) { return jpeg.DecodeConfig(bytes.NewReader(b)) },
		"webp": func(b []byte) (image.Config, error) { return webp.DecodeConfig(bytes.NewReader(b)) },
	}
	for format, decode := range decoders {
		for _, metadata := range []bool{false, true} {
			body := fmt.Sprintf(`{"model":"png-only","prompt":"a purple cat","width":320,"height":256,"seed":77,"format":%q,"embed_exif_metadata":%v,"return_binary":true}`, format, metadata)
			status, header, file := s.Post("/image/generate", s.key, body)
			if m, err := decode(file); status != 200 || header.Get("Content-Type") != "image/"+format || err != nil ||
				m.Width != 320 || m.Height != 256 {
				t.Fatalf("%s: %d %s %v %+v", format, status, header.Get("Content-Type"), err, m)
			}
			exif := bytes.Contains(file, []byte("Exif")) || bytes.Contains(file, []byte("eXIf")) ||
				bytes.Contains(file, []byte("EXIF"))
			if said := bytes.Contains(file, []byte("a purple cat")) && bytes.Contains(file, []byte("77")) &&
				exif; said != metadata {
				t.Errorf("%s: metadata %v in a picture of %d bytes, want %v", format, said, len(file), metadata)
			}
			if header.Get("X-Acme-Model-Id") != "png-only" || header.Get("X-Acme-Is-Blurred") != "false" {
				t.Errorf("%s: the headers are %v", format, header)
			}
		}
		status, _, answer := s.Post("/image/generate", s.key,
			fmt.Sprintf(`{"model":"png-only","prompt":"x","width":320,"height":256,"format":%q,"variants":2}`, format))
		var native struct{ Images [][]byte }
		if err := json.Unmarshal(answer, &native); err != nil || status != 200 || len(native.Images) != 2 {
			t.Fatalf("%s: %d %v", format, status, err)
		}
		for _, file := range native.Images {
			if _, err := decode(file); err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
	}
	// /image/generate gives WebP by default.
	if _, header, _ := s.Post("/image/generate", s.key,
		`{"model":"png-only","prompt":"x","width":320,"height":256,"return_binary":true}`); header.Get(
		"Content-Type") != "image/webp" {
		t.Errorf("the usual format is %s", header.Get("Content-Type"))
	}
}

// Where an upstream makes one picture a call, several are made side by side,
// and each that came is charged.
func TestVariantsAreMadeSideBySide(t *testing.T) {
	t.Parallel()
	s, sim := startFormats(t)
	before := sim.Stats().Requests
	status, _, answer := s.Post("/image/generate", s.key,
		`{"model":"one-by-one","prompt":"a cat","variants":4,"format":"png","aspect_ratio":"16:9"}`)
	if n := countPictures(answer); status != 200 || n != 4 || sim.Stats().Requests-before != 4 {
		t.Fatalf("%d with %d pictures in %d calls: %.300s", status, n, sim.Stats().Requests-before, answer)
	}
	if got := s.spent(); got != 120_000_000 {
		t.Errorf("four pictures of 0.03 cost %s", got)
	}
	// One of the four calls fails: three pictures come, and three are charged.
	status, _, answer = s.Post("/image/generate", s.key,
		`{"model":"one-by-one","prompt":"[[sim fail_first=1]] another cat","variants":4,"format":"png"}`)
	n := countPictures(answer)
	if got := s.spent() - 120_000_000; status != 200 || n < 3 || got != rig.Money(n)*30_000_000 {
		t.Errorf("%d with %d pictures cost %s: %.300s", status, n, got, answer)
	}
}

// A picture that was withheld is answered with a black one, with 200, and is
// free (addendum 3.7).
func TestBlockedPicturesAreFree(t *testing.T) {
	t.Parallel()
	s, _ := startFormats(t)
	for name, c := range map[string]struct{ body, contentType string }{
		"JSON": {
			`{"model":"blockable","prompt":"[[sim image=blocked]] x","format":"png","width":256,"height":256}`,
			"application/json"},
		"file": {
			`{"model":"blockable","prompt":"[[sim image=blocked]] y","format":"png","width":256,"height":256,"return_binary":true}`, "image/png"},
		"file of another format": {
			`{"model":"blockable","prompt":"[[sim image=blocked]] z","format":"webp","width":256,"height":256,"return_binary":true}`, "image/png"},
	} {
		status, header, answer := s.Post("/image/generate", s.key, c.body)
		if status != 200 || header.Get("X-Acme-Is-Content-Violation") != "true" ||
			header.Get("Content-Type") != c.contentType || countPictures(answer) != 1 {
			t.Errorf("%s: %d %v %d pictures", name, status, header, countPictures(answer))
		}
	}
	if a := s.Settled()["a"]; a.Spent != 0 || a.Held != 0 {
		t.Errorf("blocked pictures cost: %+v", a)
	}
	// A refusal by the upstream is 422, free as well.
	status, header, answer := s.Post("/image/generate", s.key, `{"model":"png-only","prompt":"POLICY"}`)
	if status != 422 || !strings.Contains(string(answer), "CONTENT_POLICY_VIOLATION") ||
		header.Get("X-Acme-Is-Content-Violation") != "true" {
		t.Errorf("%d %v %s", status, header, answer)
	}
	if a := s.Settled()["a"]; a.Spent != 0 {
		t.Errorf("a refused picture cost %s", a.Spent)
	}
}

// JSON is compressed for clients that accept it, files never are; other clients get the
// length beforehand.
func TestPicturesInJSONAreCompressed(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "10")
	const body = `{"model":"pixels","prompt":"LARGE","format":"png"}`
	open := func(path, body, coding string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, s.Gateway.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+s.key)
		req.Header.Set("Accept-Encoding", coding)
		res, err := rig.Client.Do(req)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%v %v", res, err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	plain := open("/image/generate", body, "identity")
	if plain.Header.Get("Content-Encoding") != "" || plain.ContentLength < int64(len(largePicture()))*4/3 {
		t.Errorf("%v", plain.Header)
	}
	small := open("/image/generate", body, "br, gzip")
	z, err := gzip.NewReader(small.Body)
	if err != nil || small.Header.Get("Content-Encoding") != "gzip" || small.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("%v %v", small.Header, err)
	}
	var native struct{ Images [][]byte }
	if err := json.NewDecoder(z).Decode(&native); err != nil || len(native.Images) != 1 ||
		!bytes.Equal(native.Images[0], largePicture()) {
		t.Errorf("the picture came through as %d, %v", len(native.Images), err)
	}
	if file := open("/image/generate", strings.Replace(body, `"format"`, `"return_binary":true,"format"`, 1),
		"gzip"); file.Header.Get("Content-Encoding") != "" || file.ContentLength != int64(len(largePicture())) {
		t.Errorf("a file is answered with %v", file.Header)
	}
	if got := s.spent(); got != 30_000_000 {
		t.Errorf("three pictures of 0.01 cost %s", got)
	}
}

// A client that stops reading ends the delivery, not the gateway; its picture is charged.
func TestLeavingWhileAPictureComes(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "10")
	for _, coding := range []string{"identity", "gzip"} {
		ctx, cancel := context.WithCancel(context.Background())
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.Gateway.URL+"/image/generate",
			strings.NewReader(`{"model":"pixels","prompt":"LARGE","format":"png"}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+s.key)
		req.Header.Set("Accept-Encoding", coding)
		res, err := rig.Client.Do(req)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%v %v", res, err)
		}
		_, _ = io.ReadFull(res.Body, make([]byte, 64<<10))
		cancel()
		_ = res.Body.Close()
		s.MetricIs("http_server_active_requests", func(n float64) bool { return n <= 1 })
	}
	if got := s.spent(); got != 20_000_000 {
		t.Errorf("two pictures of 0.01 cost %s", got)
	}
}

// The WebP encoder is made ready in the background where an upstream cannot
// make WebP itself, also when a reload brings one, and not otherwise.
func TestWebPIsReadyBeforeItIsNeeded(t *testing.T) {
	t.Parallel()
	const ready = "the WebP encoder is ready"
	e := startEasel(t)
	text := fmt.Sprintf(strings.Replace(formatsConfig, "level: info", "level: debug", 1), e.URL, e.URL, e.URL)
	able := strings.Replace(text, ", options: { format: fixed }", "", 1)
	g := rig.StartGateway(t, able)
	g.NewAccount("a", "10")
	if status, _, answer := g.Post("/image/generate", g.Key("a"),
		`{"model":"png-only","prompt":"x","format":"png"}`); status != 200 {
		t.Fatalf("%d %.300s", status, answer)
	}
	if strings.Contains(g.Log(), ready) {
		t.Error("the encoder was made ready without a client")
	}
	g.WriteConfig(text)
	g.Signal(rig.Hangup)
	g.MetricIs("farebox_holds_open", func(float64) bool { return strings.Contains(g.Log(), ready) })
}
