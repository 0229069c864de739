package audio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/bench/upstream/sound"
	"farebox/tests/rig"
)

// hearingConfig sells at 100,000 nano-USD a second.
const hearingConfig = `
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
server: { max_in_flight: 4GB }
limits: { failed_requests: { count: 0 }, aborted_requests: { count: 0 }, unsupported_features: { count: 0 } }
upstreams:
  - { name: openai, base_url: "%[1]s/v1", breaker: { failures: 0 }, router: house }
  - { name: second, base_url: "%[1]s/v1", breaker: { failures: 0 } }
  - { name: labs, dialect: elevenlabs, base_url: "%[1]s/v1", key: k, breaker: { failures: 0 } }
  - { name: native, dialect: native, base_url: "%[1]s/api/v1", breaker: { failures: 0 } }
  - { name: cpp, dialect: whisper, base_url: "%[1]s", breaker: { failures: 0 } }
models:
  - &listener
    id: listener
    type: asr
    tier: unlimited
    traits: [default]
    aliases: [whisper-1]
    max_seconds: 7200
    capabilities: &can { timestamps: [segment, word], prompt: true, temperature: true, languages: [any] }
    price: &price { per_audio_second: 0.0001 }
    targets: [{ upstream: openai, model: whisper-large }]
  - { id: plain, type: asr, tier: unlimited, price: *price, targets: [{ upstream: openai }] }
  - { id: cpp, type: asr, tier: unlimited, capabilities: *can, price: *price, targets: [{ upstream: cpp }] }
  - id: labs
    type: asr
    tier: unlimited
    capabilities: { timestamps: [segment, word, char] }
    price: *price
    targets: [{ upstream: labs, model: scribe_v1 }]
  - id: native
    type: asr
    tier: unlimited
    capabilities: { timestamps: [segment, word, char], prompt: true }
    price: *price
    targets: [{ upstream: native }]
  - id: short
    type: asr
    tier: unlimited
    max_seconds: 5
    price: *price
    targets: [{ upstream: openai }]
  - id: doubled
    type: asr
    tier: unlimited
    capabilities: *can
    price: *price
    targets: [{ upstream: openai, model: "whisper@status=503" }, { upstream: second, priority: 1 }]
`

// second is the price of one.
const second = 100_000

// ear is a gateway that sells transcriptions.
type ear struct {
	*rig.Gateway
	sim *rig.Simulated
	key string
}

func startEar(t testing.TB, balance string) *ear {
	t.Helper()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(hearingConfig, strings.TrimSuffix(sim.URL, "/v1")))
	g.NewAccount("a", balance)
	return &ear{g, sim, g.Key("a")}
}

// upload is a form with a file and fields as names and values.
func upload(file []byte, fields ...string) (body []byte, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, _ := w.CreateFormFile("file", "sound.bin")
	_, _ = part.Write(file)
	for i := 0; i < len(fields); i += 2 { // behind the file, as many clients write them
		_ = w.WriteField(fields[i], fields[i+1])
	}
	_ = w.Close()
	return b.Bytes(), w.FormDataContentType()
}

// send posts a form; headers are names and values.
func (e *ear) send(ctx context.Context, body []byte, contentType string, headers ...string) (int, http.Header, string) {
	e.T.Helper()
	return e.sendAs(ctx, e.key, body, contentType, headers...)
}

func (e *ear) sendAs(ctx context.Context, key string, body []byte, contentType string, headers ...string) (
	int, http.Header, string) {
	e.T.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+"/audio/transcriptions", bytes.NewReader(body))
	if err != nil {
		e.T.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(answer)
}

func (e *ear) hear(file []byte, fields ...string) (int, http.Header, string) {
	e.T.Helper()
	body, contentType := upload(file, fields...)
	return e.send(context.Background(), body, contentType)
}

// costs checks the account's charge since before, and that nothing is held.
func (e *ear) costs(what string, before rig.Money, seconds int64) rig.Money {
	e.T.Helper()
	a := e.Settled()["a"]
	if a.Spent-before != rig.Money(seconds*second) || a.Held != 0 {
		e.T.Errorf("%s: %s were charged, want %d seconds: %+v", what, a.Spent-before, seconds, a)
	}
	return a.Spent
}

// recordings are files of 3.2 seconds of every format.
func recordings(t *testing.T) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	args := []string{"-v", "error", "-f", "lavfi", "-i", "sine=frequency=300:duration=3.2:sample_rate=48000"}
	for _, f := range [][]string{{"a.wav"}, {"a.flac"}, {"-b:a", "64k", "a.mp3"}, {"a.aac"}, {"a.m4a"}, {"a.mp4"},
		{"-c:a", "libopus", "a.ogg"}, {"-c:a", "libvorbis", "a.oga"}, {"-c:a", "libopus", "a.webm"}} {
		args = append(args, "-map", "0")
		args = append(append(args, f[:len(f)-1]...), filepath.Join(dir, f[len(f)-1]))
	}
	if out, err := exec.Command(servers.FFmpeg(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("ffmpeg: %v %s", err, out)
	}
	files := map[string][]byte{}
	list, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, path := range list {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = b
	}
	return files
}

