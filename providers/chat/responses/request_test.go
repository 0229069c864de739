package responses

import (
	"strings"
	"testing"
)

// A body of this form says the same as a chat body, under the names of that.
func TestBodiesBecomeChatBodies(t *testing.T) {
	t.Parallel()
	f := func(name, body, want string) {
		t.Helper()
		form := formOf(t, sdk, body)
		got := string(chatOf(t, form).Body)
		if len(form.Problems()) > 0 {
			t.Errorf("%s: %+v", name, form.Problems())
		}
		same(t, name, got, want)
		form.Release()
	}
	user := `"messages":[{"role":"user","content":"Hi"}]`
	f("a text", `{"model":"m","input":"Hi"}`, `{"model":"m",`+user+`}`)
	f("instructions", `{"model":"m","instructions":"Be \"brief\".","input":"Hi"}`,
		`{"model":"m","messages":[{"role":"system","content":"Be \"brief\"."},{"role":"user","content":"Hi"}]}`)
	f("settings", `{"model":"m","input":"Hi","stream":true,"max_output_tokens":9,"temperature":0.5,"top_p":1,
		"reasoning":{"effort":"low","summary":"auto"},"prompt_cache_key":"k","user":"u","fallbacks":[{"model":"x"}]}`,
		`{"model":"m",`+user+`,"stream":true,"max_completion_tokens":9,"temperature":0.5,"top_p":1,
		"reasoning":{"effort":"low","summary":"auto"},"fallbacks":[{"model":"x"}],"user":"u","prompt_cache_key":"k"}`)
	f("no effect", `{"model":"m","input":"Hi","previous_response_id":"resp_1","store":true,"background":true,
		"n":3,"stop":["x"],"seed":1,"truncation":"auto","metadata":{"a":"b"},"stream_options":{"include_obfuscation":false},
		"max_tool_calls":3,"include":["reasoning.encrypted_content"],"temperature":null}`, `{"model":"m",`+user+`}`)
	f("unknown members", `{"model":"m","input":"Hi","service_tier":"flex","x":{"y":[1]},"client_metadata":{"a":"b"},
		"context_management":[{"type":"compaction"}],"reasoning":{"summary":"auto","context":"all_turns"}}`,
		`{"model":"m",`+user+`,"service_tier":"flex"}`)
	f("messages", `{"model":"m","input":[{"role":"user","content":"a"},{"type":"message","role":"developer",
		"content":[{"type":"input_text","text":"b"}]},{"role":"system","content":[{"type":"text","text":"c"},
		{"type":"input_text","text":"d","cache_control":{"type":"ephemeral"}}]},{"id":"msg_1","status":"completed",
		"type":"message","role":"assistant","content":[{"type":"output_text","text":"e","annotations":[]}]}]}`,
		`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"developer","content":"b"},
		{"role":"system","content":[{"type":"text","text":"c"},
		{"type":"text","text":"d","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"e"}]}`)
	f("images and files", `{"model":"m","input":[{"role":"user","content":[
		{"type":"input_image","image_url":"https://x/y.png","detail":"low"},
		{"type":"image_url","image_url":{"url":"data:image/png;base64,AA","detail":"high"}},
		{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,AA"},
		{"type":"input_file","file_url":"https://x/y.pdf"},{"type":"file","file":{"file_data":"data:,","filename":"b"}},
		{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}]}]}`,
		`{"model":"m","messages":[{"role":"user","content":[
		{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}},
		{"type":"image_url","image_url":{"url":"data:image/png;base64,AA","detail":"high"}},
		{"type":"file","file":{"file_data":"data:application/pdf;base64,AA","filename":"a.pdf"}},
		{"type":"file","file":{"file_data":"https://x/y.pdf"}},{"type":"file","file":{"file_data":"data:,","filename":"b"}},
		{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}]}]}`)
	f("calls in parallel", `{"model":"m","input":[{"role":"user","content":"q"},
		{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\":1}","status":"completed"},
		{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
		{"type":"function_call_output","call_id":"c1","output":"one"},
		{"type":"function_call_output","call_id":"c2","output":{"two":[2]}},
		{"type":"message","role":"assistant","content":"done"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[
		{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},
		{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"one"},
		{"role":"tool","tool_call_id":"c2","content":"{\"two\":[2]}"},{"role":"assistant","content":"done"}]}`)
	f("words beside calls", `{"model":"m","input":[{"type":"message","role":"assistant","content":[
		{"type":"output_text","text":"I look"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
		{"type":"message","role":"assistant","content":"and think"},
		{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"a"},
		{"type":"input_text","text":"b"}]},{"role":"user","content":"?"}]}`,
		`{"model":"m","messages":[{"role":"assistant","content":[{"type":"text","text":"I look"},
		{"type":"text","text":"and think"}],"tool_calls":[{"id":"c","type":"function","function":{"name":"f",
		"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"a"},
		{"type":"text","text":"b"}]},{"role":"user","content":"?"}]}`)
	for output, want := range map[string]string{`null`: `"null"`, `3`: `"3"`, `true`: `"true"`, `[1,"a"]`: `"[1,\"a\"]"`,
		`[]`: `"[]"`, `""`: `""`, `[{"type":"input_text","text":"x"}]`: `"x"`} {
		f("the result "+output, `{"model":"m","input":[{"type":"function_call_output","call_id":"c","output":`+output+`}]}`,
			`{"model":"m","messages":[{"role":"tool","tool_call_id":"c","content":`+want+`}]}`)
	}
	f("thoughts of others", `{"model":"m","input":[{"role":"user","content":"q"},{"type":"reasoning","id":"rs_1",
		"summary":[{"type":"summary_text","text":"one"},"two"],"encrypted_content":"gAAA"},
		{"type":"message","role":"assistant","content":"a"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a",
		"reasoning_content":"one\n\ntwo","reasoning_details":[{"type":"reasoning.encrypted","data":"gAAA",
		"format":"openai-responses-v1","id":"rs_1"}]}]}`)
	f("thoughts and a search before a call", `{"model":"m","input":[{"type":"reasoning","id":"rs_1","summary":[],
		"content":[{"type":"reasoning_text","text":"hm"}]},{"type":"web_search_call","id":"ws_1","status":"completed"},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}`,
		`{"model":"m","messages":[{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c",
		"type":"function","function":{"name":"f","arguments":"{}"}}]}]}`)
	f("thoughts that lead nowhere", `{"model":"m","input":[{"role":"assistant","content":"a"},{"type":"reasoning",
		"id":"rs_1","summary":["hm"]},{"role":"user","content":"go on"}]}`,
		`{"model":"m","messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"",
		"reasoning_content":"hm"},{"role":"user","content":"go on"}]}`)
	f("silence beside a call", `{"model":"m","input":[{"role":"assistant","content":[{"type":"output_text","text":""}]},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}`,
		`{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",
		"function":{"name":"f","arguments":"{}"}}]}]}`)

	const flat = `{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true}`
	const nested = `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}}`
	for _, tool := range []string{flat, nested} {
		for choice, want := range map[string]string{`"auto"`: `"auto"`, `"required"`: `"required"`,
			`{"type":"function","name":"f"}`:              `{"type":"function","function":{"name":"f"}}`,
			`{"type":"function","function":{"name":"f"}}`: `{"type":"function","function":{"name":"f"}}`,
			`{"type":"auto"}`:                             `"auto"`,
			`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}`: `{"type":"allowed_tools",
			"allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`} {
			f("a function and the choice "+choice, `{"model":"m","input":"Hi","tools":[`+tool+`],"tool_choice":`+choice+
				`,"parallel_tool_calls":false}`, `{"model":"m",`+user+`,"tools":[`+nested+
				`],"parallel_tool_calls":false,"tool_choice":`+want+`}`)
		}
	}
	f("no tools", `{"model":"m","input":"Hi","tools":[],"tool_choice":"auto","parallel_tool_calls":true}`,
		`{"model":"m",`+user+`}`)
	f("searches", `{"model":"m","input":"Hi","tools":[{"type":"web_search_preview","search_context_size":"low"},
		{"type":"x_search","from_date":"2026-01-01","max_results":99},{"type":"web_search"}]}`, `{"model":"m",`+user+
		`,"tools":[{"type":"web_search"},{"type":"x_search","from_date":"2026-01-01"},
		{"type":"web_search"}]}`)
	f("a format", `{"model":"m","input":"Hi","text":{"verbosity":"low","format":{"type":"json_schema","name":"n",
		"schema":{"type":"object"},"strict":true}}}`, `{"model":"m",`+user+`,"verbosity":"low","response_format":
		{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}}`)
	f("plain text", `{"model":"m","input":"Hi","text":{"format":{"type":"text"}}}`, `{"model":"m",`+user+`}`)
	f("any object", `{"model":"m","input":"Hi","text":{"format":{"type":"json_object"}}}`,
		`{"model":"m",`+user+`,"response_format":{"type":"json_object"}}`)
	f("probabilities", `{"model":"m","input":"Hi","include":["message.output_text.logprobs"],"top_logprobs":2}`,
		`{"model":"m",`+user+`,"logprobs":true,"top_logprobs":2}`)
	f("web_search", `{"model":"m","input":"Hi","web_search":true}`,
		`{"model":"m",`+user+`,"svc_parameters":{"enable_web_search":"on"}}`)
	f("web_search beside parameters", `{"model":"m","input":"Hi","web_search":true,"other_parameters":
		{"enable_web_citations":true,"strip_thinking_response":true,"include_other_system_prompt":false}}`,
		`{"model":"m",`+user+`,"other_parameters":{"enable_web_search":"on","enable_web_citations":true,
		"include_other_system_prompt":false}}`)
	f("web_search that a parameter overrides", `{"model":"m","input":"Hi","web_search":true,"svc_parameters":
		{"enable_web_search":"off","return_search_results_as_documents":true}}`,
		`{"model":"m",`+user+`,"svc_parameters":{"enable_web_search":"off"}}`)
}

