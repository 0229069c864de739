package elevenlabs_test

import (
	"testing"
	"time"

	"farebox/providers/audio"
	"farebox/providers/audio/elevenlabs"
)

// answer is the answer of POST /v1/speech-to-text, with timestamps_granularity=character.
const answer = `{"language_code":"eng","language_probability":0.98,"text":"Hi you. (laughter) Bye","words":[
{"text":"Hi","start":0.1,"end":0.3,"type":"word","speaker_id":"speaker_0","logprob":-0.1,
"characters":[{"text":"H","start":0.1,"end":0.2},{"text":"i","start":0.2,"end":0.3}]},
{"text":" ","start":0.3,"end":0.35,"type":"spacing","speaker_id":"speaker_0","logprob":0,"characters":[{"text":" ","start":0.3,"end":0.35}]},
{"text":"you.","start":0.35,"end":0.6,"type":"word","speaker_id":"speaker_0","logprob":-0.2,"characters":null},
{"text":" ","start":0.6,"end":0.7,"type":"spacing","speaker_id":null,"logprob":0},
{"text":"(laughter)","start":0.7,"end":1.5,"type":"audio_event","speaker_id":null,"logprob":0},
{"text":" ","start":null,"end":null,"type":"spacing"},
{"text":"Bye","start":1.6,"end":1.9,"type":"word"}],"transcription_id":"abc","audio_duration_secs":2.5}`

func TestWhatElevenLabsHears(t *testing.T) {
	t.Parallel()
	got := elevenlabs.Dialect{}.Heard([]byte(answer), &audio.Hearing{Chars: true})
	if got == nil || got.Measured != 2500*time.Millisecond || got.Language != "eng" || got.Text != "Hi you. (laughter) Bye" {
		t.Fatalf("%+v", got)
	}
	same := func(what string, got []audio.Heard, want ...audio.Heard) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("the %s are %+v", what, got)
			return
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("of the %s %d is %+v, want %+v", what, i, got[i], want[i])
			}
		}
	}
	same("words", got.Words, audio.Heard{Text: "Hi", Start: 0.1, End: 0.3}, audio.Heard{Text: "you.", Start: 0.35, End: 0.6},
		audio.Heard{Text: "Bye", Start: 1.6, End: 1.9})
	same("segments", got.Segments, audio.Heard{Text: "Hi you.", Start: 0.1, End: 0.6}, audio.Heard{Text: "Bye", Start: 1.6, End: 1.9})
	same("characters", got.Chars, audio.Heard{Text: "H", Start: 0.1, End: 0.2}, audio.Heard{Text: "i", Start: 0.2, End: 0.3},
		audio.Heard{Text: " ", Start: 0.3, End: 0.35})
	// Older models do not report the length, and characters were not requested.
	got = elevenlabs.Dialect{}.Heard([]byte(`{"language_code":"deu","text":"","words":[]}`), &audio.Hearing{})
	if got == nil || got.Measured != 0 || got.Words != nil || got.Segments != nil {
		t.Errorf("silence: %+v", got)
	}
	for _, body := range []string{"", "[]", `{"message":"queued","request_id":"x"}`, `{"detail":{"status":"x"}}`, `{"text":null,"words":[]}`} {
		if h := (elevenlabs.Dialect{}).Heard([]byte(body), &audio.Hearing{}); h != nil {
			t.Errorf("%s is heard as %+v", body, h)
		}
	}
}

func TestHowElevenLabsRefuses(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"detail":{"status":"invalid_content","message":"The audio is corrupted."}}`:      "The audio is corrupted.",
		`{"detail":[{"type":"missing","loc":["body","model_id"],"msg":"Field required"}]}`: "Field required",
	} {
		if f := (elevenlabs.Dialect{}).Error(400, 0, []byte(body)); f.Status != 400 || f.Message != want {
			t.Errorf("%s is %d %q", body, f.Status, f.Message)
		}
	}
	if f := (elevenlabs.Dialect{}).Error(429, time.Second, []byte(`{"detail":{"status":"too_many_concurrent_requests","message":"m"}}`)); f.Status != 429 {
		t.Errorf("too many are %+v", f)
	}
	if f := (elevenlabs.Dialect{}).Error(401, 0, []byte(`{"detail":{"status":"invalid_api_key","message":"Invalid API key k-123"}}`)); f.Status < 500 {
		t.Errorf("a wrong key becomes %+v", f)
	}
}
