package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Chats with searches, pages and files, with faults of every service behind the gateway and clients
// that leave. The charge equals the sum of the sold lines, and these equal the simulators' counts.
func TestLookupsOfChatsAreChargedExactly(t *testing.T) { lookupLedger(t, 150, 8) }

func TestLongLookupsOfChatsAreChargedExactly(t *testing.T) { lookupLedger(t, servers.Campaign(400), 8) }

// counted are the requests to services and sites, by the number of the chat.
type counted struct{ searches, pages sync.Map }

var (
	numberOfChat = regexp.MustCompile(`number (\d+)`)
	numberOfPage = regexp.MustCompile(`/(\d+)`)
)

// serve is a service that searches and a site. Words in a request say how it fails.
func (n *counted) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/res/v1/web/search" {
		if at := numberOfPage.FindStringSubmatch(r.URL.Path); at != nil {
			n.pages.Store(at[1], true)
		}
		switch {
		case strings.HasPrefix(r.URL.Path, "/late"):
			<-r.Context().Done()
		case strings.HasPrefix(r.URL.Path, "/page"):
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html><body><article><p>"+
				strings.Repeat("The river takes sand from the outer side of every bend. ", 9)+"</p></article></body></html>")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
		return
	}
	words := r.URL.Query().Get("q")
	n.searches.Store(numberOfChat.FindStringSubmatch(words)[1], true)
	switch {
	case strings.Contains(words, "tardy"):
		<-r.Context().Done()
	case strings.Contains(words, "nobody"):
		w.WriteHeader(http.StatusInternalServerError)
	default:
		_, _ = io.WriteString(w, `{"web":{"results":[{"title":"Rivers","url":"https://a.example/1",`+
			`"description":"Rivers move.","page_age":"2026-10-01"}]}}`)
	}
}

// lookups is a load of chats, and its expected charges.
type lookups struct {
	t    *testing.T
	g    *rig.Gateway
	key  string
	site string
	word []byte

	counted
	mu              sync.Mutex
	searches, pages int64
	left            []string // chats whose client left, which pay for a search that was asked
	leftPages       []string // and those that pay for a page
}

// ask posts a chat and gives its status, 0 when ctx ends first.
func (l *lookups) ask(ctx context.Context, body string, headers ...string) (int, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.g.URL+"/chat/completions", strings.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return 0, ""
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+l.key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, string(text)
}

// sells records how a chat ended and its sold units beside tokens.
func (l *lookups) sells(what string, status, want int, answer string, searches, pages int64) {
	if status != want {
		l.t.Errorf("%s: %d %.300s, want %d", what, status, answer, want)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.searches += searches
	l.pages += pages
}

// leaves posts a chat whose client goes away when arrived says so, or after a while.
func (l *lookups) leaves(n int, body string, arrived func() bool, after time.Duration, page bool) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() { l.ask(ctx, body); close(done) }()
	if arrived != nil {
		rig.Await(l.t, "the chat arrives", arrived)
	}
	select {
	case <-time.After(after):
	case <-done:
	}
	cancel()
	<-done
	l.mu.Lock()
	defer l.mu.Unlock()
	if page {
		l.leftPages = append(l.leftPages, fmt.Sprint(n))
	} else {
		l.left = append(l.left, fmt.Sprint(n))
	}
}

// one is the chat of a number.
func (l *lookups) one(n int, x *rand.Rand) {
	model := []string{"sim-chat", "sim-claude"}[x.IntN(2)]
	stream := []string{"", `,"stream":true`}[x.IntN(2)]
	on := `,"svc_parameters":{"enable_web_search":"on"}`
	auto := `,"svc_parameters":{"enable_web_search":"auto"}`
	read := `,"svc_parameters":{"enable_web_scraping":true,"enable_web_search":"on"}`
	words := fmt.Sprintf("[[sim tokens=%d]] number %d", 1+x.IntN(20), n)
	link := func(kind string) string { return fmt.Sprint(" ", l.site, "/", kind, "/", n) }
	background := context.Background()
	post := func(what, text, more string, want int, searches, pages int64) {
		status, answer := l.ask(background, rig.Ask(model, text, more+stream))
		l.sells(what, status, want, answer, searches, pages)
	}
	asked := func(of *sync.Map) func() bool {
		return func() bool { _, ok := of.Load(fmt.Sprint(n)); return ok }
	}
	attached := func(doc []byte) string {
		return filed(model, on+stream, `{"type":"text","text":`+fmt.Sprintf("%q", words)+`}`, filePart(doc, ""))
	}
	switch kind := x.IntN(18); kind {
	case 0, 1, 2:
		post("a search", words, on, 200, 1, 0)
	case 3:
		post("a search that is needed", words+" latest", auto, 200, 1, 0)
	case 4:
		post("a search that is not needed", words, auto, 200, 0, 0)
	case 5:
		post("a search that fails", words+" nobody", on, 503, 0, 0)
	case 6:
		post("a needed search that fails", words+" nobody latest", auto, 200, 0, 0)
	case 7:
		post("a page", words+link("page"), read, 200, 0, 1)
	case 8:
		post("a page and one that is gone", words+link("page")+link("gone"), read, 200, 0, 1)
	case 9:
		post("a page that is gone", words+link("gone"), read, 200, 0, 0)
	case 10:
		status, answer := l.ask(background, attached(l.word))
		l.sells("a file", status, 200, answer, 1, 0)
	case 11:
		status, answer := l.ask(background, attached(l.word[:len(l.word)/2]))
		l.sells("a broken file", status, 400, answer, 0, 0)
	case 12:
		post("a model that fails", strings.Replace(words, "tokens", "status=500 tokens", 1), on, 500, 0, 0)
	case 13:
		post("a model that refuses", strings.Replace(words, "tokens", "status=400 tokens", 1), on, 400, 1, 0)
	case 14:
		l.leaves(n, rig.Ask(model, words+" tardy", on+stream), asked(&l.counted.searches), 0, false)
	case 15:
		l.leaves(n, rig.Ask(model, words+link("late"), read+stream), asked(&l.counted.pages), 0, true)
	case 16:
		slow := strings.Replace(words, "tokens", "delay_ms=100 tokens", 1)
		l.leaves(n, rig.Ask(model, slow, on+stream), nil, time.Duration(x.IntN(60))*time.Millisecond, false)
	default:
		body := rig.Ask(model, words, on+stream)
		status, first := l.ask(background, body, "Idempotency-Key", fmt.Sprint("k", n))
		again, second := l.ask(background, body, "Idempotency-Key", fmt.Sprint("k", n))
		if again != status || first != second {
			l.t.Errorf("a repeat: %d %.300s, at first %.300s", again, second, first)
		}
		l.sells("a chat with a key", status, 200, first, 1, 0)
	}
}

