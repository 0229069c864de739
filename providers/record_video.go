package providers

import "farebox/config"

// filming is what the catalog does for models of videos: their records have what they
// take and no price, which is asked for (addendum 7.4).
var filming = capability{
	target: takesJobs(config.VideoKind),
	record: func(w *writer, m *config.Model, _ *config.ImagePrice) {
		c := &m.Spec.(*config.Video).Constraints
		w.open("constraints")
		w.texts("aspect_ratios", c.AspectRatios)
		w.texts("resolutions", c.Resolutions)
		w.texts("durations", c.Durations)
		w.text("model_type", c.ModelType)
		w.flag("audio", c.Audio)
		w.flag("audio_configurable", c.AudioConfigurable)
		w.number("prompt_character_limit", c.PromptCharacters)
		w.close()
	},
}
