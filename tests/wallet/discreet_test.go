package wallet

import (
	"strings"
	"testing"

	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/facilitator"
)

// A wallet's signed message is as good as money or a key: no log has any of it, good or bad.
func TestNoLogHasSignaturesOfWallets(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{facilitator: ", auth: bearer, token: facilitator-secret-token"})
	s.facilitator.Key = "facilitator-secret-token"
	s.WriteConfig(strings.Replace(s.config(options{facilitator: ", auth: bearer, token: facilitator-secret-token"}),
		"level: info", "level: debug", 1))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	secrets := []string{"facilitator-secret-token"}
	for _, lie := range []chain.Lie{"", facilitator.Denies, facilitator.Garbage, facilitator.Breaks} {
		s.facilitator.Always(lie)
		for _, p := range []*chain.Payer{chain.NewPayer(), chain.NewSolanaPayer()} {
			payment := s.sign(p, 5*usd)
			sign := signIn(p)
			s.pay(payment)
			s.tell("POST", "/chat/completions", chatBody(""), signInHeader, sign)
			s.tell("POST", "/chat/completions", chatBody(""), signInHeader, sign, "PAYMENT-SIGNATURE", payment.header())
			s.tell("GET", "/x402/balance/0x12", "", signInHeader, sign+"x")
			s.tell("POST", topUp, "", "PAYMENT-SIGNATURE", payment.header()+"x")
			secrets = append(secrets, sign, payment.header()[:200])
			if payment.wire == nil {
				signature := payment.payload["signature"].(string)
				secrets = append(secrets, signature[2:], payment.auth.Nonce[2:])
			} else {
				secrets = append(secrets, payment.payload["transaction"].(string)[:100])
			}
		}
	}
	s.facilitator.Always("")
	s.discreet(secrets...)
	if !strings.Contains(s.Log(), `"wallet":"`) {
		t.Error("the log does not say which wallets paid")
	}
}