// transcript is an answer of response_format json.
type transcript struct {
	Text       string
	Duration   float64
	Timestamps map[string][]map[string]any
	Usage      struct {
		Type    string
		Seconds int64
	}
}

// Sound of every format is written down, and costs the seconds that it has begun.
func TestSoundIsWrittenDownAndCharged(t *testing.T) {
	t.Parallel()
	e := startEar(t, "10")
	spent := rig.Money(0)
	for name, file := range recordings(t) {
		status, header, answer := e.hear(file)
		var got transcript
		if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 ||
			!strings.HasPrefix(got.Text, "word0 word1") || got.Duration < 3.1 || got.Duration > 3.3 ||
			got.Usage.Type != "duration" || got.Usage.Seconds != 4 || got.Timestamps != nil {
			t.Fatalf("%s: %d %v %s", name, status, err, answer)
		}
		if header.Get("X-Svc-Model-Id") != "listener" || header.Get("X-Svc-Model-Router") != "house" {
			t.Errorf("%s: the headers are %v", name, header)
		}
		spent = e.costs(name, spent, 4)
	}
}

// Each answer has the requested format, in every dialect.
func TestTranscriptsInEachForm(t *testing.T) {
	t.Parallel()
	e := startEar(t, "10")
	file := sound.Bytes("wav", 5*time.Second)
	for _, model := range []string{"listener", "cpp", "labs", "native"} {
		status, _, answer := e.hear(file, "model", model, "timestamps", "true")
		var got transcript
		if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 || got.Duration != 5 ||
			len(got.Timestamps["word"]) != 10 || len(got.Timestamps["segment"]) != 2 ||
			got.Timestamps["word"][1]["word"] != "word1" || got.Timestamps["word"][1]["start"] != 0.5 {
			t.Errorf("%s: %d %v %s", model, status, err, answer)
		}
		if _, chars := got.Timestamps["char"]; chars != (model == "native" || model == "labs") {
			t.Errorf("%s: characters: %s", model, answer)
		}
		status, header, answer := e.hear(file, "model", model, "response_format", "text")
		if status != 200 || header.Get("Content-Type") != "text/plain; charset=utf-8" ||
			!strings.HasPrefix(answer, "word0 word1 ") {
			t.Errorf("%s: text: %d %v %q", model, status, header, answer)
		}
		if model == "native" {
			continue // without timestamps it gives no segments
		}
		status, _, answer = e.hear(file, "model", model, "response_format", "srt")
		if status != 200 || !strings.HasPrefix(answer, "1\n00:00:00,000 --> 00:00:03,900\nword0 word1 ") ||
			!strings.Contains(answer, "\n\n2\n00:00:04,000 --> 00:00:04,900\n") {
			t.Errorf("%s: srt: %d %q", model, status, answer)
		}
		status, header, answer = e.hear(file, "model", model, "response_format", "vtt")
		if status != 200 || !strings.HasPrefix(answer, "WEBVTT\n\n00:00:00.000 --> 00:00:03.900\nword0 ") ||
			header.Get("Content-Type") != "text/vtt; charset=utf-8" {
			t.Errorf("%s: vtt: %d %q", model, status, answer)
		}
	}
	if status, _, answer := e.hear(file, "response_format", "json", "stream", "true"); status != 200 ||
		!strings.HasPrefix(answer, `data: {"type":"transcript.text.delta","delta":"word0 `) ||
		!strings.Contains(answer, `data: {"type":"transcript.text.done","text":"word0 `) {
		t.Errorf("a stream: %d %q", status, answer)
	}
	var list struct{ Data []map[string]any }
	e.Must(200, http.MethodGet, "/models?type=asr", e.key, "", &list)
	price := list.Data[0]["model_spec"].(map[string]any)["pricing"].(map[string]any)["per_audio_second"]
	if fmt.Sprint(price) != "map[diem:0.0001 usd:0.0001]" {
		t.Errorf("the list says %v", list.Data[0])
	}
}

