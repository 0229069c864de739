package anthropic

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
)

func TestRequestsBecomeMessages(t *testing.T) {
	f := func(name, members, want string, changes ...func(*dialect.Chat)) {
		t.Helper()
		c := chatOf(t, `{"model":"m",`+members+`}`)
		for _, ch := range changes {
			ch(c)
		}
		got, err := sent(t, c)
		if want = `{"model":"claude",` + want + `}`; err != nil || got != want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, want)
		}
	}
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	const said = `"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]`
	const most = `"max_tokens":1000,`
	// The dialect wants a user's turn first.
	const began = `{"role":"user","content":[{"type":"text","text":"."}]},`

	f("plain", hi, most+said)
	f("stream", hi+`,"stream":true,"stream_options":{"include_usage":true}`, most+`"stream":true,`+said)
	f("asked cap", hi+`,"max_completion_tokens":7`, `"max_tokens":7,`+said,
		func(c *dialect.Chat) { c.AskedCompletion = 7 })
	f("our cap", hi+`,"max_completion_tokens":7`, `"max_tokens":5,`+said,
		func(c *dialect.Chat) { c.AskedCompletion, c.MaxCompletion = 7, 5 })
	f("no cap anywhere", hi, `"max_tokens":4096,`+said, func(c *dialect.Chat) { c.Model.Chat.MaxCompletionTokens = 0 })
	f("left out", hi+`,"user":"u","n":1,"seed":3,"logprobs":false,"presence_penalty":1,"frequency_penalty":1,"metadata":{"a":"b"},"svc_parameters":{},"store":true`, most+said)
	f("user_id", hi+`,"metadata":{"a":"b","user_id":"x\"y"}`, most+said+`,"metadata":{"user_id":"x\"y"}`)
	f("sampling", hi+`,"temperature":0.5,"top_p":0.25,"top_k":40`,
		most+said+`,"temperature":0.5,"top_p":0.25,"top_k":40`)
	f("temperature above 1", hi+`,"temperature":1.7`, most+said+`,"temperature":1`)
	f("stop", hi+`,"stop":"END"`, most+said+`,"stop_sequences":["END"]`)
	f("stops", hi+`,"stop":["a","b"]`, most+said+`,"stop_sequences":["a","b"]`)
	f("null stop", hi+`,"stop":null,"temperature":null`, most+said)

	f("effort", hi+`,"reasoning_effort":"high"`,
		most+said+`,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`)
	f("effort in the object", hi+`,"reasoning":{"effort":"xhigh"}`,
		most+said+`,"thinking":{"type":"adaptive"},"output_config":{"effort":"xhigh"}`)
	f("least effort", hi+`,"reasoning_effort":"minimal"`, most+said+
		`,"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}`)
	f("no effort", hi+`,"reasoning_effort":"none"`, most+said+`,"thinking":{"type":"disabled"}`)
	f("thinking turned off", hi+`,"reasoning_effort":"high"`, most+said+`,"thinking":{"type":"disabled"}`,
		func(c *dialect.Chat) { c.ReasoningEffort = []byte("none") })
	f("schema", hi+`,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}`, most+said+`,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`)
	f("schema put directly",
		hi+`,"response_format":{"type":"json_schema","json_schema":{"type":"object"}},"reasoning_effort":"low"`,
		most+said+`,"thinking":{"type":"adaptive"},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}}`)
	f("text format", hi+`,"response_format":{"type":"text"}`, most+said)

	f("system prompts are joined",
		`"messages":[{"role":"system","content":"a"},{"role":"user","content":"hi"},{"role":"developer","content":[{"type":"text","text":"b","cache_control":{"type":"ephemeral"}},{"type":"text","text":""}]}]`,
		most+`"system":[{"type":"text","text":"ours\n"},{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}],`+said,
		func(c *dialect.Chat) { c.SystemPrompt = []byte("ours\n") })
	f("turns of one role are one",
		`"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":"c"},{"role":"assistant","content":"d"},{"role":"user","content":"e"}]`,
		most+`"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]},{"role":"user","content":[{"type":"text","text":"e"}]}]`)
	f("empty texts, which are refused there",
		`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":""},{"role":"user","content":[{"type":"text","text":"b"}]}]`,
		most+`"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`)
	f("images", `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image\/png;base64,aGk\/","detail":"low"},"cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]`,
		most+`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk/"},"cache_control":{"type":"ephemeral"}},{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]}]`)
	f("files", `"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERg==","filename":"a \"b\".pdf"}},{"type":"file","file":{"file_data":"https://x/y.pdf"}},{"type":"file","file":{"file_data":"data:text/markdown;charset=utf-8;base64,`+base64.StdEncoding.EncodeToString([]byte("# \"ü\"\n"))+`"}}]}]`,
		most+`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERg=="},"title":"a \"b\".pdf"},{"type":"document","source":{"type":"url","url":"https://x/y.pdf"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"# \"ü\"\n"}}]}]`)

	const tool = `,"tools":[{"type":"function","function":{"name":"look","description":"d","parameters":{"type":"object","properties":{"a":{}}},"strict":true}},{"type":"function","function":{"name":"go"}}]`
	const tooled = `,"tools":[{"name":"look","description":"d","input_schema":{"type":"object","properties":{"a":{}}},"strict":true},{"name":"go","input_schema":{"type":"object","properties":{}}}]`
	f("tools", hi+tool, most+said+tooled)
	f("tool choice auto", hi+tool+`,"tool_choice":"auto"`, most+said+tooled+`,"tool_choice":{"type":"auto"}`)
	f("tool choice required", hi+tool+`,"tool_choice":"required","parallel_tool_calls":false`,
		most+said+tooled+`,"tool_choice":{"type":"any","disable_parallel_tool_use":true}`)
	f("tool choice none", hi+tool+`,"tool_choice":{"type":"none"},"parallel_tool_calls":false`,
		most+said+tooled+`,"tool_choice":{"type":"none"}`)
	f("one tool", hi+tool+`,"tool_choice":{"type":"function","function":{"name":"go"}}`,
		most+said+tooled+`,"tool_choice":{"type":"tool","name":"go"}`)
	f("one call at a time", hi+tool+`,"parallel_tool_calls":false`,
		most+said+tooled+`,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`)
	f("choice without tools", hi+`,"tool_choice":"auto","parallel_tool_calls":false`, most+said)

	f("calls and their results",
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"a\":\"\\u00fc\\n\"}"}},{"id":"c2","type":"function","function":{"name":"go","arguments":""}},{"id":"c3","type":"function","function":{"name":"go","arguments":"[1}"}}]},{"role":"tool","tool_call_id":"c1","content":"x"},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"y"},{"type":"text","text":"z"}]},{"role":"tool","tool_call_id":"c3","content":""},{"role":"user","content":"go on"}]`,
		most+`"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"look","input":{"a":"\u00fc\n"}},{"type":"tool_use","id":"c2","name":"go","input":{}},{"type":"tool_use","id":"c3","name":"go","input":{"arguments":"[1}"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"x"},{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"y"},{"type":"text","text":"z"}]},{"type":"tool_result","tool_use_id":"c3"},{"type":"text","text":"go on"}]}]`)

	f("thoughts go back with their signatures",
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a","reasoning_content":"mind","reasoning_details":[{"type":"reasoning.text","text":"mi","signature":"s1","index":0},{"type":"reasoning.encrypted","data":"d","index":1},{"type":"reasoning.text","text":"unsigned"}]}]`,
		most+`"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"mi","signature":"s1"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"a"}]}]`)
	f("a streamed thought", `"messages":[{"role":"assistant","content":"a","reasoning_content":"mi\nnd","reasoning_details":[{"type":"reasoning.text","signature":"s1"}],"thought_signature":"s1"}]`,
		most+`"messages":[`+began+
			`{"role":"assistant","content":[{"type":"thinking","thinking":"mi\nnd","signature":"s1"},{"type":"text","text":"a"}]}]`)
	f("a thought and its signature alone",
		`"messages":[{"role":"assistant","content":"a","reasoning_content":"mind","thought_signature":"s1"}]`,
		most+`"messages":[`+began+
			`{"role":"assistant","content":[{"type":"thinking","thinking":"mind","signature":"s1"},{"type":"text","text":"a"}]}]`)
	f("an unsigned thought", `"messages":[{"role":"assistant","content":"a","reasoning_content":"mind"}]`,
		most+`"messages":[`+began+`{"role":"assistant","content":[{"type":"text","text":"a"}]}]`)
}

