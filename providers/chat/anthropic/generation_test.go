package anthropic

import "testing"

func TestVersionsAreReadFromNames(t *testing.T) {
	f := func(name, family string, version int, known bool) {
		t.Helper()
		gotFamily, got, ok := parseName(name)
		if gotFamily != family || got != version || ok != known {
			t.Errorf("%s: %s %d %v", name, gotFamily, got, ok)
		}
	}
	f("claude-opus-4-5-20251101", "opus", 405, true)
	f("claude-opus-4-20250514", "opus", 400, true)
	f("claude-sonnet-4-5", "sonnet", 405, true)
	f("claude-sonnet-4.6", "sonnet", 406, true)
	f("claude-haiku-4-5@20251001", "haiku", 405, true)
	f("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "sonnet", 405, true)
	f("anthropic/claude-opus-5", "opus", 500, true)
	f("claude-opus-5-5", "opus", 505, true)
	f("claude-opus-4-8[1m]", "opus", 408, true)
	f("claude-3-7-sonnet-20250219", "sonnet", 307, true)
	f("claude-3-opus-20240229", "opus", 300, true)
	f("claude-3-5-haiku-latest", "haiku", 305, true)
	f("claude-2.1", "sonnet", 201, true)
	f("claude-mythos-preview", "mythos", 0, true)
	f("claude-opus-latest", "opus", 0, true)
	f("claude", "", 0, true)
	f("glm-5", "", 0, false)
}
