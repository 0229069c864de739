package chat

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// do sends a request with headers, without a body.
func do(t *testing.T, method, url string, headers map[string]string, body string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// Every fetch of a page failed, preflights with 401 or 405, and no answer named
// an origin.
func TestPagesOfAllowedOriginsMayCall(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)+
		"cors: { origins: [https://app.example.com, loopback] }\n")
	g.NewAccount("a", "1")
	key := g.Key("a")
	for origin, allowed := range map[string]bool{
		"https://app.example.com": true, "http://localhost:3000": true, "http://127.0.0.1:5173": true,
		"https://app.example.com.evil.org": false, "http://localhost.evil.org": false,
		"http://localhost@evil.org": false, "null": false,
	} {
		status, h, _ := do(t, "OPTIONS", g.URL+"/chat/completions", map[string]string{
			"Origin": origin, "Access-Control-Request-Method": "POST",
			"Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
		}, "")
		if ok := status == 204 && h.Get("Access-Control-Allow-Origin") == origin &&
			strings.Contains(h.Get("Access-Control-Allow-Headers"), "x-stainless-lang") &&
			strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST"); ok != allowed {
			t.Errorf("the preflight of %s: %d %v", origin, status, h)
		}
		for _, more := range []string{"", `,"stream":true`} {
			status, h, _ = do(t, "POST", g.URL+"/chat/completions",
				map[string]string{"Origin": origin, "Authorization": "Bearer " + key,
					"Content-Type": "application/json"}, rig.Ask("sim-chat", "Hello", more))
			if ok := h.Get("Access-Control-Allow-Origin") == origin; status != 200 || ok != allowed || allowed &&
				!strings.Contains(h.Get("Access-Control-Expose-Headers"), "Retry-After") {
				t.Errorf("a call of %s: %d %v", origin, status, h)
			}
		}
		if _, h, _ = do(t, "POST", g.URL+"/chat/completions", map[string]string{"Origin": origin},
			"{}"); (h.Get("Access-Control-Allow-Origin") == origin) != allowed {
			t.Errorf("a page of %s cannot read its refusal: %v", origin, h)
		}
	}
	off := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	if _, h, _ := do(t, "GET", off.URL+"/crypto/rpc/networks", map[string]string{"Origin": "https://app.example.com"},
		""); h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without cors in the config: %v", h)
	}
}

// Small things that clients and probes stumble over.
func TestAnswersThatToolsExpect(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "1")
	key := g.Key("a")
	auth := map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json"}
	if status, h, _ := do(t, "GET", g.URL+"/chat/completions", auth, ""); status != 405 || h.Get("Allow") != "OPTIONS, POST" {
		t.Errorf("a wrong method: %d, Allow %q", status, h.Get("Allow"))
	}
	for _, probe := range []string{"/healthz", "/readyz"} {
		if status, _, _ := do(t, "HEAD", g.Origin+probe, nil, ""); status != 200 {
			t.Errorf("HEAD %s: %d", probe, status)
		}
	}
	if status, h, _ := do(t, "GET", g.URL+"/models", nil, ""); status != 401 || h.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("without a key: %d %v", status, h)
	}
	if _, _, text := do(t, "POST", g.URL+"/chat/completions", auth, rig.Ask("<b>&", "x", "")); !strings.Contains(text,
		"Unknown model <b>&") {
		t.Errorf("the message is %s", text)
	}
	if _, _, text := do(t, "POST", g.URL+"/chat/completions",
		map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json",
			"X-Stainless-Lang": "js"}, rig.Ask("nobody", "x", "")); !strings.HasPrefix(text,
		`{"error":{"message":"Unknown model`) {
		t.Errorf("OpenAI's package in a page gets %s", text)
	}
}

// SDKs ask for a single model; keys for private models saw others in the list.
func TestModelsAreThoseThatTheKeyMayUse(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)+`  - id: vendor/open
    privacy: anonymized
    context_tokens: 8192
    aliases: [other-name]
    price: free
    targets: [{ upstream: only }]
`)
	g.NewAccount("a", "1")
	admin, all := g.Key("a", "--type", "ADMIN"), g.Key("a")
	var made struct {
		Data struct {
			APIKey string `json:"apiKey"`
		} `json:"data"`
	}
	g.Must(200, "POST", "/api_keys", admin, `{"description":"private","modelPrivacy":"PRIVATE_ONLY"}`, &made)
	for key, sees := range map[string]bool{all: true, made.Data.APIKey: false} {
		_, _, list := g.Get("/models", key)
		if strings.Contains(string(list), `"vendor/open"`) != sees || !strings.Contains(string(list), `"sim-chat"`) {
			t.Errorf("sees it %v: the list is %s", sees, list)
		}
		for _, name := range []string{"vendor/open", "other-name"} {
			if status, _, record := g.Get("/models/"+name, key); (status == 200) != sees || sees &&
				!strings.HasPrefix(string(record), `{"id":"vendor/open","object":"model"`) {
				t.Errorf("sees it %v: GET /models/%s is %d %s", sees, name, status, record)
			}
		}
	}
	if status, _, answer := g.Get("/models/nobody", all); status != 404 ||
		!strings.Contains(string(answer), "MODEL_NOT_FOUND") {
		t.Errorf("%d %s", status, answer)
	}
	// "accessPermitted: true" for a key that gets 402.
	tight := g.Key("a", "--limit-usd", "0.00005")
	for range 5 {
		g.Post("/chat/completions", tight, rig.Ask("sim-chat", "Hello", `,"max_completion_tokens":20`))
	}
	g.Settled()
	var limits struct {
		Data struct {
			AccessPermitted bool `json:"accessPermitted"`
			Windows         map[string]struct{ Used int64 }
		}
	}
	if status, _, _ := g.Post("/chat/completions", tight, rig.Ask("sim-chat", "Hello",
		`,"max_completion_tokens":20`)); status == 402 {
		g.Must(200, "GET", "/api_keys/rate_limits", tight, "", &limits)
		w := limits.Data.Windows
		if w["hour"].Used > w["day"].Used || w["minute"].Used > w["hour"].Used || w["day"].Used > w["month"].Used {
			t.Errorf("the windows are %+v", w)
		}
	} else {
		t.Errorf("the limit lets all through: %d", status)
	}
}
