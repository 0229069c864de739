package audio

import (
	"math"
	"slices"

	"farebox/config"
	"farebox/proxy/scan"
	"farebox/routes"
)

// The limits of an account for what music costs nothing (addendum 3.6). Queueing
// counts in those of the model.
var (
	byRetrievals  = musicClass("audio-retrieve", &config.Rate{RPM: 120})
	byCompletions = musicClass("audio-complete", &config.Rate{RPM: 120})
	byQuotes      = musicClass("audio-quote", &config.Rate{RPM: 120})
)

func musicClass(name string, rate *config.Rate) *routes.RateClass {
	return &routes.RateClass{Name: name, Rate: func(cfg *config.Config) (*config.Rate, bool) {
		return rate, sellsMusic(cfg)
	}}
}

func sellsMusic(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.Models, func(m config.Model) bool { return m.Type == musicType })
}

// musicType is the type of models of music.
const musicType = "music"

// musicRows are the endpoints of music (interface.md, Music; addendum 9.4 to 9.8).
func musicRows(of *Capability) []routes.Row {
	return []routes.Row{
		{
			Method: "POST", Path: "/audio/quote", Access: routes.Catalog, Wallet: true,
			Form: routes.JSONBody, Limit: routes.SmallBody,
			Rate: byQuotes, Rules: routes.Always(quoteBook), Serve: of.quoteMusic,
		},
		{
			Method: "POST", Path: "/audio/queue", Access: routes.Bearer, Wallet: true, Form: routes.JSONBody, Limit: musicBody,
			Rate: routes.ByModel, Operation: "music_generation", Rules: routes.Always(queueBook), Serve: of.queueMusic,
		},
		{
			Method: "POST", Path: "/audio/retrieve", Access: routes.Bearer, Wallet: true,
			Form: routes.JSONBody, Limit: routes.SmallBody,
			Rate: byRetrievals, Rules: routes.Always(retrieveBook), Serve: of.retrieveMusic,
		},
		{
			Method: "POST", Path: "/audio/complete", Access: routes.Bearer, Wallet: true,
			Form: routes.JSONBody, Limit: routes.SmallBody,
			Rate: byCompletions, Rules: routes.Always(completeBook), Serve: of.completeMusic,
		},
	}
}

const (
	// maxMusicText is how many characters a prompt or lyrics can have at most; models
	// have limits of their own.
	maxMusicText = 32768
	// maxMusicSeconds is the longest track that any model may make.
	maxMusicSeconds = 86400
	maxVoice        = 512
	maxLanguage     = 35 // of a code by BCP 47 that is of any use
	maxQueueID      = 64 // more than the 36 of a UUID, so that what is not one is told apart from what is too long
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
	musicQueueID
	musicDelete
)

var musicShape = scan.NewShape(scan.Members(nil, "model", "prompt", "lyrics_prompt", "lyrics_optimizer",
	"duration_seconds", "force_instrumental", "loop", "voice", "language_code", "speed", "character_count", "queue_id",
	"delete_media_on_completion")...)

// ruleSeconds is a number of seconds, also one that is written as text.
var ruleSeconds = &routes.Rule{
	Kinds: routes.String | routes.Number, Integer: true, Min: 1, Max: maxMusicSeconds, Length: 9,
	Format: "whole number in digits",
}

var (
	ruleFlag    = &routes.Rule{Kinds: routes.Bool, Default: false}
	ruleModel   = &routes.Rule{Kinds: routes.String, Required: true, NonEmpty: true}
	ruleQueueID = &routes.Rule{Kinds: routes.String, Required: true, NonEmpty: true, Length: maxQueueID, Format: "uuid"}
)

var (
	quoteBook = routes.NewRulebook(musicShape, map[string]*routes.Rule{
		"model": ruleModel, "duration_seconds": ruleSeconds,
		"character_count": {Kinds: routes.Number, Integer: true, Min: 1, Max: math.Inf(1)},
	})
	queueBook = routes.NewRulebook(musicShape, map[string]*routes.Rule{
		"model":         ruleModel,
		"prompt":        {Kinds: routes.String, Required: true, NonEmpty: true, Characters: maxMusicText},
		"lyrics_prompt": {Kinds: routes.String, Characters: maxMusicText}, "lyrics_optimizer": ruleFlag,
		"duration_seconds": ruleSeconds, "force_instrumental": ruleFlag, "loop": ruleFlag,
		"voice":         {Kinds: routes.String, NonEmpty: true, Length: maxVoice},
		"language_code": {Kinds: routes.String, NonEmpty: true, Length: maxLanguage, Format: "BCP 47 code"},
		"speed":         {Kinds: routes.Number, Min: 0.25, Max: 4},
	})
	retrieveBook = routes.NewRulebook(musicShape, map[string]*routes.Rule{
		"model": ruleModel, "queue_id": ruleQueueID, "delete_media_on_completion": ruleFlag,
	})
	completeBook = routes.NewRulebook(musicShape, map[string]*routes.Rule{"model": ruleModel, "queue_id": ruleQueueID})
)
