package openai

import (
	"fmt"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/config"
	"farebox/providers/chat/dialect"
)

// result is all that a client and the bill see of a stream.
type result struct {
	out            string
	usage          dialect.Usage
	done, failed   bool
	boundary       bool
	produced       int64
	finishComplete bool
}

type streamCase struct {
	name, input string
	complete    bool
	hide, strip bool
	forgetful   bool   // never takes an event for a usual one
	upstream    string // its name of the model, "" the same
	choices     int64
}

func (sc *streamCase) run(t testing.TB, cuts ...int) result {
	c := chatOf(t, prompt)
	c.Choices = max(sc.choices, 1)
	c.DropThinking = sc.strip
	if sc.hide {
		hidden := false
		c.IncludeUsage = &hidden
	}
	name := "m"
	if sc.upstream != "" {
		name = sc.upstream
	}
	s := Dialect{}.Stream(c, targetOf(c.Model, name, config.Quirks{}))
	defer s.Release()
	out := ""
	if sc.forgetful {
		out = run(forgetful{s.(*stream)}, sc.input, sc.complete, cuts...)
	} else {
		out = run(s, sc.input, sc.complete, cuts...)
	}
	return result{out, s.Usage(), s.Done(), s.Failed(), s.AtBoundary(), s.Produced(), sc.complete}
}

type forgetful struct{ *stream }

func (f forgetful) Pass(p []byte) []byte {
	f.usual.forget()
	return f.stream.Pass(p)
}

func splitCases() []streamCase {
	body := roleChunk + chunk("über the") + chunk(" \\n\\u2603 \U0001F600") + finishChunk + usageChunk + done
	crlf := strings.ReplaceAll(body, "\n", "\r\n")
	cr := strings.ReplaceAll(body, "\n", "\r")
	thinking := roleChunk + chunk("<th") + chunk("ink>\\nmind") + chunk("</thi") + chunk(`nk\u003e\n\nthe <th`) +
		finishChunk + usageChunk + done
	cases := []streamCase{
		{name: "plain", input: body},
		{name: "CR LF", input: crlf},
		{name: "CR", input: cr},
		{name: "mixed ends", input: strings.Replace(crlf, "\r\n\r\n", "\n\r\n", 2) + strings.ReplaceAll(chunk("x"),
			"\n", "\r")},
		{name: "byte order mark", input: "\xef\xbb\xbf" + body},
		{name: "comments", input: ": OPENROUTER PROCESSING\n\n" + strings.ReplaceAll(body, "data: ",
			": keep-alive\n\ndata: ")},
		{name: "other fields", input: strings.ReplaceAll(body, "data: ", "id: 7\nevent: message\nretry: 10\ndata: ")},
		{name: "empty lines", input: "\n\n\n" + strings.ReplaceAll(body, "\n\n", "\n\n\n\n")},
		{name: "data of several lines", input: strings.ReplaceAll(body, `,"choices"`, ",\ndata: \"choices\"")},
		{name: "no end", input: strings.TrimSuffix(body, done)},
		{name: "no empty line at the end", input: strings.TrimSuffix(body, "\n")},
		{name: "no line end at the end", input: strings.TrimSuffix(body, "\n\n")},
		{name: "broken off in an event", input: body[:len(roleChunk)+40]},
		{name: "error event", input: roleChunk + chunk("the") +
			`data: {"error":{"message":"backend-7.internal is overloaded","code":"model_overloaded"}}` + "\n\n"},
		{name: "named error event", input: roleChunk + chunk("the") + "event: error\ndata: {\"message\":\"x\"}\n\n"},
		{name: "two choices", choices: 2, input: strings.ReplaceAll(body, `"finish_reason":null}]`,
			`"finish_reason":null},{"index":1,"delta":{"content":" small"},"finish_reason":null}]`)},
		{name: "think", input: thinking},
	}
	var all []streamCase
	for _, c := range cases {
		for _, complete := range []bool{true, false} {
			for mode := range 5 {
				v := c
				v.complete = complete
				v.hide, v.strip = mode&1 == 1 || mode == 4, mode&2 == 2 || mode == 4
				if mode == 4 {
					v.upstream = "upstream/a"
				}
				v.name = fmt.Sprintf("%s, complete %v, mode %d", c.name, complete, mode)
				all = append(all, v)
			}
		}
	}
	return all
}

