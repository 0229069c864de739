package gemini

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/providers/chat/dialect"
)

// event is one event of the dialect: an answer with the new content.
func event(data string) string { return "data: " + data + "\r\n\r\n" }

const (
	tail   = `"modelVersion": "gemini-there","responseId": "r1"}`
	usage1 = `"usageMetadata": {"promptTokenCount": 18,"totalTokenCount": 18,"cachedContentTokenCount": 5},`
	usage2 = `"usageMetadata": {"promptTokenCount": 15,"toolUsePromptTokenCount": 3,"candidatesTokenCount": 5,"totalTokenCount": 27,"cachedContentTokenCount": 5,"thoughtsTokenCount": 4},`
)

func parts(list string) string {
	return event(`{"candidates": [{"content": {"parts": [` + list + `],"role": "model"},"index": 0}],` + usage1 + tail)
}

func last(reason, list string) string {
	content := ""
	if list != "" {
		content = `"content": {"parts": [` + list + `],"role": "model"},`
	}
	return event(`{"candidates": [{` + content + `"finishReason": "` + reason + `","index": 0}],` + usage2 + tail)
}

func text(s string) string { return parts(`{"text": "` + s + `"}`) }

const (
	head       = `data: {"id":"chatcmpl-r1","object":"chat.completion.chunk","created":1,"model":"m","choices":[`
	usageEvent = head + `],"usage":{"prompt_tokens":18,"completion_tokens":9,"total_tokens":27,"prompt_tokens_details":{"cached_tokens":5,"cache_creation_input_tokens":0},"completion_tokens_details":{"reasoning_tokens":4}}}` + "\n\n"
	done       = "data: [DONE]\n\n"
	role       = `"role":"assistant","content":""`
)

// chunk is the client's chunk for one part.
func chunk(delta string) string {
	return head + `{"index":0,"delta":{` + delta + `},"logprobs":null,"finish_reason":null}]}` + "\n\n"
}

func finish(reason string) string {
	return head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"` + reason + `"}]}` + "\n\n"
}

// everything has each kind of part.
func everything() string {
	return parts(`{"text": "mi\nnd","thought": true}`) +
		text(`the \"small\"`) + parts(`{"text": " r\u00efver 😀"},{"text": "","thoughtSignature": "dGV4dA=="}`) +
		parts(`{"functionCall": {"id": "q1","name": "look","args": {"a": "\"ü\""}},"thoughtSignature": "c2ln"}`) +
		parts(`{"functionCall": {"name": "go"}},{"functionCall": {"name": "go","args": {}}}`) +
		parts(`{"inlineData": {"mimeType": "image/png","data": "aGk="}}`) +
		event(`{"candidates": [{"groundingMetadata": {"groundingChunks": [{"web": {"uri": "https://x","title": "X"}}],"groundingSupports": [{"segment": {"startIndex": 1,"endIndex": 4},"groundingChunkIndices": [0]}]}}],`+tail) +
		last("STOP", "")
}

func everythingElse() string {
	call := func(index, id, name, args string) string {
		return chunk(`"tool_calls":[{"index":` + index + `,"id":"` + id + `","type":"function","function":{"name":"` + name +
			`","arguments":"` + args + `"}}]`)
	}
	return chunk(role) + chunk(`"reasoning_content":"mi\nnd"`) +
		chunk(`"content":"the \"small\""`) + chunk(`"content":" r\u00efver 😀"`) +
		chunk(`"reasoning_details":[{"type":"reasoning.encrypted","data":"dGV4dA==","format":"google-gemini-v1","index":0}],"thought_signature":"dGV4dA=="`) +
		chunk(`"reasoning_details":[{"id":"q1","type":"reasoning.encrypted","data":"c2ln","format":"google-gemini-v1","index":1}]`) +
		call("0", "q1", "look", `{\"a\": \"\\\"ü\\\"\"}`) +
		call("1", "call_r1_1", "go", "{}") + call("2", "call_r1_2", "go", "{}") +
		chunk(`"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]`) +
		chunk(`"annotations":[{"type":"url_citation","url_citation":{"title":"X","url":"https://x"}}]`) +
		finish("tool_calls") + usageEvent + done
}

