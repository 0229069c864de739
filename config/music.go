package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Music is the Spec of a model that makes tracks, sounds or narration in its own
// time (interface.md, Music; addendum 7.3 and 9.6).
type Music struct {
	// Voices. Default: none, and voice is refused.
	Voices []string `yaml:"voices" most:"10000 voices"`
	// Voice when the client names none. Default: the first of voices.
	DefaultVoice string `yaml:"default_voice"`
	// Clients may name voices that are not listed. Default false.
	CustomVoiceIDs *bool `yaml:"custom_voice_ids"`
	// Formats of results. Clients cannot choose.
	Formats []string `yaml:"supported_formats" zero:"mp3" most:"32 values" oneof:"mp3 wav flac" unique:"value"`
	// The usual format. Default: the first of supported_formats.
	DefaultFormat string `yaml:"default_format"`

	// The model's features.
	Capabilities MusicCapabilities `yaml:"capabilities"`
	// The model's limits. Lists that are empty mean that clients cannot choose.
	Constraints MusicConstraints `yaml:"constraints"`
	// USD of a job, exactly one of the four keys. Required; write price: free if it is free.
	Price *MusicPrice `yaml:"price"`
}

// MusicCapabilities are the features of a model of music. Features that are not written are
// false, and left out of the record, but for the first two.
type MusicCapabilities struct {
	// It takes lyrics_prompt.
	Lyrics bool `yaml:"lyrics"`
	// It needs lyrics, unless it writes them.
	LyricsRequired bool `yaml:"lyrics_required"`
	// It may be asked to write lyrics itself. Default false.
	LyricsOptimizer *bool `yaml:"lyrics_optimizer"`
	// It may be asked for music without a voice. Default false.
	ForceInstrumental *bool `yaml:"force_instrumental"`
	// It may be asked for a loop. Default false.
	Loop *bool `yaml:"loop"`
	// It takes a language. Default false.
	LanguageCode *bool `yaml:"language_code"`
	// It takes a speed. Default false.
	Speed *bool `yaml:"speed"`
}

// MusicConstraints are the limits of a model of music. Lists that are empty mean that the client
// cannot choose.
type MusicConstraints struct {
	// Shortest prompt, 0 to prompt_characters.
	MinPromptCharacters int64 `yaml:"min_prompt_characters" default:"10"`
	// Longest prompt.
	PromptCharacters int64 `yaml:"prompt_characters" default:"1500" range:"1..32768"`
	// Longest lyrics, 1 to 32768; needs lyrics. Default 3000.
	LyricsCharacters int64 `yaml:"lyrics_characters"`

	// Seconds that clients may choose; with min_duration and max_duration they are proposals. Without these three
	// clients cannot say how long a track is.
	Durations []int64 `yaml:"durations"`
	// Fewest seconds. Default: 1 with max_duration.
	MinDuration int64 `yaml:"min_duration"`
	// Most seconds, 1 to 86400. Everything between the two is taken.
	MaxDuration int64 `yaml:"max_duration"`
	// Seconds when the client names none. Default: the first of durations, or min_duration.
	DefaultDuration int64 `yaml:"default_duration"`

	// Speed when the client names none; needs speed. Default 1.
	DefaultSpeed *Decimal `yaml:"default_speed"`
	// Slowest speed, at least 0.25. Default 0.25.
	MinSpeed *Decimal `yaml:"min_speed"`
	// Fastest speed, at most 4. Default 4.
	MaxSpeed *Decimal `yaml:"max_speed"`
}

// MusicPrice is the price of a job in USD as written, held as Each (1e-12 USD): exactly one of
// its keys.
type MusicPrice struct {
	Free bool `yaml:"-"`
	// A job, however long; 0 to 10000.
	Generation *Each `yaml:"generation"`
	// A job by the seconds that were ordered, without gaps from min_duration to max_duration.
	Durations map[string]MusicTier `yaml:"durations"`
	// A second that was ordered; 0 to 100.
	PerSecond *Each `yaml:"per_second"`
	// 1000 characters of the lyrics, of models with lyrics_required, else of the prompt; at most 9 decimals.
	PerThousandCharacters *Each `yaml:"per_thousand_characters"`
}

