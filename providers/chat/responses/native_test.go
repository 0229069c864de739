package responses

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// targetOf serves the model under a name of its own.
func targetOf(c *dialect.Chat, name string, drops ...string) *dialect.Target {
	return &dialect.Target{
		Upstream: &dialect.Upstream{Name: "u", Config: &config.Upstream{Drop: drops}, Dialect: Native{}},
		Model:    c.Model, Name: name, Quoted: jsontext.AppendString(nil, name), Renames: name != c.Model.ID,
		QuotedID: jsontext.AppendString(nil, c.Model.ID), Weight: 1,
	}
}

// nativeOf is a chat as routes has it after pricing.
func nativeOf(t testing.TB, body string) *dialect.Chat {
	t.Helper()
	c := chatOf(t, formOf(t, sdk, body))
	c.AskedCompletion, c.MaxCompletion, c.Cap, c.MostPrompt = 0, 100, 100, 1000
	return c
}

// sentOf is the body that goes to an upstream.
func sentOf(t testing.TB, c *dialect.Chat, target *dialect.Target) string {
	t.Helper()
	var r proxy.Request
	var s dialect.Scratch
	if err := (Native{}).Request(&r, c, target, &s); err != nil {
		t.Fatal(err)
	}
	at := 0
	for i, p := range r.Patches {
		if p.From < at || p.To < p.From || p.To > len(r.Body) {
			t.Fatalf("patch %d of %+v is out of order", i, r.Patches)
		}
		at = p.To
	}
	out := proxy.AppendPatched(nil, r.Body, r.Patches)
	if !json.Valid(out) {
		t.Fatalf("the patched body is not JSON: %s", out)
	}
	return string(out)
}

