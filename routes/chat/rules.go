package chat

import (
	"math"
	"slices"

	"farebox/routes"
)

var (
	inf         = math.Inf(1)
	efforts     = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	verbosities = []string{"low", "medium", "high", "auto"}
	searching   = []string{"off", "on", "auto"} // enable_web_search
)

// chatTop are the rules of a chat body's own members (interface.md, Chat;
// addendum 5.1). Members that are not here pass through untouched.
var chatTop = map[string]*routes.Rule{
	"model":                  {Kinds: routes.String, Required: true, NonEmpty: true, Length: 256},
	"messages":               {Kinds: routes.Array, Required: true, NonEmpty: true, Length: 100_000},
	"stream":                 {Kinds: routes.Bool},
	"stream_options":         {Kinds: routes.Object},
	"frequency_penalty":      {Kinds: routes.Number, Min: -2, Max: 2},
	"presence_penalty":       {Kinds: routes.Number, Min: -2, Max: 2},
	"repetition_penalty":     {Kinds: routes.Number, Min: 0, Max: inf},
	"max_completion_tokens":  {Kinds: routes.Number, Integer: true, Min: 1, Max: inf},
	"max_tokens":             {Kinds: routes.Number, Integer: true},
	"n":                      {Kinds: routes.Number, Integer: true, Min: 1, Max: 128},
	"response_format":        {Kinds: routes.Object},
	"seed":                   {Kinds: routes.Number, Integer: true},
	"stop":                   stopRule,
	"temperature":            {Kinds: routes.Number, Min: 0, Max: 2},
	"top_p":                  {Kinds: routes.Number, Min: 0, Max: 1},
	"max_temp":               {Kinds: routes.Number, Min: 0, Max: 2},
	"min_temp":               {Kinds: routes.Number, Min: 0, Max: 2},
	"min_p":                  {Kinds: routes.Number, Min: 0, Max: 1},
	"top_k":                  {Kinds: routes.Number, Integer: true, Min: 0, Max: inf},
	"tools":                  {Kinds: routes.Array, Length: 1024},
	"tool_choice":            {Kinds: routes.String | routes.Object, Enum: []string{"none", "auto", "required"}},
	"user":                   {Kinds: routes.String},
	"reasoning_effort":       {Kinds: routes.String, Enum: efforts},
	"reasoning":              {Kinds: routes.Object},
	"prompt_cache_key":       {Kinds: routes.String},
	"prompt_cache_retention": {Kinds: routes.String, Enum: []string{"default", "extended", "24h"}},
	"store":                  {Kinds: routes.Bool},
	"text":                   {Kinds: routes.Object},
	"verbosity":              {Kinds: routes.String, Enum: verbosities},
	"include":                {Kinds: routes.Array, Elements: &routes.Rule{Kinds: routes.String, Required: true}},
	"metadata":               {Kinds: routes.Object},
	"logprobs":               {Kinds: routes.Bool},
	"top_logprobs":           {Kinds: routes.Number, Integer: true, Min: 0, Max: inf},
	"parallel_tool_calls":    {Kinds: routes.Bool},
	"stop_token_ids":         {Kinds: routes.Array, Elements: tokenRule},
	"fallbacks":              {Kinds: routes.Array, Length: 10},
	"anon_user_id":           {Kinds: routes.String, Length: 128},
}

// maxStopLength bounds one stop sequence in bytes.
const maxStopLength = 4096

// tokenRule is for the number of a token.
var tokenRule = &routes.Rule{Kinds: routes.Number, Required: true, Integer: true}

// stopRule is for one stop sequence or up to four (interface.md).
var stopRule = &routes.Rule{
	Kinds: routes.String | routes.Array, NonEmpty: true, Length: maxStopLength, Items: 4,
	Elements: &routes.Rule{Kinds: routes.String, Required: true, NonEmpty: true, Length: maxStopLength},
}

