package wallet

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/facilitator"
	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

const (
	domain   = "shop.test"
	origin   = "http://shop.test"
	payEVM   = "0x2670B922ef37C7Df47158725C0CC407b5382293F"
	paySVM   = "AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9"
	base     = "eip155:8453"
	solana   = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
	usd      = 1_000_000 // units of the token
	topUp    = "/x402/top-up"
	evmNodes = 3
)

// world is everything around a gateway: two chains, their nodes, a facilitator, models.
type world struct {
	t           *testing.T
	evm         *chain.EVM
	solana      *chain.Solana
	facilitator *facilitator.Facilitator
	facAt       string
	evmNode     []*node.Node
	evmAt       []string
	solanaNode  []*node.Node
	solanaAt    []string
	sim         *rig.Simulated
}

// shop is a gateway in a world, where wallets pay.
type shop struct {
	*world
	*rig.Gateway
}

// newWorld begins chains whose blocks come fast.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, evm: chain.NewEVM(chain.EVMOptions{BlockTime: 50 * time.Millisecond}),
		solana: chain.NewSolana(chain.SolanaOptions{SlotTime: 250 * time.Millisecond}),
		sim:    rig.StartUpstream(t, upstream.Options{}),
	}
	w.facilitator = facilitator.New(w.evm, w.solana)
	var err error
	if w.facAt, err = w.facilitator.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.facilitator.Close)
	for i := range evmNodes {
		n, at := w.node(node.Options{Ledger: w.evm, Seed: uint64(i)})
		w.evmNode, w.evmAt = append(w.evmNode, n), append(w.evmAt, at)
	}
	for i := range 2 {
		n, at := w.node(node.Options{Ledger: w.solana, Solana: true, Seed: uint64(i)})
		w.solanaNode, w.solanaAt = append(w.solanaNode, n), append(w.solanaAt, at)
	}
	return w
}

func (w *world) node(o node.Options) (*node.Node, string) {
	w.t.Helper()
	n := node.New(o)
	at, err := n.Start()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(n.Close)
	return n, at
}

// options of a gateway's config.
type options struct {
	x402        string // further lines of x402:
	network     string // further members of both payment networks, after a comma
	facilitator string // the same of the facilitator
	more        string // further sections
	inference   string // default true
	auth        string // top_up_auth; default none
}

const shopConfig = `
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: only, base_url: %[1]q, breaker: { failures: 0 } }
  - { name: images, dialect: native, base_url: %[1]q, breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    capabilities: { reasoning: false }
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
  - { id: sim-image, type: image, tier: unlimited, price: { generation: 0.01 }, targets: [{ upstream: images }] }
  - id: sim-speech
    type: tts
    tier: unlimited
    voices: [alloy]
    supported_formats: [mp3]
    price: { input: 15 }
    targets: [{ upstream: only }]
augment: { text_parser: {} }
rpc:
  rate: { rpm: 0 }
  networks:
    - name: base-mainnet
      upstreams: [%[2]s]
    - name: solana-mainnet
      upstreams: [%[3]s]
x402:
  simulated: true
  inference: %[4]s
  top_up_auth: %[5]s
  top_up_per_ip: 0
  balance_per_wallet: 0
  transactions_per_wallet: 0
  sign_in: { domains: [shop.test], origins: ["http://shop.test"] }
  networks:
    - { network: base, rpc: base-mainnet, pay_to: "` + payEVM + `"%[6]s }
    - { network: solana, rpc: solana-mainnet, pay_to: "` + paySVM + `"%[6]s }
  facilitators:
    - { name: simulated, url: %[7]q%[8]s }
%[9]s
`

func (w *world) config(o options) string {
	list := func(at []string) string {
		all := make([]string, len(at))
		for i, url := range at {
			all[i] = fmt.Sprintf("{ name: node%d, url: %q, breaker: { failures: 0 } }", i, url)
		}
		return strings.Join(all, ", ")
	}
	if o.inference == "" {
		o.inference = "true"
	}
	if o.auth == "" {
		o.auth = "none"
	}
	text := fmt.Sprintf(shopConfig, w.sim.URL, list(w.evmAt), list(w.solanaAt), o.inference, o.auth, o.network,
		w.facAt, o.facilitator, o.more)
	for line := range strings.Lines(o.x402) { // a line here wins over the usual one
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		var kept []string
		for had := range strings.Lines(text) {
			if !strings.HasPrefix(had, "  "+name+":") {
				kept = append(kept, had)
			}
		}
		text = strings.Replace(strings.Join(kept, ""), "x402:\n", "x402:\n  "+strings.TrimSpace(line)+"\n", 1)
	}
	return text
}

// openShop starts a gateway in a world of its own.
func openShop(t *testing.T, o options) *shop {
	t.Helper()
	w := newWorld(t)
	return &shop{w, rig.StartGateway(t, w.config(o))}
}

// openShopOn is openShop on a store: empty is the embedded one.
func openShopOn(t *testing.T, store string, o options) *shop {
	t.Helper()
	w := newWorld(t)
	return &shop{w, rig.StartGatewayOn(t, store, w.config(o))}
}

// reply is an answer of the gateway.
type reply struct {
	status int
	header http.Header
	gjson.Result
}

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, r.Raw) }

