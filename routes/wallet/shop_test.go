package wallet_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/billing"
	"farebox/config/onchain"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/evm"
	"farebox/providers/x402/payer"
	"farebox/routes"
	"farebox/routes/chat"
	"farebox/routes/routestest"
	own "farebox/routes/wallet"
)

const (
	payTo = "0x2670B922ef37C7Df47158725C0CC407b5382293F"
	usdc  = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"

	shopConfig = `
log: { level: info }
public_url: https://shop.test
limits: { failed_requests: { count: 3 } }
upstreams: [{ name: main, base_url: "http://ADDR/v1" }]
models:
  - id: chat
    tier: unlimited
    context_tokens: 8192
    max_completion_tokens: 100
    price: { input: 1, output: 1000 }
    targets: [{ upstream: main }]
rpc:
  networks: [{ name: base-mainnet, private: true, upstreams: [{ name: node, url: "http://127.0.0.1:9" }] }]
x402:
  networks: [{ network: base, rpc: base-mainnet, pay_to: "` + payTo + `" }]
  facilitators: [{ name: none, url: "http://127.0.0.1:9" }]
  inference: true
  top_up_auth: none
`
	answer = `{"id":"x","object":"chat.completion","created":1,"model":"chat","choices":[{"index":0,"message":` +
		`{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,` +
		`"completion_tokens":50,"total_tokens":60}}`
	chatBody = `{"model":"chat","messages":[{"role":"user","content":"Hi"}]}`
)

// client answers for facilitators and chains as the test sets it up.
type client struct {
	mu       sync.Mutex
	refuse   *onchain.Refusal // by the chain, before any facilitator is asked
	away     error            // the error of every call
	settle   onchain.Reply
	state    onchain.State
	signed   bool // the answer of contracts
	asked    int  // number of questions to them
	proceed  chan struct{}
	prepared int
}

func (d *client) Prepare(_ context.Context, p *onchain.Payment) ([]byte, *onchain.Refusal, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prepared++
	if d.refuse != nil {
		return nil, d.refuse, d.away
	}
	return p.Order, nil, d.away
}

func (d *client) Verify(context.Context, *onchain.Payment) (onchain.Reply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return onchain.Reply{OK: true}, d.away
}

func (d *client) Settle(context.Context, *onchain.Payment) (onchain.Reply, error) {
	if d.proceed != nil {
		d.proceed <- struct{}{} // it has begun
		<-d.proceed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settle, d.away
}

func (d *client) Find(context.Context, *onchain.Payment, string) (onchain.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return onchain.Result{State: d.state, Transaction: "0xfeed", Settled: d.state == onchain.Paid}, d.away
}

func (d *client) ContractSigned(context.Context, string, wallet.Address, [32]byte, []byte) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return d.signed, d.away
}

func (d *client) Offer(string) string      { return "" }
func (d *client) Start()                   {}
func (d *client) Close(any)                {}
func (d *client) set(change func(*client)) { d.mu.Lock(); change(d); d.mu.Unlock() }
func paid() *client                        { return &client{state: onchain.Paid, settle: onchain.Reply{OK: true}} }

// shop is a gateway that wallets pay, with the test's client.
type shop struct {
	*routestest.Rig
	*testing.T
	client *client
}

func openShop(t *testing.T, d *client, lines ...string) *shop {
	t.Helper()
	up := routestest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})
	text := shopConfig
	for _, line := range lines { // a line here wins over the usual one
		name, _, _ := strings.Cut(line, ":")
		var kept []string
		for had := range strings.Lines(text) {
			if !strings.HasPrefix(had, "  "+name+":") {
				kept = append(kept, had)
			}
		}
		text = strings.Join(kept, "") + "  " + line + "\n"
	}
	world := []routes.Capability{chat.New(nil, nil, nil), own.New()}
	rig := routestest.StartWith(t, text, up, func(o *routes.Options) { o.Payments = d }, world...)
	return &shop{rig, t, d}
}

// reply is an answer of the gateway.
type reply struct {
	status int
	header http.Header
	gjson.Result
}

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, r.Raw) }

func (s *shop) tell(method, path, body string, headers ...string) reply {
	s.Helper()
	req, err := http.NewRequest(method, "http://"+s.Address+routes.Prefix+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, gjson.ParseBytes(b)}
}

func newPayer(t *testing.T) *payer.EVM {
	t.Helper()
	var key [32]byte
	_, _ = rand.Read(key[:])
	p, err := payer.ParseEVM(hex.EncodeToString(key[:]))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// payment is a signed payment as it is sent.
func (s *shop) payment(p *payer.EVM, units int64) string {
	s.Helper()
	asset, _ := wallet.ParseAddress(usdc)
	to, _ := wallet.ParseAddress(payTo)
	domain := evm.Domain{Name: "USD Coin", Version: "2", ChainID: big.NewInt(8453), Asset: asset}
	a := &evm.Authorization{From: p.Address(), To: to, Value: evm.NumberOf(units), ValidAfter: evm.NumberOf(0),
		ValidBefore: evm.NumberOf(time.Now().Add(time.Hour).Unix())}
	_, _ = rand.Read(a.Nonce[:])
	header, err := payer.Header(x402.Requirement{Scheme: "exact", Network: "eip155:8453"}, p.Pay(domain.Separator(), a))
	if err != nil {
		s.Fatal(err)
	}
	return header
}

func (s *shop) pay(payment string, more ...string) reply {
	s.Helper()
	return s.tell("POST", "/x402/top-up", "", append([]string{"PAYMENT-SIGNATURE", payment}, more...)...)
}

// signIn is a header that a wallet signed for a path.
func signIn(p *payer.EVM, path string) string { return signAs(p, p.Address(), path) }

// signAs signs for another wallet than the key's.
func signAs(p *payer.EVM, as wallet.Address, path string) string {
	var nonce [8]byte
	_, _ = rand.Read(nonce[:])
	text := "shop.test wants you to sign in with your Ethereum account:\n" + as.Checksummed() +
		"\n\nSign in to Svc\n\nURI: https://shop.test" + routes.Prefix + path + "\nVersion: 1\nChain ID: 8453\nNonce: " +
		hex.EncodeToString(nonce[:]) + "\nIssued At: " + time.Now().UTC().Format(time.RFC3339)
	b, _ := json.Marshal(map[string]any{"address": as.Checksummed(), "message": text, "chainId": 8453,
		"signature": evm.Hex(p.Sign(wallet.PersonalHash(text)))})
	return base64.StdEncoding.EncodeToString(b)
}

func (s *shop) chat(p *payer.EVM) reply {
	s.Helper()
	return s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X", signIn(p, "/chat/completions"))
}

// credit gives a wallet money without a payment.
func (s *shop) credit(p *payer.EVM, amount billing.Nano) {
	s.Helper()
	r := s.pay(s.payment(p, int64(amount)/1000))
	if r.status != 200 {
		s.Fatalf("a top-up is answered %s", r)
	}
}