// MusicTier is the price of a job of MinSeconds to MaxSeconds, both included.
type MusicTier struct {
	// USD of a job. Required.
	Price Each `yaml:"price"`
	// Fewest seconds of the tier. Required.
	MinSeconds int64 `yaml:"min_seconds"`
	// Most seconds of the tier. Required.
	MaxSeconds int64 `yaml:"max_seconds"`
}

func (p *MusicPrice) setFree() { p.Free = true }

const (
	defaultLyricsCharacters = 3000 // of the published sample
	maxSeconds              = 86400
	maxPerSecond            = maxEach / 100 // 100 USD; above is a slipped decimal point
	charactersPriced        = 1000          // that per_thousand_characters is the price of
)

// MusicKind makes tracks.
var MusicKind = &JobKind{
	Name: "music", Path: "/audio", Media: "audio/",
	Outputs: []string{"audio", "audio_file", "audio_url", "audios", "music", "song", "songs", "track", "tracks", "output",
		"outputs", "file", "files", "data", "result", "url"},
	dialects: []string{"native", "fal", "replicate", "elevenlabs"}, things: "music",
	spec: func() JobSpec { return &Music{} },
}

// Record has the model's features, limits and price (addendum 7.3).
func (m *Music) Record() []Member {
	can, c := &m.Capabilities, &m.Constraints
	list := []Member{{"supports_lyrics", can.Lyrics}, {"lyrics_required", can.LyricsRequired},
		{"supports_lyrics_optimizer", can.LyricsOptimizer}}
	if can.Lyrics {
		list = append(list, Member{"lyrics_character_limit", c.LyricsCharacters})
	}
	list = append(list, Member{"supports_force_instrumental", can.ForceInstrumental}, Member{"supports_loop", can.Loop},
		Member{"supports_language_code", can.LanguageCode}, Member{"supports_speed", can.Speed})
	if isOn(can.Speed) {
		list = append(list, Member{"default_speed", *c.DefaultSpeed}, Member{"min_speed", *c.MinSpeed},
			Member{"max_speed", *c.MaxSpeed})
	}
	if len(m.Voices) > 0 {
		list = append(list, Member{"voices", m.Voices}, Member{"default_voice", m.DefaultVoice})
	}
	list = append(list, Member{"supports_custom_voice_id", m.CustomVoiceIDs})
	if len(c.Durations) > 0 {
		list = append(list, Member{"duration_options", c.Durations})
	}
	if c.MaxDuration > 0 {
		list = append(list, Member{"min_duration", c.MinDuration}, Member{"max_duration", c.MaxDuration})
	}
	if c.Timed() {
		list = append(list, Member{"default_duration", c.DefaultDuration})
	}
	return append(list, Member{"min_prompt_length", c.MinPromptCharacters},
		Member{"prompt_character_limit", c.PromptCharacters}, Member{"supported_formats", m.Formats},
		Member{"default_format", m.DefaultFormat}, Member{"pricing", m.Price.record()})
}

// Text is false: the answers are sound.
func (m *Music) Text() bool { return false }

// Free says that `price: free` is written.
func (m *Music) Free() bool { return m.Price != nil && m.Price.Free }

func (m *Music) complete(*Model) {
	c := &m.Constraints
	if m.Capabilities.Lyrics && c.LyricsCharacters == 0 {
		c.LyricsCharacters = defaultLyricsCharacters
	}
	if c.MaxDuration > 0 && c.MinDuration == 0 {
		c.MinDuration = 1
	}
	if c.DefaultDuration == 0 {
		c.DefaultDuration = c.MinDuration
		if len(c.Durations) > 0 {
			c.DefaultDuration = c.Durations[0]
		}
	}
	if m.DefaultVoice == "" && len(m.Voices) > 0 {
		m.DefaultVoice = m.Voices[0]
	}
	if isOn(m.Capabilities.Speed) {
		for value, standard := range map[**Decimal]Decimal{&c.MinSpeed: "0.25", &c.DefaultSpeed: "1",
			&c.MaxSpeed: "4"} {
			if *value == nil {
				*value = &standard
			}
		}
	}
	if m.DefaultFormat == "" {
		m.DefaultFormat = m.Formats[0]
	}
}

