package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Web3Path is where wallets make keys.
const Web3Path = "/api_keys/generate_web3_key"

// Client is the HTTP client of the tests.
var Client = &http.Client{Timeout: CallLimit}

// Post sends a JSON body to a path of the API (such as /chat/completions) with
// a key ("" for none) and reads the whole answer.
func (g *Gateway) Post(path, key, body string) (status int, header http.Header, answer []byte) {
	g.T.Helper()
	return g.call(http.MethodPost, path, key, body)
}

// Get reads a path of the API.
func (g *Gateway) Get(path, key string) (status int, header http.Header, answer []byte) {
	g.T.Helper()
	return g.call(http.MethodGet, path, key, "")
}

func (g *Gateway) call(method, path, key, body string) (int, http.Header, []byte) {
	g.T.Helper()
	res := g.Open(method, path, key, body)
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		g.T.Fatalf("cannot read the answer of %s %s: %v", method, path, err)
	}
	return res.StatusCode, res.Header, answer
}

// Must calls an operation and decodes its answer, which must have the status.
func (g *Gateway) Must(status int, method, path, key, body string, into any) []byte {
	g.T.Helper()
	got, _, answer := g.call(method, path, key, body)
	if got != status {
		g.T.Errorf("%s %s %s is answered %d %s, not %d", method, path, body, got, answer, status)
		return answer
	}
	if into != nil {
		if err := json.Unmarshal(answer, into); err != nil {
			g.T.Fatalf("%s %s: cannot read %s: %v", method, path, answer, err)
		}
	}
	return answer
}

// Open sends a request and leaves the answer's body to the caller.
func (g *Gateway) Open(method, path, key, body string) *http.Response {
	g.T.Helper()
	req, err := http.NewRequest(method, g.URL+path, strings.NewReader(body))
	if err != nil {
		g.T.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := Client.Do(req)
	if err != nil {
		g.T.Fatalf("cannot call %s %s: %v", method, path, err)
	}
	return res
}

// Try posts a JSON body with a key, and further headers as names and values,
// where the connection may break: err says so.
func Try(c *http.Client, url, key, body string, headers ...string) (
	status int, header http.Header, answer string, err error,
) {
	return try(context.Background(), c, url, key, body, headers...)
}

// Leave is Try by a client that goes away once the request has arrived.
func (g *Gateway) Leave(path, key, body string, arrived func() bool, headers ...string) {
	g.T.Helper()
	ctx, leave := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, _, _, err := try(ctx, Client, g.URL+path, key, body, headers...)
		done <- err
	}()
	defer leave()
	Await(g.T, "the request arrives", arrived)
	leave()
	if err := <-done; err == nil {
		g.T.Error("the request was answered before its client left")
	}
}

func try(ctx context.Context, c *http.Client, url, key, body string, headers ...string) (int, http.Header, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(text), err
}

// WithKey posts with an idempotency key.
func (g *Gateway) WithKey(path, key, idempotency, body string) (status int, header http.Header, answer string) {
	g.T.Helper()
	status, header, answer, err := Try(Client, g.URL+path, key, body, "Idempotency-Key", idempotency)
	if err != nil {
		g.T.Fatalf("%s with key %s: %v", path, idempotency, err)
	}
	return status, header, answer
}

// Ask is a chat request with one message; more are further members, after a comma.
func Ask(model, text, more string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, model, text, more)
}

// Last is the end of a long text.
func Last(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// ReadAll reads and closes an answer.
func ReadAll(t *testing.T, res *http.Response) string {
	t.Helper()
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("cannot read an answer: %v", err)
	}
	return string(raw)
}
