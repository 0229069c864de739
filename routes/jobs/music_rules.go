package jobs

import (
	"math"

	"farebox/config"
	"farebox/proxy/scan"
	"farebox/routes"
)

// music is the kind of jobs that make tracks.
var music = newKind(kind{
	JobKind: config.MusicKind, operation: "music_generation",
	queueBody: musicBody, quoteBody: routes.SmallBody,
	shape: musicShape, quoteBook: musicQuoteBook, queueBook: musicQueueBook, once: ruleFlag,
	check: checkMusic, quote: quoteMusic, sell: sellMusic,
	failed: failedMusic, link: linkToMusic, deliver: (*Capability).lookAtMusic,
})

const (
	// maxMusicText is how many characters a prompt or lyrics can have at most; models
	// have limits of their own.
	maxMusicText = 32768
	// maxMusicSeconds is the longest track that any model may make.
	maxMusicSeconds = 86400
	maxVoice        = 512
	maxLanguage     = 35 // of a code by BCP 47 that is of any use
)

// musicBody is the limit of a body with a prompt and lyrics, where each character may be
// written as two escapes of six bytes.
func musicBody(*config.Config) int { return 2*12*maxMusicText + 16<<10 }

// Ids of the members of all bodies about music. One Shape names them all; every member
// that an endpoint does not take is refused by its name.
const (
	musicModel = iota
	musicPrompt
	musicLyrics
	musicOptimizer
	musicDuration
	musicInstrumental
	musicLoop
	musicVoice
	musicLanguage
	musicSpeed
	musicCharacterCount
)

var musicShape = scan.NewShape(scan.Members(nil, "model", "prompt", "lyrics_prompt", "lyrics_optimizer",
	"duration_seconds", "force_instrumental", "loop", "voice", "language_code", "speed", "character_count", "queue_id",
	"delete_media_on_completion")...)

// ruleSeconds is a number of seconds, also one that is written as text.
var ruleSeconds = &routes.Rule{
	Kinds: routes.String | routes.Number, Integer: true, Min: 1, Max: maxMusicSeconds, Length: 9,
	Format: "whole number in digits",
}

var ruleFlag = &routes.Rule{Kinds: routes.Bool, Default: false}

var (
	musicQuoteBook = routes.NewRulebook(musicShape, map[string]*routes.Rule{
		"model": ruleModel, "duration_seconds": ruleSeconds,
		"character_count": {Kinds: routes.Number, Integer: true, Min: 1, Max: math.Inf(1)},
	})
	musicQueueBook = routes.NewRulebook(musicShape, map[string]*routes.Rule{
		"model":         ruleModel,
		"prompt":        {Kinds: routes.String, Required: true, NonEmpty: true, Characters: maxMusicText},
		"lyrics_prompt": {Kinds: routes.String, Characters: maxMusicText}, "lyrics_optimizer": ruleFlag,
		"duration_seconds": ruleSeconds, "force_instrumental": ruleFlag, "loop": ruleFlag,
		"voice":         {Kinds: routes.String, NonEmpty: true, Length: maxVoice},
		"language_code": {Kinds: routes.String, NonEmpty: true, Length: maxLanguage, Format: "BCP 47 code"},
		"speed":         {Kinds: routes.Number, Min: 0.25, Max: 4},
	})
)