// chatNested are the rules of members of objects inside a chat body, keyed by
// the path of member names without array indexes.
var chatNested = map[string]*routes.Rule{
	"stream_options.include_usage": {Kinds: routes.Bool},
	"reasoning.effort":             {Kinds: routes.String, Enum: efforts},
	"reasoning.summary":            {Kinds: routes.String, Enum: []string{"auto", "concise", "detailed"}},
	"reasoning.enabled":            {Kinds: routes.Bool},
	"text.verbosity":               {Kinds: routes.String, Enum: verbosities},
	"response_format.type": {Kinds: routes.String, Required: true,
		Enum: []string{"json_schema", "json_object", "text"}},
	"response_format.json_schema": {Kinds: routes.Object},
	"tool_choice.type": {Kinds: routes.String, Required: true,
		Enum: []string{"function", "none", "auto", "required"}},
	"tool_choice.function":      {Kinds: routes.Object},
	"tool_choice.function.name": {Kinds: routes.String, Required: true, NonEmpty: true},
	"tools.type": {Kinds: routes.String, Required: true,
		Enum: []string{"function", "web_search", "x_search"}},
	"tools.function":             {Kinds: routes.Object},
	"tools.function.name":        {Kinds: routes.String, Required: true, NonEmpty: true, Length: 256},
	"tools.function.description": {Kinds: routes.String},
	"tools.function.parameters":  {Kinds: routes.Object},
	"tools.function.strict":      {Kinds: routes.Bool},
	"fallbacks.model":            {Kinds: routes.String, Required: true, NonEmpty: true},
	"messages.role": {Kinds: routes.String, Required: true,
		Enum: []string{"system", "user", "assistant", "tool", "developer"}},
	"messages.content":      {Kinds: routes.String | routes.Array | routes.Null},
	"messages.name":         {Kinds: routes.String},
	"messages.tool_call_id": {Kinds: routes.String},
	"messages.tool_calls":   {Kinds: routes.Array},
	"messages.content.type": {Kinds: routes.String, Required: true,
		Enum: []string{"text", "image_url", "input_audio", "video_url", "file"}},
	"messages.content.text":             {Kinds: routes.String, NonEmpty: true},
	"messages.content.refusal":          {Kinds: routes.String},
	"messages.content.image_url":        {Kinds: routes.Object},
	"messages.content.image_url.url":    {Kinds: routes.String, Required: true, NonEmpty: true},
	"messages.content.input_audio":      {Kinds: routes.Object},
	"messages.content.input_audio.data": {Kinds: routes.String, Required: true, NonEmpty: true},
	"messages.content.input_audio.format": {Kinds: routes.String,
		Enum: []string{"wav", "mp3", "aiff", "aac", "ogg", "flac", "m4a", "pcm16", "pcm24"}},
	"messages.content.video_url":      {Kinds: routes.Object},
	"messages.content.video_url.url":  {Kinds: routes.String, Required: true, NonEmpty: true},
	"messages.content.file":           {Kinds: routes.Object},
	"messages.content.file.file_data": {Kinds: routes.String, Required: true, NonEmpty: true},
	"messages.content.file.filename":  {Kinds: routes.String},
}

// extraWords are values that OpenAI's packages send beyond the specification's lists, accepted
// with compat.openai_extras. They go to the upstream unchanged; in_memory is written in both ways
// by their versions.
var extraWords = map[string][]string{
	"tools.type":             {"custom"},
	"tool_choice.type":       {"allowed_tools", "custom"},
	"messages.content.type":  {"refusal"},
	"prompt_cache_retention": {"in_memory", "in-memory"},
}

// withExtras makes a map of rules take extraWords, too.
func withExtras(rules map[string]*routes.Rule) {
	for name, words := range extraWords {
		wider := *rules[name]
		wider.Enum = slices.Concat(wider.Enum, words)
		rules[name] = &wider
	}
}

// brandRules are the rules of the <brand>_parameters object (addendum 5.3).
var brandRules = map[string]*routes.Rule{
	"character_slug":                     {Kinds: routes.String, NonEmpty: true, Length: 256},
	"strip_thinking_response":            {Kinds: routes.Bool},
	"disable_thinking":                   {Kinds: routes.Bool},
	"enable_e2ee":                        {Kinds: routes.Bool},
	"enable_web_search":                  {Kinds: routes.String, Enum: searching},
	"enable_web_scraping":                {Kinds: routes.Bool},
	"enable_web_citations":               {Kinds: routes.Bool},
	"include_search_results_in_stream":   {Kinds: routes.Bool},
	"return_search_results_as_documents": {Kinds: routes.Bool},
	"enable_x_search":                    {Kinds: routes.Bool},
}
