package security

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"farebox/bench/upstream"
	"farebox/providers/video"
	"farebox/tests/rig"
)

const mediaConfig = `
log: { level: warn, format: json }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
fetch: { allow: [127.0.0.1] }
upstreams:
  - { name: only, base_url: "%[1]s", breaker: { failures: 0 } }
  - { name: queue, dialect: native, base_url: "%[1]s", key: k, breaker: { failures: 0 } }
models:
  - id: listener
    type: asr
    tier: unlimited
    price: { per_audio_second: 0.0001 }
    targets: [{ upstream: only }]
  - id: larger
    type: video
    tier: unlimited
    constraints: { model_type: video }
    inputs: { upscale_factors: [1, 2, 4], video_max_seconds: 30 }
    price: { upscale: [{ to: 1080, second: 0.01 }, { second: 0.03 }] }
    targets: [{ upstream: queue }]
`

// box is one of MP4's.
func box(kind string, body ...[]byte) []byte {
	all := bytes.Join(body, nil)
	b := binary.BigEndian.AppendUint32(nil, uint32(len(all)+8))
	return append(append(b, kind...), all...)
}

// hostileMedia are files that are to cost time and memory.
func hostileMedia() map[string][]byte {
	ftyp := box("ftyp", []byte("isom\x00\x00\x02\x00isommp41"))
	track := box("trak", box("tkhd", make([]byte, 84)), box("mdia", box("hdlr", make([]byte, 24))))
	nested := box("trak")
	for range 10_000 {
		nested = box("trak", nested)
	}
	var streams []byte
	for i := range uint32(10_000) {
		page := append([]byte("OggS\x00\x02"), make([]byte, 21)...)
		binary.LittleEndian.PutUint32(page[14:], i)
		page[26] = 1
		streams = append(append(streams, page...), 19)
		streams = append(streams, "OpusHead\x01\x01\x00\x00\x80\xbb\x00\x00\x00\x00\x00"...)
	}
	entries := append([]byte{0x1A, 0x45, 0xDF, 0xA3, 0x80, 0x18, 0x53, 0x80, 0x67, 0xFF, 0x16, 0x54, 0xAE, 0x6B, 0xFF},
		bytes.Repeat([]byte{0xAE, 0x83, 0x83, 0x81, 0x01}, 10_000)...)
	chunks := bytes.Repeat([]byte("junk\x00\x00\x00\x00"), 20_000)
	return map[string][]byte{
		"10,000 tracks of MP4":          append(bytes.Clone(ftyp), box("moov", bytes.Repeat(track, 10_000))...),
		"10,000 boxes in one another":   append(bytes.Clone(ftyp), box("moov", nested)...),
		"10,000 streams of Ogg":         streams,
		"10,000 tracks of WebM":         entries,
		"20,000 chunks of WAV":          append([]byte("RIFF\xff\xff\xff\xffWAVE"), chunks...),
		"a film that is cut off":        append(bytes.Clone(ftyp), 0, 0, 0, 99, 'm', 'o', 'o', 'v', 0, 0),
		"a box of nearly everything":    append(bytes.Clone(ftyp), "\x00\x00\x00\x01mdat\x7f\xff\xff\xff\xff\xff\xff\xff"...),
		"a page":                        []byte("<!doctype html><title>no sound</title>"),
		"eight megabytes of nothing":    make([]byte, 8<<20),
		"pages of Ogg that are nothing": bytes.Repeat([]byte("OggS\x00\x00\xff"), 1<<20),
	}
}

// heard posts a file for transcription.
func heard(t *testing.T, g *rig.Gateway, key string, file []byte) (status int) {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, err := form.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write(file)
	_ = form.WriteField("model", "listener")
	_ = form.Close()
	r, err := http.NewRequest(http.MethodPost, g.URL+"/audio/transcriptions", &b)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := rig.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// mostForMedia is how much memory one customer's hostile files may take, one at a time:
// the largest file that is read whole, 1.3 times while its buffer grows, and some room
// for the collector. A reader that copies the file takes 100 MB and more.
const mostForMedia = video.MaxWhole*4/3 + 24<<20

// "I sent a file with ten thousand tracks, one that never ends and one that is none, at
// each door that takes sound or film." Each is refused, without a charge.
func TestHostileMediaAreRefusedAtEveryDoor(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.NewGateway(t, fmt.Sprintf(mediaConfig, sim.URL))
	// By default the heap may double before garbage is collected, so that its size depends on
	// when that happens. With 2 % the peak is the memory that requests hold at the same time.
	g.Wrap = []string{"env", "GOGC=2"}
	g.ListenAndStart()
	var keys []string // of several accounts, since one may ask for films forty times a minute
	for _, name := range []string{"a", "b"} {
		g.NewAccount(name, "10")
		keys = append(keys, g.Key(name))
	}
	key, turn := keys[0], 0
	files := hostileMedia()
	var sent atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name != "endless" {
			_, _ = w.Write(files[name])
			return
		}
		_, _ = w.Write(box("ftyp", []byte("isom\x00\x00\x02\x00isommp41")))
		for piece := make([]byte, 64<<10); r.Context().Err() == nil; {
			n, err := w.Write(piece)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(web.Close)
	before := rig.ResidentKB(t, g.PID(), "VmRSS")
	refused := func(what string, status int, answer []byte) {
		t.Helper()
		if status < 400 || status >= 500 || status == 429 {
			t.Errorf("%s is answered %d %.300s", what, status, answer)
		}
	}
	film := func(what, link string) {
		t.Helper()
		for _, path := range []string{"/video/quote", "/video/queue"} {
			status, _, answer := g.Post(path, key, `{"model":"larger","upscale_factor":2,"video_url":"`+link+`"}`)
			refused(what+" at "+path, status, answer)
		}
	}
	for name, file := range files {
		key, turn = keys[turn%len(keys)], turn+1
		refused(name+" to be written down", heard(t, g, key, file), nil)
		film(name+" behind a link", web.URL+"/"+strings.ReplaceAll(name, " ", "%20"))
		film(name+" in a data URL", "data:video/mp4;base64,"+base64.StdEncoding.EncodeToString(file[:min(len(file), 1<<20)]))
	}
	film("a film without end", web.URL+"/endless")
	if n := sent.Load(); n > 256<<20 {
		t.Errorf("%d MB of a film without end were read", n>>20)
	}
	grown := (rig.ResidentKB(t, g.PID(), "VmHWM") - before) << 10
	t.Logf("memory grew by %d MB at most", grown>>20)
	if grown > mostForMedia && !rig.RaceDetector() {
		t.Errorf("memory grew by %d MB; %d MB are allowed", grown>>20, mostForMedia>>20)
	}
	if n := sim.Idle(t).Requests; n != 0 {
		t.Errorf("the upstream was asked %d times", n)
	}
	for _, a := range g.Settled() {
		if a.Spent != 0 || a.Held != 0 {
			t.Errorf("%+v", a)
		}
	}
}