// isOn is a switch that may not be written.
func isOn(b *bool) bool { return b != nil && *b }

// Timed says that clients may say how long a track is to be.
func (c *MusicConstraints) Timed() bool { return c.DefaultDuration > 0 }

// TakesSeconds says whether a track may be as long.
func (c *MusicConstraints) TakesSeconds(seconds int64) bool {
	return slices.Contains(c.Durations, seconds) ||
		c.MaxDuration > 0 && seconds >= c.MinDuration && seconds <= c.MaxDuration
}

// BillsLyrics says which characters a model is priced by, where it is priced by characters: those
// of the lyrics where it sings them, else those of the prompt, which it speaks.
func (m *Music) BillsLyrics() bool { return m.Capabilities.Lyrics }

// BilledCharacters are the fewest and the most characters that are billed.
func (m *Music) BilledCharacters() (least, most int64) {
	if m.BillsLyrics() {
		return 1, m.Constraints.LyricsCharacters
	}
	return max(1, m.Constraints.MinPromptCharacters), m.Constraints.PromptCharacters
}

// Tier is the price of a job of so many seconds, with its name.
func (p *MusicPrice) Tier(seconds int64) (name string, tier MusicTier, ok bool) {
	for name, tier := range p.Durations {
		if tier.MinSeconds <= seconds && seconds <= tier.MaxSeconds {
			return name, tier, true
		}
	}
	return "", MusicTier{}, false
}

// Tiers are the names of the durations, the shortest first.
func (p *MusicPrice) Tiers() []string {
	return slices.SortedFunc(maps.Keys(p.Durations), func(a, b string) int {
		return int(p.Durations[a].MinSeconds - p.Durations[b].MinSeconds)
	})
}

// PerCharacter is the price of a character.
func (p *MusicPrice) PerCharacter() Pico { return Pico(*p.PerThousandCharacters / charactersPriced) }

func (m *Music) check(v *validator, path string, _ *Model) {
	m.checkText(v, path)
	m.checkDurations(v, path+".constraints")
	m.checkSound(v, path)
	m.checkPrice(v, path+".price")
}

// checkText checks the settings of prompts and lyrics.
func (m *Music) checkText(v *validator, path string) {
	can, c, at := &m.Capabilities, &m.Constraints, path+".constraints"
	whole(v, at+".min_prompt_characters", c.MinPromptCharacters, 0, max(c.PromptCharacters, 0))
	for key, on := range map[string]bool{"lyrics_required": can.LyricsRequired,
		"lyrics_optimizer": isOn(can.LyricsOptimizer)} {
		if on && !can.Lyrics {
			v.wrong(path+".capabilities."+key, "the model accepts no lyrics; expected lyrics: true too")
		}
	}
	switch {
	case can.Lyrics:
		whole(v, at+".lyrics_characters", c.LyricsCharacters, 1, maxPromptCharacters)
	case v.has(at + ".lyrics_characters"):
		v.wrong(at+".lyrics_characters",
			"the model takes no lyrics; expected capabilities: { lyrics: true }, or no limit of them")
	}
}

