package gemini

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// Answers of hostile upstreams, and the parts of them that reach the client.

// whole translates a whole answer.
func whole(t testing.TB, body string, choices int64) (string, dialect.Usage, error) {
	t.Helper()
	c := chatOf(t, prompt)
	c.Choices, c.Cap, c.MostPrompt = choices, 100, 50
	var s dialect.Scratch
	out, u, err := Dialect{}.Answer([]byte(body), c, targetOf(c, newer), &s)
	if err == nil && !json.Valid(out) {
		t.Fatalf("no JSON: %.200s", out)
	}
	return string(out), u, err
}

func TestOnlyTheChoicesThatWereAskedForAreGiven(t *testing.T) {
	one := `{"content": {"parts": [{"text": "a"}]},"finishReason": "STOP"}`
	for name, candidate := range map[string]string{
		"all of one place":  one,
		"each of its own":   `{"index": %d,` + one[1:],
		"none of the first": `{"index": 7,` + one[1:],
	} {
		var list []string
		for i := range 10_000 {
			list = append(list, strings.ReplaceAll(candidate, "%d", fmt.Sprint(i)))
		}
		body := `{"candidates": [` + strings.Join(list, ",") + `],` + usage2 + tail
		out, u, err := whole(t, body, 1)
		if name == "none of the first" {
			if err == nil {
				t.Errorf("%s: %s", name, out)
			}
		} else if err != nil || strings.Count(out, `"finish_reason"`) != 1 || u.Completion != 9 {
			t.Errorf("%s: %v %+v %.300s", name, err, u, out)
		}
		got := translate(t, event(body)+last("STOP", ""), true, nil)
		if strings.Contains(got.out, `{"index":1`) || strings.Contains(got.out, `{"index":7`) || !got.done {
			t.Errorf("%s, streamed: %.300s", name, got.out)
		}
	}
}

// No count is larger than the request's limits, nor smaller than the received text.
func TestCountsOfIllWillAreBounded(t *testing.T) {
	for usage, want := range map[string]dialect.Usage{
		`{"promptTokenCount": 99999999999999999999999,"candidatesTokenCount": 1e300,"thoughtsTokenCount": 9223372036854775807,"toolUsePromptTokenCount": 1e18,"cachedContentTokenCount": 1e30}`: {
			Prompt: 50, Cached: 50, Completion: 100, Reasoning: 100},
		`{"promptTokenCount": -5,"candidatesTokenCount": -9223372036854775808,"thoughtsTokenCount": -1e300,"totalTokenCount": -3,"cachedContentTokenCount": -1}`: {
			Prompt: 8, Completion: 1},
		`{"promptTokenCount": 10,"promptTokenCount": 4,"candidatesTokenCount": 7,"candidatesTokenCount": 3}`:     {Prompt: 4, Completion: 3},
		`{"promptTokenCount": "7","candidatesTokenCount": [3],"thoughtsTokenCount": {},"totalTokenCount": true}`: {Prompt: 8, Completion: 1},
		`{"promptTokenCount": 4,"candidatesTokenCount": 2,"thoughtsTokenCount": 3,"toolUsePromptTokenCount": 5,"cachedContentTokenCount": 6}`: {
			Prompt: 9, Cached: 6, Completion: 5, Reasoning: 3},
		`[1, 2]`: {Prompt: 8, Completion: 1}, `null`: {Prompt: 8, Completion: 1}, `{}`: {Prompt: 8, Completion: 1},
	} {
		body := `{"candidates": [{"content": {"parts": [{"text": "a"}]},"finishReason": "STOP"}],"usageMetadata": ` + usage + `}`
		_, u, err := whole(t, body, 1)
		streamed := translate(t, event(body), true, func(c *dialect.Chat) { c.Cap, c.MostPrompt = 100, 50 }).usage
		for how, got := range map[string]dialect.Usage{"whole": u, "streamed": streamed} {
			got.Claimed, got.Seen, got.Estimated = 0, false, false
			if err != nil || got != want {
				t.Errorf("%s of %s: %v\n got %+v\nwant %+v", how, usage, err, got, want)
			}
		}
	}
}

