package strict

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestMessagesAreJudgedAsTheRealServerDoes(t *testing.T) {
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	f := func(model, members, want string) {
		t.Helper()
		body := `{"model":"` + model + `","max_tokens":2000,` + members + `}`
		if !gjson.Valid(body) {
			t.Fatalf("%s is not JSON", body)
		}
		if got := messagesFault(gjson.Parse(body), ""); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s\n got %q\nwant %q", body, got, want)
		}
	}
	turns := func(list string) string { return `"messages":[` + list + `]` }
	user := func(blocks string) string { return turns(`{"role":"user","content":[` + blocks + `]}`) }
	const any, call, answer = "sim-claude",
		`{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}`, `{"type":"tool_result","tool_use_id":"a","content":"x"}`

	f(any, hi, "")
	if got := messagesFault(gjson.Parse(`{"model":"m",`+hi+`}`), ""); !strings.Contains(got, "max_tokens") {
		t.Errorf("no max_tokens: %q", got)
	}
	f(any, hi+`,"frequency_penalty":1`, "frequency_penalty: Extra inputs are not permitted")
	f(any, `"messages":[]`, "at least one message is required")
	f(any, turns(`{"role":"assistant","content":"hi"}`), `first message must use the "user" role`)
	f(any, turns(`{"role":"user","content":"a"},{"role":"user","content":"b"}`), "roles must alternate")
	f(any, turns(`{"role":"system","content":"a"}`), `Unexpected role "system"`)
	f(any, turns(`{"role":"user","content":"a","name":"b"}`), "messages.0.name: Extra inputs are not permitted")
	f(any, user(`{"type":"text","text":""}`), "must be non-empty")
	f(any, user(`{"type":"text","text":" \n"}`), "must contain non-whitespace text")
	f(any, user(`{"type":"image","source":{"type":"base64","media_type":"image/jpg","data":"aGk="}}`),
		"Input should be 'image/jpeg'")
	f(any, user(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk"}}`),
		"Invalid base64 data")
	f(any, user(`{"type":"image","source":{"type":"url","url":"file:///etc/passwd"}}`), "Only HTTPS URLs")
	f(any, user(`{"type":"tool_use","id":"a","name":"f","input":{}}`), "can only be in `assistant` messages")
	f(any, user(answer), "unexpected `tool_use_id`")
	f(any, turns(call+`,{"role":"user","content":[`+answer+`]}`), "")
	f(any, turns(call+`,{"role":"user","content":[{"type":"text","text":"b"},`+answer+`]}`),
		"without `tool_result` blocks immediately after")
	f(any, turns(call+`,{"role":"user","content":"b"}`), "without `tool_result` blocks immediately after")
	f(any, turns(call), "without `tool_result` blocks immediately after")
	f(any, turns(strings.Replace(call, `"id":"a"`, `"id":"a.b"`, 1)), "String should match pattern")
	f(any, turns(call+`,{"role":"user","content":[`+answer+`]},`+strings.SplitN(call, "},", 2)[1]),
		"ids must be unique")
	f(any, hi+`,"stop_sequences":["\n"]`, "must contain non-whitespace")
	f(any, hi+`,"tool_choice":{"type":"auto"}`, "while providing tools")
	f(any, hi+`,"tools":[{"name":"f","input_schema":{}}]`, "input_schema.type: Field required")
	f(any, user(strings.Repeat(`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},`, 4)+
		`{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}`), "A maximum of 4 blocks")
	f(any, user(`{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"2h"}}`),
		"ttl: Input should be '5m' or '1h'")
	f(any, hi+`,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`,
		"'additionalProperties' must be explicitly set to false")

	budget := func(n string) string { return hi + `,"thinking":{"type":"enabled","budget_tokens":` + n + `}` }
	const adaptive, disabled = hi + `,"thinking":{"type":"adaptive"}`, hi + `,"thinking":{"type":"disabled"}`
	f("claude-sonnet-4-5", budget("1024"), "")
	f("claude-sonnet-4-5", budget("1023"), "greater than or equal to 1024")
	f("claude-sonnet-4-5", budget("2000"), "must be greater than `thinking.budget_tokens`")
	f("claude-sonnet-4-5", budget("1024")+`,"temperature":0.5`, "may only be set to 1")
	f("claude-sonnet-4-5", budget("1024")+`,"top_k":5`, "`top_k` must be unset")
	f("claude-sonnet-4-5", budget("1024")+
		`,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}`, "forces tool use")
	f("claude-sonnet-4-5", turns(call+`,{"role":"user","content":[`+answer+`]}`)+
		`,"thinking":{"type":"enabled","budget_tokens":1024}`, "Expected `thinking`")
	f("claude-sonnet-4-5", adaptive, "adaptive thinking is not supported")
	f("claude-sonnet-4-5", hi+`,"output_config":{"effort":"low"}`, "does not support the effort")
	f("claude-sonnet-4-5", hi+`,"temperature":0.5,"top_p":0.5`, "cannot both be specified")
	f("claude-sonnet-4-5", hi+`,"temperature":1.5`, "less than or equal to 1")
	f("claude-opus-4-5-20251101", hi+`,"output_config":{"effort":"high"}`, "")
	f("claude-opus-4-5-20251101", hi+`,"output_config":{"effort":"max"}`, "not supported for this model")
	f("claude-opus-4-6", adaptive+`,"output_config":{"effort":"max"}`, "")
	f("claude-opus-4-6", adaptive+`,"output_config":{"effort":"xhigh"}`, "not supported for this model")
	f("claude-opus-4-6", turns(`{"role":"user","content":"a"},{"role":"assistant","content":"b"}`),
		"does not support assistant message prefill")
	f("claude-haiku-4-5", turns(`{"role":"user","content":"a"},{"role":"assistant","content":"b"}`), "")
	f("claude-haiku-4-5", turns(`{"role":"user","content":"a"},{"role":"assistant","content":"b "}`),
		"trailing whitespace")
	f("claude-opus-4-7", budget("1024"), `"thinking.type.enabled" is not supported`)
	f("claude-opus-4-8", hi+`,"temperature":0.5`, "`temperature` is deprecated")
	f("claude-opus-4-8", hi+`,"temperature":1`, "")
	f("claude-opus-5", disabled, "")
	f("claude-opus-5-5", disabled, "thinking.type.disabled")
	f("claude-sonnet-5-5", hi+`,"thinking":{"type":"between_tools"}`, "")
	f("claude-3-7-sonnet-20250219", budget("1024"), "")
	f("claude-3-5-haiku-20241022", budget("1024"), "does not support thinking")
	f("claude-opus-4-20250514", hi+`,"temperature":0.5,"top_p":0.5`, "")
}
