package dialect

import (
	"slices"
	"strings"

	"farebox/proxy/scan"
)

// Ids of the members that both request bodies have.
const (
	TopModel = iota
	TopUser
)

// Ids of the other members of a chat body (interface.md, Chat; addendum 5.1).
// The <brand>_parameters objects follow from ChatBrand on, in the order of the
// brand word and its aliases.
const (
	ChatMessages = TopUser + 1 + iota
	ChatStream
	ChatStreamOptions
	ChatMaxCompletionTokens
	ChatMaxTokens
	ChatN
	ChatReasoningEffort
	ChatReasoning
	ChatTools
	ChatToolChoice
	ChatParallelToolCalls
	ChatResponseFormat
	ChatStop
	ChatStopTokenIDs
	ChatTemperature
	ChatTopP
	ChatTopK
	ChatMinP
	ChatMinTemp
	ChatMaxTemp
	ChatFrequencyPenalty
	ChatPresencePenalty
	ChatRepetitionPenalty
	ChatSeed
	ChatLogprobs
	ChatTopLogprobs
	ChatStore
	ChatText
	ChatVerbosity
	ChatInclude
	ChatMetadata
	ChatPromptCacheKey
	ChatPromptCacheRetention
	ChatFallbacks
	ChatAnonUserID
	ChatCacheControl
	ChatBrand
)

// Ids of the other members of an embeddings body (addendum 11).
const (
	EmbedInput = TopUser + 1 + iota
	EmbedEncodingFormat
	EmbedDimensions
)

// Ids of the members of a message (addendum 5.2).
const (
	MessageRole = iota
	MessageContent
	MessageName
	MessageToolCallID
	MessageToolCalls
	MessageReasoningContent
	MessageReasoningDetails
	MessageThoughtSignature
	MessageCacheControl
	MessageAudio
)

// Ids of the members of a content part.
const (
	PartType = iota
	PartText
	PartImage
	PartAudio
	PartVideo
	PartFile
	PartCacheControl
	PartRefusal
	PartCitations
	PartFileID
)

// Ids of the members of the object that a part carries.
const (
	LinkURL    = 0 // image_url, video_url
	AudioData  = 0 // input_audio
	AudioKind  = 1
	FileData   = 0 // file
	FileName   = 1
	FileID     = 2
	CallID     = 0 // tool_calls
	CallType   = 1
	CallTarget = 2 // its function
	CallName   = 0
	CallInput  = 1
	ToolType   = 0 // tools
	ToolTarget = 1 // its function
	ToolCache  = 2
	ToolSearch = 3 // the first member of x_search
)

// Ids of the members of tools[].function.
const (
	FunctionName = iota
	FunctionDescription
	FunctionParameters
	FunctionStrict
)

// Ids of the members of small objects.
const (
	CacheType = 0 // cache_control
	CacheTTL  = 1

	CitationsEnabled = 0

	StreamIncludeUsage = 0

	ReasoningEffort  = 0
	ReasoningSummary = 1
	ReasoningEnabled = 2

	ChoiceType   = 0 // tool_choice
	ChoiceTarget = 1
	ChoiceName   = 0

	FormatType   = 0 // response_format
	FormatSchema = 1 // its json_schema
	SchemaSchema = 0
	SchemaName   = 1
	SchemaStrict = 2
)

// below are the Shapes of members that have members themselves.
type below = map[string]*scan.Shape

func names(list ...string) *scan.Shape { return nested(nil, list...) }

func nested(in below, list ...string) *scan.Shape { return scan.NewShape(scan.Members(in, list...)...) }

// ChatShape is every member of a chat body that our code validates, prices,
// routes or changes, with the parameter objects of one brand and its aliases,
// and the members that some upstream is not sent (drops).
func ChatShape(brand string, aliases, drops []string) *scan.Shape {
	part := nested(below{
		"image_url": names("url", "detail"), "input_audio": names("data", "format"), "video_url": names("url"),
		"file": names("file_data", "filename", "file_id"), "cache_control": cacheShape, "citations": names("enabled"),
	}, "type", "text", "image_url", "input_audio", "video_url", "file", "cache_control", "refusal", "citations",
		"file_id")
	call := nested(below{"function": names("name", "arguments")}, "id", "type", "function")
	message := nested(below{"content": part, "tool_calls": call, "cache_control": cacheShape},
		"role", "content", "name", "tool_call_id", "tool_calls", "reasoning_content", "reasoning_details",
		"thought_signature", "cache_control", "audio")
	tool := nested(below{
		"function": names("name", "description", "parameters", "strict"), "cache_control": cacheShape,
	}, append([]string{"type", "function", "cache_control"}, SearchMembers...)...)
	members := scan.Members(below{
		"messages": message, "stream_options": names("include_usage"),
		"reasoning": names("effort", "summary", "enabled"), "tools": tool,
		"tool_choice":     nested(below{"function": names("name")}, "type", "function"),
		"response_format": nested(below{"json_schema": names("schema", "name", "strict")}, "type", "json_schema"),
		"text":            names("verbosity"), "fallbacks": names("model"), "cache_control": cacheShape,
	}, "model", "user", "messages", "stream", "stream_options", "max_completion_tokens", "max_tokens", "n",
		"reasoning_effort", "reasoning", "tools", "tool_choice", "parallel_tool_calls", "response_format", "stop",
		"stop_token_ids", "temperature", "top_p", "top_k", "min_p", "min_temp", "max_temp", "frequency_penalty",
		"presence_penalty", "repetition_penalty", "seed", "logprobs", "top_logprobs", "store", "text", "verbosity",
		"include", "metadata", "prompt_cache_key", "prompt_cache_retention", "fallbacks", "anon_user_id",
		"cache_control")
	for _, word := range append([]string{brand}, aliases...) {
		members = append(members, scan.Member{Name: word + "_parameters", Child: brandShape(word)})
	}
	for _, name := range drops {
		// A variant of a guarded name never passes the scan.
		if !slices.ContainsFunc(members, func(m scan.Member) bool { return strings.EqualFold(m.Name, name) }) {
			members = append(members, scan.Member{Name: name})
		}
	}
	return scan.NewShape(members...)
}

// SearchMembers are those of the tool x_search (addendum 6.2), from ToolSearch on.
var SearchMembers = []string{"allowed_x_handles", "excluded_x_handles", "from_date", "to_date",
	"enable_image_understanding", "enable_video_understanding"}

// cacheShape is cache_control, wherever a body may have it.
var cacheShape = names("type", "ttl")

// IsCacheControl says that a field of that Shape is a member of a cache_control.
func IsCacheControl(s *scan.Shape) bool { return s == cacheShape }

// brandShape lists addendum 5.3 for one brand word.
func brandShape(word string) *scan.Shape {
	return names(
		"character_slug", "strip_thinking_response", "disable_thinking", "enable_e2ee",
		"enable_web_search", "enable_web_scraping", "enable_web_citations",
		"include_search_results_in_stream", "return_search_results_as_documents",
		"include_"+word+"_system_prompt", "enable_x_search",
	)
}

// EmbedShape is every member of an embeddings body; the body is strict.
func EmbedShape() *scan.Shape {
	return names("model", "user", "input", "encoding_format", "dimensions")
}
