package security

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/facilitator"
	"farebox/bench/upstream/film"
	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// sharesConfig has small amounts of every resource that customers share. Products that
// unpaid callers can use are free.
const sharesConfig = `
log: { level: error, format: json }
billing: { minimum_balance: 0, on_client_gone: drain, drain: { streams: 64 } }
server: { max_body: 1MB, max_in_flight: 16MB, trusted_proxies: [127.0.0.1] }
limits:
  failed_requests: { count: 0 }
  unsupported_features: { count: 0 }
  aborted_requests: { count: 0 }
web3_keys: { require: none, per_ip: 20 }
images: { memory: 64MB }
idempotency: { max_stored: 1MB, max_keys: %[6]d, max_answer: 64KB, unattended: 8 }
fetch: { allow: [127.0.0.0/8] }
%[1]supstreams:
  - { name: only, base_url: %[2]q, max_connections: 4096, breaker: { failures: 0 } }
  - { name: loose, base_url: %[2]q, max_connections: 4096, enforces_schema: false, breaker: { failures: 0 } }
  - { name: left, base_url: %[8]q, max_connections: 4096, breaker: { failures: 0 } }
  - { name: native, dialect: native, base_url: %[2]q, breaker: { failures: 0 } }
  - { name: left-native, dialect: native, base_url: %[8]q, breaker: { failures: 0 } }
models:
  - { id: gift, tier: unlimited, context_tokens: 128000, max_completion_tokens: 8000, price: free, targets: [{ upstream: only, model: sim-chat }] }
  - { id: sold, tier: unlimited, context_tokens: 128000, max_completion_tokens: 8000, price: { input: 1, output: 2 }, targets: [{ upstream: only, model: sim-chat }] }
  - { id: left-gift, tier: unlimited, context_tokens: 128000, price: free, targets: [{ upstream: left }] }
  - { id: left, tier: unlimited, context_tokens: 128000, price: { input: 1, output: 2 }, targets: [{ upstream: left }] }
  - id: strict
    tier: unlimited
    context_tokens: 128000
    capabilities: { response_schema: true }
    price: free
    targets: [{ upstream: loose, model: sim-chat }]
  - id: painter
    type: image
    tier: unlimited
    constraints: { size_divisor: 8 }
    price: free
    targets: [{ upstream: only, options: { format: fixed } }]
  - { id: edit, type: inpaint, tier: unlimited, price: free, targets: [{ upstream: native }] }
  - { id: left-edit, type: inpaint, tier: unlimited, price: free, targets: [{ upstream: left-native }] }
  - id: larger
    type: video
    tier: unlimited
    constraints: { model_type: video }
    inputs: { upscale_factors: [1, 2, 4], video_min_seconds: 1, video_max_seconds: 30 }
    price: free
    targets: [{ upstream: native, model: sim-video-upscale }]
augment:
  text_parser: { price: free, workers: 2, timeout: 10s }
  scrape: { price: free, rate: { rpm: 0 }, robots: ignore, parallel: 2, cache: { size: 0 }%[7]s }
rpc:
  credit_price: free
  rate: { rpm: 0 }
  max_body: 1MB
  batch_memory: 64KB
  batch_answer: 1MB
  networks:
    - { name: ethereum-sepolia, upstreams: [{ name: node, url: %[3]q, breaker: { failures: 0 } }] }
    - { name: base-mainnet, private: true, upstreams: [{ name: node, url: %[4]q, breaker: { failures: 0 } }] }
x402:
  simulated: true
  inference: true
  top_up_auth: optional
  top_up_per_ip: 0
  balance_per_wallet: 0
  max_pending: 16
  sign_in: { domains: [shop.test], origins: ["http://shop.test"] }
  networks: [{ network: base, rpc: base-mainnet, pay_to: "` + sharesPayTo + `" }]
  facilitators: [{ name: simulated, url: %[5]q, max_in_flight: 4, settle_timeout: 3s }]
`

const (
	sharesPayTo = "0x2670B922ef37C7Df47158725C0CC407b5382293F"
	crowdSize   = 50
	// slowly is how long a site or a node takes for a request of a greedy caller.
	slowly = 400 * time.Millisecond
)

// caller is who sends a request: a key, or none, and the address that the proxy in front
// of the gateway names.
type caller struct{ key, from string }

// shares is a gateway with an honest paid account and greedy callers.
type shares struct {
	*rig.Gateway
	t      testing.TB
	long   bool
	sim    *rig.Simulated
	evm    *chain.EVM
	site   string // of pages and films; /slow takes a while
	client *http.Client

	honest caller
	ids    map[string]string // of the keys that may change keys
	cold   []string          // keys of the honest account that the process has not read yet
	kinds  []greedy

	contracts struct{ honest, greedy *chain.Payer } // wallets that are contracts, and have paid
	holding   sync.Map                              // addresses of wallets whose payments never settle
	slow      sync.Map                              // addresses of wallets whose payments are verified slowly
	mu        sync.Mutex
	stalled   []net.Conn // of clients that neither read nor write on
	left      leavable
	buying    sync.Once // of the requests that make reports long
	number    atomic.Int64
	checking  atomic.Int64 // questions to the chain whether the greedy contract signed
}

