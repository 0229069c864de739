package image

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// scribe is an upstream that rewrites prompts. A word in the prompt says how.
type scribe struct {
	URL string

	mu    sync.Mutex
	asked []scribeRequest
	left  int // clients that went while it thought
	goOn  chan struct{}
}

type scribeRequest struct {
	Model     string
	Messages  []struct{ Role, Content string }
	Most      int    `json:"max_completion_tokens"`
	Effort    string `json:"reasoning_effort"`
	Stream    bool
	Prompt    string `json:"-"` // text between the marks
	Mark      string `json:"-"`
	RequestID string `json:"-"`
}

func startScribe(t testing.TB) *scribe {
	t.Helper()
	s := &scribe{goOn: make(chan struct{})}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL + "/v1"
	return s
}

func (s *scribe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q scribeRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/chat/completions" ||
		len(q.Messages) != 2 {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	q.RequestID = r.Header.Get("X-Request-ID")
	first, rest, _ := strings.Cut(q.Messages[1].Content, "\n")
	q.Mark = first
	q.Prompt = strings.TrimSuffix(rest, "\n"+first)
	s.mu.Lock()
	s.asked = append(s.asked, q)
	s.mu.Unlock()
	text, end := "In bright light: "+q.Prompt, "stop"
	says := func(word string) bool { return strings.Contains(q.Prompt, word) }
	switch {
	case says("STATUS"):
		http.Error(w, `{"error":{"message":"no ink left for `+q.Prompt+`"}}`, http.StatusInternalServerError)
		return
	case says("REFUSED"):
		http.Error(w, `{"error":{"message":"no","code":"content_policy_violation"}}`, http.StatusBadRequest)
		return
	case says("SLOW"):
		<-r.Context().Done()
		s.mu.Lock()
		s.left++
		s.mu.Unlock()
		return
	case says("WAITS"):
		<-s.goOn
	case says("BREAKS"):
		w.Header().Set("Content-Length", "10000")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"half`)
		return
	case says("MARKUP"):
		_, _ = io.WriteString(w, `<html>`)
		return
	case says("EMPTY"):
		text = " \n"
	case says("WORDY"):
		text = strings.Repeat("é", 1501)
	case says("UNENDING"):
		end = "length"
	case says("THINKS"):
		text = "<think>The user said " + q.Prompt + "</think>\n\nA thought-out cat."
	case says("QUOTES"):
		text = `"A quoted cat."`
	case says("FOREIGN"):
		text = "Eine Katze & ein Hund,\n100 % schön: 猫+犬"
	case says("BLOCKED"):
		text = "[[sim image=blocked]] a cat"
	}
	answer, _ := json.Marshal(map[string]any{
		"id": "x", "object": "chat.completion", "model": q.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": end,
			"message": map[string]any{"role": "assistant", "content": text}}},
		"usage": map[string]any{"prompt_tokens": 200, "completion_tokens": 30, "total_tokens": 230},
	})
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func (s *scribe) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *scribe) last() scribeRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

// writingStudio is a studio whose prompts are rewritten.
type writingStudio struct {
	*studio
	scribe *scribe
}

// Further arguments are pairs of an old text of the config and its replacement.
func startWritingStudio(t testing.TB, balance string, instead ...string) *writingStudio {
	t.Helper()
	e, w := startEasel(t), startScribe(t)
	sim := rig.StartUpstream(t, upstream.Options{})
	config := strings.Replace(imagesConfig, "upstreams:\n", `images: { prompt_model: writer, prompt_timeout: 4s }
upstreams:
  - { name: scribe, base_url: %[3]s, breaker: { failures: 0 } }
`, 1) + `
  - id: simulated-pixels
    type: image
    tier: unlimited
    capabilities: { optimize_prompt_thinking: true }
    constraints: { prompt_characters: 300 }
    price: { generation: 0.01 }
    targets: [{ upstream: simulated, model: sim-image }]
  - id: free-pixels
    type: image
    tier: unlimited
    price: free
    targets: [{ upstream: easel, model: paint-1 }]
  - id: writer
    tier: unlimited
    privacy: anonymized
    context_tokens: 8000
    max_completion_tokens: 4000
    capabilities: { reasoning: true, reasoning_effort: [none, low, high] }
    price: { input: 1, output: 2 }
    targets: [{ upstream: scribe, model: pen-1 }]
`
	g := rig.StartGateway(t, fmt.Sprintf(strings.NewReplacer(instead...).Replace(config), e.URL, sim.URL, w.URL))
	g.NewAccount("a", balance)
	return &writingStudio{&studio{g, e, sim, g.Key("a")}, w}
}

