package anthropic

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// toldOf is the Chat of a body of Messages, as routes has it after pricing.
func toldOf(t testing.TB, body string) *dialect.Chat {
	t.Helper()
	doc := &scan.Document{}
	if err := doc.SkimStrict([]byte(body), messages.Shape); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	f, chat, wrong := messages.Read([]byte(body), doc, false)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	c := chatOf(t, string(chat))
	c.Form, c.Told, c.ToldDoc = f, []byte(body), doc
	return c
}

// sentAsTold is the body that an upstream gets of a client's own.
func sentAsTold(t testing.TB, c *dialect.Chat, drops ...string) string {
	t.Helper()
	to := target(c)
	to.Upstream.Config.Drop = drops
	var r proxy.Request
	var s dialect.Scratch
	if err := (Native{}).Request(&r, c, to, &s); err != nil {
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
		t.Fatalf("%s becomes %s", c.Told, out)
	}
	return string(out)
}

// An upstream that takes Messages gets the client's own bytes, but for the members that
// the gateway sets.
func TestBodiesGoOutAsTheyCame(t *testing.T) {
	t.Parallel()
	f := func(body, want string, change func(c *dialect.Chat), drops ...string) {
		t.Helper()
		c := toldOf(t, body)
		if change != nil {
			change(c)
		}
		if got := sentAsTold(t, c, drops...); got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
	const hi = `"messages":[ {"role":"user", "content":"hi\u0021"} ]`
	f(`{ "model" : "m","max_tokens":50,`+hi+`,"stop_sequences":["a","b","c","d","e"]}`,
		`{ "model" : "claude","max_tokens":50,`+hi+`,"stop_sequences":["a","b","c","d","e"]}`, nil)
	f(`{"model":"m","max_tokens":50,`+hi+`,"metadata":{"user_id":"u"},"top_k":5, "stop_sequences":["x"] }`,
		`{"model":"claude","max_tokens":50,`+hi+` }`, nil, "stop", "metadata", "top_k", "messages", "seed")

	lower := func(to int64) func(c *dialect.Chat) {
		return func(c *dialect.Chat) { c.AskedCompletion, c.MaxCompletion = 5000, to }
	}
	f(`{"model":"m","max_tokens":5000,`+hi+`}`, `{"model":"claude","max_tokens":70,`+hi+`}`, lower(70))
	f(`{"model":"m","max_tokens":5000,`+hi+`}`, `{"model":"claude","max_tokens":5000,`+hi+`}`, lower(5000))
	const budget = `,"thinking":{"type":"enabled","budget_tokens":4000}}`
	f(`{"model":"m","max_tokens":5000,`+hi+budget, `{"model":"claude","max_tokens":4500,`+hi+budget, lower(4500))
	f(`{"model":"m","max_tokens":5000,`+hi+budget,
		`{"model":"claude","max_tokens":2000,`+hi+`,"thinking":{"type":"enabled","budget_tokens":1600}}`, lower(2000))
	f(`{"model":"m","max_tokens":5000,`+hi+budget,
		`{"model":"claude","max_tokens":1000,`+hi+`,"thinking":{"type":"disabled"}}`, lower(1000))

	prompt := func(c *dialect.Chat) { c.SystemPrompt = []byte("Be \"good\".") }
	const said = `{"type":"text","text":"Be \"good\"."}`
	for system, want := range map[string]string{
		`"system":"bad",`:                          `"system":[` + said + `,{"type":"text","text":"bad"}],`,
		`"system":[{"type":"text","text":"bad"}],`: `"system":[` + said + `,{"type":"text","text":"bad"}],`,
		`"system":[],`:                             `"system":[` + said + `],`,
		`"system":"",`:                             `"system":[` + said + `],`,
		`"system":null,`:                           `"system":[` + said + `],`,
	} {
		f(`{`+system+`"model":"m","max_tokens":50,`+hi+`}`, `{`+want+`"model":"claude","max_tokens":50,`+hi+`}`, prompt)
	}
	f(`{"model":"m","max_tokens":50,`+hi+`}`, `{"system":[`+said+`],"model":"claude","max_tokens":50,`+hi+`}`, prompt)

	mark := func(life string) string { return `"cache_control":{"type":"ephemeral","ttl":"` + life + `"}` }
	long := func(life string) string {
		return `"max_tokens":50,` + mark(life) + `,"system":[{"type":"text","text":"a",` + mark(life) + `}],"messages":[` +
			`{"role":"user","content":[{"type":"text","text":"a",` + mark(life) + `}]}],"tools":[{"name":"t","input_schema":` +
			`{"type":"object","properties":{"cache_control":{"ttl":"1h"}}},` + mark(life) + `}]}`
	}
	f(`{"model":"m",`+long("1h"), `{"model":"claude",`+long("5m"), nil)
}

// Thoughts of other makers, and searches of this service, are not Anthropic's to read.
func TestForeignBlocksStayHere(t *testing.T) {
	t.Parallel()
	const (
		own, said = `{"type":"thinking","thinking":"x","signature":"c2ln"}`, `{"type":"text","text":"b"}`
		bare      = `{"type":"thinking","thinking":"x","signature":""}`
		sealed    = `{"type":"redacted_thinking","data":"fbx1.e30"}`
		search    = `{"type":"server_tool_use","id":"srvtoolu_fbx1","name":"web_search","input":{}}`
		found     = `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_fbx1","content":[]}`
	)
	for content, want := range map[string]string{
		own + `,` + said:                              own + `,` + said,
		bare + `, ` + said:                            said,
		said + `, ` + bare:                            said,
		sealed + `,` + said + `,` + bare:              said,
		search + `,` + found + `,` + own + `,` + said: own + `,` + said,
		own + `,` + bare + `,` + search + `,` + said:  own + `,` + said,
		said + `,` + search + `,` + said:              said + `,` + said,
		bare:                                          `{"type":"text","text":"."}`,
		bare + `,` + sealed:                           `{"type":"text","text":"."}`,
	} {
		body := func(model, content string) string {
			return `{"model":"` + model + `","max_tokens":50,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[` +
				content + `]},{"role":"user","content":"c"}]}`
		}
		if got := sentAsTold(t, toldOf(t, body("m", content))); got != body("claude", want) {
			t.Errorf("%s\n got %s\nwant %s", content, got, want)
		}
	}
}

// Betas of our own list go out; the rest of the header does not.
func TestOnlyKnownBetasGoOut(t *testing.T) {
	t.Parallel()
	c := toldOf(t, `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"a"}],"stream":true}`)
	c.Form.(*messages.Form).SetBetas([][]byte{[]byte("files-api-2025-04-14, effort-2025-11-24"),
		[]byte("x\r\ny"), []byte("effort-2025-11-24,claude-code-20250219")})
	var r proxy.Request
	if err := (Native{}).Request(&r, c, target(c), &dialect.Scratch{}); err != nil {
		t.Fatal(err)
	}
	if r.Further[0] != [2]string{"anthropic-beta", "claude-code-20250219,effort-2025-11-24"} || r.Accept != "text/event-stream" ||
		string(r.Path) != "/messages" || c.LeftOut.String() != "anthropic-beta" {
		t.Errorf("%+v, %s is left out", r, &c.LeftOut)
	}
	// Members that cost nothing go out whole, and a message of the system's brings its own.
	c = toldOf(t, `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}`)
	const all = "claude-code-20250219,context-management-2025-06-27,effort-2025-11-24,interleaved-thinking-2025-05-14," +
		"mid-conversation-system-2026-04-07,prompt-caching-scope-2026-01-05,thinking-token-count-2026-05-13"
	newer := strings.Replace(all, "mid-conversation-system-2026-04-07", "mid-conversation-tool-changes-2026-07-01", 1)
	for given, want := range map[string]string{all: all, newer: newer, strings.Replace(all, "mid-conversation-system-2026-04-07,", "", 1): all} {
		c.Form.(*messages.Form).SetBetas([][]byte{[]byte(given)})
		c.LeftOut = dialect.LeftOut{}
		if err := (Native{}).Request(&r, c, target(c), &dialect.Scratch{}); err != nil || r.Further[0][1] != want ||
			c.LeftOut.String() != "" {
			t.Errorf("%v: %q, %s is left out", err, r.Further, &c.LeftOut)
		}
	}
}

const wholeMessage = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-there","content":[` +
	`{"type":"thinking","thinking":"x","signature":"y"},{"type":"text","text":"hi","citations":[{"type":"char_location"}]},` +
	`{"type":"tool_use","id":"t","name":"n","input":{"a":1}},{"type":"of_tomorrow","x":[]}],"stop_reason":"end_turn","usage":` +
	startUsage + `,"further":{}}`

// An answer comes back as it is but for the model's name, and is metered.
func TestAnswersComeBackAsTheyAre(t *testing.T) {
	t.Parallel()
	c := toldOf(t, `{"model":"m","max_tokens":500,"messages":[{"role":"user","content":"a"}]}`)
	var s dialect.Scratch
	out, u, err := Native{}.Answer([]byte(wholeMessage), c, target(c), &s)
	if want := strings.Replace(wholeMessage, "claude-there", "m", 1); err != nil || string(out) != want {
		t.Errorf("%v\n got %s\nwant %s", err, out, want)
	}
	if want := (dialect.Usage{Prompt: 18, Cached: 5, CacheWrite: 3, Completion: 1, Seen: true}); u != want {
		t.Errorf("%+v", u)
	}
	as := target(c)
	as.Renames = false
	if out, _, err = (Native{}).Answer([]byte(wholeMessage), c, as, &s); err != nil || string(out) != wholeMessage {
		t.Errorf("%v: %s", err, out)
	}
	silent := strings.Replace(wholeMessage, `"usage":`+startUsage, `"usage":null`, 1)
	if _, u, err = (Native{}).Answer([]byte(silent), c, as, &s); err != nil || !u.Estimated || u.Completion < 4 {
		t.Errorf("%v: %+v", err, u)
	}
	var failed *dialect.Failed
	if _, _, err = (Native{}).Answer([]byte(`{"type":"error","error":{"type":"overloaded_error"}}`), c, as, &s); !errors.As(err, &failed) {
		t.Error(err)
	}
	for _, body := range []string{``, `[]`, `{}`, `{"type":"message"}`, `{"type":"completion","content":[]}`} {
		if _, _, err = (Native{}).Answer([]byte(body), c, as, &s); err == nil {
			t.Errorf("%s is an answer", body)
		}
	}
}

// relayed is the client's side of a stream, and its metered usage.
func relayed(t testing.TB, input string, complete bool, cuts ...int) result {
	c := toldOf(t, `{"model":"m","max_tokens":500,"messages":[{"role":"user","content":"hi"}],"stream":true}`)
	s := Native{}.Stream(c, target(c))
	defer s.Release()
	return result{run(s, input, complete, cuts...), s.Usage(), s.Done(), s.Failed()}
}

// A stream comes back byte for byte but for the model's name, wherever it was cut, and
// is metered as the translated one is.
func TestEventsComeBackAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, eol := range []string{"\n", "\r\n", "\r"} {
		input := strings.ReplaceAll(": hello\n\n"+everything(), "\n", eol)
		name := strings.ReplaceAll(input, "claude-there", "m")
		at := strings.Index(name, "event: message_start")
		end := at + strings.Index(name[at:], eol+eol) + 2*len(eol)
		want := name[:at] + strings.ReplaceAll(name[at:end], eol, "\n") + name[end:]
		metered := translate(t, input, true, nil)
		for cut := range len(input) {
			got := relayed(t, input, true, cut)
			if got.out != want {
				t.Fatalf("cut at %d:\n got %q\nwant %q", cut, got.out, want)
			}
			if got.usage != metered.usage || !got.done || got.failed {
				t.Fatalf("cut at %d: %+v, translated %+v", cut, got, metered)
			}
		}
	}
}

