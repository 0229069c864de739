package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// start runs a server for one test and gives its root URL.
func start(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	s := New(o)
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, strings.TrimSuffix(url, "/v1")
}

type reply struct {
	status int
	header http.Header
	body   []byte
	err    error // of reading the body
}

func post(t *testing.T, url, body string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: b, err: err}
}

// openBench asks a measured path and leaves the answer to the caller: it may be
// too large to be held.
func openBench(t *testing.T, url string, body []byte) *http.Response {
	t.Helper()
	res, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// askBench is openBench for an answer in JSON.
func askBench(t *testing.T, url string, body []byte, into any) {
	t.Helper()
	res := openBench(t, url, body)
	if err := json.NewDecoder(res.Body).Decode(into); err != nil || res.StatusCode != 200 {
		t.Fatalf("%s: answered %d, %v", url, res.StatusCode, err)
	}
}

func chatBody(model, text string, more ...string) string {
	content, _ := json.Marshal(text)
	body := `{"model":"` + model + `","messages":[{"role":"user","content":` + string(content) + `}]`
	for _, m := range more {
		body += "," + m
	}
	return body + "}"
}

// events are the data lines of a stream, and whether [DONE] came.
func events(t *testing.T, body []byte) (list []gjson.Result, done bool) {
	t.Helper()
	body = bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
	for _, block := range bytes.Split(body, []byte("\n\n")) {
		for _, line := range bytes.Split(block, []byte("\n")) {
			data, ok := bytes.CutPrefix(line, []byte("data: "))
			switch {
			case !ok:
			case string(data) == "[DONE]":
				done = true
			case !gjson.ValidBytes(data):
				t.Errorf("not JSON: %q", data)
			default:
				list = append(list, gjson.ParseBytes(data))
			}
		}
	}
	return list, done
}

// said is the joined content of a stream, and the number of deltas in it.
func said(list []gjson.Result) (text string, deltas int) {
	for _, e := range list {
		if c := e.Get("choices.0.delta.content").Str; c != "" {
			text += c
			deltas++
		}
	}
	return text, deltas
}

func settled(t *testing.T, s *Server) Stats {
	t.Helper()
	if !s.WaitIdle(5 * time.Second) {
		t.Fatal("requests are still open")
	}
	return s.Stats()
}