// An answer must not depend on how the network cut it.
func TestSplitsChangeNothing(t *testing.T) {
	servers.NoRace(t)
	for _, sc := range splitCases() {
		want := sc.run(t)
		every := make([]int, 0, len(sc.input))
		for cut := range sc.input {
			every = append(every, cut)
			if got := sc.run(t, cut); got != want {
				t.Fatalf("%s, cut at %d:\n%+v\nwant\n%+v", sc.name, cut, got, want)
			}
			if cut > 0 {
				if got := sc.run(t, cut-1, cut); got != want {
					t.Fatalf("%s, cut around byte %d:\n%+v\nwant\n%+v", sc.name, cut, got, want)
				}
			}
		}
		if got := sc.run(t, every...); got != want {
			t.Fatalf("%s, byte by byte:\n%+v\nwant\n%+v", sc.name, got, want)
		}
		sc.forgetful = true
		if got := sc.run(t, every...); got != want {
			t.Fatalf("%s, every event read in full:\n%+v\nwant\n%+v", sc.name, got, want)
		}
	}
}

func TestStreamsReachClientsAsTheyCame(t *testing.T) {
	for _, sc := range splitCases() {
		if sc.hide || sc.strip || sc.upstream != "" || !sc.complete || strings.Contains(sc.name, "error") ||
			strings.HasPrefix(sc.name, "no ") || strings.HasPrefix(sc.name, "broken") {
			continue
		}
		if got := sc.run(t); got.out != sc.input {
			t.Errorf("%s:\n%q\nbecame\n%q", sc.name, sc.input, got.out)
		}
	}
}

func TestUsageIsHiddenOnlyFromThoseWhoSaidSo(t *testing.T) {
	body := roleChunk + chunk("the") + finishChunk
	f := func(input, want string) {
		t.Helper()
		sc := streamCase{input: input, complete: true, hide: true}
		got := sc.run(t)
		if got.out != want || got.usage.Prompt != 11 {
			t.Errorf("%+v\nwant %q", got, want)
		}
	}
	f(body+usageChunk+done, body+done)
	f(strings.ReplaceAll(body+usageChunk+done, "\n", "\r\n"), strings.ReplaceAll(body+done, "\n", "\r\n"))
	// An event with a choice is not only usage: it goes out.
	withChoice := strings.Replace(finishChunk, `}]}`, `}],"usage":`+plainUsage+`}`, 1)
	f(roleChunk+chunk("the")+withChoice+done, roleChunk+chunk("the")+withChoice+done)
}

func TestMissingDoneIsWritten(t *testing.T) {
	f := func(input, want string, complete, isDone bool) {
		t.Helper()
		sc := streamCase{input: input, complete: complete}
		if got := sc.run(t); got.out != want || got.done != isDone {
			t.Errorf("%q, done %v\nwant %q", got.out, got.done, want)
		}
	}
	body := roleChunk + chunk("the") + finishChunk
	told := usageEvent(dialect.Usage{Prompt: promptTokens, Completion: 1})
	f(body, body+told+done, true, true)
	f(body+usageChunk, body+usageChunk+done, true, true)
	f(body+"data: [DONE]", body+told+done, true, true)
	f(body+"data: [DONE]\n", body+told+done, true, true)
	f(body+strings.TrimSuffix(usageChunk, "\n\n"), body+usageChunk+done, true, true)
	// Without a finish_reason the answer was cut off, whatever transport says.
	f(roleChunk+chunk("the"), roleChunk+chunk("the"), true, false)
	// Half an event is of no use to a client.
	f(roleChunk+chunk("the")[:60], roleChunk, true, false)
	f(body, body, false, false)
	early := strings.Replace(chunk("the"), `"delta":{"content":"the"},"logprobs":null,"finish_reason":null`,
		`"finish_reason":"stop","delta":{"content":"the"}`, 1)
	f(early, early+told+done, true, true)
}

// An upstream's error text may name its hosts, so the client gets our words, and the
// tokens until then are charged.
func TestErrorsInsideStreamsAreOurs(t *testing.T) {
	f := func(event, code string) {
		t.Helper()
		input := roleChunk + chunk("the") + chunk(" small") + event
		sc := streamCase{input: input, complete: true}
		got := sc.run(t)
		if !got.failed || !got.done ||
			got.usage != (dialect.Usage{Prompt: promptTokens, Completion: 2, Estimated: true}) {
			t.Errorf("%+v", got)
		}
		begin := roleChunk + chunk("the") + chunk(" small") + `data: {"error":{"message":"`
		if !strings.HasPrefix(got.out, begin) || !strings.HasSuffix(got.out, done) ||
			!strings.Contains(got.out, `"code":"`+code+`"`) || strings.Contains(got.out, "internal") {
			t.Errorf("%s", got.out)
		}
	}
	f(`data: {"error":{"message":"The model backend-7.internal.simulated is overloaded","type":"server_error","param":null,"code":"model_overloaded"}}`+"\n\n", "model_overloaded")
	f(`data: {"error":"boom at backend.internal"}`+"\n\n", "upstream_error")
	f(`data: {"id":"x","object":"error","message":"internal","error":{"code":500}}`+"\n\n", "upstream_error")
	f("event: error\ndata: {\"message\":\"internal\"}\n\n", "upstream_error")
	f(`data: {"id":"x","error":{"code":502,"message":"internal"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`+"\n\n", "upstream_error")
	f(`data: {"error":{"message":"flagged by internal moderation","code":"content_filter"}}`+"\n\n",
		"content_blocked_by_provider")
	// No errors: a null member, and the word in a text.
	sc := streamCase{complete: true, input: strings.Replace(roleChunk, `"choices"`, `"error":null,"choices"`, 1) +
		chunk(`\"error\":{}`) + `data: {"choices":[],"error":null}` + "\n\n" + finishChunk + usageChunk + done}
	if got := sc.run(t); got.failed || got.out != sc.input {
		t.Errorf("%+v", got)
	}
}

