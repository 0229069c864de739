package wallet

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/chain"
	"farebox/tests/rig"
)

// Clients of four generations pay on both chains, each in its own shape and header.
func TestEveryShapeOfAPaymentIsCredited(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	for name, c := range map[string]struct {
		header string
		shape  func(p *signed) string
	}{
		"version 2":                 {"PAYMENT-SIGNATURE", (*signed).header},
		"version 2, old header":     {"X-402-Payment", (*signed).header},
		"flat, short network":       {"X-PAYMENT", func(p *signed) string { return p.flat(2, short(p)) }},
		"flat, whole network":       {"X-402-Payment", func(p *signed) string { return p.flat(2, p.network) }},
		"version 1":                 {"X-PAYMENT", func(p *signed) string { return p.flat(1, short(p)) }},
		"version 2, short accepted": {"PAYMENT-SIGNATURE", shortAccepted},
		"base64 of URLs": {"PAYMENT-SIGNATURE", func(p *signed) string {
			return strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(p.header()), "=")
		}},
	} {
		for _, p := range []*chain.Payer{chain.NewPayer(), chain.NewSolanaPayer()} {
			payment := s.sign(p, 7_250_000)
			r := s.tell("POST", topUp, "{}", c.header, c.shape(payment))
			if r.status != 200 || !r.Get("success").Bool() || r.Get("data.walletAddress").Str != p.Address ||
				r.Get("data.amountCredited").Raw != "7.25" || r.Get("data.newBalance").Raw != "7.25" ||
				!strings.HasPrefix(r.Get("data.paymentId").Str, "pay_") {
				t.Errorf("%s on %s: %s", name, payment.network, r)
				continue
			}
			said := decoded(r.header.Get("PAYMENT-RESPONSE"))
			if !said.Get("success").Bool() || said.Get("payer").Str != p.Address || said.Get("network").Str != payment.network ||
				said.Get("transaction").Str == "" {
				t.Errorf("%s on %s: PAYMENT-RESPONSE says %s", name, payment.network, said.Raw)
			}
			s.has(p, "7.25")
		}
	}
	if n := len(s.evm.Moves()) + len(s.solana.Transfers()); n != 14 {
		t.Errorf("14 payments made %d transfers", n)
	}
	s.verified()
	if out := s.CLI("wallet", "list"); strings.Count(string(out), "7.25") < 14 {
		t.Errorf("the operator sees\n%s", out)
	}
}

func short(p *signed) string { return map[string]string{base: "base", solana: "solana"}[p.network] }

func shortAccepted(p *signed) string {
	chosen := accepted(p.network)
	chosen["network"] = short(p)
	return encoded(map[string]any{"x402Version": 2, "accepted": chosen, "payload": p.payload,
		"resource": map[string]any{"url": "http://somewhere.else/"}})
}