// Events that cannot be read end the answer: their content would be missing.
func TestEventsThatCannotBeReadEndTheAnswer(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	for name, bad := range map[string]string{
		"half an event":        event(`{"candidates": [{"content": {"parts": [{"text": "lost`),
		"parts without end":    event(`{"candidates": ` + strings.Repeat("[", 100_000)),
		"a call without end":   parts(`{"functionCall": {"name": "f","args": ` + deep + `}}`),
		"deep members we skip": event(`{"x": ` + deep + `,"candidates": []}`),
	} {
		got := translate(t, text("the")+bad+last("STOP", ""), true, nil)
		if !got.failed || !strings.HasSuffix(got.out, `"code":"upstream_error"}}`+"\n\n"+done) {
			t.Errorf("%s: %.400s", name, got.out)
		}
		if strings.Contains(bad, "functionCall") || strings.Contains(bad, "[[[") {
			if out, _, err := whole(t, strings.TrimPrefix(strings.TrimSpace(bad), "data: "), 1); err == nil {
				t.Errorf("%s, whole: %.200s", name, out)
			}
		}
	}
	// The end marker of other servers does not end this dialect's stream.
	got := translate(t, text("the")+last("STOP", "")+"data: [DONE]\n\n", true, nil)
	if got.failed || !strings.HasSuffix(got.out, finish("stop")+usageEvent+done) {
		t.Errorf("%s", got.out)
	}
}