type result struct {
	out          string
	usage        dialect.Usage
	done, failed bool
}

func translate(t testing.TB, input string, complete bool, change func(*dialect.Chat), cuts ...int) result {
	c := chatOf(t, prompt)
	if change != nil {
		change(c)
	}
	s := Dialect{}.Stream(c, targetOf(c, newer))
	defer s.Release()
	out := run(s, input, complete, cuts...)
	return result{timeless(out), s.Usage(), s.Done(), s.Failed()}
}

func TestEventsBecomeChunks(t *testing.T) {
	got := translate(t, everything(), true, nil)
	if got.out != everythingElse() {
		t.Errorf("got\n%s\nwant\n%s", got.out, everythingElse())
	}
	if want := (dialect.Usage{Prompt: 18, Cached: 5, Completion: 9, Reasoning: 4, Seen: true}); got.usage != want || !got.done {
		t.Errorf("%+v", got)
	}
	for _, e := range strings.Split(strings.TrimSpace(got.out), "\n\n") {
		if data := strings.TrimPrefix(e, "data: "); data != "[DONE]" && !json.Valid([]byte(data)) {
			t.Errorf("no JSON: %s", data)
		}
	}
	hide := func(c *dialect.Chat) { hidden := false; c.IncludeUsage = &hidden }
	if got := translate(t, everything(), true, hide); got.out != strings.Replace(everythingElse(), usageEvent, "", 1) {
		t.Errorf("usage is not hidden: %s", got.out)
	}
}

func TestSplitsChangeNothing(t *testing.T) {
	servers.NoRace(t)
	for _, input := range []string{everything(), strings.ReplaceAll(everything(), "\r\n", "\n"), everything()[:900],
		text("a") + `{"error": {"code": 503,"message": "x","status": "UNAVAILABLE"}}` + "\r\n"} {
		for _, complete := range []bool{true, false} {
			want := translate(t, input, complete, nil)
			var every []int
			for cut := range input {
				every = append(every, cut)
				if got := translate(t, input, complete, nil, cut); got != want {
					t.Fatalf("cut at %d:\n%+v\nwant\n%+v", cut, got, want)
				}
			}
			if got := translate(t, input, complete, nil, every...); got != want {
				t.Fatalf("byte by byte:\n%+v\nwant\n%+v", got, want)
			}
		}
	}
}

func TestFinishReasons(t *testing.T) {
	for reason, want := range map[string]string{
		"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter", "RECITATION": "content_filter",
		"BLOCKLIST": "content_filter", "PROHIBITED_CONTENT": "content_filter", "SPII": "content_filter",
		"IMAGE_SAFETY": "content_filter", "LANGUAGE": "content_filter", "OTHER": "stop", "NEW_ONE": "stop",
	} {
		got := translate(t, last(reason, ""), true, nil)
		if got.out != chunk(role)+finish(want)+usageEvent+done {
			t.Errorf("%s: %s", reason, got.out)
		}
	}
	for _, reason := range []string{"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"} {
		got := translate(t, text("a")+last(reason, ""), true, nil)
		if !got.failed || !strings.HasSuffix(got.out, `"code":"upstream_error"}}`+"\n\n"+done) {
			t.Errorf("%s: %+v", reason, got)
		}
	}
	// Some servers repeat the reason in every event.
	got := translate(t, last("STOP", `{"text": "a"}`)+last("STOP", `{"text": "b"}`), true, nil)
	if got.out != chunk(role)+chunk(`"content":"a"`)+chunk(`"content":"b"`)+finish("stop")+usageEvent+done {
		t.Errorf("%s", got.out)
	}
}