// An upstream that takes the form gets the client's own body, but for members that would
// reach into the operator's account.
func TestBodiesGoOutAsTheyCame(t *testing.T) {
	t.Parallel()
	f := func(name, body, want string, change ...func(c *dialect.Chat)) {
		t.Helper()
		c := nativeOf(t, body)
		for _, do := range change {
			do(c)
		}
		same(t, name, sentOf(t, c, targetOf(c, "there", "service_tier")), want)
	}
	const cap = `"max_output_tokens":100,`
	f("a text", `{"model":"m","input":"Hi","top_k":5}`, `{`+`"store":false,`+cap+`"model":"there","input":"Hi","top_k":5}`)
	f("unknown members", `{ "x":1,"model":"m", "y" : {"z":[1]} , "input":"Hi","w":[],"store":false,"v":2}`,
		`{`+cap+`"model":"there","input":"Hi","store":false}`)
	f("more work", `{"model":"m","store":false,"input":"Hi","context_management":[{"type":"compaction"}],"y":1}`,
		`{`+cap+`"model":"there","store":false,"input":"Hi"}`)
	f("cut members", `{"previous_response_id":"resp_1","model":"m","conversation":{"id":"c"},"background":true,"user":"u",
		"input":"Hi","store":true,"fallbacks":[{"model":"dear"}],"svc_parameters":{},"other_parameters":{},"n":1,"stop":null,
		"seed":1,"web_search":false,"anon_user_id":"x","service_tier":"priority","metadata":{"a":"b"},"include":["x"]}`,
		`{`+cap+`"model":"there","input":"Hi","store":false,"metadata":{"a":"b"},"include":["x"]}`)
	f("a cap", `{"model":"m","input":"Hi","store":false,"max_output_tokens":500}`,
		`{"model":"there","input":"Hi","store":false,"max_output_tokens":100}`, func(c *dialect.Chat) { c.AskedCompletion = 500 })
	f("a cap that stays", `{"model":"m","input":"Hi","store":false,"max_output_tokens":100}`,
		`{"model":"there","input":"Hi","store":false,"max_output_tokens":100}`, func(c *dialect.Chat) { c.AskedCompletion = 100 })
	f("no reasoning", `{"model":"m","input":"Hi","store":false,"max_output_tokens":100,"reasoning":{"effort":"none"}}`,
		`{"model":"there","input":"Hi","store":false,"max_output_tokens":100}`,
		func(c *dialect.Chat) { c.AskedCompletion, c.NoReasoning = 100, true })
	prompt := func(c *dialect.Chat) { c.SystemPrompt = []byte("Be \"good\".") }
	f("the operator's words", `{"model":"m","input":"Hi"}`, `{"store":false,`+cap+`"instructions":"Be \"good\".","model":"there","input":"Hi"}`,
		prompt)
	f("the operator's words first", `{"model":"m","input":"Hi","instructions":"Be bad."}`,
		`{"store":false,`+cap+`"model":"there","input":"Hi","instructions":"Be \"good\".\n\nBe bad."}`, prompt)
	f("the spelling of chats", `{"model":"m","store":false,"input":[{"role":"user","content":[{"type":"text","text":"a"},
		{"type":"image_url","image_url":{"url":"https://x","detail":"low"}},{"type":"input_image","image_url":{"url":"https://y"}},
		{"type":"input_image","image_url":"https://z","detail":"high"},{"type":"file","file":{"file_data":"data:,","filename":"f"}}]},
		{"role":"assistant","content":[{"type":"text","text":"b"}]},
		{"type":"reasoning","id":"rs","summary":["one","two"],"encrypted_content":"gAAA"},
		{"type":"function_call_output","call_id":"c","output":{"a":[1]}},
		{"type":"function_call_output","call_id":"d","output":[{"type":"input_text","text":"x"}]}],
		"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"type":"function","name":"g","parameters":null,"strict":true}],
		"tool_choice":{"type":"function","function":{"name":"f"}}}`,
		`{`+cap+`"model":"there","store":false,"input":[{"role":"user","content":[{"type":"input_text","text":"a"},
		{"type":"input_image","image_url":"https://x","detail":"low"},{"type":"input_image","image_url":"https://y"},
		{"type":"input_image","image_url":"https://z","detail":"high"},{"type":"input_file","file_data":"data:,","filename":"f"}]},
		{"role":"assistant","content":[{"type":"output_text","text":"b"}]},
		{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}],"encrypted_content":"gAAA"},
		{"type":"function_call_output","call_id":"c","output":"{\"a\":[1]}"},
		{"type":"function_call_output","call_id":"d","output":[{"type":"input_text","text":"x"}]}],
		"tools":[{"type":"function","name":"f","parameters":{"type":"object"}},{"type":"function","name":"g","parameters":null,"strict":true}],
		"tool_choice":{"type":"function","name":"f"}}`)
	c := nativeOf(t, `{"model":"m","input":"Hi","store":false,"max_output_tokens":500,"stream":true,"service_tier":"x"}`)
	c.AskedCompletion = 500
	same(t, "the cap in spite of a list of forbidden members", sentOf(t, c, targetOf(c, "there", "service_tier",
		"max_output_tokens", "stream", "store")),
		`{"model":"there","input":"Hi","store":false,"max_output_tokens":100,"stream":true}`)
	const own, hi = `{"type":"reasoning","id":"r","summary":[],"encrypted_content":"rd1_W10"}`, `{"role":"user","content":"Hi"}`
	for items, want := range map[string]string{
		own + `,` + hi: hi, hi + ` , ` + own: hi, own + `,` + hi + `,` + own: hi, hi + `,` + own + `,` + own: hi,
		own: "", own + `,` + own: "", hi + `,` + own + `,` + hi: hi + `,` + hi, own + `,` + own + `,` + hi: hi,
	} {
		f("thoughts of others: "+items, `{"model":"m","store":false,"max_output_tokens":100,"input":[`+items+`]}`,
			`{"model":"there","store":false,"max_output_tokens":100,"input":[`+want+`]}`,
			func(c *dialect.Chat) { c.AskedCompletion = 100 })
	}

	c = nativeOf(t, `{"model":"m","store":false,"max_output_tokens":100,"input":"Hi","tools":[{"type":"web_search"},
		{"type":"function","name":"f"},{"type":"mcp"},{"type":"tool_search"}]}`)
	c.AskedCompletion = 100
	same(t, "tools that the upstream carries out", sentOf(t, c, targetOf(c, "there")), `{"model":"there","store":false,
		"max_output_tokens":100,"input":"Hi","tools":[{"type":"function","name":"f"}]}`)
	if got := c.LeftOut.String(); got != "tools.web_search, tools.mcp, tools.tool_search" {
		t.Errorf("left out are %s", got)
	}
}

const nativeBody = `{"id":"resp_1","object":"response","status":"completed","error":null,"model":"there","instructions":"secret",
	"output":[{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"the small river","annotations":[]}]}]`

