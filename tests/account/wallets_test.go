package account

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/crypto/sha3"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// wallet is an EVM wallet in the test's hands.
type wallet struct {
	key     *secp256k1.PrivateKey
	address string // lower case
}

func keccak256(b ...[]byte) []byte {
	h := sha3.NewLegacyKeccak256()
	for _, p := range b {
		h.Write(p)
	}
	return h.Sum(nil)
}

func newWallet(t *testing.T) *wallet {
	t.Helper()
	key, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	return walletOf(key)
}

func walletOf(key *secp256k1.PrivateKey) *wallet {
	sum := keccak256(key.PubKey().SerializeUncompressed()[1:])
	return &wallet{key, "0x" + hex.EncodeToString(sum[12:])}
}

// sign is personal_sign (EIP-191): r, s, v as hexadecimal digits.
func (w *wallet) sign(text string) string {
	sum := keccak256([]byte("\x19Ethereum Signed Message:\n"+strconv.Itoa(len(text))), []byte(text))
	compact := ecdsa.SignCompact(w.key, sum, false)
	return "0x" + hex.EncodeToString(append(compact[1:], compact[0]))
}

func web3Token(g *rig.Gateway) string {
	g.T.Helper()
	var token struct {
		Success bool
		Data    struct{ Token string }
	}
	g.Must(200, "GET", rig.Web3Path, "", "", &token)
	if !token.Success || strings.Count(token.Data.Token, ".") != 2 {
		g.T.Fatalf("the token is %+v", token)
	}
	return token.Data.Token
}

// web3Body asks for a key; more members may follow.
func web3Body(address, signature, token, more string) string {
	return fmt.Sprintf(`{"apiKeyType":"INFERENCE","address":%q,"signature":%q,"token":%q%s}`, address, signature, token,
		more)
}

func web3Config(url, rules string) string {
	return fmt.Sprintf(rig.PrepaidConfig, url) + "web3_keys: { per_ip: 0, " + rules + " }\n"
}

// A wallet signs a token and gets a key of an account of its own; the token
// works once, also after a restart.
func TestWalletMakesAKeyForItself(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, web3Config(sim.URL, "require: none"))
	w := newWallet(t)
	token := web3Token(g)
	var m made
	body := web3Body(w.address, w.sign(token), token, "")
	g.Must(200, "POST", rig.Web3Path, "", body, &m)
	if d := &m.Data; !m.Success || d.Description != "Web3 API Key" || d.APIKeyType != "INFERENCE" ||
		d.LimitPeriod != "EPOCH" || d.ModelPrivacy != "ALL" || d.ExpiresAt != nil ||
		string(d.ConsumptionLimit.USD) != "null" {
		t.Errorf("made as %+v", m)
	}
	if _, ok := g.Accounts()[w.address]; !ok {
		t.Errorf("the wallet %s has no account: %v", w.address, g.Accounts())
	}
	g.Must(402, "POST", "/chat/completions", m.Data.APIKey, rig.Ask("sim-chat", "Hello", ""), nil)
	g.Credit(w.address, "1")
	g.Must(200, "POST", "/chat/completions", m.Data.APIKey, rig.Ask("sim-chat", "Hello", ""), nil)

	again := func() {
		t.Helper()
		if answer := g.Must(400, "POST", rig.Web3Path, "", body, nil); !strings.Contains(string(answer),
			"JWT claims are invalid") || !strings.Contains(string(answer), "used before") {
			t.Errorf("a used token: %s", answer)
		}
	}
	again()
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g.Start()
	again()

	// A second key of the same wallet, ADMIN, with everything given.
	token = web3Token(g)
	g.Must(200, "POST", rig.Web3Path, "", strings.Replace(web3Body(strings.ToUpper(w.address[2:]), w.sign(token), token,
		`,"description":"mine","consumptionLimit":{"usd":5,"diem":1,"vcu":10},"limitPeriod":"MONTH","expiresAt":"2031-01-01","modelPrivacy":"PRIVATE_ONLY"`), `"address":"`, `"address":"0x`, 1), &m)
	if m.Data.Description != "mine" || string(m.Data.ConsumptionLimit.USD) != "5" || m.Data.LimitPeriod != "MONTH" ||
		m.Data.ModelPrivacy != "PRIVATE_ONLY" || *m.Data.ExpiresAt != "2031-01-01T00:00:00.000Z" {
		t.Errorf("made as %+v", m)
	}
	token = web3Token(g)
	g.Must(200, "POST", rig.Web3Path, "", strings.Replace(web3Body(w.address, w.sign(token), token, ""), "INFERENCE",
		"ADMIN", 1), &m)
	var list []apiKey
	g.Must(200, "GET", "/api_keys", m.Data.APIKey, "", &list)
	if len(list) != 3 || len(g.Accounts()) != 1 {
		t.Errorf("%d keys and %d accounts of one wallet", len(list), len(g.Accounts()))
	}
}

