package messages

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	const chat = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":9000`
	inChat := func(members string) string { return chat + "," + members + "}" }
	said := func(messages string) string {
		return `{"model":"m","messages":[` + messages + `],"max_completion_tokens":9000}`
	}
	for name, c := range map[string]struct{ in, out string }{
		"a question": {hello, chat + "}"},
		"settings": {
			with(`"temperature":0.5,"top_p":0.9,"top_k":40,"stop_sequences":["a","b"],"stream":true,"metadata":{"user_id":"u1"}`),
			inChat(`"temperature":0.5,"top_p":0.9,"top_k":40,"stop":["a","b"],"stream":true,"user":"u1"`),
		},
		"nulls are left out": {with(`"temperature":null,"tools":null,"system":null,"thinking":null`), chat + "}"},
		"a system prompt": {
			with(`"system":"be good"`),
			said(`{"role":"system","content":"be good"},{"role":"user","content":"hi"}`),
		},
		"a system prompt in marked parts": {
			with(`"system":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral","ttl":"1h"}}]`),
			said(`{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral","ttl":"1h"}}]},{"role":"user","content":"hi"}`),
		},
		"pictures and documents": {
			talk(`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}},{"type":"image","source":{"type":"url","url":"https://x/y.png"}},{"type":"document","title":"t.pdf","source":{"type":"base64","media_type":"application/pdf","data":"QUJD"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a\nb"}},{"type":"document","source":{"type":"url","url":"https://x/y.pdf"},"cache_control":{"type":"ephemeral"}}]}`),
			said(`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,QUJD","filename":"t.pdf"}},{"type":"file","file":{"file_data":"data:text/plain;base64,YQpi","filename":"document.txt"}},{"type":"file","file":{"file_data":"https://x/y.pdf","filename":"document.pdf"},"cache_control":{"type":"ephemeral"}}]}`),
		},
		"a call and its result": {
			talk(`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"I look"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":"b\"c"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"42"},{"type":"text","text":"go on"}]}`),
			said(`{"role":"user","content":"q"},{"role":"assistant","content":"I look","tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"f","arguments":"{\"a\":\"b\\\"c\"}"}}]},{"role":"tool","tool_call_id":"toolu_1","content":"42"},{"role":"user","content":"go on"}`),
		},
		"results that failed, are empty, or in parts": {
			talk(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"no","is_error":true},{"type":"tool_result","tool_use_id":"b"},{"type":"tool_result","tool_use_id":"c","cache_control":{"type":"ephemeral"},"content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}]}`),
			said(`{"role":"tool","tool_call_id":"a","content":"Error: no"},{"role":"tool","tool_call_id":"b","content":""},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}],"cache_control":{"type":"ephemeral"}}`),
		},
		"a picture in a result": {
			talk(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]},{"type":"text","text":"well?"}]}`),
			said(`{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]},{"role":"user","content":"well?"}`),
		},
		"a picture of a failed call": {
			talk(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]},{"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"image","source":{"type":"url","url":"https://x"}},{"type":"text","text":"no"},{"type":"text","text":"y"}]}]}`),
			said(`{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"text","text":"Error: "}]},{"role":"tool","tool_call_id":"b","content":[{"type":"image_url","image_url":{"url":"https://x"}},{"type":"text","text":"Error: no"},{"type":"text","text":"y"}]}`),
		},
		"thoughts": {
			talk(`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"h\nm","signature":"s1"},{"type":"redacted_thinking","data":"d1"},{"type":"thinking","thinking":"x","signature":""},{"type":"text","text":"a"}]},{"role":"user","content":"r"}`),
			said(`{"role":"user","content":"q"},{"role":"assistant","content":"a","reasoning_content":"h\nmx","reasoning_details":[{"type":"reasoning.text","text":"h\nm","signature":"s1","format":"anthropic-claude-v1","index":0},{"type":"reasoning.encrypted","data":"d1","format":"anthropic-claude-v1","index":1}]},{"role":"user","content":"r"}`),
		},
		"tools": {
			with(`"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true,"cache_control":{"type":"ephemeral"}},{"type":"custom","name":"g","input_schema":{"type":"object"},"eager_input_streaming":true}],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`),
			inChat(`"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true},"cache_control":{"type":"ephemeral"}},{"type":"function","function":{"name":"g","parameters":{"type":"object"}}}],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false`),
		},
		"a search": {
			with(`"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":3}],"tool_choice":{"type":"auto"}`),
			inChat(`"tools":[{"type":"web_search"}]`),
		},
		"an effort":               {with(`"output_config":{"effort":"xhigh"}`), inChat(`"reasoning_effort":"xhigh"`)},
		"a small budget":          {with(`"thinking":{"type":"enabled","budget_tokens":1024}`), inChat(`"reasoning_effort":"low"`)},
		"a large budget":          {with(`"thinking":{"type":"enabled","budget_tokens":8000}`), inChat(`"reasoning_effort":"high"`)},
		"thinking as needed":      {with(`"thinking":{"type":"adaptive"}`), inChat(`"reasoning_effort":"high"`)},
		"thinking at low effort":  {with(`"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}`), inChat(`"reasoning_effort":"low"`)},
		"no thinking":             {with(`"thinking":{"type":"disabled"}`), inChat(`"reasoning_effort":"none"`)},
		"an answer with a schema": {with(`"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`), inChat(`"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}}`)},
		"an answer with a schema, as it was called before": {with(`"output_format":{"type":"json_schema","schema":{"type":"object"}}`), inChat(`"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}}`)},
		"automatic caching":         {with(`"cache_control":{"type":"ephemeral"}`), inChat(`"cache_control":{"type":"ephemeral"}`)},
		"a tier that costs no more": {with(`"service_tier":"auto","speed":"standard","mcp_servers":[]`), chat + "}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, got, wrong := read(t, c.in)
			if len(wrong) > 0 || f.Untold() != nil {
				t.Errorf("it is refused: %v %v", wrong, f.Untold())
			}
			same(t, got, c.out)
			chatOf(t, got)
		})
	}
}

