package chat

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

const geminiHostileConfig = `
log: { level: error }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: google, dialect: gemini, base_url: %[1]q, key: k, breaker: { failures: 0 } }
models:
  - id: m
    tier: unlimited
    context_tokens: 100000
    max_completion_tokens: 100
    capabilities: { tools: true, video: true }
    price: { input: 1, output: 2 }
    targets: [{ upstream: google, model: gemini-2.5-flash }]
`

// geminiEvil are answers of ill will, as the one event of a stream or the whole body.
var geminiEvil = map[string]string{
	"huge counts": `{"candidates": [{"content": {"parts": [{"text": "a"}]},"finishReason": "STOP"}],"usageMetadata": ` +
		`{"promptTokenCount": 9223372036854775807,"candidatesTokenCount": 1e300,"thoughtsTokenCount": 99999999999999999999999,` +
		`"toolUsePromptTokenCount": 1e18,"totalTokenCount": 1e308}}`,
	"counts below zero": `{"candidates": [{"content": {"parts": [{"text": "a"}]},"finishReason": "STOP"}],"usageMetadata": ` +
		`{"promptTokenCount": -9,"candidatesTokenCount": -9223372036854775808,"cachedContentTokenCount": 1e300}}`,
	"10,000 candidates": `{"candidates": [` + strings.Repeat(`{"content": {"parts": [{"text": "a"}]},"index": 0},`, 9_999) +
		`{"content": {"parts": [{"text": "a"}]},"finishReason": "STOP"}],"usageMetadata": {"promptTokenCount": 5,` +
		`"candidatesTokenCount": 10000}}`,
	"deep nesting": `{"candidates": [{"content": {"parts": [{"functionCall": {"name": "f","args": ` +
		strings.Repeat(`{"a":`, 50_000) + `1` + strings.Repeat(`}`, 50_000) + `}}]},"finishReason": "STOP"}]}`,
	"no end of nesting": `{"candidates": ` + strings.Repeat("[", 100_000),
	"no UTF-8":          `{"candidates": [{"content": {"parts": [{"text": "` + "\xff\xfe\xc0" + `"}]},"finishReason": "STOP"}]}`,
	"members twice": `{"candidates": [{"content": {"parts": [{"text": "a","text": "b"}]},"finishReason": "STOP"}],"candidates": [],` +
		`"usageMetadata": {"promptTokenCount": 5},"usageMetadata": {"promptTokenCount": 1e18}}`,
	"a name of 1 MB": `{"candidates": [{"content": {"parts": [{"functionCall": {"name": "` + strings.Repeat("n", 1<<20) +
		`"}}]},"finishReason": "STOP"}]}`,
	"a title of 1 MB, cited 10,000 times": `{"candidates": [{"content": {"parts": [{"text": "a"}]},"finishReason": "STOP",` +
		`"groundingMetadata": {"groundingChunks": [{"web": {"uri": "https://x","title": "` + strings.Repeat("t", 1<<20) +
		`"}}],"groundingSupports": [{"segment": {"endIndex": 1},"groundingChunkIndices": [` + strings.Repeat("0,", 10_000) + `0]}]}}]}`,
	"nothing":        `{}`,
	"other kinds":    `{"candidates": {"0": 1},"usageMetadata": [],"promptFeedback": 7,"error": "x","responseId": 5}`,
	"an empty error": `{"error": {}}`,
}

