package image_test

import (
	"bytes"
	stdimage "image"
	"net/netip"
	"strings"
	"testing"
	"time"

	_ "golang.org/x/image/webp"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
	"farebox/providers/fetch"
	"farebox/providers/image"
	"farebox/providers/image/fal"
	"farebox/providers/image/native"
	"farebox/providers/image/openai"
	"farebox/providers/image/picture"
	"farebox/providers/image/sdapi"
	"farebox/providers/image/stability"
	"farebox/proxy"
)

// simulated starts the simulated upstream and gives its root.
func simulated(t testing.TB, o ...upstream.Options) (*strict.Server, string) {
	t.Helper()
	var options upstream.Options
	for _, x := range o {
		options = x
	}
	s := strict.New(options)
	base, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, strings.TrimSuffix(base, "/v1")
}

// spoken is a dialect with its upstream's names.
type spoken struct {
	dialect image.Dialect
	base    string // behind the simulated upstream's root
	model   string
	kinds   []image.Kind
	options map[string]string
}

var dialects = map[string]spoken{
	"openai": {openai.Dialect{}, "/v1", "sim-image", []image.Kind{image.Generate, image.Edit}, nil},
	"native": {native.Dialect{}, "/api/v1", "sim-image", []image.Kind{image.Generate, image.Edit, image.Upscale,
		image.RemoveBackground}, nil},
	"sdapi": {sdapi.Dialect{}, "", "sim.safetensors", []image.Kind{image.Generate, image.Edit, image.Upscale}, nil},
	"stability": {stability.Dialect{}, "/v2beta", "ultra", []image.Kind{image.Generate, image.Edit, image.Upscale,
		image.RemoveBackground}, nil},
	"fal": {fal.Dialect{}, "/fal", "fal-ai/sim/dev", []image.Kind{image.Generate, image.Edit, image.Upscale,
		image.RemoveBackground}, map[string]string{"poll": "5ms"}},
}

// guarded lets jobs fetch from the loopback address, as an operator may.
func guarded(o *image.Options) {
	o.Fetch = fetch.New(fetch.Options{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Limit: 10 * time.Second,
		Accept: func(p []byte) bool { return picture.Sniff(p) != picture.Unknown },
	})
}

// at is the dialect's target at a simulated upstream; sim is the scenario of
// every request to it.
func (d spoken) at(t testing.TB, root, sim string, change ...func(o *proxy.EndpointOptions)) *image.Target {
	t.Helper()
	change = append(change, func(o *proxy.EndpointOptions) {
		if sim != "" {
			o.Headers = append(o.Headers, [2]string{"X-Sim", sim})
		}
	})
	tg := target(t, d.dialect, root+d.base, change...)
	tg.Model, tg.Options = d.model, map[string]string{}
	for k, v := range d.options {
		tg.Options[k] = v
	}
	return tg
}

func jobOf(t testing.TB, kind image.Kind) *image.Job {
	j := &image.Job{Kind: kind, Prompt: `a "cat" \ with ünïcode` + "\r\n--x", Count: 1, SafeMode: true,
		Seed: image.Some[int64](7)}
	switch kind {
	case image.Generate:
		j.Width, j.Height = 512, 320
	case image.Edit:
		j.Inputs = []image.Input{input(t, pngOf(400, 256))}
	case image.Upscale:
		j.Prompt = ""
		j.Scale = image.Some(4.0)
		j.Inputs = []image.Input{input(t, jpegOf(256, 256))}
	case image.RemoveBackground:
		j.Prompt = ""
		in, err := image.ReadRaw(jpegOf(256, 300))
		if err != nil {
			t.Fatal(err)
		}
		j.Inputs = []image.Input{in}
	}
	return j
}

