package image

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// easel is an upstream that speaks OpenAI's images API and paints the ordered pictures in
// one colour. A word in the prompt makes it misbehave.
type easel struct {
	URL string

	mu    sync.Mutex
	made  int // pictures
	asked []easelRequest
	wait  chan struct{} // closed: answers go on; nil: at once
}

// easelRequest is a request to the easel.
type easelRequest struct {
	Path   string
	Fields map[string]string
	Files  [][]byte
}

func startEasel(t testing.TB) *easel {
	t.Helper()
	e := &easel{}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	e.URL = server.URL + "/v1"
	return e
}

func (e *easel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := easelRequest{Path: r.URL.Path, Fields: map[string]string{}}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		form, err := multipart.NewReader(r.Body, boundaryOf(r)).ReadForm(64 << 20)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for name, values := range form.Value {
			q.Fields[name] = values[0]
		}
		for _, files := range form.File {
			for _, f := range files {
				in, _ := f.Open()
				data, _ := io.ReadAll(in)
				q.Files = append(q.Files, data)
			}
		}
	} else {
		var members map[string]any
		if err := json.NewDecoder(r.Body).Decode(&members); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for name, v := range members {
			q.Fields[name] = fmt.Sprint(v)
		}
	}
	n, _ := strconv.Atoi(q.Fields["n"])
	n = max(n, 1)
	e.mu.Lock()
	e.asked = append(e.asked, q)
	wait := e.wait
	e.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-r.Context().Done():
			return
		}
	}
	prompt := q.Fields["prompt"]
	if strings.Contains(prompt, "LATE") {
		time.Sleep(2 * time.Second) // whether or not the client waits
	}
	switch {
	case strings.Contains(prompt, "HANG"):
		<-r.Context().Done()
		return
	case strings.Contains(prompt, "FAIL"):
		http.Error(w, `{"error":{"message":"out of paint"}}`, http.StatusInternalServerError)
		return
	case strings.Contains(prompt, "POLICY"):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w,
			`{"error":{"message":"Your request was rejected by our safety system.","code":"content_policy_violation"}}`)
		return
	case strings.Contains(prompt, "GARBAGE"):
		_, _ = io.WriteString(w, `{"created":1,"data":[{"b64_json":"AAAA"}]}`)
		return
	case strings.Contains(prompt, "BROKEN"):
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, `{"created":1,"data":[{"b64_json":"iVBOR`)
		return
	}
	width, height := 512, 512
	if a, b, ok := strings.Cut(q.Fields["size"], "x"); ok {
		width, _ = strconv.Atoi(a)
		height, _ = strconv.Atoi(b)
	}
	file := painting(width, height)
	if strings.Contains(prompt, "LARGE") {
		file = largePicture()
	}
	text := base64.StdEncoding.EncodeToString(file)
	list := strings.TrimSuffix(strings.Repeat(`{"b64_json":"`+text+`"},`, n), ",")
	e.mu.Lock()
	e.made += n
	e.mu.Unlock()
	answer := `{"created":1,"data":[` + list + `]}`
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = io.WriteString(w, answer)
}

func boundaryOf(r *http.Request) string {
	_, b, _ := strings.Cut(r.Header.Get("Content-Type"), "boundary=")
	return strings.Trim(b, `"`)
}

// last is the request that the easel was asked last.
func (e *easel) last() easelRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked[len(e.asked)-1]
}

// all are the requests that the easel had.
func (e *easel) all() []easelRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked)
}

// pictures is how many it has painted.
func (e *easel) pictures() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.made
}

func (e *easel) requests() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.asked)
}

// largePicture is a PNG of 24 MB, or of 4 MB under the race detector.
var largePicture = sync.OnceValue(func() []byte {
	size := 24 << 20
	if rig.RaceDetector() {
		size = 4 << 20
	}
	return pngOf(512, 512, pngChunk("tEXt", make([]byte, size)), pngChunk("IDAT", []byte("pixels")))
})

