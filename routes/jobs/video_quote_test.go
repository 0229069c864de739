package jobs_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/film"
	"farebox/bench/upstream/sound"
	"farebox/providers/fetch"
	"farebox/routes/jobs"
	"farebox/routes/routestest"
)

const models = `
upstreams: [{ name: a, dialect: native, base_url: "http://ADDR" }]
models:
  - id: film
    type: video
    aliases: [other]
    constraints: { durations: [5s, 10s, auto], auto_seconds: 15, resolutions: [480p, 720p], audio: true, audio_configurable: true }
    inputs:
      image: optional
      end_image: optional
      audio: optional
      video: optional
      reference_images: 2
      reference_videos: 3
      reference_audios: 2
      reference_documents: 1
      elements: 1
      scenes: 1
      keyframes: 1
    consents: [{ provider: acme, version: "7", policy_text: "No \"faces\".", docs_url: "https://example.com/c", face_media_roles: [scene_image_urls] }]
    price: { second: { 480p: 0.02, any: 0.05 }, second_silent: { 720p: 0.04 }, reference_second: 0.01 }
    targets: [{ upstream: a }]
  - id: larger
    type: video
    inputs: { upscale_factors: [1, 2, 4], video_min_seconds: 2, video_max_seconds: 30 }
    price: { upscale: [{ to: 720, second: 0.013 }, { to: 1080, second: 0.025 }, { second: 0.10 }] }
    targets: [{ upstream: a }]
  - id: sent
    type: video
    inputs: { upscale_factors: [2], video_max_seconds: 30, data_only: true }
    price: { upscale: [{ second: 0.01 }] }
    targets: [{ upstream: a }]
  - id: given
    type: video
    constraints: { durations: [5s] }
    price: free
    targets: [{ upstream: a }]
limits: { failed_requests: { count: 10000 } }
`

func start(t *testing.T) *routestest.Rig {
	links := fetch.New(fetch.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Limit: 5 * time.Second})
	return routestest.Start(t, models, "127.0.0.1:1", jobs.New(links))
}

// gallery serves files by their names.
func gallery(t *testing.T, files map[string][]byte) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			t.Error("a client's server was shown credentials")
		}
		if r.URL.Path == "/inside" {
			http.Redirect(w, r, "http://127.0.0.2/", http.StatusFound)
			return
		}
		file, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			w.WriteHeader(404)
			return
		}
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(file))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func dataURL(kind string, file []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(file)
}

