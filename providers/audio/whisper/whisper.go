// Package whisper speaks to the server of whisper.cpp: POST /inference with a form, and
// the model is the one that the server was started with.
//
// What may not enter: what other dialects could use, which is audio's.
package whisper

import (
	"time"

	"farebox/providers/audio"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// Dialect implements audio.Listener.
type Dialect struct{}

var path = []byte("/inference")

// Listen makes the form: file, response_format, temperature, language, prompt. Without
// a language the server takes the one that it was started with, which is English
// unless somebody said otherwise.
func (Dialect) Listen(r *proxy.Request, h *audio.Hearing, _ *audio.Target) {
	f := audio.NewForm()
	f.Field("response_format", "verbose_json")
	language := h.Language
	if language == "" {
		language = "auto"
	}
	f.Field("language", language)
	f.FieldUnless("prompt", h.Prompt)
	f.FieldUnless("temperature", h.Temperature)
	f.File("file", h.Name, h.Type, h.File)
	r.Path, r.Type, r.Source = path, f.Type(), f
}

// Heard reads verbose_json, whose words stand in its segments.
func (Dialect) Heard(body []byte, _ *audio.Hearing) *audio.Transcript { return audio.ReadVerbose(body) }

// Error reads {"error": "…"}.
func (Dialect) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	return dialect.FailureOf(status, retryAfter, body)
}

var _ audio.Listener = Dialect{}
