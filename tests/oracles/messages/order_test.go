package messages_test

import (
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
)

// kinds are the kinds of a message's blocks.
func kinds(m *anthropic.Message) string {
	var list []string
	for _, block := range m.Content {
		list = append(list, block.Type)
	}
	return strings.Join(list, " ")
}

const (
	textSeal = `"reasoning_details":[{"type":"reasoning.encrypted","data":"dGV4dA==","format":"google-gemini-v1","index":0}]`
	callSeal = `"reasoning_details":[{"id":"c","type":"reasoning.encrypted","data":"Y2FsbA==","format":"google-gemini-v1","index":1}]`
	oneCall  = `"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]`
)

// Claude Code prints the last block of an answer, so no thought may follow the text. A
// signature that follows the text goes before the next call.
func TestThoughtsPrecedeTheText(t *testing.T) {
	t.Parallel()
	f, c := asked(t, with(`"stream":true,`+thinking))
	for _, s := range []struct{ in, want string }{
		{chunks(textSeal, `"content":"a"`), "redacted_thinking text"},
		{chunks(`"reasoning_content":"h"`, textSeal, `"content":"a"`), "thinking text"},
		{chunks(`"content":"a"`, `"content":"b"`, textSeal), "text"},
		{chunks(`"reasoning_content":"h"`, `"content":"a"`, textSeal), "thinking text"},
		{chunks(`"content":"a"`, textSeal, callSeal, oneCall), "text redacted_thinking redacted_thinking tool_use"},
		{chunks(callSeal, oneCall), "redacted_thinking tool_use"},
		{chunks(oneCall, callSeal), "tool_use redacted_thinking"}, // nothing follows the call, and it may not be lost
	} {
		m, failed := heard(t, passed(t, f, c, s.in+done))
		if got := kinds(&m); got != s.want || failed != "" {
			t.Errorf("%s\nis %s %s, want %s", s.in, got, failed, s.want)
		}
	}
}

// A client that did not ask for thoughts gets none, except those that a model wants back
// with its calls.
func TestThoughtsAreSentOnRequest(t *testing.T) {
	t.Parallel()
	const (
		own  = `"reasoning_details":[{"type":"reasoning.text","text":"h","signature":"s","format":"anthropic-claude-v1","index":0}]`
		both = `"reasoning_details":[{"type":"reasoning.text","text":"h","signature":"s","format":"google-gemini-v1","index":0},` +
			`{"id":"c","type":"reasoning.encrypted","data":"Y2FsbA==","format":"google-gemini-v1","index":1}]`
	)
	for _, members := range []string{`"temperature":1`, `"thinking":{"type":"disabled"}`, `"output_config":{"effort":"high"}`} {
		f, c := asked(t, with(members))
		for said, want := range map[string]string{
			`"content":"a","reasoning_content":"h"`:                         "text",
			`"content":"a","reasoning_content":"h",` + own:                  "text",
			`"content":"a","reasoning_content":"h",` + both:                 "text",
			`"content":"a","reasoning_content":"h",` + both + "," + oneCall: "redacted_thinking redacted_thinking text tool_use",
			`"content":null,"reasoning_content":"h",` + own + "," + oneCall: "tool_use",
		} {
			if _, m := message(t, f, c, completion(said, `"finish_reason":"stop"`)); kinds(m) != want {
				t.Errorf("%s: %s\nis %s, want %s", members, said, kinds(m), want)
			}
		}
		f, c = asked(t, with(`"stream":true,`+members))
		for in, want := range map[string]string{
			chunks(`"reasoning_content":"h"`, own, `"content":"a"`, textSeal):  "text",
			chunks(`"reasoning_content":"h"`, both, `"content":"a"`, oneCall):  "text redacted_thinking redacted_thinking tool_use",
			chunks(`"reasoning":"h"`, `"content":"a","reasoning_content":"h"`): "text",
		} {
			m, failed := heard(t, passed(t, f, c, in+done))
			if got := kinds(&m); got != want || failed != "" {
				t.Errorf("%s: %s\nis %s %s, want %s", members, in, got, failed, want)
			}
		}
	}
}