// Whatever parts hold, each event that goes out is one line of JSON.
func TestPartsOfIllWillBreakNoFrame(t *testing.T) {
	big := strings.Repeat("n", 1<<20)
	for name, c := range map[string]struct {
		input string
		most  int // bytes that may go out
	}{
		"a name of 1 MB":             {parts(`{"functionCall": {"name": "` + big + `"}}`), 2 << 20},
		"an id of 1 MB":              {strings.ReplaceAll(strings.Repeat(text("x"), 200), `"r1"`, `"`+big[:20_000]+`"`), 100_000},
		"a title of 1 MB":            {grounded(`"title": "`+big+`","uri": "https://x"`, 10_000), 1 << 20},
		"addresses of 100 KB":        {grounded(`"uri": "https://`+big[:100_000]+`"`, 10_000), 1 << 20},
		"many long addresses":        {grounded(`"uri": "https://`+big[:8_000]+`"`, 10_000), 1 << 20},
		"a line end inside a text":   {"data: " + `{"candidates": [{"content": {"parts": [{"text": "a` + "\ndata: \ndata: " + `data: {\"evil\": 1}"}]}}]}` + "\n\n", 4096},
		"null, lists and numbers":    {parts(`null,[],1,"x",{"text": 1,"thought": "yes","functionCall": [],"inlineData": 5,"thoughtSignature": {}}`), 4096},
		"a member twice":             {parts(`{"text": "a","text": "b","functionCall": {"name": "f","name": "g","args": {"a":1},"args": 2}}`), 4096},
		"escapes of half characters": {parts(`{"text": "\ud800\udc"}`) + parts(`{"text": "\udc00\u0000\u001f"}`), 4096},
		"a thousand parts":           {parts(strings.TrimSuffix(strings.Repeat(`{"functionCall": {"name": "f"}},`, 1000), ",")), 1 << 20},
	} {
		got := translate(t, text("the")+c.input+last("STOP", ""), true, nil)
		if len(got.out) > c.most {
			t.Errorf("%s: %d bytes went out", name, len(got.out))
		}
		for _, e := range strings.Split(strings.TrimSuffix(got.out, "\n\n"), "\n\n") {
			data := strings.TrimPrefix(e, "data: ")
			if !strings.HasPrefix(e, "data: ") || strings.ContainsAny(data, "\r\n") || data != "[DONE]" && !json.Valid([]byte(data)) {
				if name != "escapes of half characters" {
					t.Errorf("%s: %.300q", name, e)
				}
			}
		}
		if u := got.usage; u.Completion > 1<<40 || u.Prompt < 0 {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

// grounded is a text of which many places come from one source.
func grounded(web string, places int) string {
	return event(`{"candidates": [{"groundingMetadata": {"groundingChunks": [{"web": {` + web + `}}],"groundingSupports": [{"segment": {"endIndex": 1},"groundingChunkIndices": [` +
		strings.TrimSuffix(strings.Repeat("0,", places), ",") + `]}]}}],` + tail)
}

// Bytes that are no UTF-8 reach the client as they came, as in every dialect.
func TestBytesThatAreNotTextAreCopied(t *testing.T) {
	got := translate(t, text("a")+text("\xff\xfe\xc0")+last("STOP", ""), true, nil)
	if !strings.Contains(got.out, "\"content\":\"\xff\xfe\xc0\"") || got.failed {
		t.Errorf("%q", got.out)
	}
}

// An event of 64 MB costs no more memory than the largest that is read, however
// small the pieces in which it comes, and none of them is looked at twice.
func TestAnEventOf64MBIsLetGo(t *testing.T) {
	c := chatOf(t, prompt)
	s := Dialect{}.Stream(c, targetOf(c, newer))
	defer s.Release()
	piece := []byte(strings.Repeat("y", 1<<10))
	began := time.Now()
	n := len(s.Pass([]byte(text("the")))) + len(s.Pass([]byte(`data: {"candidates": [{"content": {"parts": [{"text": "`)))
	for range 64 << 10 {
		n += len(s.Pass(piece))
	}
	n += len(s.Pass([]byte("\"}]}}]}\n\n"+text("late")))) + len(s.Finish(true))
	if !s.Failed() || n > 4096 || cap(s.(*stream).Events.Source()) > 3*maxEvent {
		t.Errorf("failed %v, %d bytes went out, %d are kept", s.Failed(), n, cap(s.(*stream).Events.Source()))
	}
	// Quadratic work would take minutes; the race detector on a busy machine takes seconds.
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Lists of a client's that are as long as a body has room for are gone through once.
func TestLongListsOfClientsTakeNoLongTime(t *testing.T) {
	const n = 10_000
	var calls, results, details, tools []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"f","arguments":""}}`, i))
		results = append(results, fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":"x"}`, n-1-i))
		details = append(details, fmt.Sprintf(`{"type":"reasoning.encrypted","id":"c%d","data":"c2ln","format":"google-gemini-v1"}`, n-1-i))
		tools = append(tools, `{"type":"custom"}`)
	}
	join := func(list []string) string { return strings.Join(list, ",") }
	for name, members := range map[string]string{
		"calls": `"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[` + join(calls) +
			`],"reasoning_details":[` + join(details) + `]},` + join(results) + `]`,
		"tools":    `"messages":[{"role":"user","content":"hi"}],"tools":[` + join(tools) + `]`,
		"strays":   `"messages":[{"role":"user","content":"hi"},` + join(results) + `]`,
		"no parts": `"messages":[{"role":"user","content":[` + join(tools) + `]}]`,
	} {
		c := &dialect.Chat{Body: []byte(`{"model":"m",` + members + `}`), Doc: &scan.Document{}, Choices: 1}
		if err := c.Doc.Skim(c.Body, testShape); err != nil {
			t.Fatal(err)
		}
		c.Model = chatOf(t, prompt).Model
		var r proxy.Request
		var err error
		var took []time.Duration // a busy machine may stall: one of three is enough
		for len(took) == 0 || len(took) < 3 && slices.Min(took) > time.Second {
			r = proxy.Request{}
			began := time.Now()
			err = Dialect{}.Request(&r, c, targetOf(c, newer), &dialect.Scratch{})
			took = append(took, time.Since(began))
		}
		if slices.Min(took) > time.Second {
			t.Errorf("%s took %v", name, took)
		}
		if (err == nil) != (name == "calls") {
			t.Errorf("%s: %v", name, err)
		}
		if name == "calls" && strings.Count(string(r.Body), `"thoughtSignature":"c2ln"`) != n {
			t.Errorf("calls lost their signatures")
		}
	}
}