const rewrite = 40_000_000 // price of one rewritten prompt

// A rewritten prompt makes the picture, is shown in a header, and is charged once a
// request, whatever the endpoint and the form of the body.
func TestPromptsAreRewritten(t *testing.T) {
	t.Parallel()
	s := startWritingStudio(t, "100")
	picture := painting(512, 256)
	text := base64.StdEncoding.EncodeToString(picture)
	spent := rig.Money(0)
	made := func(name, prompt string, price rig.Money, send func() (int, http.Header, []byte)) {
		t.Helper()
		status, header, answer := send()
		got, err := url.PathUnescape(header.Get("X-Svc-Enhanced-Prompt"))
		if status != 200 || err != nil || got != prompt {
			t.Fatalf("%s: %d, rewritten as %q (%v), want %q: %.300s", name, status, got, err, prompt, answer)
		}
		if painted := s.easel.last().Fields["prompt"]; painted != prompt {
			t.Errorf("%s: painted %q, want %q", name, painted, prompt)
		}
		spent += price
		if total := s.spent(); total != spent {
			t.Errorf("%s: charged %s, want %s", name, total-spent+price, price)
		}
	}
	post := func(path, body string) func() (int, http.Header, []byte) {
		return func() (int, http.Header, []byte) { return s.Post(path, s.key, body) }
	}
	made("three pictures", "In bright light: a \"cat\"", 30_000_000+rewrite,
		post("/image/generate", `{"model":"pixels","prompt":"a \"cat\"","num_images":3,"enhance_prompt":true,"format":"png"}`))
	q := s.scribe.last()
	if q.Model != "pen-1" || q.Stream || q.Effort != "" || q.Most != 4000 || q.Prompt != `a "cat"` ||
		q.Messages[0].Role != "system" || !strings.Contains(q.Messages[0].Content, "1500 characters") ||
		q.Messages[1].Role != "user" {
		t.Errorf("the text model was asked %+v", q)
	}
	made("a picture as a file", "In bright light: x", 10_000_000+rewrite,
		post("/image/generate", `{"model":"pixels","prompt":"x","enhance_prompt":true,"format":"png","return_binary":true}`))
	made("reasoning and quotation marks", "A thought-out cat.", 10_000_000+rewrite,
		post("/image/generate", `{"model":"pixels","prompt":"THINKS","enhance_prompt":true,"format":"png"}`))
	made("quotation marks", "A quoted cat.", 10_000_000+rewrite,
		post("/image/generate", `{"model":"pixels","prompt":"QUOTES","enhance_prompt":true,"format":"png"}`))
	made("other scripts", "Eine Katze & ein Hund,\n100 % schön: 猫+犬", 10_000_000+rewrite,
		post("/image/generate", `{"model":"pixels","prompt":"FOREIGN","enhance_prompt":true,"format":"png"}`))
	made("an edit", "In bright light: a hat", 340_000_000+rewrite,
		post("/image/edit", `{"prompt":"a hat","image":"`+text+`","enhance_prompt":true,"output_format":"png"}`))
	if q := s.scribe.last(); !strings.Contains(q.Messages[0].Content, "edits pictures") {
		t.Errorf("for an edit the text model's instructions are %q", q.Messages[0].Content)
	}
	made("an edit as a form", "In bright light: a hat", 340_000_000+rewrite, func() (int, http.Header, []byte) {
		return newForm().field("prompt", "a hat").field("enhance_prompt", "true").file("image", picture).send(t,
			s.Gateway, "/image/edit", s.key)
	})
	made("an edit of several", "In bright light: a hat", 340_000_000+9_200_000+rewrite,
		post("/image/multi-edit", `{"prompt":"a hat","images":["`+text+`","`+text+
			`"],"enhance_prompt":true,"output_format":"png"}`))
	made("an edit of several as a form", "In bright light: a hat", 340_000_000+9_200_000+rewrite,
		func() (int, http.Header, []byte) {
			return newForm().field("prompt", "a hat").field("enhance_prompt", "true").file("images", picture).
				file("images", picture).send(t, s.Gateway, "/image/multi-edit", s.key)
		})
	made("a free picture", "In bright light: x", rewrite, post("/image/generate",
		`{"model":"free-pixels","prompt":"x","enhance_prompt":true,"format":"png"}`))

	before := s.scribe.requests()
	status, header, _ := s.Post(
		"/image/generate", s.key, `{"model":"pixels","prompt":"x","enhance_prompt":false,"format":"png"}`)
	if _, there := header["X-Svc-Enhanced-Prompt"]; status != 200 || there || s.scribe.requests() != before {
		t.Errorf("enhance_prompt: false: %d %v", status, header)
	}
	s.MetricIs(`farebox_prompt_rewrites_total{applied="true"}`, func(n float64) bool { return n == 10 })
	if log := s.Log(); strings.Contains(log, "cat") || strings.Contains(log, "hat\"") {
		t.Error("a prompt is in the log")
	}
}

