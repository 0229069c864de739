package chat

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// linked is a part whose file is elsewhere.
func linked(url string) string {
	return `{"type":"file","file":{"file_data":"` + url + `","filename":"letter.docx"}}`
}

// filed is a chat with files.
func filed(model, more string, parts ...string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":[{"type":"text","text":"What is in it?"},` +
		strings.Join(parts, ",") + `]}]` + more + `}`
}

// site serves files and counts who asks.
func site(t *testing.T, h http.HandlerFunc) (url string, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// "My rate is used up, and my account is empty: still my files keep your parsers busy." A
// request is refused before its files are read, near or far.
func TestFilesAreReadForThoseWhoMayAsk(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	config := strings.Replace(fmt.Sprintf(filesConfig, sim.URL), "models:",
		"fetch: { allow: [127.0.0.1] }\nmodels:\n  - { id: tight, tier: tight, context_tokens: 128000, max_completion_tokens: 100, price: { input: 1, output: 2 }, targets: [{ upstream: first }] }", 1)
	g := rig.StartGateway(t, strings.Replace(config, "limits: {", "limits: { tiers: { tight: { rpm: 2 } },", 1))
	g.NewAccount("a", "5")
	key := g.Key("a")
	there, asked := site(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) })
	broken := map[string]string{"a broken file": filePart(wordFile(t, "x")[:50], ""), "a dead link": linked(there + "/a")}
	for name, part := range broken {
		if status, _, answer := g.Post("/chat/completions", key, filed("tight", "", part)); status != 400 ||
			!strings.Contains(string(answer), "messages.0.content.1.file.file_data") {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	fetched := asked.Load()
	g.NewAccount("poor", "0.0001")
	poor := g.Key("poor", "--description", "x")
	limited := g.Key("a", "--limit-usd", "0.0001")
	for name, part := range broken {
		if status, _, answer := g.Post("/chat/completions", key, filed("tight", "", part)); status != 429 {
			t.Errorf("%s, beyond the rate: %d %s", name, status, answer)
		}
		for _, k := range []string{poor, limited} {
			if status, _, answer := g.Post("/chat/completions", k, filed("sim-chat", "", part)); status != 402 {
				t.Errorf("%s, without money: %d %s", name, status, answer)
			}
		}
	}
	if asked.Load() != fetched {
		t.Error("a link was followed for a client without access")
	}
	for _, a := range g.Settled() {
		if a.Held != 0 || a.Spent != 0 {
			t.Errorf("the account is %+v", a)
		}
	}
	g.CLI("verify")
}

// Files behind links are fetched by the gateway, from where it may fetch.
func TestFilesBehindLinks(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(filesConfig, sim.URL)+"fetch: { allow: [127.0.0.1] }\n")
	g.NewAccount("a", "5")
	key := g.Key("a")
	word := wordFile(t, "Rivers move their bends.")
	inside, reached := site(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(word) })
	inside = strings.Replace(inside, "127.0.0.1", "127.0.0.2", 1)
	url, _ := site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/letter.docx", http.StatusFound)
		case "/inward":
			http.Redirect(w, r, inside, http.StatusFound)
		case "/large":
			for range 26 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		case "/gone":
			w.WriteHeader(404)
		case "/empty":
		default:
			_, _ = w.Write(word)
		}
	})
	before := rig.Money(0)
	for _, path := range []string{"/letter.docx", "/moved", `/a\u002db`} {
		status, _, answer := g.Post("/chat/completions", key, filed("sim-claude", "", linked(url+path)))
		if body := string(sim.Latest(t).Body); status != 200 || !strings.Contains(body,
			`attached file, \"letter.docx\":\n\nRivers move their bends.`) || strings.Contains(body, "file_data") {
			t.Fatalf("%s: %d %s", path, status, answer)
		}
		s := readSaid(t, answer, false)
		before = spent(t, g, before, s.costs())
	}
	sent := sim.Idle(t).Requests
	for _, link := range []string{url + "/inward", inside + "/letter.docx", url + "/large", url + "/gone", url + "/empty",
		"http://169.254.169.254/latest", "http://u:p@127.0.0.1/x", "https://127.1/", "http://", "ftp://a.example/b",
		"http://127.0.0.1:1/"} {
		status, _, answer := g.Post("/chat/completions", key, filed("sim-chat", "", linked(link)))
		if status != 400 || !strings.Contains(string(answer), "messages.0.content.1.file.file_data") {
			t.Errorf("%s: %d %s", link, status, answer)
		}
	}
	if reached.Load() != 0 || sim.Idle(t).Requests != sent {
		t.Errorf("%d requests inside, %d of the model", reached.Load(), sim.Idle(t).Requests-sent)
	}
	spent(t, g, before, 0)
	g.CLI("verify")
}

// The hold grows by the tokens of the files' texts, once, before the model is asked; an account
// that cannot pay for them is refused, and one that can pay for a part of the answer gets that
// part.
func TestTheHoldPaysForTheTextsOfFiles(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, "billing: { minimum_balance: 0 }\n"+fmt.Sprintf(filesConfig, sim.URL))
	// About 2,000 tokens of text, and 100 of an answer at twice the price.
	part := filePart([]byte(strings.Repeat("The river takes sand from its bends. ", 250)), "")
	g.NewAccount("a", "5")
	var s said
	status, _, answer := g.Post("/chat/completions", g.Key("a"), filed("sim-chat", "", part))
	if s = readSaid(t, answer, false); status != 200 || s.Usage.Prompt < 1500 {
		t.Fatalf("%d %s", status, answer)
	}
	spent(t, g, 0, s.costs())
	prompt := s.Usage.Prompt
	for name, c := range map[string]struct {
		usd    int64 // micro
		status int
		lowers bool
	}{
		"too little for the text": {prompt * 9 / 10, 402, false},
		"some of the answer":      {prompt + 110, 200, true},
		"all of it":               {prompt + 1500, 200, false},
	} {
		for _, stream := range []string{"", `,"stream":true`} {
			account := strings.ReplaceAll(name, " ", "-") + fmt.Sprint(len(stream))
			g.NewAccount(account, fmt.Sprintf("0.%06d", c.usd))
			status, head, answer := g.Post("/chat/completions", g.Key(account), filed("sim-chat", stream, part))
			lowered := status == 200 && head.Get("X-Svc-Max-Completion-Tokens") != "100"
			if status != c.status || lowered != c.lowers {
				t.Errorf("%s%s: %d, lowered %v: %.300s", name, stream, status, lowered, answer)
			}
			if a := g.Settled()[account]; a.Held != 0 || (a.Spent > 0) != (status == 200) {
				t.Errorf("%s%s: the account is %+v", name, stream, a)
			}
		}
	}
	data := base64.StdEncoding.EncodeToString([]byte("one two three"))
	body := filed("sim-chat", "", `{"type":"file","file":{"file_data":"data:;base64,`+data+`"}}`)
	key := g.Key("a")
	first, _, one := g.WithKey("/chat/completions", key, "files", body)
	again, head, two := g.WithKey("/chat/completions", key, "files", body)
	if first != 200 || again != 200 || one != two || head.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %d %s", first, again, two)
	}
	g.CLI("verify")
}
