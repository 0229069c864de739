package wallet

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream/chain"
	"farebox/tests/rig"
)

// in are the members of a header for our shop, changed before or after it is signed.
func in(p *chain.Payer, before func(s *chain.SignIn), after func(m map[string]any)) string {
	s := chain.SignIn{Domain: domain, URI: origin + "/api/v1"}
	if before != nil {
		before(&s)
	}
	m := p.SignInMembers(s)
	if after != nil {
		after(m)
	}
	return chain.Header(m)
}

// Both chains sign in, with either header and every spelling of the chain.
func TestWalletsSignInAsTheyAreUsedTo(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	p, q := s.customer(chain.NewPayer(), 5*usd), s.customer(chain.NewSolanaPayer(), 5*usd)
	set := func(name string, value any) func(m map[string]any) {
		return func(m map[string]any) { m[name] = value }
	}
	fields := func(p *chain.Payer) func(m map[string]any) {
		return func(m map[string]any) {
			text := m["message"].(string)
			value := func(name string) string {
				_, rest, _ := strings.Cut(text, "\n"+name+": ")
				line, _, _ := strings.Cut(rest, "\n")
				return line
			}
			delete(m, "message")
			m["domain"], m["uri"], m["version"], m["nonce"] = domain, value("URI"), "1", value("Nonce")
			m["issuedAt"] = value("Issued At")
			m["type"] = map[bool]string{true: "ed25519", false: "eip191"}[p.IsSolana()]
		}
	}
	bare := func(i *chain.SignIn) { i.ChainID = strings.TrimPrefix(solana, "solana:") }
	later := func(i *chain.SignIn) { i.Expires = time.Now().Add(time.Hour) }
	for name, c := range map[string]struct {
		p      *chain.Payer
		before func(i *chain.SignIn)
		after  func(m map[string]any)
	}{
		"plain": {p, nil, nil}, "a number": {p, nil, set("chainId", 8453)}, "a text": {p, nil, set("chainId", "8453")},
		"CAIP-2": {p, nil, set("chainId", base)}, "lower case": {p, nil, set("address", p.Address)},
		"with its time": {p, nil, set("timestamp", time.Now().UnixMilli())}, "with an end": {p, later, nil},
		"with a statement":         {p, func(i *chain.SignIn) { i.Statement = "Sign in to see your balance." }, nil},
		"the bare origin":          {p, func(i *chain.SignIn) { i.URI = origin }, nil},
		"in fields":                {p, nil, fields(p)},
		"Solana":                   {q, nil, nil},
		"Solana, with a statement": {q, func(i *chain.SignIn) { i.Statement = "Hello." }, nil},
		"Solana, bare":             {q, bare, set("chainId", solana)}, "Solana, in fields": {q, bare, func(m map[string]any) {
			fields(q)(m)
			m["chainId"] = solana
		}},
	} {
		for _, header := range []string{"SIGN-IN-WITH-X", "X-Sign-In-With-X"} {
			r := s.tell("GET", "/x402/balance/"+c.p.Address, "", header, in(c.p, c.before, c.after))
			if r.status != 200 || r.Get("data.walletAddress").Str != c.p.Address || r.Get("data.balanceUsd").Raw != "5" ||
				!r.Get("data.canConsume").Bool() || r.Get("data.minimumTopUpUsd").Int() != 5 ||
				r.Get("data.suggestedTopUpUsd").Int() != 10 {
				t.Errorf("%s in %s: %s", name, header, r)
			}
		}
	}
	// The path may be written with its checksum.
	if r := s.tell("GET", "/x402/balance/"+chain.Checksummed(p.Address), "", signInHeader, signIn(p)); r.status != 200 {
		t.Errorf("with a checksum: %s", r)
	}
}

