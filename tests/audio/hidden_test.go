package audio

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/bench/upstream/sound"
	"farebox/tests/rig"
)

var hiddenValues = strings.Fields(`1 2 "9" 600 1e3 8.0 null true false [] {} "a" "alloy" "mp3" "wav" "de" ["x"] {"id":"alloy"} "http://10.0.0.1/"
	"https://x.example/hook" "narrator" "labs" "loooooooooooooooooooooong" -1 "true" {"speed":0.1} "word" "verbose_json"`)

// only rejects members of a body that are not in a list.
func only(body map[string]any, names ...string) error {
	for name := range body {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s is not known", name)
		}
	}
	return nil
}

// "You price four characters, and the upstream speaks four thousand."
func TestEverySpeakerReadsThePricedText(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "100000")
	hider := rig.Hider{Values: hiddenValues, Names: strings.Fields(`input text model model_id voice voice_id voice_settings response_format
		output_format speed streaming stream_format instructions prompt language language_code temperature top_p id seed webhook_url`),
		Known: strings.Fields(`input="\ud83d\ude00\u0061\n" input="äöü\"\\" input="\/" speed=0.7 speed=1.2e0 voice="alloy" voice={"id":"alloy"} voice="al\u006coy"
			response_format="mp3" response_format="wav" streaming=true stream_format="sse" stream_format="audio" instructions="slow"
			prompt="slow" language="de" temperature=0.5 top_p=1.0`)}
	models := map[string]string{"narrator": "gpt-4o-mini-tts", "labs": "eleven_turbo_v2_5", "native": "native", "slow": "slow"}
	model := ""
	h := rig.Hidden{Gateway: s.Gateway, Sim: s.sim, Key: s.Key("a", "--type", "ADMIN")}
	h.Body = func(r *rand.Rand, _ string) (path, body, contentType string) {
		model = []string{"narrator", "labs", "native", "slow"}[r.IntN(4)]
		return "/audio/speech", hider.JSON(r, `{"model":"`+model+`","input":"four"}`), "application/json"
	}
	h.Price = func(path string, body map[string]any) (int64, error) {
		text, said := rig.Said(body, "input"), rig.Said(body, "model")
		err := only(body, "model", "input", "voice", "response_format", "speed", "instructions", "prompt", "streaming", "stream_format",
			"language", "temperature", "top_p")
		if model == "labs" {
			text, said = rig.Said(body, "text"), rig.Said(body, "model_id")
			err = only(body, "text", "model_id", "voice_settings", "language_code")
		}
		if said != models[model] {
			err = fmt.Errorf("%s speaks", said)
		}
		return 100_000 * int64(utf8.RuneCountInString(text)), err
	}
	h.Run(t, servers.Campaign(400))
}

// "You price a second of sound, and the upstream hears an hour." The same for voices that
// are cloned, at a price each.
func TestEveryListenerHearsThePricedSound(t *testing.T) {
	t.Parallel()
	sounds := map[string]int64{}
	for seconds := range int64(7) {
		sounds[string(sound.Bytes("wav", time.Duration(seconds)*time.Second))] = seconds
	}
	wav := func(seconds int) rig.Field {
		return rig.Field{Name: "file", File: "a.wav", Value: string(sound.Bytes("wav", time.Duration(seconds)*time.Second))}
	}
	hider := rig.Hider{Values: append(slices.Clone(hiddenValues), wav(6).Value), Names: strings.Fields(`file file files url file_url
		model model_id name response_format timestamps language language_code prompt temperature timestamp_granularities
		timestamp_granularities[] stream chunking_strategy diarize source_url cloud_storage_url webhook webhook_id num_speakers`),
		Known: strings.Fields(`response_format="json" response_format="text" response_format="verbose_json" timestamps="true" language="en"
			prompt="x" temperature="0.5" temperature="1e-1" stream="true" stream="false" chunking_strategy="auto" timestamp_granularities[]="word"
			timestamp_granularities="segment"`)}
	e := startEar(t, "100000")
	h := rig.Hidden{Gateway: e.Gateway, Sim: e.sim, Key: e.Key("a", "--type", "ADMIN")}
	h.Body = func(r *rand.Rand, _ string) (path, body, contentType string) {
		model := []string{"listener", "plain", "cpp", "labs", "native"}[r.IntN(5)]
		body, contentType = hider.Form(r, []rig.Field{{Name: "model", Value: model}, wav(1 + r.IntN(5))})
		return "/audio/transcriptions", body, contentType
	}
	h.Price = func(path string, body map[string]any) (int64, error) {
		err := only(body, "file", "model", "model_id", "response_format", "language", "language_code", "prompt", "temperature",
			"timestamp_granularities[]", "timestamps", "timestamps_granularity", "tag_audio_events", "diarize", "no_language_probabilities")
		said := rig.Said(body, "model") + rig.Said(body, "model_id")
		if !slices.Contains([]string{"whisper-large", "plain", "scribe_v1", "native", ""}, said) {
			err = fmt.Errorf("%s listens", said)
		}
		file, _ := body["file"].(rig.File)
		for wav, seconds := range sounds { // padding that is not a part may follow it
			if strings.HasPrefix(string(file), wav) {
				return second * seconds, err
			}
		}
		return 0, fmt.Errorf("%d bytes are heard", len(file))
	}
	h.Run(t, servers.Campaign(400))
	v := startVoices(t)
	v.Credit("a", "100000")
	hider.Known = strings.Fields(`model="mimic" model="other" model="mimic"`)
	h = rig.Hidden{Gateway: v.Gateway, Sim: v.sim, Key: v.Key("a", "--type", "ADMIN")}
	h.Body = func(r *rand.Rand, _ string) (path, body, contentType string) {
		body, contentType = hider.Form(r, []rig.Field{{Name: "model", Value: "mimic"}, wav(6)})
		return "/audio/voices", body, contentType
	}
	h.Price = func(path string, body map[string]any) (int64, error) {
		file, native := body["file"].(rig.File)
		if !native {
			file, _ = body["files"].(rig.File)
		}
		if !strings.HasPrefix(string(file), wav(6).Value) {
			return 0, fmt.Errorf("%d bytes are heard", len(file))
		}
		return 500_000_000, only(body, "model", "name", "file", "files")
	}
	h.Run(t, 150) // an account has at most 100 voices
}