// Whatever goes wrong with the rewriting, the client's own words make the picture, and
// cost nothing more. The fault is logged without them.
func TestPromptsThatAreNotRewritten(t *testing.T) {
	t.Parallel()
	s := startWritingStudio(t, "100")
	for i, word := range []string{"STATUS", "REFUSED", "SLOW", "BREAKS", "MARKUP", "EMPTY", "WORDY", "UNENDING"} {
		prompt := word + " canary"
		status, header, answer := s.Post("/image/generate", s.key,
			`{"model":"pixels","prompt":"`+prompt+`","enhance_prompt":true,"format":"png","num_images":2}`)
		if _, there := header["X-Svc-Enhanced-Prompt"]; status != 200 || there {
			t.Fatalf("%s: %d %v %.300s", word, status, header, answer)
		}
		if painted := s.easel.last().Fields["prompt"]; painted != prompt {
			t.Errorf("%s: painted %q", word, painted)
		}
		if got, want := s.spent(), rig.Money(20_000_000*(i+1)); got != want {
			t.Errorf("%s: %s were charged so far, want %s", word, got, want)
		}
	}
	// This model takes 300 characters, of the new prompt as of the old one.
	prompt := strings.Repeat("x", 290)
	if status, header, answer := s.Post("/image/generate", s.key,
		`{"model":"simulated-pixels","prompt":"`+prompt+`","enhance_prompt":true,"format":"png"}`); status != 200 ||
		header.Get("X-Svc-Enhanced-Prompt") != "" {
		t.Errorf("a new prompt that the model cannot take: %d %v %.300s", status, header, answer)
	}
	if got, want := s.spent(), rig.Money(170_000_000); got != want {
		t.Errorf("%s were charged, want %s", got, want)
	}
	log := s.Log()
	for _, reason := range []string{"status 500", "status 400", "total_timeout", "upstream_truncated", "cannot be read",
		"has no text", "too long: 1501", "ended with length", "too long: 307"} {
		if !strings.Contains(log, reason) {
			t.Errorf("the log does not say %q", reason)
		}
	}
	if strings.Contains(log, "canary") || strings.Contains(log, "xxxxxx") {
		t.Error("a prompt is in the log")
	}
	s.MetricIs(`farebox_prompt_rewrites_total{applied="false"}`, func(n float64) bool { return n == 9 })
}

// A client that leaves while its prompt is rewritten pays for the rewriting,
// which the text model had begun, and for nothing else; it is let go, and no
// picture is made.
func TestLeavingWhileAPromptIsRewritten(t *testing.T) {
	t.Parallel()
	s := startWritingStudio(t, "1", "prompt_timeout: 4s", "prompt_timeout: 30s")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ask(ctx, "/image/generate", `{"model":"pixels","prompt":"SLOW","enhance_prompt":true,"variants":4}`)
	}()
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 1 && s.scribe.requests() == 1 })
	cancel()
	<-done
	s.MetricIs("farebox_holds_open", func(n float64) bool {
		s.scribe.mu.Lock()
		defer s.scribe.mu.Unlock()
		return n == 0 && s.scribe.left == 1
	})
	if a := s.Settled()["a"]; a.Spent != rewrite || a.USD != 1_000_000_000-rewrite || s.easel.requests() != 0 {
		t.Errorf("the account is %+v, %d pictures were asked for", a, s.easel.requests())
	}
	_, _, answer := s.Get("/billing/usage", s.Key("a", "--type", "ADMIN"))
	if text := string(answer); strings.Count(text, `"sku":`) != 1 ||
		!strings.Contains(text, `"pixels-image-enhancement-unit"`) {
		t.Errorf("the usage is %s", answer)
	}
}

