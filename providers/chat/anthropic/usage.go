package anthropic

import (
	"farebox/providers/chat/dialect"

	"farebox/proxy/jsontext"
)

// counts are the token counts of this dialect, whose classes are disjoint:
// input_tokens has neither the tokens read from the cache nor those written to it.
type counts struct {
	input, cacheRead, cacheWrite, output, thinking int64
	seen                                           bool // some count was reported
	prompt                                         bool // …of the prompt
}

// read takes the counts of a usage object; counts that it does not name stay, since
// the last event of a stream need not repeat everything.
func (n *counts) read(raw []byte) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	for m := range jsontext.Members(raw, 1) {
		value := raw[m.From:m.To]
		if string(m.Key) == "output_tokens_details" && value[0] == '{' {
			n.details(value)
			continue
		}
		v, ok := jsontext.ReadCount(value)
		if !ok {
			continue
		}
		switch string(m.Key) {
		case "input_tokens":
			n.input, n.prompt = v, true
		case "cache_read_input_tokens":
			n.cacheRead = v
		case "cache_creation_input_tokens":
			n.cacheWrite = v
		case "output_tokens":
			n.output = v
		default:
			continue
		}
		n.seen = true
	}
}

func (n *counts) details(raw []byte) {
	for m := range jsontext.Members(raw, 1) {
		if string(m.Key) == "thinking_tokens" {
			n.thinking, _ = jsontext.ReadCount(raw[m.From:m.To])
		}
	}
}

// usage is the counts in the classes of chat completions, where the prompt has
// everything.
func (n *counts) usage() dialect.Usage {
	u := dialect.Usage{
		Prompt: n.input + n.cacheRead + n.cacheWrite, Cached: n.cacheRead, CacheWrite: n.cacheWrite,
		Completion: n.output, Reasoning: n.thinking, Seen: n.seen,
	}
	u.Bound()
	return u
}

// finishReason maps a stop_reason to a finish_reason.
func finishReason(stop []byte) string {
	switch string(stop) {
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "tool_use":
		return "tool_calls"
	case "refusal":
		return "content_filter"
	}
	return "stop" // end_turn, stop_sequence, pause_turn
}

// completionID is a completion's id for a message's, without its prefix.
func completionID(id []byte) []byte {
	if len(id) > 4 && string(id[:4]) == "msg_" {
		return id[4:]
	}
	return id
}

// thoughtFormat names the models that can read a thought again (addendum 5.2).
const thoughtFormat = dialect.AnthropicThoughts
