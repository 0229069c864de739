package security

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Attacks of strangers and careless clients on others with unknown keys, with names of
// users, and by leaving. The budgets are those of the defaults.

const defaultBudgets = `
log: { level: warn, format: json }
billing: { minimum_balance: 0, stream_slice_tokens: 64 }
upstreams:
  - { name: only, base_url: %s, breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
`

// "Somebody tried random keys on 3,000 connections: a revoked key was served for
// 2.2 s more, and a new one was first answered after 2.4 s."
func TestStrangersDelayNeitherNewKeysNorRevocation(t *testing.T) { strangers(t, 300, 3) }

func TestLongThreeThousandStrangersDelayNeitherNewKeysNorRevocation(t *testing.T) {
	strangers(t, 3000, 10)
}

func strangers(t *testing.T, connections, rounds int) {
	sim := rig.StartUpstream(t, upstream.Options{})
	// The budget of addresses is off: these strangers have one address each.
	g := rig.StartGateway(t, fmt.Sprintf(defaultBudgets, sim.URL)+"limits: { wrong_keys: { count: 0 } }\n")
	g.NewAccount("a", "1")
	stop := make(chan struct{})
	var tried, refused atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for i := range connections {
		wg.Go(func() { tryKeys(g.Addr, strconv.Itoa(i), stop, &tried, &refused) })
	}
	for end := time.Now().Add(rig.CallLimit); tried.Load() < int64(connections); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d connections were answered", tried.Load(), connections)
		}
	}
	var news, gone []time.Duration
	for range rounds {
		id, key := g.NewKey("a")
		first := time.Now()
		if status, _, answer := g.Get("/models", key); status != 200 {
			t.Fatalf("the first use of a key is answered %d %s", status, answer)
		}
		news = append(news, time.Since(first))
		g.CLI("key", "revoke", id)
		revoked := time.Now()
		for statusOf(g, "/models", key) != 401 {
			if time.Since(revoked) > time.Minute {
				t.Fatal("a revoked key is served for a minute")
			}
		}
		gone = append(gone, time.Since(revoked))
	}
	t.Logf("%d tries of %d connections, %d of them refused unread; first uses within %s, refused %s after the "+
		"revocation", tried.Load(), connections, refused.Load(), news, gone)
	if slices.Min(news) > time.Second || slices.Min(gone) > time.Second { // others stall now and then
		t.Errorf("first use took %s, revocation %s", news, gone)
	}
}

func statusOf(g *rig.Gateway, path, key string) int {
	status, _, _ := g.Get(path, key)
	return status
}

// tryKeys asks with one random key after the other on one connection.
func tryKeys(addr, name string, stop chan struct{}, tried, refused *atomic.Int64) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		_, err := fmt.Fprintf(conn,
			"GET /api/v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer SVC_INFERENCE_KEY_%s_%d\r\n\r\n", name, n)
		if err != nil {
			return
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return
		}
		_, _ = r.Discard(int(res.ContentLength))
		tried.Add(1)
		if res.StatusCode == 503 {
			refused.Add(1)
		}
	}
}

// An address that tries keys gets 429, and customers behind the same address go
// on, with keys in use and with new ones.
func TestAnAddressThatTriesKeysIsReported(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(defaultBudgets, sim.URL))
	g.NewAccount("a", "1")
	used := g.Key("a")
	g.Must(200, "GET", "/models", used, "", nil)
	for i := range 101 {
		g.Must(401, "GET", "/models", fmt.Sprint("SVC_INFERENCE_KEY_", i), "", nil)
	}
	status, header, answer := g.Get("/models", "SVC_INFERENCE_KEY_more")
	if status != 429 || header.Get("Retry-After") == "" || !strings.Contains(string(answer), "from this address") {
		t.Errorf("the 102nd wrong key is answered %d %v %s", status, header, answer)
	}
	g.Must(200, "GET", "/models", used, "", nil)
	g.Must(200, "GET", "/models", g.Key("a"), "", nil)
	// Another address has tried nothing.
	other := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
			return d.DialContext(ctx, network, addr)
		}}}
	req, _ := http.NewRequest("GET", g.URL+"/models", nil)
	req.Header.Set("Authorization", "Bearer SVC_INFERENCE_KEY_0")
	res, err := other.Do(req)
	if err != nil {
		servers.Elsewhere(t, "second loopback address")
	}
	_ = res.Body.Close()
	if res.StatusCode != 401 {
		t.Errorf("another address gets %d", res.StatusCode)
	}
}