// Whatever a hostile upstream answers, no client pays more than the request allowed, no balance
// goes below zero, and the gateway goes on.
func TestGeminiUpstreamsOfIllWillCostNobody(t *testing.T) {
	t.Parallel()
	up := rig.StartRaw(t, rig.Sends(""))
	g := rig.StartGateway(t, fmt.Sprintf(geminiHostileConfig, strings.TrimSuffix(up.URL, "/v1")+"/v1beta"))
	g.NewAccount("a", "10")
	key := g.Key("a")
	spent := rig.Money(0)
	ask := func(name, more, answer string) (allowed rig.Money) {
		t.Helper()
		up.Answer(rig.Sends(answer))
		status, _, got := g.Post("/chat/completions", key, rig.Ask("m", "Hello", more))
		if len(got) > 3<<20 {
			t.Errorf("%s: %d bytes reached the client", name, len(got))
		}
		switch {
		case status == 200 && more != "" && !strings.HasSuffix(string(got), "data: [DONE]\n\n"):
			t.Errorf("%s: the stream has no end: %.300s", name, got)
		case status == 200:
			// The prompt has below 200 tokens by its bytes, and an upstream may add 512.
			return 700*1000 + 100*2000
		case status < 500 || !strings.Contains(string(got), "INFERENCE_FAILED"):
			t.Errorf("%s: %d %.300s", name, status, got)
		}
		return 0
	}
	for name, body := range geminiEvil {
		event := rig.SSEChunk("data: " + body + "\r\n\r\n")
		good := rig.SSEChunk(`data: {"candidates": [{"content": {"parts": [{"text": "four"}],"role": "model"}}]}` + "\r\n\r\n")
		allowed := ask(name, "", rig.HTTPAnswer(200, "application/json", body)) +
			ask(name+", streamed", `,"stream":true`, rig.SSEChunked+event+"0\r\n\r\n") +
			ask(name+", in mid-stream", `,"stream":true`, rig.SSEChunked+good+event+"0\r\n\r\n")
		after := g.Settled()["a"].Spent
		if cost := after - spent; cost < 0 || cost > allowed {
			t.Errorf("%s: charged %s, allowed are %s", name, cost, allowed)
		}
		spent = after
	}
	// An event of 64 MB, four times at once.
	up.Answer(func(c net.Conn, _ string) {
		_, _ = io.WriteString(c, rig.SSEChunked+rig.SSEChunk(`data: {"candidates": [{"content": {"parts": [{"text": "`))
		piece := rig.SSEChunk(strings.Repeat("y", 1<<20))
		for range 64 {
			if _, err := io.WriteString(c, piece); err != nil {
				return
			}
		}
		_, _ = io.WriteString(c, rig.SSEChunk("\"}]}}]}\n\n")+"0\r\n\r\n")
	})
	answers := make(chan []byte)
	for range 4 {
		go func() {
			var answer []byte
			defer func() { answers <- answer }() // also where the call ends the test
			_, _, answer = g.Post("/chat/completions", key, rig.Ask("m", "Hello", `,"stream":true`))
		}()
	}
	for range 4 {
		if answer := string(<-answers); len(answer) > 4096 || !strings.Contains(answer, `"error"`) {
			t.Errorf("an event of 64 MB: %d bytes, %.300s", len(answer), answer)
		}
	}
	// The race detector has memory of its own.
	if peak := peakMB(t, g.PID()); peak > 250 && !rig.RaceDetector() {
		t.Errorf("the gateway used %d MB", peak)
	}
	up.Answer(rig.Sends(rig.HTTPAnswer(200, "application/json",
		`{"candidates": [{"content": {"parts": [{"text": "four"}]},"finishReason": "STOP"}],"usageMetadata": {"promptTokenCount": 9,`+
			`"candidatesTokenCount": 1}}`)))
	spent = g.Settled()["a"].Spent
	if status, _, answer := g.Post("/chat/completions", key, rig.Ask("m", "Hello", "")); status != 200 ||
		g.Settled()["a"].Spent-spent != 9*1000+2000 {
		t.Errorf("afterwards: %d %s, charged %s", status, answer, g.Settled()["a"].Spent-spent)
	}
}

// peakMB is the most memory that a process has had; 0 where it cannot be read.
func peakMB(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	kb, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return kb >> 10
}

// A short file may hold a video of any length, so the whole context is held for it: an account that
// cannot pay for that is refused, and the usage of a truthful upstream is charged.
func TestGeminiVideosAreChargedAtTheirLength(t *testing.T) {
	t.Parallel()
	up := rig.StartRaw(t, rig.Sends(rig.HTTPAnswer(200, "application/json",
		`{"candidates": [{"content": {"parts": [{"text": "four"}]},"finishReason": "STOP"}],"usageMetadata": {"promptTokenCount": 90000,`+
			`"candidatesTokenCount": 1}}`)))
	g := rig.StartGateway(t, fmt.Sprintf(geminiHostileConfig, strings.TrimSuffix(up.URL, "/v1")+"/v1beta"))
	g.NewAccount("poor", "0.05")
	g.NewAccount("a", "10")
	ask := func(key string) int {
		status, _, _ := g.Post("/chat/completions", key, `{"model":"m","messages":[{"role":"user","content":[{"type":"video_url",`+
			`"video_url":{"url":"data:video/mp4;base64,AAAA"}}]}]}`)
		return status
	}
	if poor, other := ask(g.Key("poor")), ask(g.Key("a")); poor != 402 || other != 200 {
		t.Errorf("%d for an account that cannot pay for the context, %d for one that can", poor, other)
	}
	if books := g.Settled(); books["a"].Spent != 90_000*1000+2000 || books["poor"].Spent != 0 {
		t.Errorf("charged %s and %s", books["a"].Spent, books["poor"].Spent)
	}
}

// The key goes into its header, never into an address, which proxies write down.
func TestGeminiKeysAreInTheHeaderAlone(t *testing.T) {
	t.Parallel()
	const secret = "AIzaSimulatedSecret"
	sim := rig.StartUpstream(t, upstream.Options{Key: secret})
	g := rig.StartGateway(t, fmt.Sprintf(geminiConfig, sim.URL, secret))
	g.NewAccount("a", "1")
	key := g.Key("a")
	for _, more := range []string{"", `,"stream":true`} {
		if status, _, answer := g.Post("/chat/completions", key, rig.Ask("flash", "Hello", more)); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
		got := sim.Latest(t)
		line, headers, _ := strings.Cut(got.Head, "\r\n")
		if strings.Contains(line, "AIza") || strings.Contains(line, "key=") || strings.Count(got.Head, secret) != 1 ||
			!strings.Contains(strings.ToLower(headers), "x-goog-api-key: "+strings.ToLower(secret)) {
			t.Errorf("sent %s", got.Head)
		}
	}
}
