package providers

import (
	"farebox/providers/audio"
	"farebox/providers/audio/elevenlabs"
	speech "farebox/providers/audio/openai"
	"farebox/providers/audio/whisper"
	"farebox/providers/chat/anthropic"
	"farebox/providers/chat/azure"
	"farebox/providers/chat/bedrock"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/gemini"
	"farebox/providers/chat/messages"
	"farebox/providers/chat/openai"
	"farebox/providers/chat/responses"
	"farebox/providers/chat/vertex"
	"farebox/providers/image"
	"farebox/providers/image/fal"
	"farebox/providers/image/native"
	imageopenai "farebox/providers/image/openai"
	"farebox/providers/image/sdapi"
	"farebox/providers/image/stability"
	"farebox/providers/queue"
	composer "farebox/providers/queue/elevenlabs"
	queuefal "farebox/providers/queue/fal"
	queuenative "farebox/providers/queue/native"
	"farebox/providers/queue/replicate"
)

// dialectAdapters holds the adapters of one dialect by capability; package config has its settings
// under the same name.
type dialectAdapters struct {
	chat dialect.Dialect // nil: no chat
	// natives handle the client formats that such upstreams take unchanged.
	natives map[dialect.FormKind]dialect.Dialect
	picture image.Dialect  // nil: no images
	speaker audio.Speaker  // nil: no speech
	jobs    queue.Dialect  // nil: no jobs
	listens audio.Listener // nil: no transcriptions
	// headers are on every request, unless the operator sets one of the same name.
	headers [][2]string
	// longList is the query for a list of models in one page, where pages are short; may be empty.
	longList string
	// unlisted says that models are not listed, and that the error for a missing model
	// differs from that for a wrong credential.
	unlisted bool
	// probe is an endpoint that refuses an empty request and charges nothing for
	// it; may be empty.
	probe string
}

// dialects are the dialects that the config may name, by config.Upstream.Spoken.
var dialects = map[string]dialectAdapters{
	"openai": {
		chat:    openai.Dialect{},
		natives: map[dialect.FormKind]dialect.Dialect{responses.Kind: responses.Native{}},
		picture: imageopenai.Dialect{}, speaker: speech.Dialect{}, listens: speech.Dialect{}, probe: "/chat/completions",
	},
	"anthropic": {
		chat: anthropic.Dialect{}, longList: "?limit=1000", probe: "/messages",
		natives: map[dialect.FormKind]dialect.Dialect{messages.Kind: anthropic.Vendor{}},
		headers: [][2]string{{anthropic.VersionHeader, anthropic.Version}},
	},
	// Without a model in the path only the list of gemini can be asked for.
	"gemini":  {chat: gemini.Dialect{}, longList: "?pageSize=1000"},
	"azure":   {chat: azure.Dialect{}, probe: "/chat/completions"},
	"bedrock": {chat: bedrock.OpenAI{}, probe: "/chat/completions"},
	"bedrock/anthropic": {
		chat: bedrock.Anthropic{}, probe: "/messages",
		natives: map[dialect.FormKind]dialect.Dialect{messages.Kind: bedrock.Native{}},
		headers: [][2]string{{anthropic.VersionHeader, anthropic.Version}},
	},
	"vertex": {chat: gemini.Dialect{}, probe: "/models/farebox:countTokens", unlisted: true},
	"vertex/anthropic": {
		chat: vertex.Anthropic{}, probe: "/models/farebox:rawPredict", unlisted: true,
		natives: map[dialect.FormKind]dialect.Dialect{messages.Kind: vertex.Native{}},
	},
	"native":     {picture: native.Dialect{}, speaker: speech.Native{}, listens: speech.Native{}, jobs: queuenative.Dialect{}},
	"sdapi":      {picture: sdapi.Dialect{}},
	"stability":  {picture: stability.Dialect{}},
	"fal":        {picture: fal.Dialect{}, jobs: queuefal.Dialect{}},
	"replicate":  {jobs: replicate.Dialect{}},
	"elevenlabs": {speaker: elevenlabs.Dialect{}, listens: elevenlabs.Dialect{}, jobs: composer.Dialect{}},
	"whisper":    {listens: whisper.Dialect{}},
}
