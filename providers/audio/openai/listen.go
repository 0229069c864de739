package openai

import (
	"farebox/providers/audio"
	"farebox/providers/filebody"
	"farebox/proxy"
)

var pathListen = []byte("/audio/transcriptions")

// Listen makes the form of POST /audio/transcriptions. A target's response_format is json
// or verbose_json; without it the requested detail decides: verbose_json has the times of
// segments and words.
func (Dialect) Listen(r *proxy.Request, h *audio.Hearing, t *audio.Target) {
	f := listenForm(h, t)
	format := t.Options["response_format"]
	if format == "" {
		format = "json"
		if h.Segments || h.Words {
			format = "verbose_json"
		}
	}
	f.Field("response_format", format)
	if format == "verbose_json" {
		if h.Segments {
			f.Field("timestamp_granularities[]", "segment")
		}
		if h.Words {
			f.Field("timestamp_granularities[]", "word")
		}
	}
	sendForm(r, f, h)
}

func listenForm(h *audio.Hearing, t *audio.Target) *filebody.Form {
	f := filebody.NewForm()
	f.Field("model", t.Model)
	f.FieldUnless("language", h.Language)
	f.FieldUnless("prompt", h.Prompt)
	f.FieldUnless("temperature", h.Temperature)
	return f
}

func sendForm(r *proxy.Request, f *filebody.Form, h *audio.Hearing) {
	f.File("file", h.Name, h.Type, nil, h.File)
	r.Path, r.Type, r.Source = pathListen, f.Type(), f.End()
}

// Heard reads json and verbose_json.
func (Dialect) Heard(body []byte, _ *audio.Hearing) *audio.Transcript { return audio.ReadVerbose(body) }

// Listen makes the service's own form (addendum 9.3).
func (Native) Listen(r *proxy.Request, h *audio.Hearing, t *audio.Target) {
	f := listenForm(h, t)
	f.Field("response_format", "json")
	if h.Segments || h.Words || h.Chars {
		f.Field("timestamps", "true")
	}
	sendForm(r, f, h)
}

// Heard reads {text, duration, timestamps{word, segment, char}}.
func (Native) Heard(body []byte, _ *audio.Hearing) *audio.Transcript { return audio.ReadNative(body) }

var (
	_ audio.Listener = Dialect{}
	_ audio.Listener = Native{}
)
