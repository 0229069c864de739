package routes_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/routes/chat"
	"farebox/routes/routestest"
	"farebox/routes/rpc"
)

// A request that panics returns all that it took, and is an error in the log and in the
// metrics. The gateway here is the one of the binary, served on a socket; only the part
// that panics is added.

const panicConfig = `
log: { level: info }
upstreams:
  - { name: only, base_url: "http://ADDR/v1" }
models:
  - id: m
    tier: unlimited
    context_tokens: 128000
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
rpc:
  networks: [{ name: ethereum-mainnet, upstreams: [{ name: only, url: "http://ADDR/" }] }]
  max_in_flight: 1
  turn_wait: 100ms
`

// panicking is a dialect that panics at one of its steps.
type panicking struct {
	dialect.Dialect
	at string
}

// secretPrompt is a client's text that no log may contain.
const secretPrompt = "the diary of Anne"

func (d *panicking) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	if d.at == "request" {
		panic("cannot carry " + string(c.Body))
	}
	return d.Dialect.Request(r, c, t, s)
}

func (d *panicking) Answer(body []byte, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) ([]byte, dialect.Usage,
	error) {
	if d.at == "answer" {
		var none []byte
		_ = none[len(body)]
	}
	return d.Dialect.Answer(body, c, t, s)
}

func (d *panicking) Stream(c *dialect.Chat, t *dialect.Target) dialect.Stream {
	if d.at == "stream" || d.at == "end" {
		return &panickingStream{d.Dialect.Stream(c, t), d.at}
	}
	return d.Dialect.Stream(c, t)
}

type panickingStream struct {
	dialect.Stream
	at string
}

func (s *panickingStream) Pass(p []byte) []byte {
	if s.at == "stream" {
		panic("cannot pass " + string(p) + secretPrompt)
	}
	first, _, _ := bytes.Cut(s.Stream.Pass(p), []byte("\n\n"))
	return append(first, "\n\n"...)
}

func (s *panickingStream) Finish(bool) []byte { panic("cannot end " + secretPrompt) }

func TestAPanicGivesBackWhatTheRequestTook(t *testing.T) {
	g := servePanics(t)
	real := g.Gateway.FirstUpstream().Dialect
	broken := func(at string) { g.Gateway.FirstUpstream().Dialect = &panicking{real, at} }
	chat := func(more string) (int, string) {
		return g.Post("/chat/completions", `{`+more+`"model":"m","messages":[{"role":"user","content":"`+secretPrompt+
			`"}],"max_completion_tokens":5}`, "")
	}
	rpc := func(key string) (int, string) {
		return g.Post("/crypto/rpc/ethereum-mainnet", `{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}`,
			key)
	}
	told := 0
	check := func(what string, status, want int) {
		t.Helper()
		told++
		if status != want {
			t.Errorf("%s: answered %d, not %d", what, status, want)
		}
		log := g.awaitPanics(t, told)
		if !strings.Contains(log, `"level":"error"`) || !strings.Contains(log, `panic_test.go`) &&
			!strings.Contains(log, "proxy.(*Proxy).Open") {
			t.Errorf("%s: no error with the stack in the log:\n%s", what, log)
		}
		if strings.Contains(log, secretPrompt) || strings.Contains(log, g.Secret) {
			t.Errorf("%s: the log has the prompt or the key:\n%s", what, log)
		}
	}

	broken("request")
	status, _ := chat("")
	check("making the request", status, 500)
	broken("answer")
	status, _ = chat("")
	check("reading the answer", status, 500)
	broken("stream")
	status, _ = chat(`"stream":true,`)
	check("reading the first event", status, 500)
	broken("end")
	status, body := chat(`"stream":true,`)
	check("relaying a stream", status, 200) // whose body is cut off
	if strings.Contains(body, "[DONE]") {
		t.Errorf("a stream that broke down looks complete: %q", body)
	}
	if line := g.lastRequest(t); !strings.Contains(line, `"level":"warn"`) || !strings.Contains(line, `"status":500`) ||
		!strings.Contains(line, `"cause":"panic"`) {
		t.Errorf("the stream's line in the log: %s", line)
	}
	g.Gateway.FirstUpstream().Dialect = real
	if status, body = chat(""); status != 200 {
		t.Errorf("afterwards: %d %s", status, body)
	}

	// The account's only slot, and the lead of an idempotency key.
	good := g.Proxy
	for _, key := range []string{"", "one", "one", ""} {
		g.Gateway.SetProxy(nil)
		status, _ := rpc(key)
		g.Gateway.SetProxy(good)
		check("a blockchain call", status, 500)
	}
	for _, key := range []string{"", "one"} {
		if status, body := rpc(key); status != 200 {
			t.Errorf("key %q after the panics: %d %s", key, status, body)
		}
	}
	if s := g.Ledger.Stats(); s.OpenHolds != 0 || s.Held != 0 {
		t.Errorf("%d holds of %v are open", s.OpenHolds, s.Held)
	}
	if n := g.Gateway.Active(); n != 0 {
		t.Errorf("%d requests are active", n)
	}
	if n := good.Active(); n != 0 {
		t.Errorf("%d exchanges are under way", n)
	}
	var page fasthttp.RequestCtx
	g.Gateway.ServeMetrics(&page)
	if text := string(page.Response.Body()); !strings.Contains(text,
		"\nfarebox_panics_total "+strconv.Itoa(told)+"\n") {
		t.Errorf("the metrics do not have %d panics", told)
	}
}

// panicRig is a gateway whose log is read for panics.
type panicRig struct{ *routestest.Rig }

func servePanics(t *testing.T) *panicRig {
	t.Helper()
	up := routestest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+gjson.GetBytes(body, "id").Raw+`,"result":"0x1"}`)
		case bytes.Contains(body, []byte(`"stream":true`)):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, panicEvents)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, wholeAnswerText)
		}
	})
	return &panicRig{routestest.Start(t, panicConfig, up, chat.New(nil, nil, nil), rpc.New())}
}

// awaitPanics returns the line of the nth panic.
func (g *panicRig) awaitPanics(t *testing.T, n int) string {
	t.Helper()
	var found []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		found = found[:0]
		for _, line := range g.Log.Lines() {
			if strings.Contains(line, " panicked") {
				found = append(found, line)
			}
		}
		if len(found) >= n {
			break
		}
	}
	if len(found) != n {
		t.Fatalf("%d panics are in the log, not %d: %s", len(found), n, strings.Join(g.Log.Lines(), "\n"))
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(found[n-1]), &line); err != nil || line["stack"] == nil {
		t.Errorf("a panic without a stack: %s, %v", found[n-1], err)
	}
	return found[n-1]
}

// lastRequest is the line of the request that ended last.
func (g *panicRig) lastRequest(t *testing.T) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if g.Gateway.Active() == 0 {
			break
		}
	}
	time.Sleep(20 * time.Millisecond) // the line follows the count
	lines := g.Log.Lines()
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.Contains(lines[i], `"message":"request"`) && strings.Contains(lines[i], `"stream":true`) {
			return lines[i]
		}
	}
	t.Fatalf("no request in the log: %s", strings.Join(lines, "\n"))
	return ""
}

const wholeAnswerText = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there."},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27}}`

const panicEvents = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\ndata: [DONE]\n\n"
