package audio

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// speechConfig sells at 100 USD per 1,000,000 characters: 100,000 nano-USD each.
const speechConfig = `
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, aborted_requests: { count: 0 }, unsupported_features: { count: 0 } }
upstreams:
  - { name: openai, base_url: "%[1]s", breaker: { failures: 0 }, router: house }
  - { name: labs, dialect: elevenlabs, base_url: "%[1]s", key: k, breaker: { failures: 0 } }
  - { name: native, dialect: native, base_url: "%[1]s", breaker: { failures: 0 } }
models:
  - id: narrator
    type: tts
    tier: unlimited
    traits: [default]
    aliases: [tts-1]
    voices: [Aurora, alloy]
    supported_formats: [mp3, opus, aac, flac, wav, pcm]
    capabilities: { prompt: true, languages: [de] }
    price: { input: 100 }
    targets: [{ upstream: openai, model: gpt-4o-mini-tts, options: { voice.Aurora: nova, sse: "true" } }]
  - id: labs
    type: tts
    tier: unlimited
    default_voice: EXAVITQu4vr4xnSDxMaL
    custom_voice_ids: true
    supported_formats: [mp3, pcm, opus, wav]
    price: { input: 100 }
    targets: [{ upstream: labs, model: eleven_turbo_v2_5 }]
  - id: native
    type: tts
    tier: unlimited
    default_voice: Aurora
    supported_formats: [mp3, wav]
    capabilities: { prompt: true, temperature: true, top_p: true, languages: [any] }
    price: { input: 100 }
    targets: [{ upstream: native }]
  - id: slow # its server answers when all is made
    type: tts
    tier: unlimited
    default_voice: alloy
    supported_formats: [mp3, opus, aac, flac, wav, pcm]
    price: { input: 100 }
    targets: [{ upstream: openai, options: { streams: "false" } }]
  - id: two
    type: tts
    tier: unlimited
    default_voice: alloy
    supported_formats: [mp3, wav, pcm]
    price: { input: 100 }
    targets: [{ upstream: openai, model: gone@status=503 }, { upstream: openai, model: there, priority: 1 }]
  - id: free
    type: tts
    tier: unlimited
    default_voice: alloy
    price: free
    targets: [{ upstream: openai }]
`

// speechRig is a gateway before the simulated upstream, with a key whose account has money.
type speechRig struct {
	*rig.Gateway
	sim *rig.Simulated
	key string
}

func startSpeech(t *testing.T, usd string) *speechRig {
	t.Helper()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(speechConfig, sim.URL))
	return &speechRig{g, sim, g.Key(g.NewAccount("a", usd))}
}

