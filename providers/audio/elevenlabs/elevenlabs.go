// Package elevenlabs speaks to ElevenLabs: POST /text-to-speech/{voice_id}, and /stream
// behind it where a client wants to hear the beginning before the end is made.
//
// A target's options: `voice.NAME: id`, the voice_id of a voice of ours; without it the
// name itself is the id. `formats: mp3,pcm`, no others are ordered.
//
// Code that other dialects could use belongs to package audio.
package elevenlabs

import (
	"time"

	"github.com/tidwall/gjson"

	"farebox/providers/audio"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// Dialect implements audio.Speaker.
type Dialect struct{}

// outputs are the formats as ElevenLabs names them: form, rate, and bits a second.
var outputs = map[string]string{
	"mp3": "mp3_44100_128", "pcm": "pcm_24000", "opus": "opus_48000_128", "wav": "wav_24000",
}

// Speak makes {text, model_id, language_code, voice_settings}.
func (Dialect) Speak(r *proxy.Request, b []byte, s *audio.Speech, t *audio.Target) ([]byte, *dialect.Unsupported) {
	output := outputs[s.Format]
	voice := t.Voice(s)
	switch {
	case output == "":
		return b, &dialect.Unsupported{Path: "response_format", Text: "The model cannot make this format."}
	case s.Events:
		return b, &dialect.Unsupported{Path: "stream_format", Text: "The model cannot answer with events."}
	case !audio.PathSafe(voice):
		return b, &dialect.Unsupported{Path: "voice", Text: "The model has no such voice."}
	}
	from := len(b)
	b = append(append(b, "/text-to-speech/"...), voice...)
	if s.Stream {
		b = append(b, "/stream"...)
	}
	b = append(append(b, "?output_format="...), output...)
	end := len(b)
	b = append(append(b, `{"text":`...), s.Quoted...)
	b = jsontext.Object(b).Text("model_id", t.Model)
	if s.Language != "" {
		b = jsontext.Object(b).Text("language_code", s.Language)
	}
	if s.Speed != nil {
		b = append(append(append(b, `,"voice_settings":{"speed":`...), s.Speed...), '}')
	}
	b = append(b, '}')
	r.Path, r.Body = b[from:end], b[end:]
	return b, nil
}

// Error reads {"detail":{"status","message"}}, or a list of {"loc","msg"} where a request
// is not of the form.
func (Dialect) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	detail := gjson.GetBytes(body, "detail")
	if detail.IsArray() {
		detail = gjson.Parse(detail.Get("0").Raw)
	}
	for _, name := range [...]string{"message", "msg"} {
		if text := detail.Get(name); text.Type == gjson.String {
			body = append(jsontext.AppendString([]byte(`{"message":`), text.Str), '}')
			break
		}
	}
	return dialect.FailureOf(status, retryAfter, body)
}

var _ audio.Speaker = Dialect{}