func TestChoicesOfOneStream(t *testing.T) {
	other := strings.NewReplacer(`"index": 0`, `"index": 1`)
	input := text("a") + strings.ReplaceAll(text("c"), `"index": 0`, `"index": 7`) + other.Replace(text("b")) + last("STOP", "") +
		other.Replace(parts(`{"functionCall": {"name": "go"}}`)) + other.Replace(last("MAX_TOKENS", ""))
	got := translate(t, input, true, func(c *dialect.Chat) { c.Choices = 2 })
	second := strings.NewReplacer(`{"index":0,"delta"`, `{"index":1,"delta"`)
	want := chunk(role) + chunk(`"content":"a"`) + second.Replace(chunk(role)+chunk(`"content":"b"`)+
		chunk(`"tool_calls":[{"index":0,"id":"call_r1_1_0","type":"function","function":{"name":"go","arguments":"{}"}}]`)) +
		finish("stop") + second.Replace(finish("length")) + usageEvent + done
	if got.out != want {
		t.Errorf("got\n%s\nwant\n%s", got.out, want)
	}
	if got := translate(t, text("a")+other.Replace(text("b"))+last("STOP", ""), true,
		func(c *dialect.Chat) { c.Choices = 2 }); got.done {
		t.Error("a stream is done whose second choice has no end")
	}
}

func TestAnswersThatEndEarly(t *testing.T) {
	begin := text("the") + text(" small")
	said := chunk(role) + chunk(`"content":"the"`) + chunk(`"content":" small"`)
	counted := dialect.Usage{Prompt: 18, Cached: 5, Completion: 2, Seen: true, Estimated: true}
	whole := dialect.Usage{Prompt: 18, Cached: 5, Completion: 9, Reasoning: 4, Seen: true}
	f := func(name, input, out string, complete, isDone bool, usage dialect.Usage) {
		t.Helper()
		if got := translate(t, input, complete, nil); got.out != out || got.usage != usage || got.done != isDone {
			t.Errorf("%s: %+v\nwant %s %+v", name, got, out, usage)
		}
	}
	f("client left", begin+text("x")[:30], said, false, false, counted)
	f("upstream broke off", begin, said, true, false, counted)
	f("no empty line at the end", begin+strings.TrimSuffix(last("STOP", ""), "\r\n"), said+finish("stop")+usageEvent+done,
		true, true, whole)
	f("cut after the end", begin+last("STOP", ""), said, false, true, whole)
	ended := `{"candidates": [{"finishReason": "STOP"}],` + tail
	f("usage behind the end", begin+event(ended)+event(`{`+usage2+tail), said+finish("stop")+usageEvent+done, true, true, whole)
	counts := strings.Replace(usageEvent, `"completion_tokens":9,"total_tokens":27`, `"completion_tokens":2,"total_tokens":20`, 1)
	f("no usage at the end", begin+event(ended), said+finish("stop")+strings.Replace(counts, `tokens":4`, `tokens":0`, 1)+done,
		true, true, counted)
	huge := translate(t, event(`{"candidates": [{"finishReason": "STOP"}],"usageMetadata": {"promptTokenCount": 9223372036854775807,"candidatesTokenCount": 9223372036854775807,"thoughtsTokenCount": -4}}`), true, nil)
	if huge.usage != (dialect.Usage{Prompt: 1 << 40, Completion: 1 << 40, Seen: true}) {
		t.Errorf("huge: %+v", huge.usage)
	}
}

