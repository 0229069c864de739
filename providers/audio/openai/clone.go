package openai

import (
	"github.com/tidwall/gjson"

	"farebox/providers/audio"
	"farebox/providers/filebody"
	"farebox/proxy"
)

var pathVoices = []byte("/audio/voices")

// Clone makes the form of POST /audio/voices: model, file (addendum 9.2).
func (Native) Clone(r *proxy.Request, s *audio.Sample, t *audio.Target) {
	f := filebody.NewForm()
	f.Field("model", t.Model)
	f.File("file", s.Name, s.Type, nil, s.File)
	r.Path, r.Type, r.Source = pathVoices, f.Type(), f.End()
}

// Cloned reads {id, model}.
func (Native) Cloned(body []byte) string { return gjson.GetBytes(body, "id").Str }

// Forget is false: voices expire there by themselves.
func (Native) Forget(*proxy.Request, string) bool { return false }

var _ audio.Cloner = Native{}
