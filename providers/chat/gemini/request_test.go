package gemini

import (
	"encoding/base64"
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

func TestRequestsBecomeContents(t *testing.T) {
	f := func(name, members, want string, changes ...func(*dialect.Chat)) {
		t.Helper()
		c := chatOf(t, `{"model":"m",`+members+`}`)
		model := older
		if strings.HasPrefix(name, "3: ") {
			model = newer
		}
		for _, ch := range changes {
			ch(c)
		}
		got, err := sent(t, c, model)
		if want = `{` + want + `}`; err != nil || got != want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, want)
		}
	}
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	const said = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`
	const most = `,"generationConfig":{"maxOutputTokens":1000`

	f("plain", hi, said+most+`}`)
	f("asked cap", hi+`,"max_completion_tokens":7`, said+`,"generationConfig":{"maxOutputTokens":7}`,
		func(c *dialect.Chat) { c.AskedCompletion = 7 })
	f("our cap", hi+`,"max_completion_tokens":7`, said+`,"generationConfig":{"maxOutputTokens":5}`,
		func(c *dialect.Chat) { c.AskedCompletion, c.MaxCompletion = 7, 5 })
	f("no cap anywhere", hi, said, func(c *dialect.Chat) { c.Model.Chat.MaxCompletionTokens = 0 })
	f("left out", hi+`,"user":"u","n":1,"logprobs":false,"presence_penalty":0,"top_k":0,"min_p":0.1,"metadata":{"a":"b"},"svc_parameters":{},"store":true,"parallel_tool_calls":false`, said+most+`}`)
	f("sampling", hi+`,"temperature":0.5,"top_p":0.25,"top_k":40,"presence_penalty":1,"frequency_penalty":-0.5,"seed":3`,
		said+most+`,"temperature":0.5,"topP":0.25,"topK":40,"presencePenalty":1,"frequencyPenalty":-0.5,"seed":3}`)
	f("a large seed", hi+`,"seed":8589934599`, said+most+`,"seed":7}`)
	f("choices", hi+`,"n":3`, said+most+`,"candidateCount":3}`, func(c *dialect.Chat) { c.Choices = 3 })
	f("stop", hi+`,"stop":"END"`, said+most+`,"stopSequences":["END"]}`)
	f("stops", hi+`,"stop":["a","\n"]`, said+most+`,"stopSequences":["a","\n"]}`)
	f("logprobs", hi+`,"logprobs":true,"top_logprobs":3`, said+most+`,"responseLogprobs":true,"logprobs":3}`)
	f("null", hi+`,"stop":null,"temperature":null,"tools":null,"response_format":null`, said+most+`}`)

	f("effort", hi+`,"reasoning_effort":"high"`,
		said+most+`,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":800}}`)
	f("effort with room", hi+`,"reasoning_effort":"medium"`, said+`,"generationConfig":{"maxOutputTokens":60000,`+
		`"thinkingConfig":{"includeThoughts":true,"thinkingBudget":8192}}`,
		func(c *dialect.Chat) { c.MaxCompletion = 60000 })
	f("most effort", hi+`,"reasoning":{"effort":"max"}`, said+`,"generationConfig":{"maxOutputTokens":60000,`+
		`"thinkingConfig":{"includeThoughts":true,"thinkingBudget":24576}}`,
		func(c *dialect.Chat) { c.MaxCompletion = 60000 })
	f("no effort", hi+`,"reasoning_effort":"none"`, said+most+`,"thinkingConfig":{"thinkingBudget":0}}`)
	f("3: effort", hi+`,"reasoning_effort":"medium"`,
		said+most+`,"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"MEDIUM"}}`)
	f("3: most effort", hi+`,"reasoning_effort":"xhigh"`,
		said+most+`,"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH"}}`)
	f("3: no effort", hi+`,"reasoning_effort":"none"`, said+most+`,"thinkingConfig":{"thinkingLevel":"MINIMAL"}}`)
	reasons := true
	f("3: thoughts of a model that reasons", hi, said+most+`,"thinkingConfig":{"includeThoughts":true}}`,
		func(c *dialect.Chat) { c.Model.Chat.Capabilities.Reasoning = &reasons })

	f("schema", hi+`,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}`,
		said+most+`,"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}`)
	f("schema put directly", hi+`,"response_format":{"type":"json_schema","json_schema":{"type":"object"}}`,
		said+most+`,"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}`)
	f("json", hi+`,"response_format":{"type":"json_object"}`, said+most+`,"responseMimeType":"application/json"}`)
	f("text format", hi+`,"response_format":{"type":"text"}`, said+most+`}`)

	f("system prompts are joined",
		`"messages":[{"role":"system","content":"a"},{"role":"user","content":"hi"},{"role":"developer","content":[{"type":"text","text":"b","cache_control":{"type":"ephemeral"}},{"type":"text","text":""}]}]`,
		said+`,"systemInstruction":{"parts":[{"text":"ours\n"},{"text":"a"},{"text":"b"}]}`+most+`}`,
		func(c *dialect.Chat) { c.SystemPrompt = []byte("ours\n") })
	f("system prompts alone", `"messages":[{"role":"system","content":"hi"}]`, said+most+`}`)
	f("turns of one role are one",
		`"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":"c"},{"role":"assistant","content":"d"},{"role":"user","content":"e"}]`,
		`"contents":[{"role":"user","parts":[{"text":"a"},{"text":"b"}]},{"role":"model","parts":[{"text":"c"},{"text":"d"}]},{"role":"user","parts":[{"text":"e"}]}]`+most+`}`)
	f("a greeting", `"messages":[{"role":"assistant","content":"Hello!"},{"role":"user","content":"hi"}]`,
		`"contents":[{"role":"user","parts":[{"text":"."}]},{"role":"model","parts":[{"text":"Hello!"}]},{"role":"user","parts":[{"text":"hi"}]}]`+most+`}`)
	f("images", `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image\/jpg;base64,aGk\/","detail":"low"}},{"type":"image_url","image_url":{"url":"https://x.org/y.PNG?z=1"}}]}]`,
		`"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/jpeg","data":"aGk/"}},{"fileData":{"mimeType":"image/png","fileUri":"https://x.org/y.PNG?z=1"}}]}]`+most+`}`)
	f("media", `"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"aGk=","format":"mp3"}},{"type":"video_url","video_url":{"url":"data:video/mp4;base64,aGk="}},{"type":"video_url","video_url":{"url":"https://www.youtube.com/watch?v=x"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERg==","filename":"a.pdf"}},{"type":"file","file":{"file_data":"data:text/markdown;charset=utf-8;base64,`+base64.StdEncoding.EncodeToString([]byte("# x"))+`"}}]}]`,
		`"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"audio/mp3","data":"aGk="}},{"inlineData":{"mimeType":"video/mp4","data":"aGk="}},{"fileData":{"fileUri":"https://www.youtube.com/watch?v=x"}},{"inlineData":{"mimeType":"application/pdf","data":"JVBERg=="}},{"inlineData":{"mimeType":"text/plain","data":"IyB4"}}]}]`+most+`}`)

	const tool = `,"tools":[{"type":"function","function":{"name":"look","description":"d","parameters":{"type":"object","properties":{"a":{}}}}},{"type":"function","function":{"name":"go.there"}}]`
	const tooled = `,"tools":[{"functionDeclarations":[{"name":"look","description":"d","parametersJsonSchema":{"type":"object","properties":{"a":{}}}},{"name":"go.there"}]}]`
	choice := func(mode string) string {
		return tooled + `,"toolConfig":{"functionCallingConfig":{"mode":` + mode + `}}`
	}
	f("tools", hi+tool, said+tooled+most+`}`)
	f("tool choice auto", hi+tool+`,"tool_choice":"auto"`, said+choice(`"AUTO"`)+most+`}`)
	f("tool choice required", hi+tool+`,"tool_choice":"required"`, said+choice(`"ANY"`)+most+`}`)
	f("tool choice none", hi+tool+`,"tool_choice":{"type":"none"}`, said+choice(`"NONE"`)+most+`}`)
	f("one tool", hi+tool+`,"tool_choice":{"type":"function","function":{"name":"look"}}`,
		said+choice(`"ANY","allowedFunctionNames":["look"]`)+most+`}`)
	f("strict tools", hi+`,"tools":[{"type":"function","function":{"name":"look","strict":true}}]`,
		said+`,"tools":[{"functionDeclarations":[{"name":"look"}]}],"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}}`+most+`}`)
	f("choice without tools", hi+`,"tool_choice":"auto"`, said+most+`}`)
}

