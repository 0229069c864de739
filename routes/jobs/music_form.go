package jobs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"farebox/config"
	"farebox/providers/queue"
	"farebox/proxy/scan"
	"farebox/routes"
)

// musicForm is a body about music, with its model.
type musicForm struct {
	*form
	model *config.Music
}

func musicOf(f *form) *musicForm { return &musicForm{form: f, model: f.spec.(*config.Music)} }

// checkMusic checks a body beyond the rules.
func checkMusic(f *form) {
	for _, id := range []int{musicPrompt, musicLyrics} {
		if r := f.Book.Rule(musicShape, id); r != nil {
			f.checkText(id, r.Characters, false)
		}
	}
	if text := f.Text(-1, musicDuration); text != nil && len(text) <= ruleSeconds.Length && digits(text) <= 0 {
		f.Wrong("duration_seconds", "must be a whole number of seconds above 0, or one in digits.")
	}
	if text := f.Text(-1, musicLanguage); text != nil && len(text) <= maxLanguage && !musicLanguageCode.Match(text) {
		f.Wrong("language_code", "must be a language code, such as en or pt-BR.")
	}
}

var musicLanguageCode = regexp.MustCompile(`^[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8})*$`)

// digits is the number that a text of digits writes; -1 if it is not one.
func digits(text []byte) int64 {
	if len(text) == 0 || len(text) > ruleSeconds.Length {
		return -1
	}
	n := int64(0)
	for _, d := range text {
		if d < '0' || d > '9' {
			return -1
		}
		n = 10*n + int64(d-'0')
	}
	return n
}

// seconds is how long the track is to be; 0: the model decides.
func (f *musicForm) seconds() (int64, *routes.Error) {
	limits := &f.model.Constraints
	field := f.Member(-1, musicDuration)
	switch {
	case field == nil:
		return limits.DefaultDuration, nil
	case !limits.Timed():
		return 0, f.unsupported(musicDuration, "durations")
	}
	seconds := f.Integer(musicDuration)
	if field.Kind == scan.String {
		seconds = digits(f.Text(-1, musicDuration))
	}
	if limits.TakesSeconds(seconds) {
		return seconds, nil
	}
	return 0, routes.Invalid(f.wrongSeconds(seconds))
}

// wrongSeconds says which lengths the model makes.
func (f *musicForm) wrongSeconds(seconds int64) routes.Issue {
	limits, reported := &f.model.Constraints, strconv.FormatInt(seconds, 10)
	if limits.MaxDuration == 0 {
		var options []string
		for _, one := range limits.Durations {
			options = append(options, strconv.FormatInt(one, 10))
		}
		return routes.Issue{Code: "invalid_enum_value", Path: "duration_seconds", Received: reported, Options: options,
			Message: "duration_seconds: model " + f.id + " takes one of " + strings.Join(options, ", ") + ", not " +
				reported + "."}
	}
	least, most := strconv.FormatInt(limits.MinDuration, 10), strconv.FormatInt(limits.MaxDuration, 10)
	issue := routes.Issue{Code: "too_small", Path: "duration_seconds", Minimum: least,
		Message: "duration_seconds: must be between " + least + " and " + most + " with model " + f.id + ", is " +
			reported + "."}
	if seconds > limits.MaxDuration {
		issue.Code, issue.Minimum, issue.Maximum = "too_big", "", most
	}
	return issue
}

// order is the order for the upstream, by the rules of the model (addendum 9.6), or the first of
// them that is broken.
func (f *musicForm) order() (*queue.Order, *routes.Error) {
	o := &queue.Order{Kind: f.kind.Name, Prompt: f.Words(-1, musicPrompt), Lyrics: f.Words(-1, musicLyrics),
		Format: f.model.DefaultFormat}
	for _, check := range []func(*queue.Order) *routes.Error{
		f.takePrompt, f.takeLyrics, f.takeSwitches, f.takeVoice, f.takeSpeed,
	} {
		if e := check(o); e != nil {
			return nil, e
		}
	}
	var e *routes.Error
	o.Seconds, e = f.seconds()
	return o, e
}

