package messages

import (
	"strings"
	"testing"
)

// Members left out of a chat body are named, unless their absence changes nothing.
func TestReadReportsOmittedMembers(t *testing.T) {
	t.Parallel()
	edits := func(list string) string { return with(`"context_management":{"edits":[` + list + `]}`) }
	for body, want := range map[string]string{
		hello:     "",
		edits(``): "",
		edits(`{"type":"clear_thinking_20251015","keep":"all"}`):                                                                                                         "",
		edits(`{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":1}}`):                                                                           "context_management",
		edits(`{"type":"clear_tool_uses_20250919"},{"type":"clear_thinking_20251015","keep":"all"}`):                                                                     "context_management",
		with(`"thinking":{"type":"between_tools"}`):                                                                                                                      "thinking.type",
		with(`"tools":[{"name":"f","input_schema":{"type":"object"},"input_examples":[{}]}]`):                                                                            "tools.input_examples",
		with(`"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2"},{"type":"text","text":"Be good"}]`):                                            "x-anthropic-billing-header",
		talk(`{"role":"user","content":[{"type":"document","context":"c","citations":{"enabled":true},"source":{"type":"text","media_type":"text/plain","data":"x"}}]}`): "messages.content.citations, messages.content.context",
	} {
		f, chat, wrong := read(t, body)
		if got := f.LeftOut().String(); got != want || len(wrong) > 0 || f.Untold() != nil {
			t.Errorf("%s\ntells %q, refused for %v %v; want %q", body, got, wrong, f.Untold(), want)
		}
		chatOf(t, chat)
	}
}

// A tool that is searched for is the model's from when a result of the search names it.
func TestDeferredToolsWaitForTheirSearch(t *testing.T) {
	t.Parallel()
	const tools = `"tools":[{"name":"search","input_schema":{"type":"object"}},{"name":"f","defer_loading":true,"input_schema":{"type":"object"}},` +
		`{"name":"g","defer_loading":true,"input_schema":{"type":"object"}}]`
	_, before, _ := read(t, with(tools))
	body := talk(`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"search","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_reference","tool_name":"g"}]}]}`)
	f, after, wrong := read(t, body[:len(body)-1]+","+tools+"}")
	if len(wrong) > 0 || f.Untold() != nil || f.LeftOut().String() != "" {
		t.Fatal(wrong, f.Untold(), f.LeftOut())
	}
	names := func(chat string) string {
		var list []string
		for _, name := range []string{"search", "f", "g"} {
			if strings.Contains(chat, `"function":{"name":"`+name+`","parameters"`) {
				list = append(list, name)
			}
		}
		return strings.Join(list, " ")
	}
	if names(before) != "search" || names(after) != "search g" {
		t.Errorf("the model has %s, then %s", names(before), names(after))
	}
	change := func(kind, name string) string {
		return `{"role":"system","content":[{"type":"` + kind + `","tool":{"type":"tool_reference","name":"` + name + `"}}]}`
	}
	for changes, want := range map[string]string{
		change("tool_addition", "f"):                                                                             "search f",
		change("tool_addition", "f") + "," + change("tool_removal", "f"):                                         "search",
		change("tool_removal", "search"):                                                                         "",
		change("tool_removal", "search") + "," + change("tool_addition", "search"):                               "search",
		`{"role":"system","content":[{"type":"text","text":"so"},{"type":"tool_addition","tool":{"name":"g"}}]}`: "search g",
	} {
		body := talk(`{"role":"user","content":"q"},` + changes)
		f, chat, wrong := read(t, body[:len(body)-1]+","+tools+"}")
		if names(chat) != want || len(wrong) > 0 || !f.Instructs() || strings.Contains(chat, `"content":[]`) ||
			strings.Contains(chat, "so") != strings.Contains(changes, "so") {
			t.Errorf("%s\nis %s, %v; want %q", changes, chat, wrong, want)
		}
		chatOf(t, chat)
	}
	_, _, wrong = read(t, talk(`{"role":"user","content":"q"},{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"x"}}}]}`))
	if len(wrong) == 0 || wrong[0].Text != "messages.1.content.0.tool.definition: tools cannot yet be defined in a message." {
		t.Errorf("a tool that is defined in a message: %v", wrong)
	}
	if !strings.Contains(after, `"tool_call_id":"t","content":[{"type":"text","text":"{\"type\":\"tool_reference\",\"tool_name\":\"g\"}"}]`) {
		t.Errorf("the result is not reported: %s", after)
	}
}
