package strict

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
)

// speechFault judges a request for speech as OpenAI's documentation says, with the members that
// servers of one's own and the service's own form add.
func speechFault(asked gjson.Result) string {
	j := &check{}
	j.members("", asked, "model!", "input!", "voice!", "response_format", "speed", "instructions", "stream_format",
		"prompt", "streaming", "language", "temperature", "top_p")
	j.text("model", asked.Get("model"), 1)
	j.text("input", asked.Get("input"), 1)
	j.text("voice", asked.Get("voice"), 1)
	j.number("speed", asked.Get("speed"), 0.25, 4, false)
	if utf8.RuneCountInString(asked.Get("input").Str) > 4096 {
		j.no("input: string should have at most 4096 characters")
	}
	return j.fault
}

// labsFault judges a request for speech as ElevenLabs' packages send it.
func labsFault(asked gjson.Result) string {
	j := &check{}
	j.members("", asked, "text!", "model_id", "language_code", "voice_settings", "seed")
	j.text("text", asked.Get("text"), 1)
	if settings := asked.Get("voice_settings"); settings.Exists() {
		j.members("voice_settings.", settings, "speed", "stability", "similarity_boost", "style", "use_speaker_boost")
		j.number("voice_settings.speed", settings.Get("speed"), 0.7, 1.2, false)
	}
	return j.fault
}

// earFields are the fields of each; a file is taken as "file".
var earFields = map[string][]string{
	"openai": {"model", "response_format", "language", "prompt", "temperature", "timestamp_granularities[]"},
	"native": {"model", "response_format", "language", "prompt", "temperature", "timestamps"},
	"whisper": {
		"response_format", "language", "prompt", "temperature", "no_language_probabilities",
	},
	"elevenlabs": {
		"model_id", "language_code", "temperature", "timestamps_granularity", "tag_audio_events", "diarize",
	},
}

// earFault is the fault of a form of a transcription.
func earFault(ear string, parts []upstream.Field) string {
	fields, file := map[string]string{}, false
	for _, p := range parts {
		_, known := fields[p.Name]
		switch {
		case p.Name == "file" && p.File != "" && !file:
			file = true
		case !slices.Contains(earFields[ear], p.Name) || p.File != "":
			return "unknown field " + p.Name
		case known && !strings.HasSuffix(p.Name, "[]"):
			return "duplicate field " + p.Name
		default:
			fields[p.Name] = p.Value
		}
	}
	format := fields["response_format"]
	_, granular := fields["timestamp_granularities[]"]
	switch {
	case !file:
		return "file is missing"
	case ear == "elevenlabs" && fields["model_id"] == "", (ear == "openai" || ear == "native") && fields["model"] == "":
		return "model is missing"
	case format != "" && !slices.Contains([]string{"json", "text", "srt", "verbose_json", "vtt"}, format):
		return "response_format is unknown"
	case granular && format != "verbose_json":
		return "timestamp_granularities are for verbose_json"
	}
	return ""
}

// searchRule are the parameters that a service of web search takes.
type searchRule struct {
	key          string // the header that must carry one; empty: no key
	words, count string
	least, most  int
	takes        string // further names, joined by spaces
}

var searchRules = map[string]searchRule{
	"brave": {"X-Subscription-Token", "q", "count", 1, 20,
		"offset country search_lang freshness safesearch result_filter text_decorations extra_snippets"},
	"serper":  {"X-Api-Key", "q", "num", 1, 100, "gl hl tbs page"},
	"searxng": {"", "q", "", 20, 20, "format categories engines language pageno time_range safesearch"},
	"tavily":  {"Authorization", "query", "max_results", 0, 20, "search_depth topic time_range include_domains"},
	"exa":     {"X-Api-Key", "query", "numResults", 1, 100, "type contents"},
}

// searchFault is the fault of a search, with the status of its refusal.
func searchFault(r *upstream.Call) (status int, text string) {
	s, words := searchRules[r.Vendor], r.Asked.Get(searchRules[r.Vendor].words).String()
	switch {
	case s.key != "" && len(r.Header(s.key)) == 0:
		return 401, "no key in " + s.key
	case s.key == "Authorization" && !bytes.HasPrefix(r.Header(s.key), []byte("Bearer ")):
		return 401, "the key is no bearer token"
	case words == "" || len([]rune(words)) > 400:
		return 422, s.words + ": 1 to 400 characters"
	case r.Vendor == "searxng" && r.Asked.Get("format").String() != "json":
		return 403, "Forbidden"
	}
	if v := r.Asked.Get(s.count); s.count != "" && v.Exists() {
		if n := int(v.Int()); n < s.least || n > s.most || strconv.Itoa(n) != v.String() {
			return 422, s.count + " is out of range"
		}
	}
	r.Asked.ForEach(func(key, _ gjson.Result) bool {
		if k := key.String(); k != s.words && k != s.count && !slices.Contains(strings.Fields(s.takes), k) {
			status, text = 422, "unknown parameter "+k
		}
		return text == ""
	})
	return status, text
}
