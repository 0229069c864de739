package gemini

import (
	"farebox/providers/chat/dialect"

	"farebox/proxy/jsontext"
)

// counts are the token counts of this dialect. Thoughts are next to the
// candidates' tokens, those added by tools next to the prompt's; the cached ones are
// part of the prompt.
type counts struct {
	prompt, tools, cached, output, thoughts, total int64
	seen                                           bool // some count was reported
}

// read takes the counts of a usageMetadata object. Each is whole, without the zeros
// in it; one of zeros alone says nothing where counts have come before.
func (n *counts) read(raw []byte) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var next counts
	for m := range jsontext.Members(raw, 1) {
		v, ok := jsontext.ReadCount(raw[m.From:m.To])
		if !ok {
			continue
		}
		switch string(m.Key) {
		case "promptTokenCount":
			next.prompt = v
		case "toolUsePromptTokenCount":
			next.tools = v
		case "cachedContentTokenCount":
			next.cached = v
		case "candidatesTokenCount":
			next.output = v
		case "thoughtsTokenCount":
			next.thoughts = v
		case "totalTokenCount":
			next.total = v
		default:
			continue
		}
		next.seen = true
	}
	if next.seen && (!n.seen || next != counts{seen: true}) {
		*n = next
	}
}

// usage is the counts in the classes of chat completions.
func (n *counts) usage() dialect.Usage {
	u := dialect.Usage{
		Prompt: n.prompt + n.tools, Cached: n.cached, Completion: n.output + n.thoughts, Reasoning: n.thoughts,
		Total: n.total, Seen: n.seen,
	}
	u.Bound()
	return u
}

// ending is the meaning of a finishReason.
type ending struct {
	finish string // finish_reason
	failed bool   // the model made no answer that can be used
}

var endings = map[string]ending{
	"STOP":                     {finish: "stop"},
	"MAX_TOKENS":               {finish: "length"},
	"SAFETY":                   {finish: "content_filter"},
	"RECITATION":               {finish: "content_filter"},
	"LANGUAGE":                 {finish: "content_filter"},
	"BLOCKLIST":                {finish: "content_filter"},
	"PROHIBITED_CONTENT":       {finish: "content_filter"},
	"SPII":                     {finish: "content_filter"},
	"IMAGE_SAFETY":             {finish: "content_filter"},
	"IMAGE_PROHIBITED_CONTENT": {finish: "content_filter"},
	"IMAGE_RECITATION":         {finish: "content_filter"},
	"MODEL_ARMOR":              {finish: "content_filter"},

	"MALFORMED_FUNCTION_CALL":   {failed: true},
	"UNEXPECTED_TOOL_CALL":      {failed: true},
	"TOO_MANY_TOOL_CALLS":       {failed: true},
	"MISSING_THOUGHT_SIGNATURE": {failed: true},
	"MALFORMED_RESPONSE":        {failed: true},
}

// endingOf reads a finishReason; new ones end an answer as any other word does.
func endingOf(reason []byte, calls bool) ending {
	e, known := endings[string(reason)]
	if !known {
		e.finish = "stop"
	}
	if calls && e.finish == "stop" {
		e.finish = "tool_calls"
	}
	return e
}

// Errors in the vendor's form for answers that hold none.
var (
	blocked   = []byte(`{"error":{"code":"content_policy_violation","message":"The prompt was blocked by the model's safety system."}}`)
	malformed = []byte(`{"error":{"code":500,"message":"The model made a call that cannot be read.","status":"INTERNAL"}}`)
)
