package upstream_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
	"farebox/tests/oracles/responsestest"
)

// askResponses posts a request, whose members follow the model.
func askResponses(t *testing.T, url, members string) (int, string) {
	t.Helper()
	body := strings.NewReader(`{"model":"gpt-5","store":false,` + members + `}`)
	res, err := http.Post(url+"/responses", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// OpenAI's own types read the simulated server's answers, whole and event by event, and
// its usage matches its tokens.
func TestOpenAIsTypesReadSimulatedResponses(t *testing.T) {
	t.Parallel()
	s := strict.New(upstream.Options{})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	const tools = `,"tools":[{"type":"function","name":"look","strict":false,"parameters":{"type":"object",` +
		`"properties":{"where":{"type":"string"}}}},{"type":"function","name":"say","strict":true,"parameters":null}]`
	for members, status := range map[string]string{
		`"input":"[[sim tokens=9]] hi"`:                                                      "completed",
		`"input":"hi","max_output_tokens":20,"reasoning":{"effort":"high"}`:                  "incomplete",
		`"input":"[[sim tool=all]] hi"` + tools:                                              "completed",
		`"input":"[[sim said_in=refusal]] no"`:                                               "completed",
		`"input":"[[sim split=byte comments=1]]","include":["message.output_text.logprobs"]`: "completed",
		`"input":[{"role":"user","content":[{"type":"input_text","text":"[[sim reasoning=4 hidden=7 cached=2]] hi"}]}],` +
			`"include":["reasoning.encrypted_content"]`: "completed",
		`"input":"[[sim finish=content_filter]] hi"`: "incomplete",
	} {
		s.WaitIdle(time.Second)
		before := s.Stats().Tokens
		code, body := askResponses(t, url, members)
		r, err := responsestest.CheckResponse([]byte(body))
		if code != 200 || err != nil || string(r.Status) != status {
			t.Errorf("%s is answered %d %s: %v", members, code, body, err)
			continue
		}
		s.WaitIdle(time.Second)
		after := s.Stats().Tokens
		if got := after.CompletionTokens - before.CompletionTokens; got != r.Usage.OutputTokens ||
			after.PromptTokens-before.PromptTokens != r.Usage.InputTokens {
			t.Errorf("%s: usage %s, but %d tokens were made", members, r.Usage.RawJSON(), got)
		}
		code, body = askResponses(t, url, `"stream":true,`+members)
		last, err := responsestest.Check(body)
		if code != 200 || err != nil || string(last.Status) != status ||
			last.Usage.OutputTokens != r.Usage.OutputTokens {
			t.Errorf("%s is streamed %d: %v\n%s", members, code, err, body)
		}
	}
}

// Requests that would leave data in the account behind the key, or read data from it, are
// refused. So are members that the documentation does not have.
func TestSimulatedResponsesRefuseLikeTheVendor(t *testing.T) {
	t.Parallel()
	s := strict.New(upstream.Options{})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, c := range [][2]string{
		{`"input":"hi","previous_response_id":"resp_1"`, "previous_response_id"},
		{`"input":"hi","conversation":"conv_1"`, "conversation"},
		{`"input":"hi","background":true`, "Background"},
		{`"input":[{"type":"item_reference","id":"msg_1"}]`, "not found"},
		{`"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]`, "file"},
		{`"input":"hi","tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]`, "vector_store_ids"},
		{`"input":"hi","tools":[{"type":"web_search"}]`, "disabled"},
		{`"input":"hi","svc_parameters":{}`, "svc_parameters"},
		{`"input":"hi","max_output_tokens":5`, ">= 16"},
		{`"input":"hi","tools":[{"type":"function","function":{"name":"f"}}]`, "tools[0].name"},
		{`"input":[{"role":"user","content":[{"type":"text","text":"hi"}]}]`, "input_text"},
		{`"input":[{"role":"assistant","content":[{"type":"input_text","text":"hi"}]}]`, "output_text"},
		{`"input":[{"type":"function_call_output","call_id":"c","output":"1"}]`, "No tool call"},
		{`"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]`, "No tool output"},
		{`"input":[{"type":"reasoning","summary":[],"encrypted_content":"rd1_x"}]`, "verified"},
		{`"input":[{"type":"function_call","id":"x","call_id":"c","name":"f","arguments":"{}"}]`, "begins with 'fc'"},
		{`"input":"hi","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"g"}`, "not found"},
	} {
		members, want := c[0], c[1]
		code, body := askResponses(t, url, members)
		if code != 400 || !strings.Contains(gjson.Get(body, "error.message").Str, want) {
			t.Errorf("%s is answered %d %s, expected 400 with %q", members, code, body, want)
		}
	}
}
