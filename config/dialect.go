package config

import (
	"slices"
	"strings"
)

// dialect is one dialect of upstreams: all that a config must know of it. Package providers
// writes its requests under the same name.
type dialect struct {
	// name is the operator's word; one with a slash is spoken to some upstreams of the dialect
	// before it (Upstream.Spoken).
	name string
	key  keyHeader
	// endpoints are paths that a base_url must not end in.
	endpoints []string
	// compatible says that bodies of OpenAI's API are sent as clients write them:
	// quirks may be said of such a server, and members dropped.
	compatible bool
	embeds     bool // makes embeddings, as OpenAI's API asks for them
	writes     bool // serves models of type text
	draws      bool // serves models of pictures
	responses  bool // may take POST /responses
	speaks     bool // serves models of type tts
	clones     bool // takes the voice of a sample
	hears      bool // serves models of type asr
	// options are those of targets of type text, with their values.
	options map[string][]string
	// jobs are the options of targets that take jobs, by jobOptions.
	jobs []string
}

// keyHeader is the header that carries a key, with the prefix of the key.
type keyHeader struct{ header, prefix string }

var bearer = keyHeader{"Authorization", "Bearer "}

// dialects are all that can be spoken; the first is the default.
var dialects = []dialect{
	{
		name: "openai", key: bearer, endpoints: []string{"/chat/completions", "/embeddings", "/responses"},
		compatible: true, embeds: true, writes: true, draws: true, responses: true, speaks: true,
		hears: true,
	},
	{
		name: "anthropic", key: keyHeader{header: "x-api-key"}, endpoints: []string{"/messages"},
		writes: true, options: map[string][]string{"thinking": {"adaptive", "budget", "none"}},
	},
	{
		name: "gemini", key: keyHeader{header: "x-goog-api-key"},
		endpoints: []string{":generateContent", ":streamGenerateContent"},
		writes:    true, options: map[string][]string{"thinking": {"level", "budget", "none"}},
	},
	{name: "azure", key: keyHeader{header: "api-key"}, compatible: true, embeds: true, writes: true},
	{name: "bedrock", key: bearer, compatible: true, writes: true},
	{
		name: "bedrock/anthropic", key: bearer, writes: true,
		options: map[string][]string{"thinking": {"adaptive", "budget", "none"}},
	},
	{name: "vertex", key: bearer, writes: true, options: map[string][]string{"thinking": {"level", "budget", "none"}}},
	{
		name: "vertex/anthropic", key: bearer, writes: true,
		options: map[string][]string{"thinking": {"adaptive", "budget", "none"}},
	},
	{
		name: "native", key: bearer, draws: true, speaks: true, clones: true, hears: true, jobs: []string{"idempotent"},
	},
	{name: "sdapi", key: bearer, draws: true},
	{name: "stability", key: bearer, draws: true},
	{name: "fal", key: keyHeader{"Authorization", "Key "}, draws: true, jobs: appOptions},
	{name: "replicate", key: bearer, endpoints: []string{"/predictions"}, jobs: appOptions},
	{
		name: "elevenlabs", key: keyHeader{header: "xi-api-key"}, endpoints: []string{"/text-to-speech", "/speech-to-text", "/music"},
		speaks: true, clones: true, hears: true, jobs: []string{"output_format", "lyrics"},
	},
	{name: "whisper", key: bearer, endpoints: []string{"/inference"}, hears: true},
}

// dialectsThat are the names of those that can do something.
func dialectsThat(can func(d *dialect) bool) []string {
	var names []string
	for i := range dialects {
		if can(&dialects[i]) && !strings.Contains(dialects[i].name, "/") {
			names = append(names, dialects[i].name)
		}
	}
	return names
}

// speaks is the dialect of an upstream. It is not known where the name is wrong,
// which is reported there and nowhere else.
func (u *Upstream) speaks() (d dialect, known bool) {
	i := slices.IndexFunc(dialects, func(d dialect) bool { return d.name == u.Spoken() })
	if i < 0 {
		return dialect{key: bearer}, false
	}
	return dialects[i], true
}

// furtherEndpoints are those of OpenAI's API that a base_url must not end in either.
var furtherEndpoints = []string{"/completions", "/images/generations", "/images/edits", "/audio/speech",
	"/audio/transcriptions", "/moderations", "/rerank"}

// endpointOf is the end of a path that leads to one endpoint: of the dialect spoken, or of one
// that serves chats. Others are too short: GitHub's models are below /inference, as whisper.cpp's
// endpoint is called. Empty: none does.
func endpointOf(path, spoken string) string {
	path = strings.TrimRight(path, "/")
	for i := range dialects {
		if !dialects[i].writes && dialects[i].name != spoken {
			continue
		}
		for _, end := range dialects[i].endpoints {
			if strings.HasSuffix(path, end) {
				return end
			}
		}
	}
	for _, end := range furtherEndpoints {
		if strings.HasSuffix(path, end) {
			return end
		}
	}
	return ""
}

// KeyHeader is the header that carries the key of an upstream, and what stands
// before the key there.
func (u *Upstream) KeyHeader() (name, prefix string) {
	if h := u.Quirks.APIKeyHeader; h != "" {
		return h, ""
	}
	d, _ := u.speaks()
	return d.key.header, d.key.prefix
}

// writes refuses an upstream that writes nothing.
func (v *validator) writes(path string, t *Target, u *Upstream) {
	if d, known := u.speaks(); known && !d.writes {
		v.wrong(path+".upstream",
			"upstream %s speaks %s, which writes no text; expected an upstream of dialect %s",
			quote(t.Upstream), u.Dialect, choice(dialectsThat(func(d *dialect) bool { return d.writes })))
	}
}

// draws refuses an upstream that makes no pictures.
func (v *validator) draws(path string, t *Target, u *Upstream) {
	if d, known := u.speaks(); known && !d.draws {
		v.wrong(path+".upstream", "upstream %s speaks %s, which makes no pictures; "+
			"expected an upstream of a dialect that does", quote(t.Upstream), u.Dialect)
	}
}

// embeds refuses an upstream that is not asked for embeddings, since its vendor
// has no endpoint for them that is like OpenAI's.
func (v *validator) embeds(path string, t *Target, u *Upstream) {
	if d, known := u.speaks(); known && !d.embeds {
		v.wrong(path+".upstream", "upstream %s speaks %s, which has no embeddings; expected an upstream of dialect %s",
			quote(t.Upstream), u.Dialect, choice(dialectsThat(func(d *dialect) bool { return d.embeds })))
	}
}
