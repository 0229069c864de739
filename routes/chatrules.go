package routes

import (
	"math"
	"slices"
)

var (
	inf         = math.Inf(1)
	efforts     = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	verbosities = []string{"low", "medium", "high", "auto"}
)

// chatTop are the rules of a chat body's own members (interface.md, Chat;
// addendum 5.1). Members that are not here pass through untouched.
var chatTop = map[string]*Rule{
	"model":                  {Kinds: String, Required: true, NonEmpty: true, Length: 256},
	"messages":               {Kinds: Array, Required: true, NonEmpty: true, Length: 100_000},
	"stream":                 {Kinds: Bool},
	"stream_options":         {Kinds: Object},
	"frequency_penalty":      {Kinds: Number, Min: -2, Max: 2},
	"presence_penalty":       {Kinds: Number, Min: -2, Max: 2},
	"repetition_penalty":     {Kinds: Number, Min: 0, Max: inf},
	"max_completion_tokens":  {Kinds: Number, Integer: true, Min: 1, Max: inf},
	"max_tokens":             {Kinds: Number, Integer: true},
	"n":                      {Kinds: Number, Integer: true, Min: 1, Max: 128},
	"response_format":        {Kinds: Object},
	"seed":                   {Kinds: Number, Integer: true},
	"stop":                   {Kinds: String | Array, NonEmpty: true, Length: maxStopLength},
	"temperature":            {Kinds: Number, Min: 0, Max: 2},
	"top_p":                  {Kinds: Number, Min: 0, Max: 1},
	"max_temp":               {Kinds: Number, Min: 0, Max: 2},
	"min_temp":               {Kinds: Number, Min: 0, Max: 2},
	"min_p":                  {Kinds: Number, Min: 0, Max: 1},
	"top_k":                  {Kinds: Number, Integer: true, Min: 0, Max: inf},
	"tools":                  {Kinds: Array, Length: 1024},
	"tool_choice":            {Kinds: String | Object, Enum: []string{"none", "auto", "required"}},
	"user":                   {Kinds: String},
	"reasoning_effort":       {Kinds: String, Enum: efforts},
	"reasoning":              {Kinds: Object},
	"prompt_cache_key":       {Kinds: String},
	"prompt_cache_retention": {Kinds: String, Enum: []string{"default", "extended", "24h"}},
	"store":                  {Kinds: Bool},
	"text":                   {Kinds: Object},
	"verbosity":              {Kinds: String, Enum: verbosities},
	"include":                {Kinds: Array},
	"metadata":               {Kinds: Object},
	"logprobs":               {Kinds: Bool},
	"top_logprobs":           {Kinds: Number, Integer: true, Min: 0, Max: inf},
	"parallel_tool_calls":    {Kinds: Bool},
	"stop_token_ids":         {Kinds: Array},
	"fallbacks":              {Kinds: Array, Length: 10},
	"anon_user_id":           {Kinds: String, Length: 128},
}

// maxStopLength bounds one stop sequence in bytes; the count is at most 4 (interface.md).
const (
	maxStopLength    = 4096
	maxStopSequences = 4
)

// chatNested are the rules of members of objects inside a chat body, keyed by
// the path of member names without array indexes.
var chatNested = map[string]*Rule{
	"stream_options.include_usage":        {Kinds: Bool},
	"reasoning.effort":                    {Kinds: String, Enum: efforts},
	"reasoning.summary":                   {Kinds: String, Enum: []string{"auto", "concise", "detailed"}},
	"reasoning.enabled":                   {Kinds: Bool},
	"text.verbosity":                      {Kinds: String, Enum: verbosities},
	"response_format.type":                {Kinds: String, Required: true, Enum: []string{"json_schema", "json_object", "text"}},
	"response_format.json_schema":         {Kinds: Object},
	"tool_choice.type":                    {Kinds: String, Required: true, Enum: []string{"function", "none", "auto", "required"}},
	"tool_choice.function":                {Kinds: Object},
	"tool_choice.function.name":           {Kinds: String, Required: true, NonEmpty: true},
	"tools.type":                          {Kinds: String, Required: true, Enum: []string{"function", "web_search", "x_search"}},
	"tools.function":                      {Kinds: Object},
	"tools.function.name":                 {Kinds: String, Required: true, NonEmpty: true, Length: 256},
	"tools.function.description":          {Kinds: String},
	"tools.function.parameters":           {Kinds: Object},
	"tools.function.strict":               {Kinds: Bool},
	"fallbacks.model":                     {Kinds: String, Required: true, NonEmpty: true},
	"messages.role":                       {Kinds: String, Required: true, Enum: []string{"system", "user", "assistant", "tool", "developer"}},
	"messages.content":                    {Kinds: String | Array | Null},
	"messages.name":                       {Kinds: String},
	"messages.tool_call_id":               {Kinds: String},
	"messages.tool_calls":                 {Kinds: Array},
	"messages.content.type":               {Kinds: String, Required: true, Enum: []string{"text", "image_url", "input_audio", "video_url", "file"}},
	"messages.content.text":               {Kinds: String, NonEmpty: true},
	"messages.content.refusal":            {Kinds: String},
	"messages.content.image_url":          {Kinds: Object},
	"messages.content.image_url.url":      {Kinds: String, Required: true, NonEmpty: true},
	"messages.content.input_audio":        {Kinds: Object},
	"messages.content.input_audio.data":   {Kinds: String, Required: true, NonEmpty: true},
	"messages.content.input_audio.format": {Kinds: String, Enum: []string{"wav", "mp3", "aiff", "aac", "ogg", "flac", "m4a", "pcm16", "pcm24"}},
	"messages.content.video_url":          {Kinds: Object},
	"messages.content.video_url.url":      {Kinds: String, Required: true, NonEmpty: true},
	"messages.content.file":               {Kinds: Object},
	"messages.content.file.file_data":     {Kinds: String, Required: true, NonEmpty: true},
	"messages.content.file.filename":      {Kinds: String},
}

// extraWords are what OpenAI's packages send beyond the specification's lists,
// accepted with compat.openai_extras. What they name goes to the upstream as it
// is; in_memory is written in both ways by their versions.
var extraWords = map[string][]string{
	"tools.type":             {"custom"},
	"tool_choice.type":       {"allowed_tools", "custom"},
	"messages.content.type":  {"refusal"},
	"prompt_cache_retention": {"in_memory", "in-memory"},
}

// withExtras makes a map of rules take extraWords, too.
func withExtras(rules map[string]*Rule) {
	for name, words := range extraWords {
		wider := *rules[name]
		wider.Enum = slices.Concat(wider.Enum, words)
		rules[name] = &wider
	}
}

// brandRules are the rules of the <brand>_parameters object (addendum 5.3).
var brandRules = map[string]*Rule{
	"character_slug":                     {Kinds: String, NonEmpty: true, Length: 256},
	"strip_thinking_response":            {Kinds: Bool},
	"disable_thinking":                   {Kinds: Bool},
	"enable_e2ee":                        {Kinds: Bool},
	"enable_web_search":                  {Kinds: String, Enum: []string{"off", "on", "auto"}},
	"enable_web_scraping":                {Kinds: Bool},
	"enable_web_citations":               {Kinds: Bool},
	"include_search_results_in_stream":   {Kinds: Bool},
	"return_search_results_as_documents": {Kinds: Bool},
	"enable_x_search":                    {Kinds: Bool},
}
