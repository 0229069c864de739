package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Speech is the Spec of a model that speaks (type tts; addendum 7.3 and 9.1).
type Speech struct {
	// Voices as clients name them. Default: every name is passed on.
	Voices []string `yaml:"voices" most:"10000 voices"`
	// Voice when the client names none. Default: the first of voices.
	DefaultVoice string `yaml:"default_voice"`
	// Clients may name voices of the upstream that are not listed.
	CustomVoiceIDs bool `yaml:"custom_voice_ids"`
	// Formats that clients may ask for.
	Formats []string `yaml:"supported_formats" zero:"mp3" oneof:"@sounds" unique:"format"`
	// Format when the client names none. Default: the first of supported_formats.
	DefaultFormat string `yaml:"default_format"`
	// Characters of one request.
	InputCharacters int64 `yaml:"input_characters" zero:"4096" range:"1..4096"`
	// Hints that are passed on to the upstream. Default: none.
	Capabilities SpeechCapabilities `yaml:"capabilities"`
	// How the model takes the voice of a sample: POST /audio/voices. Default: it does not.
	VoiceCloning *VoiceCloning `yaml:"voice_cloning"`
	// USD per 1,000,000 characters (Unicode code points). Required; write price: free if it is free.
	Price *SpeechPrice `yaml:"price"`
}

// SpeechCapabilities are the hints that a model follows. Other hints are left out of
// the request, as the specification has it.
type SpeechCapabilities struct {
	// How the text is to be spoken (instructions).
	Prompt bool `yaml:"prompt"`
	// It takes temperature.
	Temperature bool `yaml:"temperature"`
	// It takes top_p.
	TopP bool `yaml:"top_p"`
	// Languages that clients may name, such as en or pt-BR; [any]: all. Default: the model hears by itself.
	Languages []string `yaml:"languages" most:"256 languages"`
}

// VoiceCloning says how a model takes the voice of a sample (POST /audio/voices).
type VoiceCloning struct {
	// zero_shot: a voice lives for its time; persistent: each use begins its time anew.
	Mode string `yaml:"mode" default:"persistent" oneof:"zero_shot persistent"`
	// Formats of samples; mp4 is m4a.
	AcceptedFormats []string `yaml:"accepted_formats" zero:"mp3 wav flac mp4" oneof:"mp3 wav flac mp4"`
	// Shortest sample.
	MinSampleSeconds int64 `yaml:"min_sample_seconds" default:"5" range:"0..600"`
	// How long a voice is kept, in whole days.
	Retention time.Duration `yaml:"retention" default:"168h" range:"24h..8760h"`
	// USD a clone, 0 if it is free. Required.
	Price *Each `yaml:"price"`
}

// SpeechPrice is written in USD per 1,000,000 characters (Unicode code points) and
// held as Pico a character.
type SpeechPrice struct {
	Free bool `yaml:"-"`
	// The text that is spoken. Required.
	Input Pico `yaml:"input"`
}

// The limits of speech (addendum 9.1, 9.2).
const (
	maxVoiceName = 512
	// AnyLanguage in languages stands for all of them.
	AnyLanguage = "any"
	// VoiceHandle begins the handles of cloned voices, which no other voice may have.
	VoiceHandle = "vv_"
)

var (
	// SpeechFormats are the formats of sound that can be asked for (addendum 9.1).
	SpeechFormats = []string{"mp3", "opus", "aac", "flac", "wav", "pcm"}
	languageName  = regexp.MustCompile(`^[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8}){0,3}$`)
)

func newSpeech() Spec { return filledSpec(&Speech{}) }

func (p *SpeechPrice) setFree() { p.Free = true }

// Text is false: a key for private text is about models that are read.
func (s *Speech) Text() bool { return false }

// Free says that `price: free` is written.
func (s *Speech) Free() bool { return s.Price != nil && s.Price.Free }

func (s *Speech) dearer(than Spec) bool {
	a, b := s.Price, than.(*Speech).Price
	if a == nil || b == nil || a.Free {
		return false
	}
	return a.Input > b.Input
}

func (s *Speech) complete(*Model) {
	if s.DefaultFormat == "" {
		s.DefaultFormat = s.Formats[0]
	}
	if s.DefaultVoice == "" && len(s.Voices) > 0 {
		s.DefaultVoice = s.Voices[0]
	}
}

func (s *Speech) check(v *validator, path string, m *Model) {
	s.checkVoices(v, path)
	if !slices.Contains(s.Formats, s.DefaultFormat) {
		v.wrong(path+".default_format", "%s is not in supported_formats; expected %s",
			v.shown(path+".default_format"), choice(s.Formats))
	}
	v.languages(path+".capabilities.languages", s.Capabilities.Languages)
	s.checkCloning(v, path+".voice_cloning", m)
	v.speechPrice(path+".price", s.Price)
}

