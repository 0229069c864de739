package upstream

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

func stream(text string) string {
	return chatBody("sim-chat", text, `"stream":true`, `"max_completion_tokens":12`,
		`"stream_options":{"include_usage":true}`)
}

func TestSplitsDoNotChangeTheAnswer(t *testing.T) {
	s, url := start(t, Options{})
	for _, how := range []string{"split=utf8 unicode=1", "split=byte unicode=1", "split=crlf crlf=1", "split=crlf",
		"split=frame unicode=1", "chunk=7", "chunk=3 crlf=1 comments=1", "events_per_write=5", "comments=1"} {
		s.Reset()
		r := post(t, url+"/v1/chat/completions", stream("hi"), "X-Sim", how)
		list, done := events(t, r.body)
		text, _ := said(list)
		if r.err != nil || !done || CountText(text) != 12 {
			t.Errorf("%s: err %v, done %v, %d tokens", how, r.err, done, CountText(text))
		}
		if got := settled(t, s).Tokens.CompletionTokens; got != 12 {
			t.Errorf("%s: truth says %d", how, got)
		}
	}
}

// chunks reads a chunked body off the wire and gives the chunks as sent.
func chunks(t *testing.T, url, body, sim string) [][]byte {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	req, _ := http.NewRequest("POST", url+"/v1/chat/completions", strings.NewReader(body))
	req.Header.Set("X-Sim", sim)
	_ = req.Write(nc)
	br := bufio.NewReader(nc)
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\r\n" {
			break
		}
	}
	var out [][]byte
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, c := range strings.TrimSpace(line) {
			size = size<<4 | strings.IndexRune(hexDigits, c)
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(br, b); err != nil {
			t.Fatal(err)
		}
		if size == 0 {
			return out
		}
		out = append(out, b[:size])
	}
}

func TestSplitsFallWhereTheyHurt(t *testing.T) {
	_, url := start(t, Options{})
	inside := 0
	for _, c := range chunks(t, url, stream("hi"), "split=utf8 unicode=1") {
		if c[len(c)-1] >= 0xC0 {
			inside++ // ends with the first byte of a character
		}
	}
	if inside == 0 {
		t.Error("split=utf8 never cut inside a character")
	}
	inside = 0
	for _, c := range chunks(t, url, stream("hi"), "split=crlf crlf=1") {
		if c[len(c)-1] == '\r' {
			inside++
		}
	}
	if inside < 12 {
		t.Errorf("split=crlf cut %d line ends", inside)
	}
	if got := chunks(t, url, stream("hi"), "split=byte"); len(got[0]) != 1 {
		t.Error("split=byte sent more than a byte")
	}
}

func TestUsageModesReachTheWire(t *testing.T) {
	s, url := start(t, Options{})
	f := func(mode, path, want string) {
		t.Helper()
		r := post(t, url+"/v1/chat/completions", stream("hi [[sim usage="+mode+"]]"))
		list, _ := events(t, r.body)
		found := ""
		for _, e := range list {
			if v := e.Get(path); v.Exists() {
				found = v.Raw
			}
		}
		if found != want {
			t.Errorf("usage=%s: last %s is %q, want %q", mode, path, found, want)
		}
	}
	f("none", "usage", "")
	f("null", "usage", "null")
	f("late", "usage.completion_tokens", "12")
	f("choices0", "choices.0.usage.completion_tokens", "12")
	f("top", "usage.completion_tokens", "12")
	f("top", "usage.cached_tokens", "0")
	f("zero", "usage.total_tokens", "0")
	f("zerofirst", "usage.completion_tokens", "12")
	f("negative", "usage.completion_tokens", "-12")
	f("huge", "usage.completion_tokens", "9223372036854775807")
	f("every", "usage.completion_tokens", "12")
	if got := settled(t, s).Tokens; got.CompletionTokens != 12*got.Requests {
		t.Errorf("truth must not follow the reported usage: %+v", got)
	}
}

