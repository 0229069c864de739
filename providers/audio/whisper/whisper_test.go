package whisper_test

import (
	"bytes"
	"mime"
	"mime/multipart"
	"testing"
	"time"

	"farebox/providers/audio"
	"farebox/providers/audio/whisper"
	"farebox/proxy"
)

// answer is the server's answer for response_format verbose_json.
const answer = `{"task":"transcribe","language":"english","duration":11.0,
"text":" And so, my fellow Americans.\n 漢字\n","segments":[
{"id":0,"text":" And so, my fellow Americans.","start":0.0,"end":7.94,"tokens":[400,370,11,452,7177,6280,13],
"words":[{"word":" And","start":0.32,"end":0.37,"t_dtw":-1,"probability":0.7},
{"word":" so","start":0.37,"end":0.53,"t_dtw":-1,"probability":0.93},{"word":",","start":0.53,"end":0.6,"t_dtw":-1,"probability":0.6},
{"word":" my","start":0.6,"end":0.86,"t_dtw":-1,"probability":0.9},{"word":" fell","start":0.86,"end":1.1,"t_dtw":-1,"probability":0.9},
{"word":"ow","start":1.1,"end":1.5,"t_dtw":-1,"probability":0.9},{"word":" Americans","start":1.5,"end":2.9,"t_dtw":-1,"probability":0.9},
{"word":".","start":2.9,"end":3.1,"t_dtw":-1,"probability":0.8}],
"temperature":0.0,"avg_logprob":-0.27,"no_speech_prob":0.01},
{"id":1,"text":" 漢字","start":7.94,"end":11.0,"tokens":[1,2],
"words":[{"word":"漢","start":8,"end":9,"t_dtw":-1,"probability":0.7},{"word":"字","start":9,"end":10,"t_dtw":-1,"probability":0.7}],
"temperature":0.0,"avg_logprob":-0.3,"no_speech_prob":0.02}]}`

func TestWhatWhisperHears(t *testing.T) {
	t.Parallel()
	got := whisper.Dialect{}.Heard([]byte(answer), &audio.Hearing{})
	if got == nil || got.Measured != 11*time.Second || got.Language != "english" || len(got.Segments) != 2 {
		t.Fatalf("%+v", got)
	}
	want := []audio.Heard{{Text: "And", Start: 0.32, End: 0.37}, {Text: "so,", Start: 0.37, End: 0.6},
		{Text: "my", Start: 0.6, End: 0.86}, {Text: "fellow", Start: 0.86, End: 1.5}, {Text: "Americans.", Start: 1.5, End: 3.1},
		{Text: "漢", Start: 8, End: 9}, {Text: "字", Start: 9, End: 10}}
	if len(got.Words) != len(want) {
		t.Fatalf("the words are %+v", got.Words)
	}
	for i := range want {
		if got.Words[i] != want[i] {
			t.Errorf("the word %d is %+v, want %+v", i, got.Words[i], want[i])
		}
	}
	if d := got.Segments[0].Detail; d == nil || d.Probability != "-0.27" || d.Silence != "0.01" || d.Tokens == "" {
		t.Errorf("the detail is %+v", d)
	}
	for _, body := range []string{"", "null", "[]", `{"text":1}`, `{"error":"failed to process audio"}`, `{"text":"a"`} {
		if h := (whisper.Dialect{}).Heard([]byte(body), &audio.Hearing{}); h != nil {
			t.Errorf("%q is heard as %+v", body, h)
		}
	}
	if h := (whisper.Dialect{}).Heard([]byte(`{"text":"","segments":{},"words":7}`), &audio.Hearing{}); h == nil || len(h.Words) > 0 {
		t.Errorf("silence is heard as %+v", h)
	}
}

func TestWhisperIsAsked(t *testing.T) {
	t.Parallel()
	for language, want := range map[string]string{"": "auto", "de": "de"} {
		var r proxy.Request
		whisper.Dialect{}.Listen(&r, &audio.Hearing{File: []byte("RIFF"), Name: "audio.wav", Type: "audio/wav", Language: language,
			Prompt: "Namen", Temperature: "0.2"}, &audio.Target{Model: "unused"})
		var body bytes.Buffer
		if _, err := r.Source.WriteTo(&body); err != nil || int64(body.Len()) != r.Source.Len() {
			t.Fatalf("%v, %d bytes of %d", err, body.Len(), r.Source.Len())
		}
		_, params, _ := mime.ParseMediaType(r.Type)
		form, err := multipart.NewReader(&body, params["boundary"]).ReadForm(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		v := form.Value
		if string(r.Path) != "/inference" || v["language"][0] != want || v["prompt"][0] != "Namen" || v["temperature"][0] != "0.2" ||
			v["response_format"][0] != "verbose_json" || len(form.File["file"]) != 1 || v["model"] != nil {
			t.Errorf("it is asked %s %+v", r.Path, form)
		}
	}
}
