package openai_test

import (
	"testing"
	"time"

	"farebox/providers/audio"
	"farebox/providers/audio/openai"
)

// Answers of OpenAI and of servers that follow it in each format.
func TestWhatOpenAIHears(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, body      string
		measured        time.Duration
		language        string
		segments, words int
	}{
		{"whisper-1 as json", `{"text":"Hello there.","usage":{"type":"duration","seconds":9}}`, 9 * time.Second, "", 0, 0},
		{"gpt-4o-transcribe", `{"text":"Hello there.","usage":{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":0,
			"audio_tokens":14},"output_tokens":45,"total_tokens":59}}`, 0, "", 0, 0},
		{"whisper-1 as verbose_json", `{"task":"transcribe","language":"english","duration":8.470000267028809,"text":"Hello there.",
			"segments":[{"id":0,"seek":0,"start":0.0,"end":3.319999933242798,"text":" Hello there.","tokens":[50364,440,50564],
			"temperature":0.0,"avg_logprob":-0.2860786020755768,"compression_ratio":1.2363636493682861,
			"no_speech_prob":0.00985979475080967}],"words":[{"word":"Hello","start":0.0,"end":0.5},{"word":"there","start":0.5,"end":1}],
			"usage":{"type":"duration","seconds":9}}`, 8470000267 * time.Nanosecond, "english", 1, 2},
		{"faster-whisper", `{"task":"transcribe","language":"en","duration":3.5,"text":"Hello there.","words":null,"segments":[{"id":1,
			"seek":0,"start":0.0,"end":3.5,"text":" Hello there.","tokens":[1],"temperature":0.0,"avg_logprob":-0.3,"compression_ratio":0.9,
			"no_speech_prob":0.1,"words":[{"start":0.0,"end":0.4,"word":" Hello","probability":0.9},{"start":0.4,"end":0.9,"word":" there.",
			"probability":0.8}]}]}`, 3500 * time.Millisecond, "en", 1, 2},
		{"a server that writes numbers as text", `{"text":"Hello there.","duration":"3.5","language":null}`, 3500 * time.Millisecond, "", 0, 0},
		{"times that are none", `{"text":"Hello there.","duration":-1,"segments":[{"text":"a","start":"x","end":1e300}],"words":"no"}`, 0, "", 1, 0},
	} {
		got := openai.Dialect{}.Heard([]byte(c.body), &audio.Hearing{})
		if got == nil || got.Text != "Hello there." || (got.Measured-c.measured).Abs() > time.Microsecond || got.Language != c.language ||
			len(got.Segments) != c.segments || len(got.Words) != c.words {
			t.Errorf("%s: %+v", c.what, got)
			continue
		}
		if c.words > 0 && got.Words[0].Text != "Hello" {
			t.Errorf("%s: the first word is %q", c.what, got.Words[0].Text)
		}
	}
	native := openai.Native{}.Heard([]byte(`{"text":"Hi","duration":1.5,"timestamps":{"word":[{"word":"Hi","start":0,"end":1}],
		"segment":[{"text":"Hi","start":0,"end":1}],"char":[{"char":"H","start":0,"end":0.5},{"char":"i","start":0.5,"end":1}]}}`),
		&audio.Hearing{})
	if native == nil || native.Measured != 1500*time.Millisecond || len(native.Words) != 1 || len(native.Segments) != 1 ||
		len(native.Chars) != 2 {
		t.Errorf("the service's own: %+v", native)
	}
	for _, body := range []string{"", "null", `"text"`, `{"text":`, `{"error":{"message":"x"}}`, `{"text":["a"]}`} {
		if h := (openai.Dialect{}).Heard([]byte(body), &audio.Hearing{}); h != nil {
			t.Errorf("%s is heard as %+v", body, h)
		}
		if h := (openai.Native{}).Heard([]byte(body), &audio.Hearing{}); h != nil {
			t.Errorf("%s is heard as %+v by the service's own", body, h)
		}
	}
}
