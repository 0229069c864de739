package config

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

// jobOptions are options of targets for job models about their upstream's dialect, each with the
// rule for its text. Those that name a field of an order give the app's name for it, and behind a
// colon its format; an empty text leaves the field out.
var jobOptions = map[string]jobOption{
	"idempotent": {regexp.MustCompile(`^(?:true|false)$`),
		"expected true, where the upstream takes an order once for one Idempotency-Key, or false"},
	"output_format": {regexp.MustCompile(`^[a-z0-9]+(?:_[a-z0-9]+){0,3}$`), "expected a name such as mp3_44100_128"},
	"output": {regexp.MustCompile(`^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){0,7}$`),
		"expected a path such as audio.url"},
	"extra": {nil, "expected a JSON object of at most 4096 bytes"},
}

// jobOption is the rule for an option's text; without form it is a JSON object.
type jobOption struct {
	form     *regexp.Regexp
	expected string
}

// OrderFields are the fields of orders, as the options of apps name them. A test of
// providers/queue compares them with its orders.
var OrderFields = []string{
	"prompt", "negative_prompt", "lyrics", "lyrics_optimizer", "seconds", "instrumental", "loop", "voice", "language",
	"speed", "format", "duration", "aspect_ratio", "resolution", "upscale_factor", "audio", "bitrate_mode", "image",
	"end_image", "footage", "sound", "images", "videos", "sounds", "documents", "elements", "scenes", "keyframes",
	"reference", "consents",
}

// appOptions are those of dialects whose apps have inputs of their own.
var appOptions = slices.Concat(OrderFields, []string{"extra", "output"})

// fieldOption is the rule for the name of an app's field.
var fieldOption = jobOption{
	regexp.MustCompile(`^(?:[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){0,3}(?::(?:number|text|unit|ms|list))?)?$`),
	"expected a member's name such as duration, with dots for nested objects and an optional format after a " +
		"colon (number, text, unit, ms, list), or an empty text, which omits the field",
}

func init() {
	for _, name := range OrderFields {
		jobOptions[name] = fieldOption
	}
}

// maxJobOption bounds the text of an option, in bytes.
const maxJobOption = 4096

// jobTarget refuses an upstream that does not serve the jobs of a model, and options that
// it does not know.
func (v *validator) jobTarget(path string, m *Model, t *Target, u *Upstream) {
	d, known := u.speaks()
	if k := JobKindOf(m.Type); known && !slices.Contains(k.dialects, d.name) {
		v.wrong(path+".upstream", "upstream %s speaks %s, which makes no %s; expected an upstream of dialect %s",
			quote(t.Upstream), u.Dialect, k.things, choice(k.dialects))
		return
	}
	v.jobOptions(path+".options", t, u)
}

// jobOptions checks the options of a target that takes jobs.
func (v *validator) jobOptions(path string, t *Target, u *Upstream) {
	d, known := u.speaks()
	if !known {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(t.Options)) {
		at, text := join(path, key), t.Options[key]
		if !slices.Contains(d.jobs, key) {
			v.wrongKey(at, "%s is not an option of dialect %s for jobs; expected %s", quote(key), d.name,
				choice(slices.Sorted(slices.Values(d.jobs))))
			continue
		}
		option := jobOptions[key]
		if d.name == "elevenlabs" && key == "lyrics" {
			v.oneOf(at, text, "prompt")
			continue
		}
		switch {
		case len(text) > maxJobOption, option.form != nil && !option.form.MatchString(text):
			v.wrong(at, "%s does not fit; %s", v.shown(at), option.expected)
		case option.form == nil && !isObject(text):
			v.wrong(at, "it is not a JSON object; %s", option.expected)
		}
	}
}

// isObject says that a text is a JSON object.
func isObject(text string) bool {
	var o map[string]any
	return json.Unmarshal([]byte(text), &o) == nil && o != nil
}
