package messages

import "testing"

// What is left out of a chat body is named, unless its absence changes nothing.
func TestReadTellsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	edits := func(list string) string { return with(`"context_management":{"edits":[` + list + `]}`) }
	for body, want := range map[string]string{
		hello:     "",
		edits(``): "",
		edits(`{"type":"clear_thinking_20251015","keep":"all"}`):                                     "",
		edits(`{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":1}}`):       "context_management",
		edits(`{"type":"clear_tool_uses_20250919"},{"type":"clear_thinking_20251015","keep":"all"}`): "context_management",
	} {
		f, chat, wrong := read(t, body)
		if got := f.LeftOut().String(); got != want || len(wrong) > 0 || f.Untold() != nil {
			t.Errorf("%s\ntells %q, refused for %v %v; want %q", body, got, wrong, f.Untold(), want)
		}
		chatOf(t, chat)
	}
}
