package image_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"farebox/providers/image"
	"farebox/providers/image/openai"
	"farebox/providers/image/picture"
	"farebox/proxy"
)

func simple() *image.Job {
	return &image.Job{Kind: image.Generate, Prompt: "a cat", Count: 1, SafeMode: true}
}

// dataAnswer is an answer in OpenAI's form.
func dataAnswer(images ...[]byte) string {
	var items []string
	for _, m := range images {
		items = append(items, `{"b64_json":"`+text(m)+`"}`)
	}
	return `{"created":1,"data":[` + strings.Join(items, ",") + `]}`
}

// One request, one image, complete and checked.
func TestOneRequestMakesOneImage(t *testing.T) {
	t.Parallel()
	want := pngOf(300, 256)
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/images/generations" || r.Method != "POST" {
			t.Error(r.Method, r.URL.Path)
		}
		jsonAnswer(w, dataAnswer(want))
	})
	g := newRig(t)
	r, f := g.do(simple(), target(t, openai.Dialect{}, url+"/v1"))
	if f != nil {
		t.Fatal(f, f.Err)
	}
	m := &r.Images[0]
	if len(r.Images) != 1 || m.Format != picture.PNG || m.Width != 300 || m.Height != 256 ||
		!bytes.Equal(bytesOf(m), want) {
		t.Errorf("%d images, %v %dx%d", len(r.Images), m.Format, m.Width, m.Height)
	}
	if g.engine.Held() < int64(len(want)) {
		t.Errorf("%d bytes held", g.engine.Held())
	}
	r.Release()
	r.Release()
	if g.engine.Held() != 0 {
		t.Errorf("%d bytes still held", g.engine.Held())
	}
}

// Upstreams' answers are not believed: anything but a complete image is a failure, and
// another target is asked.
func TestBrokenAnswersGoToTheNextTarget(t *testing.T) {
	t.Parallel()
	good := pngOf(256, 256)
	goodURL := server(t, func(w http.ResponseWriter, _ *http.Request) { jsonAnswer(w, dataAnswer(good)) })
	cut := text(good)
	for name, answer := range map[string]string{
		"no images":       `{"created":1,"data":[]}`,
		"no data":         `{}`,
		"not JSON":        "<html><body>502</body></html>",
		"null":            `{"data":[{"b64_json":null}]}`,
		"empty":           `{"data":[{"b64_json":""}]}`,
		"truncated text":  `{"data":[{"b64_json":"` + cut[:len(cut)/2/4*4] + `"}]}`,
		"broken text":     `{"data":[{"b64_json":"` + cut[:100] + "%" + cut[101:] + `"}]}`,
		"odd text":        `{"data":[{"b64_json":"` + cut[:len(cut)-5] + `"}]}`,
		"no picture":      `{"data":[{"b64_json":"` + text([]byte(strings.Repeat("hello ", 100))) + `"}]}`,
		"a link":          `{"data":[{"url":"https://example.com/a.png"}]}`,
		"cut in the text": `{"data":[{"b64_json":"` + cut[:len(cut)/2],
		"empty body":      "",
	} {
		bad := server(t, func(w http.ResponseWriter, _ *http.Request) { jsonAnswer(w, answer) })
		g := newRig(t)
		r, f := g.do(simple(), target(t, openai.Dialect{}, bad), target(t, openai.Dialect{}, goodURL))
		if f != nil || r.Attempts != 2 || !bytes.Equal(bytesOf(&r.Images[0]), good) {
			t.Errorf("%s: %v", name, f)
			continue
		}
		r.Release()
		if _, f := g.do(simple(), target(t, openai.Dialect{}, bad)); f == nil || f.Failure.Status != 502 ||
			f.Failure.Code != "INFERENCE_FAILED" {
			t.Errorf("%s alone: %+v", name, f)
		}
		if g.engine.Held() != 0 {
			t.Errorf("%s: %d bytes held", name, g.engine.Held())
		}
	}
}

// A job that wants more images than an answer has asks again for the rest.
func TestTheRestIsAskedForAgain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	url := server(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		jsonAnswer(w, dataAnswer(pngOf(256, 256)))
	})
	g := newRig(t)
	j := simple()
	j.Count = 3
	r, f := g.do(j, target(t, openai.Dialect{}, url))
	if f != nil || len(r.Images) != 3 || r.Calls != 3 || calls.Load() != 3 || r.Delivered() != 3 {
		t.Fatalf("%v, %d calls", f, calls.Load())
	}
}

// The failure of some of the images is reported with the others.
func TestSomeImagesAreBetterThanNone(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	url := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) > 1 {
			w.WriteHeader(500)
			return
		}
		jsonAnswer(w, dataAnswer(pngOf(256, 256)))
	})
	g := newRig(t)
	j := simple()
	j.Count = 2
	r, f := g.do(j, target(t, openai.Dialect{}, url))
	if f != nil || len(r.Images) != 1 || r.Missing == nil || r.Missing.Failure.Status != 500 {
		t.Fatal(f)
	}
}

// A client that leaves closes the upstream, and gets no images.
func TestAClientThatLeavesStopsItsJob(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 1)
	began := make(chan struct{}, 1)
	url := server(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	g := newRig(t)
	ends, leave := g.ask(simple(), target(t, openai.Dialect{}, url))
	<-began
	leave()
	if e := <-ends; e.f == nil || e.f.Cause != proxy.ClientGone || e.r != nil {
		t.Errorf("%+v", e)
	}
	<-gone
	if g.proxy.Active() != 0 || g.engine.Held() != 0 {
		t.Error("something is left")
	}
}

// Answers that find no room are refused before they are read.
func TestAnswersWithoutRoomAreRefused(t *testing.T) {
	t.Parallel()
	url := server(t, func(w http.ResponseWriter, _ *http.Request) { jsonAnswer(w, dataAnswer(pngOf(512, 512))) })
	g := newRig(t, func(o *image.Options) { o.Room = 10_000 })
	if _, f := g.do(simple(), target(t, openai.Dialect{}, url)); f == nil || f.Failure.Status != 503 ||
		f.RetryAfter == 0 {
		t.Fatalf("%+v", f)
	}
	if g.engine.Held() != 0 {
		t.Error(g.engine.Held())
	}
}

// A job that no target can do says so.
func TestAJobThatNoTargetCanDo(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	j := &image.Job{Kind: image.Upscale, Count: 1}
	if _, f := g.do(j, target(t, openai.Dialect{}, "http://127.0.0.1:1")); f == nil || f.Failure.Status != 400 ||
		f.Attempts != 0 {
		t.Fatalf("%+v", f)
	}
	if _, f := g.do(simple()); f == nil || f.Cause != proxy.NoTarget {
		t.Fatalf("%+v", f)
	}
}
