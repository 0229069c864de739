package wallet

import (
	"strings"
	"testing"

	"farebox/bench/upstream/chain"
	"farebox/tests/rig"
)

// A client that sends no payment gets the accepted kinds: an EVM, then Solana under the
// name of the specification, then under its own.
func TestWithoutAPaymentTheChallengeListsAcceptedPayments(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	// The fee payer on Solana is fetched in the background.
	rig.Await(t, "Solana is offered", func() bool { return s.tell("POST", topUp, "").Get("accepts.#").Int() == 3 })
	for _, body := range []string{"", "{}"} {
		r := s.tell("POST", topUp, body)
		if r.status != 402 || r.Get("x402Version").Int() != 2 || r.Get("accepts.#").Int() != 3 {
			t.Fatalf("answered %s", r)
		}
		for i, want := range []struct{ network, asset, payTo string }{
			{base, chain.USDC, payEVM}, {"solana", chain.SolanaUSDC, paySVM}, {solana, chain.SolanaUSDC, paySVM},
		} {
			got := r.Get("accepts").Array()[i]
			if got.Get("scheme").Str != "exact" || got.Get("network").Str != want.network ||
				!strings.EqualFold(got.Get("asset").Str, want.asset) || !strings.EqualFold(got.Get("payTo").Str, want.payTo) ||
				got.Get("amount").Str != "5000000" || got.Get("maxTimeoutSeconds").Int() != 300 {
				t.Errorf("accepts[%d] is %s", i, got.Raw)
			}
		}
		if extra := r.Get("accepts.0.extra"); extra.Get("name").Str != "USD Coin" || extra.Get("version").Str != "2" {
			t.Errorf("the domain of the token is %s", extra.Raw)
		}
		for _, i := range []string{"1", "2"} {
			if got := r.Get("accepts." + i + ".extra.feePayer").Str; got != s.facilitator.FeePayer() {
				t.Errorf("the fee payer is %q", got)
			}
		}
		if header := decoded(r.header.Get("PAYMENT-REQUIRED")); header.Get("accepts").Raw != r.Get("accepts").Raw ||
			header.Get("x402Version").Int() != 2 {
			t.Errorf("the header PAYMENT-REQUIRED says %s", header.Raw)
		}
		if url := r.Get("resource.url").Str; !strings.HasSuffix(url, "/api/v1"+topUp) {
			t.Errorf("the resource is %q", url)
		}
	}
}

// The specification asks for an API key beside the payment; any of them does.
func TestTopUpsAskForAKeyByDefault(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{auth: "bearer"})
	s.NewAccount("anybody", "")
	key := s.Key("anybody")
	p := chain.NewPayer()
	payment := s.sign(p, 6*usd)
	if r := s.pay(payment); r.status != 401 {
		t.Errorf("without a key: %s", r)
	}
	if r := s.tell("POST", topUp, "", "Authorization", "Bearer "+key); r.status != 402 {
		t.Errorf("with a key and no payment: %s", r)
	}
	r := s.tell("POST", topUp, "", "Authorization", "Bearer "+key, "X-402-Payment", payment.header())
	if r.status != 200 || r.Get("data.walletAddress").Str != p.Address {
		t.Errorf("with both: %s", r)
	}
	if a := s.Accounts()["anybody"]; a.USD != 0 {
		t.Errorf("the key's account got %s", a.USD)
	}
}

// A request without any credential gets both ways to pay, if the operator wants that;
// otherwise it is answered 401 as ever.
func TestDiscoveryIsTheOperatorsChoice(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{x402: "discovery: true"})
	r := s.tell("POST", "/chat/completions", chatBody(""))
	if r.status != 402 || r.Get("x402Version").Int() != 2 || r.Get("accepts.0.amount").Str != "10000000" ||
		!r.Get("authOptions.apiKey").IsObject() || !r.Get("authOptions.x402Wallet").IsObject() {
		t.Errorf("answered %s", r)
	}
	ask := r.Get(`extensions.sign-in-with-x`)
	if ask.Get("info.domain").Str != domain || ask.Get("info.version").Str != "1" || ask.Get("info.nonce").Str == "" ||
		ask.Get("info.issuedAt").Str == "" || ask.Get("info.expirationTime").Str == "" {
		t.Errorf("the sign-in that is asked for is %s", ask.Raw)
	}
	if types := ask.Get("supportedChains.#.type").Raw; !strings.Contains(types, "eip191") ||
		!strings.Contains(types, "ed25519") {
		t.Errorf("chains that may sign in: %s", ask.Get("supportedChains").Raw)
	}
	if header := decoded(r.header.Get("PAYMENT-REQUIRED")); !header.Get("accepts").IsArray() {
		t.Errorf("the header says %s", header.Raw)
	}
	if r := s.tell("POST", "/chat/completions", chatBody(""), "Authorization", "Bearer wrong"); r.status != 401 {
		t.Errorf("a wrong key is answered %s", r)
	}
	quiet := openShop(t, options{})
	if r := quiet.tell("POST", "/chat/completions", chatBody("")); r.status != 401 {
		t.Errorf("without discovery: %s", r)
	}
}

// Without a config, no path asks for a payment by wallet.
func TestWithoutX402NoPaymentIsAccepted(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	text := s.config(options{})
	at := strings.Index(text, "x402:")
	s.WriteConfig(text[:at])
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	p := chain.NewPayer()
	for _, r := range []reply{s.tell("POST", topUp, ""), s.pay(s.sign(p, 5*usd)), s.balance(p)} {
		if r.status != 503 || !strings.Contains(r.Raw, "X402_NOT_CONFIGURED") {
			t.Errorf("answered %s", r)
		}
	}
}