// With an idempotency key the request goes on, and its repeat gets the picture
// that was made of the new prompt, for one price.
func TestLeavingWhileAPromptIsRewrittenWithAKey(t *testing.T) {
	t.Parallel()
	s := startWritingStudio(t, "1", "prompt_timeout: 4s", "prompt_timeout: 30s")
	const body = `{"model":"pixels","prompt":"WAITS","enhance_prompt":true,"format":"png"}`
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", s.Gateway.URL+"/image/generate", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + s.key},
		"Idempotency-Key": {"once"}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := rig.Client.Do(req); err == nil {
			_ = res.Body.Close()
			t.Errorf("the answer was there before the client left: %d", res.StatusCode)
		}
	}()
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 1 && s.scribe.requests() == 1 })
	cancel()
	<-done
	s.MetricIs("farebox_unattended_images", func(n float64) bool { return n == 1 })
	close(s.scribe.goOn)
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	status, header, answer := s.WithKey("/image/generate", s.key, "once", body)
	if status != 200 || header.Get("Idempotent-Replayed") != "true" || header.Get("X-Svc-Enhanced-Prompt") == "" {
		t.Errorf("the repeat got %d %v %.300s", status, header, answer)
	}
	s.MetricIs("farebox_unattended_images", func(n float64) bool { return n == 0 })
	if a := s.Settled()["a"]; a.Spent != 10_000_000+rewrite || s.easel.requests() != 1 || s.scribe.requests() != 1 {
		t.Errorf("the account is %+v, %d pictures and %d prompts were asked for", a, s.easel.requests(),
			s.scribe.requests())
	}
}

// The price of the rewriting is held before: a client that cannot pay for it gets
// nothing. A picture that is withheld costs neither.
func TestRewritingIsPaidWithItsPicture(t *testing.T) {
	t.Parallel()
	s := startWritingStudio(t, "0.0499")
	const body = `{"model":"simulated-pixels","prompt":"%s","enhance_prompt":true,"format":"png"}`
	status, _, answer := s.Post("/image/generate", s.key, fmt.Sprintf(body, "x"))
	if status != 402 || s.scribe.requests() != 0 {
		t.Fatalf("%d %.300s", status, answer)
	}
	s.Credit("a", "0.0001")
	status, header, answer := s.Post("/image/generate", s.key, fmt.Sprintf(body, "BLOCKED"))
	if status != 200 || header.Get("X-Svc-Is-Content-Violation") != "true" {
		t.Fatalf("%d %v %.300s", status, header, answer)
	}
	if got := s.spent(); got != 0 {
		t.Errorf("a picture that was withheld cost %s", got)
	}
	status, _, answer = s.Post("/image/generate", s.key, fmt.Sprintf(body, "FAIL [[sim status=500]]"))
	if status < 500 {
		t.Fatalf("%d %.300s", status, answer)
	}
	if got := s.spent(); got != 0 {
		t.Errorf("a picture that was not made cost %s", got)
	}
	if status, _, answer = s.Post("/image/generate", s.key, fmt.Sprintf(body, "x")); status != 200 {
		t.Fatalf("%d %.300s", status, answer)
	}
	if a := s.Settled()["a"]; a.Spent != 50_000_000 || a.USD != 0 {
		t.Errorf("the account is %+v", a)
	}
}