// Each dialect does each of its kinds, and each answer is a whole image.
func TestDialectsMakeImages(t *testing.T) {
	t.Parallel()
	for name, d := range dialects {
		for _, kind := range d.kinds {
			t.Run(name+" "+kind.String(), func(t *testing.T) {
				t.Parallel()
				_, root := simulated(t)
				g := newRig(t, guarded)
				j := jobOf(t, kind)
				d := d // of this subtest alone
				if name == "stability" && kind == image.Upscale {
					d.model = "fast"
				}
				r, f := g.do(j, d.at(t, root, ""))
				if f != nil {
					t.Fatalf("%v, %v", f, f.Err)
				}
				defer r.Release()
				m := &r.Images[0]
				cfg, format, err := stdimage.DecodeConfig(bytes.NewReader(bytesOf(m)))
				if err != nil || cfg.Width != m.Width || cfg.Height != m.Height || format != m.Format.String() {
					t.Fatalf("%v %s %+v, %v %dx%d", err, format, cfg, m.Format, m.Width, m.Height)
				}
				if kind == image.Upscale && m.Width != 1024 {
					t.Errorf("%d wide", m.Width)
				}
				if kind == image.Upscale {
					j.Scale, j.Format = image.Some(2.0), picture.PNG
					r, f := g.do(j, d.at(t, root, ""))
					if f != nil || r.Images[0].Width != 512 || r.Images[0].Height != 512 ||
						r.Images[0].Format != picture.PNG {
						t.Errorf("twice as large: %v", f)
					}
				}
				if kind == image.RemoveBackground && (m.Width != 256 || m.Height != 300) {
					t.Errorf("%dx%d", m.Width, m.Height)
				}
				if kind == image.Generate && name != "stability" && (m.Width != 512 || m.Height != 320) {
					t.Errorf("%dx%d", m.Width, m.Height)
				}
				if len(r.Images) != 1 || r.Calls != 1 || r.Attempts != 1 || r.Delivered() != 1 || r.Missing != nil {
					t.Errorf("%d images, %d calls, %d attempts, %v", len(r.Images), r.Calls, r.Attempts, r.Missing)
				}
			})
		}
	}
}

// Several images come from one call where the upstream makes several, side by
// side where it makes one; all of them differ, and all are there.
func TestDialectsMakeSeveralImages(t *testing.T) {
	t.Parallel()
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, root := simulated(t)
			g := newRig(t, guarded)
			j := jobOf(t, image.Generate)
			j.Count = 4
			j.Seed = image.Maybe[int64]{}
			r, f := g.do(j, d.at(t, root, ""))
			if f != nil {
				t.Fatal(f)
			}
			want := 1
			if name == "stability" {
				want = 4
			}
			if len(r.Images) != 4 || r.Calls != want {
				t.Errorf("%d images of %d calls", len(r.Images), r.Calls)
			}
			for i := range r.Images {
				if name != "stability" && i > 0 && bytes.Equal(bytesOf(&r.Images[i]), bytesOf(&r.Images[0])) {
					t.Error("two images are the same")
				}
			}
			r.Release()
			if g.engine.Held() != 0 || !s.WaitIdle(10*time.Second) {
				t.Error("something is left")
			}
		})
	}
}

// Whatever goes wrong at the upstream has its status, in our words, and leaves
// nothing behind.
func TestUpstreamFaultsHaveTheirStatus(t *testing.T) {
	t.Parallel()
	for name, d := range dialects {
		for sim, want := range map[string]int{
			"status=429 retry_after=3": 429, "status=500": 500, "status=502 html=1": 500, "status=503": 503,
			"status=401": 503,
			"html=1":     502, "empty=1": 502, "image=cut": 502, "image=text": 502, "image=gif": 502, "cut=fin": 0,
			"cut=rst": 0, "truncate=1 chunk=1000": 0,
			"garbage=1": 0, "endless=1": 502, "hang=1": 0, "slow_body=3000": 0,
		} {
			if name == "fal" && (sim == "truncate=1 chunk=1000" || strings.HasPrefix(sim, "cut") || sim == "empty=1" ||
				sim == "hang=1" || sim == "slow_body=3000") {
				continue // its steps are checked below
			}
			t.Run(name+" "+sim, func(t *testing.T) {
				t.Parallel()
				_, root := simulated(t)
				g := newRig(t, guarded)
				tg := d.at(t, root, sim, func(o *proxy.EndpointOptions) {
					if sim == "hang=1" || sim == "slow_body=3000" {
						o.FirstByte, o.Idle = 400*time.Millisecond, 400*time.Millisecond
					}
				})
				_, f := g.do(jobOf(t, image.Generate), tg)
				if f == nil {
					t.Fatal("there are images")
				}
				status := f.Failure.Status
				if status != want && (status != 502 || want != 0) || (status == 0) != (f.Cause != proxy.None) {
					t.Errorf("status %d, cause %v, %s", f.Failure.Status, f.Cause, f.Failure.Message)
				}
				if strings.HasPrefix(sim, "status=429") && f.RetryAfter != 3*time.Second {
					t.Errorf("retry after %v", f.RetryAfter)
				}
				if strings.Contains(f.Failure.Message, "internal.simulated") ||
					strings.Contains(f.Failure.Message, "simsecret") {
					t.Errorf("an upstream's secret is shown: %s", f.Failure.Message)
				}
				if g.engine.Held() != 0 || g.proxy.Active() != 0 {
					t.Error("something is left")
				}
			})
		}
	}
}