func TestCutStreamEndsWithoutItsTerminator(t *testing.T) {
	s, url := start(t, Options{})
	for _, how := range []string{"fin", "rst"} {
		s.Reset()
		r := post(t, url+"/v1/chat/completions", stream("hi [[sim cut="+how+" cut_after=5]]"))
		if r.err == nil {
			t.Errorf("cut=%s: the body ended properly", how)
		}
		if how == "fin" {
			list, done := events(t, r.body)
			if _, n := said(list); n != 5 || done {
				t.Errorf("%d deltas, done %v", n, done)
			}
		}
		if st := settled(t, s); st.Outcomes[Broken].CompletionTokens != 5 {
			t.Errorf("cut=%s: truth %+v", how, st.Outcomes)
		}
	}
}

func TestTruncatedBodyIsShorterThanItsLength(t *testing.T) {
	_, url := start(t, Options{})
	r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi [[sim truncate=1]]"))
	if r.err != io.ErrUnexpectedEOF {
		t.Errorf("reading gave %v", r.err)
	}
	if r := post(t, url+"/v1/chat/completions", stream("hi [[sim truncate=1]]")); r.err != io.ErrUnexpectedEOF {
		t.Errorf("stream: reading gave %v", r.err)
	}
}

func TestFirstRequestsFailThenItRecovers(t *testing.T) {
	s, url := start(t, Options{})
	var got []int
	for range 4 {
		got = append(got, post(t, url+"/v1/chat/completions",
			chatBody("sim-chat", "hi [[sim id=a fail_first=2 status=503]]")).status)
	}
	if got[0] != 503 || got[1] != 503 || got[2] != 200 || got[3] != 200 {
		t.Errorf("statuses %v", got)
	}
	st := settled(t, s)
	if st.Outcomes[Refused].Requests != 2 || st.Outcomes[Refused].PromptTokens != 0 ||
		st.Outcomes[Complete].Requests != 2 {
		t.Errorf("truth %+v", st.Outcomes)
	}
}

func TestErrorStatusesLookLikeTheRealOnes(t *testing.T) {
	_, url := start(t, Options{})
	r := post(t, url+"/v1/chat/completions", chatBody("sim-chat@limited", "hi"))
	if r.status != 429 || r.header.Get("Retry-After") != "1" ||
		gjson.GetBytes(r.body, "error.code").Str != "rate_limit_exceeded" {
		t.Errorf("429: %d %v %s", r.status, r.header, r.body)
	}
	r = post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi [[sim status=502]]"))
	if r.status != 502 || !strings.HasPrefix(string(r.body), "<html>") {
		t.Errorf("502: %s", r.body)
	}
	r = post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi [[sim status=400 kind=context]]"))
	if gjson.GetBytes(r.body, "error.code").Str != "context_length_exceeded" {
		t.Errorf("400: %s", r.body)
	}
	if r = post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi [[sim nonsense=1]]")); r.status != 400 ||
		!strings.Contains(string(r.body), "hold_after") {
		t.Errorf("an unknown key must be refused with the known ones: %s", r.body)
	}
}

func TestErrorEventEndsTheStreamWithoutDone(t *testing.T) {
	_, url := start(t, Options{})
	r := post(t, url+"/v1/chat/completions", stream("hi [[sim error_event=1 error_after=4]]"))
	list, done := events(t, r.body)
	_, n := said(list)
	if last := list[len(list)-1]; n != 4 || done || last.Get("error.code").Str != "model_overloaded" {
		t.Errorf("%d deltas, done %v, last %s", n, done, last.Raw)
	}
}

func TestBigAnswersHaveTheirSize(t *testing.T) {
	s, url := start(t, Options{})
	const size = 3 << 20
	r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi [[sim big=3145728]]"))
	text := gjson.GetBytes(r.body, "choices.0.message.content").Str
	if len(text) != size-1 || gjson.GetBytes(r.body, "usage.completion_tokens").Int() != size/4 {
		t.Errorf("%d bytes, usage %s", len(text), gjson.GetBytes(r.body, "usage").Raw)
	}
	if got := settled(t, s).Tokens.CompletionTokens; got != size/4 {
		t.Errorf("truth %d", got)
	}
}

