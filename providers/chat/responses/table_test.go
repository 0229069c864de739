package responses

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
)

// agentTools are declared as agents do, at the three places where they may be.
const agentTools = `"tools":[{"type":"function","name":"shell","parameters":{"type":"object"}},
	{"type":"namespace","name":"mcp__files","description":"Files.","tools":[
		{"type":"function","name":"read","description":"Reads.","parameters":{"type":"object"},"strict":false},
		{"type":"custom","name":"patch","description":"Patches.","format":{"type":"grammar","syntax":"lark","definition":"start: \"a\""}}]},
	{"type":"tool_search","execution":"client","description":"Finds tools.","parameters":{"type":"object","properties":{"query":{"type":"string"}}}},
	{"type":"local_shell"},{"type":"image_generation","output_format":"png"},{"type":"novel"}]`

const agentInput = `"input":[
	{"type":"additional_tools","id":"at_1","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"}]}]},
	{"role":"user","content":"Go on."},
	{"type":"function_call","id":"fc_1","call_id":"c1","namespace":"mcp__files","name":"read","arguments":"{}"},
	{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"one"},{"type":"input_image","image_url":"data:,"}]},
	{"type":"custom_tool_call","id":"ctc_1","call_id":"c2","namespace":"functions","name":"exec","input":"let \"x\"\n"},
	{"type":"custom_tool_call_output","call_id":"c2","output":"two"},
	{"type":"tool_search_call","id":"tsc_1","call_id":"c3","status":"completed","execution":"client","arguments":{"query":"more"}},
	{"type":"tool_search_output","id":"tso_1","call_id":"c3","status":"completed","execution":"client","tools":[
		{"type":"namespace","name":"mcp__web","tools":[{"type":"function","name":"get","defer_loading":true}]}]},
	{"type":"local_shell_call","id":"lsh_1","call_id":"c4","status":"completed","action":{"type":"exec","command":["ls"],"env":{}}},
	{"type":"local_shell_call_output","id":"lsh_1","call_id":"c4","output":"three"},
	{"type":"function_call","call_id":"c5","namespace":"gone","name":"away","arguments":"{}"},
	{"type":"function_call_output","call_id":"c5","output":"four"}]`

// Every tool of an agent is a function upstream, and calls in the history have its name.
func TestToolsOfAgentsAreFunctions(t *testing.T) {
	t.Parallel()
	f := formOf(t, sdk, `{"model":"m","parallel_tool_calls":true,"tool_choice":{"type":"function","namespace":"mcp__files","name":"read"},`+
		agentTools+`,`+agentInput+`}`)
	body := string(chatOf(t, f).Body)
	if p := f.Problems(); len(p) > 0 {
		t.Fatalf("refused: %v", p)
	}
	get := func(path string) string { return gjson.Get(body, path).String() }
	if got, want := get("tools.#.function.name"), `["shell","mcp__files__read","mcp__files__patch","tool_search","local_shell","exec","mcp__web__get"]`; got != want {
		t.Errorf("the functions are %s, not %s", got, want)
	}
	if got := get("tools.2.function.description"); !strings.HasPrefix(got, "Patches.\n\n") || !strings.HasSuffix(got, "(lark):\nstart: \"a\"") {
		t.Errorf("a custom tool is described as %q", got)
	}
	if got := get("tool_choice.function.name"); got != "mcp__files__read" {
		t.Errorf("%s is chosen", got)
	}
	for path, want := range map[string]string{
		"messages.#.role":                            `["user","assistant","tool","assistant","tool","assistant","tool","assistant","tool","assistant","tool"]`,
		"messages.#.tool_calls.0.function.name":      `["mcp__files__read","exec","tool_search","local_shell","gone__away"]`,
		"messages.1.tool_calls.0.function.arguments": `{}`,
		"messages.3.tool_calls.0.function.arguments": `{"input":"let \"x\"\n"}`,
		"messages.5.tool_calls.0.function.arguments": `{"query":"more"}`,
		"messages.7.tool_calls.0.function.arguments": `{"type":"exec","command":["ls"],"env":{}}`,
		"messages.2.content.1.image_url.url":         "data:,",
		"messages.6.content":                         "Tools found: mcp__web__get",
		"messages.8.content":                         "three",
	} {
		if got := get(path); got != want {
			t.Errorf("%s is %s, not %s", path, got, want)
		}
	}
	if got := f.LeftOut().String(); got != "tools.image_generation, tools.other" {
		t.Errorf("left out are %s", got)
	}
	if got := f.Path("tools.1.function.parameters"); got != "tools.1.tools.0.parameters" {
		t.Errorf("the parameters of a namespace's tool are at %s", got)
	}
}