func TestErrorsInsideStreamsAreOurs(t *testing.T) {
	const fault = `{"error": {"code": 503,"message": "node7.internal: The model is overloaded.","status": "UNAVAILABLE"}}`
	want := chunk(role) + chunk(`"content":"the"`) +
		`data: {"error":{"message":"The model is overloaded; please retry.","type":"server_error","code":"model_overloaded","retry_after":30}}` + "\n\n" + done
	for name, input := range map[string]string{
		"an event": event(fault), "bare": fault + "\r\n\r\n", "in a list": "[" + fault + "\n]\n",
	} {
		got := translate(t, text("the")+input+text("late"), true, nil)
		if name == "in a list" {
			got = translate(t, text("the")+input, true, nil)
		}
		if got.out != want || !got.failed || !got.done || got.usage.Completion != 1 || got.usage.Prompt != 18 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	got := translate(t, event(`{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},`+usage1+tail), true, nil)
	if !got.failed || !strings.Contains(got.out, `"code":"content_blocked_by_provider"`) {
		t.Errorf("a blocked prompt: %+v", got)
	}
	large := translate(t, text("the")+`data: {"x":"`+strings.Repeat("y", maxEvent+100)+"\"}\n\n"+text("late"), true, nil,
		1000, maxEvent/2, maxEvent+300)
	if !large.failed || !strings.Contains(large.out, `"code":"upstream_error"`) || strings.Contains(large.out, "late") {
		t.Errorf("%+v", large)
	}
}

// A call that writes a file comes whole, however long it is.
func TestLargeCallsAreNotCut(t *testing.T) {
	file := strings.Repeat("line\\n", 60_000)
	got := translate(t, parts(`{"functionCall": {"name": "write","args": {"text": "`+file+`"}}}`)+last("STOP", ""), true, nil,
		70_000, 140_000, 200_000)
	if got.failed || !strings.Contains(got.out, strings.Repeat(`line\\n`, 60_000)) {
		t.Errorf("%v: %d bytes", got.failed, len(got.out))
	}
}

func TestThinkBlocksAreRemoved(t *testing.T) {
	input := text("<thi") + text(`nk>x</think>\nthe `) + text("river <th") + last("STOP", "")
	got := translate(t, input, true, func(c *dialect.Chat) { c.DropThinking = true })
	want := chunk(role) + chunk(`"content":""`) + chunk(`"content":"the "`) + chunk(`"content":"river "`) +
		chunk(`"content":"<th"`) + finish("stop") + usageEvent + done
	if got.out != want {
		t.Errorf("%s", got.out)
	}
}

func TestSourcesAndLogprobsOfStreams(t *testing.T) {
	got := translate(t, event(`{"candidates": [{"content": {"parts": [{"text": "the \u003cb\n"}]},"logprobsResult": {"chosenCandidates": [{"token": "é\"","logProbability": -0.5}],"topCandidates": [{"candidates": [{"token": "a"}]}]}}],`+tail)+
		event(`{"candidates": [{"citationMetadata": {"citationSources": [{"startIndex": 1,"endIndex": 3,"uri": "https://y"}]},"finishReason": "STOP"}],`+usage2+tail), true, nil)
	want := chunk(role) + head + `{"index":0,"delta":{"content":"the \u003cb\n"},"logprobs":{"content":[{"token":"é\"","logprob":-0.5,"bytes":[195,169,34],"top_logprobs":[{"token":"a","logprob":0,"bytes":[97]}]}],"refusal":null},"finish_reason":null}]}` + "\n\n" +
		chunk(`"annotations":[{"type":"url_citation","url_citation":{"start_index":1,"end_index":3,"title":"","url":"https://y"}}]`) +
		finish("stop") + usageEvent + done
	if got.out != want {
		t.Errorf("got\n%s\nwant\n%s", got.out, want)
	}
}

func TestAnswersBecomeCompletions(t *testing.T) {
	f := func(name, candidate, choice string) {
		t.Helper()
		c := chatOf(t, prompt)
		c.Choices = int64(strings.Count(candidate, "finishReason"))
		body := "{\n\"candidates\": [{" + candidate + "}],\n" + usage2 + tail
		var s dialect.Scratch
		out, u, err := Dialect{}.Answer([]byte(body), c, targetOf(c, newer), &s)
		want := `{"id":"chatcmpl-r1","object":"chat.completion","created":1,"model":"m","choices":[` + choice + `],"usage":{"prompt_tokens":18,"completion_tokens":9,"total_tokens":27,"prompt_tokens_details":{"cached_tokens":5,"cache_creation_input_tokens":0},"completion_tokens_details":{"reasoning_tokens":4}}}`
		if err != nil || timeless(string(out)) != want || !json.Valid(out) {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, out, want)
		}
		if u != (dialect.Usage{Prompt: 18, Cached: 5, Completion: 9, Reasoning: 4, Seen: true}) {
			t.Errorf("%s: %+v", name, u)
		}
	}
	one := func(message, reason string) string {
		return `{"index":0,"message":{"role":"assistant","content":` + message + `},"logprobs":null,"finish_reason":"` + reason + `"}`
	}
	content := func(parts, reason string) string {
		return `"content": {"parts": [` + parts + `],"role": "model"},"finishReason": "` + reason + `"`
	}
	f("text", content(`{"text": "the \"small\"\n"},{"text": " river"}`, "STOP"), one(`"the \"small\"\n river"`, "stop"))
	f("nothing", `"finishReason": "SAFETY","index": 0`, one("null", "content_filter"))
	f("calls", content(`{"functionCall": {"name": "look","args": {"a": "\"ü\""}}},{"functionCall": {"id": "q2","name": "go"}}`, "STOP"),
		one(`null,"tool_calls":[{"id":"call_r1_0","type":"function","function":{"name":"look","arguments":"{\"a\": \"\\\"ü\\\"\"}"}},{"id":"q2","type":"function","function":{"name":"go","arguments":"{}"}}]`, "tool_calls"))
	f("thoughts", content(`{"text": "mind","thought": true},{"text": "a","thoughtSignature": "dA=="},{"functionCall": {"name": "go"},"thoughtSignature": "Yw=="}`, "MAX_TOKENS"),
		one(`"a","reasoning_content":"mind","reasoning_details":[{"type":"reasoning.text","text":"mind","format":"google-gemini-v1","index":0},{"type":"reasoning.encrypted","data":"dA==","format":"google-gemini-v1","index":1},{"type":"reasoning.encrypted","id":"call_r1_0","data":"Yw==","format":"google-gemini-v1","index":2}],"thought_signature":"dA==","tool_calls":[{"id":"call_r1_0","type":"function","function":{"name":"go","arguments":"{}"}}]`, "length"))
	f("a picture", content(`{"text": "see"},{"inlineData": {"mimeType": "image/png","data": "aGk="}}`, "STOP"),
		one(`"see","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]`, "stop"))
	f("two choices", content(`{"text": "a"}`, "STOP")+`},{`+content(`{"text": "b"}`, "STOP")+`,"index": 1`,
		one(`"a"`, "stop")+","+strings.Replace(one(`"b"`, "stop"), `"index":0`, `"index":1`, 1))
	// Places are bytes there and characters here: é has two bytes.
	f("sources", content(`{"text": "é small"}`, "STOP")+`,"groundingMetadata": {"groundingChunks": [{"web": {"uri": "https://x","title": "X"}},{"web": {"uri": "https://y"}}],"groundingSupports": [{"segment": {"startIndex": 3,"endIndex": 8},"groundingChunkIndices": [0, 9]}]}`,
		one(`"é small","annotations":[{"type":"url_citation","url_citation":{"start_index":2,"end_index":7,"title":"X","url":"https://x"}},{"type":"url_citation","url_citation":{"title":"","url":"https://y"}}]`, "stop"))
}