// "220 failing requests with a random user each, and no 429."
func TestRandomUsersDoNotEscapeTheBudgetOfFailures(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(defaultBudgets, sim.URL))
	g.NewAccount("a", "1")
	key, other := g.Key("a"), g.Key("a")
	counts := map[int]int{}
	for i := range 220 {
		status, _, _ := g.Post("/chat/completions", key, rig.Ask("sim-chat", "x",
			fmt.Sprintf(`,"temperature":9,"user":"u%d"`, i)))
		counts[status]++
	}
	if counts[400] != 201 || counts[429] != 19 {
		t.Errorf("220 failures of 220 users are answered %v, expected 429 after 200", counts)
	}
	g.Must(429, "POST", "/chat/completions", key, rig.Ask("sim-chat", "x", `,"user":"new"`), nil)
	g.Must(200, "POST", "/chat/completions", other, rig.Ask("sim-chat", "x", ""), nil)
}

// "A customer out of money got 429 after about 20 answers of 402."
func TestAnEmptyAccountStaysAnEmptyAccount(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(defaultBudgets, sim.URL))
	g.NewAccount("a", "")
	key := g.Key("a")
	for i := range 60 {
		if status, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "x", "")); status != 402 {
			t.Fatalf("request %d without money is answered %d %s", i, status, answer)
		}
	}
	g.Credit("a", "1")
	g.Must(200, "POST", "/chat/completions", key, rig.Ask("sim-chat", "x", ""), nil)
}

// Operators may limit how often the clients of a key leave while an upstream works. The
// other keys of the account are not limited.
func TestClientsThatKeepLeavingAreStopped(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, strings.Replace(fmt.Sprintf(defaultBudgets, sim.URL), "billing: {",
		"billing: { drain: { time: 1s },", 1)+"limits: { aborted_requests: { count: 20 } }\n")
	g.NewAccount("a", "1")
	key, other := g.Key("a"), g.Key("a")
	leave(t, sim, g, key, 21, `,"stream":true`)
	g.MetricIs("http_server_active_requests", func(n float64) bool { return n == 0 })
	status, header, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "x", ""))
	if status != 429 || header.Get("Retry-After") == "" || !strings.Contains(string(answer), "left before their end") {
		t.Errorf("after 21 requests that were left: %d %v %s", status, header, answer)
	}
	g.Must(200, "POST", "/chat/completions", other, rig.Ask("sim-chat", "x", ""), nil)
}

// "200 of our clients restarted within 30 s, and then all requests of our key were refused."
func TestAKeyIsServedAfterManyOfItsClientsLeft(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, strings.Replace(fmt.Sprintf(defaultBudgets, sim.URL), "billing: {",
		"billing: { drain: { time: 1s },", 1))
	g.NewAccount("a", "1")
	key := g.Key("a")
	leave(t, sim, g, key, 240, `,"stream":true`)
	g.MetricIs("http_server_active_requests", func(n float64) bool { return n == 0 })
	g.Must(200, "POST", "/chat/completions", key, rig.Ask("sim-chat", "x", ""), nil)
	if a := g.Settled()["a"]; a.Spent < 240*1000 {
		t.Errorf("240 clients that left paid %s USD, expected at least their prompts", a.Spent)
	}
}

// "Another customer's clients leave all the time, and what mine left behind is cut off."
func TestAnswersOfManyThatLeftAreReadOnBesideThoseOfOthers(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, strings.Replace(fmt.Sprintf(defaultBudgets, sim.URL), "billing: {",
		"server: { drain_timeout: 0s }\nbilling: { drain: { streams: 8, time: 1m },", 1))
	g.NewAccount("a", "1")
	g.NewAccount("b", "1")
	greedy, honest := g.Key("a"), g.Key("b")
	readOn := func(want float64) {
		t.Helper()
		g.MetricIs("http_server_active_requests", func(n float64) bool { return n == want })
		g.MetricIs("farebox_draining_answers", func(n float64) bool { return n == want })
	}
	leave(t, sim, g, greedy, 40, "")
	readOn(7)
	leave(t, sim, g, honest, 1, "")
	readOn(8)
	g.Must(200, "POST", "/chat/completions", honest, rig.Ask("sim-chat", "x", ""), nil)
}

// leave has clients ask for answers that do not come, and go away.
func leave(t *testing.T, sim *rig.Simulated, g *rig.Gateway, key string, clients int64, more string) {
	t.Helper()
	body := rig.Ask("sim-chat", "[[sim hang=1]] x", more)
	before := sim.Stats().Open
	var left []net.Conn
	for range clients {
		conn, err := net.Dial("tcp", g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, conn)
		_, _ = fmt.Fprintf(conn,
			"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: "+
				"application/json\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
	}
	rig.Await(t, "the last of them is with the upstream", func() bool { return sim.Stats().Open == before+clients })
	for _, conn := range left {
		_ = conn.Close()
	}
}