// sold are the units on the customer's bill by product, and their price.
func (l *lookups) sold() (units map[string]int64, amount rig.Money) {
	units = map[string]int64{}
	admin, path := l.g.Key("a", "--type", "ADMIN"), "/billing/usage-history?pageSize=1000"
	for path != "" {
		var page struct {
			Data []struct {
				SKU    string      `json:"sku"`
				Units  json.Number `json:"units"`
				Amount json.Number `json:"amount"`
			}
			NextCursor string
		}
		l.g.Must(200, "GET", path, admin, "", &page)
		for _, line := range page.Data {
			amount += rig.Exact(l.t, json.Number(strings.TrimPrefix(line.Amount.String(), "-")))
			what := strings.TrimPrefix(strings.TrimPrefix(line.SKU, "sim-chat-"), "sim-claude-")
			n, _ := line.Units.Int64()
			units[what] += n
		}
		if path = ""; page.NextCursor != "" {
			path = "/billing/usage-history?cursor=" + page.NextCursor
		}
	}
	return units, amount
}

func lookupLedger(t *testing.T, chats, workers int) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	l := &lookups{t: t, word: wordFile(t, "Rivers move their bends.")}
	web := httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(web.Close)
	l.site = web.URL
	config := fmt.Sprintf(searchConfig, sim.URL, web.URL, web.URL[strings.LastIndexByte(web.URL, ':')+1:])
	config = strings.Replace(config, "minimum_balance: 0", "minimum_balance: 0, on_client_gone: drain", 1)
	config = strings.Replace(config, "scrape: {", "text_parser: { timeout: 50s, rate: { rpm: 0 } }\n  scrape: { per_host: 64,", 1)
	l.g = rig.StartGateway(t, config)
	l.g.NewAccount("a", "100")
	l.key = l.g.Key("a")
	source := rig.Seeded(t)
	var work sync.WaitGroup
	numbers := make(chan int)
	for w := range workers {
		work.Go(func() {
			x := source(uint64(w))
			for n := range numbers {
				l.one(n, x)
			}
		})
	}
	for n := range chats {
		numbers <- n
	}
	close(numbers)
	work.Wait()
	l.g.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	for _, n := range l.left {
		if _, asked := l.counted.searches.Load(n); asked {
			l.searches++
		}
	}
	for _, n := range l.leftPages {
		if _, asked := l.counted.pages.Load(n); asked {
			l.pages++
		}
	}
	made := sim.Idle(t).Outcomes[upstream.Complete]
	want := rig.Produced(made) + rig.Money(l.searches)*nanoSearch + rig.Money(l.pages)*nanoPage
	if a := l.g.Settled()["a"]; a.Spent != want || a.Held != 0 || a.USD+a.Spent != 100_000_000_000 {
		t.Errorf("the account is %+v; %d searches, %d pages and %+v come to %s", a, l.searches, l.pages, made, want)
	}
	units, amount := l.sold()
	for sku, n := range map[string]int64{"search-request": l.searches, "scrape-page": l.pages} {
		if units[sku] != n {
			t.Errorf("%d of %s are on the bill, want %d", units[sku], sku, n)
		}
	}
	if amount != want {
		t.Errorf("the bill is %s, want %s", amount, want)
	}
	t.Logf("%d chats: %d searches, %d pages, %d answers of %d and %d tokens, %d left: charged %s", chats, l.searches,
		l.pages, made.Requests, made.PromptTokens, made.CompletionTokens, len(l.left)+len(l.leftPages), want)
	l.g.CLI("verify")
}