func TestCallsGoBackWithTheirNamesIdsAndSignatures(t *testing.T) {
	f := func(name, model, messages, want string) {
		t.Helper()
		got, err := sent(t, chatOf(t, `{"model":"m","messages":[{"role":"user","content":"hi"},`+messages+`]}`), model)
		want = `{"contents":[{"role":"user","parts":[{"text":"hi"}]},` + want + `],"generationConfig":{"maxOutputTokens":1000}}`
		if err != nil || got != want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, want)
		}
	}
	call := func(id, name, args string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"` + name + `","arguments":"` + args + `"}}`
	}
	result := func(id, content string) string {
		return `{"role":"tool","tool_call_id":"` + id + `","content":` + content + `}`
	}
	f("results come in the order of the calls", older,
		`{"role":"assistant","content":null,"tool_calls":[`+call("c1", "look", `{\"a\":\"\\u00fc\\n\"}`)+`,`+
			call("c2", "go", "")+`,`+call("c3", "go", "[1}")+`]},`+
			result("c3", `"{\"output\":1,\"x\":2}"`)+`,`+result("c2", `[{"type":"text","text":"y"},{"type":"text","text":"z"}]`)+`,`+
			result("c1", `"{\"t\": 7}"`)+`,{"role":"user","content":"go on"}`,
		`{"role":"model","parts":[{"functionCall":{"id":"c1","name":"look","args":{"a":"\u00fc\n"}}},{"functionCall":{"id":"c2","name":"go","args":{}}},{"functionCall":{"id":"c3","name":"go","args":{"arguments":"[1}"}}}]},`+
			`{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"look","response":{"t": 7}}},{"functionResponse":{"id":"c2","name":"go","response":{"output":["y","z"]}}},{"functionResponse":{"id":"c3","name":"go","response":{"output":{"output":1,"x":2}}}}]},{"role":"user","parts":[{"text":"go on"}]}`)
	f("texts and nothing at all", older,
		`{"role":"assistant","content":"I look.","tool_calls":[`+call("c1", "look", "{}")+`,`+call("c2", "look", "{}")+`]},`+
			result("c1", `"a \"b\""`)+`,`+result("c2", `""`),
		`{"role":"model","parts":[{"text":"I look."},{"functionCall":{"id":"c1","name":"look","args":{}}},{"functionCall":{"id":"c2","name":"look","args":{}}}]},`+
			`{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"look","response":{"output":"a \"b\""}}},{"functionResponse":{"id":"c2","name":"look","response":{"output":""}}}]}`)
	calls := `"tool_calls":[` + call("c1", "look", "{}") + `,` + call("c2", "go", "{}") + `]},` + result("c1", `"x"`) + `,` +
		result("c2", `"y"`)
	answered := `{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"look","response":{"output":"x"}}},{"functionResponse":{"id":"c2","name":"go","response":{"output":"y"}}}]}`
	two := func(first string) string {
		return `{"functionCall":{"id":"c1","name":"look","args":{}}` + first + `},{"functionCall":{"id":"c2","name":"go","args":{}}}]},` + answered
	}
	const detail = `{"type":"reasoning.encrypted","id":"c1","data":"c2ln","format":"google-gemini-v1","index":0}`
	const sig = `,"thoughtSignature":"c2ln"`
	f("a call's signature", newer, `{"role":"assistant","content":null,"reasoning_details":[`+detail+`],"thought_signature":"c2ln",`+calls,
		`{"role":"model","parts":[`+two(sig))
	f("a signature alone", newer, `{"role":"assistant","content":"t","thought_signature":"c2ln",`+calls,
		`{"role":"model","parts":[{"text":"t"},`+two(sig))
	f("a signature whose call has another name now", newer,
		`{"role":"assistant","content":null,"reasoning_details":[`+strings.Replace(detail, "c1", "rs_1", 1)+`],`+calls,
		`{"role":"model","parts":[`+two(sig))
	f("a lost signature", newer, `{"role":"assistant","content":null,`+calls,
		`{"role":"model","parts":[`+two(`,"thoughtSignature":"skip_thought_signature_validator"`))
	f("a lost signature of an older turn", newer, `{"role":"assistant","content":null,`+calls+`,{"role":"user","content":"go"}`,
		`{"role":"model","parts":[`+two("")+`,{"role":"user","parts":[{"text":"go"}]}`)
	f("another maker's signature", newer,
		`{"role":"assistant","content":null,"reasoning_content":"x","reasoning_details":[{"type":"reasoning.text","text":"x","signature":"c2ln","format":"anthropic-claude-v1"}],"thought_signature":"c2ln",`+calls,
		`{"role":"model","parts":[`+two(`,"thoughtSignature":"skip_thought_signature_validator"`))
	f("no signatures where none are known", older, `{"role":"assistant","content":null,`+calls, `{"role":"model","parts":[`+two(""))
	f("thoughts, a text's and a call's signature", newer,
		`{"role":"assistant","content":"t","reasoning_content":"mind","reasoning_details":[{"type":"reasoning.text","text":"mind","format":"google-gemini-v1","index":0},{"type":"reasoning.encrypted","data":"dGV4dA==","format":"google-gemini-v1","index":1},`+detail+`],`+calls,
		`{"role":"model","parts":[{"text":"mind","thought":true},{"text":"t","thoughtSignature":"dGV4dA=="},`+two(sig))
	f("a streamed thought", newer,
		`{"role":"assistant","content":"t","reasoning_content":"mind","reasoning_details":[{"type":"reasoning.encrypted","data":"dGV4dA==","format":"google-gemini-v1","index":0}]},{"role":"user","content":"b"}`,
		`{"role":"model","parts":[{"text":"mind","thought":true},{"text":"t","thoughtSignature":"dGV4dA=="}]},{"role":"user","parts":[{"text":"b"}]}`)
	f("a signature of nothing", newer,
		`{"role":"assistant","content":"","thought_signature":"c2ln"},{"role":"user","content":"b"}`,
		`{"role":"model","parts":[{"text":"","thoughtSignature":"c2ln"}]},{"role":"user","parts":[{"text":"b"}]}`)
	f("thoughts without a signature", newer,
		`{"role":"assistant","content":"t","reasoning_content":"mind"},{"role":"user","content":"b"}`,
		`{"role":"model","parts":[{"text":"t"}]},{"role":"user","parts":[{"text":"b"}]}`)
}

func TestWhatTheDialectCannotSayIsRefused(t *testing.T) {
	f := func(model, members, path string, changes ...func(*dialect.Chat)) {
		t.Helper()
		if !strings.Contains(members, `"messages"`) {
			members += `,"messages":[{"role":"user","content":"hi"}]`
		}
		c := chatOf(t, `{"model":"m",`+members+`}`)
		for _, change := range changes {
			change(c)
		}
		body, err := sent(t, c, model)
		if u, ok := err.(*dialect.Unsupported); !ok || u.Text == "" || u.Path != path {
			t.Errorf("%s: %+v, %s", members, err, body)
		}
	}
	part := func(part, path string) {
		t.Helper()
		f(older, `"messages":[{"role":"user","content":[`+part+`]}]`, "messages.0.content.0."+path)
	}
	part(`{"type":"input_audio","input_audio":{"data":"aGk=","format":"pcm16"}}`, "input_audio.format")
	part(`{"type":"input_audio","input_audio":{"data":"%%"}}`, "input_audio.data")
	part(`{"type":"image_url","image_url":{"url":"data:image/gif;base64,aGk="}}`, "image_url")
	part(`{"type":"image_url","image_url":{"url":"data:image/svg+xml,<svg>"}}`, "image_url")
	part(`{"type":"image_url","image_url":{"url":"https://x.org/picture"}}`, "image_url")
	part(`{"type":"image_url","image_url":{"url":"http://x.org/a.png"}}`, "image_url")
	part(`{"type":"file","file":{"file_data":"data:application/zip;base64,aGk="}}`, "file")
	// Files of the operator's account, into which every customer's may have been put.
	part(`{"type":"file","file":{"file_data":"https://generativelanguage.googleapis.com/v1beta/files/a.pdf"}}`, "file")
	part(`{"type":"file","file":{"file_data":"https://storage.googleapis.com./b/a.pdf"}}`, "file")
	part(`{"type":"file","file":{"file_data":"https://storage.cloud.google.com/b/a.pdf"}}`, "file")
	two := func(c *dialect.Chat) { c.Choices = 2 }
	many := func(c *dialect.Chat) { c.Choices = 9 }
	f(newer, `"n":2`, "n", two)
	f(older, `"n":9`, "n", many)
	f(older, `"stop_token_ids":[1]`, "stop_token_ids")
	f(older, `"stop":[""]`, "stop")
	f(older, `"top_logprobs":21,"logprobs":true`, "top_logprobs")
	f(older, `"seed":1.5`, "seed")
	f(older, `"tools":[{"type":"custom","custom":{"name":"a"}}]`, "tools.0")
	f(older, `"tools":[{"type":"function","function":{"name":"1a"}}]`, "tools.0.function.name")
	f(older, `"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":{"type":"allowed_tools"}`, "tool_choice")
	f("gemini-3.6-flash", `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`, "messages")
	f(older, `"messages":[{"role":"user","content":" "}]`, "messages")
	f(older, `"messages":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"x","content":"b"}]`, "messages.1")
	f(older, `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":""}}]},{"role":"user","content":"b"}]`, "messages")
}

func TestTheModelIsInThePath(t *testing.T) {
	f := func(name, body, want string) {
		t.Helper()
		c := chatOf(t, body)
		var r proxy.Request
		var s dialect.Scratch
		if err := (Dialect{}).Request(&r, c, targetOf(c, name), &s); err != nil || string(r.Path) != want {
			t.Errorf("%s: %v %s", name, err, r.Path)
		}
	}
	const whole = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	f("gemini-2.5-pro", whole, "/models/gemini-2.5-pro:generateContent")
	f("gemini-2.5-pro", prompt, "/models/gemini-2.5-pro:streamGenerateContent?alt=sse")
	f("models/gemini-2.5-pro", whole, "/models/gemini-2.5-pro:generateContent")
	f("tunedModels/ours", whole, "/tunedModels/ours:generateContent")
	f("a?b#c d", whole, "/models/a%3Fb%23c%20d:generateContent")
}

// A body that was written for one attempt must not be in the next one.
func TestScratchIsReused(t *testing.T) {
	c := chatOf(t, prompt)
	var r proxy.Request
	var s dialect.Scratch
	if err := (Dialect{}).Request(&r, c, targetOf(c, older), &s); err != nil {
		t.Fatal(err)
	}
	first := string(r.Body)
	if err := (Dialect{}).Request(&r, c, targetOf(c, older), &s); err != nil || string(r.Body) != first {
		t.Errorf("%v %s", err, r.Body)
	}
}

func TestGenerationsAreReadFromNames(t *testing.T) {
	f := func(name string, f family, version int, known bool) {
		t.Helper()
		gotFamily, got, ok := parseName(name)
		if gotFamily != f || got != version || ok != known {
			t.Errorf("%s: %v %d %v", name, gotFamily, got, ok)
		}
	}
	f("gemini-2.5-flash-lite", lite, 205, true)
	f("models/gemini-3-pro-preview", pro, 300, true)
	f("google/gemini-3.8-flash", flash, 308, true)
	f("gemini-2.5-flash-preview-09-2025", flash, 205, true)
	f("gemini-2.0-flash-001", flash, 200, true)
	f("gemini-2.5-flash-image", picture, 205, true)
	f("gemini-flash-latest", flash, latest, true)
	f("gemini-4-argon", other, 400, true)
	f("gemini-1.5-pro-002", pro, 105, true)
	f("gemma-3-27b-it", other, 0, false)
}