var caller = &http.Client{Timeout: 90 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// tell calls the gateway with headers, as names and values; err: the connection broke.
func tell(g *rig.Gateway, method, path, body string, headers ...string) (reply, error) {
	req, err := http.NewRequest(method, g.URL+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := caller.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, gjson.ParseBytes(b)}, err
}

func (s *shop) tell(method, path, body string, headers ...string) reply {
	s.T.Helper()
	r, err := tell(s.Gateway, method, path, body, headers...)
	if err != nil {
		s.T.Fatalf("cannot call %s %s: %v", method, path, err)
	}
	return r
}

// encoded is a value as headers carry it.
func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

func decoded(header string) gjson.Result {
	b, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		return gjson.Result{}
	}
	return gjson.ParseBytes(b)
}

// signed is a payment that a wallet signed, and the client's request for it.
type signed struct {
	payer   *chain.Payer
	units   int64
	network string
	payload map[string]any
	auth    chain.Authorization // on an EVM
	wire    []byte              // on Solana
}

// sign signs a payment of so many units to the shop, on the payer's chain.
func (w *world) sign(p *chain.Payer, units int64) *signed {
	if p.IsSolana() {
		wire := p.Transaction(chain.Order{FeePayer: w.facilitator.FeePayer(), PayTo: paySVM, Mint: chain.SolanaUSDC,
			Units: units, Blockhash: w.solana.Blockhash()})
		return &signed{p, units, solana, chain.SolanaPayload(wire), chain.Authorization{}, wire}
	}
	return w.signAuthorization(p, p.Authorization(payEVM, units, time.Now().Add(5*time.Minute)))
}

func (w *world) signAuthorization(p *chain.Payer, a chain.Authorization) *signed {
	return &signed{p, a.Value, base, chain.EVMPayload(a, p.SignAuthorization(w.evm, a)), a, nil}
}

// accepted is the entry of a challenge for a chain.
func accepted(network string) map[string]any {
	if network == base {
		return map[string]any{"scheme": "exact", "network": base, "amount": "5000000", "asset": chain.USDC,
			"payTo": payEVM, "maxTimeoutSeconds": 300, "extra": map[string]any{"name": "USD Coin", "version": "2"}}
	}
	return map[string]any{"scheme": "exact", "network": network, "amount": "5000000", "asset": chain.SolanaUSDC,
		"payTo": paySVM, "maxTimeoutSeconds": 300, "extra": map[string]any{}}
}

// header is the payment in the shape of version 2.
func (p *signed) header() string {
	return encoded(map[string]any{"x402Version": 2, "accepted": accepted(p.network), "payload": p.payload})
}

// flat is the payment in a shape without accepted.
func (p *signed) flat(version int, network string) string {
	return encoded(map[string]any{"x402Version": version, "scheme": "exact", "network": network, "payload": p.payload})
}

// pay sends a payment.
func (s *shop) pay(p *signed) reply {
	s.T.Helper()
	return s.tell("POST", topUp, "", "PAYMENT-SIGNATURE", p.header())
}

// customer is a new wallet that has paid.
func (s *shop) customer(p *chain.Payer, units int64) *chain.Payer {
	s.T.Helper()
	if r := s.pay(s.sign(p, units)); r.status != 200 {
		s.T.Fatalf("a top-up of %d units is answered %s", units, r)
	}
	return p
}

// signIn is a fresh sign-in header.
func signIn(p *chain.Payer) string {
	return chain.Header(p.SignInMembers(chain.SignIn{Domain: domain, URI: origin + "/api/v1"}))
}

const signInHeader = "SIGN-IN-WITH-X"

// balance asks for a wallet's balance.
func (s *shop) balance(p *chain.Payer) reply {
	s.T.Helper()
	return s.tell("GET", "/x402/balance/"+p.Address, "", signInHeader, signIn(p))
}

// has waits for a wallet to have exactly so many USD.
func (s *shop) has(p *chain.Payer, want string) {
	s.T.Helper()
	s.hasWithin(time.Minute, p, want)
}

func (s *shop) hasWithin(limit time.Duration, p *chain.Payer, want string) {
	s.T.Helper()
	var got reply
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if got = s.balance(p); got.Get("data.balanceUsd").Raw == want {
			return
		}
	}
	s.T.Errorf("the wallet has %s, not %s", got, want)
}

// chat is a request whose answer has so many tokens.
func chatBody(more string) string { return rig.Ask("sim-chat", "[[sim tokens=8]] Hello", more) }

// spend asks for a chat, signed in.
func (s *shop) spend(p *chain.Payer, more string) reply {
	s.T.Helper()
	return s.tell("POST", "/chat/completions", chatBody(more), signInHeader, signIn(p))
}

// verified asserts that the books are right, also after farebox has ended.
func (s *shop) verified() {
	s.T.Helper()
	if out, err := s.TryCLI("verify"); err != nil {
		s.T.Errorf("farebox verify: %v\n%s", err, out)
	}
	if wrong := s.facilitator.Complaints(); len(wrong) > 0 {
		s.T.Errorf("the facilitator got a request that is not x402: %q", wrong)
	}
}

// discreet asserts that the log has none of these.
func (s *shop) discreet(secrets ...string) {
	s.T.Helper()
	log := s.Log()
	for _, secret := range secrets {
		if secret != "" && strings.Contains(log, secret) {
			s.T.Errorf("the log has %.60s…", secret)
		}
	}
}