// Members that a chat body cannot express are rejected by the client's own name for them.
func TestWhatCannotBeSaidIsNamed(t *testing.T) {
	t.Parallel()
	f := func(o *Options, body string, paths ...string) {
		t.Helper()
		form := formOf(t, o, `{"model":"m",`+body+`}`)
		form.Request()
		var got []string
		for _, p := range form.Problems() {
			got = append(got, p.Path)
			if !strings.HasPrefix(p.Text, p.Path+": ") {
				t.Errorf("%s: %s", p.Path, p.Text)
			}
		}
		if strings.Join(got, " ") != strings.Join(paths, " ") {
			t.Errorf("%s: %q, expected %q", body, got, paths)
		}
	}
	f(sdk, `"input":[{"type":"item_reference","id":"x"},{"id":"y"}]`, "input.0", "input.1")
	f(sdk, `"input":[{"type":"computer_call","id":"x"}]`, "input.0.type")
	f(sdk, `"input":[{"type":"function_call","name":"x"},{"type":"function_call_output"}]`,
		"input.0.call_id", "input.1.call_id")
	f(sdk, `"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"},{"type":"input_file","file_id":"f"},
		{"type":"hologram"},{"text":"x"},{"type":"input_text"},{"type":"input_file"}]}]`, "input.0.content.0.file_id",
		"input.0.content.1.file_id", "input.0.content.2.type", "input.0.content.3.type", "input.0.content.4.text",
		"input.0.content.5.file_data")
	f(sdk, `"input":[{"role":"user"},{"role":"assistant"},{"type":"message","content":"x"}]`,
		"input.0.content", "input.1.content", "input.2.role")
	f(sdk, `"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_file","file_id":"x"}]}]`,
		"input.0.output")
	f(sdk, `"input":"x","tools":[{"type":"mcp"}],"tool_choice":"required"`, "tool_choice")
	f(sdk, `"input":"x","tool_choice":{"type":"file_search"}`, "tool_choice.type")
	f(sdk, `"input":"x","tool_choice":{"type":"function"}`, "tool_choice.name")
	f(plain, `"input":"x","tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}`, "tool_choice.type")
	f(sdk, `"input":"x","messages":[],"max_tokens":1,"response_format":{"type":"text"},"prompt":{"id":"p"}`,
		"messages", "max_tokens", "response_format", "prompt")
	f(sdk, `"input":"x","text":{"format":{"type":"json_schema"}}`, "text.format.name", "text.format.schema")
}

