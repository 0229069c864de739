package dialect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"farebox/providers/attempt"
	"farebox/proxy/jsontext"
)

func TestTextsOfUpstreamsLoseInternals(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := SafeText(in); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
	// Helpful messages stay.
	for _, text := range []string{
		"Invalid value for 'temperature': expected a number between 0.0 and 2.0, got 2.5.",
		"messages.0.content.1.image_url: field required",
		"Unsupported parameter: 'max_tokens' is not supported with this model, e.g. gpt-4.1. Use " +
			"'max_completion_tokens' instead.",
		"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
		"tools.3.function.parameters: schema is not an object; see response_format.json_schema.",
		"Ungültiger Wert: 東京",
	} {
		f(text, text)
	}
	f("see https://platform.openai.com/docs?key=1 now", "see [removed] now")
	f("at backend-7.internal.simulated:9000 (10.0.0.7:80)", "at [removed] ([removed])")
	f("model server vllm-0.default.svc.cluster.local refused", "model server [removed] refused")
	f("pod gpu-worker:8000 died", "pod [removed] died")
	f("in organization org-simsecret0001 project proj_abcDEF123", "in organization [removed] project [removed]")
	f("Incorrect API key provided: sk-sim***0001.", "Incorrect API key provided: [removed].")
	f("Authorization: Bearer abc.def", "[removed] [removed]")
	f("Bearer eyJhbGciOiJIUzI1NiJ9 was refused", "[removed] was refused")
	f("request_id 0f8fad5bd9cb469fa16570867728950e", "request_id [removed]")
	f("mail ops@example.com", "mail [removed]")
	f("deployment my.azure.region/gpt missing", "deployment [removed] missing")
	f("arn:aws:bedrock:us-east-1:123456789012:model/x denied", "[removed] denied")
	f("two\nlines\x00\tand \xff bytes", "two lines and bytes")
	if long := SafeText(strings.Repeat("word ", 1000)); len(long) > maxShown+4 {
		t.Errorf("%d bytes are shown", len(long))
	}
}

func TestFailuresOfUpstreamsBecomeOurs(t *testing.T) {
	f := func(status int, body string, want Failure) {
		t.Helper()
		want.Verdict = attempt.Judge(status, time.Minute)
		if got := FailureOf(status, time.Minute, []byte(body)); got != want {
			t.Errorf("%d %s:\n got %+v\nwant %+v", status, body, got, want)
		}
	}
	invalid := func(text string) Failure {
		return Failure{Status: 400, Code: "INVALID_REQUEST", Type: "invalid_request_error", Message: text}
	}
	f(400, `{"error":{"message":"bad tool","type":"invalid_request_error","param":"tools","code":null}}`,
		invalid("bad tool"))
	f(400, `{"error":"bad tool"}`, invalid("bad tool"))
	f(400, `{"object":"error","message":"bad tool","type":"BadRequestError","code":400}`, invalid("bad tool"))
	f(422, `{"detail":[{"loc":["body","x"],"msg":"field required"},{"msg":"and more"}]}`,
		invalid("field required; and more"))
	f(400, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too many"}}`,
		invalid("max_tokens: too many"))
	f(422, `{"object":"error","message":{"detail":[{"loc":["body","x"],"msg":"field required"}]}}`, invalid("field required"))
	f(400, `{"message":{"detail":"bad tool"}}`, invalid("bad tool"))
	f(400, `{"message":{"prompt":"words of a prompt: rate limit"}}`, invalid(textRejected))
	f(400, `<html>nginx on host-7.internal</html>`, invalid(textRejected))
	f(418, ``, invalid(textRejected))

	context := Failure{Status: 400, Code: "context_length_exceeded", Type: "invalid_request_error", Param: "messages"}
	context.Message = "too long"
	f(400, `{"error":{"message":"too long","code":"context_length_exceeded"}}`, context)
	context.Message = "prompt is too long: 210000 tokens > 200000 maximum"
	f(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, context)
	context.Message = "This model's maximum context length is 10 tokens"
	f(422, `{"message":"This model's maximum context length is 10 tokens"}`, context)

	policy := Failure{Status: 422, Code: "CONTENT_POLICY_VIOLATION", Type: "invalid_request_error"}
	policy.Message = "Your request was rejected as a result of our safety system."
	f(400, `{"error":{"message":"Your request was rejected as a result of our safety system.","code":"content_policy_violation"}}`, policy)
	policy.Message = "input was flagged"
	f(403, `{"error":{"code":403,"message":"input was flagged"}}`, policy)

	offline := Failure{Status: 503, Code: "MODEL_OFFLINE", Type: "server_error", Message: textOffline}
	for _, status := range []int{401, 402, 403, 404, 405, 407, 421, 301} {
		f(status, `{"error":{"message":"The key sk-1234567 of org-7654321 is wrong"}}`, offline)
	}
	for status, want := range map[int]Failure{
		408: {Status: 504, Code: "REQUEST_TIMEOUT", Type: "server_error", Message: textTimeout},
		409: {Status: 503, Code: "MODEL_AT_CAPACITY", Type: "server_error", Message: textCapacity},
		429: {Status: 429, Code: "MODEL_OVERLOADED", Type: "rate_limit_error", Message: textOverloaded},
		500: {Status: 500, Code: "INFERENCE_FAILED", Type: "server_error", Message: textFailed},
		503: {Status: 503, Code: "MODEL_AT_CAPACITY", Type: "server_error", Message: textCapacity},
		504: {Status: 504, Code: "REQUEST_TIMEOUT", Type: "server_error", Message: textTimeout},
		529: {Status: 429, Code: "MODEL_OVERLOADED", Type: "rate_limit_error", Message: textOverloaded},
	} {
		f(status, `{"error":{"message":"on host-7.internal"}}`, want)
	}
	f(413, `{}`, Failure{Status: 413, Code: "PAYLOAD_TOO_LARGE", Type: "invalid_request_error", Message: textTooLarge})
	// A body of brackets must not exhaust the stack.
	f(400, strings.Repeat("[", 60<<10), invalid(textRejected))
}

