package image

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func completion(text, end string) []byte {
	b, err := json.Marshal(map[string]any{
		"choices": []any{map[string]any{"finish_reason": end, "message": map[string]any{"content": text}}}})
	if err != nil {
		panic(err)
	}
	return b
}

// Only a whole, short, plain answer is a prompt.
func TestRewrittenPromptsAreRead(t *testing.T) {
	t.Parallel()
	f := func(answer []byte, want, reason string) {
		t.Helper()
		got, err := readRewritten(answer, 10)
		if got != want || (err == nil) != (reason == "") || err != nil && !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %q, %v; want %q, %q", answer, got, err, want, reason)
		}
	}
	f(completion(" a cat\n", "stop"), "a cat", "")
	f(completion(`"a cat"`, "stop"), "a cat", "")
	f(completion(`"a" or "b"`, "stop"), `"a" or "b"`, "")
	f(completion("猫猫猫猫猫猫猫猫猫猫", "stop"), "猫猫猫猫猫猫猫猫猫猫", "")
	f(completion("猫猫猫猫猫猫猫猫猫猫猫", "stop"), "", "too long: 11")
	f(completion("a cat", ""), "a cat", "")
	f(completion("a cat", "length"), "", "length")
	f(completion("a cat", "tool_calls"), "", "tool_calls")
	f(completion(`""`, "stop"), "", "no text")
	f(completion("a\x00b", "stop"), "", "is not text")
	f([]byte(`{"choices":[{"message":{"content":null}}]}`), "", "no text")
	f([]byte(`{"choices":[{"message":{"content":[{"type":"text","text":"x"}]}}]}`), "", "no text")
	f([]byte(`{"choices":[]}`), "", "no text")
	f([]byte(`{`), "", "no text")
}

// Only bounded text is used from any answer of the text model.
func FuzzRewrittenPrompt(f *testing.F) {
	f.Add(completion("a cat", "stop"))
	f.Add(completion(`"`, "stop"))
	f.Add([]byte(`{"choices":[{"message":{"content":"\ud800\u0000"}}]}`))
	f.Add([]byte(`{"choices":{"0":{"message":{"content":"x"}}}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		text, err := readRewritten(answer, 20)
		if err != nil {
			return
		}
		if n := utf8.RuneCountInString(text); n == 0 || n > 20 || !utf8.ValidString(text) ||
			strings.TrimSpace(text) != text || strings.ContainsRune(text, 0) {
			t.Errorf("%q", text)
		}
		header := appendEscapedHeader(nil, text, maxEnhancedHeader)
		if back, err := url.PathUnescape(string(header)); err != nil || back != text {
			t.Errorf("%q came back as %q (%v)", text, back, err)
		}
	})
}

// The header of a long prompt is clipped between two characters.
func TestHeadersOfLongPromptsAreClipped(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("x", 5000), strings.Repeat("猫 ", 2000), strings.Repeat("🐈", 1500)} {
		header := appendEscapedHeader(nil, text, maxEnhancedHeader)
		back, err := url.PathUnescape(string(header))
		if err != nil || len(header) > maxEnhancedHeader || len(header) < maxEnhancedHeader-12 ||
			!strings.HasPrefix(text, back) {
			t.Errorf("%d bytes of header for %.20s…: %v", len(header), text, err)
		}
	}
}
