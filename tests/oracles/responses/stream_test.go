package responses_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/responses"

	"farebox/providers/chat/dialect"
	"farebox/tests/oracles/responsestest"
)

// checked is the response at the end of a stream, which is the same however the chunks
// were cut.
func checked(t testing.TB, body, chunks string) *responses.Response {
	t.Helper()
	whole := events(t, sdk, body, chunks)
	r, err := responsestest.Check(whole)
	if err != nil {
		t.Fatalf("%v\n%s", err, chunks)
	}
	for step := range min(len(chunks), 7) {
		var cuts []int
		for at := step + 1; at < len(chunks); at += step + 1 {
			cuts = append(cuts, at)
		}
		if got := events(t, sdk, body, chunks, cuts...); timeless(got) != timeless(whole) {
			t.Fatalf("in pieces of %d:\n%s\nat once:\n%s", step+1, got, whole)
		}
	}
	return r
}

func TestChunksBecomeEvents(t *testing.T) {
	t.Parallel()
	r := checked(t, request, delta(`"role":"assistant","content":""`)+delta(`"reasoning_content":"I "`)+
		delta(`"reasoning_content":"think"`)+delta(`"content":"a\n"`)+delta(`"content":"\u00e9\""`)+finish("stop")+
		usageChunk+done)
	if r.Status != "completed" || r.OutputText() != "a\né\"" || r.Output[0].Summary[0].Text != "I think" {
		t.Errorf("%s", r.RawJSON())
	}
	if u := r.Usage; u.InputTokens != 9 || u.OutputTokens != 5 || u.TotalTokens != 14 || u.InputTokensDetails.CachedTokens != 3 ||
		u.OutputTokensDetails.ReasoningTokens != 2 {
		t.Errorf("%+v", u)
	}

	r = checked(t, request, delta(`"role":"assistant","content":"I look"`)+
		delta(`"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]`)+
		delta(`"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]`)+
		delta(`"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"g","arguments":"{"}}]`)+
		delta(`"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"index":1,"function":{"arguments":"}"}}]`)+
		finish("tool_calls")+done)
	if len(r.Output) != 3 || r.Output[1].Arguments.OfString != `{"a":1}` || r.Output[1].CallID != "c1" ||
		r.Output[2].Arguments.OfString != "{}" || r.Output[2].Name != "g" || r.Output[2].Status != "completed" {
		t.Errorf("%s", r.RawJSON())
	}

	r = checked(t, request, delta(`"content":"a"`)+finish("length")+done)
	if r.Status != "incomplete" || r.IncompleteDetails.Reason != "max_output_tokens" || r.Output[0].Status != "incomplete" {
		t.Errorf("%s", r.RawJSON())
	}
	r = checked(t, request, delta(`"refusal":"I will"`)+delta(`"refusal":" not"`)+finish("content_filter")+usageChunk)
	if r.Status != "incomplete" || r.IncompleteDetails.Reason != "content_filter" ||
		r.Output[0].Content[0].Refusal != "I will not" {
		t.Errorf("%s", r.RawJSON())
	}
	if r = checked(t, request, done); r.Status != "completed" || len(r.Output) > 0 {
		t.Errorf("%s", r.RawJSON())
	}
}

