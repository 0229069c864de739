package responses_test

import (
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/responses"

	"farebox/tests/oracles/responsestest"
)

func TestCompletionsBecomeResponses(t *testing.T) {
	t.Parallel()
	f := func(message, finish string) *responses.Response {
		t.Helper()
		r, err := responsestest.CheckResponse([]byte(answered(t, sdk, request, completion(message, finish))))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := f(`"content":"a","reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s"}],
		"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},
		{"id":"c1","type":"function","function":{"name":"g","arguments":"{}"}}]`, "tool_calls")
	var kinds []string
	for _, item := range r.Output {
		kinds = append(kinds, item.Type)
	}
	if got := strings.Join(kinds, " "); got != "reasoning function_call function_call message" || r.OutputText() != "a" ||
		r.Status != "completed" || r.Output[1].CallID == r.Output[2].CallID || r.Usage.TotalTokens != 14 {
		t.Errorf("%s", r.RawJSON())
	}
	back := formOf(t, sdk, `{"model":"m","input":`+r.JSON.Output.Raw()+`}`)
	same(t, "back", string(back.Request()), `{"model":"m","messages":[{"role":"assistant","content":"a",
		"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s"}],"tool_calls":[
		{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},
		{"id":"`+r.Output[2].CallID+`","type":"function","function":{"name":"g","arguments":"{}"}}]}]}`)
	if r = f(`"content":"a"`, "length"); r.Status != "incomplete" || r.IncompleteDetails.Reason != "max_output_tokens" ||
		r.Output[0].Status != "incomplete" {
		t.Errorf("%s", r.RawJSON())
	}
	if r = f(`"content":null,"refusal":"no"`, "content_filter"); r.IncompleteDetails.Reason != "content_filter" ||
		r.Output[0].Content[0].Refusal != "no" {
		t.Errorf("%s", r.RawJSON())
	}
	if r = f(`"content":"a","annotations":[{"type":"url_citation","url_citation":{"url":"https://x","title":"X","start_index":0,
		"end_index":1}}]`, "stop"); r.Output[0].Content[0].Annotations[0].URL != "https://x" {
		t.Errorf("%s", r.RawJSON())
	}
	if r = f(`"content":""`, "stop"); len(r.Output) != 1 {
		t.Errorf("%s", r.RawJSON())
	}
	if r = f(`"content":[{"type":"thinking","thinking":"b"},{"type":"text","text":"c"}]`, "stop"); r.OutputText() != "c" ||
		r.Output[0].Summary[0].Text != "b" {
		t.Errorf("%s", r.RawJSON())
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"choices":[]}`, `{"choices":[{}]}`, `{"choices":[{"message":null}]}`, `  `} {
		form := formOf(t, sdk, request)
		if out, err := wholeAnswer(t, form, bad); err == nil {
			t.Errorf("%s became %s", bad, out)
		}
	}
}

// A response repeats the request's members, in the form that typed clients read.
func TestResponsesRepeatTheRequest(t *testing.T) {
	t.Parallel()
	body := `{"model":"alias","input":"Hi","instructions":"i","metadata":{"a":"b"},"temperature":0.5,"top_p":0.9,"max_output_tokens":7,
		"parallel_tool_calls":false,"reasoning":{"effort":"low"},"truncation":"auto","user":"u","prompt_cache_key":"k",
		"text":{"format":{"type":"json_schema","name":"n","schema":{},"strict":true},"verbosity":"low"},
		"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"type":"web_search"}],
		"tool_choice":{"type":"function","function":{"name":"f"}},"top_logprobs":2}`
	r, err := responsestest.CheckResponse([]byte(answered(t, sdk, body, completion(`"content":"a"`, "stop"))))
	if err != nil {
		t.Fatal(err)
	}
	if r.Model != "m" || r.Instructions.OfString != "i" || r.Metadata["a"] != "b" || r.Temperature != 0.5 || r.TopP != 0.9 ||
		r.MaxOutputTokens != 7 || r.ParallelToolCalls || r.Reasoning.Effort != "low" || r.Truncation != "auto" ||
		r.Text.Format.Name != "n" || r.Text.Verbosity != "low" || len(r.Tools) != 2 || r.Tools[0].Name != "f" ||
		r.ToolChoice.Name != "f" || r.TopLogprobs != 2 || !strings.Contains(r.RawJSON(), `"user":"u"`) || r.PromptCacheKey != "k" ||
		r.CreatedAt != 1_700_000_000 || r.ID != "resp_"+testID {
		t.Errorf("%s", r.RawJSON())
	}
}

func TestSearchesAreItems(t *testing.T) {
	t.Parallel()
	body := strings.Replace(request, `"stream"`, `"include":["web_search_call.action.sources"],"stream"`, 1)
	whole := strings.TrimSuffix(completion(`"content":"a"`, "stop"), "}") + `,"cost":{"usd":1},` + searched + `}`
	r, err := responsestest.CheckResponse([]byte(answered(t, sdk, body, whole)))
	if err != nil {
		t.Fatal(err)
	}
	if r.Output[0].Type != "web_search_call" || r.Output[0].Status != "completed" ||
		len(r.Output[0].AsWebSearchCall().Action.AsSearch().Sources) != 2 || r.JSON.ExtraFields["cost"].Raw() != `{"usd":1}` {
		t.Errorf("%s", r.RawJSON())
	}
	r = checked(t, body, strings.Replace(delta(`"content":"a"`), `{"id"`, `{`+searched+`,"id"`, 1)+finish("stop")+done)
	if r.Output[0].Type != "web_search_call" || len(r.Output[0].AsWebSearchCall().Action.AsSearch().Sources) != 2 ||
		r.OutputText() != "a" {
		t.Errorf("%s", r.RawJSON())
	}
	failed := strings.Replace(searched, `]}`, `],"web_search_failed":true}`, 1)
	r = checked(t, body, strings.Replace(delta(`"content":"a"`), `{"id"`, `{`+failed+`,"id"`, 1)+finish("stop")+done)
	if r.Output[0].Status != "failed" {
		t.Errorf("%s", r.RawJSON())
	}
}
