package responses

import (
	"slices"

	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

// Ids of the members of a body that our code reads. The <brand>_parameters objects
// follow from TopBrand on, in the order of the brand word and its aliases.
const (
	TopModel = iota
	TopInput
	TopInstructions
	TopStream
	TopMaxOutputTokens
	TopTemperature
	TopTopP
	TopTools
	TopToolChoice
	TopParallelToolCalls
	TopText
	TopReasoning
	TopInclude
	TopMetadata
	TopTopLogprobs
	TopTruncation
	TopFallbacks
	TopWebSearch
	TopUser
	TopStreamOptions
	TopPreviousResponseID
	TopConversation
	TopBackground
	TopStore
	TopN
	TopStop
	TopSeed
	TopMaxToolCalls
	TopPrompt
	TopPromptCacheKey
	TopMessages
	TopMaxTokens
	TopMaxCompletionTokens
	TopResponseFormat
	TopFunctions
	TopFunctionCall
	TopLogprobs
	TopVerbosity
	TopReasoningEffort
	TopAnonUserID
	TopServiceTier
	TopSafetyIdentifier
	TopPromptCacheRetention
	TopClientMetadata
	TopContextManagement
	TopTopK
	TopMinP
	TopFrequencyPenalty
	TopPresencePenalty
	TopRepetitionPenalty
	TopBrand
)

// Ids of the members of an input item.
const (
	ItemType = iota
	ItemRole
	ItemContent
	ItemID
	ItemStatus
	ItemSummary
	ItemEncryptedContent
	ItemCallID
	ItemName
	ItemArguments
	ItemOutput
	ItemInput
	ItemPhase
	ItemNamespace
	ItemTools
	ItemAction
	ItemExecution
)

// Ids of the members of a content part.
const (
	PartType = iota
	PartText
	PartRefusal
	PartImageURL
	PartDetail
	PartFileID
	PartFileData
	PartFilename
	PartFileURL
	PartInputAudio
	PartVideoURL
	PartFile
	PartCacheControl
)

// Ids of the members of a tool, and of a tool_choice.
const (
	ToolType = iota
	ToolName
	ToolDescription
	ToolParameters
	ToolStrict
	ToolFunction
	ToolCustom
	ToolFormat
	ToolTools
	ToolExecution
	ToolSearchFrom // the first member of x_search
)

// Ids of the members of a tool_choice. The first ones are those of the tools in it, too.
const (
	ChoiceType = iota
	ChoiceName
	ChoiceFunction
	ChoiceCustom
	ChoiceMode
	ChoiceTools
	ChoiceNamespace
)

// ChosenNamespace is that of the tools in a tool_choice.
const ChosenNamespace = 4

// Ids of the members of a tool's function, and of its custom.
const (
	InnerName = iota
	InnerDescription
	InnerParameters
	InnerStrict
	InnerFormat
)

// Ids of the members of small objects.
const (
	ImageURL    = 0 // image_url as an object
	ImageDetail = 1
	AudioData   = 0 // input_audio
	AudioKind   = 1
	VideoURL    = 0 // video_url as an object
	CacheType   = 0 // cache_control
	CacheTTL    = 1

	ReasoningEffort  = 0
	ReasoningSummary = 1

	FileData = 0 // file, as chat completions write it
	FileName = 1
	FileID   = 2

	TextFormat    = 0
	TextVerbosity = 1

	FormatType        = 0
	FormatName        = 1
	FormatSchema      = 2
	FormatStrict      = 3
	FormatDescription = 4

	FallbackModel = 0

	BrandWebSearch = 0
)

// brandMembers are those of <brand>_parameters that have an effect here (addendum
// 5.3); include_<brand>_system_prompt follows them.
var brandMembers = []string{
	"enable_web_search", "character_slug", "enable_e2ee", "enable_web_scraping", "enable_web_citations",
	"include_search_results_in_stream",
}

// Shape is every member of a body that our code validates, prices, translates or
// changes, with the parameter objects of one brand and its aliases. No upstream is sent
// any other top member.
func Shape(brand string, aliases []string) *scan.Shape {
	type below = map[string]*scan.Shape
	shape := func(in below, names ...string) *scan.Shape { return scan.NewShape(scan.Members(in, names...)...) }
	part := shape(below{
		"image_url": shape(nil, "url", "detail"), "file": shape(nil, "file_data", "filename", "file_id"),
		"input_audio": shape(nil, "data", "format"), "video_url": shape(nil, "url"),
		"cache_control": shape(nil, "type", "ttl"),
	}, "type", "text", "refusal", "image_url", "detail", "file_id", "file_data", "filename", "file_url", "input_audio",
		"video_url", "file", "cache_control")
	inner := shape(nil, "name", "description", "parameters", "strict", "format")
	ofTool := append([]string{"type", "name", "description", "parameters", "strict", "function", "custom", "format",
		"tools", "execution"}, dialect.SearchMembers...)
	tools := shape(below{
		"function": inner, "custom": inner, "tools": shape(below{"function": inner, "custom": inner}, ofTool...),
	}, ofTool...)
	named := below{"function": shape(nil, "name"), "custom": shape(nil, "name")}
	members := scan.Members(below{
		"input": shape(below{"content": part, "tools": tools}, "type", "role", "content", "id", "status", "summary",
			"encrypted_content", "call_id", "name", "arguments", "output", "input", "phase", "namespace", "tools", "action",
			"execution"),
		"tools": tools,
		"tool_choice": shape(below{
			"function": named["function"], "custom": named["custom"],
			"tools": shape(named, "type", "name", "function", "custom", "namespace"),
		}, "type", "name", "function", "custom", "mode", "tools", "namespace"),
		"text": shape(below{"format": shape(nil, "type", "name", "schema", "strict", "description")}, "format",
			"verbosity"),
		"reasoning": shape(nil, "effort", "summary"), "fallbacks": shape(nil, "model"),
	}, "model", "input", "instructions", "stream", "max_output_tokens", "temperature", "top_p", "tools", "tool_choice",
		"parallel_tool_calls", "text", "reasoning", "include", "metadata", "top_logprobs", "truncation", "fallbacks",
		"web_search", "user", "stream_options", "previous_response_id", "conversation", "background", "store", "n",
		"stop", "seed", "max_tool_calls", "prompt", "prompt_cache_key", "messages", "max_tokens",
		"max_completion_tokens", "response_format", "functions", "function_call", "logprobs", "verbosity",
		"reasoning_effort", "anon_user_id", "service_tier", "safety_identifier", "prompt_cache_retention",
		"client_metadata", "context_management", "top_k", "min_p", "frequency_penalty", "presence_penalty",
		"repetition_penalty")
	for _, word := range append([]string{brand}, aliases...) {
		own := append(slices.Clone(brandMembers), "include_"+word+"_system_prompt")
		members = append(members, scan.Member{Name: word + "_parameters", Child: shape(nil, own...)})
	}
	return scan.NewShape(members...)
}

var (
	_ dialect.Form = (*Form)(nil)
)