// A refusal for the prompt's content is 422, a withheld image is a blocked image that
// costs nothing.
func TestContentIsRefusedOrBlocked(t *testing.T) {
	t.Parallel()
	_, root := simulated(t)
	for name, sim := range map[string]string{"openai": "image=blocked", "stability": "kind=policy",
		"fal": "kind=policy"} {
		g := newRig(t, guarded)
		if _, f := g.do(jobOf(t, image.Generate), dialects[name].at(t, root, sim)); f == nil ||
			f.Failure.Status != 422 || f.Failure.Code != "CONTENT_POLICY_VIOLATION" || f.Attempts != 1 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for _, name := range []string{"native", "stability", "fal"} {
		g := newRig(t, guarded)
		for _, count := range []int{1, 2} {
			j := jobOf(t, image.Generate)
			j.Count = count
			r, f := g.do(j, dialects[name].at(t, root, "image=blocked"))
			if f != nil || len(r.Images) != count || r.Delivered() != 0 || !r.Images[0].Blocked || !r.Violation {
				t.Errorf("%s: %v", name, f)
				continue
			}
			if _, _, err := stdimage.DecodeConfig(bytes.NewReader(bytesOf(&r.Images[0]))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Text that other writers of JSON escape or prefix is still an image, and fewer
// images than asked for are asked for again.
func TestOddAnswersAreRead(t *testing.T) {
	t.Parallel()
	_, root := simulated(t)
	for _, name := range []string{"openai", "native", "sdapi"} {
		for _, sim := range []string{"image=escaped", "image=prefixed", "chunk=1000", "image=missing"} {
			g := newRig(t, guarded)
			j := jobOf(t, image.Generate)
			j.Count = 2
			r, f := g.do(j, dialects[name].at(t, root, sim))
			if sim == "image=missing" {
				// One of two comes at once, none of one: existing images are delivered.
				want := 1
				if name == "native" {
					want = 2 // its binary answers have always one
				}
				if f != nil || len(r.Images) != want || (r.Missing == nil) != (want == 2) {
					t.Errorf("%s %s: %v", name, sim, f)
				}
				continue
			}
			if f != nil || len(r.Images) != 2 {
				t.Errorf("%s %s: %+v", name, sim, f)
			}
		}
	}
}

// Input images arrive as they were sent, whatever form the dialect gives them.
func TestInputsArriveWhole(t *testing.T) {
	t.Parallel()
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, root := simulated(t)
			g := newRig(t, guarded)
			want := jpegOf(1500, 1000)
			in := input(t, want)
			raw, err := image.ReadRaw(want)
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range []image.Input{in, raw} {
				s.Reset()
				j := jobOf(t, image.Edit)
				j.Inputs = []image.Input{in}
				if _, f := g.do(j, d.at(t, root, "")); f != nil {
					t.Fatal(f)
				}
				s.WaitIdle(10 * time.Second)
				found := false
				for _, r := range s.Last() {
					found = found || bytes.Contains(r.Body, want) || bytes.Contains(r.Body, []byte(text(want)))
				}
				if !found {
					t.Error("the image did not arrive as it was")
				}
			}
		})
	}
}

// Several input images go in their order.
func TestSeveralInputs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"openai", "native", "fal"} {
		s, root := simulated(t)
		g := newRig(t, guarded)
		j := jobOf(t, image.Edit)
		j.Inputs = append(j.Inputs, input(t, jpegOf(300, 300)), input(t, pngOf(310, 310)))
		if _, f := g.do(j, dialects[name].at(t, root, "")); f != nil {
			t.Fatalf("%s: %v", name, f)
		}
		s.WaitIdle(10 * time.Second)
		var body []byte
		for _, r := range s.Last() {
			if len(r.Body) > len(body) {
				body = r.Body
			}
		}
		at := -1
		for i := range j.Inputs {
			file := bytesOf(&image.Image{Text: j.Inputs[i].Text, Raw: j.Inputs[i].Raw})
			k := max(bytes.Index(body, file), bytes.Index(body, []byte(text(file))))
			if k <= at {
				t.Errorf("%s: input %d is at %d", name, i, k)
			}
			at = k
		}
	}
	for _, name := range []string{"sdapi", "stability"} {
		g := newRig(t)
		j := jobOf(t, image.Edit)
		j.Inputs = append(j.Inputs, j.Inputs[0])
		if _, f := g.do(j, dialects[name].at(t, "http://127.0.0.1:1", "")); f == nil || f.Failure.Status != 400 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