// A header other than a payment to us, for us, of the right token and amount is refused
// by its code. Neither the facilitator nor a node is asked about it.
func TestPaymentsAreRefusedByTheirCode(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{x402: "max_top_up: 100"})
	p, q := chain.NewPayer(), chain.NewSolanaPayer()
	good := s.sign(p, 5*usd)
	with := func(change func(m map[string]any)) string {
		var m map[string]any
		b, err := base64.StdEncoding.DecodeString(good.header())
		if err != nil || json.Unmarshal(b, &m) != nil {
			t.Fatal("cannot read the written payment")
		}
		change(m)
		return encoded(m)
	}
	choice := func(name string, value any) string {
		return with(func(m map[string]any) { m["accepted"].(map[string]any)[name] = value })
	}
	auth := func(name string, value any) string {
		return with(func(m map[string]any) {
			m["payload"].(map[string]any)["authorization"].(map[string]any)[name] = value
		})
	}
	to := func(address string) string {
		return s.signAuthorization(p, p.Authorization(address, 5*usd, time.Now().Add(time.Minute))).header()
	}
	order := chain.Order{FeePayer: s.facilitator.FeePayer(), PayTo: paySVM, Mint: chain.SolanaUSDC, Units: 5 * usd,
		Blockhash: s.solana.Blockhash()}
	onSolana := func(change func(o *chain.Order)) string {
		o := order
		change(&o)
		return encoded(map[string]any{"x402Version": 2, "accepted": accepted(solana),
			"payload": chain.SolanaPayload(q.Transaction(o))})
	}
	elsewhere := func() string {
		token := "0x" + strings.Repeat("12", 20)
		other := chain.NewEVM(chain.EVMOptions{Asset: token})
		a := p.Authorization(payEVM, 5*usd, time.Now().Add(time.Minute))
		chosen := accepted(base)
		chosen["asset"] = token
		return encoded(map[string]any{"x402Version": 2, "accepted": chosen,
			"payload": chain.EVMPayload(a, p.SignAuthorization(other, a))})
	}
	stranger := chain.NewSolanaPayer().Address
	for _, c := range []struct {
		name, header string
		status       int
		code         string
	}{
		{"no base64", "!!!", 400, "INVALID_PAYMENT_FORMAT"},
		{"no JSON", base64.StdEncoding.EncodeToString([]byte("{")), 400, "INVALID_PAYMENT_FORMAT"},
		{"a list", base64.StdEncoding.EncodeToString([]byte("[]")), 400, "INVALID_PAYMENT_FORMAT"},
		{"too long", base64.StdEncoding.EncodeToString([]byte(`{"x":"` + strings.Repeat("x", 13000) + `"}`)), 400,
			"INVALID_PAYMENT_FORMAT"},
		{"no payload", with(func(m map[string]any) { delete(m, "payload") }), 400, "INVALID_PAYMENT"},
		{"no version", with(func(m map[string]any) { delete(m, "x402Version") }), 400, "INVALID_PAYMENT"},
		{"version 3", with(func(m map[string]any) { m["x402Version"] = 3 }), 400, "INVALID_PAYMENT"},
		{"no nonce", auth("nonce", ""), 400, "INVALID_PAYMENT"},
		{"a number for a text", auth("value", 5000000), 400, "INVALID_AMOUNT INVALID_PAYMENT"},
		{"another network", choice("network", "eip155:1"), 400, "UNSUPPORTED_NETWORK"},
		{"another scheme", choice("scheme", "upto"), 400, "UNSUPPORTED_SCHEME"},
		{"another token", elsewhere(), 400, "UNSUPPORTED_TOKEN"},
		{"another receiver", to("0x" + strings.Repeat("12", 20)), 400, "INVALID_PAYMENT_RECIPIENT"},
		{"from us to us", auth("from", payEVM), 400, "INVALID_PAYMENT_PAYER"},
		{"from the zero address", auth("from", "0x"+strings.Repeat("0", 40)), 400, "INVALID_PAYMENT_PAYER"},
		{"too little", s.sign(p, 5*usd-1).header(), 400, "AMOUNT_TOO_LOW"},
		{"too much", s.sign(p, 100*usd+1).header(), 400, "AMOUNT_TOO_HIGH"},
		{"a fraction", auth("value", "5000000.5"), 400, "INVALID_AMOUNT"},
		{"below nothing", auth("value", "-5000000"), 400, "INVALID_AMOUNT"},
		{"changed after it was signed", auth("value", "6000000"), 402, "PAYMENT_VERIFICATION_FAILED"},
		{"signed by another", with(func(m map[string]any) {
			m["payload"].(map[string]any)["signature"] = s.sign(chain.NewPayer(), 5*usd).payload["signature"]
		}), 402, "PAYMENT_VERIFICATION_FAILED"},
		{"expired", s.signAuthorization(p, p.Authorization(payEVM, 5*usd, time.Now().Add(-time.Minute))).header(), 402,
			"PAYMENT_VERIFICATION_FAILED"},
		{"for a wallet that is not there yet (ERC-6492)", with(func(m map[string]any) {
			m["payload"].(map[string]any)["signature"] = "0x" + strings.Repeat("00", 96) + strings.Repeat("6492", 16)
		}), 402, "PAYMENT_VERIFICATION_FAILED"},
		{"Solana, another receiver", onSolana(func(o *chain.Order) { o.PayTo = stranger }), 400,
			"INVALID_PAYMENT_RECIPIENT"},
		{"Solana, another token", onSolana(func(o *chain.Order) { o.Mint = stranger }), 400, "UNSUPPORTED_TOKEN"},
		{"Solana, too little", onSolana(func(o *chain.Order) { o.Units = 4 * usd }), 400, "AMOUNT_TOO_LOW"},
		{"Solana, too much", onSolana(func(o *chain.Order) { o.Units = 101 * usd }), 400, "AMOUNT_TOO_HIGH"},
		{"Solana, other decimals", onSolana(func(o *chain.Order) { o.Decimals = 9 }), 400, "UNSUPPORTED_TOKEN"},
		{"Solana, another fee payer", onSolana(func(o *chain.Order) { o.FeePayer = stranger }), 402,
			"PAYMENT_VERIFICATION_FAILED"},
		{"Solana, no transaction", encoded(map[string]any{"x402Version": 2, "accepted": accepted(solana),
			"payload": map[string]any{"transaction": "AAAA"}}), 400, "INVALID_PAYMENT"},
	} {
		r := s.tell("POST", topUp, "", "PAYMENT-SIGNATURE", c.header)
		if code := r.Get("error").Str; r.status != c.status || !strings.Contains(c.code, code) || r.Get("message").Str == "" {
			t.Errorf("%s: %.300s, not %d %s", c.name, r, c.status, c.code)
		}
		if r.status == 402 && (!r.Get("accepts.0").Exists() || r.header.Get("PAYMENT-REQUIRED") == "") {
			t.Errorf("%s: a 402 does not name the accepted payments: %s", c.name, r)
		}
	}
	if n := s.facilitator.Calls("verify") + s.facilitator.Calls("settle"); n != 0 {
		t.Errorf("the facilitator was asked %d times", n)
	}
	if len(s.Accounts()) != 0 {
		t.Errorf("refused payments made accounts: %v", s.Accounts())
	}
	if r := s.pay(good); r.status != 200 {
		t.Errorf("the good one is answered %s", r)
	}
}