// "The quote was not what we paid, or forgot that the film is fast." The inputs of a quote.
func TestQuotesOfVideos(t *testing.T) {
	r := start(t)
	made := func(seconds float64, height, rate int) []byte {
		return film.MP4(film.Film{Length: time.Duration(seconds * float64(time.Second)), Width: 320, Height: height, Rate: rate})
	}
	short := made(2.5, 360, 24)
	at := gallery(t, map[string][]byte{"short": short, "fast": made(3, 360, 60), "tall": made(3, 720, 24),
		"blink": made(0.5, 360, 24), "long": made(31, 16, 24), "text": []byte("not a film"), "wav": sound.Bytes("wav", 3*time.Second)})
	for _, test := range []struct {
		body, want string
		status     int
	}{
		{`"model":"film","duration":"5s"`, `{"quote":0.1}`, 200},
		{`"model":"other","duration":"10s","resolution":"720p"`, `{"quote":0.5}`, 200},
		{`"model":"film","duration":"10s","resolution":"720p","audio":false`, `{"quote":0.4}`, 200},
		{`"model":"film","duration":"10s","audio":false`, `{"quote":0.2}`, 200},
		{`"model":"film","duration":"auto","resolution":"720p"`, `{"quote":0.75}`, 200},
		{`"model":"film","duration":"5s","reference_video_total_duration":7.2`, `{"quote":0.18}`, 200},
		{`"model":"film","duration":"5s","reference_video_total_duration":151`, `reference_video_total_duration`, 400},
		{`"model":"film","duration":"5s","prompt":"a cat"`, `prompt: is not accepted`, 400},
		{`"model":"film"`, `duration: is required`, 400},
		{`"model":"none","duration":"5s"`, `MODEL_NOT_FOUND`, 404},
		{`"duration":"5s"`, `model: is required`, 400},
		{`"model":"given","duration":"5s"`, `{"quote":0}`, 200},
		{`"model":"given","duration":"5s","reference_video_total_duration":1`, `does not support reference videos`, 400},

		{`"model":"larger","duration":"10s"`, `{"quote":1}`, 200}, // nothing says how high it is: the dearest
		{`"model":"larger","duration":"10s","input_height":360`, `{"quote":0.13}`, 200},
		{`"model":"larger","duration":"10s","input_height":361`, `{"quote":0.25}`, 200},
		{`"model":"larger","duration":"10s","input_height":540,"upscale_factor":4`, `{"quote":1}`, 200},
		{`"model":"larger","duration":"auto"`, `video_url: is required`, 400},
		{`"model":"larger","duration":"1s","video_url":"` + at + `/short","input_height":1`, `{"quote":0.039}`, 200},
		{`"model":"larger","video_url":"` + dataURL("video/mp4", short) + `"`, `{"quote":0.039}`, 200},
		{`"model":"larger","video_url":"` + at + `/fast"`, `{"quote":0.078}`, 200},
		{`"model":"larger","video_url":"` + at + `/tall"`, `{"quote":0.3}`, 200},
		{`"model":"larger","video_url":"` + at + `/blink"`, `VIDEO_DURATION_TOO_SHORT`, 422},
		{`"model":"larger","video_url":"` + at + `/long"`, `VIDEO_DURATION_TOO_LONG`, 422},
		{`"model":"larger","video_url":"` + at + `/text"`, `INVALID_VIDEO_FORMAT`, 400},
		{`"model":"larger","video_url":"` + at + `/wav"`, `INVALID_VIDEO_FORMAT`, 400},
		{`"model":"larger","video_url":"` + at + `/missing"`, `did not answer with status 200`, 400},
		{`"model":"larger","video_url":"` + at + `/inside"`, `may not be fetched`, 400},
		{`"model":"larger","video_url":"data:video/mp4;base64,AAAA"`, `INVALID_VIDEO_FORMAT`, 400},
		{`"model":"larger","video_url":"data:video/mp4,AAAA"`, `must be a data URL in base64`, 400},
		{`"model":"larger","video_url":"data:video/mp4;base64,%%"`, `is not base64`, 400},
		{`"model":"sent","video_url":"` + dataURL("video/mp4", short) + `"`, `{"quote":0.03}`, 200},
		{`"model":"sent","video_url":"` + at + `/short"`, `takes videos as data URLs alone`, 400},
		{`"model":"larger","video_url":"ftp://example.com/x"`, `must be a link`, 400},
	} {
		status, answer := r.Post("/video/quote", "{"+test.body+"}", "")
		if status != test.status || status == 200 && answer != test.want || !strings.Contains(answer, test.want) {
			t.Errorf("%.200s\nis answered %d %.300s\nwant %d %s", test.body, status, answer, test.status, test.want)
		}
	}
}

// "A client had the upstream fetch our metadata service." No member of a job takes a link
// that leads inside, by itself or through a name.
func TestNoMemberLeadsInside(t *testing.T) {
	const base = `"model":"film","prompt":"a","duration":"5s","consents":{"acme":{"confirmed_terms_and_privacy":true,` +
		`"confirmed_legal_right":true,"confirmed_screening_acknowledged":true}}`
	for _, link := range []string{"http://127.0.0.2/x", "http://169.254.169.254/latest/meta-data", "http://[::1]/", "http://10.0.0.1/",
		"http://0x7f000002/", "https://user:pass@example.com/", "file:///etc/passwd", "//example.com/x", "x"} {
		r := start(t) // each has an account, whose links are limited by the minute
		q := fmt.Sprintf("%q", link)
		for _, member := range []string{`"image_url":` + q, `"image_url":"https://1.1.1.1/","end_image_url":` + q,
			`"audio_url":` + q, `"video_url":` + q, `"reference_image_urls":["https://1.1.1.1/",` + q + `]`,
			`"reference_video_urls":[` + q + `]`, `"image_url":"https://1.1.1.1/","reference_audio_urls":[` + q + `]`,
			`"reference_document_urls":[` + q + `]`, `"elements":[{"frontal_image_url":` + q + `}]`,
			`"elements":[{"reference_image_urls":[` + q + `]}]`, `"elements":[{"video_url":` + q + `}]`,
			`"scene_image_urls":[` + q + `]`, `"keyframes":[{"image_url":` + q + `,"frame_index":0}]`} {
			status, answer := r.Post("/video/queue", "{"+base+","+member+"}", "")
			if status != 400 || !strings.Contains(answer, "_url") {
				t.Errorf("%s: %d %.300s", member, status, answer)
			}
		}
	}
}