// Names that are too long, have odd characters or would mean two tools end in a hash.
func TestFunctionNamesAreUnique(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 40)
	f := formOf(t, sdk, `{"model":"m","input":"x","tools":[{"type":"function","name":"a__b"},
		{"type":"namespace","name":"a","tools":[{"type":"function","name":"b"},{"type":"function","name":"b"},{"type":"custom","name":"b"}]},
		{"type":"namespace","name":"`+long+`","tools":[{"type":"function","name":"`+long+`"},{"type":"function","name":"`+long+`2"}]},
		{"type":"namespace","name":"o.d d","tools":[{"type":"function","name":"\u0061"}]},
		{"type":"tool_search","execution":"client"},{"type":"function","name":"tool_search"}]}`)
	body := string(chatOf(t, f).Body)
	names := map[string]bool{}
	for _, name := range gjson.Get(body, "tools.#.function.name").Array() {
		if len(name.Str) > 64 || strings.ContainsAny(name.Str, ". ") || names[name.Str] {
			t.Errorf("a function is called %q", name.Str)
		}
		names[name.Str] = true
	}
	if len(names) != 8 || !names["a__b"] || !names["tool_search"] {
		t.Errorf("the functions are %v", names)
	}
	for name := range names {
		if of := f.toolOf([]byte(name)); of != nil && string(of.flat) != name {
			t.Errorf("%s means %s", name, of.flat)
		}
	}
}

// modelCalls are the calls of a model as chat completions have them, and the items that
// they become.
var modelCalls = []struct{ name, arguments, item string }{
	{"shell", `{\"a\":1}`, `{"call_id":"c","name":"shell","type":"function_call","arguments":"{\"a\":1}"}`},
	{"mcp__files__read", `{}`, `{"call_id":"c","name":"read","namespace":"mcp__files","type":"function_call","arguments":"{}"}`},
	{"mcp__files__patch", `{\"input\": \"*** \\\"x\\\"\\n\\u00e9\"}`,
		`{"call_id":"c","name":"patch","namespace":"mcp__files","type":"custom_tool_call","input":"*** \"x\"\n\u00e9"}`},
	{"exec", `no \"JSON\"`, `{"call_id":"c","name":"exec","namespace":"functions","type":"custom_tool_call","input":"no \"JSON\""}`},
	{"exec", `{\"input\":7}`, `{"call_id":"c","name":"exec","namespace":"functions","type":"custom_tool_call","input":"{\"input\":7}"}`},
	{"tool_search", `{ \"query\":\n\"x\" }`, `{"call_id":"c","type":"tool_search_call","execution":"client","arguments":{"query":"x"}}`},
	{"tool_search", `{`, `{"call_id":"c","type":"tool_search_call","execution":"client","arguments":{}}`},
	{"local_shell", `{\"command\":[\"ls\",\"-l\"],\"timeout_ms\":5,\"odd\":1}`,
		`{"call_id":"c","type":"local_shell_call","action":{"type":"exec","command":["ls","-l"],"timeout_ms":5,"env":{}}}`},
	{"local_shell", `[]`, `{"call_id":"c","type":"local_shell_call","action":{"type":"exec","command":[],"env":{}}}`},
}

