// Package openai speaks to everything that takes OpenAI's POST /audio/speech, which
// servers of one's own do as well, and, as [Native], to other gateways of this kind.
//
// A target's options: `streams: false`, the server answers only when all is made, and is
// asked piece by piece where a client wants to hear the beginning. `sse: true`, it takes
// stream_format: sse. `formats: mp3,wav`, it makes no others. `voice.NAME: id`, its name of
// a voice of ours.
//
// Code that other dialects could use belongs to package audio.
package openai

import (
	"time"

	"farebox/providers/audio"
	chat "farebox/providers/chat/openai"
	"farebox/proxy/jsontext"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// Dialect implements audio.Speaker.
type Dialect struct{}

var path = []byte("/audio/speech")

// Speak makes {model, input, voice, response_format, speed, instructions, stream_format}.
func (Dialect) Speak(r *proxy.Request, b []byte, s *audio.Speech, t *audio.Target) ([]byte, *dialect.Unsupported) {
	if s.Events && t.Options["sse"] != "true" {
		return b, &dialect.Unsupported{Path: "stream_format", Text: "The model cannot answer with events."}
	}
	from := len(b)
	b = opening(b, s, t)
	if s.Prompt != nil {
		b = append(append(b, `,"instructions":`...), s.Prompt...)
	}
	if s.Events {
		b = append(b, `,"stream_format":"sse"`...)
	}
	b = hints(b, s)
	r.Path, r.Body = path, b[from:]
	return b, nil
}

// Error reads OpenAI's form of errors.
func (Dialect) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	return chat.Dialect{}.Error(status, retryAfter, body)
}

// Native implements audio.Speaker in the service's own form (addendum 9.1).
type Native struct{ Dialect }

// Speak makes {model, input, voice, response_format, speed, prompt, streaming, …}.
func (Native) Speak(r *proxy.Request, b []byte, s *audio.Speech, t *audio.Target) ([]byte, *dialect.Unsupported) {
	if s.Events {
		return b, &dialect.Unsupported{Path: "stream_format", Text: "The model cannot answer with events."}
	}
	from := len(b)
	b = opening(b, s, t)
	if s.Prompt != nil {
		b = append(append(b, `,"prompt":`...), s.Prompt...)
	}
	if s.Stream {
		b = append(b, `,"streaming":true`...)
	}
	b = hints(b, s)
	r.Path, r.Body = path, b[from:]
	return b, nil
}

// opening is the common part of both forms.
func opening(b []byte, s *audio.Speech, t *audio.Target) []byte {
	b = jsontext.Object(append(b, '{')).Text("model", t.Model)
	b = append(append(b, `,"input":`...), s.Quoted...)
	b = jsontext.Object(b).Text("voice", t.Voice(s)).Text("response_format", s.Format)
	if s.Speed != nil {
		b = append(append(b, `,"speed":`...), s.Speed...)
	}
	return b
}

// hints are members that OpenAI's own models do not take. They are sent only if the
// operator says that the model takes them.
func hints(b []byte, s *audio.Speech) []byte {
	if s.Language != "" {
		b = jsontext.Object(b).Text("language", s.Language)
	}
	if s.Temperature != nil {
		b = append(append(b, `,"temperature":`...), s.Temperature...)
	}
	if s.TopP != nil {
		b = append(append(b, `,"top_p":`...), s.TopP...)
	}
	return append(b, '}')
}

var (
	_ audio.Speaker = Dialect{}
	_ audio.Speaker = Native{}
)