func TestNativeAnswers(t *testing.T) {
	t.Parallel()
	usage := `,"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":12}}`
	f := func(body, name string, prompt string) (string, dialect.Usage) {
		t.Helper()
		c := nativeOf(t, `{"model":"m","input":"Hi","instructions":"mine"}`)
		c.SystemPrompt = []byte(prompt)
		var s dialect.Scratch
		out, u, err := Native{}.Answer([]byte(body), c, targetOf(c, name), &s)
		if err != nil {
			t.Fatal(err)
		}
		return string(out), u
	}
	out, u := f(nativeBody+usage, "m", "")
	if out != nativeBody+usage || u != (dialect.Usage{Prompt: 9, Cached: 4, Completion: 3, Reasoning: 1, Seen: true}) {
		t.Errorf("%+v %s", u, out)
	}
	if out, _ = f(nativeBody+usage, "there", "secret"); out != strings.NewReplacer(`"there"`, `"m"`, `"secret"`, `"mine"`).Replace(nativeBody+usage) {
		t.Error(out)
	}
	if out, u = f(nativeBody+`,"usage":null}`, "m", ""); !u.Estimated || u.Completion != 3 ||
		!strings.Contains(out, `"usage":{"input_tokens":`) || !json.Valid([]byte(out)) {
		t.Errorf("%+v %s", u, out)
	}
	if out, u = f(nativeBody+`}`, "m", ""); !u.Estimated || !strings.Contains(out, `"usage":{"input_tokens":`) || !json.Valid([]byte(out)) {
		t.Errorf("%+v %s", u, out)
	}
	for body, failed := range map[string]bool{
		`{"status":"failed","error":{"code":"rate_limit_exceeded","message":"x"},"output":[]}`: true,
		`{"error":{"message":"x"}}`: true, `{"output":{}}`: false, `[]`: false, ``: false, `{"a":`: false,
	} {
		c := nativeOf(t, request)
		_, _, err := Native{}.Answer([]byte(body), c, targetOf(c, "m"), &dialect.Scratch{})
		var f *dialect.Failed
		if err == nil || errors.As(err, &f) != failed {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// nativeEvents is a stream of an upstream that says a text in deltas.
func nativeEvents(usage string, words ...string) string {
	var b strings.Builder
	n := 0
	event := func(kind, members string) {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%d,%s}\n\n", kind, kind, n, members)
		n++
	}
	const head = `"response":{"id":"resp_1","object":"response","model":"there","instructions":"secret","status":"`
	event("response.created", head+`in_progress","output":[],"usage":null}`)
	event("response.output_item.added", `"output_index":0,"item":{"type":"message","id":"msg_1","content":[]}`)
	for _, w := range words {
		event("response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"delta":"`+w+`","logprobs":[]`)
	}
	all := strings.Join(words, "")
	item := `{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"` + all + `","annotations":[]}]}`
	event("response.output_text.done", `"text":"`+all+`"`)
	event("response.output_item.done", `"item":`+item)
	event("response.completed", head+`completed","output":[`+item+`],"usage":`+usage+`}`)
	return b.String()
}

const nativeUsage = `{"input_tokens":9,"output_tokens":3,"total_tokens":12}`

// passed is the output of a stream, in pieces that end at the given offsets.
func passed(s dialect.Stream, stream string, cuts ...int) string {
	var out strings.Builder
	from := 0
	for _, cut := range append(cuts, len(stream)) {
		piece := []byte(stream[from:cut])
		out.Write(s.Pass(piece))
		for i := range piece {
			piece[i] = 'x'
		}
		from = cut
	}
	out.Write(s.Finish(true))
	return out.String()
}

func TestNativeStreams(t *testing.T) {
	t.Parallel()
	stream := nativeEvents(nativeUsage, "the", " small", " river")
	c := nativeOf(t, request)
	for step := range 40 {
		var cuts []int
		for at := step + 1; at < len(stream); at += step + 1 {
			cuts = append(cuts, at)
		}
		s := Native{}.Stream(c, targetOf(c, "m"))
		if out := passed(s, stream, cuts...); out != stream {
			t.Fatalf("in pieces of %d:\n%s", step+1, out)
		}
		if u := s.Usage(); u != (dialect.Usage{Prompt: 9, Completion: 3, Seen: true}) || !s.Done() || s.Failed() || !s.Finished() {
			t.Fatalf("%+v", u)
		}
		s.Release()
	}
	c.SystemPrompt = []byte("secret")
	s := Native{}.Stream(c, targetOf(c, "there"))
	if out := passed(s, stream, 100, 333); out != strings.NewReplacer(`"there"`, `"m"`, `"secret"`, `null`).Replace(stream) {
		t.Error(out)
	}
	s.Release()

	// Without a usage, and with one that cannot be true, the text is counted, once.
	long := strings.Fields(strings.Repeat("river ", 400))
	for usage, seen := range map[string]bool{"null": false, `{"input_tokens":9,"output_tokens":0}`: true} {
		s = Native{}.Stream(c, targetOf(c, "m"))
		passed(s, nativeEvents(usage, long...))
		c.Cap = 1000
		if u := s.Usage(); u.Completion < 390 || u.Completion > 820 || !u.Estimated || u.Seen != seen {
			t.Errorf("%s: %+v", usage, u)
		}
		s.Release()
	}
	// A text that is in the last event alone counts as well.
	s = Native{}.Stream(c, targetOf(c, "m"))
	whole := nativeEvents("null", long...)
	passed(s, whole[strings.Index(whole, "event: response.completed"):])
	if u := s.Usage(); u.Completion < 300 {
		t.Errorf("%+v", u)
	}
	s.Release()
}

func TestNativeFailures(t *testing.T) {
	t.Parallel()
	c := nativeOf(t, request)
	f := c.Form.(*Form)
	const words = "see https://host-7.internal with sk-secret12345678"
	stream := strings.Split(nativeEvents(nativeUsage, "a"), "event: response.output_text.done")[0]
	s := Native{}.Stream(c, targetOf(c, "m"))
	out := passed(s, stream+`event: error`+"\n"+`data: {"type":"error","code":"server_error","message":"`+words+`","param":null,"sequence_number":3}`+"\n\n")
	if !s.Failed() || !s.Done() || strings.Contains(out, "host-7") || strings.Contains(out, "secret1") ||
		!strings.Contains(out, `data: {"type":"error","sequence_number":3,"code":"`) {
		t.Error(out)
	}
	if status := dialect.ErrorStatus(s.FailedWith()); status != 500 {
		t.Error(status)
	}
	s.Release()
	s = Native{}.Stream(c, targetOf(c, "m"))
	out = passed(s, stream+`event: response.failed`+"\n"+`data: {"type":"response.failed","sequence_number":3,"response":{"id":"resp_1","status":"failed","error":{"code":"rate_limit_exceeded","message":"`+
		words+`"},"output":[],"usage":null}}`+"\n\n")
	if !s.Failed() || strings.Contains(out, "host-7") || !strings.Contains(out, `"status":"failed","error":{"code":"rate_limit_exceeded","message":"`) {
		t.Error(out)
	}
	if status := dialect.ErrorStatus(s.FailedWith()); status != 429 {
		t.Error(status)
	}
	s.Release()
	s = Native{}.Stream(c, targetOf(c, "m"))
	passed(s, stream)
	if s.Done() {
		t.Error("a stream that broke off is done")
	}
	failed, told, _ := strings.Cut(string(f.AppendError(nil, c, &dialect.Fault{Code: "upstream_error", Kind: "server_error", Message: "cut \"off\""})), "\n\n")
	if told != "event: error\ndata: {\"type\":\"error\",\"sequence_number\":4,\"code\":\"upstream_error\",\"message\":\"cut \\\"off\\\"\",\"param\":null}\n\n" ||
		!strings.HasPrefix(failed, "event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":3,\"response\":{\"id\":\"resp_1\",") {
		t.Errorf("%s\n%s", failed, told)
	}
	s.Release()
	// "Expected to have received response.created before response.failed", said OpenAI's package.
	s = Native{}.Stream(c, targetOf(c, "m"))
	passed(s, ": a comment and no more\n\n")
	failed = string(f.AppendError(nil, c, &dialect.Fault{Code: "upstream_error", Kind: "server_error", Message: "cut"}))
	kinds := ""
	for event := range strings.SplitSeq(strings.TrimSuffix(failed, "\n\n"), "\n\n") {
		kind, _, _ := strings.Cut(event, "\n")
		kinds += strings.TrimPrefix(kind, "event: ") + " "
	}
	if kinds != "response.created response.in_progress response.failed error " {
		t.Errorf("%s\n%s", kinds, failed)
	}
	s.Release()
	// An event without an end is not held for ever.
	s = Native{}.Stream(c, targetOf(c, "m"))
	piece := []byte(strings.Repeat("x", 1<<20))
	s.Pass([]byte("data: {"))
	for range maxKept>>20 + 2 {
		s.Pass(piece)
	}
	if !s.Failed() || len(s.Pass(piece)) > 0 {
		t.Error("it goes on")
	}
	s.Release()
}

// FuzzNative gives the meter whatever an upstream may send, in pieces and at once.
func FuzzNative(f *testing.F) {
	f.Add([]byte(nativeEvents(nativeUsage, "a", "b")), uint16(3), false)
	f.Add([]byte(nativeEvents("null", "a", "b")), uint16(50), true)
	f.Add([]byte("data: {\"type\":\"response.failed\",\"response\":{\"error\":3}}\r\n\r\ndata: {\"type\":\"error\"}"), uint16(1), true)
	f.Fuzz(func(t *testing.T, stream []byte, piece uint16, renames bool) {
		c := nativeOf(t, request)
		name := "m"
		if renames {
			name, c.SystemPrompt = "there", []byte("p")
		}
		one := func(cuts ...int) (string, dialect.Usage, bool) {
			s := Native{}.Stream(c, targetOf(c, name))
			defer s.Release()
			out := passed(s, string(stream), cuts...)
			return out, s.Usage(), s.Failed()
		}
		want, usage, failed := one()
		var cuts []int
		for at := int(piece)%97 + 1; at < len(stream); at += int(piece)%97 + 1 {
			cuts = append(cuts, at)
		}
		if got, u, _ := one(cuts...); got != want || u != usage {
			t.Fatalf("%q\nin pieces %q %+v\nat once %q %+v", stream, got, u, want, usage)
		}
		if u := usage; u.Prompt < 0 || u.Completion < 0 || u.Cached+u.CacheWrite > u.Prompt || u.Reasoning > u.Completion ||
			u.Completion > c.Cap {
			t.Fatalf("impossible usage %+v", u)
		}
		if !renames && !failed && !strings.HasPrefix(string(stream), strings.TrimRight(want, "\n")) {
			t.Fatalf("%q became %q", stream, want)
		}
		_, _, _ = Native{}.Answer(stream, c, targetOf(c, name), &dialect.Scratch{})
		s := Native{}.Stream(c, targetOf(c, name))
		s.Pass(stream)
		_, _ = s.Cut(nil)
		s.Release()
	})
}

// Deltas are read the same way whether or not they are like the one before. The event
// that ends a broken stream has the number after the last.
func TestDeltasLikeTheOneBefore(t *testing.T) {
	t.Parallel()
	delta := func(kind, item, words string, number int) string {
		return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,\"item_id\":%q,\"output_index\":0,"+
			"\"content_index\":0,\"delta\":%q,\"logprobs\":[]}\n\n", kind, kind, number, item, words)
	}
	const said, thought = "response.output_text.delta", "response.reasoning_summary_text.delta"
	events := []string{
		delta(thought, "rs", "hm", 7), delta(thought, "rs", " so", 8), delta(said, "a", "one", 9), delta(said, "a", " two", 10),
		delta(said, "a", "\"", 11), delta(said, "b", " three", 12), delta(said, "b", "", 13),
		strings.Replace(delta(said, "b", " four", 14), `"sequence_number":14,`, `"sequence_number" : 14, `, 1),
		strings.Replace(delta(said, "b", " five", 15), "\n", "\r\n", -1), delta(said, "b", " six", 16),
	}
	for _, size := range []int{1, 7, 64, 1 << 20} {
		c := nativeOf(t, `{"model":"m","input":"Hi","stream":true}`)
		s := Native{}.Stream(c, targetOf(c, "m"))
		stream, out := strings.Join(events, ""), ""
		for rest := stream; rest != ""; {
			n := min(size, len(rest))
			out += string(s.Pass([]byte(rest[:n])))
			rest = rest[n:]
		}
		out += string(s.Finish(false))
		if u := s.Usage(); out != stream || u.Completion != 9 || u.Reasoning != 2 {
			t.Errorf("in pieces of %d: %+v of\n%s", size, u, out)
		}
		if end := string(c.Form.AppendError(nil, c, &dialect.Fault{Code: "x", Message: "y"})); !strings.Contains(end, `"sequence_number":17,`) {
			t.Errorf("in pieces of %d: the error is %s", size, end)
		}
		s.Release()
	}
}
