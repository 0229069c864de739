package upstream

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"github.com/tidwall/gjson"
)

func TestAnswerIsAsLongAsItsUsageSays(t *testing.T) {
	s, url := start(t, Options{})
	for _, model := range []string{"sim-chat", "sim-chat-unicode", "sim-reasoning"} {
		s.Reset()
		body := chatBody(model, "How are you?", `"max_completion_tokens":40`)
		r := post(t, url+"/v1/chat/completions", body)
		if r.status != 200 {
			t.Fatalf("%s: status %d: %s", model, r.status, r.body)
		}
		got := gjson.ParseBytes(r.body)
		text := got.Get("choices.0.message.content").Str
		tokens := CountText(text) + CountText(got.Get("choices.0.message.reasoning_content").Str)
		if tokens != 40 || got.Get("usage.completion_tokens").Int() != 40 {
			t.Errorf("%s: %d tokens in the text, %d in usage, want 40", model, tokens,
				got.Get("usage.completion_tokens").Int())
		}
		if got.Get("choices.0.finish_reason").Str != "length" {
			t.Errorf("%s: finish_reason %q", model, got.Get("choices.0.finish_reason").Str)
		}
		prompt := CountPrompt([]byte(body))
		if got.Get("usage.prompt_tokens").Int() != prompt || got.Get("usage.total_tokens").Int() != prompt+40 {
			t.Errorf("%s: usage %s, want a prompt of %d", model, got.Get("usage").Raw, prompt)
		}
		if st := settled(t, s); st.Tokens.CompletionTokens != 40 || st.Tokens.PromptTokens != prompt ||
			st.Outcomes[Complete].Requests != 1 {
			t.Errorf("%s: truth %+v", model, st.Tokens)
		}
	}
}

func TestStreamDeltasAreOneTokenEach(t *testing.T) {
	s, url := start(t, Options{})
	r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi", `"stream":true`, `"max_tokens":25`,
		`"stream_options":{"include_usage":true}`))
	list, done := events(t, r.body)
	text, deltas := said(list)
	if deltas != 25 || CountText(text) != 25 || !done {
		t.Fatalf("%d deltas, %d tokens, done %v", deltas, CountText(text), done)
	}
	last := list[len(list)-1]
	if last.Get("usage.completion_tokens").Int() != 25 || last.Get("choices.#").Int() != 0 {
		t.Errorf("usage chunk: %s", last.Raw)
	}
	for _, e := range list[:len(list)-1] {
		if e.Get("usage").Type != gjson.Null || !e.Get("usage").Exists() {
			t.Errorf("usage before the end: %s", e.Raw)
		}
	}
	if st := settled(t, s); st.Tokens.CompletionTokens != 25 || st.Endpoints["chat_stream"].Requests != 1 {
		t.Errorf("truth %+v", st)
	}
}

func TestStreamHasNoUsageUnlessAsked(t *testing.T) {
	_, url := start(t, Options{})
	r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi", `"stream":true`))
	list, _ := events(t, r.body)
	for _, e := range list {
		if e.Get("usage").Exists() {
			t.Errorf("usage without include_usage: %s", e.Raw)
		}
	}
}

func TestEveryChoiceIsBilled(t *testing.T) {
	s, url := start(t, Options{})
	for _, stream := range []string{"false", "true"} {
		s.Reset()
		r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi", `"n":3`, `"max_completion_tokens":7`,
			`"stream":`+stream))
		if r.status != 200 {
			t.Fatal(string(r.body))
		}
		if got := settled(t, s).Tokens.CompletionTokens; got != 21 {
			t.Errorf("stream %s: %d tokens for 3 choices of 7", stream, got)
		}
	}
}

const weather = `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":` +
	`{"city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["C","F"]}},"required":["city","days","unit"]}}}]`

func TestRequiredToolIsCalledWithConformingArguments(t *testing.T) {
	_, url := start(t, Options{})
	f := func(choice string, want bool) {
		t.Helper()
		r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "weather?", weather, `"tool_choice":`+choice))
		got := gjson.ParseBytes(r.body)
		call := got.Get("choices.0.message.tool_calls.0.function")
		if call.Exists() != want {
			t.Fatalf("tool_choice %s: %s", choice, r.body)
		}
		if !want {
			return
		}
		var args struct {
			City string
			Days int
			Unit string
		}
		if err := json.Unmarshal([]byte(call.Get("arguments").Str), &args); err != nil || args.City == "" ||
			args.Days == 0 || args.Unit != "C" {
			t.Errorf("arguments %s: %v", call.Get("arguments").Str, err)
		}
		if got.Get("choices.0.finish_reason").Str != "tool_calls" {
			t.Errorf("finish_reason %s", got.Get("choices.0.finish_reason").Str)
		}
	}
	f(`"required"`, true)
	f(`{"type":"function","function":{"name":"get_weather"}}`, true)
	f(`"auto"`, false)
	f(`"none"`, false)
}

func TestStructuredOutputConforms(t *testing.T) {
	_, url := start(t, Options{})
	schema := `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#/$defs/p"}},"b":{"anyOf":[{"type":"null"},{"type":"string"}]}},"$defs":{"p":{"type":"object","properties":{"n":{"type":"number","minimum":10}}}}}}}`
	for _, more := range []string{"", `"stream":true`} {
		extra := []string{schema}
		if more != "" {
			extra = append(extra, more)
		}
		r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "go", extra...))
		text := gjson.GetBytes(r.body, "choices.0.message.content").Str
		if more != "" {
			list, _ := events(t, r.body)
			text, _ = said(list)
		}
		if text != `{"a":[{"n":10}],"b":null}` {
			t.Errorf("content %q", text)
		}
	}
}

func TestEmbeddingIsTheSameInBothEncodings(t *testing.T) {
	_, url := start(t, Options{})
	floats := post(t, url+"/v1/embeddings", `{"model":"sim-embedding","input":"hello","dimensions":16}`)
	packed := post(t, url+"/v1/embeddings",
		`{"model":"sim-embedding","input":"hello","dimensions":16,"encoding_format":"base64"}`)
	raw, err := base64.StdEncoding.DecodeString(gjson.GetBytes(packed.body, "data.0.embedding").Str)
	if err != nil || len(raw) != 64 {
		t.Fatalf("%v: %d bytes", err, len(raw))
	}
	sum := 0.0
	for i := range 16 {
		f := gjson.GetBytes(floats.body, "data.0.embedding."+strconv.Itoa(i)).Num
		bits := uint32(raw[4*i]) | uint32(raw[4*i+1])<<8 | uint32(raw[4*i+2])<<16 | uint32(raw[4*i+3])<<24
		if float32(f) != math.Float32frombits(bits) {
			t.Errorf("element %d differs: %v", i, f)
		}
		sum += f * f
	}
	if math.Abs(sum-1) > 1e-5 {
		t.Errorf("length %v", sum)
	}
}
