package x402

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"farebox/config"
	"farebox/providers/wallet"
	"farebox/providers/x402/evm"
	"farebox/providers/x402/payer"
)

const (
	usdcBase   = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	usdcSolana = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
	receiver   = "0x2670B922ef37C7Df47158725C0CC407b5382293F"
	payerKey   = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
	base       = "eip155:8453"
	solana     = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
)

// now is the moment of these tests.
var now = time.Unix(1_795_000_000, 0)

func solanaWallet(fill byte) *payer.Solana {
	return payer.NewSolana([32]byte(bytes.Repeat([]byte{fill}, 32)))
}

// sponsors are fee payers that were offered, the first of them now.
type sponsors []string

func (s sponsors) Offer(string) string { return s[0] }

func testConfig() *config.X402 {
	return &config.X402{MinTopUp: 5_000_000_000, MaxTopUp: 10_000_000_000_000, Networks: []config.X402Network{
		{Network: solana, PayTo: solanaWallet(8).Address().String(), Asset: usdcSolana},
		{Network: base, PayTo: receiver, Asset: usdcBase, Name: "USD Coin", Version: "2"},
	}}
}

func testTerms(t testing.TB, change func(c *config.X402)) *Terms {
	t.Helper()
	c := testConfig()
	if change != nil {
		change(c)
	}
	terms, err := NewTerms(c, sponsors{solanaWallet(9).Address().String(), solanaWallet(10).Address().String()})
	if err != nil {
		t.Fatal(err)
	}
	return terms
}

func testPayer(t testing.TB) *payer.EVM {
	t.Helper()
	p, err := payer.ParseEVM(payerKey)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// signed is an authorization that holds and pays 7 USD.
func signed(t testing.TB, change func(a *evm.Authorization)) payer.Payload {
	t.Helper()
	p := testPayer(t)
	to, err := wallet.ParseAddress(receiver)
	if err != nil {
		t.Fatal(err)
	}
	a := &evm.Authorization{From: p.Address(), To: to, Value: evm.NumberOf(7_000_000),
		ValidBefore: evm.NumberOf(now.Unix() + 300), Nonce: evm.Word(bytes.Repeat([]byte{0xab}, 32))}
	if change != nil {
		change(a)
	}
	return p.Pay(testTerms(t, nil).Network(base).separator, a)
}

// shape is a payment in the words of a client.
func shape(payload any, members string) string {
	text, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	return `{` + members + `,"payload":` + string(text) + `}`
}

func v2(payload any) string {
	return shape(payload, `"x402Version":2,"accepted":{"scheme":"exact","network":"eip155:8453","amount":"5000000",`+
		`"asset":"`+usdcBase+`","payTo":"`+receiver+`","maxTimeoutSeconds":300,"extra":{"name":"USD Coin","version":"2"}}`)
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