// Faults of the chat body are reported under the client's names.
func TestPathsLeadBackToTheClientsBody(t *testing.T) {
	t.Parallel()
	form := formOf(t, sdk, `{"model":"m","instructions":"i","input":[{"role":"user","content":[{"type":"input_text","text":""}]},
		{"type":"reasoning","summary":[]},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
		{"type":"function_call","call_id":"b","name":"g","arguments":"{}"},
		{"type":"function_call_output","call_id":"a","output":"1"},{"role":"user","content":[
		{"type":"input_image","image_url":"x"}]}],"text":{"verbosity":"low"}}`)
	form.Request()
	for chat, want := range map[string]string{
		"messages": "input", "messages.0.content": "instructions", "messages.1.content.0.text": "input.0.content.0.text",
		"messages.2.content": "input.1.content", "messages.2.tool_calls.1.function.name": "input.3.name",
		"messages.3.tool_call_id": "input.4.call_id", "messages.4.content.0.image_url.url": "input.5.content.0.image_url",
		"max_completion_tokens": "max_output_tokens", "response_format": "text.format",
		"response_format.json_schema.schema": "text.format.schema", "tools.2.function.parameters": "tools.2.parameters",
		"tool_choice.function.name": "tool_choice.name", "verbosity": "text.verbosity", "temperature": "temperature",
		"model": "model", "": "", "messages.9.content": "input", "svc_parameters.enable_web_search": "svc_parameters.enable_web_search",
	} {
		if got := form.Path(chat); got != want {
			t.Errorf("%s is %q, expected %q", chat, got, want)
		}
	}
	text := formOf(t, sdk, `{"model":"m","input":"","web_search":true}`)
	text.Request()
	if got := text.Path("messages.0.content"); got != "input" {
		t.Error(got)
	}
	if got := text.Path("svc_parameters.enable_web_search"); got != "web_search" {
		t.Error(got)
	}
}
