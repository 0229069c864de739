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

// Clients that know only /v1 reach every path, and clients of Gemini's own API get an error that
// says it is not supported.
func TestClientsOfOtherPathsAreServedOrTold(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	const config = `
upstreams:
  - { name: sim, base_url: "%s/v1" }
models:
  - { id: m, tier: unlimited, context_tokens: 8192, price: free, targets: [{ upstream: sim }] }
%s`
	g := rig.StartGateway(t, fmt.Sprintf(config, sim.URL, ""))
	off := rig.StartGateway(t, fmt.Sprintf(config, sim.URL, "compat: { v1_alias: false }"))
	g.NewAccount("a", "1")
	off.NewAccount("a", "1")
	keys := map[*rig.Gateway]string{g: g.Key("a"), off: off.Key("a")}
	const body = `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`
	for _, c := range []struct {
		gateway      *rig.Gateway
		method, path string
		status       int
		says         string
	}{
		{g, "POST", "/v1/chat/completions", 200, `"choices"`},
		{g, "GET", "/v1/models", 200, `"m"`},
		{g, "GET", "/v1/models/m", 200, `"m"`},
		{g, "POST", "/api/v1/chat/completions", 200, `"choices"`},
		{off, "POST", "/v1/chat/completions", 404, "Paths start with /api/v1/"},
		{off, "POST", "/api/v1/chat/completions", 200, `"choices"`},
		{g, "POST", "/v1beta/models/gemini-2.5-pro:generateContent", 404, "Gemini's own API is not spoken here"},
		{g, "POST", "/api/v1/v1beta/models/m:streamGenerateContent", 404, "Gemini's own API is not spoken here"},
		{g, "POST", "/v1/models/m:generateContent", 404, "Gemini's own API is not spoken here"},
		{g, "POST", "/v1/completions", 404, "/completions is not served here; send messages to /api/v1/chat/completions."},
		{g, "POST", "/api/v1/moderations", 404, "/moderations is not served here."},
		{g, "GET", "/v1/files/file_1", 404, "/files is not served here."},
		{g, "POST", "/v1/images/variations", 404, "/images/variations is not served here; send the picture with a prompt to /api/v1/images/edits."},
		{g, "POST", "/v1/audio/translations", 404, "/audio/translations is not served here; use /api/v1/audio/transcriptions, and a chat to translate."},
		{g, "GET", "/v1/videos/video_1", 404, "/videos is not served here; use /api/v1/video/queue."},
		{g, "POST", "/v2/models", 404, "Paths start with /api/v1/"},
	} {
		req, err := http.NewRequest(c.method, c.gateway.Origin+c.path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+keys[c.gateway])
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		status := res.StatusCode
		if status != c.status || !strings.Contains(string(answer), c.says) {
			t.Errorf("%s %s is answered %d %.200s, not %d with %s", c.method, c.path, status, answer, c.status, c.says)
		}
	}
}