// Whatever reaches into the operator's account, costs beside the tokens or is not
// known is refused under its own name.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	block := func(b string) string { return talk(`{"role":"user","content":[` + b + `]}`) }
	for path, body := range map[string]string{
		"container":                                  with(`"container":"c1"`),
		"mcp_servers":                                with(`"mcp_servers":[{"type":"url","url":"https://x","name":"y"}]`),
		"speed":                                      with(`"speed":"fast"`),
		"inference_geo":                              with(`"inference_geo":"us"`),
		"service_tier":                               with(`"service_tier":"priority"`),
		"diagnostics":                                with(`"diagnostics":{"previous_message_id":"msg_1"}`),
		"betas":                                      with(`"betas":["x"]`),
		"context_management.edits.0.type":            with(`"context_management":{"edits":[{"type":"compact_20260112"}]}`),
		"tools.0.type":                               with(`"tools":[{"type":"code_execution_20250522","name":"code_execution"}]`),
		"tools.1.type":                               with(`"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"computer_20250124","name":"computer"}]`),
		"tools.0.allowed_callers":                    with(`"tools":[{"name":"f","input_schema":{"type":"object"},"allowed_callers":["code_execution_20260120"]}]`),
		"tools.0.allowed_domains":                    with(`"tools":[{"type":"web_search_20250305","name":"web_search","allowed_domains":["x.org"]}]`),
		"messages.0.content.0.source.type":           block(`{"type":"image","source":{"type":"file","file_id":"file_1"}}`),
		"messages.0.content.1.source.type":           block(`{"type":"text","text":"a"},{"type":"document","source":{"type":"file","file_id":"file_1"}}`),
		"messages.0.content.0.type":                  block(`{"type":"container_upload","file_id":"file_1"}`),
		"messages.0.content.0.source":                block(`{"type":"image"}`),
		"thinking.budget_tokens":                     with(`"thinking":{"type":"enabled","budget_tokens":9000}`),
		"thinking.type":                              with(`"thinking":{"type":"loud"}`),
		"output_config.format":                       with(`"output_config":{"format":{"type":"yaml"}}`),
		"tool_choice.type":                           with(`"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"all"}`),
		"system.0.type":                              with(`"system":[{"type":"image","source":{"type":"url","url":"https://x"}}]`),
		"messages.1.content.0":                       talk(`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"redacted_thinking","data":"fbx1.###"}]}`),
		"messages.1.content.0.type":                  talk(`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}]}`),
		"messages.0.content.0.content.0.source.type": block(`{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}`),
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			_, _, wrong := read(t, body)
			if len(wrong) != 1 || wrong[0].Path != path || !strings.HasPrefix(wrong[0].Text, path+": ") {
				t.Errorf("%s\nis refused for %+v", body, wrong)
			}
		})
	}
}

