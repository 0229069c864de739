package providers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// sim is a simulated upstream that counts its tokens, spoken to in all dialects.
type sim struct {
	*strict.Server
	url     string
	catalog *Catalog
}

func startSim(t *testing.T) *sim {
	t.Helper()
	s := &sim{Server: strict.New(upstream.Options{})}
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.url = url
	s.catalog = catalogOf(t, fmt.Sprintf(`
upstreams:
  - { name: a, base_url: %q }
  - { name: b, base_url: %q, dialect: anthropic, key: k }
  - { name: c, base_url: %q, dialect: gemini, key: k }
models:
  - { id: sim-chat, context_tokens: 100000, price: free, targets: [{ upstream: a }] }
  - { id: renamed, context_tokens: 100000, price: free, targets: [{ upstream: a, model: sim-there }] }
  - { id: sim-claude, context_tokens: 100000, price: free, targets: [{ upstream: b }] }
  - { id: sim-gemini, context_tokens: 100000, price: free, targets: [{ upstream: c, model: gemini-2.5-flash }] }
  - { id: sim-embedding, type: embedding, price: { input: 1 }, targets: [{ upstream: a }] }
`, url, url, url), nil, today)
	return s
}

// exchange is one request to the simulated upstream and its outcome.
type exchange struct {
	status int
	out    string // of the gateway to the client
	raw    string // of the upstream
	usage  dialect.Usage
	done   bool
	failed bool
}

