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
var chatTop = map[string]*rule{
	"model":                  {kinds: kString, required: true, nonEmpty: true, length: 256},
	"messages":               {kinds: kArray, required: true, nonEmpty: true, length: 100_000},
	"stream":                 {kinds: kBool},
	"stream_options":         {kinds: kObject},
	"frequency_penalty":      {kinds: kNumber, min: -2, max: 2},
	"presence_penalty":       {kinds: kNumber, min: -2, max: 2},
	"repetition_penalty":     {kinds: kNumber, min: 0, max: inf},
	"max_completion_tokens":  {kinds: kNumber, integer: true, min: 1, max: inf},
	"max_tokens":             {kinds: kNumber, integer: true},
	"n":                      {kinds: kNumber, integer: true, min: 1, max: 128},
	"response_format":        {kinds: kObject},
	"seed":                   {kinds: kNumber, integer: true},
	"stop":                   {kinds: kString | kArray, nonEmpty: true, length: maxStopLength},
	"temperature":            {kinds: kNumber, min: 0, max: 2},
	"top_p":                  {kinds: kNumber, min: 0, max: 1},
	"max_temp":               {kinds: kNumber, min: 0, max: 2},
	"min_temp":               {kinds: kNumber, min: 0, max: 2},
	"min_p":                  {kinds: kNumber, min: 0, max: 1},
	"top_k":                  {kinds: kNumber, integer: true, min: 0, max: inf},
	"tools":                  {kinds: kArray, length: 1024},
	"tool_choice":            {kinds: kString | kObject, enum: []string{"none", "auto", "required"}},
	"user":                   {kinds: kString},
	"reasoning_effort":       {kinds: kString, enum: efforts},
	"reasoning":              {kinds: kObject},
	"prompt_cache_key":       {kinds: kString},
	"prompt_cache_retention": {kinds: kString, enum: []string{"default", "extended", "24h"}},
	"store":                  {kinds: kBool},
	"text":                   {kinds: kObject},
	"verbosity":              {kinds: kString, enum: verbosities},
	"include":                {kinds: kArray},
	"metadata":               {kinds: kObject},
	"logprobs":               {kinds: kBool},
	"top_logprobs":           {kinds: kNumber, integer: true, min: 0, max: inf},
	"parallel_tool_calls":    {kinds: kBool},
	"stop_token_ids":         {kinds: kArray},
	"fallbacks":              {kinds: kArray, length: 10},
	"anon_user_id":           {kinds: kString, length: 128},
}

// maxStopLength bounds one stop sequence in bytes; the count is at most 4 (interface.md).
const (
	maxStopLength    = 4096
	maxStopSequences = 4
)

// chatNested are the rules of members of objects inside a chat body, keyed by
// the path of member names without array indexes.
var chatNested = map[string]*rule{
	"stream_options.include_usage":        {kinds: kBool},
	"reasoning.effort":                    {kinds: kString, enum: efforts},
	"reasoning.summary":                   {kinds: kString, enum: []string{"auto", "concise", "detailed"}},
	"reasoning.enabled":                   {kinds: kBool},
	"text.verbosity":                      {kinds: kString, enum: verbosities},
	"response_format.type":                {kinds: kString, required: true, enum: []string{"json_schema", "json_object", "text"}},
	"response_format.json_schema":         {kinds: kObject},
	"tool_choice.type":                    {kinds: kString, required: true, enum: []string{"function", "none", "auto", "required"}},
	"tool_choice.function":                {kinds: kObject},
	"tool_choice.function.name":           {kinds: kString, required: true, nonEmpty: true},
	"tools.type":                          {kinds: kString, required: true, enum: []string{"function", "web_search", "x_search"}},
	"tools.function":                      {kinds: kObject},
	"tools.function.name":                 {kinds: kString, required: true, nonEmpty: true, length: 256},
	"tools.function.description":          {kinds: kString},
	"tools.function.parameters":           {kinds: kObject},
	"tools.function.strict":               {kinds: kBool},
	"fallbacks.model":                     {kinds: kString, required: true, nonEmpty: true},
	"messages.role":                       {kinds: kString, required: true, enum: []string{"system", "user", "assistant", "tool", "developer"}},
	"messages.content":                    {kinds: kString | kArray | kNull},
	"messages.name":                       {kinds: kString},
	"messages.tool_call_id":               {kinds: kString},
	"messages.tool_calls":                 {kinds: kArray},
	"messages.content.type":               {kinds: kString, required: true, enum: []string{"text", "image_url", "input_audio", "video_url", "file"}},
	"messages.content.text":               {kinds: kString, nonEmpty: true},
	"messages.content.refusal":            {kinds: kString},
	"messages.content.image_url":          {kinds: kObject},
	"messages.content.image_url.url":      {kinds: kString, required: true, nonEmpty: true},
	"messages.content.input_audio":        {kinds: kObject},
	"messages.content.input_audio.data":   {kinds: kString, required: true, nonEmpty: true},
	"messages.content.input_audio.format": {kinds: kString, enum: []string{"wav", "mp3", "aiff", "aac", "ogg", "flac", "m4a", "pcm16", "pcm24"}},
	"messages.content.video_url":          {kinds: kObject},
	"messages.content.video_url.url":      {kinds: kString, required: true, nonEmpty: true},
	"messages.content.file":               {kinds: kObject},
	"messages.content.file.file_data":     {kinds: kString, required: true, nonEmpty: true},
	"messages.content.file.filename":      {kinds: kString},
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
func withExtras(rules map[string]*rule) {
	for name, words := range extraWords {
		wider := *rules[name]
		wider.enum = slices.Concat(wider.enum, words)
		rules[name] = &wider
	}
}

// brandRules are the rules of the <brand>_parameters object (addendum 5.3).
var brandRules = map[string]*rule{
	"character_slug":                     {kinds: kString, nonEmpty: true, length: 256},
	"strip_thinking_response":            {kinds: kBool},
	"disable_thinking":                   {kinds: kBool},
	"enable_e2ee":                        {kinds: kBool},
	"enable_web_search":                  {kinds: kString, enum: []string{"off", "on", "auto"}},
	"enable_web_scraping":                {kinds: kBool},
	"enable_web_citations":               {kinds: kBool},
	"include_search_results_in_stream":   {kinds: kBool},
	"return_search_results_as_documents": {kinds: kBool},
	"enable_x_search":                    {kinds: kBool},
}