// imagesConfig has a model of each kind. Prices are distinct powers, so that a sum shows its parts.
const imagesConfig = `
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 }, aborted_requests: { count: 0 } }
fetch: { allow: [127.0.0.1] }
upstreams:
  - { name: simulated, dialect: native, base_url: %[2]s, breaker: { failures: 0 } }
  - { name: easel, base_url: %[1]s, breaker: { failures: 0 } }
models:
  - id: pixels
    type: image
    tier: unlimited
    name: Pixels
    traits: [default]
    aliases: [gpt-image-1]
    constraints: { prompt_characters: 2048, steps: { default: 25, max: 50 }, size_divisor: 8 }
    price: { generation: 0.01 }
    targets: [{ upstream: easel, model: paint-1 }]
  - id: tiers
    type: image
    tier: unlimited
    capabilities: { web_search: true }
    constraints:
      prompt_characters: 100
      aspect_ratios: ["1:1", "16:9", "9:16"]
      resolutions: [1K, 2K]
      qualities: [low, high]
      default_quality: high
      max_style_references: 1
    price: { quality: { 1K: { low: 0.02, high: 0.26 }, 2K: { low: 0.03, high: 0.5 } }, web_search: 0.001 }
    targets: [{ upstream: easel, model: paint-2 }]
  - id: retouch
    type: inpaint
    tier: unlimited
    constraints:
      prompt_characters: 32768
      aspect_ratios: [auto, "1:1", "16:9"]
      resolutions: [1K, 2K]
      max_input_images: 3
    price: { inpaint: 0.34, resolutions: { 2K: 0.52 }, input_images: { included: 1, additional: 0.0092 } }
    targets: [{ upstream: easel, model: paint-1 }]
  - id: enlarge
    type: upscale
    tier: unlimited
    price: { upscale: { 2x: 0.02, 4x: 0.08 } }
    targets: [{ upstream: simulated, model: large-1 }]
  - id: cut
    type: background_removal
    tier: unlimited
    price: { generation: 0.03 }
    targets: [{ upstream: simulated, model: cut-1 }]
`

// studio is a gateway with an easel behind it and one account.
type studio struct {
	*rig.Gateway
	*easel
	sim *rig.Simulated
	key string
}

func startStudio(t testing.TB, balance string) *studio {
	t.Helper()
	e := startEasel(t)
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(imagesConfig, e.URL, sim.URL))
	g.NewAccount("a", balance)
	return &studio{g, e, sim, g.Key("a")}
}

// spent is the account's charge, with nothing held any more.
func (s *studio) spent() rig.Money { return s.Settled()["a"].Spent }