func (s *sim) do(t *testing.T, body string, leaveAfter int) exchange {
	t.Helper()
	c := &dialect.Chat{Body: []byte(body), Doc: &scan.Document{}, Choices: 1}
	shape := dialect.ChatShape("svc", nil, nil)
	if strings.Contains(body, `"input"`) {
		shape, c.Embedding = dialect.EmbedShape(), true
	}
	if err := c.Doc.Skim(c.Body, shape); err != nil {
		t.Fatal(err)
	}
	var asked struct {
		Model          string
		Stream         bool
		N              int64
		Max            int64 `json:"max_completion_tokens"`
		Stream_options *struct{ Include_usage *bool }
	}
	if err := json.Unmarshal(c.Body, &asked); err != nil {
		t.Fatal(err)
	}
	typ := "text"
	if c.Embedding {
		typ = "embedding"
	}
	c.Model, _ = s.catalog.Resolve([]byte(asked.Model), typ)
	if c.Model == nil {
		t.Fatalf("there is no model %s", asked.Model)
	}
	c.Stream, c.Choices, c.AskedCompletion = asked.Stream, max(asked.N, 1), asked.Max
	if asked.Stream_options != nil {
		c.IncludeUsage = asked.Stream_options.Include_usage
	}
	target := c.Model.Targets[0]
	var r proxy.Request
	var scratch dialect.Scratch
	if err := target.Upstream.Dialect.Request(&r, c, target, &scratch); err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequest(
		"POST", s.url+string(r.Path), bytes.NewReader(proxy.AppendPatched(nil, r.Body, r.Patches)))
	for _, h := range s.catalog.upstreams[target.Upstream.Name].options.Headers {
		req.Header.Set(h[0], h[1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	x := exchange{status: res.StatusCode}
	if !c.Stream || res.StatusCode != 200 {
		raw, _ := io.ReadAll(res.Body)
		x.raw = string(raw)
		if res.StatusCode != 200 {
			return x
		}
		out, u, err := target.Upstream.Dialect.Answer(raw, c, target, &scratch)
		if err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		x.out, x.usage = string(out), u
		return x
	}
	stream := target.Upstream.Dialect.Stream(c, target)
	defer stream.Release()
	buf := make([]byte, 333)
	events := 0
	for {
		n, err := res.Body.Read(buf)
		x.raw += string(buf[:n])
		out := string(stream.Pass(buf[:n]))
		x.out += out
		events += strings.Count(out, "\n\n")
		if leaveAfter > 0 && events >= leaveAfter {
			_ = res.Body.Close()
			x.out += string(stream.Finish(false))
			break
		}
		if err != nil {
			x.out += string(stream.Finish(err == io.EOF))
			break
		}
	}
	x.usage, x.done, x.failed = stream.Usage(), stream.Done(), stream.Failed()
	return x
}

// produced is the upstream's own count of the request before.
func (s *sim) produced(t *testing.T) upstream.Tally {
	t.Helper()
	if !s.WaitIdle(5 * time.Second) {
		t.Fatal("the upstream is still busy")
	}
	tally := s.Stats().Tokens
	s.Reset()
	return tally
}

// The bill must match the upstream's tokens, whatever it reports, in all dialects, streamed or not.
func TestUsageMatchesTheUpstreamsTokens(t *testing.T) {
	s := startSim(t)
	tools := `,"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}],"tool_choice":"required"`
	for _, model := range []string{"sim-chat", "renamed", "sim-claude", "sim-gemini"} {
		for _, scenario := range []string{
			"", "usage=none", "usage=null", "usage=late", "usage=choices0", "usage=top", "usage=zerofirst",
			"usage=every",
			"crlf=1 comments=1", "split=byte", "split=utf8 unicode=1", "split=crlf crlf=1", "no_done=1", "cached=3",
			"reasoning=8", "reasoning=8 usage=none",
			"tokens=700 usage=none", "unicode=1 usage=none", "cached=2 cache_write=2",
		} {
			for _, more := range []string{"", `,"n":3`, tools} {
				for _, stream := range []bool{true, false} {
					if model == "sim-claude" && more == `,"n":3` {
						continue // there is no n in that dialect
					}
					name := fmt.Sprintf("%s %q%.6s stream=%v", model, scenario, more, stream)
					body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"the small river [[sim tokens=24 %s]]"}],"stream":%v%s}`, model, scenario, stream, more)
					x := s.do(t, body, 0)
					truth := s.produced(t)
					u := x.usage
					want := dialect.Usage{
						Prompt: truth.PromptTokens, Cached: truth.CachedTokens, CacheWrite: truth.WrittenTokens,
						Completion: truth.CompletionTokens, Reasoning: truth.ReasoningTokens, Seen: u.Seen,
						Estimated: u.Estimated,
					}
					if strings.Contains(scenario, "usage=none") || strings.Contains(scenario, "usage=null") {
						want.Cached, want.CacheWrite = 0, 0
					}
					if more == `,"n":3` && strings.Contains(scenario, "tokens=700") && !stream {
						// Of more than 8 KB of text a sample is counted.
						if off := u.Completion - truth.CompletionTokens; off*off <= 25 {
							want.Completion = u.Completion
						}
					}
					if truth.CompletionTokens == 0 || truth.Requests != 1 || strings.Contains(x.out, "sim-there") ||
						strings.Contains(x.out, "gemini-2") {
						t.Fatalf("%s: %+v: %s", name, truth, x.out)
					}
					if u != want {
						t.Errorf("%s: %+v, the upstream knows %+v", name, u, truth)
					}
					if stream && (!x.done || !strings.HasSuffix(x.out, "data: [DONE]\n\n") &&
						!strings.Contains(scenario, "crlf")) {
						t.Errorf("%s: the answer has no end: %s", name, x.out)
					}
					if model == "sim-chat" && x.out != x.raw && !strings.Contains(scenario, "no_done") && u.Seen {
						t.Errorf("%s: the bytes changed", name)
					}
				}
			}
		}
	}
}

// Clients that leave pay for the tokens until then, no more.
func TestAbortedStreamsAreChargedForTheirTokens(t *testing.T) {
	s := startSim(t)
	for _, model := range []string{"sim-chat", "sim-claude", "sim-gemini"} {
		body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"the small river [[sim tokens=100 hold_after=20]]"}],"stream":true}`, model)
		x := s.do(t, body, 21) // the first event has no text
		truth := s.produced(t)
		if x.usage.Prompt != truth.PromptTokens || x.usage.Completion != 20 || truth.CompletionTokens != 20 || x.done {
			t.Errorf("%s: %+v, the upstream knows %+v", model, x.usage, truth)
		}
	}
}

func TestErrorsInsideSimulatedStreams(t *testing.T) {
	s := startSim(t)
	for _, model := range []string{"sim-chat", "sim-claude", "sim-gemini"} {
		body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi [[sim tokens=20 error_event=1 error_after=5]]"}],"stream":true}`, model)
		x := s.do(t, body, 0)
		truth := s.produced(t)
		if !x.failed || x.usage.Completion != 5 || truth.CompletionTokens != 5 ||
			!strings.Contains(x.out, `"code":"model_overloaded"`) || strings.Contains(x.out, "backend") {
			t.Errorf("%s: %+v\n%s", model, x.usage, x.out)
		}
	}
}

func TestSimulatedFailuresSayNothingOfTheUpstream(t *testing.T) {
	s := startSim(t)
	all := []string{"sim-chat", "sim-claude", "sim-gemini"}
	f := func(scenario string, status int, code, param string, models ...string) {
		t.Helper()
		if models == nil {
			models = all
		}
		for _, model := range models {
			x := s.do(t, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi [[sim %s]]"}]}`, model,
				scenario), 0)
			d := s.catalog.names[model].Targets[0].Upstream.Dialect
			got := d.Error(x.status, 0, []byte(x.raw))
			if got.Status != status || got.Code != code || got.Param != param || got.Message == "" {
				t.Errorf("%s %s: %+v", model, scenario, got)
			}
			for _, secret := range []string{"simsecret", "org-", "internal", "http", "simulated"} {
				if strings.Contains(got.Message, secret) {
					t.Errorf("%s %s: the client reads %q", model, scenario, got.Message)
				}
			}
		}
	}
	f("status=400", 400, "INVALID_REQUEST", "")
	f("status=400 kind=context", 400, "context_length_exceeded", "messages")
	f("status=400 kind=policy", 422, "CONTENT_POLICY_VIOLATION", "")
	f("status=401", 503, "MODEL_OFFLINE", "")
	f("status=403", 503, "MODEL_OFFLINE", "")
	f("status=404", 503, "MODEL_OFFLINE", "")
	f("status=429", 429, "MODEL_OVERLOADED", "")
	f("status=429 kind=quota", 503, "MODEL_OFFLINE", "", "sim-chat") // the code insufficient_quota says whose fault it is
	f("status=429 kind=quota", 429, "MODEL_OVERLOADED", "", "sim-claude", "sim-gemini")
	f("status=500", 500, "INFERENCE_FAILED", "")
	f("status=500 html=1", 500, "INFERENCE_FAILED", "")
	f("status=502", 500, "INFERENCE_FAILED", "")
	f("status=503", 503, "MODEL_AT_CAPACITY", "")
	f("status=529", 429, "MODEL_OVERLOADED", "")
}

func TestSimulatedEmbeddings(t *testing.T) {
	s := startSim(t)
	x := s.do(t, `{"model":"sim-embedding","input":["the small river","[[sim dims=4]]"]}`, 0)
	truth := s.produced(t)
	if x.usage.Prompt != truth.PromptTokens || x.usage.Completion != 0 || x.out != x.raw {
		t.Errorf("%+v, the upstream knows %+v", x.usage, truth)
	}
}
