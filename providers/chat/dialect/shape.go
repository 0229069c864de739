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
)

// Ids of the members of the object that a part carries.
const (
	LinkURL    = 0 // image_url, video_url
	AudioData  = 0 // input_audio
	AudioKind  = 1
	FileData   = 0 // file
	FileName   = 1
	CallID     = 0 // tool_calls
	CallType   = 1
	CallTarget = 2 // its function
	CallName   = 0
	CallInput  = 1
	ToolType   = 0 // tools
	ToolTarget = 1 // its function
	ToolCache  = 2
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

func names(list ...string) *scan.Shape {
	members := make([]scan.Member, len(list))
	for i, name := range list {
		members[i].Name = name
	}
	return scan.NewShape(members...)
}

// ChatShape is every member of a chat body that somebody validates, prices,
// routes or changes, with the parameter objects of one brand and its aliases,
// and the members that some upstream is not sent (drops).
func ChatShape(brand string, aliases, drops []string) *scan.Shape {
	link := names("url")
	part := scan.NewShape(
		scan.Member{Name: "type"},
		scan.Member{Name: "text"},
		scan.Member{Name: "image_url", Child: link},
		scan.Member{Name: "input_audio", Child: names("data", "format")},
		scan.Member{Name: "video_url", Child: link},
		scan.Member{Name: "file", Child: names("file_data", "filename")},
		scan.Member{Name: "cache_control", Child: cacheShape},
		scan.Member{Name: "refusal"},
	)
	call := scan.NewShape(
		scan.Member{Name: "id"},
		scan.Member{Name: "type"},
		scan.Member{Name: "function", Child: names("name", "arguments")},
	)
	message := scan.NewShape(
		scan.Member{Name: "role"},
		scan.Member{Name: "content", Child: part},
		scan.Member{Name: "name"},
		scan.Member{Name: "tool_call_id"},
		scan.Member{Name: "tool_calls", Child: call},
		scan.Member{Name: "reasoning_content"},
		scan.Member{Name: "reasoning_details"},
		scan.Member{Name: "thought_signature"},
		scan.Member{Name: "cache_control", Child: cacheShape},
	)
	tool := scan.NewShape(
		scan.Member{Name: "type"},
		scan.Member{Name: "function", Child: names("name", "description", "parameters", "strict")},
		scan.Member{Name: "cache_control", Child: cacheShape},
	)
	format := scan.NewShape(
		scan.Member{Name: "type"},
		scan.Member{Name: "json_schema", Child: names("schema", "name", "strict")},
	)
	choice := scan.NewShape(
		scan.Member{Name: "type"},
		scan.Member{Name: "function", Child: names("name")},
	)
	members := []scan.Member{
		{Name: "model"},
		{Name: "user"},
		{Name: "messages", Child: message},
		{Name: "stream"},
		{Name: "stream_options", Child: names("include_usage")},
		{Name: "max_completion_tokens"},
		{Name: "max_tokens"},
		{Name: "n"},
		{Name: "reasoning_effort"},
		{Name: "reasoning", Child: names("effort", "summary", "enabled")},
		{Name: "tools", Child: tool},
		{Name: "tool_choice", Child: choice},
		{Name: "parallel_tool_calls"},
		{Name: "response_format", Child: format},
		{Name: "stop"},
		{Name: "stop_token_ids"},
		{Name: "temperature"},
		{Name: "top_p"},
		{Name: "top_k"},
		{Name: "min_p"},
		{Name: "min_temp"},
		{Name: "max_temp"},
		{Name: "frequency_penalty"},
		{Name: "presence_penalty"},
		{Name: "repetition_penalty"},
		{Name: "seed"},
		{Name: "logprobs"},
		{Name: "top_logprobs"},
		{Name: "store"},
		{Name: "text", Child: names("verbosity")},
		{Name: "verbosity"},
		{Name: "include"},
		{Name: "metadata"},
		{Name: "prompt_cache_key"},
		{Name: "prompt_cache_retention"},
		{Name: "fallbacks", Child: names("model")},
		{Name: "anon_user_id"},
		{Name: "cache_control", Child: cacheShape},
	}
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