func TestAnswersThatAreNone(t *testing.T) {
	c := chatOf(t, prompt)
	var s dialect.Scratch
	f := func(body string, status int) {
		t.Helper()
		out, _, err := (Dialect{}).Answer([]byte(body), c, targetOf(c, newer), &s)
		var failed *dialect.Failed
		if err == nil || errors.As(err, &failed) != (status > 0) {
			t.Errorf("%s became %s, %v", body, out, err)
			return
		}
		if status > 0 {
			if got := (Dialect{}).Error(failed.Status(), 0, failed.JSON); got.Status != status {
				t.Errorf("%s: %+v", body, got)
			}
		}
	}
	for _, body := range []string{`{}`, `<html>`, `{"candidates": []}`, `{"candidates"`, `{"candidates": [1]}`, `[]`} {
		f(body, 0)
	}
	f(`{"promptFeedback": {"blockReason": "SAFETY"},"usageMetadata": {"promptTokenCount": 3}}`, 422)
	f(`{"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}`, 500)
	f(`{"error": {"code": 429,"status": "RESOURCE_EXHAUSTED"}}`, 429)
	_, u, err := Dialect{}.Answer([]byte(`{"candidates": [{"content": {"parts": [{"text": "the small"},{"functionCall": {"name": "go","args": {}}}]}}]}`), c, targetOf(c, newer), &s)
	if err != nil || u != (dialect.Usage{Prompt: 8, Completion: 4, Estimated: true}) {
		t.Errorf("%v %+v", err, u)
	}
}

