package dialect_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"farebox/providers/chat/anthropic"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/openai"
)

// source is the annotation for a mark in a text.
const source = `{"type":"url_citation","url_citation":{"url":"https://x","title":"X","start_index":0,"end_index":5}}`

// additions are all that the service may add. The text up to a caret is held back.
func additions() dialect.Additions {
	var held []byte
	return dialect.Additions{
		Parameters: []byte(`{"web_search_citations":[{"title":"X","url":"https://x"}]}`),
		Documents:  &dialect.ToolCall{ID: []byte("web_search_call"), Name: []byte("svc_documents"), Input: []byte(`{\"documents\":[]}`)},
		Cite: func(text []byte, ends bool) (rest, sources []byte) {
			held = append(held, text...)
			if !ends && !bytes.HasSuffix(held, []byte("^1^")) {
				return nil, nil
			}
			rest, found := bytes.CutSuffix(held, []byte("^1^"))
			if held = nil; found {
				sources = []byte(source)
			}
			return rest, sources
		},
	}
}

const (
	claudeBegins = `data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":3,"output_tokens":1}}}` + "\n\n"
	claudeStream = claudeBegins + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"First"}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"^1^"}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" and last."}}` + "\n\n" +
		`data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":3,"output_tokens":7}}` + "\n\n" +
		`data: {"type":"message_stop"}` + "\n\n"
	chunkStream = `data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n" +
		`data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"First"}}]}` + "\n\n" +
		`data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"^1^"}}]}` + "\n\n" +
		`data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":" and last."}}]}` + "\n\n" +
		`data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10}}` + "\n\n" +
		"data: [DONE]\n\n"
	claudeWhole = `{"id":"msg_1","type":"message","content":[{"type":"text","text":"First^1^"}],"stop_reason":"end_turn",` +
		`"usage":{"input_tokens":3,"output_tokens":7}}`
	wholeCompletion = `{"id":"chatcmpl-1","choices":[{"index":0,"message":{"role":"assistant","content":"First^1^"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10}}`
)

var modelName = regexp.MustCompile(`"model":"[^"]*"`)

// The service adds the same to an answer in a client's form, whether its upstream speaks chat completions or a dialect that
// is translated.
func TestAdditionsAreTheSameInAllDialects(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"messages", "responses", "spec"} {
		var streams, wholes []string
		for _, p := range []struct {
			pair
			events, body string
		}{
			{pair{of: openai.Dialect{}, forms: []string{"chat"}}, chunkStream, wholeCompletion},
			{pair{of: anthropic.Dialect{}, forms: []string{"chat"}}, claudeStream, claudeWhole},
		} {
			a := answer{body: p.events, adds: additions}
			streams = append(streams, modelName.ReplaceAllString(timeless(p.streamed(t, form, &a, 60)), ""))
			a = answer{body: p.body, adds: additions}
			wholes = append(wholes, modelName.ReplaceAllString(timeless(p.whole(t, form, &a)), ""))
		}
		for _, both := range [][]string{streams, wholes} {
			if both[0] != both[1] {
				t.Errorf("%s: of chat completions:\n%s\nof Anthropic:\n%s", form, both[0], both[1])
			}
			for _, word := range []string{"https://x", "svc_documents", "web_search", "First"} {
				if !strings.Contains(both[1], word) {
					t.Errorf("%s: %s is missing: %s", form, word, both[1])
				}
			}
			if strings.Contains(both[1], "^1^") {
				t.Errorf("%s: the mark is in the text: %s", form, both[1])
			}
		}
	}
}

// The model's calls behind the search results are calls of their own: they began with the same number, and
// a stream of messages ended with an error.
func TestCallsAreCountedBehindTheDocuments(t *testing.T) {
	t.Parallel()
	claude := strings.Replace(claudeStream, `data: {"type":"message_delta"`,
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"look","input":{}}}`+"\n\n"+
			`data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}`+"\n\n"+
			`data: {"type":"content_block_stop","index":1}`+"\n\n"+`data: {"type":"message_delta"`, 1)
	chunks := strings.Replace(chunkStream, `data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},`,
		`data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"toolu_1","function":{"name":"look",`+
			`"arguments":"{\"a\":1}"}}]}}]}`+"\n\n"+`data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},`, 1)
	for _, form := range []string{"messages", "responses", "spec"} {
		for _, p := range []struct {
			pair
			events string
		}{{pair{of: openai.Dialect{}, forms: []string{"chat"}}, chunks}, {pair{of: anthropic.Dialect{}, forms: []string{"chat"}}, claude}} {
			got := p.streamed(t, form, &answer{body: p.events, adds: additions}, 60)
			if strings.Contains(got, "mixed up") || !strings.Contains(got, `"name":"look"`) || !strings.Contains(got, `"delta":"{\"a\":1}"`) &&
				!strings.Contains(got, `"partial_json":"{\"a\":1}"`) {
				t.Errorf("%s: %s", form, got)
			}
		}
	}
}
