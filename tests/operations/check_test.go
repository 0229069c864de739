package operations

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// A wrong key, a base_url without /v1 and a dead host were one and the same 503 to the
// first customer, and nothing warned the operator before.
func TestCheckOnlineNamesTheFaultOfEachUpstream(t *testing.T) {
	t.Parallel()
	const secret = "sk-hunter2-of-the-operator"
	good := rig.StartUpstream(t, upstream.Options{Key: secret})
	answering := func(h http.HandlerFunc) *httptest.Server {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s
	}
	refusing := answering(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(401)
		fmt.Fprintf(w, `{"error":{"message":"no such key: %s"}}`,
			strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	})
	unlisted := answering(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" || r.URL.Path != "/v1/chat/completions" {
			w.WriteHeader(404)
			return
		}
		w.WriteHeader(400)
	})
	below := answering(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			w.WriteHeader(404)
		}
	})
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	// One closes the connection, the other resets it once it has been asked.
	mute, resetting := rig.StartRaw(t, rig.Sends("")), rig.StartRaw(t, rig.Resets(""))

	check := func(urls ...string) (string, error) {
		var text strings.Builder
		text.WriteString("upstreams:\n")
		for i, url := range urls {
			fmt.Fprintf(&text, "  - { name: up%d, base_url: %q, key: %s }\n", i, url, secret)
		}
		text.WriteString("models: [{ id: chat, context_tokens: 8192, price: free, targets: [{ upstream: up0 }] }]\n")
		file := filepath.Join(t.TempDir(), "farebox.yaml")
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := rig.RunIn(t, filepath.Dir(file), "check", "--online", "-c", file)
		if strings.Contains(out, "hunter2") {
			t.Errorf("the key is shown:\n%s", out)
		}
		return out, err
	}

	if out, err := check(good.URL, unlisted.URL+"/v1"); err != nil || !strings.Contains(out, "up0: good (200)") ||
		!strings.Contains(out, "up1: answers (400") {
		t.Errorf("good upstreams: %v\n%s", err, out)
	}
	out, err := check(good.URL, refusing.URL+"/v1", below.URL, unlisted.URL, "http://"+rig.FreeAddr(t), secure.URL,
		"https://"+strings.TrimPrefix(below.URL, "http://"), mute.URL, resetting.URL, "http://nobody.invalid/v1")
	if rig.ExitCode(err) != 1 || !strings.Contains(out, "9 of 10 upstreams") {
		t.Errorf("exit %d:\n%s", rig.ExitCode(err), out)
	}
	for i, want := range []string{
		"good (200)", "the key is wrong or missing (401)", "expected base_url: " + below.URL + "/v1",
		"base_url has no API", "is refused",
		"certificate is not trusted", "does not speak TLS", "closes the connection", "closes the connection",
		"cannot be resolved",
	} {
		if line, _, _ := strings.Cut(out[strings.Index(out, fmt.Sprintf("up%d:", i)):], "\n"); !strings.Contains(line,
			want) {
			t.Errorf("%q instead of %q", line, want)
		}
	}
	if asked := good.Stats().Endpoints; asked["models"].Requests != 2 || len(asked) != 1 {
		t.Errorf("asking came to more than the list of models: %+v", asked)
	}
}
