package providers

import "farebox/config"

// music is what the catalog does for models of music (addendum 7.3, 7.4).
var music = capability{target: takesJobs(config.MusicKind), record: func(w *writer, m *config.Model, _ *config.ImagePrice) {
	spec := m.Spec.(*config.Music)
	w.singing(spec)
	w.voicing(spec)
	w.lasting(spec)
	w.musicPricing(spec.Price)
}}

// singing writes what a model of music can.
func (w *writer) singing(m *config.Music) {
	can := &m.Capabilities
	w.flag("supports_lyrics", can.Lyrics)
	w.flag("lyrics_required", can.LyricsRequired)
	w.written("supports_lyrics_optimizer", can.LyricsOptimizer)
	if can.Lyrics {
		w.number("lyrics_character_limit", m.Constraints.LyricsCharacters)
	}
	w.written("supports_force_instrumental", can.ForceInstrumental)
	w.written("supports_loop", can.Loop)
	w.written("supports_language_code", can.LanguageCode)
	w.written("supports_speed", can.Speed)
}

// written writes a flag of which the operator said something.
func (w *writer) written(name string, on *bool) {
	if on != nil {
		w.flag(name, *on)
	}
}

// voicing writes speeds and voices.
func (w *writer) voicing(m *config.Music) {
	c := &m.Constraints
	if on := m.Capabilities.Speed; on != nil && *on {
		w.raw("default_speed", string(*c.DefaultSpeed))
		w.raw("min_speed", string(*c.MinSpeed))
		w.raw("max_speed", string(*c.MaxSpeed))
	}
	w.choices("voices", "default_voice", m.Voices, m.DefaultVoice)
	w.written("supports_custom_voice_id", m.CustomVoiceIDs)
}

// lasting writes how long tracks may be, what prompts and what comes out.
func (w *writer) lasting(m *config.Music) {
	c := &m.Constraints
	if len(c.Durations) > 0 {
		w.key("duration_options")
		w.b = append(w.b, '[')
		for _, seconds := range c.Durations {
			w.number("", seconds)
		}
		w.b = append(w.b, ']')
	}
	if c.MaxDuration > 0 {
		w.number("min_duration", c.MinDuration)
		w.number("max_duration", c.MaxDuration)
	}
	if c.Timed() {
		w.number("default_duration", c.DefaultDuration)
	}
	w.number("min_prompt_length", c.MinPromptCharacters)
	w.number("prompt_character_limit", c.PromptCharacters)
	w.choices("supported_formats", "default_format", m.Formats, m.DefaultFormat)
}

func (w *writer) musicPricing(p *config.MusicPrice) {
	w.open("pricing")
	switch {
	case p.Free:
		w.each("generation", 0)
	case p.Generation != nil:
		w.each("generation", *p.Generation)
	case p.PerSecond != nil:
		w.each("per_second", *p.PerSecond)
	case p.PerThousandCharacters != nil:
		w.each("per_thousand_characters", *p.PerThousandCharacters)
	default:
		w.open("durations")
		for _, name := range p.Tiers() {
			tier := p.Durations[name]
			w.open(name)
			w.raw("usd", tier.Price.String())
			w.raw("diem", tier.Price.String())
			w.number("min_seconds", tier.MinSeconds)
			w.number("max_seconds", tier.MaxSeconds)
			w.close()
		}
		w.close()
	}
	w.close()
}