// The wallets of viem and ethers sign the token as they are.
func TestLongWalletPackages(t *testing.T) {
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, web3Config(sim.URL, "require: none"))
	out := g.RunSuite(t, nil, rig.NodeDir, "node", "--test", "--test-reporter=spec", "wallets.suite.mjs")
	rig.Counted(t, out, `(?m)^\S* ?tests (\d+)$`)
	if n := len(g.Accounts()); n != 2 {
		t.Errorf("%d accounts for two wallets", n)
	}
}

// Every refusal is a 400 with the words that clients look for, and a refused
// try does not use the token up.
func TestWalletKeysAreRefusedWithTheRightWords(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, web3Config("http://127.0.0.1:9", "require: none"))
	w, stranger := newWallet(t), newWallet(t)
	token := web3Token(g)
	good := w.sign(token)
	raw, err := hex.DecodeString(good[2:])
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(sig []byte)) string {
		sig := append([]byte(nil), raw...)
		f(sig)
		return "0x" + hex.EncodeToString(sig)
	}
	// The other s of the same signature is as valid to the curve.
	high := change(func(sig []byte) {
		var s secp256k1.ModNScalar
		s.SetByteSlice(sig[32:64])
		s.Negate()
		b := s.Bytes()
		copy(sig[32:64], b[:])
		sig[64] = 27 + 28 - sig[64]
	})
	forged := func(method jwt.SigningMethod, key any, change func(jwt.MapClaims)) string {
		claims := jwt.MapClaims{}
		_, _, err := jwt.NewParser().ParseUnverified(token, claims)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(claims)
		}
		text, err := jwt.NewWithClaims(method, claims).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	parts := strings.Split(token, ".")
	mixed := []byte(w.address) // one wrong capital breaks the checksum
	for i := 2; i < len(mixed); i++ {
		if mixed[i] >= 'a' {
			mixed[i] -= 'a' - 'A'
			break
		}
	}
	if strings.ToUpper(string(mixed[2:])) == string(mixed[2:]) || string(mixed) == checksummed(w.address) {
		mixed = []byte(strings.Replace(string(mixed), "x", "y", 1))
	}
	for name, c := range map[string]struct{ body, words string }{
		"no address":     {web3Body("", good, token, ""), "Invalid wallet address"},
		"short address":  {web3Body(w.address[:41], good, token, ""), "Invalid wallet address"},
		"without 0x":     {web3Body(w.address[2:], good, token, ""), "Invalid wallet address"},
		"no digits":      {web3Body("0x"+strings.Repeat("g", 40), good, token, ""), "Invalid wallet address"},
		"wrong checksum": {web3Body(string(mixed), good, token, ""), "Invalid wallet address"},
		"solana address": {web3Body("AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9", good, token, ""),
			"Invalid wallet address"},
		"another wallet":  {web3Body(stranger.address, good, token, ""), "Wallet signature does not match"},
		"another signer":  {web3Body(w.address, stranger.sign(token), token, ""), "Wallet signature does not match"},
		"another text":    {web3Body(w.address, w.sign(token+" "), token, ""), "Wallet signature does not match"},
		"raw hash signed": {web3Body(w.address, rawSign(w, token), token, ""), "Wallet signature does not match"},
		"flipped v": {web3Body(w.address, change(func(s []byte) { s[64] ^= 7 }), token, ""),
			"Wallet signature does not match"},
		"high s": {web3Body(w.address, high, token, ""), "Could not verify wallet signature"},
		"v 29": {web3Body(w.address, change(func(s []byte) { s[64] = 29 }), token, ""),
			"Could not verify wallet signature"},
		"v 2": {web3Body(w.address, change(func(s []byte) { s[64] = 2 }), token, ""),
			"Could not verify wallet signature"},
		"r zero": {web3Body(w.address, change(func(s []byte) { clear(s[:32]) }), token, ""),
			"Could not verify wallet signature"},
		"s zero": {web3Body(w.address, change(func(s []byte) { clear(s[32:64]) }), token, ""),
			"Could not verify wallet signature"},
		"short signature": {web3Body(w.address, good[:len(good)-2], token, ""), "Could not verify wallet signature"},
		"contract signature": {web3Body(w.address, good+strings.Repeat("ab", 65), token, ""),
			"Could not verify wallet signature"},
		"no hex": {web3Body(w.address, "0x"+strings.Repeat("zz", 65), token, ""),
			"Could not verify wallet signature"},
		"empty signature": {web3Body(w.address, "", token, ""), "Could not verify wallet signature"},
		"no token":        {web3Body(w.address, good, "", ""), "JWT is malformed"},
		"half a token":    {web3Body(w.address, good, parts[0]+"."+parts[1], ""), "JWT is malformed"},
		"noise":           {web3Body(w.address, good, "a.b.c", ""), "JWT is malformed"},
		"changed signature": {web3Body(w.address, good, parts[0]+"."+parts[1]+"."+strings.Repeat("A", 43), ""),
			"JWT signature is invalid"},
		"own secret": {web3Body(w.address, good, forged(jwt.SigningMethodHS256, []byte("mine"), nil), ""),
			"JWT signature is invalid"},
		"alg none": {web3Body(w.address, good, forged(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType,
			nil), ""), "JWT signature is invalid"},
		"alg HS512": {web3Body(w.address, good, forged(jwt.SigningMethodHS512, []byte("mine"), nil), ""),
			"JWT signature is invalid"},
		"longer life": {web3Body(w.address, good, forged(jwt.SigningMethodHS256, []byte("mine"),
			func(c jwt.MapClaims) { c["exp"] = time.Now().Add(time.Hour).Unix() }), ""), "JWT signature is invalid"},
		"no type": {strings.Replace(web3Body(w.address, good, token, ""), `"apiKeyType":"INFERENCE",`, "", 1),
			"apiKeyType: is required"},
		"unknown member": {web3Body(w.address, good, token, `,"chain":1`), "chain: is not accepted"},
		"id":             {web3Body(w.address, good, token, `,"id":"x"`), "id: is not accepted"},
		"bad limit":      {web3Body(w.address, good, token, `,"consumptionLimit":{"usd":-1}`), "consumptionLimit.usd"},
	} {
		if answer := g.Must(400, "POST", rig.Web3Path, "", c.body, nil); !strings.Contains(string(answer), c.words) {
			t.Errorf("%s: %s", name, answer)
		}
	}
	if n := len(g.Accounts()); n != 0 {
		t.Errorf("refused tries made %d accounts", n)
	}
	// v may be 0 or 1, the address may carry its checksum; the token still works.
	low := change(func(s []byte) { s[64] -= 27 })
	g.Must(200, "POST", rig.Web3Path, "", web3Body(checksummed(w.address), low, token, ""), nil)
}