// Calls come back as calls of the tools that agents have declared, whole and streamed.
func TestCallsOfFunctionsAreCallsOfTools(t *testing.T) {
	t.Parallel()
	bare := func(item string) string {
		for _, member := range []string{"id", "status"} {
			value := gjson.Get(item, member).Raw
			item = strings.Replace(item, `"`+member+`":`+value+`,`, "", 1)
		}
		return item
	}
	for _, c := range modelCalls {
		f := formOf(t, sdk, `{"model":"m",`+agentTools+`,`+agentInput+`}`)
		chat := chatOf(t, f)
		whole, err := wholeAnswer(f, `{"choices":[{"message":{"tool_calls":[{"id":"c","type":"function","function":{"name":"`+
			c.name+`","arguments":"`+c.arguments+`"}}]},"finish_reason":"tool_calls"}]}`, chat)
		if err != nil {
			t.Fatal(err)
		}
		same(t, c.name+" as a whole", bare(gjson.GetBytes(whole, "output.0").Raw), c.item)

		for cut := range len(c.arguments) {
			if c.arguments[max(0, cut-1)] == '\\' || cut > 1 && strings.Contains(c.arguments[cut-2:cut], `\`) {
				continue // escapes are not cut by upstreams
			}
			s := dialect.OpenForm(chat)
			events := string(s.Pass([]byte(delta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"`+c.name+
				`","arguments":"`+c.arguments[:cut]+`"}}]`) +
				delta(`"tool_calls":[{"index":0,"function":{"arguments":"`+c.arguments[cut:]+`"}}]`) + finish("tool_calls") + done)))
			events += string(s.Finish())
			s.Release()
			ended, last, told := "", "", ""
			for event := range strings.SplitSeq(events, "\n\n") {
				_, data, _ := strings.Cut(event, "data: ")
				if data != "" && data != "[DONE]" && !gjson.Valid(data) {
					t.Fatalf("%s: no JSON: %s", c.name, data)
				}
				switch kind := gjson.Get(data, "type").Str; kind {
				case "response.output_item.done":
					ended = gjson.Get(data, "item").Raw
				case "response.completed":
					last = gjson.Get(data, "response.output.0").Raw
				case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
					told += gjson.Get(data, "delta").Str
				}
			}
			same(t, c.name+" in a stream", bare(ended), c.item)
			same(t, c.name+" at the end of a stream", bare(last), c.item)
			want := gjson.Get(c.item, "arguments")
			if in := gjson.Get(c.item, "input"); in.Exists() {
				want = in
			}
			if want.Type == gjson.String && told != want.Str {
				t.Errorf("%s: its deltas are %q", c.name, told)
			}
		}
		f.Release()
	}
}

// A call that was cut off is sent as JSON, whatever its arguments.
func TestACallThatBreaksOffIsJSON(t *testing.T) {
	t.Parallel()
	for _, c := range modelCalls {
		f := formOf(t, sdk, `{"model":"m",`+agentTools+`,`+agentInput+`}`)
		s := dialect.OpenForm(chatOf(t, f))
		events := string(s.Pass([]byte(delta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"` + c.name + `","arguments":"{\"inp"}}]`))))
		events += string(s.Fail(&dialect.Fault{Code: "upstream_error", Message: "It broke."}))
		for event := range strings.SplitSeq(events, "\n\n") {
			if _, data, _ := strings.Cut(event, "data: "); data != "" && !gjson.Valid(data) {
				t.Errorf("%s: no JSON: %s", c.name, data)
			}
		}
	}
}

// An upstream that speaks the form gets the tools of agents in it, with known members only.
func TestNativesGetTheToolsOfAgents(t *testing.T) {
	t.Parallel()
	c := nativeOf(t, `{"model":"m","store":false,"max_output_tokens":100,`+
		strings.Replace(agentTools, `"name":"read",`, `"name":"read","type2":"mcp",`, 1)+`,`+agentInput+`}`)
	c.AskedCompletion = 100
	sent := sentOf(t, c, targetOf(c, "there"))
	for path, want := range map[string]string{
		"tools.#.type":         `["function","namespace","tool_search","local_shell"]`,
		"tools.1.tools.#.name": `["read","patch"]`,
		"tools.1.tools.0":      `{"type":"function","name":"read","description":"Reads.","parameters":{"type":"object"},"strict":false}`,
		"tools.2.execution":    "client",
		"input.#.type": `["additional_tools","function_call","function_call_output","custom_tool_call","custom_tool_call_output",` +
			`"tool_search_call","tool_search_output","local_shell_call","local_shell_call_output","function_call","function_call_output"]`,
		"input.0.tools.0.tools.0": `{"type":"custom","name":"exec"}`,
		"input.2.namespace":       "mcp__files",
		"input.6.execution":       "client",
		"input.7.tools":           `[{"type":"namespace","name":"mcp__web","tools":[{"type":"function","name":"get"}]}]`,
		"input.8.action":          `{"type":"exec","command":["ls"],"env":{}}`,
	} {
		if got := gjson.Get(sent, path).String(); got != want {
			t.Errorf("%s is %s, not %s", path, got, want)
		}
	}
}