// An upstream's failure is reported in words that name nothing of the operator's, once,
// and nothing follows it.
func TestFailuresAreInOurWords(t *testing.T) {
	t.Parallel()
	begin := start(startUsage) + open("0", `{"type":"text","text":""}`) + text("0", "a")
	got := relayed(t, begin+event("error", `{"type":"error","error":{"type":"overloaded_error","message":"org secret"}}`)+
		text("0", "b")+event("error", `{"type":"error","error":{}}`)+stop, true)
	name := strings.ReplaceAll(begin, "claude-there", "m")
	rest, ok := strings.CutPrefix(got.out, name)
	if !ok || !got.failed || strings.Contains(rest, "secret") || strings.Count(rest, "event: ") != 1 ||
		!strings.HasPrefix(rest, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"") {
		t.Errorf("%+v", got)
	}
	huge := begin + "event: content_block_delta\ndata: {\"x\":\"" + strings.Repeat("a", dialect.MaxEvent+1000) + "\"}\n\n" + text("0", "b") + stop
	got = relayed(t, huge, true, 1000, 40_000, 66_400)
	if rest, ok = strings.CutPrefix(got.out, name); !ok || !got.failed || !strings.HasPrefix(rest, "event: error\n") {
		t.Errorf("%.2000q", got.out)
	}
	if got = relayed(t, begin, false); got.done || got.usage.Completion != 1 || got.out != name {
		t.Errorf("%+v", got)
	}
	whole := begin + shut("0") + last("end_turn", lastUsage)
	if got = relayed(t, whole, true); !got.done || !strings.HasSuffix(got.out, stop) || got.usage.Completion != 9 {
		t.Errorf("%+v", got)
	}
	if got = relayed(t, strings.TrimSuffix(whole+stop, "\n"), true); !got.done || strings.Count(got.out, "message_stop\n") != 1 {
		t.Errorf("%+v", got)
	}
}