func TestModelNameIsTheOneThatWasAskedFor(t *testing.T) {
	theirs := strings.ReplaceAll(roleChunk+chunk(`\"model\":\"m\"`)+finishChunk+usageChunk+done, `"model":"m"`,
		`"model":"vendor/large-2026"`)
	sc := streamCase{input: theirs, complete: true, upstream: "vendor/large-2026"}
	want := strings.ReplaceAll(theirs, `"model":"vendor/large-2026"`, `"model":"m"`)
	if got := sc.run(t); got.out != want {
		t.Errorf("%s", got.out)
	}
	// Another place in every event, spaces, and the right name already.
	sc.input = `data: {"model" : "a","choices":[]}` + "\n\n" + `data: {"choices":[],"model": "bb"}` + "\n\n" +
		`data: {"id":"longer","model":"m"}` + "\n\n"
	want = `data: {"model" : "a","choices":[]}` + "\n\n" + `data: {"choices":[],"model": "m"}` + "\n\n" +
		`data: {"id":"longer","model":"m"}` + "\n\n"
	if got := sc.run(t); got.out != want {
		t.Errorf("%s", got.out)
	}

	c := chatOf(t, prompt)
	target := targetOf(c.Model, "vendor/large-2026", config.Quirks{})
	var s dialect.Scratch
	body := strings.Replace(answer("the small", `,"usage":`+plainUsage), `"model":"m"`,
		`"model": "vendor/large-2026-07-01"`, 1)
	wantBody := strings.Replace(body, "vendor/large-2026-07-01", "m", 1)
	out, u, err := Dialect{}.Answer([]byte(body), c, target, &s)
	if err != nil || string(out) != wantBody || u.Prompt != 11 {
		t.Errorf("%v %+v %s", err, u, out)
	}
	for cut := range body {
		m := NewBodyMeter(c, target)
		if got := run(m, body, true, cut); got != wantBody {
			t.Fatalf("cut at %d: %s", cut, got)
		}
		m.Release()
	}
}

func TestThinkBlocksAreRemoved(t *testing.T) {
	f := func(want string, pieces ...string) {
		t.Helper()
		input := roleChunk
		for _, p := range pieces {
			input += chunk(p)
		}
		sc := streamCase{input: input + finishChunk + usageChunk + done, complete: true, strip: true}
		got := sc.run(t)
		if text := contentOf(t, got.out); text != want {
			t.Errorf("%q: %q, want %q\n%s", pieces, text, want, got.out)
		}
		// And without a stream.
		c := chatOf(t, prompt)
		c.DropThinking = true
		target := targetOf(c.Model, "m", config.Quirks{})
		body := answer(strings.Join(pieces, ""), `,"usage":`+plainUsage)
		var s dialect.Scratch
		out, _, err := Dialect{}.Answer([]byte(body), c, target, &s)
		if text := messageOf(t, string(out)); err != nil || text != want {
			t.Errorf("whole %q: %q, want %q", pieces, text, want)
		}
		for cut := range body {
			m := NewBodyMeter(c, target)
			if text := messageOf(t, run(m, body, true, cut)); text != want {
				t.Fatalf("large, cut at %d: %q, want %q", cut, text, want)
			}
			m.Release()
		}
	}
	f("the river", "the river")
	f("the river", `<think>mind</think>the river`)
	f("the river", `<think>mind\n\"more\"</think>\n\n `, `the river`)
	f("the river", "<", "thi", "nk>", "mi", "nd</", "think", ">", "the ", "river")
	f("the river", `\u003cthink\u003emind\u003c/think\u003ethe river`)
	f("the river", `<think>mind<\/think>the river`)
	f("a b", "a <think>x</think>b")
	f("a <thin", "a <th", "in")
	f("a <th", "a <th")
	f("<<think", "<<think")
	f("<b", "<<think></think>b")
	f("", "<think>never ends", " at all")
	f("</think>x", "</think>x")
	f("ü", "<think>ö</think>ü")
}