func TestPicturesAreMadeAndCharged(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "100")
	status, header, answer := s.Post("/image/generate", s.key,
		`{"model":"pixels","prompt":"a \"cat\"","width":512,"height":768,"num_images":2,"format":"png","seed":7}`)
	var native struct {
		ID      string
		Images  [][]byte
		Request map[string]any
		Timing  map[string]int
	}
	if err := json.Unmarshal(answer, &native); err != nil || status != 200 || len(native.Images) != 2 ||
		native.ID == "" || len(native.Timing) != 4 {
		t.Fatalf("%d %v %.300s", status, err, answer)
	}
	if native.Request["seed"] != 7.0 || native.Request["prompt"] != `a "cat"` {
		t.Errorf("the request is repeated as %v", native.Request)
	}
	for _, m := range native.Images {
		if !bytes.Equal(m, painting(512, 768)) {
			t.Errorf("a picture of %d bytes came through changed", len(m))
		}
	}
	if q := s.last(); q.Path != "/v1/images/generations" || q.Fields["model"] != "paint-1" ||
		q.Fields["size"] != "512x768" || q.Fields["prompt"] != `a "cat"` {
		t.Errorf("the upstream was asked %v", q)
	}
	for name, want := range map[string]string{
		"X-Svc-Model-Id": "pixels", "X-Svc-Model-Name": "Pixels", "X-Svc-Is-Blurred": "false",
		"X-Svc-Is-Content-Violation":             "false",
		"X-Svc-Is-Adult-Model-Content-Violation": "false", "Content-Type": "application/json",
		"X-Svc-Balance-Usd": "100",
	} {
		if header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, header.Get(name), want)
		}
	}
	if got := s.spent(); got != 20_000_000 {
		t.Errorf("two pictures of 0.01 cost %s", got)
	}

	status, header, answer = s.Post("/image/generate", s.key,
		`{"model":"tiers","prompt":"x","aspect_ratio":"16:9","resolution":"2K","quality":"low","return_binary":true,"format":"png","enable_web_search":true}`)
	if m, err := png.DecodeConfig(bytes.NewReader(answer)); status != 200 || err != nil ||
		header.Get("Content-Type") != "image/png" || m.Width <= m.Height {
		t.Fatalf("%d %v %v %.300s", status, header, err, answer)
	}
	if got := s.spent(); got != 20_000_000+31_000_000 {
		t.Errorf("2K in low quality with a search cost %s", got-20_000_000)
	}

	status, _, answer = s.Post("/images/generations", s.key,
		`{"prompt":"x","size":"1536x1024","model":"no-such-model","response_format":"url"}`)
	var simple struct {
		Created int64
		Data    []struct {
			B64 []byte `json:"b64_json"`
			URL string
		}
	}
	if err := json.Unmarshal(answer, &simple); err != nil || status != 200 || simple.Created == 0 ||
		len(simple.Data) != 1 || !strings.HasPrefix(simple.Data[0].URL, "data:image/png;base64,iVBOR") {
		t.Fatalf("%d %v %.300s", status, err, answer)
	}
	if q := s.last(); q.Fields["size"] != "1536x1024" || q.Fields["model"] != "paint-1" {
		t.Errorf("the upstream was asked %v", q)
	}

	before := s.spent()
	picture := base64.StdEncoding.EncodeToString(painting(512, 256))
	status, header, answer = s.Post("/image/edit", s.key, `{"prompt":"make it blue","image":"data:image/png;base64,`+
		picture+`","resolution":"2K","output_format":"png"}`)
	if status != 200 || header.Get("Content-Type") != "image/png" || header.Get("X-Svc-Model-Id") != "retouch" {
		t.Fatalf("%d %v %.300s", status, header, answer)
	}
	if q := s.last(); q.Path != "/v1/images/edits" || len(q.Files) != 1 ||
		!bytes.Equal(q.Files[0], painting(512, 256)) {
		t.Errorf("the upstream was asked %s with %d files", q.Path, len(q.Files))
	}
	status, _, answer = s.Post("/image/multi-edit", s.key, `{"prompt":"join them","image":"`+picture+`","image_2":"`+
		picture+`","image_3":"`+picture+`","output_format":"png"}`)
	if status != 200 || len(s.last().Files) != 3 {
		t.Fatalf("%d %.300s", status, answer)
	}
	if got := s.spent() - before; got != 520_000_000+340_000_000+2*9_200_000 {
		t.Errorf("the edits cost %s", got)
	}
}

