package clients

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// Refusals and failures as openai-go sees them.

func (g *goClient) errors(t *testing.T) {
	chat := func(key string, change func(*openai.ChatCompletionNewParams), options ...option.RequestOption) error {
		client := g.openAI(key)
		params := g.ask("Say something.", "tokens=2")
		change(&params)
		_, err := client.Chat.Completions.New(t.Context(), params, options...)
		return err
	}
	same := func(*openai.ChatCompletionNewParams) {}
	f := func(name string, err error, status int, code, says string) {
		t.Helper()
		failed := refusal(t, err, status)
		if failed == nil {
			return
		}
		if code != "" && failed.Code != code {
			t.Errorf("%s: code %q, expected %q", name, failed.Code, code)
		}
		if !strings.Contains(string(failed.DumpResponse(true)), says) {
			t.Errorf("%s: nothing says %q: %s", name, says, failed.DumpResponse(true))
		}
		if failed.Message == "" || failed.Type == "" {
			t.Errorf("%s: message %q, type %q", name, failed.Message, failed.Type)
		}
	}
	f("temperature out of range", chat(g.rich, func(p *openai.ChatCompletionNewParams) {
		p.Temperature = openai.Float(3)
	}), 400, "", `"maximum":2`)
	f("max_tokens", chat(g.rich, func(p *openai.ChatCompletionNewParams) { p.MaxTokens = openai.Int(5) }), 400, "",
		"max_completion_tokens")
	f("no messages", chat(g.rich, func(p *openai.ChatCompletionNewParams) {
		p.Messages = []openai.ChatCompletionMessageParamUnion{}
	}), 400, "", "messages")
	f("tools on a plain model", chat(g.rich, func(p *openai.ChatCompletionNewParams) {
		p.Model, p.Tools = "sim-plain",
			twoTools()
	}), 400, "", "tool")
	f("too long for the model", chat(g.rich, func(p *openai.ChatCompletionNewParams) {
		p.Messages = g.ask("Hm.", "status=400 kind=context").Messages
	}), 400, "context_length_exceeded", "context length")
	f("unknown key", chat("SVC_INFERENCE_KEY_unknown", same), 401, "AUTHENTICATION_FAILED", "")
	f("no key", chat("x", same, option.WithHeaderDel("Authorization")), 401, "AUTHENTICATION_FAILED", "")
	f("no money", chat(g.poor, same), 402, "INSUFFICIENT_BALANCE", "balance")
	f("unknown model", chat(g.rich, func(p *openai.ChatCompletionNewParams) { p.Model = "no-such-model" }), 404, "",
		"no-such-model")

	client := g.openAI(g.poor)
	stream := client.Chat.Completions.NewStreaming(t.Context(), g.ask("Say something.", ""))
	if stream.Next() {
		t.Error("an account without money got a stream")
	}
	f("no money for a stream", stream.Err(), 402, "INSUFFICIENT_BALANCE", "balance")
}

func (g *goClient) limited(t *testing.T) {
	client := g.openAI(g.tight)
	params := g.ask("Once more.", "tokens=2")
	params.Model = "sim-scarce"
	for left := 1; left >= 0; left-- {
		var res *http.Response
		if _, err := client.Chat.Completions.New(t.Context(), params, option.WithResponseInto(&res)); err != nil {
			t.Fatalf("a request within the limit failed: %v%s", err, detailOf(err))
		}
		if got := res.Header.Get("x-ratelimit-remaining-requests"); got != strconv.Itoa(left) ||
			res.Header.Get("x-ratelimit-limit-requests") != "2" {
			t.Errorf("remaining %q, limit %q; expected %d of 2", got, res.Header.Get("x-ratelimit-limit-requests"),
				left)
		}
	}
	_, err := client.Chat.Completions.New(t.Context(), params)
	failed := refusal(t, err, 429)
	if failed == nil {
		return
	}
	if wait, err := strconv.Atoi(failed.Response.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 60 {
		t.Errorf("Retry-After %q", failed.Response.Header.Get("Retry-After"))
	}
	if failed.Code != "RATE_LIMIT_EXCEEDED" {
		t.Errorf("code %q", failed.Code)
	}
}

var requestIDPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

// refusal is the typed error in err, which must have this status (0: any).
func refusal(t *testing.T, err error, status int) *openai.Error {
	t.Helper()
	var failed *openai.Error
	if !errors.As(err, &failed) {
		t.Errorf("expected an API error with status %d, got %T: %v", status, err, err)
		return nil
	}
	if status != 0 && failed.StatusCode != status {
		t.Errorf("status %d, expected %d%s", failed.StatusCode, status, detailOf(err))
	}
	if !requestIDPattern.MatchString(failed.Response.Header.Get("X-Request-Id")) {
		t.Errorf("request id %q in an error", failed.Response.Header.Get("X-Request-Id"))
	}
	discreet(t, string(failed.DumpResponse(true)))
	return failed
}

func detailOf(err error) string {
	var failed *openai.Error
	if errors.As(err, &failed) {
		return "\n" + string(failed.DumpResponse(true))
	}
	return ""
}

// discreet asserts that nothing of the upstream's inside reached the client.
func discreet(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{"org-simsecret0001", "sk-simsecret", "upstream-key", "backend-7",
		"internal.simulated", "simulated.example"} {
		if strings.Contains(text, secret) {
			t.Errorf("the upstream's %s reached the client: %s", secret, text)
		}
	}
}