// openai-go reads every form that it knows.
func TestOpenAIGoTranscribes(t *testing.T) {
	t.Parallel()
	e := startEar(t, "10")
	c := openai.NewClient(option.WithBaseURL(e.URL), option.WithAPIKey(e.key), option.WithMaxRetries(0))
	file := func() io.Reader {
		return openai.File(bytes.NewReader(sound.Bytes("mp3", 5*time.Second)), "speech.mp3", "audio/mpeg")
	}
	ctx := context.Background()
	got, err := c.Audio.Transcriptions.New(ctx, openai.AudioTranscriptionNewParams{Model: "whisper-1", File: file(),
		Language: openai.String("en"), Prompt: openai.String("Numbers."), Temperature: openai.Float(0.2)})
	if err != nil || !strings.HasPrefix(got.Text, "word0 ") || got.Usage.Seconds < 5 || got.Usage.Type != "duration" {
		t.Errorf("json: %v %+v", err, got)
	}
	verbose, err := c.Audio.Transcriptions.New(ctx, openai.AudioTranscriptionNewParams{Model: "whisper-1", File: file(),
		ResponseFormat: openai.AudioResponseFormatVerboseJSON, TimestampGranularities: []string{"word", "segment"}})
	if err != nil {
		t.Fatal(err)
	}
	v := verbose.AsTranscriptionVerbose()
	if v.Duration < 5 || v.Language != "english" || len(v.Words) < 10 || len(v.Segments) != 2 ||
		v.Segments[1].AvgLogprob != -0.25 || len(v.Segments[1].Tokens) != 2 || v.Usage.Seconds < 5 {
		t.Errorf("verbose_json: %+v", v)
	}
	stream := c.Audio.Transcriptions.NewStreaming(ctx, openai.AudioTranscriptionNewParams{Model: "whisper-1",
		File: file()})
	text, done := "", ""
	for stream.Next() {
		switch event := stream.Current(); event.Type {
		case "transcript.text.delta":
			text += event.Delta
		case "transcript.text.done":
			done = event.Text
		}
	}
	if stream.Err() != nil || text == "" || text != done {
		t.Errorf("a stream: %v %q %q", stream.Err(), text, done)
	}
	_, err = c.Audio.Transcriptions.New(ctx, openai.AudioTranscriptionNewParams{Model: "whisper-1",
		File: openai.File(strings.NewReader("no sound"), "speech.mp3", "audio/mpeg")})
	var no *openai.Error
	if !errors.As(err, &no) || no.Code != "INVALID_AUDIO_FORMAT" {
		t.Errorf("no sound: %v", err)
	}
}

// Wrong requests are rejected with the member's name, and cost nothing.
func TestTranscriptionsThatAreRefused(t *testing.T) {
	t.Parallel()
	e := startEar(t, "10")
	good := sound.Bytes("wav", 6*time.Second)
	for _, c := range []struct {
		name   string
		file   []byte
		fields []string
		status int
		says   string
	}{
		{"no sound", []byte("<html>"), nil, 400, "INVALID_AUDIO_FORMAT"},
		{"an empty file", nil, nil, 400, "file"},
		{"a head without sound", good[:40], nil, 422, "ASR_UPSTREAM_VALIDATION_FAILED"},
		{"too long", good, []string{"model", "short"}, 422, "6 seconds"},
		{"a file that is too large", make([]byte, 25<<20+1), nil, 413, "PAYLOAD_TOO_LARGE"},
		{"a form", good, []string{"response_format", "docx"}, 400, "response_format"},
		{"a language", good, []string{"language", "english"}, 400, "language"},
		{"a temperature", good, []string{"temperature", "2"}, 400, "temperature"},
		{"an unknown field", good, []string{"speed", "2"}, 400, "speed"},
		{"a field twice", good, []string{"model", "listener", "model", "plain"}, 400, "more than once"},
		{"include", good, []string{"include[]", "logprobs"}, 400, "include[]"},
		{"chunking", good, []string{"chunking_strategy", `{"type":"server_vad"}`}, 400, "chunking_strategy"},
		{"subtitles of a model without", good, []string{"model", "plain", "response_format", "srt"}, 400, "segments"},
		{"times of a model without", good, []string{"model", "plain", "timestamps", "true"}, 400, "timestamps"},
		{"a prompt to a model without", good, []string{"model", "labs", "prompt", "x"}, 400, "prompt"},
		{"an unknown model", good, []string{"model", "nobody"}, 404, "MODEL_NOT_FOUND"},
		{"a refusal by the upstream", good, []string{"prompt", "[[sim status=400]]"}, 422, "ASR_UPSTREAM_VALIDATION_FAILED"},
		{"an upstream that fails", good, []string{"prompt", "[[sim status=500]]"}, 502, "ASR_UPSTREAM_FAILED"},
		{"an invalid answer", good, []string{"prompt", "[[sim wrong=half]]"}, 502, "ASR_UPSTREAM_FAILED"},
		{"a page with status 200", good, []string{"prompt", "[[sim wrong=html]]"}, 502, "ASR_UPSTREAM_FAILED"},
		{"a list", good, []string{"prompt", "[[sim wrong=array]]"}, 502, "ASR_UPSTREAM_FAILED"},
		{"nothing", good, []string{"prompt", "[[sim wrong=bare]]"}, 502, "ASR_UPSTREAM_FAILED"},
		{"an answer that breaks off", good, []string{"prompt", "[[sim cut=rst cut_after=40]]"}, 502, "ASR_UPSTREAM_FAILED"},
	} {
		status, _, answer := e.hear(c.file, c.fields...)
		if status != c.status || !strings.Contains(answer, c.says) {
			t.Errorf("%s: %d %.300s", c.name, status, answer)
		}
	}
	if status, _, answer := e.Post("/audio/transcriptions", e.key, `{"model":"listener"}`); status != 415 {
		t.Errorf("JSON: %d %s", status, answer)
	}
	e.costs("refusals", 0, 0)
}
