package messages

import "farebox/proxy/scan"

// Ids of the top members of a body.
const (
	TopModel = iota
	TopMessages
	TopMaxTokens
	TopSystem
	TopStream
	TopMetadata
	TopStop
	TopTemperature
	TopTopP
	TopTopK
	TopTools
	TopToolChoice
	TopThinking
	TopOutput
	TopFormat // output_format, its name before output_config
	TopCache
	TopTier
	TopContext
	TopSpeed
	TopGeo
	TopContainer
	TopServers
	TopDiagnostics
	TopThread
)

// Ids of the members of a content block, of any kind. The order of the first
// ones is that of dialect's content parts in no way.
const (
	BlockType = iota
	BlockText
	BlockSource
	BlockCache
	BlockTitle
	BlockContext
	BlockCitations
	BlockID
	BlockName
	BlockInput
	BlockCall // tool_use_id
	BlockContent
	BlockError
	BlockThinking
	BlockSignature
	BlockData
	BlockCaller
	BlockTool   // tool_name
	BlockChange // tool, of an addition or a removal
)

// Ids of the members of smaller objects.
const (
	MessageRole    = 0
	MessageContent = 1

	CacheType = 0 // cache_control
	CacheTTL  = 1

	SourceType    = 0
	SourceMedia   = 1
	SourceData    = 2
	SourceURL     = 3
	SourceFile    = 4
	SourceContent = 5

	ToolType     = 0
	ToolName     = 1
	ToolText     = 2 // description
	ToolSchema   = 3
	ToolCache    = 4
	ToolStrict   = 5
	ToolEager    = 6 // eager_input_streaming
	ToolDeferred = 7 // defer_loading
	ToolCallers  = 8
	ToolExamples = 9

	ChoiceType   = 0
	ChoiceName   = 1
	ChoiceSingle = 2 // disable_parallel_tool_use

	ThinkingType    = 0
	ThinkingBudget  = 1
	ThinkingDisplay = 2

	OutputEffort = 0
	OutputFormat = 1
	FormatType   = 0
	FormatSchema = 1

	ChangeName       = 1
	ChangeDefinition = 2

	MetadataUser = 0
	EditList     = 0 // context_management.edits
	EditType     = 0
	EditKeep     = 1
	EnabledFlag  = 0 // citations
)

type below = map[string]*scan.Shape

func nested(in below, list ...string) *scan.Shape { return scan.NewShape(scan.Members(in, list...)...) }

func names(list ...string) *scan.Shape { return nested(nil, list...) }

var cacheShape = names("type", "ttl")

// IsCache says that a field of that Shape is a member of a cache_control.
func IsCache(s *scan.Shape) bool { return s == cacheShape }

// blockShape is every member of a content block; inner is that of the blocks in it.
func blockShape(inner *scan.Shape) *scan.Shape {
	in := below{"cache_control": cacheShape, "citations": names("enabled"),
		"tool": names("type", "name", "definition")}
	source := below{}
	if inner != nil {
		in["content"], source["content"] = inner, inner
	}
	in["source"] = nested(source, "type", "media_type", "data", "url", "file_id", "content")
	return nested(in, "type", "text", "source", "cache_control", "title", "context", "citations", "id", "name",
		"input", "tool_use_id", "content", "is_error", "thinking", "signature", "data", "caller", "tool_name", "tool")
}

// Shape is every member of a body that our code validates, translates or changes.
var Shape = func() *scan.Shape {
	format := names("type", "schema")
	deepest := blockShape(blockShape(nil)) // documents of parts inside results of tools
	return nested(below{
		"messages": nested(below{"content": blockShape(deepest)}, "role", "content"),
		"system":   blockShape(nil),
		"metadata": names("user_id"),
		"tools": nested(below{"cache_control": cacheShape}, "type", "name", "description", "input_schema",
			"cache_control", "strict", "eager_input_streaming", "defer_loading", "allowed_callers", "input_examples"),
		"tool_choice":   names("type", "name", "disable_parallel_tool_use"),
		"thinking":      names("type", "budget_tokens", "display"),
		"output_config": nested(below{"format": format}, "effort", "format"),
		"output_format": format, "cache_control": cacheShape,
		"context_management": nested(below{"edits": names("type", "keep")}, "edits"),
	}, "model", "messages", "max_tokens", "system", "stream", "metadata", "stop_sequences", "temperature", "top_p",
		"top_k", "tools", "tool_choice", "thinking", "output_config", "output_format", "cache_control", "service_tier",
		"context_management", "speed", "inference_geo", "container", "mcp_servers", "diagnostics",
		"thread")
}()
