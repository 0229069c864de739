//go:build !race

package audio_test

import (
	"strconv"
	"testing"
	"time"

	"farebox/bench/upstream/sound"
	"farebox/routes/audio"
	"farebox/routes/routestest"
)

const allocConfig = `
log: { level: error }
limits: { key: { rpm: 100000000 } }
upstreams: [{ name: u, base_url: "http://ADDR/v1" }]
models:
  - id: narrator
    type: tts
    tier: unlimited
    default_voice: alloy
    custom_voice_ids: true
    supported_formats: [mp3, wav]
    price: { input: 15 }
    targets: [{ upstream: u }]
`

// Relayed sound leaves no garbage: the allocations of a request do not depend on the
// length of its sound.
func TestSpeechAllocatesTheSameForAnyLength(t *testing.T) {
	of := func(length time.Duration, body string) float64 {
		clip := append(sound.Bytes("wav", length), "its end"...)
		answer := append([]byte("HTTP/1.1 200 OK\r\nContent-Type: audio/wav\r\nContent-Length: "+strconv.Itoa(len(clip))+
			"\r\n\r\n"), clip...)
		return testing.AllocsPerRun(300, routestest.Caller(t, allocConfig, answer, "/audio/speech", body, []byte("its end"),
			audio.New(nil)))
	}
	const text = `{"model":"narrator","input":"Ein Text für \"alle\", \u00fc und 😀.","response_format":"wav","voice":"x"}`
	short, long := of(time.Second, text), of(20*time.Second, text)
	if short > 4 || long > 8 { // pools are emptied now and then
		t.Errorf("a second of sound allocates %v times, twenty %v times", short, long)
	}
}