// When some of the pictures are missing, the others are charged, and the
// rewriting once.
func TestRewritingIsChargedOnceForSomeOfThePictures(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) > 1 {
			http.Error(w, `{"error":{"message":"out of paint"}}`, http.StatusInternalServerError)
			return
		}
		one := `{"b64_json":"` + base64.StdEncoding.EncodeToString(painting(512, 512)) + `"}`
		_, _ = io.WriteString(w, `{"created":1,"data":[`+one+`,`+one+`]}`)
	}))
	t.Cleanup(half.Close)
	s := startWritingStudio(t, "1", "%[1]s", half.URL+"/v1")
	var native struct{ Images [][]byte }
	status, header, answer := s.Post("/image/generate", s.key,
		`{"model":"pixels","prompt":"x","enhance_prompt":true,"format":"png","variants":4}`)
	if err := json.Unmarshal(answer, &native); err != nil || status != 200 || len(native.Images) != 2 ||
		header.Get("X-Svc-Enhanced-Prompt") == "" {
		t.Fatalf("%d with %d pictures: %.300s", status, len(native.Images), answer)
	}
	if got := s.spent(); got != 20_000_000+rewrite {
		t.Errorf("two of four pictures cost %s", got)
	}
}

// Usage entries name the rewriting as a line of its own.
func TestReportsShowRewriting(t *testing.T) {
	t.Parallel()
	s := startWritingStudio(t, "10")
	if status, _, answer := s.Post("/image/generate", s.key,
		`{"model":"tiers","prompt":"x","num_images":2,"enable_web_search":true,"enhance_prompt":true,"format":"png","quality":"low"}`); status != 200 {
		t.Fatalf("%d %.300s", status, answer)
	}
	s.Settled()
	admin := s.Key("a", "--type", "ADMIN")
	_, _, answer := s.Get("/billing/usage", admin)
	var usage struct {
		Data []struct {
			SKU                            string
			Units, PricePerUnitUSD, Amount json.Number
		}
	}
	want := map[string]string{"tiers-image-unit": "2 0.02 -0.04", "tiers-image-search-unit": "1 0.001 -0.001",
		"tiers-image-enhancement-unit": "1 0.04 -0.04"}
	if err := json.Unmarshal(answer, &usage); err != nil || len(usage.Data) != len(want) {
		t.Fatalf("%v %s", err, answer)
	}
	for _, e := range usage.Data {
		if got := fmt.Sprint(e.Units, " ", e.PricePerUnitUSD, " ", e.Amount); got != want[e.SKU] {
			t.Errorf("%s: %s, want %s", e.SKU, got, want[e.SKU])
		}
	}
	if got := s.spent(); got != 81_000_000 {
		t.Errorf("spent %s", got)
	}
	_, _, answer = s.Get("/billing/usage-analytics", admin)
	if !strings.Contains(string(answer), `"totalUnits":2`) {
		t.Errorf("%s", answer)
	}
}

// Only models that say so let clients turn the reasoning off; the request of the text
// model has it off, and so has that of an upstream of our own kind.
func TestRewritingWithoutReasoning(t *testing.T) {
	t.Parallel()
	s := startWritingStudio(t, "10")
	status, _, answer := s.Post(
		"/image/generate", s.key, `{"model":"pixels","prompt":"x","disable_prompt_optimization_thinking":true}`)
	checkRefusal(t, &imageRefusal{status: 400, code: "INVALID_REQUEST", field: "disable_prompt_optimization_thinking",
		words: []string{"does not support"}}, status, answer)
	if status, _, answer := s.Post("/image/generate", s.key,
		`{"model":"pixels","prompt":"x","disable_prompt_optimization_thinking":false,"format":"png"}`); status != 200 {
		t.Errorf("%d %.300s", status, answer)
	}
	if status, header, answer := s.Post("/image/generate", s.key,
		`{"model":"simulated-pixels","prompt":"x","enhance_prompt":true,"disable_prompt_optimization_thinking":true,"format":"png"}`); status != 200 || header.Get("X-Svc-Enhanced-Prompt") == "" {
		t.Fatalf("%d %v %.300s", status, header, answer)
	}
	if q := s.scribe.last(); q.Effort != "none" {
		t.Errorf("the text model was asked with the effort %q", q.Effort)
	}
	_, _, answer = s.Get("/models?type=image", s.key)
	if !strings.Contains(string(answer), `"supportsOptimizePromptThinking":true`) {
		t.Errorf("the catalog does not say so: %s", answer)
	}
}
