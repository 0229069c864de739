package spec

import (
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/enclave"
	"farebox/bench/upstream/facilitator"
	"farebox/bench/upstream/node"
	"farebox/bench/upstream/strict"
	"farebox/tests/rig"
)

//go:embed shop.config
var shopConfig string

// variants are the gateways that rows may ask for: further settings, and those of x402.
var variants = map[string]struct{ more, x402 string }{
	"": {},
	// switched has each switch of compat the other way.
	"switched": {"compat: { accept_max_tokens: true, token_input: true, answer_extras: true, public_catalog: true, error_shape: openai, " +
		"api_key_list: envelope, strict_api_keys: true, rpc_networks: bare, responses_events: sdk, job_status: upper, job_failure: http, openai_images: true }\n" +
		"idempotency: { malformed: ignore }\nresponses: { keep: 1h }\nimages: { branded_styles: true, prompt_model: sim-plain }\n" +
		"system_prompt: Be kind.\ntop_up_url: https://shop.test/pay\ndocs_url: https://shop.test/docs",
		"  inference: true\n  discovery: true\n  top_up_auth: none"},
	// bare sells products that need no further settings, under another name.
	"bare": {more: "brand: acme"},
	// limits has the limits and budgets of a fresh installation.
	"limits": {},
}

const (
	site    = "http://shop.test"
	payEVM  = "0x2670B922ef37C7Df47158725C0CC407b5382293F"
	paySVM  = "AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9"
	million = 1_000_000
	makers  = 8 // accounts that make keys
)

// world is a gateway with all that it sells, and its customers.
type world struct {
	*rig.Gateway
	name        string
	sim         *strict.Server
	evm         *chain.EVM
	solana      *chain.Solana
	facilitator *facilitator.Facilitator
	url         string // of the upstream, without a path
	files       string // where generated content is served

	mu     sync.Mutex
	keys   map[string]func() string
	admins []string
	payers map[string]*chain.Payer
	debts  map[string]debt
	e2ee   struct {
		once   sync.Once
		client *enclave.Client
		model  string
	}
}

// debt is the expected charge of a request in the end.
type debt struct{ usd, row string }

