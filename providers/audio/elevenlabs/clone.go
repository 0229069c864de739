package elevenlabs

import (
	"github.com/tidwall/gjson"

	"farebox/providers/audio"
	"farebox/providers/filebody"
	"farebox/proxy"
)

var pathClone = []byte("/voices/add")

// Clone makes the form of POST /voices/add: name, files.
func (Dialect) Clone(r *proxy.Request, s *audio.Sample, _ *audio.Target) {
	f := filebody.NewForm()
	f.Field("name", s.Label)
	f.File("files", s.Name, s.Type, nil, s.File)
	r.Path, r.Type, r.Source = pathClone, f.Type(), f.End()
}

// Cloned reads {voice_id}. A name that cannot be in a path is rejected.
func (Dialect) Cloned(body []byte) string {
	voice := gjson.GetBytes(body, "voice_id").Str
	if !audio.PathSafe(voice) {
		return ""
	}
	return voice
}

// Forget makes DELETE /voices/{voice_id}.
func (Dialect) Forget(r *proxy.Request, voice string) bool {
	r.Method, r.Path = "DELETE", append([]byte("/voices/"), voice...)
	return audio.PathSafe(voice)
}

var _ audio.Cloner = Dialect{}