func TestHeadersMisbehaveOnDemand(t *testing.T) {
	_, url := start(t, Options{})
	r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi"), "X-Sim", "encoding=gzip")
	zr, err := gzip.NewReader(bytes.NewReader(r.body))
	if err != nil || r.header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("gzip: %v %v", err, r.header)
	}
	if plain, err := io.ReadAll(zr); err != nil || !gjson.ValidBytes(plain) {
		t.Errorf("gzip: %v %s", err, plain)
	}
	if r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi"), "X-Sim", "interim=103"); r.status != 200 ||
		!gjson.ValidBytes(r.body) {
		t.Errorf("interim: %d %s", r.status, r.body)
	}
	if r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi"), "X-Sim", "dup_headers=1"); r.status !=
		200 || len(r.header.Values("Content-Type")) != 2 {
		t.Errorf("dup_headers: %d %v", r.status, r.header)
	}
	if r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi"), "X-Sim", "garbage=1"); r.err == nil {
		t.Error("garbage was read as HTTP")
	}
	if r := post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi"), "X-Sim", "close=1 slow_body=5"); r.err !=
		nil || !gjson.ValidBytes(r.body) {
		t.Errorf("close: %v %s", r.err, r.body)
	}
}

func TestFaultMixHitsItsShare(t *testing.T) {
	s, url := start(t, Options{Seed: 7, Faults: []Fault{{Share: 0.3, Scenario: "status=500"},
		{Share: 0.2, Scenario: "status=429"}}})
	for range 400 {
		post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi"))
	}
	st := settled(t, s)
	if n := st.Faults["status=500"].Requests; n < 90 || n > 150 {
		t.Errorf("status=500 hit %d of 400, want about 120", n)
	}
	if n := st.Faults["status=429"].Requests; n < 50 || n > 110 {
		t.Errorf("status=429 hit %d of 400, want about 80", n)
	}
}

func TestConnectionIsUsedAgainAfterEveryKindOfAnswer(t *testing.T) {
	s, url := start(t, Options{})
	client := &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second}
	for _, text := range []string{"hi", "hi [[sim status=429]]", "hi [[sim split=byte]]", "hi [[sim delay_ms=20]]"} {
		for _, body := range []string{chatBody("sim-chat", text), stream(text), chatBody("bench-1k", "x"),
			chatBody("bench-sse@tokens=3", "x", `"stream":true`)} {
			resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
	}
	if n := s.Stats().Accepted; n != 1 {
		t.Errorf("%d connections for one client", n)
	}
	client.CloseIdleConnections()
}

func TestRequestIsKeptByteForByte(t *testing.T) {
	s, url := start(t, Options{Keep: 2})
	body := `{ "model" : "sim-chat",  "messages":[{"role":"user","content":"é\u00e9"}], "x_vendor": 1e0 }`
	for range 3 {
		post(t, url+"/v1/chat/completions", body, "X-Odd", "kept")
	}
	settled(t, s)
	last := s.Last()
	if len(last) != 2 || string(last[1].Body) != body || !strings.Contains(last[1].Head, "X-Odd: kept\r\n") {
		t.Errorf("kept %+v", last)
	}
}

func TestTruthIsServedAsJSON(t *testing.T) {
	s, url := start(t, Options{})
	post(t, url+"/v1/chat/completions", chatBody("bench-1k", "x"))
	settled(t, s)
	get := func(path string) gjson.Result {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		if !json.Valid(b) {
			t.Fatalf("%s: %s", path, b)
		}
		return gjson.ParseBytes(b)
	}
	if v := get("/_sim/stats"); v.Get("tokens.completion_tokens").Int() != benchCompletion ||
		v.Get("outcomes.complete.requests").Int() != 1 {
		t.Errorf("stats %s", v.Raw)
	}
	post(t, url+"/_sim/reset", "")
	if v := get("/_sim/stats"); v.Get("requests").Int() != 0 {
		t.Errorf("after reset: %s", v.Raw)
	}
}
