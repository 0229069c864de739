package chat

import (
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// hostedTools are carried out by an upstream, at a price of their own or in the operator's
// account.
var hostedTools = []string{"web_search", "code_interpreter", "image_generation", "file_search", "mcp", "shell"}

// "I hide code_interpreter in a function, and pay for tokens only." No reader of the
// upstream's body finds a tool there that the upstream would carry out itself.
func TestNoHostedToolHidesInAFunction(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	const more = `"container":{"type":"auto"},"vector_store_ids":["vs_1"],"server_url":"https://x.example","server_label":"x"`
	reached := 0
	for _, hosted := range hostedTools {
		kind := `"type":"` + hosted + `"`
		for _, members := range []string{
			`"input":"hi","tools":[{"type":"function","function":{"name":"x",` + kind + `,` + more + `}}]`,
			`"input":"hi","tools":[{"type":"function","function":{` + kind + `,"name":"x","parameters":{},` + more + `}}]`,
			`"input":"hi","tools":[{"type":"function","function":{"name":"x","\u0074ype":"` + hosted + `","Type":"` + hosted + `"}}]`,
			`"input":"hi","tools":[{"type":"custom","custom":{"name":"x",` + kind + `,` + more + `}}]`,
			`"input":"hi","tools":[{"type":"custom","function":{"name":"x",` + kind + `,` + more + `},"name":"x"}]`,
			`"input":"hi","tools":[{"type":"function","name":"x"}],"tool_choice":{"type":"function","function":{"name":"x",` + kind + `}}`,
			`"input":"hi","tools":[{"type":"function","name":"x"}],"tool_choice":{"type":"custom","custom":{"name":"x",` + kind + `}}`,
			`"input":"hi","tools":[{"type":"function","name":"x"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","function":{"name":"x",` + kind + `}}]}`,
			`"input":"hi","tools":[{"type":"function","name":"x"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{` + kind + `}]}`,
			`"input":"hi","tools":[{"type":"function","name":"x","Type":"` + hosted + `"}]`,
			`"input":"hi","tools":[{"type":"function","name":"x","ty\u0070e":"` + hosted + `"}]`,
			`"input":"hi","tools":[{"type":"function","name":"x",` + kind + `}]`,
		} {
			for _, model := range []string{"own", "openai", "anthropic", "google"} {
				sim.WaitIdle(rig.CallLimit)
				before := sim.Stats().Requests
				body := `{"model":"` + model + `","max_output_tokens":20,` + members + `}`
				status, _, answer := g.Post("/responses", key, body)
				if sim.WaitIdle(rig.CallLimit); sim.Stats().Requests == before {
					if status != 400 {
						t.Errorf("%s is answered %d %s", body, status, answer)
					}
					continue
				}
				reached++
				if sent := sim.Latest(t); status == 200 || status == 400 {
					if _, err := readAlike(sent.Path, sent.Body); err != nil {
						t.Errorf("%s arrived as %s: %v", body, sent.Body, err)
					}
				} else {
					t.Errorf("%s is answered %d %s", body, status, answer)
				}
			}
		}
	}
	if reached == 0 {
		t.Error("no function reached an upstream")
	}
}

// "I name what others left in the operator's account by its id alone." It is left out or
// refused, whatever its neighbours.
func TestNoIDAloneReachesTheUpstream(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	const hi = `{"role":"user","content":"hi"}`
	for _, c := range []struct{ items, want string }{
		{hi + `,{"type":"reasoning","id":"rs_1","summary":[]}`, hi},
		{`{"type":"reasoning","id":"rs_1"},` + hi, hi},
		{`{"type":"reasoning","id":"rs_1","summary":["a"],"encrypted_content":""},` + hi, hi},
		{`{"type":"web_search_call","id":"ws_1","status":"completed"},` + hi, hi},
		{`{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},` + hi,
			`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},` + hi},
		{`{"type":"reasoning","id":"r","summary":[],"encrypted_content":"gAAAAAsimx","content":[{"type":"input_file",` +
			`"file_id":"file-1","text":"hm"}]},` + hi, `{"type":"reasoning","id":"r","summary":[],"encrypted_content":` +
			`"gAAAAAsimx","content":[{"type":"reasoning_text","text":"hm"}]},` + hi},
		{`{"role":"user","content":[{"type":"input_text","text":"hi","file_id":"file-1"}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"hi"}]}`},
		{`{"role":"user","content":[{"type":"input_file","file":{"file_data":"data:,x"},"file_url":"http://10.0.0.1/"}]}`,
			`{"role":"user","content":[{"type":"input_file","file_data":"data:,x"}]}`},
		{`{"type":"function_call","call_id":"c","name":"f","arguments":"{}","content":[{"type":"input_file","file_id":` +
			`"file-1"}],"novel":{"id":"x"}},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text",` +
			`"text":"a","\u0074ype":"input_file","file_id":"file-1"}]}`,
			`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output",` +
				`"call_id":"c","output":[{"type":"input_text","text":"a"}]}`},
		{`{"role":"user","content":[{"type":"input_file","file":{"file_data":"data:,x"},"file_id":"file-1"}]}`, ""},
	} {
		sim.WaitIdle(rig.CallLimit)
		before := sim.Stats().Requests
		status, _, answer := g.Post("/responses", key,
			`{"model":"files","store":false,"max_output_tokens":20,"input":[`+c.items+`],"context_management":[{"type":"compaction"}]}`)
		sim.WaitIdle(rig.CallLimit)
		if c.want == "" {
			if status != 400 || sim.Stats().Requests != before {
				t.Errorf("%s is answered %d %s", c.items, status, answer)
			}
			continue
		}
		want := `{"model":"gpt-5","store":false,"max_output_tokens":20,"input":[` + c.want + `]}`
		if sim.Stats().Requests == before {
			t.Errorf("%s is answered %d %s", c.items, status, answer)
		} else if got := string(sim.Latest(t).Body); got != want {
			t.Errorf("sent    %s\narrived %s\nwant    %s", c.items, got, want)
		}
	}
}

// Files in the operator's account are refused by their names in chats and messages.
func TestNoFileOfTheAccountIsTakenBesideData(t *testing.T) {
	t.Parallel()
	c, g, key := startHidden(t)
	user := func(part string) string {
		return `{"role":"user","content":[{"type":"text","text":"hi"},` + part + `]}`
	}
	f := func(path, messages, want string) {
		t.Helper()
		model := map[string]string{"/chat/completions": "openai", "/messages": "anthropic"}[path]
		status, _, answer := g.Post(path, key, `{"model":"`+model+`","max_tokens":20,"messages":[`+messages+`]}`)
		if status != 400 || !strings.Contains(string(answer), want) {
			t.Errorf("%s is answered %d %s, expected 400 with %q", messages, status, answer, want)
		}
	}
	f("/chat/completions", user(`{"type":"file","file":{"file_data":"data:application/pdf;base64,aGk=","file_id":"file-1"}}`),
		"messages.0.content.1.file.file_id")
	f("/chat/completions", user(`{"type":"image_url","image_url":{"url":"https://x.example/"},"file_id":"file-1"}`),
		"messages.0.content.1.file_id")
	f("/chat/completions", `{"role":"assistant","content":"a","audio":{"id":"audio_1"}},{"role":"user","content":"b"}`,
		"messages.0.audio")
	f("/messages", user(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk=","url":"http://10.0.0.1/"}}`),
		"messages.0.content.1.source.url")
	f("/messages", user(`{"type":"document","source":{"type":"url","url":"https://x.example/","data":"aGk="}}`),
		"messages.0.content.1.source.data")
	f("/messages", user(`{"type":"image","source":{"media_type":"image/png","data":"aGk="}}`),
		"messages.0.content.1.source.type: must be base64, url, text or content.")
	f("/messages", user(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk=","file_id":"f"}}`),
		"messages.0.content.1.source.file_id")
	f("/messages", user(`{"type":"search_result","source":"x","title":"t","content":[{"type":"image","source":{"type":`+
		`"file","file_id":"f"}}]}`), "messages.0.content.1.content.0.type")
	c.Idle(t)
	for _, sent := range c.Last() {
		if !strings.Contains(sent.Path, "token") {
			t.Errorf("%s reached %s", sent.Body, sent.Path)
		}
	}
}

// Members of /responses alone do not reach /chat/completions, whose servers refuse them.
func TestChatUpstreamsGetMembersThatTheyKnow(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g, key := startResponses(t, sim.URL, "sdk")
	status, _, answer := g.Post("/responses", key, `{"model":"openai","input":"hi","max_output_tokens":20,`+
		`"client_metadata":{"a":"b"},"reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"],`+
		`"store":false,"novel":{"type":"x"},"text":{"verbosity":"low"},"prompt_cache_key":"k"}`)
	want := `{"model":"gpt-5","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":20,` +
		`"prompt_cache_key":"k","verbosity":"low"}`
	if got := string(sim.Latest(t).Body); status != 200 || got != want {
		t.Errorf("%d %s\narrived %s\nwant    %s", status, answer, got, want)
	}
}
