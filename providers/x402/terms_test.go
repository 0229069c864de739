package x402

import (
	"encoding/json"
	"strings"
	"testing"

	"farebox/config"
)

// Clients are asked for the list of addendum 14.3: EVM, the bare name of Solana, then its
// CAIP-2 name.
func TestAcceptsAreThoseOfTheSpecification(t *testing.T) {
	feePayer := solanaWallet(9).Address().String()
	got, err := json.Marshal(testTerms(t, nil).Accepts(5_000_000_000))
	if err != nil {
		t.Fatal(err)
	}
	solanaEntry := func(network string) string {
		return `{"scheme":"exact","network":"` + network + `","amount":"5000000","asset":"` + usdcSolana + `","payTo":"` +
			solanaWallet(8).Address().String() + `","maxTimeoutSeconds":300,"extra":{"feePayer":"` + feePayer + `"}}`
	}
	want := `[{"scheme":"exact","network":"eip155:8453","amount":"5000000","asset":"` + usdcBase + `","payTo":"` +
		receiver +
		`","maxTimeoutSeconds":300,"extra":{"name":"USD Coin","version":"2"}},` + solanaEntry("solana") + `,` +
		solanaEntry(solana) + `]`
	if string(got) != want {
		t.Errorf("asked for\n%s\nexpected\n%s", got, want)
	}
	// Part of a unit is asked for as a whole one.
	if list := testTerms(t, nil).Accepts(5_000_000_001); list[0].Amount != "5000001" {
		t.Errorf("5.000000001 USD are %s units", list[0].Amount)
	}
	// Without a fee payer Solana is not offered.
	terms, err := NewTerms(testConfig(), sponsors{""})
	if err != nil {
		t.Fatal(err)
	}
	if list := terms.Accepts(1000); len(list) != 1 || list[0].Network != base {
		t.Errorf("asked for %+v", list)
	}
}

// The header is the base64 of the body.
func TestChallengeHeaderIsTheBody(t *testing.T) {
	c := Challenge{X402Version: Version, Error: "x", Resource: &Resource{URL: "https://a/"}, Accepts: []Requirement{}}
	got, err := AppendHeader([]byte("PAYMENT-REQUIRED: "), c)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := decode(strings.TrimPrefix(string(got), "PAYMENT-REQUIRED: "))
	if want := `{"x402Version":2,"error":"x","resource":{"url":"https://a/"},"accepts":[]}`; !ok || string(text) != want {
		t.Errorf("the header is %s", text)
	}
}

// A config that mixes kinds of chains is refused with the faulty member.
func TestMixedUpNetworksAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *config.X402Network)
		words  string
	}{
		"no asset":               {func(n *config.X402Network) { n.Asset = "" }, "asset is not a wallet address"},
		"no receiver":            {func(n *config.X402Network) { n.PayTo = "me" }, "pay_to is not a wallet address"},
		"receiver of Solana":     {func(n *config.X402Network) { n.PayTo = usdcSolana }, "another kind of chain"},
		"a chain without number": {func(n *config.X402Network) { n.Network = "eip155:base" }, "number of a chain"},
		"chain 0":                {func(n *config.X402Network) { n.Network = "eip155:0" }, "number of a chain"},
	} {
		x := testConfig()
		c.change(&x.Networks[1])
		if _, err := NewTerms(x, sponsors{""}); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