func TestErrorEventIsOneEventAndTheEnd(t *testing.T) {
	got := string(ErrorEvent(nil, &Fault{"upstream_error", "server_error", "a \"b\"\n", 3}))
	want := `data: {"error":{"message":"a \"b\"\n","type":"server_error","code":"upstream_error","retry_after":3}}` +
		"\n\ndata: [DONE]\n\n"
	if got != want {
		t.Errorf("%s", got)
	}
	if again := string(ErrorEvent([]byte("x"), &Fault{"c", "t", "m", 0})); again !=
		`xdata: {"error":{"message":"m","type":"t","code":"c"}}`+"\n\ndata: [DONE]\n\n" {
		t.Errorf("%s", again)
	}
}

// FuzzStrings holds our string codec against encoding/json.
func FuzzStrings(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\\n\t\r\b\f\x00\x7f", "ü東😀", "\xff\xfe", `\ud83d\ude00`, `\ud83d`, `\u00`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted := jsontext.AppendString(nil, s)
		var back string
		if err := json.Unmarshal(quoted, &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") &&
			!strings.Contains(back, "\ufffd") {
			t.Fatalf("%q became %s: %v", s, quoted, err)
		}
		if got := string(jsontext.AppendUnescaped(nil, quoted[1:len(quoted)-1])); got != back {
			t.Fatalf("%q came back as %q", back, got)
		}
		escaped := `"` + s + `"`
		if json.Unmarshal([]byte(escaped), &back) == nil {
			if got := string(jsontext.AppendUnescaped(nil, []byte(s))); strings.ToValidUTF8(got, "\ufffd") != back &&
				!strings.Contains(back, "\ufffd") {
				t.Fatalf("%s is %q, not %q", escaped, back, got)
			}
			if end := jsontext.SkipString([]byte(escaped+"x"), 0); end != len(escaped) {
				t.Fatalf("%s ends at %d", escaped, end)
			}
		}
	})
}

// FuzzWalk holds the lax walk against encoding/json.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"b":[{"c":"]}"}],"d":{"e":null}}`, ` { "a" : "\\\"" , "b":-1e5 } `,
		`{"a":[1,"x",{}]}`, `{"a"`, `{"a":}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := []byte(s)
		i := jsontext.SkipSpace(b, 0)
		if i >= len(b) || b[i] != '{' {
			return
		}
		var m jsontext.Member
		got := map[string]string{}
		at, n := i+1, 0
		for ok := true; ok; n++ {
			before := at
			if at, ok = jsontext.NextMember(b, at, &m); ok {
				got[string(m.Key)] = string(b[m.From:m.To])
				if at <= before {
					t.Fatalf("%q: the walk does not advance", s)
				}
			}
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil || strings.Contains(s, "\\u") {
			return
		}
		for key, raw := range want {
			quoted, _ := json.Marshal(key)
			if g, ok := got[string(quoted[1:len(quoted)-1])]; ok && g != string(raw) {
				t.Fatalf("%q: %s is %s, want %s", s, key, g, raw)
			}
		}
		if n-1 < len(want) {
			t.Fatalf("%q: %d members, want %d", s, n-1, len(want))
		}
	})
}

// "The server did not like the character's words, so it quoted them, and my customer
// and my log had them."
func TestFailuresDoNotRepeatPromptsOfOthers(t *testing.T) {
	t.Parallel()
	prompt := []byte("You are Captain Elara.\nNever say\nthe word\n\"swordfish\", but hint at it: antidisestablishment.")
	for _, text := range []string{
		`Invalid input: "You are Captain Elara.\nNever say\nthe word \"swordfish\""`,
		"bad message {'role': 'system', 'content': 'Never say\\nthe word\\n\"swordfish\"'}",
		"flagged: NEVER  SAY THE", "flagged term: antidisestablishment",
	} {
		body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": text}})
		f := FailureOf(400, 0, body)
		f.Veil(prompt)
		if f.Message != textRejected && f.Message != textPolicy {
			t.Errorf("%q becomes %q", text, f.Message)
		}
		if words := FirstWords(body, nil, prompt); words != "…" {
			t.Errorf("%q is logged as %q", text, words)
		}
	}
	own := []byte(`{"error":{"message":"temperature: expected a number, and you are at 3"}}`)
	f := FailureOf(400, 0, own)
	f.Veil(prompt)
	if !strings.HasPrefix(f.Message, "temperature: expected") {
		t.Errorf("words that repeat nothing become %q", f.Message)
	}
	if words := FirstWords(own, nil, prompt); !strings.HasPrefix(words, "temperature: expected") {
		t.Errorf("words that repeat nothing are logged as %q", words)
	}
}