// Habits of upstreams beside the rule: usage late, twice or none, calls without a name or
// a number, thoughts under two names, parts, two members in a delta.
func TestOddChunks(t *testing.T) {
	t.Parallel()
	usage := func(n int) string {
		return fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d}}`, n, n+1) +
			"\n\n"
	}
	r := checked(t, request, usage(1)+delta(`"content":"a"`)+usage(2)+finish("stop")+usage(3)+
		`data: {"choices":[],"usage":null}`+"\n\n"+done+usage(4)+delta(`"content":"b"`))
	if r.Usage.InputTokens != 3 || r.OutputText() != "a" {
		t.Errorf("%s", r.RawJSON())
	}
	if r = checked(t, request, delta(`"content":"a"`)+finish("stop")); r.JSON.Usage.Raw() != "null" {
		t.Errorf("%s", r.RawJSON())
	}
	r = checked(t, request, delta(`"tool_calls":[{"id":"c1","function":{"arguments":"{"}}]`)+
		delta(`"tool_calls":[{"function":{"name":"f","arguments":"}"}}]`)+
		delta(`"tool_calls":[{"id":"c2","function":{"name":"g","arguments":"{}"}}]`)+
		delta(`"tool_calls":[{"id":"c2","index":7,"function":{"name":"h","arguments":"{}"}}]`)+
		delta(`"tool_calls":[{"index":8,"function":{"arguments":"[]"}}]`)+
		delta(`"tool_calls":[{"index":9,"id":"c3","type":"custom","custom":{"name":"x","input":"in"}}]`)+
		delta(`"tool_calls":[{"index":9,"custom":{"input":"put"}}]`)+finish("tool_calls")+done)
	var calls []string
	for _, item := range r.Output {
		calls = append(calls, item.Type+" "+item.CallID+" "+item.Name+" "+item.Arguments.OfString+item.Input)
	}
	if got, want := strings.Join(calls, "\n"), "function_call c1 f {}\nfunction_call c2 g {}\nfunction_call call_"+testID+
		"2 h {}\nfunction_call call_"+testID+"3  []\ncustom_tool_call c3 x input"; got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
	r = checked(t, request, delta(`"reasoning":"a","reasoning_content":"a","content":null`)+
		delta(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"b"}]},{"type":"text","text":"c"}]`)+
		delta(`"reasoning_content":"d"`)+delta(`"content":"e","x":1`)+delta(`"content":"f"`)+finish("stop")+done)
	var said []string
	for _, item := range r.Output {
		for _, part := range item.Summary {
			said = append(said, "("+part.Text+")")
		}
		for _, part := range item.Content {
			said = append(said, part.Text)
		}
	}
	if got := strings.Join(said, " "); got != "(ab) c (d) ef" {
		t.Error(got)
	}
	r = checked(t, strings.Replace(request, `"stream"`, `"include":["message.output_text.logprobs"],"stream"`, 1),
		strings.Replace(delta(`"content":"a"`), `"logprobs":null`,
			`"logprobs":{"content":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[]}]}`, 1)+delta(`"content":"b"`)+finish("stop")+done)
	if got := r.Output[0].Content[0].Logprobs; len(got) != 1 || got[0].Token != "a" {
		t.Errorf("%s", r.RawJSON())
	}
	r = checked(t, request, delta(`"content":"see"`)+delta(`"annotations":[{"type":"url_citation","url_citation":{"url":"https://x",`+
		`"title":"X","start_index":0,"end_index":3}},{"type":"url_citation","url_citation":{"url":"https://y"}}]`)+finish("stop")+done)
	if got := r.Output[0].Content[0].Annotations; len(got) != 2 || got[0].URL != "https://x" || got[0].EndIndex != 3 ||
		got[1].URL != "https://y" {
		t.Errorf("%s", r.RawJSON())
	}
}

// Thoughts continue from the items that the client hands back: text, signature and all.
func TestThoughtsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	r := checked(t, request, delta(`"reasoning_content":"one"`)+
		delta(`"reasoning_details":[{"type":"reasoning.text","signature":"s1","format":"f","index":0}],"thought_signature":"s1"`)+
		delta(`"reasoning_details":[{"type":"reasoning.encrypted","data":"d","format":"f","index":1}]`)+
		delta(`"reasoning_content":"two"`)+
		delta(`"reasoning_details":[{"type":"reasoning.text","signature":"s2","format":"f","index":2}]`)+
		delta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]`)+finish("tool_calls")+done)
	if len(r.Output) != 3 {
		t.Fatalf("%s", r.RawJSON())
	}
	back := formOf(t, sdk, `{"model":"m","input":[`+r.Output[0].RawJSON()+`,`+r.Output[1].RawJSON()+`,`+
		r.Output[2].RawJSON()+`]}`)
	same(t, "back", string(back.Request()), `{"model":"m","messages":[{"role":"assistant","content":null,
		"reasoning_content":"onetwo","reasoning_details":[
		{"type":"reasoning.text","signature":"s1","format":"f","index":0,"text":"one"},
		{"type":"reasoning.encrypted","data":"d","format":"f","index":1},
		{"type":"reasoning.text","signature":"s2","format":"f","index":2,"text":"two"}],
		"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`)
}

func TestFailuresEndTheEvents(t *testing.T) {
	t.Parallel()
	failed := delta(`"content":"a"`) + `data: {"error":{"message":"too \"many\"","type":"server_error","code":"model_overloaded"}}` +
		"\n\n" + done
	r := checked(t, request, failed)
	if r.Status != "failed" || r.Error.Code != "rate_limit_exceeded" || r.Error.Message != `too "many"` ||
		r.OutputText() != "a" {
		t.Errorf("%s", r.RawJSON())
	}
	out := events(t, sdk, request, failed)
	if !strings.HasSuffix(out, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":6,\"code\":\"model_overloaded\","+
		"\"message\":\"too \\\"many\\\"\",\"param\":null}\n\n") {
		t.Error(out)
	}
	f := formOf(t, sdk, request)
	s := dialect.OpenForm(chatOf(t, f))
	out = string(s.Pass([]byte(delta(`"content":"a"`) + delta(`"content":"b"`)[:50])))
	out += string(s.Fail(&dialect.Fault{Code: "insufficient_balance", Kind: "insufficient_quota", Message: "no \"money\""}))
	if r, err := responsestest.Check(out); err != nil || r.Error.Code != "insufficient_balance" || r.OutputText() != "a" {
		t.Errorf("%v\n%s", err, out)
	}
	if more := string(s.Pass([]byte(done))) + string(s.Finish()); more != "" {
		t.Errorf("something follows the end: %s", more)
	}
	s.Release()
}