// greedy is one kind of callers that want everything.
type greedy struct {
	name    string
	paid    bool
	callers []caller
}

// openShares starts a gateway for the walk. settings are further sections of its config.
func openShares(t testing.TB, store, settings, scrape string, long bool) *shares {
	t.Helper()
	s := &shares{t: t, long: long, sim: rig.StartUpstream(t, upstream.Options{Keep: 4096}),
		evm:    chain.NewEVM(chain.EVMOptions{BlockTime: 50 * time.Millisecond}),
		client: &http.Client{Timeout: rig.CallLimit, Transport: &http.Transport{MaxIdleConnsPerHost: 512}}}
	t.Cleanup(s.client.CloseIdleConnections)
	s.site = s.startSite()
	keys := 1500
	if long {
		keys = 8000
	}
	g := rig.NewGateway(t, fmt.Sprintf(sharesConfig, settings, s.sim.URL,
		s.startNode(node.Options{}, nil), s.startNode(node.Options{Ledger: s.evm}, s.delaysContracts), s.startFacilitator(),
		keys, scrape, s.left.start(t)))
	if store != "" {
		g.Store = store
	}
	s.Gateway = g
	g.ListenAndStart()
	s.makeCallers()
	return s
}

// startSite serves pages and films. Addresses that begin with /slow take a while.
func (s *shares) startSite() string {
	clip := film.MP4(film.Film{Length: 2 * time.Second, Width: 16, Height: 360, Rate: 24})
	padded := append(clip, 0, 4, 0, 0, 'f', 'r', 'e', 'e')
	padded = append(padded, make([]byte, 4<<16-8)...)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isFilm := strings.HasSuffix(r.URL.Path, "film")
		// The first request for a film is for its beginning, the second for all of it.
		if strings.HasPrefix(r.URL.Path, "/slow") && (!isFilm || !strings.HasSuffix(r.Header.Get("Range"), "-131071")) {
			select {
			case <-time.After(slowly):
			case <-r.Context().Done():
				return
			}
		}
		if isFilm {
			w.Header().Set("Content-Type", "video/mp4")
			// Without a length all of it must be read.
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			_, _ = w.Write(padded)
			return
		}
		if strings.HasSuffix(r.URL.Path, "picture") {
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(noise())
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if strings.HasPrefix(r.URL.Path, "/script") {
			_, _ = io.WriteString(w, scriptedPage)
			return
		}
		_, _ = io.WriteString(w, "<html><title>A page</title><body><article><h1>A page</h1><p>"+
			strings.Repeat("Rain falls on the old roof of the mill by the river. ", 20)+"</p></article></body></html>")
	}))
	s.t.Cleanup(site.Close)
	return site.URL
}

// startNode serves a simulated node, whose requests go through before first.
func (s *shares) startNode(o node.Options, before func(body []byte)) string {
	n := node.New(o)
	n.Fault(node.Faults{Large: 400 << 10})
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before != nil {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			before(body)
		}
		n.ServeHTTP(w, r)
	}))
	s.t.Cleanup(at.Close)
	return at.URL
}

// delaysContracts has a node take a while for the signatures of greedy contracts.
func (s *shares) delaysContracts(body []byte) {
	c := s.contracts.greedy
	if c != nil && bytes.Contains(body, []byte("1626ba7e")) && bytes.Contains(bytes.ToLower(body), []byte(c.Address)) {
		s.checking.Add(1)
		defer s.checking.Add(-1)
		time.Sleep(slowly)
	}
}

// startFacilitator serves a facilitator that settles no payment of some wallets, and
// verifies those of others slowly.
func (s *shares) startFacilitator() string {
	f := facilitator.New(s.evm, nil)
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		from := gjson.GetBytes(body, "paymentPayload.payload.authorization.from").Str
		if _, holds := s.holding.Load(strings.ToLower(from)); holds && strings.HasSuffix(r.URL.Path, "/settle") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if _, slow := s.slow.Load(strings.ToLower(from)); slow && strings.HasSuffix(r.URL.Path, "/verify") {
			time.Sleep(slowly)
		}
		f.ServeHTTP(w, r)
	}))
	s.t.Cleanup(at.Close)
	return at.URL
}