// A payment of a wallet without the funds, or with a canceled authorization, is refused by
// the chain.
func TestTheChainRefusesUnpayablePayments(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	poor, poorer := chain.NewPayer(), chain.NewSolanaPayer()
	s.evm.Fund(poor.Address, 4*usd)
	s.solana.Fund(chain.TokenAccount(poorer.Address, chain.SolanaUSDC), 4*usd)
	for _, p := range []*chain.Payer{poor, poorer} {
		if r := s.pay(s.sign(p, 5*usd)); r.status != 402 || r.Get("error").Str != "PAYMENT_VERIFICATION_FAILED" ||
			!strings.Contains(r.Get("details.reason").Str, "insufficient") {
			t.Errorf("a wallet without funds is answered %s", r)
		}
	}
	// It signed two authorizations with a nonce, of which the chain took the other one; or
	// took its authorization back.
	p, q := chain.NewPayer(), chain.NewPayer()
	used := s.sign(p, 5*usd)
	other := used.auth
	other.Value = 6 * usd
	if _, err := s.evm.Pay(other, p.SignAuthorization(s.evm, other)); err != nil {
		t.Fatal(err)
	}
	cancelled := s.sign(q, 5*usd)
	s.evm.Cancel(q.Address, cancelled.auth.Nonce)
	s.evm.Wait()
	s.evm.Wait()
	for name, payment := range map[string]*signed{"used": used, "cancelled": cancelled} {
		if r := s.pay(payment); r.status != 402 || r.Get("details.reason").Str != "nonce_already_used" {
			t.Errorf("%s: %s", name, r)
		}
	}
	for _, p := range []*chain.Payer{p, q} {
		if r := s.balance(p); r.status != 404 {
			t.Errorf("the wallet has a ledger: %s", r)
		}
	}
	// The one that the chain took is credited, though the other one was refused.
	if r := s.pay(s.signAuthorization(p, other)); r.status != 200 {
		t.Errorf("the one that was paid is answered %s", r)
	}
	if n := s.facilitator.Calls("settle"); n != 0 {
		t.Errorf("the facilitator was asked to settle %d times", n)
	}
	s.verified()
}

// The identical payment gets its first answer again; another with its nonce gets none.
func TestAPaymentSentAgainIsCreditedOnce(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, func(t *testing.T, store string) {
		s := openShopOn(t, store, options{})
		for _, p := range []*chain.Payer{chain.NewPayer(), chain.NewSolanaPayer()} {
			payment := s.sign(p, 5*usd)
			first := s.pay(payment)
			if first.status != 200 {
				t.Fatalf("answered %s", first)
			}
			if r := s.spend(p, ""); r.status != 200 {
				t.Fatalf("a chat is answered %s", r)
			}
			again := []reply{s.pay(payment), s.tell("POST", topUp, "", "X-PAYMENT", payment.flat(1, short(payment)))}
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			s.Start()
			for i, r := range append(again, s.pay(payment)) {
				if r.status != 200 || r.Raw != first.Raw ||
					r.header.Get("PAYMENT-RESPONSE") != first.header.Get("PAYMENT-RESPONSE") {
					t.Errorf("repeat %d is answered %s, first it was %s", i, r, first)
				}
			}
			if p.IsSolana() {
				continue
			}
			// The nonce with another amount, signed as well.
			other := payment.auth
			other.Value = 50 * usd
			if r := s.pay(s.signAuthorization(p, other)); r.status != 402 ||
				r.Get("details.reason").Str != "nonce_already_used" || r.Get("error").Str != "PAYMENT_VERIFICATION_FAILED" {
				t.Errorf("its nonce used again is answered %s", r)
			}
		}
		if moved := len(s.evm.Moves()) + len(s.solana.Transfers()); moved != 2 {
			t.Errorf("%d transfers, not 2", moved)
		}
		s.verified()
	})
}