func startWorld(t *testing.T, name string) *world {
	t.Helper()
	w := &world{name: name, sim: strict.New(upstream.Options{Keep: 1 << 15}), keys: map[string]func() string{},
		payers: map[string]*chain.Payer{}, debts: map[string]debt{}}
	where, err := w.sim.StartAll()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.sim.Close)
	w.url = where["SIM_URL"]
	w.evm = chain.NewEVM(chain.EVMOptions{BlockTime: 100 * time.Millisecond})
	w.solana = chain.NewSolana(chain.SolanaOptions{SlotTime: 200 * time.Millisecond})
	w.facilitator = facilitator.New(w.evm, w.solana)
	pay, err := w.facilitator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.facilitator.Close)
	var nodes []string
	for _, o := range []node.Options{{Ledger: w.evm}, {Ledger: w.solana, Solana: true}} {
		n := node.New(o)
		at, err := n.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Close)
		nodes = append(nodes, at)
	}
	files := httptest.NewServer(http.HandlerFunc(serveFile))
	t.Cleanup(files.Close)
	w.files = files.URL
	at, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	w.Gateway = rig.NewGateway(t, "")
	var text strings.Builder
	err = template.Must(template.New("").Parse(shopConfig)).Execute(&text, map[string]any{
		"Name": name, "Dir": w.Dir, "More": variants[name].more, "X402": variants[name].x402, "Intel": where["SIM_INTEL_ROOT"],
		"Nvidia": where["SIM_NVIDIA_ROOT"], "Enclave": where["SIM_ENCLAVE"], "Facilitator": pay, "EVM": nodes[0], "Solana": nodes[1],
		"Networks": networks(), "Sim": w.url, "Port": at.Port(),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.WriteConfig(text.String())
	folder := filepath.Join(w.Dir, "characters")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for slug, text := range cast {
		if err := os.WriteFile(filepath.Join(folder, slug+".yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.ListenAndStart()
	w.NewAccount("a", "10000")
	if name == "bare" {
		return w
	}
	w.CLI("character", "review", "add", "old-tom", "--rating", "5", "--message", "Good stories.", "--locale", "en")
	w.CLI("character", "review", "add", "old-tom", "--rating", "4")
	return w
}

// serveFile serves generated content by its name: /png/64x64.
func serveFile(rw http.ResponseWriter, r *http.Request) {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if kind == "moved" {
		http.Redirect(rw, r, "/"+rest, http.StatusFound)
		return
	}
	content, err := generate(kind + ":" + strings.ReplaceAll(rest, "/", ":"))
	if err != nil {
		http.Error(rw, err.Error(), http.StatusNotFound)
		return
	}
	rw.Header().Set("Content-Type", mediaTypes[kind])
	_, _ = rw.Write(content)
}

var mediaTypes = map[string]string{"png": "image/png", "wav": "audio/wav", "mp3": "audio/mpeg", "mp4": "video/mp4", "txt": "text/plain",
	"pdf": "application/pdf", "film": "video/mp4"}

// networks are those of the specification that the simulated chains of payments do not have.
func networks() []string {
	return strings.Fields(`arbitrum-mainnet arbitrum-sepolia avalanche-fuji avalanche-mainnet base-sepolia blast-mainnet
		blast-sepolia bsc-mainnet bsc-testnet ethereum-holesky ethereum-mainnet ethereum-sepolia linea-mainnet linea-sepolia
		optimism-mainnet optimism-sepolia polygon-amoy polygon-mainnet robinhood-mainnet robinhood-testnet solana-devnet
		starknet-mainnet starknet-sepolia zksync-mainnet zksync-sepolia`)
}

// cast are the characters.
var cast = map[string]string{
	"old-tom": "name: Old Tom\ndescription: Keeps the inn at the ford.\nauthor: farebox\nmodelId: sim-chat\ntags: [fantasy, stories]\n" +
		"categories: [roleplay]\nfeatured: true\ncreatedAt: 2026-11-02T08:15:00Z\nupdatedAt: 2026-11-02T08:15:00Z\nprompt: You are Old Tom, secretinnkeeper.\n",
	"dr-quill": "name: Dr Quill\ndescription: Corrects what you write.\nauthor: farebox\nmodelId: sim-plain\ntags: [writing]\n" +
		"categories: [writing]\nwebEnabled: true\nadult: true\npro: true\ncreatedAt: 2026-10-02T08:15:00Z\nupdatedAt: 2026-10-02T08:15:00Z\nprompt: You are Dr Quill.\n",
}

// key is the client's secret. A customer is created at its first request.
func (w *world) key(as string) string {
	switch as = strings.TrimSuffix(as, "-admin"); as {
	case "none":
		return ""
	case "unknown":
		return "SVC_INFERENCE_KEY_0000000000000000000000000000000000000000"
	case "":
		as = "inference"
	}
	w.mu.Lock()
	if w.keys[as] == nil {
		w.keys[as] = sync.OnceValue(func() string { return w.customer(as) })
	}
	key := w.keys[as]
	w.mu.Unlock()
	return key()
}

// customer makes a key: one of account a, or an ADMIN key of an account of its own.
func (w *world) customer(as string) string {
	made := func(body string) (id, key string) {
		var m struct {
			Data struct{ ID, APIKey string }
		}
		w.Must(200, "POST", "/api_keys", w.key("admin"), body, &m)
		return m.Data.ID, m.Data.APIKey
	}
	key := ""
	switch as {
	case "admin":
		return w.bookkeeper("a")
	case "inference":
		_, key = made(`{"apiKeyType":"INFERENCE","description":"x"}`)
	case "capped":
		_, key = made(`{"consumptionLimit":{"usd":0}}`)
	case "private":
		_, key = made(`{"modelPrivacy":"PRIVATE_ONLY"}`)
	case "private-text":
		_, key = made(`{"modelPrivacy":"PRIVATE_TEXT"}`)
	case "revoked":
		var id string
		id, key = made(`{}`)
		w.Must(200, "DELETE", "/api_keys?id="+id, w.key("admin"), "", nil)
	case "suspended":
		w.NewAccount(as, "10")
		key = w.Key(as)
		w.CLI("account", "suspend", as)
	case "capped-diem":
		w.NewAccount(as, "10")
		w.CLI("account", "diem", as, "--daily", "5")
		key = w.Key(as, "--limit-diem", "0")
	default:
		if strings.HasPrefix(as, "own-") || strings.HasPrefix(as, "maker") {
			return w.walletCustomer(as)
		}
		usd := map[string]string{"poor": "0.05", "mixed": "10", "keyed": "10", "thin": "10", "fifth": "0.2", "limits-user": "10"}[as]
		w.NewAccount(as, usd)
		if as == "diem" || as == "mixed" {
			w.CLI("account", "diem", as, "--daily", "5")
		}
		if as == "thin" {
			w.CLI("account", "diem", as, "--daily", "0.1")
		}
		if as == "mixed" {
			w.Credit(as, "5", "--currency", "BUNDLED_CREDITS")
		}
		key = w.bookkeeper(as)
	}
	return key
}

// walletCustomer is a customer whose account is that of a wallet, which takes no command: it makes
// its own ADMIN key and pays 10 USD in. Makers of keys pay nothing.
func (w *world) walletCustomer(as string) string {
	p := w.payer(as)
	var token, made struct {
		Data struct{ Token, APIKey string }
	}
	w.Must(200, "GET", rig.Web3Path, "", "", &token)
	w.Must(200, "POST", rig.Web3Path, "", fmt.Sprintf(`{"address":%q,"signature":"0x%x","token":%q,"apiKeyType":"ADMIN"}`, p.Address,
		p.SignDigest(chain.PersonalDigest(token.Data.Token)), token.Data.Token), &made)
	switch {
	case strings.HasPrefix(as, "maker"):
	case w.name == "limits": // where top-ups are limited
		w.Credit(p.Address, "10")
	default:
		payment, err := w.payment([]string{as, "10"})
		if err != nil {
			w.T.Fatal(err)
		}
		req, err := http.NewRequest(http.MethodPost, w.URL+"/x402/top-up", nil)
		if err != nil {
			w.T.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+made.Data.APIKey)
		req.Header.Set("X-402-Payment", payment)
		res, err := rig.Client.Do(req)
		if err != nil || res.StatusCode != 200 {
			w.T.Fatalf("a top-up of %s is answered %v (%v)", as, res, err)
		}
		_ = res.Body.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.admins = append(w.admins, made.Data.APIKey)
	return made.Data.APIKey
}

// bookkeeper is an ADMIN key of an account, with which settle reads its payments.
func (w *world) bookkeeper(account string) string {
	key := w.Key(account, "--type", "ADMIN")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.admins = append(w.admins, key)
	return key
}

func (w *world) received() []upstream.Received { return w.sim.Last() }

// owes notes the expected charge of a request.
func (w *world) owes(request, usd, row string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.debts[request] = debt{usd, row}
}

// payer is a wallet with a name; a name that begins with sol is one of Solana.
func (w *world) payer(name string) *chain.Payer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.payers[name] == nil {
		w.payers[name] = chain.NewPayer()
		if strings.HasPrefix(name, "sol") {
			w.payers[name] = chain.NewSolanaPayer()
		}
	}
	return w.payers[name]
}

// value is the value of a variable: NAME or NAME:ARGUMENT:ARGUMENT.
func (w *world) value(name string) (string, error) {
	name, args, _ := strings.Cut(name, ":")
	arg := strings.Split(args, ":")
	switch name {
	case "url":
		return w.URL, nil
	case "sim":
		return w.url, nil
	case "files":
		return w.files, nil
	case "secret":
		return w.key(args), nil
	case "text": // so many characters
		n, err := strconv.Atoi(args)
		return strings.Repeat("x", n), err
	case "repeat":
		n, err := strconv.Atoi(arg[0])
		return strings.Repeat(strings.Join(arg[1:], ":"), n), err
	case "words": // so many of JSON
		n, err := strconv.Atoi(args)
		return strings.TrimSuffix(strings.Repeat(`"a",`, n), ","), err
	case "calls": // so many of a chain
		n, err := strconv.Atoi(args)
		return strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},`, n), ","), err
	case "now", "day":
		d, err := time.ParseDuration(args)
		if args == "" {
			d, err = 0, nil
		}
		layout := "2006-01-02T15:04:05.000Z"
		if name == "day" {
			layout = time.DateOnly
		}
		return time.Now().UTC().Add(d).Format(layout), err
	case "b64", "data":
		content, err := generate(args)
		text := base64.StdEncoding.EncodeToString(content)
		if name == "data" {
			text = "data:" + mediaTypes[arg[0]] + ";base64," + text
		}
		return text, err
	case "wallet": // the address of a payer
		return w.payer(args).Address, nil
	case "checksum":
		return chain.Checksummed(w.payer(args).Address), nil
	case "fresh": // another variable, which stays the same in a row
		return w.value(args)
	case "signin": // by a payer; further words change it
		return w.signIn(arg[0], arg[1:])
	case "pay": // by a payer, so many USD; further words change it
		return w.payment(arg)
	case "web3": // a payer's signature of a token
		p := w.payer(arg[0])
		return "0x" + hex.EncodeToString(p.SignDigest(chain.PersonalDigest(strings.Join(arg[1:], ":")))), nil
	case "e2ee": // public, model, or a text that is sealed
		return w.encrypted(arg)
	}
	return "", fmt.Errorf("there is no variable %q", name)
}

// settle compares the charges of requests with the expected ones.
func (w *world) settle(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	debts := w.debts
	w.mu.Unlock()
	if len(debts) == 0 {
		return
	}
	// When this request is in the list, so is everything before it.
	status, header, body := w.Post("/image/generate", w.key("inference"), `{"model":"sim-image","prompt":"the last one","width":64,"height":64}`)
	if status != 200 {
		t.Fatalf("the last request is answered %d %s", status, body)
	}
	w.owes(header.Get("X-Request-Id"), "0.01", "the last one")
	w.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	var sums map[string]rig.Money
	var wrong []string
	for end := time.Now().Add(untilLimit); ; time.Sleep(200 * time.Millisecond) {
		sums = w.sums(t)
		wrong = nil
		for id, d := range debts {
			var want rig.Money
			if err := want.UnmarshalJSON([]byte(strconv.Quote(d.usd))); err != nil {
				t.Fatal(d, err)
			}
			if sums[id] != want {
				wrong = append(wrong, fmt.Sprintf("%s: it cost %s, not %s (request %s)", d.row, sums[id], want, id))
			}
		}
		if len(wrong) == 0 || time.Now().After(end) {
			break
		}
	}
	for _, text := range wrong {
		t.Error(text)
	}
}

// sums are the charges of each request.
func (w *world) sums(t *testing.T) map[string]rig.Money {
	t.Helper()
	sums := map[string]rig.Money{}
	for _, key := range w.admins {
		for cursor := "?pageSize=1000"; ; {
			status, _, body := w.Get("/billing/usage-history"+cursor, key)
			if status != 200 {
				t.Fatalf("the usage is answered %d %s", status, body)
			}
			for _, e := range gjson.GetBytes(body, "data").Array() {
				var m rig.Money
				if err := m.UnmarshalJSON([]byte(strconv.Quote(e.Get("amount").Raw))); err != nil {
					t.Fatalf("%s: %v", e.Raw, err)
				}
				sums[e.Get("inferenceDetails.requestId").Str] -= m
			}
			next := gjson.GetBytes(body, "nextCursor").Str
			if next == "" {
				break
			}
			cursor = "?cursor=" + next
		}
	}
	return sums
}