func (f *musicForm) takePrompt(o *queue.Order) *routes.Error {
	limits, n := &f.model.Constraints, int64(utf8.RuneCountInString(o.Prompt))
	if n > limits.PromptCharacters {
		return routes.Invalid(tooLong("prompt", n, limits.PromptCharacters, " with model "+f.id))
	}
	if least := limits.MinPromptCharacters; n < least {
		limit := strconv.FormatInt(least, 10)
		return routes.Invalid(routes.Issue{Code: "too_small", Path: "prompt", Minimum: limit,
			Message: "prompt: must have at least " + limit + " characters with model " + f.id + ", has " +
				strconv.FormatInt(n, 10) + "."})
	}
	return nil
}

func (f *musicForm) takeLyrics(o *queue.Order) *routes.Error {
	can := &f.model.Capabilities
	o.LyricsOptimizer = f.IsTrue(musicOptimizer)
	n, most := int64(utf8.RuneCountInString(o.Lyrics)), f.model.Constraints.LyricsCharacters
	switch {
	case n > 0 && !can.Lyrics:
		return f.unsupported(musicLyrics, "lyrics")
	case n > most:
		return routes.Invalid(tooLong("lyrics_prompt", n, most, " with model "+f.id))
	case o.LyricsOptimizer && !on(can.LyricsOptimizer):
		return f.unsupported(musicOptimizer, "writing lyrics of its own")
	case o.LyricsOptimizer && n > 0:
		return routes.Invalid(routes.Issue{Code: "custom", Path: "lyrics_prompt",
			Message: "lyrics_prompt: must be empty with lyrics_optimizer, which has the lyrics written."})
	case can.LyricsRequired && n == 0 && !o.LyricsOptimizer:
		return routes.Invalid(routes.Issue{Code: "invalid_type", Path: "lyrics_prompt", Expected: "string",
			Received: "undefined", Message: "lyrics_prompt: is required by model " + f.id + "."})
	}
	return nil
}

// on is a switch of a model that need not be written.
func on(b *bool) bool { return b != nil && *b }

func (f *musicForm) takeSwitches(o *queue.Order) *routes.Error {
	can := &f.model.Capabilities
	o.Instrumental, o.Loop = f.IsTrue(musicInstrumental), f.IsTrue(musicLoop)
	o.Language = f.Words(-1, musicLanguage)
	switch {
	case o.Instrumental && !on(can.ForceInstrumental):
		return f.unsupported(musicInstrumental, "tracks that are forced to be instrumental")
	case o.Loop && !on(can.Loop):
		return f.unsupported(musicLoop, "loops")
	case o.Language != "" && !on(can.LanguageCode):
		return f.unsupported(musicLanguage, "the choice of a language")
	}
	return nil
}

func (f *musicForm) takeVoice(o *queue.Order) *routes.Error {
	name, custom := f.Words(-1, musicVoice), on(f.model.CustomVoiceIDs)
	switch {
	case name == "":
		o.Voice = f.model.DefaultVoice
	case len(f.model.Voices) == 0 && !custom:
		return f.unsupported(musicVoice, "the choice of a voice")
	case slices.Contains(f.model.Voices, name), custom && !strings.HasPrefix(name, config.VoiceHandle):
		o.Voice = name
	default:
		reported := routes.Excerpt([]byte(name))
		return routes.Invalid(routes.Issue{Code: "invalid_enum_value", Path: "voice", Received: reported,
			Options: f.model.Voices, Message: "voice: model " + f.id + " has no voice " + reported + "; expected one of " +
				strings.Join(f.model.Voices, ", ") + "."})
	}
	return nil
}

func (f *musicForm) takeSpeed(o *queue.Order) *routes.Error {
	limits, field := &f.model.Constraints, f.Member(-1, musicSpeed)
	if !on(f.model.Capabilities.Speed) {
		if field != nil {
			return f.unsupported(musicSpeed, "speeds")
		}
		return nil
	}
	number := func(text string) float64 {
		x, _ := strconv.ParseFloat(text, 64) // that it is one was checked
		return x
	}
	speed := number(string(*limits.DefaultSpeed))
	if field != nil {
		speed = number(routes.ViewString(field.Raw(f.Body)))
	}
	least, most := string(*limits.MinSpeed), string(*limits.MaxSpeed)
	issue := routes.Issue{Path: "speed", Message: "speed: must be between " + least + " and " + most + " with model " +
		f.id + "."}
	switch {
	case speed < number(least):
		issue.Code, issue.Minimum = "too_small", least
		return routes.Invalid(issue)
	case speed > number(most):
		issue.Code, issue.Maximum = "too_big", most
		return routes.Invalid(issue)
	}
	o.Speed = &speed
	return nil
}