// speech asks for a text to be spoken; more are further members, after a comma.
func speech(model, text, more string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"model":%q,"input":%s%s}`, model, quoted, more)
}

// probe is ffprobe's report about a sound.
func probe(t *testing.T, format string, sound []byte) (name string, length time.Duration) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sound."+format)
	if err := os.WriteFile(file, sound, 0o600); err != nil {
		t.Fatal(err)
	}
	return probeFile(t, format, file)
}

func probeFile(t *testing.T, format, file string) (name string, length time.Duration) {
	t.Helper()
	of := []string{"-v", "error", "-show_entries", "format=format_name,duration", "-of", "csv=p=0", file}
	if format == "pcm" {
		of = append([]string{"-f", "s16le", "-ar", "24000", "-ch_layout", "mono"}, of...)
	}
	out, err := exec.Command(servers.Tool(t, "ffprobe"), of...).CombinedOutput()
	if err != nil {
		t.Errorf("ffprobe cannot read a %s: %v %s", format, err, out)
		return "", 0
	}
	name, seconds, _ := strings.Cut(strings.TrimSpace(string(out)), ",")
	n, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		t.Errorf("ffprobe says %q of a %s", out, format)
	}
	return name, time.Duration(n * float64(time.Second))
}

// near says that a sound of so many characters is as long as it should be.
func near(length time.Duration, characters int) bool {
	d := length - time.Duration(characters)*upstream.CharacterTime
	return d < 100*time.Millisecond && d > -100*time.Millisecond
}

// "The file that I got was no sound." Each file has the format of its name, the length of
// the text, and the type that the specification names.
func TestSpeechHasTheFormatOfItsName(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "10")
	text := "Grüße an alle 👋🏽: " + strings.Repeat("die Sonne scheint. ", 6)
	n := len([]rune(text))
	types := map[string]string{"mp3": "audio/mpeg", "opus": "audio/opus", "aac": "audio/aac", "flac": "audio/flac",
		"wav": "audio/wav", "pcm": "audio/pcm"}
	names := map[string]string{"opus": "ogg", "pcm": "s16le"}
	asked := 0
	for _, model := range []string{"narrator", "labs", "native", "slow"} {
		for format, media := range types {
			if model == "labs" && (format == "aac" || format == "flac") || model == "native" && names[format]+format != "mp3" &&
				format != "wav" {
				continue
			}
			for _, streaming := range []string{"", `,"streaming":true`} {
				asked++
				status, header, sound := s.Post("/audio/speech", s.key, speech(model, text, `,"response_format":"`+format+`"`+streaming))
				if status != 200 || header.Get("Content-Type") != media {
					t.Errorf("%s %s%s: %d %s %.200s", model, format, streaming, status, header.Get("Content-Type"), sound)
					continue
				}
				if model == "slow" && streaming != "" && format == "wav" {
					sound = whole(sound)
				}
				want := names[format]
				if want == "" {
					want = format
				}
				if name, length := probe(t, format, sound); name != want || !near(length, n) {
					t.Errorf("%s %s%s: ffprobe calls it %s and says that it is %v long; %d characters were to be %v", model, format,
						streaming, name, length, n, time.Duration(n)*upstream.CharacterTime)
				}
			}
		}
	}
	if a := s.Settled()["a"]; a.Spent != rig.Money(asked*n*100_000) || a.Held != 0 {
		t.Errorf("%d requests of %d characters were charged %s", asked, n, a.Spent)
	}
	if got := s.sim.Idle(t).Tokens.Characters; got != int64(asked*n) {
		t.Errorf("the upstreams spoke %d characters, charged were %d", got, asked*n)
	}
}

// whole puts the length into the head of a WAV that was streamed, for ffprobe.
func whole(sound []byte) []byte {
	size := len(sound) - 44
	for i := range 4 {
		sound[40+i] = byte(size >> (8 * i))
		sound[4+i] = byte((size + 36) >> (8 * i))
	}
	return sound
}

// "It was sold by the byte." Characters are code points, however they are written.
func TestSpeechIsPaidByTheCharacter(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "10")
	spent := rig.Money(0)
	for _, c := range []struct {
		input string // JSON
		n     int
	}{
		{`"a"`, 1}, {`"\u00fc\n\"\\"`, 4}, {`"\ud83d\ude00"`, 1}, {`"😀é"`, 2}, {`"e\u0301\u200d"`, 3},
		{`"` + strings.Repeat("ü", 4096) + `"`, 4096}, {`"` + strings.Repeat(`\ud83d\ude00`, 4096) + `"`, 4096},
	} {
		if status, _, answer := s.Post("/audio/speech", s.key, `{"input":`+c.input+`}`); status != 200 {
			t.Errorf("%.40s is answered %d %.300s", c.input, status, answer)
		}
		spent += rig.Money(c.n * 100_000)
	}
	if a := s.Settled()["a"]; a.Spent != spent {
		t.Errorf("charged %s, want %s", a.Spent, spent)
	}
	if n := s.sim.Idle(t).Tokens.Characters; rig.Money(n*100_000) != spent {
		t.Errorf("the upstream spoke %d characters", n)
	}
	if status, _, _ := s.Post("/audio/speech", s.key, speech("free", "nothing at all", "")); status != 200 {
		t.Error("a free model does not speak")
	}
	s.Get("/models?type=tts", s.key)
	if a := s.Settled()["a"]; a.Spent != spent {
		t.Errorf("a free model costs %s", a.Spent-spent)
	}
}

func TestSpeechThatIsRefused(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "10")
	for body, want := range map[string]string{
		`{"input":"a","voice":"nobody"}`:                              "narrator has no voice nobody",
		`{"input":"a","voice":"vv_0123456789abcdef0123456789abcdef"}`: "has no voice vv_0123",
		`{"input":"a","voice":{"id":"nobody"}}`:                       "narrator has no voice nobody",
		`{"input":"a","voice":{}}`:                                    "voice.id: is required",
		`{}`:                                                          "input: is required",
		`{"input":""}`:                                                "input: must not be empty",
		`{"input":"` + strings.Repeat("a", 4097) + `"}`:               "at most 4096 characters, has 4097",
		`{"input":"\ud83d"}`:                                          "half of a surrogate pair",
		`{"input":"a\udc00b"}`:                                        "half of a surrogate pair",
		"{\"input\":\"\xff\"}":                                        "UTF-8",
		`{"input":"a","input":"b"}`:                                   "input",
		`{"input":"a","speed":5}`:                                     "speed: must be between 0.25 and 4",
		`{"input":"a","speed":"fast"}`:                                "speed: expected number",
		`{"input":"a","response_format":"ogg"}`:                       "response_format: ogg is not allowed",
		`{"model":"native","input":"a","response_format":"flac"}`:     "native makes mp3, wav, not flac",
		`{"input":"a","temperature":3}`:                               "temperature: must be between 0 and 2",
		`{"input":"a","top_p":-1}`:                                    "top_p",
		`{"input":"a","prompt":"` + strings.Repeat("x", 501) + `"}`:   "prompt: must be at most 500 characters",
		`{"input":"a","prompt":"x","instructions":"y"}`:               "instructions: is another name of prompt",
		`{"input":"a","language":"x"}`:                                "language: must be 2 to 32 characters",
		`{"input":"a","stream":true}`:                                 "stream: is not accepted",
		`{"model":"sim","input":"a"}`:                                 "Unknown model sim",
		`{"model":"","input":"a"}`:                                    "model: must not be empty",
		`["input"]`:                                                   "object",
	} {
		status, _, answer := s.Post("/audio/speech", s.key, body)
		if want := want; status < 400 || status > 404 || !strings.Contains(string(answer), want) {
			t.Errorf("%.60s is answered %d %.300s; want %s", body, status, answer, want)
		}
	}
	if n := s.sim.Idle(t).Requests; n != 0 {
		t.Errorf("%d refused requests reached the upstream", n)
	}
	if a := s.Settled()["a"]; a.Spent != 0 || a.Held != 0 {
		t.Errorf("refusals cost %s", a.Spent)
	}
	if status, _, _ := s.Post("/audio/speech", s.Key(s.NewAccount("poor", "0.0001")), `{"input":"two"}`); status != 402 {
		t.Errorf("a client that cannot pay for three characters gets %d", status)
	}
	if status, _, _ := s.Post("/audio/speech", "", `{"input":"two"}`); status != 401 {
		t.Errorf("a client without a key gets %d", status)
	}
}

// Unsupported members are not sent to a model; supported ones are sent under the upstream's names.
func TestSpeechIsAskedInTheUpstreamsForm(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "10")
	all := `,"speed":1.5,"language":"de","prompt":"calm \"voice\"","temperature":0.5,"top_p":0.9`
	for _, c := range []struct{ body, path, want string }{
		{speech("tts-1", "Hallo", all+`,"voice":"Aurora","response_format":"wav"`), "/v1/audio/speech",
			`{"model":"gpt-4o-mini-tts","input":"Hallo","voice":"nova","response_format":"wav","speed":1.5,"instructions":"calm \"voice\"","language":"de"}`},
		{speech("narrator", "Hallo", `,"instructions":"calm","language":"fr","voice":{"id":"alloy"}`), "/v1/audio/speech",
			`{"model":"gpt-4o-mini-tts","input":"Hallo","voice":"alloy","response_format":"mp3","instructions":"calm"}`},
		{speech("native", "Hallo", all+`,"streaming":true`), "/v1/audio/speech",
			`{"model":"native","input":"Hallo","voice":"Aurora","response_format":"mp3","speed":1.5,"prompt":"calm \"voice\"","streaming":true,"language":"de","temperature":0.5,"top_p":0.9}`},
		{speech("labs", "Hallo", `,"speed":1.1,"language":"de","prompt":"x","voice":"21m00Tcm4TlvDq8ikWAM"`),
			"/v1/text-to-speech/21m00Tcm4TlvDq8ikWAM?output_format=mp3_44100_128",
			`{"text":"Hallo","model_id":"eleven_turbo_v2_5","voice_settings":{"speed":1.1}}`},
		{speech("labs", "Hallo", `,"streaming":true,"response_format":"pcm"`),
			"/v1/text-to-speech/EXAVITQu4vr4xnSDxMaL/stream?output_format=pcm_24000",
			`{"text":"Hallo","model_id":"eleven_turbo_v2_5"}`},
	} {
		status, _, answer := s.Post("/audio/speech", s.key, c.body)
		if status != 200 {
			t.Errorf("%s: %d %.300s", c.body, status, answer)
			continue
		}
		got := s.sim.Latest(t)
		line, _, _ := strings.Cut(got.Head, " HTTP/1.1")
		if string(got.Body) != c.want || line != "POST "+c.path {
			t.Errorf("%s\nis asked as %s\n%s\nwant %s\n%s", c.body, line, got.Body, c.path, c.want)
		}
		if strings.HasPrefix(c.path, "/v1/text") && !strings.Contains(got.Head, "xi-api-key: k\r\n") {
			t.Error("the key is not where ElevenLabs looks for it")
		}
	}
	if status, _, answer := s.Post("/audio/speech", s.key, speech("labs", "x", `,"voice":"../../v1/user"`)); status != 400 {
		t.Errorf("a voice that leads elsewhere is answered %d %s", status, answer)
	}
}

// "I heard nothing until the end." The first sound is there while the upstream makes the
// rest, also where it can only make a whole: it is asked sentence by sentence.
func TestSpeechIsHeardWhileItIsMade(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "10")
	text := strings.Repeat("Ein Satz, der nicht sehr lang ist, aber lang genug. ", 30)
	res := s.Open("POST", "/audio/speech", s.key, speech("slow", "[[sim think_ms=60]] "+text, `,"streaming":true,"response_format":"pcm"`))
	began := time.Now()
	first := make([]byte, 100)
	if _, err := io.ReadFull(res.Body, first); err != nil || res.ContentLength >= 0 {
		t.Fatalf("%v, length %d", err, res.ContentLength)
	}
	heard := time.Since(began)
	rest, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	took := time.Since(began)
	n := len("[[sim think_ms=60]] ") + len(text)
	if want := n * 24000 * 2 / 20; err != nil || len(first)+len(rest) != want {
		t.Errorf("%d bytes, want %d (%v)", len(first)+len(rest), want, err)
	}
	t.Logf("the first sound is there after %v, the last after %v", heard, took)
	if n := s.sim.Idle(t).Endpoints["speech"]; n.Requests < 4 || int(n.Characters) != len("[[sim think_ms=60]] ")+len(text) {
		t.Errorf("it was asked in %d pieces, of %d characters", n.Requests, n.Characters)
	}
	if a := s.Settled()["a"]; a.Spent != rig.Money(n*100_000) {
		t.Errorf("%d characters are charged %s", n, a.Spent)
	}
}

// "Whoever ends a text with words that the model refuses hears all of it for nothing."
// Delivered whole pieces are paid; the refused sentence is not.
func TestSpeechIsPaidAsFarAsItWasSpoken(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "10")
	heard := strings.Repeat("Ein Satz, der nicht sehr lang ist, aber lang genug. ", 30)
	res := s.Open("POST", "/audio/speech", s.key, speech("slow", heard+"\n[[sim status=400]] Und der letzte."+
		strings.Repeat(" Noch einer, der nicht mehr gesprochen wird.", 10), `,"streaming":true,"response_format":"pcm"`))
	sound, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	spoken := int(s.sim.Idle(t).Endpoints["speech"].Characters)
	if err == nil || len(sound) != spoken*24000*2/20 || spoken < len(heard)/2 {
		t.Errorf("%d bytes of %d characters are heard (%v)", len(sound), spoken, err)
	}
	rig.Await(t, "delivered speech is paid", func() bool { return s.Settled()["a"].Spent == rig.Money(spoken*100_000) })
}

// soundOfEvents joins the sound of OpenAI's events. done says that the last one ends it.
func soundOfEvents(answer []byte) (sound []byte, done bool) {
	text := ""
	for event := range strings.SplitSeq(string(answer), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		var e struct{ Type, Audio string }
		if !ok || json.Unmarshal([]byte(data), &e) != nil {
			continue
		}
		done = e.Type == "speech.audio.done"
		text += e.Audio
	}
	sound, err := base64.StdEncoding.DecodeString(text)
	return sound, done && err == nil
}

// LiveKit asks for events, which most upstreams do not send: they are made of the sound,
// which is that of an answer without them, in pieces or not.
func TestSpeechAsEventsOfAnyUpstream(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "10")
	for _, model := range []string{"labs", "native", "slow"} {
		text := strings.Repeat("Hello there, said the river. ", 20)
		_, _, plain := s.Post("/audio/speech", s.key, speech(model, text, `,"response_format":"mp3"`))
		status, header, answer := s.Post("/audio/speech", s.key, speech(model, text, `,"response_format":"mp3","stream_format":"sse"`))
		sound, done := soundOfEvents(answer)
		if status != 200 || header.Get("Content-Type") != "text/event-stream" || !done || len(plain) == 0 ||
			len(sound) < len(plain)*9/10 {
			t.Errorf("%s: %d %s, ended %t, %d bytes of sound, %d without events", model, status, header.Get("Content-Type"),
				done, len(sound), len(plain))
		}
		status, _, answer = s.Post("/audio/speech", s.key, speech(model, "[[sim status=500]]", `,"stream_format":"sse"`))
		if status < 500 {
			t.Errorf("%s: a failure is answered %d %.200s", model, status, answer)
		}
		ctx, cancel := context.WithTimeout(context.Background(), rig.CallLimit)
		status, answer, err := ask(ctx, s, speech(model, "[[sim cut=fin cut_after=2000]]"+strings.Repeat("x", 400), `,"stream_format":"sse"`), "")
		cancel()
		if _, done := soundOfEvents(answer); status == 200 && (done || err == nil) {
			t.Errorf("%s: a broken answer ends well", model)
		}
	}
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
}

// OpenAI's events pass as they are, and one that says an error is an error.
func TestSpeechAsEvents(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "10")
	status, header, answer := s.Post("/audio/speech", s.key, speech("narrator", "Hello there.", `,"stream_format":"sse","response_format":"wav"`))
	if status != 200 || header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s %.200s", status, header.Get("Content-Type"), answer)
	}
	sound, done := soundOfEvents(answer)
	if name, length := probe(t, "wav", sound); name != "wav" || !near(length, 12) || !done {
		t.Errorf("%s of %v, done %v", name, length, done)
	}
	for _, directive := range []string{"error_event=1", "status=500", "empty=1", "html=1"} {
		status, _, answer = s.Post("/audio/speech", s.key, speech("narrator", "[[sim "+directive+"]]", `,"stream_format":"sse"`))
		if directive == "empty=1" || directive == "html=1" {
			continue // of sounds, not of events
		}
		if status < 500 || strings.Contains(string(answer), "internal.simulated") {
			t.Errorf("%s is answered %d %.300s", directive, status, answer)
		}
	}
	for _, directive := range []string{"no_done=1", "cut=fin cut_after=1", "error_event=1 error_after=2"} {
		ctx, cancel := context.WithTimeout(context.Background(), rig.CallLimit)
		status, _, err := ask(ctx, s, speech("narrator", "[[sim "+directive+"]]"+strings.Repeat("x", 100), `,"stream_format":"sse"`), "")
		cancel()
		if status != 200 || err == nil {
			t.Errorf("%s ends well: %d %v", directive, status, err)
		}
	}
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	if a := s.Settled()["a"]; a.Spent >= rig.Money(60*100_000) {
		t.Errorf("a broken answer was charged: %s", a.Spent)
	}
}

// ask posts a request whose answer may break off: err says so.
func ask(ctx context.Context, s *speechRig, body, idempotency string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/audio/speech", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.key)
	if idempotency != "" {
		req.Header.Set("Idempotency-Key", idempotency)
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}