func TestWhatTheDialectCannotSayIsRefused(t *testing.T) {
	for _, part := range []string{
		`{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}}`,
		`{"type":"video_url","video_url":{"url":"https://x"}}`,
		`{"type":"file","file":{"file_data":"data:application/zip;base64,aGk="}}`,
		`{"type":"file","file":{"file_data":"data:text/plain;base64,%%%"}}`,
		`{"type":"image_url","image_url":{"url":"data:image/svg+xml,<svg>"}}`,
	} {
		c := chatOf(t, `{"model":"m","messages":[{"role":"user","content":[`+part+`]}]}`)
		body, err := sent(t, c)
		if u, ok := err.(*dialect.Unsupported); !ok || u.Text == "" {
			t.Errorf("%s: %v, %s", part, err, body)
		}
	}
}

// A type is written before a schema that has none, so that it may not hide one.
func TestASchemaHasItsTypeOnce(t *testing.T) {
	for parameters, ok := range map[string]bool{
		`{"properties":{}}`: true, `{"properties":{"type":{},"Type":{}}}`: true, `{"type":"object"}`: true,
		`{"type":"array"}`: false, `{"type":"object","type":"array"}`: false, `{"t\u0079pe":"array"}`: false,
		`{"Type":"array","properties":{}}`: false,
	} {
		c := chatOf(t, `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":`+
			`{"name":"f","parameters":`+parameters+`}}]}`)
		body, err := sent(t, c)
		var no *dialect.Unsupported
		if (err == nil) != ok || err != nil && (!errors.As(err, &no) || no.Path != "tools.0.function.parameters") ||
			ok && strings.Count(body, `"type":"object"`) != 1 {
			t.Errorf("%s: %v %s", parameters, err, body)
		}
	}
}

// A body that was written for one attempt must not be in the next one.
func TestScratchIsReused(t *testing.T) {
	c := chatOf(t, prompt)
	first, _ := sent(t, c)
	if second, _ := sent(t, c); first != second || strings.Count(second, `"model"`) != 1 {
		t.Errorf("%s", second)
	}
}