// Each refusal has its code, and a signature for another site opens nothing.
func TestSignInsAreRefusedByTheirCode(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	p := s.customer(chain.NewPayer(), 5*usd)
	other := chain.NewPayer()
	now := time.Now()
	set := func(name string, value any) func(m map[string]any) {
		return func(m map[string]any) { m[name] = value }
	}
	change := func(old, with string) func(m map[string]any) {
		return func(m map[string]any) { m["message"] = strings.Replace(m["message"].(string), old, with, 1) }
	}
	for _, c := range []struct {
		name, header string
		codes        string
	}{
		{"no base64", "!!", "INVALID_PAYLOAD"},
		{"a list", "W10=", "INVALID_PAYLOAD"},
		{"no message", in(p, nil, set("message", "")), "INVALID_PAYLOAD INVALID_MESSAGE PARSE_ERROR"},
		{"no lines", in(p, nil, set("message", "hello")), "INVALID_MESSAGE PARSE_ERROR"},
		{"another address", in(p, nil, set("address", chain.Checksummed(other.Address))), "ADDRESS_MISMATCH"},
		{"no address", in(p, nil, set("address", "0x12")), "INVALID_WALLET INVALID_PAYLOAD"},
		{"no chain", in(p, nil, set("chainId", "base!")), "INVALID_CHAIN_ID UNSUPPORTED_CHAIN"},
		{"another chain in the message", in(p, func(i *chain.SignIn) { i.ChainID = "1" }, set("chainId", 8453)),
			"CHAIN_MISMATCH"},
		{"another chain", in(p, func(i *chain.SignIn) { i.ChainID = "1" }, set("chainId", 1)), "UNSUPPORTED_CHAIN"},
		{"another family", in(p, nil, set("chainId", solana)),
			"CHAIN_MISMATCH INVALID_WALLET ADDRESS_MISMATCH INVALID_PAYLOAD"},
		{"no nonce", in(p, nil, func(m map[string]any) {
			text := m["message"].(string)
			from := strings.Index(text, "\nNonce: ")
			m["message"] = text[:from] + text[strings.Index(text, "\nIssued At"):]
		}), "MISSING_NONCE INVALID_MESSAGE PARSE_ERROR"},
		{"a short nonce", in(p, func(i *chain.SignIn) { i.Nonce = "abc" }, nil), "MISSING_NONCE INVALID_MESSAGE PARSE_ERROR"},
		{"another site", in(p, func(i *chain.SignIn) { i.Domain = "evil.test" }, nil), "DOMAIN_MISMATCH"},
		{"another site's address", in(p, func(i *chain.SignIn) { i.URI = "https://evil.test/api/v1" }, nil),
			"DOMAIN_MISMATCH"},
		{"the Host of the request", in(p, func(i *chain.SignIn) { i.Domain = s.Addr }, nil), "DOMAIN_MISMATCH"},
		{"another time beside it", in(p, nil, set("timestamp", now.Add(-time.Minute).UnixMilli())), "TIMESTAMP_MISMATCH"},
		{"too old", in(p, func(i *chain.SignIn) { i.IssuedAt = now.Add(-6 * time.Minute) }, nil), "EXPIRED"},
		{"over", in(p, func(i *chain.SignIn) {
			i.IssuedAt, i.Expires = now.Add(-time.Minute), now.Add(-time.Second)
		}, nil), "EXPIRED"},
		{"of the future", in(p, func(i *chain.SignIn) { i.IssuedAt = now.Add(2 * time.Minute) }, nil), "FUTURE_TIMESTAMP"},
		{"not yet", in(p, func(i *chain.SignIn) { i.NotBefore = now.Add(5 * time.Minute) }, nil), "NOT_BEFORE"},
		{"version 2", in(p, func(i *chain.SignIn) { i.Version = "2" }, nil), "INVALID_MESSAGE"},
		{"another text", in(p, func(i *chain.SignIn) { i.Statement = "I give all" }, change("I give all", "I give one")),
			"INVALID_SIGNATURE"},
		{"signed by another", in(p, nil, set("signature", other.SignInMembers(chain.SignIn{Domain: domain,
			URI: origin})["signature"])), "INVALID_SIGNATURE"},
		{"no signature", in(p, nil, set("signature", "0x00")), "INVALID_SIGNATURE INVALID_PAYLOAD"},
	} {
		r := s.tell("GET", "/x402/balance/"+p.Address, "", signInHeader, c.header)
		code, ours := strings.CutPrefix(r.Get("code").Str, "X402_SIGN_IN_")
		if r.status != 401 || !ours || !strings.Contains(" "+c.codes+" ", " "+code+" ") || r.Get("error").Str == "" {
			t.Errorf("%s: %s, not 401 %s", c.name, r, c.codes)
		}
	}
	if r := s.tell("GET", "/x402/balance/"+p.Address, ""); r.status != 401 || r.Get("code").Str != "X402_INVALID_SIGN_IN" {
		t.Errorf("without the header: %s", r)
	}
	if r := s.balance(p); r.status != 200 {
		t.Errorf("a good one afterwards: %s", r)
	}
}

// A wallet sees its own ledger only; a key opens none.
func TestAWalletSeesItsOwnLedgerOnly(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	p, stranger := s.customer(chain.NewPayer(), 5*usd), chain.NewPayer()
	s.NewAccount("operator", "5")
	key := s.Key("operator", "--type", "ADMIN")
	for _, path := range []string{"/x402/balance/", "/x402/transactions/"} {
		if r := s.tell("GET", path+p.Address, "", signInHeader, signIn(stranger)); r.status != 403 ||
			r.Get("code").Str != "X402_WALLET_MISMATCH" {
			t.Errorf("a stranger asks %s: %s", path, r)
		}
		if r := s.tell("GET", path+stranger.Address, "", signInHeader, signIn(stranger)); r.status != 404 {
			t.Errorf("without a ledger %s: %s", path, r)
		}
		for _, address := range []string{"0x12", "nobody", p.Address[:41], "0x" + strings.Repeat("g", 40)} {
			if r := s.tell("GET", path+address, "", signInHeader, signIn(p)); r.status != 400 {
				t.Errorf("%s%s: %s", path, address, r)
			}
		}
		if r := s.tell("GET", path+p.Address, "", "Authorization", "Bearer "+key); r.status != 401 {
			t.Errorf("a key opens %s: %s", path, r)
		}
		r := s.tell("GET", path+p.Address, "", "Authorization", "Bearer nonsense", signInHeader, signIn(p))
		if r.status != 200 {
			t.Errorf("a key beside it, on %s: %s", path, r)
		}
	}
}