// makeCallers makes accounts, keys and wallets, and restarts the gateway, so that it has
// read none of the keys yet.
func (s *shares) makeCallers() {
	s.t.Helper()
	s.NewAccount("honest", "1000")
	s.NewAccount("greedy", "1000")
	s.honest = caller{s.adminKey("honest"), "198.51.100.200"}
	colds := 16
	if s.long {
		colds = 200
	}
	for range colds {
		s.cold = append(s.cold, s.Key("honest"))
	}
	paid := greedy{name: "one paid account", paid: true, callers: []caller{{s.adminKey("greedy"), "198.51.100.1"}}}
	near := greedy{name: "50 unpaid accounts of one /64"}
	far := greedy{name: "50 unpaid accounts from everywhere"}
	for i := range crowdSize {
		key := s.walletKey(fmt.Sprint("203.0.113.", i))
		near.callers = append(near.callers, caller{key, fmt.Sprintf("2001:db8:1:1::%x", i+1)})
		far.callers = append(far.callers, caller{key, fmt.Sprint("192.0.2.", i)})
	}
	s.kinds = []greedy{paid, near, far}

	contract := func(n int) *chain.Payer {
		owner, address := chain.NewPayer(), "0x"+strings.Repeat(fmt.Sprintf("c0de%d", n), 8)
		s.evm.Contract(address, owner.Address)
		return owner.As(address)
	}
	s.contracts.honest = contract(1)
	paying := contract(2)
	for _, p := range []*chain.Payer{s.contracts.honest, paying} {
		if status, answer := s.topUp(context.Background(), p, s.honest); status != 200 {
			s.t.Fatalf("a contract wallet's top-up is answered %d %s", status, answer)
		}
	}
	s.contracts.greedy = paying
	if err := s.Stop(); err != nil {
		s.t.Fatal(err)
	}
	s.Start()
}

// adminKey is a key that may change keys and read reports.
func (s *shares) adminKey(account string) string {
	id, key := s.NewKey(account, "--type", "ADMIN")
	if s.ids == nil {
		s.ids = map[string]string{}
	}
	s.ids[key] = id
	return key
}

// walletKey is a key that a new wallet makes for itself. Its account has no money.
func (s *shares) walletKey(from string) string {
	s.t.Helper()
	p := chain.NewPayer()
	var token struct{ Data struct{ Token string } }
	_, answer := s.ask(context.Background(), caller{from: from}, "GET", rig.Web3Path, "", nil)
	if err := json.Unmarshal([]byte(answer), &token); err != nil {
		s.t.Fatalf("a wallet's token: %s", answer)
	}
	var made struct{ Data struct{ APIKey string } }
	signature := p.SignDigest(chain.PersonalDigest(token.Data.Token))
	_, answer = s.ask(context.Background(), caller{from: from}, "POST", rig.Web3Path, "application/json", fmt.Appendf(nil,
		`{"apiKeyType":"INFERENCE","address":%q,"signature":"0x%x","token":%q}`, p.Address, signature, token.Data.Token))
	if err := json.Unmarshal([]byte(answer), &made); err != nil || made.Data.APIKey == "" {
		s.t.Fatalf("a wallet's key: %s", answer)
	}
	return made.Data.APIKey
}

// ask sends a request of a caller; status 0: it ended before an answer.
func (s *shares) ask(ctx context.Context, c caller, method, path, contentType string, body []byte, headers ...string) (
	status int, answer string,
) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	req.Header.Set("X-Forwarded-For", c.from)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(text)
}

// post is ask for JSON.
func (s *shares) post(ctx context.Context, c caller, path, body string, headers ...string) (int, string) {
	return s.ask(ctx, c, "POST", path, "application/json", []byte(body), headers...)
}

// mark is a number that no other request has.
func (s *shares) mark() string { return strconv.FormatInt(s.number.Add(1), 10) }

// crowd sends pieces of a greedy kind side by side, again and again, until stop.
type crowd struct {
	ended atomic.Int64 // pieces that came to an end
	ran   atomic.Int64 // those of them that were not refused for their number
	mu    sync.Mutex
	got   map[int]int // by status
	wait  func()      // for all pieces, where their number is bounded
	stop  func()
}

// send begins workers that send pieces; most is how many pieces in all, 0: any number.
func (s *shares) send(g greedy, workers, most int, piece func(ctx context.Context, c caller) int) *crowd {
	ctx, cancel := context.WithCancel(context.Background())
	c := &crowd{got: map[int]int{}}
	var all sync.WaitGroup
	var begun atomic.Int64
	for i := range workers {
		all.Go(func() {
			for n := i; ctx.Err() == nil; n += workers {
				if most > 0 && begun.Add(1) > int64(most) {
					return
				}
				status := piece(ctx, g.callers[n%len(g.callers)])
				refused := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
				if ctx.Err() == nil {
					c.ended.Add(1)
					if !refused {
						c.ran.Add(1)
					}
				}
				if refused && most == 0 { // as clients do, that come again
					select {
					case <-ctx.Done():
					case <-time.After(20 * time.Millisecond):
					}
				}
				c.mu.Lock()
				c.got[status]++
				c.mu.Unlock()
			}
		})
	}
	c.wait = all.Wait
	c.stop = func() { cancel(); all.Wait() }
	return c
}
