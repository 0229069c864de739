package providers

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// musicConfig is the music records of the published sample, written as an operator
// would.
const musicConfig = `
upstreams: [{ name: a, dialect: native, base_url: "http://127.0.0.1:1" }]
models:
  - id: example-music-song
    type: music
    name: Example Music (duration tiers)
    description: Songs, optional lyrics.
    privacy: anonymized
    created: 1771718400
    capabilities: { lyrics: true, lyrics_optimizer: true, force_instrumental: true, loop: false, language_code: false, speed: false }
    constraints:
      durations: [60, 120, 180, 240]
      min_duration: 60
      max_duration: 240
      prompt_characters: 500
    supported_formats: [mp3, wav]
    price:
      durations:
        240: { price: 2.76, min_seconds: 181, max_seconds: 240 }
        60: { price: 0.69, min_seconds: 3, max_seconds: 60 }
        120: { price: 1.38, min_seconds: 61, max_seconds: 120 }
        180: { price: 2.08, min_seconds: 121, max_seconds: 180 }
    targets: [{ upstream: a }]
  - id: example-music-voice
    type: music
    name: Example Voice (character priced)
    description: Long-form narration through the audio queue.
    privacy: anonymized
    created: 1772236800
    capabilities: { force_instrumental: false, loop: false, language_code: true, speed: true }
    voices: [Aria, Roger, Sarah]
    custom_voice_ids: true
    constraints: { min_prompt_characters: 1, prompt_characters: 5000 }
    price: { per_thousand_characters: 0.115 }
    targets: [{ upstream: a }]
  - id: example-music-sfx
    type: music
    name: Example Sound Effects (per second)
    description: Seamless loop supported.
    privacy: anonymized
    created: 1772236800
    capabilities: { loop: true }
    constraints: { min_prompt_characters: 1, prompt_characters: 500, max_duration: 22, default_duration: 10 }
    price: { per_second: 0.0023 }
    targets: [{ upstream: a }]
`

// Clients read these records by the letter: those of the sample, in its order.
func TestRecordsOfMusicAreThoseOfTheSample(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/models-sample.json")
	if err != nil {
		t.Fatal(err)
	}
	var sample struct{ Data []json.RawMessage }
	if err := json.Unmarshal(raw, &sample); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	want.WriteString(`{"object":"list","type":"music","data":[`)
	found := 0
	for _, record := range sample.Data {
		var of struct{ Type string }
		if err := json.Unmarshal(record, &of); err != nil {
			t.Fatal(err)
		}
		if of.Type != "music" {
			continue
		}
		if found++; found > 1 {
			want.WriteByte(',')
		}
		if err := json.Compact(&want, record); err != nil {
			t.Fatal(err)
		}
	}
	want.WriteString("]}")
	got, _ := catalogOf(t, musicConfig, nil, today).List("music", today)
	if found != 3 || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("got\n%s\nwant\n%s", got, want.Bytes())
	}
}

// A free model is listed at a price of zero, and unset members are not listed.
func TestARecordOfMusicSaysNoMoreThanIsKnown(t *testing.T) {
	t.Parallel()
	const config = `
upstreams: [{ name: a, dialect: native, base_url: "http://127.0.0.1:1" }]
models: [{ id: gift, type: music, price: free, targets: [{ upstream: a }] }]
`
	const want = `{"object":"list","type":"music","data":[{"id":"gift","object":"model","created":0,"owned_by":"svc",` +
		`"type":"music","model_spec":{"name":"gift","description":"","modelSource":"","privacy":"private",` +
		`"offline":false,"beta":false,"betaModel":false,"supports_lyrics":false,"lyrics_required":false,` +
		`"min_prompt_length":10,"prompt_character_limit":1500,"supported_formats":["mp3"],"default_format":"mp3",` +
		`"pricing":{"generation":{"usd":0,"diem":0}},"traits":[]}}]}`
	if got, _ := catalogOf(t, config, nil, today).List("music", today); string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
