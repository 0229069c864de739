package dialect

import "testing"

// A constant that drifts from its place in the shape would patch the wrong
// member of every request.
func TestIDsNameTheMembersTheyStandFor(t *testing.T) {
	chat := ChatShape("svc", []string{"other"}, nil)
	message := chat.Child(ChatMessages)
	part := message.Child(MessageContent)
	tool := chat.Child(ChatTools)
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("the id of %s names %s", want, got)
		}
	}
	for id, want := range map[int]string{
		TopModel: "model", TopUser: "user", ChatMessages: "messages", ChatStream: "stream",
		ChatStreamOptions:       "stream_options",
		ChatMaxCompletionTokens: "max_completion_tokens", ChatMaxTokens: "max_tokens", ChatN: "n",
		ChatReasoningEffort: "reasoning_effort",
		ChatReasoning:       "reasoning", ChatTools: "tools", ChatToolChoice: "tool_choice",
		ChatParallelToolCalls: "parallel_tool_calls",
		ChatResponseFormat:    "response_format", ChatStop: "stop", ChatStopTokenIDs: "stop_token_ids",
		ChatTemperature: "temperature",
		ChatTopP:        "top_p", ChatTopK: "top_k", ChatMinP: "min_p", ChatMinTemp: "min_temp",
		ChatMaxTemp:          "max_temp",
		ChatFrequencyPenalty: "frequency_penalty", ChatPresencePenalty: "presence_penalty",
		ChatRepetitionPenalty: "repetition_penalty",
		ChatSeed:              "seed", ChatLogprobs: "logprobs", ChatTopLogprobs: "top_logprobs", ChatStore: "store",
		ChatText:      "text",
		ChatVerbosity: "verbosity", ChatInclude: "include", ChatMetadata: "metadata",
		ChatPromptCacheKey:       "prompt_cache_key",
		ChatPromptCacheRetention: "prompt_cache_retention", ChatFallbacks: "fallbacks", ChatAnonUserID: "anon_user_id",
		ChatBrand: "svc_parameters", ChatBrand + 1: "other_parameters",
	} {
		f(chat.Name(id), want)
	}
	for id, want := range map[int]string{
		MessageRole: "role", MessageContent: "content", MessageName: "name", MessageToolCallID: "tool_call_id",
		MessageToolCalls:        "tool_calls",
		MessageReasoningContent: "reasoning_content", MessageReasoningDetails: "reasoning_details",
		MessageThoughtSignature: "thought_signature",
	} {
		f(message.Name(id), want)
	}
	for id, want := range map[int]string{
		PartType: "type", PartText: "text", PartImage: "image_url", PartAudio: "input_audio", PartVideo: "video_url",
		PartFile: "file", PartCacheControl: "cache_control",
	} {
		f(part.Name(id), want)
	}
	for id, want := range map[int]string{FunctionName: "name", FunctionDescription: "description",
		FunctionParameters: "parameters", FunctionStrict: "strict"} {
		f(tool.Child(ToolTarget).Name(id), want)
	}
	f(tool.Name(ToolType), "type")
	f(part.Child(PartImage).Name(LinkURL), "url")
	f(part.Child(PartVideo).Name(LinkURL), "url")
	f(part.Child(PartAudio).Name(AudioData), "data")
	f(part.Child(PartAudio).Name(AudioKind), "format")
	f(part.Child(PartFile).Name(FileData), "file_data")
	f(part.Child(PartFile).Name(FileName), "filename")
	call := message.Child(MessageToolCalls)
	f(call.Name(CallID), "id")
	f(call.Name(CallType), "type")
	f(call.Name(CallTarget), "function")
	f(call.Child(CallTarget).Name(CallName), "name")
	f(call.Child(CallTarget).Name(CallInput), "arguments")
	f(chat.Child(ChatStreamOptions).Name(StreamIncludeUsage), "include_usage")
	f(chat.Child(ChatReasoning).Name(ReasoningEffort), "effort")
	f(chat.Child(ChatReasoning).Name(ReasoningSummary), "summary")
	f(chat.Child(ChatReasoning).Name(ReasoningEnabled), "enabled")
	f(chat.Child(ChatToolChoice).Name(ChoiceType), "type")
	f(chat.Child(ChatToolChoice).Child(ChoiceTarget).Name(ChoiceName), "name")
	f(chat.Child(ChatResponseFormat).Name(FormatType), "type")
	f(chat.Child(ChatResponseFormat).Name(FormatSchema), "json_schema")
	f(chat.Child(ChatResponseFormat).Child(FormatSchema).Name(SchemaSchema), "schema")
	f(chat.Child(ChatResponseFormat).Child(FormatSchema).Name(SchemaStrict), "strict")
	f(chat.Child(ChatBrand+1).Name(9), "include_other_system_prompt")

	embed := EmbedShape()
	for id, want := range map[int]string{TopModel: "model", TopUser: "user", EmbedInput: "input",
		EmbedEncodingFormat: "encoding_format", EmbedDimensions: "dimensions"} {
		f(embed.Name(id), want)
	}
}