const hiddenMusic = `
log: { level: error, format: json }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
jobs: { poll_min: 1s, poll_max: 5s, per_account: 100000 }
media: { dir: %[2]q }
fetch: { allow: [127.0.0.1] }
upstreams:
  - { name: native, dialect: native, base_url: "%[1]s/v1", key: k, breaker: { failures: 0 } }
  - { name: fal, dialect: fal, base_url: "%[1]s/fal", key: k, breaker: { failures: 0 } }
  - { name: replicate, dialect: replicate, base_url: "%[1]s/v1", key: k, breaker: { failures: 0 } }
  - { name: labs, dialect: elevenlabs, base_url: "%[1]s/v1", headers: { xi-api-key: k }, breaker: { failures: 0 } }
models:
`

// "You price four seconds of a song, and the upstream makes ten minutes."
func TestEveryComposerReadsThePricedOrder(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Keep: 1024})
	text := fmt.Sprintf(hiddenMusic, strings.TrimSuffix(sim.URL, "/v1"), t.TempDir())
	for d, target := range map[string]string{"native": "song", "fal": "sim/music", "replicate": "sim/music", "labs": "music_v1"} {
		for kind, price := range map[string]string{
			"song":  "durations: { 4: { price: 0.69, min_seconds: 3, max_seconds: 4 }, 8: { price: 1.38, min_seconds: 5, max_seconds: 8 } }",
			"sound": "per_second: 0.0023", "words": "per_thousand_characters: 0.1"} {
			length := map[string]string{"song": ", durations: [4, 8], min_duration: 3, max_duration: 8", "sound": ", min_duration: 3, max_duration: 22"}[kind]
			text += fmt.Sprintf("  - { id: %s-%s, type: music, tier: unlimited, constraints: { min_prompt_characters: 1%s },\n"+
				"      price: { %s }, targets: [{ upstream: %[1]s, model: %[5]s }] }\n", d, kind, length, price, target)
		}
	}
	g := rig.StartGateway(t, text)
	g.NewAccount("a", "100000")
	hider := rig.Hider{Values: hiddenValues, Names: strings.Fields(`model model_id prompt lyrics_prompt lyrics lyrics_optimizer duration_seconds
		duration music_length_ms force_instrumental loop voice language_code speed input webhook webhook_url webhook_events_filter version
		character_count queue_id composition_plan seed format output_format fal_webhook consents`),
		Known: strings.Fields(`duration_seconds=4 duration_seconds=8 duration_seconds="4" duration_seconds="8" duration_seconds=8.0
			duration_seconds=1e1 duration_seconds=9 duration_seconds="08" loop=false force_instrumental=false lyrics_prompt=""`)}
	model, chars := "", 0
	h := rig.Hidden{Gateway: g, Sim: sim, Key: g.Key("a", "--type", "ADMIN"), Jobs: true}
	h.Body = func(r *rand.Rand, mark string) (path, body, contentType string) {
		model = []string{"native", "fal", "replicate", "labs"}[r.IntN(4)] + "-" + []string{"song", "sound", "words"}[r.IntN(3)]
		prompt := mark + strings.Repeat("ä", r.IntN(9))
		length := map[bool]string{true: `,"duration_seconds":4`}[!strings.HasSuffix(model, "words")]
		chars = utf8.RuneCountInString(prompt)
		return "/audio/queue", hider.JSON(r, `{"model":"`+model+`","prompt":"`+prompt+`"`+length+`}`), "application/json"
	}
	h.Price = func(path string, body map[string]any) (int64, error) {
		if err := only(body, "model", "model_id", "prompt", "duration_seconds", "duration", "music_length_ms", "input"); err != nil {
			return 0, err
		}
		if input, nested := body["input"].(map[string]any); nested {
			if err := only(input, "prompt", "duration"); err != nil {
				return 0, err
			}
			body = input
		}
		seconds, _ := strconv.ParseFloat(rig.Said(body, "duration_seconds")+rig.Said(body, "duration"), 64)
		if ms, there := body["music_length_ms"].(json.Number); there {
			n, _ := ms.Float64()
			seconds = n / 1000
		}
		said := utf8.RuneCountInString(rig.Said(body, "prompt"))
		switch _, kind, _ := strings.Cut(model, "-"); {
		case kind == "words":
			return int64(said) * 100_000, nil
		case said != chars:
			return 0, fmt.Errorf("the prompt has %d characters", said)
		case kind == "sound":
			return int64(seconds * 2_300_000), nil
		}
		return map[bool]int64{true: 690_000_000, false: 1_380_000_000}[seconds <= 4], nil
	}
	h.Run(t, servers.Campaign(120))
}