func TestErrorsAreJudged(t *testing.T) {
	f := func(status int, body string, wantStatus int, code string, wait time.Duration) {
		t.Helper()
		got := Dialect{}.Error(status, 0, []byte(body))
		if got.Status != wantStatus || got.Code != code || got.Verdict.Rest != wait ||
			strings.Contains(got.Message, "gemini") || strings.Contains(got.Message, "AIza") {
			t.Errorf("%s: %+v", body, got)
		}
	}
	f(400, `{"error": {"code": 400,"message": "API key not valid. Please pass a valid API key.","status": "INVALID_ARGUMENT","details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo","reason": "API_KEY_INVALID"}]}}`, 503, "MODEL_OFFLINE", 0)
	f(400, `{"error": {"code": 400,"message": "User location is not supported for the API use.","status": "FAILED_PRECONDITION"}}`, 503, "MODEL_OFFLINE", 0)
	f(403, `{"error": {"code": 403,"message": "Permission denied: AIzaSomething","status": "PERMISSION_DENIED"}}`, 503, "MODEL_OFFLINE", 0)
	f(404, `{"error": {"code": 404,"message": "models/gemini-9 is not found","status": "NOT_FOUND"}}`, 503, "MODEL_OFFLINE", 0)
	f(429, `{"error": {"code": 429,"message": "Quota exceeded for gemini-2.5-pro","status": "RESOURCE_EXHAUSTED","details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure"},{"@type": "type.googleapis.com/google.rpc.RetryInfo","retryDelay": "34.5s"}]}}`, 429, "MODEL_OVERLOADED", 34500*time.Millisecond)
	f(429, `{"error": {"details": [{"retryDelay": "999999h"}]}}`, 429, "MODEL_OVERLOADED", time.Hour)
	f(503, `[{"error": {"code": 503,"message": "The model is overloaded.","status": "UNAVAILABLE"}}]`, 503, "MODEL_AT_CAPACITY", 0)
	f(504, `{"error": {"status": "DEADLINE_EXCEEDED"}}`, 504, "REQUEST_TIMEOUT", 0)
	f(400, `<html>`, 400, "INVALID_REQUEST", 0)
	rejected := Dialect{}.Error(400, 0, []byte(`{"error": {"code": 400,"message": "Multiple candidates is not enabled for publishers/google/models/gemini-3.8-flash.","status": "INVALID_ARGUMENT"}}`))
	if rejected.Message != "Multiple candidates is not enabled for this model." || rejected.Status != 400 {
		t.Errorf("%+v", rejected)
	}
	// A client's words are not a reason to blame the operator.
	if got := (Dialect{}).Error(400, 0, []byte(`{"error": {"code": 400,"message": "bad value API_KEY_INVALID","status": "INVALID_ARGUMENT"}}`)); got.Status != 400 {
		t.Errorf("%+v", got)
	}
}