// "The clips were an hour." Media in a request are held to their limits.
func TestMediaOfRequestsAreBounded(t *testing.T) {
	r := start(t)
	clip := func(seconds float64) string {
		return dataURL("video/mp4", film.MP4(film.Film{Length: time.Duration(seconds * float64(time.Second)), Width: 16, Height: 16}))
	}
	tone := func(format string, d time.Duration) string { return dataURL("audio/"+format, sound.Bytes(format, d)) }
	png := dataURL("image/png", []byte("\x89PNG\r\n\x1a\n0000"))
	for _, test := range []struct {
		body, want string
		status     int
	}{
		{`"reference_video_urls":["` + clip(1.5) + `"]`, "VIDEO_DURATION_TOO_SHORT", 422},
		{`"reference_video_urls":["` + clip(15.5) + `"]`, "VIDEO_DURATION_TOO_LONG", 422},
		{`"reference_video_urls":["` + clip(8) + `","` + clip(8) + `"]`, "are 16 s long together", 422},
		{`"elements":[{"video_url":"` + clip(20) + `"}]`, "elements.0.video_url", 422},
		{`"audio_url":"` + tone("wav", 31*time.Second) + `"`, "audio_url: is 31 s long", 400},
		{`"audio_url":"` + tone("flac", 3*time.Second) + `"`, "must be sound in WAV or MP3", 400},
		{`"audio_url":"` + clip(3) + `"`, "must be sound in WAV or MP3", 400},
		{`"image_url":"` + png + `","reference_audio_urls":["` + tone("mp3", time.Second) + `"]`, "reference_audio_urls.0: is 1", 400},
		{`"image_url":"` + clip(3) + `"`, "image_url: is not a PNG, JPEG or WebP", 400},
		{`"image_url":"data:image/png;base64,` + strings.Repeat("A", 34<<20) + `"`, "PAYLOAD_TOO_LARGE", 413},
		{`"scene_image_urls":["` + png + `"]`, `"consent":{"consent_version":"7","policy_text":"No \"faces\"."},"docs_url":"https://example.com/c"}`, 409},
	} {
		status, answer := r.Post("/video/queue", `{"model":"film","prompt":"a","duration":"5s",`+test.body+`}`, "")
		if status != test.status || !strings.Contains(answer, test.want) {
			t.Errorf("%.100s\nis answered %d %.300s\nwant %d %s", test.body, status, answer, test.status, test.want)
		}
	}
}

// "A client had us fetch links all day." Requests with links are limited for each account.
func TestLinksAreFollowedSoOftenOnly(t *testing.T) {
	t.Parallel()
	r := start(t)
	at := gallery(t, map[string][]byte{"film": film.MP4(film.Film{Length: 2 * time.Second, Width: 16, Height: 16, Rate: 4})})
	taken, last := 0, ""
	for range 50 {
		status, answer := r.Post("/video/quote", `{"model":"larger","video_url":"`+at+`/film"}`, "")
		if last = answer; status == 429 {
			break
		}
		taken++
	}
	if taken < 40 || taken > 42 || !strings.Contains(last, "RATE_LIMIT_EXCEEDED") { // the window slides meanwhile
		t.Errorf("%d quotes with a link were given, and then %s", taken, last)
	}
}