// rawSign signs the text's hash without the prefix of EIP-191, as a phished
// transaction would be.
func rawSign(w *wallet, text string) string {
	compact := ecdsa.SignCompact(w.key, keccak256([]byte(text)), false)
	return "0x" + hex.EncodeToString(append(compact[1:], compact[0]))
}

// checksummed is EIP-55.
func checksummed(address string) string {
	text := []byte(address[2:])
	sum := keccak256(text)
	for i, c := range text {
		if sum[i/2]>>(4*(1-i%2))&15 >= 8 && c >= 'a' {
			text[i] = c - 'a' + 'A'
		}
	}
	return "0x" + string(text)
}

// Of many that send one signed token at once, one gets a key.
func TestTokenWorksOnceUnderConcurrency(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, web3Config("http://127.0.0.1:9", "require: none"))
	w := newWallet(t)
	for range 5 {
		token := web3Token(g)
		body := web3Body(w.address, w.sign(token), token, "")
		var got atomic.Int64
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				status, _, answer := g.Post(rig.Web3Path, "", body)
				switch status {
				case 200:
					got.Add(1)
				case 400:
				default:
					t.Errorf("answered %d %s", status, answer)
				}
			})
		}
		wg.Wait()
		if got.Load() != 1 {
			t.Errorf("one token made %d keys", got.Load())
		}
	}
}

