package config

import (
	"fmt"
	"maps"
	"slices"
)

// Transcription is the Spec of a model that writes down what is spoken (type asr;
// addendum 7.4 and 9.3).
type Transcription struct {
	// MaxSeconds is the longest sound that the model takes; default 14400, 1 to 86400.
	// Nobody is charged for more.
	MaxSeconds   int64                     `yaml:"max_seconds"`
	Capabilities TranscriptionCapabilities `yaml:"capabilities"`
	Price        *TranscriptionPrice       `yaml:"price"` // required; `price: free` for free models
	// VideoLinks has the model answer POST /video/transcriptions, which fetches videos
	// that clients name. Default false: without such a model there is no such endpoint.
	VideoLinks bool `yaml:"video_links"`
}

// FilmListener is the id of the model that answers POST /video/transcriptions; empty:
// there is none.
func (c *Config) FilmListener() string {
	for i := range c.Models {
		if t, ok := c.Models[i].Spec.(*Transcription); ok && t.VideoLinks {
			return c.Models[i].ID
		}
	}
	return ""
}

// TranscriptionCapabilities are what a model can beside plain text.
type TranscriptionCapabilities struct {
	// Timestamps are those that it gives: segment, word, char. Without segment there
	// are no subtitles (srt, vtt) and no verbose_json.
	Timestamps  []string `yaml:"timestamps"`
	Prompt      bool     `yaml:"prompt"`      // it is told what went before
	Temperature bool     `yaml:"temperature"` // it takes one
	// Languages are those that may be asked for, such as en; [any]: all that clients
	// name; empty: the model hears by itself, and what clients say is not passed on.
	Languages []string `yaml:"languages"`
}

// TranscriptionPrice is what a second of sound costs in USD.
type TranscriptionPrice struct {
	Free           bool `yaml:"-"`
	PerAudioSecond Each `yaml:"per_audio_second"`
}

const (
	defaultAudioSeconds = 4 * 60 * 60
	mostAudioSeconds    = 24 * 60 * 60
	maxAudioPrice       = Each(1_000_000_000_000) // 1 USD a second: above is a slipped decimal point
)

// Timestamps are the kinds that a model may give.
var Timestamps = []string{"segment", "word", "char"}

func newTranscription() Spec { return &Transcription{MaxSeconds: defaultAudioSeconds} }

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
	if first := v.c.FilmListener(); t.VideoLinks && first != own.ID {
		v.wrong(path+".video_links", "model %s answers /video/transcriptions already; expected one model that does",
			quote(first))
	}
	whole(v, path+".max_seconds", t.MaxSeconds, 1, mostAudioSeconds)
	kinds := path + ".capabilities.timestamps"
	for i, kind := range t.Capabilities.Timestamps {
		at := fmt.Sprintf("%s[%d]", kinds, i)
		if slices.Contains(t.Capabilities.Timestamps[:i], kind) {
			v.wrong(at, "%s is listed already; expected every kind once", quote(kind))
			continue
		}
		v.oneOf(at, kind, Timestamps...)
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
	}
}

// transcriptionOptions are those of targets that listen: what they are asked for,
// where that is not what the model's timestamps need.
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