// A sign-in counts once: on every path, at once, after a restart.
func TestANonceCountsOnce(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, func(t *testing.T, store string) {
		s := openShopOn(t, store, options{})
		p := s.customer(chain.NewPayer(), 5*usd)
		header := signIn(p)
		var passed atomic.Int64
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				switch r, err := tell(s.Gateway, "GET", "/x402/balance/"+p.Address, "", signInHeader, header); {
				case err != nil:
					t.Error(err)
				case r.status == 200:
					passed.Add(1)
				case r.status != 401 || r.Get("code").Str != "X402_SIGN_IN_NONCE_REUSED":
					t.Errorf("answered %s", r)
				}
			})
		}
		all.Wait()
		if passed.Load() != 1 {
			t.Errorf("one sign-in passed %d times", passed.Load())
		}
		s.Kill()
		s.Start()
		for _, path := range []string{"/x402/balance/" + p.Address, "/x402/transactions/" + p.Address} {
			if r := s.tell("GET", path, "", signInHeader, header); r.status != 401 {
				t.Errorf("after a kill, %s is answered %s", path, r)
			}
		}
		if r := s.tell("POST", "/chat/completions", chatBody(""), signInHeader, header); r.status != 401 {
			t.Errorf("after a kill, a chat is answered %s", r)
		}
	})
}

// Where the operator says so, a header holds until it is too old.
func TestASignInMayBeReusable(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{x402: `sign_in: { domains: [shop.test], origins: ["http://shop.test"], nonce: reusable }`})
	p := s.customer(chain.NewPayer(), 5*usd)
	header := signIn(p)
	for i := range 5 {
		if r := s.tell("POST", "/chat/completions", chatBody(""), signInHeader, header); r.status != 200 {
			t.Errorf("use %d: %s", i, r)
		}
	}
}

// Strangers who sign in leave nothing behind: neither accounts nor nonces.
func TestStrangersLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	for range 20 {
		p := chain.NewPayer()
		header := signIn(p)
		for range 2 { // the second is not reuse, since nothing was kept
			if r := s.tell("GET", "/x402/balance/"+p.Address, "", signInHeader, header); r.status != 404 {
				t.Errorf("answered %s", r)
			}
			r := s.tell("POST", "/chat/completions", chatBody(""), signInHeader, header)
			if r.status != 402 || r.Get("code").Str != "PAYMENT_REQUIRED" || r.Get("currentBalanceUsd").Raw != "0" {
				t.Errorf("a chat is answered %s", r)
			}
		}
	}
	if n := len(s.Accounts()); n != 0 {
		t.Errorf("strangers made %d accounts", n)
	}
}

// Keys for wallets are made as ever, beside x402; and spend the wallet's payments.
func TestAWalletsKeySpendsTheWalletsPayments(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{inference: "false", more: "web3_keys: { require: ledger, per_ip: 0 }"})
	p := chain.NewPayer()
	try := func() reply {
		token := s.tell("GET", rig.Web3Path, "").Get("data.token").Str
		return s.tell("POST", rig.Web3Path, fmt.Sprintf(`{"apiKeyType":"INFERENCE","address":%q,"signature":%q,"token":%q}`,
			p.Address, fmt.Sprintf("0x%x", p.SignDigest(chain.PersonalDigest(token))), token))
	}
	if r := try(); r.status != 400 || !strings.Contains(r.Get("error").Str, "no account") {
		t.Errorf("before it paid: %s", r)
	}
	s.customer(p, 5*usd)
	r := try()
	key := r.Get("data.apiKey").Str
	if r.status != 200 || key == "" {
		t.Fatalf("after it paid: %s", r)
	}
	if r := s.tell("POST", "/chat/completions", chatBody(""), "Authorization", "Bearer "+key); r.status != 200 {
		t.Errorf("a chat with the key: %s", r)
	}
	if r := s.spend(p, ""); r.status != 401 {
		t.Errorf("without inference a signed chat is answered %s", r)
	}
	if left := s.balance(p).Get("data.balanceUsd").Float(); left >= 5 || left < 4.99 {
		t.Errorf("the wallet has %v", left)
	}
	s.verified()
}