// Members that only an upstream of the form itself supports do not keep the client from asking one.
func TestReadLeavesToNatives(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"stop_sequences":                       with(`"stop_sequences":["a","b","c","d","e"]`),
		"tools.0.type":                         with(`"tools":[{"type":"bash_20250124","name":"bash"}]`),
		"tools.0.novel":                        with(`"tools":[{"name":"f","input_schema":{"type":"object"},"novel":1}]`),
		"output_config.task_budget":            with(`"output_config":{"task_budget":{"type":"tokens","total":20000}}`),
		"messages.0.content.0.type":            talk(`{"role":"user","content":[{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}]}]}`),
		"messages.0.content.0.transformations": talk(`{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x"},"transformations":{"a":1}}]}`),
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			f, chat, wrong := read(t, body)
			if u := f.Untold(); len(wrong) > 0 || u == nil || u.Path != path {
				t.Errorf("%s\nis %+v, refused for %v", body, u, wrong)
			}
			chatOf(t, chat)
		})
	}
}

// A complaint about the chat body names the client's own member.
func TestPath(t *testing.T) {
	t.Parallel()
	f, _, wrong := read(t, `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"s"},{"type":"text","text":"t"}],"output_config":{"effort":"low"},"messages":[
		{"role":"user","content":"q"},
		{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"tool_use","id":"2","name":"g","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"r"},{"type":"image","source":{"type":"url","url":"https://x"}}]},{"type":"tool_result","tool_use_id":"2","content":"r"},{"type":"text","text":"u"}]}],
		"tools":[{"type":"web_search_20250305","name":"web_search"},{"type":"custom","name":"f","input_schema":{}}]}`)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	for chat, own := range map[string]string{
		"messages":                                   "messages",
		"messages.0.content.1.text":                  "system.1.text",
		"messages.1.content":                         "messages.0.content",
		"messages.2.content":                         "messages.1.content.0.text",
		"messages.2.tool_calls.1.function":           "messages.1.content.2.name",
		"messages.2.tool_calls.0.function.arguments": "messages.1.content.1.input",
		"messages.3.content.0.text":                  "messages.2.content.0.content.0.text",
		"messages.3.content.1.image_url.url":         "messages.2.content.0.content.1.source",
		"messages.3.tool_call_id":                    "messages.2.content.0.tool_use_id",
		"messages.4.content":                         "messages.2.content.1.content",
		"messages.5.content":                         "messages.2.content.2.text",
		"tools.1.function.parameters":                "tools.1.input_schema",
		"tools.0.type":                               "tools.0.type",
		"max_completion_tokens":                      "max_tokens",
		"stop.1":                                     "stop_sequences",
		"reasoning_effort":                           "output_config.effort",
		"response_format.json_schema.schema":         "output_config.format",
		"temperature":                                "temperature",
		"messages.99.content":                        "messages.99.content",
	} {
		if got := f.Path(chat); got != own {
			t.Errorf("%s is %s, not %s", chat, own, got)
		}
	}
}
