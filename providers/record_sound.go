package providers

import (
	"time"

	"farebox/config"
	"farebox/providers/audio"
)

// soundTypes are the types of models of sound that answer at once.
var soundTypes = map[string]capability{
	"tts": {target: soundTarget, record: func(w *writer, m *config.Model, _ *config.ImagePrice) {
		w.speaking(m.Spec.(*config.Speech))
	}},
	"asr": {target: soundTarget, record: func(w *writer, m *config.Model, _ *config.ImagePrice) {
		w.open("pricing")
		w.each("per_audio_second", m.Spec.(*config.Transcription).Price.PerAudioSecond)
		w.close()
	}},
}

// soundTarget gives a target of a sound model the adapters of its dialect.
func soundTarget(t *Target, options map[string]string) {
	u := t.Upstream
	speaks := dialects[u.Config.Spoken()]
	cloner, _ := speaks.speaker.(audio.Cloner)
	t.Sound = &audio.Target{
		Cloner: cloner, Upstream: u.Name, Router: u.Config.Router, Model: t.Name, Speaker: speaks.speaker,
		Listener: speaks.listens, Proxy: u.Proxy, Total: u.Config.Timeouts.Total, Options: options,
		Breaker: t.Breaker, Weight: t.Weight, Priority: t.Priority,
	}
}

// SoundTargets are the targets of a sound model, in the order of m.Targets. They share
// their health with every other request.
func SoundTargets(m *Model, list []*audio.Target) []*audio.Target {
	for _, t := range m.Targets {
		list = append(list, t.Sound.(*audio.Target))
	}
	return list
}

// speaking writes the members of models that speak alone (addendum 7.3, 7.4).
func (w *writer) speaking(s *config.Speech) {
	w.texts("voices", s.Voices)
	w.text("default_voice", s.DefaultVoice)
	w.texts("supported_formats", s.Formats)
	w.text("default_format", s.DefaultFormat)
	w.flag("supports_custom_voice_id", s.CustomVoiceIDs)
	if c := s.VoiceCloning; c != nil {
		w.open("voice_cloning")
		w.text("mode", c.Mode)
		w.texts("accepted_formats", c.AcceptedFormats)
		w.number("min_sample_seconds", c.MinSampleSeconds)
		w.number("retention_days", int64(c.Retention/(24*time.Hour)))
		w.close()
	}
	// A hint that is not followed is not listed.
	for _, hint := range [...]struct {
		name string
		on   bool
	}{
		{"supportsPromptParam", s.Capabilities.Prompt}, {"supportsTemperatureParam", s.Capabilities.Temperature},
		{"supportsTopPParam", s.Capabilities.TopP},
	} {
		if hint.on {
			w.flag(hint.name, true)
		}
	}
	w.open("pricing")
	w.price("input", s.Price.Input)
	w.close()
}