// checkDurations checks how long tracks may be.
func (m *Music) checkDurations(v *validator, path string) {
	c := &m.Constraints
	if n := len(c.Durations); n > maxChoices {
		v.wrong(path+".durations", "%d values are listed; expected at most %d", n, maxChoices)
		return
	}
	ranged := v.has(path+".min_duration") || v.has(path+".max_duration")
	switch {
	case ranged && !v.has(path+".max_duration"):
		v.wrong(path+".max_duration", "the longest duration is missing; expected max_duration: from 1 to %d", maxSeconds)
		return
	case ranged:
		whole(v, path+".max_duration", c.MaxDuration, 1, maxSeconds)
		whole(v, path+".min_duration", c.MinDuration, 1, max(c.MaxDuration, 1))
	}
	for i, seconds := range c.Durations {
		at := fmt.Sprintf("%s.durations[%d]", path, i)
		switch {
		case slices.Contains(c.Durations[:i], seconds):
			v.wrong(at, "%d is listed already; expected every value once", seconds)
		case ranged && (seconds < c.MinDuration || seconds > c.MaxDuration):
			v.wrong(at, "%d is not between min_duration (%d) and max_duration (%d)", seconds, c.MinDuration,
				c.MaxDuration)
		default:
			whole(v, at, seconds, 1, maxSeconds)
		}
	}
	at := path + ".default_duration"
	switch {
	case !v.has(at):
	case len(c.Durations) == 0 && !ranged:
		v.wrong(at, "a default needs durations; expected durations:, or min_duration: and max_duration:, "+
			"too")
	case !c.TakesSeconds(c.DefaultDuration):
		v.wrong(at, "%s is not a length that the model makes; expected one of durations, or one between min_duration "+
			"and max_duration", v.shown(at))
	}
}

// checkSound checks voices, speeds and formats.
func (m *Music) checkSound(v *validator, path string) {
	c, at := &m.Constraints, path+".constraints"
	m.checkVoices(v, path)
	v.standard(path, "default_format", m.DefaultFormat, "supported_formats", m.Formats)
	speeds := []struct {
		key   string
		value *Decimal
	}{{"min_speed", c.MinSpeed}, {"default_speed", c.DefaultSpeed}, {"max_speed", c.MaxSpeed}}
	before, last := 0.25, "0.25"
	for _, s := range speeds {
		if s.value == nil || v.bad[at+"."+s.key] {
			continue
		}
		if v.has(at+"."+s.key) && !isOn(m.Capabilities.Speed) {
			v.wrong(at+"."+s.key,
				"the model has one speed; expected capabilities: { speed: true }, or no speeds")
			continue
		}
		speed, err := strconv.ParseFloat(string(*s.value), 64)
		if err != nil || speed < before || speed > 4 {
			v.wrong(at+"."+s.key, "%s is out of range; expected %s to 4, and min_speed <= default_speed <= max_speed",
				v.shown(at+"."+s.key), last)
			continue
		}
		before, last = speed, string(*s.value)
	}
}

// checkVoices checks the voices that the model lists.
func (m *Music) checkVoices(v *validator, path string) {
	if v.ruledOut[path+".voices"] {
		return
	}
	const expected = "expected 1 to %d bytes of text on one line that do not begin with %s"
	seen := map[string]bool{}
	for i, name := range m.Voices {
		at := fmt.Sprintf("%s.voices[%d]", path, i)
		switch {
		case !usableVoice(name):
			v.wrong(at, "%s cannot name a voice; "+expected, v.shown(at), maxVoiceName, VoiceHandle)
		case seen[name]:
			v.wrong(at, "%s is listed already; expected every voice once", quote(name))
		}
		seen[name] = true
	}
	at := path + ".default_voice"
	switch {
	case !v.has(at):
	case !usableVoice(m.DefaultVoice):
		v.wrong(at, "%s cannot name a voice; "+expected, v.shown(at), maxVoiceName, VoiceHandle)
	case !seen[m.DefaultVoice] && !isOn(m.CustomVoiceIDs):
		v.wrong(at, "%s is not in voices; expected one of them, or custom_voice_ids: true", v.shown(at))
	}
}

func (m *Music) checkTarget(v *validator, path string, of *Model, t *Target, u *Upstream) {
	v.jobTarget(path, of, t, u)
}