// Upscaling and cutting out go to an upstream that speaks this very API.
func TestPicturesAreEnlargedAndCutOut(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "100")
	picture := painting(512, 256)
	text := base64.StdEncoding.EncodeToString(picture)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/picture.png":
			_, _ = w.Write(picture)
		case "/moved":
			http.Redirect(w, r, "/picture.png", http.StatusFound)
		case "/inside":
			http.Redirect(w, r, "http://127.0.0.2:80/picture.png", http.StatusFound)
		case "/page":
			_, _ = io.WriteString(w, "<html>no picture</html>")
		case "/broken":
			_, _ = w.Write(picture[:len(picture)/2])
		case "/large":
			w.Header().Set("Content-Length", strconv.Itoa(26<<20))
			_, _ = w.Write(append(picture[:40:40], make([]byte, 1<<20)...))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(site.Close)
	spent := rig.Money(0)
	made := func(name, path, body string, f *form, width, height int, price rig.Money) {
		t.Helper()
		var status int
		var header http.Header
		var answer []byte
		if f != nil {
			status, header, answer = f.send(t, s.Gateway, path, s.key)
		} else {
			status, header, answer = s.Post(path, s.key, body)
		}
		m, err := png.DecodeConfig(bytes.NewReader(answer))
		if status != 200 || header.Get("Content-Type") != "image/png" || err != nil || width > 0 &&
			(m.Width != width || m.Height != height) {
			t.Fatalf("%s: %d %v %v, %d x %d", name, status, header.Get("Content-Type"), err, m.Width, m.Height)
		}
		spent += price
		if got := s.spent(); got != spent {
			t.Errorf("%s: charged %s, want %s", name, got-spent+price, price)
		}
	}
	made("twice as large", "/image/upscale", `{"image":"`+text+`"}`, nil, 1024, 512, 20_000_000)
	made("four times, as a form", "/image/upscale", "", newForm().field("scale", "4").file("image", painting(256, 256)),
		1024, 1024, 80_000_000)
	made("enhanced only", "/image/upscale", `{"image":"`+text+
		`","scale":1,"enhance":"true","enhanceCreativity":0.2,"creativity":9}`, nil, 0, 0, 20_000_000)
	made("cut out", "/image/background-remove", `{"image":"`+text+`"}`, nil, 0, 0, 30_000_000)
	made("cut out of a form", "/image/background-remove", "", newForm().file("image", picture), 0, 0, 30_000_000)
	made("cut out behind a link", "/image/background-remove", `{"image_url":"`+site.URL+`/picture.png"}`, nil, 0, 0,
		30_000_000)
	made("cut out behind a link that moved", "/image/background-remove",
		`{"image_url":"`+strings.ReplaceAll(site.URL, "/", `\/`)+`/moved"}`, nil, 0, 0, 30_000_000)
	made("edit behind a link", "/image/edit", `{"prompt":"x","image":"`+site.URL+`/picture.png","output_format":"png"}`,
		nil, 0, 0, 340_000_000)

	for path, c := range map[string]struct {
		status int
		code   string
	}{
		"/page": {400, "CORRUPTED_IMAGE"}, "/broken": {400, "CORRUPTED_IMAGE"}, "/large": {422, "IMAGE_TOO_LARGE"},
		"/inside": {400, "INVALID_REQUEST"}, "/nothing": {400, "INVALID_REQUEST"},
	} {
		status, _, answer := s.Post("/image/edit", s.key, `{"prompt":"x","image":"`+site.URL+path+`"}`)
		checkRefusal(t, &imageRefusal{status: c.status, code: c.code, field: "image"}, status, answer)
		if strings.Contains(string(answer), "127.0.0") {
			t.Errorf("%s: the answer names a host: %s", path, answer)
		}
	}
	for _, link := range []string{"http://169.254.169.254/latest/meta-data/", "http://[::1]/x", "http://localhost:1/",
		"http://10.0.0.1/x", "https://user:secret@example.com/x"} {
		status, _, answer := s.Post("/image/background-remove", s.key, `{"image_url":"`+link+`"}`)
		checkRefusal(t, &imageRefusal{status: 400, code: "INVALID_REQUEST", field: "image_url"}, status, answer)
	}
	if got := s.spent(); got != spent {
		t.Errorf("links that lead nowhere cost %s", got-spent)
	}
}

var paintings sync.Map // size -> PNG

// painting is a PNG of a size.
func painting(width, height int) []byte {
	if p, ok := paintings.Load([2]int{width, height}); ok {
		return p.([]byte)
	}
	m := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.RGBA{200, 30, 90, 255}})
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err)
	}
	paintings.Store([2]int{width, height}, b.Bytes())
	return b.Bytes()
}
