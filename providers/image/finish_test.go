package image_test

import (
	"bytes"
	stdimage "image"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/providers/health"
	"farebox/providers/image"
	"farebox/providers/image/openai"
	"farebox/providers/image/picture"
	"farebox/proxy"
)

// Formats that an upstream cannot make are converted; an image in the right format is left alone.
func TestImagesComeInTheFormatOfTheJob(t *testing.T) {
	t.Parallel()
	made := pngOf(300, 256)
	url := server(t, func(w http.ResponseWriter, _ *http.Request) { jsonAnswer(w, dataAnswer(made)) })
	g := newRig(t)
	for _, format := range []picture.Format{picture.Unknown, picture.PNG, picture.JPEG, picture.WebP} {
		j := simple()
		j.Format = format
		r, f := g.do(j, target(t, openai.Dialect{}, url))
		if f != nil {
			t.Fatal(f)
		}
		m := &r.Images[0]
		cfg, name, err := stdimage.DecodeConfig(bytes.NewReader(bytesOf(m)))
		if err != nil || cfg.Width != 300 || cfg.Height != 256 || name != m.Format.String() {
			t.Errorf("%v: %s %v", format, name, err)
		}
		switch format {
		case picture.Unknown, picture.PNG:
			if !bytes.Equal(bytesOf(m), made) || r.Converting != 0 {
				t.Errorf("%v: it was converted", format)
			}
		default:
			if m.Format != format || r.Converting == 0 {
				t.Errorf("%v: it is %v", format, m.Format)
			}
		}
		if g.engine.Held() < m.Size() {
			t.Errorf("%d of %d bytes are counted", g.engine.Held(), m.Size())
		}
		r.Release()
		if g.engine.Held() != 0 {
			t.Error("something is held")
		}
	}
}

// Metadata is the client's words and numbers, and nothing of the upstream.
func TestMetadataIsEmbedded(t *testing.T) {
	t.Parallel()
	url := server(t, func(w http.ResponseWriter, _ *http.Request) { jsonAnswer(w, dataAnswer(pngOf(300, 256))) })
	g := newRig(t)
	for _, format := range []picture.Format{picture.PNG, picture.JPEG, picture.WebP} {
		j := simple()
		j.Format, j.EmbedMetadata, j.ModelID = format, true, "painter-1"
		j.Seed, j.Steps, j.CFGScale, j.Style = image.Some[int64](-42), image.Some(8), image.Some(7.5), "Line Art"
		r, f := g.do(j, target(t, openai.Dialect{}, url))
		if f != nil {
			t.Fatal(f)
		}
		file := bytesOf(&r.Images[0])
		if want := "a cat\nSteps: 8, CFG scale: 7.5, Seed: -42, Size: 300x256, Style: Line Art, Model: " +
			"painter-1"; !bytes.Contains(file, []byte(want)) {
			t.Errorf("%v: the words are not there", format)
		}
		if bytes.Contains(file, []byte("sim-image")) {
			t.Errorf("%v: the upstream's name of the model is there", format)
		}
		if _, err := picture.Read(nil, file); err != nil {
			t.Errorf("%v: %v", format, err)
		}
		r.Release()
	}
}

// blamed gives a target one failure in a row, so that told can list a job's reports about it.
func blamed(t testing.TB, url string) *image.Target {
	tg := target(t, openai.Dialect{}, url)
	tg.Breaker.Failed(time.Now().UnixNano(), 0)
	return tg
}

// told is the job's report about each target.
func told(targets ...*image.Target) (list string) {
	now := time.Now().UnixNano()
	for _, tg := range targets {
		failures, _ := tg.Breaker.Counts()
		tg.Breaker.Failed(now, 0)
		tg.Breaker.Failed(now, 0)
		switch opened := tg.Breaker.State(now) == health.Open; {
		case failures > 1:
			list += strings.Repeat(" failed", int(failures)-1)
		case opened: // with the one before it
			list += " released"
		default:
			list += " succeeded"
		}
	}
	return list
}

// Every chosen target gets one report, and is blamed only for its own faults.
func TestTargetsAreReportedOn(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	url := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if s := int(status.Load()); s != 200 {
			w.WriteHeader(s)
			return
		}
		jsonAnswer(w, dataAnswer(pngOf(256, 256)))
	})
	g := newRig(t)
	for code, want := range map[int]string{
		200: " succeeded released", 400: " released released", 422: " released released",
		429: " failed failed", 500: " failed failed", 401: " failed failed",
	} {
		status.Store(int32(code))
		one, other := blamed(t, url), blamed(t, url)
		if r, _ := g.do(simple(), one, other); r != nil {
			r.Release()
		}
		if got := told(one, other); got != want {
			t.Errorf("%d:%s", code, got)
		}
	}
	// A target that cannot do the job is passed over without blame.
	one := blamed(t, url)
	g.do(&image.Job{Kind: image.Upscale, Count: 1}, one)
	if got := told(one); got != " released" {
		t.Error(got)
	}
	// No listener: the target is to blame.
	one = blamed(t, "http://127.0.0.1:1")
	if _, f := g.do(simple(), one); f == nil || f.Cause != proxy.ConnectFailed {
		t.Errorf("%v", f)
	}
	if got := told(one); got != " failed" {
		t.Error(got)
	}
}

// panics is a dialect with a mistake.
type panics struct{ openai.Dialect }

func (panics) Reach(*image.Job, *image.Target) image.Reach { return image.Reach{PerCall: 1} }

func (panics) Begin(*image.Job, *image.Target, int) image.Run { panic("test") }

// endless never comes to an end.
type endless struct{ openai.Dialect }

func (endless) Begin(*image.Job, *image.Target, int) image.Run { return endless{} }

func (endless) Next(s *image.Step, _ *image.Reply) (*image.Outcome, *dialect.Failure) {
	s.Request = proxy.Request{Path: []byte("/x"), Method: "GET"}
	s.Repeats = true
	return nil, nil
}

func (endless) Cancel(*image.Step) bool { return false }

// Mistakes of a dialect cost their request, not the process, and nothing else.
func TestMistakesOfADialectAreContained(t *testing.T) {
	t.Parallel()
	url := server(t, func(w http.ResponseWriter, _ *http.Request) { jsonAnswer(w, "{}") })
	var seen atomic.Int32
	g := newRig(t, func(o *image.Options) { o.OnPanic = func(any) { seen.Add(1) } })
	j := simple()
	j.Count = 3
	if _, f := g.do(j, target(t, panics{}, url)); f == nil || f.Cause != proxy.Panic || seen.Load() != 3 {
		t.Errorf("%v, %d panics", f, seen.Load())
	}
	g = newRig(t, func(o *image.Options) { o.Limit = 200 * time.Millisecond })
	if _, f := g.do(simple(), target(t, endless{}, url)); f == nil || f.Cause != proxy.TotalTimeout {
		t.Errorf("%v", f)
	}
	if g.engine.Held() != 0 || g.proxy.Active() != 0 {
		t.Error("something is left")
	}
}