// The operator chooses the wallets that may make keys.
func TestWalletKeysFollowTheOperatorsRule(t *testing.T) {
	t.Parallel()
	known, listed, stranger := newWallet(t), newWallet(t), newWallet(t)
	text := func(rules string) string { return web3Config("http://127.0.0.1:9", rules) }
	g := rig.StartGateway(t, text("require: ledger")+"top_up_url: https://pay.example.com/\n")
	g.NewAccount(known.address, "")
	try := func(w *wallet) (int, string) {
		t.Helper()
		token := web3Token(g)
		status, _, answer := g.Post(rig.Web3Path, "", web3Body(w.address, w.sign(token), token, ""))
		return status, string(answer)
	}
	if status, answer := try(known); status != 200 {
		t.Errorf("ledger: a wallet with an account gets %d %s", status, answer)
	}
	token := web3Token(g)
	body := web3Body(stranger.address, stranger.sign(token), token, "")
	if answer := g.Must(400, "POST", rig.Web3Path, "", body, nil); !strings.Contains(string(answer), "no account") ||
		!strings.Contains(string(answer), "https://pay.example.com/") {
		t.Errorf("ledger: a stranger gets %s", answer)
	}
	g.NewAccount(stranger.address, "5") // topped up: the same token still works
	g.Must(200, "POST", rig.Web3Path, "", body, nil)

	reload := func(rules string, reached func() bool) {
		t.Helper()
		g.WriteConfig(text(rules))
		g.Signal(rig.Hangup)
		for end := time.Now().Add(time.Minute); !reached(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the config with %s did not come into force", rules)
			}
		}
	}
	reload(`require: allowlist, allow: ["`+checksummed(listed.address)+`"]`,
		func() bool { status, _ := try(known); return status == 400 })
	if status, answer := try(listed); status != 200 {
		t.Errorf("allowlist: a listed wallet gets %d %s", status, answer)
	}
	if _, answer := try(known); !strings.Contains(answer, "may not create") {
		t.Errorf("allowlist: another gets %s", answer)
	}
	reload("require: deny", func() bool { status, _, _ := g.Get(rig.Web3Path, ""); return status == 403 })
	g.Must(403, "POST", rig.Web3Path, "", body, nil)
}

// Requests for wallet keys carry no credential, so their number is bounded by
// client address.
func TestWalletKeysAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:9")+"web3_keys: { per_ip: 5 }\n")
	for range 5 {
		web3Token(g)
	}
	status, header, answer := g.Post(rig.Web3Path, "", `{}`)
	if status != 429 || header.Get("Retry-After") == "" || !json.Valid(answer) {
		t.Errorf("the sixth request of a minute is answered %d %v %s", status, header, answer)
	}
}
