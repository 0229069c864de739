package config

import (
	"maps"
	"slices"
)

// Transcription is the Spec of a model that transcribes speech (type asr; addendum 7.4
// and 9.3).
type Transcription struct {
	// Longest sound that is taken and charged.
	MaxSeconds int64 `yaml:"max_seconds" default:"14400" range:"1..86400"`
	// The model's features beside plain text.
	Capabilities TranscriptionCapabilities `yaml:"capabilities"`
	// USD a second. Required; write price: free if it is free.
	Price *TranscriptionPrice `yaml:"price"`
	// It also answers /video/transcriptions, which fetches videos that clients name. One model may have it.
	VideoLinks bool `yaml:"video_links"`
}

// VideoTranscriber is the id of the model that answers POST /video/transcriptions; empty:
// absent.
func (c *Config) VideoTranscriber() string {
	for i := range c.Models {
		if t, ok := c.Models[i].Spec.(*Transcription); ok && t.VideoLinks {
			return c.Models[i].ID
		}
	}
	return ""
}

// TranscriptionCapabilities are the features beside plain text.
type TranscriptionCapabilities struct {
	// Times in answers. Without segment there are no subtitles (srt, vtt) and no verbose_json. Default: none.
	Timestamps []string `yaml:"timestamps" oneof:"segment word char" unique:"kind"`
	// It takes the text before the sound.
	Prompt bool `yaml:"prompt"`
	// It takes temperature.
	Temperature bool `yaml:"temperature"`
	// Languages that clients may name, such as en; [any]: all. Default: the model hears by itself, and the client's
	// language is not passed on.
	Languages []string `yaml:"languages" most:"256 languages"`
}

// TranscriptionPrice is the price of a second of sound in USD.
type TranscriptionPrice struct {
	Free bool `yaml:"-"`
	// A second of sound, at most 1 USD. Required.
	PerAudioSecond Each `yaml:"per_audio_second"`
}

// maxAudioPrice is 1 USD a second: above is a slipped decimal point.
const maxAudioPrice = Each(1_000_000_000_000)

func newTranscription() Spec { return filledSpec(&Transcription{}) }

func (p *TranscriptionPrice) setFree() { p.Free = true }

// Gives says that the model gives a kind of timestamps.
func (c *TranscriptionCapabilities) Gives(kind string) bool {
	return slices.Contains(c.Timestamps, kind)
}

// Text is false: a key for private text is about models that are read.
func (t *Transcription) Text() bool { return false }

// Free says that `price: free` is written.
func (t *Transcription) Free() bool { return t.Price != nil && t.Price.Free }

func (t *Transcription) dearer(than Spec) bool {
	a, b := t.Price, than.(*Transcription).Price
	return a != nil && b != nil && a.PerAudioSecond > b.PerAudioSecond
}

func (t *Transcription) complete(*Model) {}

func (t *Transcription) check(v *validator, path string, own *Model) {
	if first := v.c.VideoTranscriber(); t.VideoLinks && first != own.ID {
		v.wrong(path+".video_links", "model %s answers /video/transcriptions already; expected one model that does",
			quote(first))
	}
	v.languages(path+".capabilities.languages", t.Capabilities.Languages)
	path += ".price"
	switch p := t.Price; {
	case p == nil:
		v.wrong(path, "a model without a price is not offered; expected per_audio_second: in USD, or price: free if "+
			"it is free")
	case p.Free:
	case !v.has(path + ".per_audio_second"):
		v.wrong(path+".per_audio_second", "the price is missing; expected per_audio_second: in USD")
	case v.bad[path+".per_audio_second"]:
	case p.PerAudioSecond == 0:
		v.wrong(path, "the price is 0; expected price: free if the model is free")
	case p.PerAudioSecond < 0 || p.PerAudioSecond > maxAudioPrice:
		v.wrong(path+".per_audio_second", "%s is out of range; expected 0 to 1 USD a second",
			v.shown(path+".per_audio_second"))
	case p.PerAudioSecond > dearSecond:
		v.doubt(path+".per_audio_second", "this is %s USD an hour; expected the price of a second, such as 0.0001", p.PerAudioSecond*3600)
	}
}

// dearSecond is 36 USD an hour: above is the price of a minute or an hour.
const dearSecond = Each(10_000_000_000)

// transcriptionOptions are those of targets that listen: the format to ask for, where that is not
// the one that the model's timestamps need.
var transcriptionOptions = map[string][]string{"response_format": {"json", "verbose_json"}}

func (t *Transcription) checkTarget(v *validator, path string, _ *Model, target *Target, u *Upstream) {
	if d, known := u.speaks(); known && !d.hears {
		v.wrong(path+".upstream", "upstream %s speaks %s, which writes no transcriptions; expected an upstream of "+
			"dialect %s", quote(target.Upstream), u.Dialect, choice(dialectsThat(func(d *dialect) bool { return d.hears })))
	}
	path += ".options"
	for _, key := range slices.Sorted(maps.Keys(target.Options)) {
		at := join(path, key)
		if values, known := transcriptionOptions[key]; known {
			v.oneOf(at, target.Options[key], values...)
			continue
		}
		v.wrongKey(at, "%s is not an option of a target that listens; expected response_format", quote(key))
	}
}