// Of many that send the payment at once all get the one result, or an error that asks them to wait.
func TestAPaymentSentManyTimesAtOnceIsCreditedOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	for _, p := range []*chain.Payer{chain.NewPayer(), chain.NewSolanaPayer()} {
		payment := s.sign(p, 5*usd)
		statuses := make(chan int, 16)
		for range cap(statuses) {
			go func() {
				r, err := tell(s.Gateway, "POST", topUp, "", "PAYMENT-SIGNATURE", payment.header())
				if err != nil {
					r.status = -1
				}
				statuses <- r.status
			}()
		}
		got := map[int]int{}
		for range cap(statuses) {
			got[<-statuses]++
		}
		if got[200] == 0 || got[200]+got[409] != cap(statuses) {
			t.Errorf("answered %v", got)
		}
		s.has(p, "5")
	}
	s.verified()
}

// Listed wallets may not pay, or only listed ones may.
func TestWalletsMayBeDeniedOrAllowed(t *testing.T) {
	t.Parallel()
	bad, good, other := chain.NewPayer(), chain.NewPayer(), chain.NewPayer()
	denying := openShop(t, options{x402: fmt.Sprintf("deny: [%q]", chain.Checksummed(bad.Address))})
	allowing := openShop(t, options{x402: fmt.Sprintf("allow: [%q]", good.Address)})
	for _, c := range []struct {
		s    *shop
		p    *chain.Payer
		want int
	}{{denying, bad, 403}, {denying, other, 200}, {allowing, good, 200}, {allowing, other, 403}} {
		if r := c.s.pay(c.s.sign(c.p, 5*usd)); r.status != c.want {
			t.Errorf("answered %s, not %d", r, c.want)
		}
		if r := c.s.balance(c.p); r.status != c.want {
			t.Errorf("the balance is answered %s, not %d", r, c.want)
		}
	}
	if n := len(denying.evm.Moves()) + len(allowing.evm.Moves()); n != 2 {
		t.Errorf("%d payments were settled", n)
	}
}

// A contract signs for its wallet (EIP-1271), if the operator lets it.
func TestAContractWalletPaysAndSpends(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	contract := "0x" + strings.Repeat("c0de", 10)
	owner := chain.NewPayer()
	s.evm.Contract(contract, owner.Address)
	p := owner.As(contract)
	s.customer(p, 5*usd)
	if r := s.spend(p, ""); r.status != 200 || r.header.Get("X-Balance-Remaining") == "" {
		t.Errorf("a chat of the contract is answered %s", r)
	}
	thief := chain.NewPayer().As(contract)
	if r := s.pay(s.sign(thief, 5*usd)); r.status != 402 || r.Get("error").Str != "PAYMENT_VERIFICATION_FAILED" {
		t.Errorf("a stranger's payment for it is answered %s", r)
	}
	if r := s.spend(thief, ""); r.status != 401 || r.Get("code").Str != "X402_SIGN_IN_INVALID_SIGNATURE" {
		t.Errorf("a stranger's chat for it is answered %s", r)
	}
	without := &shop{s.world, rig.StartGateway(t, s.config(options{network: ", contract_wallets: false"}))}
	if r := without.pay(s.sign(p, 5*usd)); r.status != 402 {
		t.Errorf("without contract wallets: %s", r)
	}
	s.verified()
}

// A Solana payment names a fee payer of the facilitator, which it may change.
func TestAFeePayerMayChangeWhileAPaymentIsOnItsWay(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{})
	p := chain.NewSolanaPayer()
	payment := s.sign(p, 5*usd)
	s.facilitator.Rotate()
	if r := s.pay(payment); r.status != 200 {
		t.Errorf("a payment with the payer of before is answered %s", r)
	}
	s.verified()
}
