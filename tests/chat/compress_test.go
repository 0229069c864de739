package chat

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	brotli "github.com/molecule-man/go-brrr"

	"farebox/tests/rig"
)

// unpack reads a body to its end in the coding that its head names.
func unpack(res *http.Response) (string, error) {
	defer func() { _ = res.Body.Close() }()
	var body io.Reader = res.Body
	switch coding := res.Header.Get("Content-Encoding"); coding {
	case "":
	case "gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return "", err
		}
		body = z
	case "br":
		body = brotli.NewReader(body)
	default:
		return "", fmt.Errorf("unknown coding %q", coding)
	}
	all, err := io.ReadAll(body)
	return string(all), err
}

// Answers too large to buffer were sent uncompressed to clients that accept compression. Unpacked,
// they equal the uncompressed answer, a broken answer does not look whole, and streams stay
// unchanged.
func TestLargeAnswersWereNotCompressed(t *testing.T) {
	t.Parallel()
	var fixed strings.Builder // an answer that is the same each time, and not all alike
	for i := range 40000 {
		fmt.Fprintf(&fixed, "%x ", uint32(i)*2654435761>>uint(i%20))
	}
	answer := func(length int) string {
		return `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"sim-chat","choices":[{"index":0,"message":{"role":"assistant","content":"` +
			fixed.String()[:length] +
			`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":9,"total_tokens":14}}`
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, ask, _ := strings.Cut(string(body), "give ")
		length, _ := strconv.Atoi(ask[:6])
		text := answer(length)
		switch {
		case strings.Contains(string(body), "then break"):
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			text = text[:len(text)*3/4]
		case strings.Contains(string(body), `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w,
				"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
			return
		case strings.Contains(r.URL.Path, "embeddings"):
			text = `{"object":"list","model":"sim-embedding","data":[{"object":"embedding","index":0,"embedding":"` +
				fixed.String()[:length] + `"}],"usage":{"prompt_tokens":5,"total_tokens":5}}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	g := rig.StartGateway(t, fmt.Sprintf(strings.Replace(rig.ClientsConfig, "max_completion_tokens: 16384",
		"max_completion_tokens: 120000", 1), s.URL, s.URL))
	g.NewAccount("a", "100")
	key := g.Key("a")
	try := func(path, body, accept string) (*http.Response, error) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, g.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Accept-Encoding", accept)
		return rig.Client.Do(req)
	}
	ask := func(path, body, accept string) *http.Response {
		t.Helper()
		res, err := try(path, body, accept)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%v %v", res, err)
		}
		return res
	}
	chat := func(length, more string) string {
		return fmt.Sprintf(`{"model":"sim-chat","max_completion_tokens":100000,"messages":[{"role":"user","content":"give %s"}]%s}`, length, more)
	}
	for _, c := range []struct{ name, path, body string }{
		{"chat of 130 KB", "/chat/completions", chat("130000 letters", "")},
		{"chat of 65 KB", "/chat/completions", chat("065000 letters", "")},
		{"chat of 8 KB", "/chat/completions", chat("008000 letters", "")},
		{"embeddings of 100 KB", "/embeddings", `{"model":"sim-embedding","input":"give 100000 letters"}`},
	} {
		plain, err := unpack(ask(c.path, c.body, "identity"))
		if err != nil || len(plain) < 4000 {
			t.Fatalf("%s: %d bytes, %v", c.name, len(plain), err)
		}
		for accept, want := range map[string]string{"gzip, deflate, br": "gzip", "br": "br",
			"gzip;q=0.5, br;q=0.8": "br", "gzip;q=0": ""} {
			res := ask(c.path, c.body, accept)
			if got := res.Header.Get("Content-Encoding"); got != want {
				t.Errorf("%s, %s: Content-Encoding %q", c.name, accept, got)
			}
			if got := res.Header.Get("Vary"); want != "" && got != "Accept-Encoding" {
				t.Errorf("%s, %s: Vary %q", c.name, accept, got)
			}
			if want != "" && len(plain) > 64<<10 && res.ContentLength >= 0 {
				t.Errorf("%s, %s: Content-Length %d of an answer that is compressed while it is sent", c.name, accept,
					res.ContentLength)
			}
			count := &counter{Reader: res.Body}
			res.Body = struct {
				io.Reader
				io.Closer
			}{count, res.Body}
			body, err := unpack(res)
			if err != nil || body != plain {
				t.Errorf("%s, %s: %d bytes came through of %d, %v", c.name, accept, len(body), len(plain), err)
			}
			if want != "" && count.n > len(plain)*4/5 {
				t.Errorf("%s, %s: %d bytes on the wire of %d", c.name, accept, count.n, len(plain))
			}
			if want != "" {
				t.Logf("%s, %s: %d bytes of %d", c.name, want, count.n, len(plain))
			}
		}
	}
	for _, accept := range []string{"gzip", "br"} {
		// The client may have received no byte of a compressed answer when it breaks off.
		if broken, err := try("/chat/completions", chat("130000 letters, then break", ""), accept); err == nil {
			if body, err := unpack(broken); err == nil {
				t.Errorf("%s: an answer that broke off is %d bytes without an error", accept, len(body))
			}
		}
		res := ask("/chat/completions", chat("000001 letter", `,"stream":true`), accept)
		if body, err := unpack(res); err != nil || res.Header.Get("Content-Encoding") != "" ||
			!strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("a stream is answered with %v, %v", res.Header, err)
		}
	}
}

type counter struct {
	io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}