func (s *Speech) checkVoices(v *validator, path string) {
	at := path + ".voices"
	if v.ruledOut[at] {
		return
	}
	seen := map[string]bool{}
	for i, name := range s.Voices {
		item := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case !usableVoice(name):
			v.wrong(item, "%s cannot name a voice; expected 1 to %d bytes of text on one line that do not begin with %s",
				v.shown(item), maxVoiceName, VoiceHandle)
		case seen[name]:
			v.wrong(item, "%s is listed already; expected every voice once", quote(name))
		}
		seen[name] = true
	}
	at = path + ".default_voice"
	switch {
	case s.DefaultVoice == "":
		if !v.unread(path) && !v.bad[path+".voices"] {
			v.wrong(at, "requests without a voice would fail; expected default_voice:, or a list of voices:, "+
				"whose first voice is the default")
		}
	case !usableVoice(s.DefaultVoice):
		v.wrong(at, "%s cannot name a voice; expected 1 to %d bytes of text on one line that do not begin with %s",
			v.shown(at), maxVoiceName, VoiceHandle)
	case len(s.Voices) > 0 && !seen[s.DefaultVoice]:
		v.wrong(at, "%s is not in voices; expected one of them", v.shown(at))
	}
}

func usableVoice(name string) bool {
	return name != "" && len(name) <= maxVoiceName && !strings.HasPrefix(name, VoiceHandle) &&
		!strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f })
}

func (v *validator) languages(path string, list []string) {
	for i, name := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !languageName.MatchString(name) {
			v.wrong(at, "%s is not a language; expected a code such as en or pt-BR, or any", v.shown(at))
		}
	}
}

func (s *Speech) checkCloning(v *validator, path string, m *Model) {
	c := s.VoiceCloning
	if c == nil {
		return
	}
	if !slices.ContainsFunc(m.Targets, func(t Target) bool { return v.clones(t.Upstream) }) {
		v.wrong(path, "no target of the model accepts samples; expected a target whose upstream speaks %s",
			choice(dialectsThat(func(d *dialect) bool { return d.clones })))
	}
	const day = 24 * time.Hour
	if c.Retention%day != 0 && !v.bad[path+".retention"] {
		v.wrong(path+".retention", "%s is not a number of days, which clients see; expected 24h, 48h and so on",
			v.shown(path+".retention"))
	}
	if c.Price == nil {
		v.wrong(path+".price", "a clone has no price; expected price: in USD, 0 if it is free")
	} else {
		v.each(path+".price", *c.Price)
	}
}

// clones says that an upstream may take the voice of a sample.
func (v *validator) clones(upstream string) bool {
	i := slices.IndexFunc(v.c.Upstreams, func(u Upstream) bool { return u.Name == upstream })
	if i < 0 {
		return true // which is reported elsewhere
	}
	d, known := v.c.Upstreams[i].speaks()
	return !known || d.clones
}

func (v *validator) speechPrice(path string, p *SpeechPrice) {
	switch {
	case p == nil:
		v.wrong(path, "a model without a price is not offered; expected input: in USD per 1,000,000 characters, or "+
			"price: free if it is free")
	case p.Free:
	case !v.has(path + ".input"):
		v.wrong(path+".input", "the price is missing; expected input: in USD per 1,000,000 characters")
	case v.bad[path+".input"]:
	case p.Input == 0:
		v.wrong(path, "the price is 0; expected price: free if the model is free")
	case p.Input > maxPrice:
		v.wrong(path+".input", "%s is out of range; expected 0 to %s USD per 1,000,000 characters",
			v.shown(path+".input"), maxPrice.PerMillion())
	case p.Input < leastPrice:
		v.wrong(path+".input", "%s USD per 1,000,000 characters looks like the price of one character; expected %s, or price: free",
			p.Input.PerMillion(), (p.Input * 1_000_000).PerMillion())
	case p.Input > dearPrice:
		v.doubt(path+".input", "%s USD per 1,000,000 characters is more than any voice costs; expected less", p.Input.PerMillion())
	}
}

// speechOptions are those of targets that speak. A voice of ours that the upstream
// calls otherwise is written as voice.NAME.
var speechOptions = map[string][]string{"streams": {"true", "false"}, "sse": {"true", "false"}}

const voiceOption = "voice."

func (s *Speech) checkTarget(v *validator, path string, _ *Model, t *Target, u *Upstream) {
	if d, known := u.speaks(); known && !d.speaks {
		v.wrong(path+".upstream", "upstream %s speaks %s, which has no speech; expected an upstream of dialect %s",
			quote(t.Upstream), u.Dialect, choice(dialectsThat(func(d *dialect) bool { return d.speaks })))
	}
	path += ".options"
	for _, key := range slices.Sorted(maps.Keys(t.Options)) {
		at, text := join(path, key), t.Options[key]
		values, known := speechOptions[key]
		voice, named := strings.CutPrefix(key, voiceOption)
		switch {
		case known:
			v.oneOf(at, text, values...)
		case key == "formats":
			for f := range strings.SplitSeq(text, ",") {
				if !slices.Contains(SpeechFormats, f) {
					v.wrong(at, "%s is not a format; expected some of %s, with commas between them", quote(f),
						choice(SpeechFormats))
				}
			}
		case named && len(s.Voices) > 0 && !slices.Contains(s.Voices, voice):
			v.wrongKey(at, "%s is not in voices; expected the name of a voice of the model behind voice.", quote(voice))
		case named && usableVoice(text):
		case named:
			v.wrong(at, "%s cannot name a voice", v.shown(at))
		default:
			v.wrongKey(at, "%s is not an option of a target that speaks; expected streams, sse, formats or voice.NAME",
				quote(key))
		}
	}
}
