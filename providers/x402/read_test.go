package x402

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"farebox/config"
	"farebox/config/onchain"
	"farebox/providers/wallet"
	"farebox/providers/x402/evm"
	"farebox/providers/x402/payer"
	"farebox/providers/x402/svm"
)

// Every shape that clients are known to send is the same payment.
func TestShapesOfClientsAreOnePayment(t *testing.T) {
	terms := testTerms(t, nil)
	p := signed(t, nil)
	var first string
	for name, text := range map[string]string{
		"version 2":          v2(p),
		"flat, bare network": shape(p, `"x402Version":2,"scheme":"exact","network":"base"`),
		"flat, CAIP-2":       shape(p, `"x402Version":2,"scheme":"exact","network":"eip155:8453"`),
		"version 1":          shape(p, `"x402Version":1,"scheme":"exact","network":"base"`),
		"with more beside": shape(p, `"resource":{"url":"https://a/"},"extensions":{"x":[1,{"y":null}]},`+
			`"x402Version":2,"accepted":{"network":"base","scheme":"exact","amount":1,"payTo":[]}`),
		"other top-level lies": shape(p, `"x402Version":2,"scheme":"upto","network":"moon",`+
			`"accepted":{"network":"base","scheme":"exact"}`),
	} {
		got, err := terms.Read(encoded(text), now)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if first == "" {
			first = fmt.Sprintf("%+v", got)
		}
		if fmt.Sprintf("%+v", got) != first {
			t.Errorf("%s is read as another payment: %+v", name, got)
		}
		if got.Units != 7_000_000 || got.Amount != 7_000_000_000 || got.Wallet != testPayer(t).Address().String() ||
			got.Network != base || len(got.ID) != 30 || !strings.HasPrefix(got.ID, "pay_") ||
			got.Expires.Unix() != now.Unix()+300 {
			t.Errorf("%s is read as %+v", name, got)
		}
	}
}

// The facilitator gets our words and the signed amount, whatever the client wrote.
func TestFacilitatorsGetOurWords(t *testing.T) {
	terms := testTerms(t, nil)
	text := shape(signed(t, nil), `"x402Version":1,"scheme":"exact","network":"base","accepted":{"scheme":"exact",`+
		`"network":"base","amount":"1","asset":"0x0000000000000000000000000000000000000001",`+
		`"payTo":"x","extra":{"name":"evil"}}`)
	p, err := terms.Read(encoded(text), now)
	if err != nil {
		t.Fatal(err)
	}
	o, err := ParseOrder(p.Order)
	if err != nil {
		t.Fatal(err)
	}
	body, err := o.Body()
	if err != nil {
		t.Fatal(err)
	}
	requirement := `{"scheme":"exact","network":"eip155:8453","amount":"7000000","asset":"` + usdcBase + `","payTo":"` +
		receiver + `","maxTimeoutSeconds":300,"extra":{"name":"USD Coin","version":"2"}}`
	want := `{"x402Version":2,"paymentPayload":{"x402Version":2,"accepted":` + requirement + `,"payload":{"signature":"` +
		signed(t, nil).Signature + `","authorization":{"from":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","to":"` +
		receiver + `","value":"7000000","validAfter":"0","validBefore":"1795000300","nonce":"0x` +
		strings.Repeat("ab", 32) + `"}}},"paymentRequirements":` + requirement + `}`
	if string(body) != want {
		t.Errorf("sent\n%s\nexpected\n%s", body, want)
	}
}

// The header is base64 of either alphabet, filled up or not.
func TestBase64OfEitherAlphabetIsRead(t *testing.T) {
	terms := testTerms(t, nil)
	text := []byte(v2(signed(t, nil)))
	for len(text)%3 != 1 {
		text = append(text, ' ')
	}
	for _, coding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding,
		base64.RawURLEncoding} {
		if _, err := terms.Read(coding.EncodeToString(text), now); err != nil {
			t.Error(err)
		}
	}
}

func refusalOf(t testing.TB, terms *Terms, header string) *onchain.Refusal {
	t.Helper()
	p, err := terms.Read(header, now)
	var refusal *onchain.Refusal
	if p != nil || !errors.As(err, &refusal) {
		t.Fatalf("%.200s is taken or fails otherwise: %v", header, err)
	}
	return refusal
}

// A header that is not a payment is refused with 400 and the code of its fault.
func TestMalformedPaymentsAreRefused(t *testing.T) {
	terms := testTerms(t, nil)
	good := signed(t, nil)
	flat := `"x402Version":2,"scheme":"exact","network":"base"`
	edit := func(f func(a *payer.Authorization)) string {
		p := good
		a := *good.Authorization
		f(&a)
		p.Authorization = &a
		return encoded(v2(p))
	}
	padded := encoded(v2(good) + "  ")
	onSolana := func(transaction string) string {
		return encoded(shape(map[string]string{"transaction": transaction},
			`"x402Version":2,"scheme":"exact","network":"solana"`))
	}
	for name, c := range map[string]struct{ header, code, words string }{
		"nothing":          {"", onchain.CodeFormat, "JSON"},
		"no base64":        {"{}", onchain.CodeFormat, "base64"},
		"too much padding": {strings.TrimRight(padded, "=") + "===", onchain.CodeFormat, "base64"},
		"line ends":        {padded[:40] + "\n" + padded[40:], onchain.CodeFormat, "base64"},
		"stray bits":       {"e31=", onchain.CodeFormat, "base64"}, // {} has other last bits
		"too long":         {strings.Repeat("A", MaxHeader+1), onchain.CodeFormat, "too long"},
		"an array":         {encoded("[]"), onchain.CodeFormat, "object"},
		"no JSON":          {encoded(`{"a":}`), onchain.CodeFormat, "valid JSON"},
		"bad escape":       {encoded(`{"a":"\x"}`), onchain.CodeFormat, "valid JSON"},
		"not UTF-8":        {encoded("{\"a\":\"\xff\"}"), onchain.CodeFormat, "UTF-8"},
		"something behind": {encoded(v2(good) + "{}"), onchain.CodeFormat, "continues"},
		"too deep": {encoded(shape(good, flat+`,"x":`+strings.Repeat("[", 40)+strings.Repeat("]", 40))),
			onchain.CodeFormat, "deep"},
		"a member twice":       {encoded(shape(good, flat+`,"network":"solana"`)), onchain.CodeFormat, "more than once"},
		"a member in capitals": {encoded(shape(good, flat+`,"Payload":{}`)), onchain.CodeFormat, "exactly"},
		"an escaped member":    {encoded(shape(good, flat+`,"p\u0061yload":{}`)), onchain.CodeFormat, "exactly"},
		"value twice": {encoded(strings.Replace(v2(good), `"value":`, `"value":"1","value":`, 1)), onchain.CodeFormat,
			"value"},
		"no version": {encoded(shape(good, `"scheme":"exact","network":"base"`)), onchain.CodePayment, "x402Version"},
		"version as text": {encoded(shape(good, `"x402Version":"2","scheme":"exact","network":"base"`)),
			onchain.CodePayment, "x402Version"},
		"version 3": {encoded(shape(good, `"x402Version":3,"scheme":"exact","network":"base"`)),
			onchain.CodePayment, "expected 2"},
		"version 2.0": {encoded(shape(good, `"x402Version":2.0,"scheme":"exact","network":"base"`)),
			onchain.CodePayment, "expected 2"},
		"no scheme": {encoded(shape(good, `"x402Version":2,"network":"base"`)), onchain.CodePayment, "scheme"},
		"another scheme": {encoded(shape(good, `"x402Version":2,"scheme":"upto","network":"base"`)), onchain.CodeScheme,
			"exact"},
		"no network": {encoded(shape(good, `"x402Version":2,"scheme":"exact"`)), onchain.CodePayment, "network"},
		"network null": {encoded(shape(good, `"x402Version":2,"scheme":"exact","network":null`)), onchain.CodePayment,
			"network"},
		"another network": {encoded(shape(good, `"x402Version":2,"scheme":"exact","network":"eip155:1"`)),
			onchain.CodeNetwork, base},
		"a testnet": {encoded(shape(good, `"x402Version":2,"scheme":"exact","network":"base-sepolia"`)),
			onchain.CodeNetwork, base},
		"accepted is text":  {encoded(shape(good, flat+`,"accepted":"x"`)), onchain.CodePayment, "accepted"},
		"accepted is empty": {encoded(shape(good, flat+`,"accepted":{}`)), onchain.CodePayment, "scheme"},
		"no payload":        {encoded(`{` + flat + `}`), onchain.CodePayment, "payload"},
		"payload is text":   {encoded(`{` + flat + `,"payload":"x"}`), onchain.CodePayment, "payload"},
		"no authorization":  {encoded(`{` + flat + `,"payload":{"signature":"0x"}}`), onchain.CodePayment, "authorization"},
		"Solana's payload": {encoded(`{` + flat + `,"payload":{"transaction":"AA=="}}`), onchain.CodePayment,
			"authorization"},
		"no signature": {encoded(strings.Replace(v2(good), `"signature"`, `"sign"`, 1)), onchain.CodePayment,
			"signature"},
		"signature no hex": {encoded(strings.Replace(v2(good), `"signature":"0x`, `"signature":"0xg`, 1)),
			onchain.CodePayment, "signature"},
		"signature empty": {encoded(strings.Replace(v2(good), good.Signature, "0x", 1)), onchain.CodePayment, "signature"},
		"signature too long": {encoded(strings.Replace(v2(good), good.Signature, "0x"+strings.Repeat("ab", 5000),
			1)), onchain.CodePayment, "signature"},
		"from no address": {edit(func(a *payer.Authorization) { a.From = "0x12" }), onchain.CodePayer, "from"},
		"from with a wrong checksum": {edit(func(a *payer.Authorization) {
			a.From = "0x70997970c51812dc3A010C7d01b50e0d17dc79C8"
		}), onchain.CodePayer, "from"},
		"from of Solana":    {edit(func(a *payer.Authorization) { a.From = usdcSolana }), onchain.CodePayer, "from"},
		"to no address":     {edit(func(a *payer.Authorization) { a.To = "" }), onchain.CodeRecipient, "to "},
		"to another":        {edit(func(a *payer.Authorization) { a.To = usdcBase }), onchain.CodeRecipient, receiver},
		"from the receiver": {edit(func(a *payer.Authorization) { a.From = receiver }), onchain.CodePayer, "another"},
		"from the zero address": {edit(func(a *payer.Authorization) { a.From = "0x" + strings.Repeat("0", 40) }),
			onchain.CodePayer, "another"},
		"value 07":         {edit(func(a *payer.Authorization) { a.Value = "07000000" }), onchain.CodeAmount, "value"},
		"value in hex":     {edit(func(a *payer.Authorization) { a.Value = "0x6acfc0" }), onchain.CodeAmount, "value"},
		"value with a dot": {edit(func(a *payer.Authorization) { a.Value = "7000000.0" }), onchain.CodeAmount, "value"},
		"value negative":   {edit(func(a *payer.Authorization) { a.Value = "-7000000" }), onchain.CodeAmount, "value"},
		"value 2^256": {edit(func(a *payer.Authorization) {
			a.Value = new(big.Int).Lsh(big.NewInt(1),
				256).String()
		}), onchain.CodeAmount, "value"},
		"value 0":       {edit(func(a *payer.Authorization) { a.Value = "0" }), onchain.CodeTooLow, "5000000"},
		"value too low": {edit(func(a *payer.Authorization) { a.Value = "4999999" }), onchain.CodeTooLow, "5000000"},
		"value too high": {edit(func(a *payer.Authorization) { a.Value = "10000000001" }), onchain.CodeTooHigh,
			"10000000000"},
		"value 2^64 + 7000000": {edit(func(a *payer.Authorization) { a.Value = "18446744073716551616" }), onchain.CodeTooHigh,
			"10000000000"},
		"validAfter no number": {edit(func(a *payer.Authorization) { a.ValidAfter = "" }), onchain.CodePayment, "validAfter"},
		"validBefore no number": {edit(func(a *payer.Authorization) { a.ValidBefore = "soon" }), onchain.CodePayment,
			"validBefore"},
		"short nonce":      {edit(func(a *payer.Authorization) { a.Nonce = a.Nonce[:64] }), onchain.CodePayment, "nonce"},
		"nonce without 0x": {edit(func(a *payer.Authorization) { a.Nonce = a.Nonce[2:] }), onchain.CodePayment, "nonce"},
		"number as value": {encoded(strings.Replace(v2(good), `"value":"7000000"`, `"value":7000000`, 1)),
			onchain.CodeAmount, "string"},
		"no transaction": {encoded(shape(good, `"x402Version":2,"scheme":"exact","network":"solana"`)),
			onchain.CodePayment, "transaction"},
		"transaction no base64": {onSolana("%"), onchain.CodePayment, "base64"},
		"transaction is noise":  {onSolana("AAAA"), onchain.CodePayment, "transaction"},
	} {
		if refusal := refusalOf(t, terms, c.header); refusal.Code != c.code || refusal.Status() != 400 ||
			!strings.Contains(refusal.Text, c.words) {
			t.Errorf("%s: %d %s %q", name, refusal.Status(), refusal.Code, refusal.Text)
		}
	}
}

// A well-formed payment that does not hold is refused with 402 and a reason.
func TestPaymentsThatDoNotHoldAreRefused(t *testing.T) {
	terms := testTerms(t, func(c *config.X402) { no := false; c.Networks[1].ContractWallets = &no })
	resign := func(f func(a *evm.Authorization)) string { return encoded(v2(signed(t, f))) }
	forge := func(f func(signature []byte) []byte) string {
		p := signed(t, nil)
		signature, _ := evm.ParseHex(p.Signature, 65)
		p.Signature = evm.Hex(f(signature))
		return encoded(v2(p))
	}
	edit := func(f func(a *payer.Authorization)) string {
		p := signed(t, nil)
		f(p.Authorization)
		return encoded(v2(p))
	}
	for name, c := range map[string]struct{ header, reason string }{
		"expired long ago": {resign(func(a *evm.Authorization) { a.ValidBefore = evm.NumberOf(now.Unix() - 604_801) }),
			onchain.ReasonExpired},
		"not valid yet": {resign(func(a *evm.Authorization) { a.ValidAfter = evm.NumberOf(now.Unix()) }),
			onchain.ReasonNotYetValid},
		"never valid": {resign(func(a *evm.Authorization) { a.ValidAfter = evm.WordNumber(evm.Word{0: 1}) }),
			onchain.ReasonNotYetValid},
		"another value": {edit(func(a *payer.Authorization) { a.Value = "7000001" }), onchain.ReasonSignature},
		"another nonce": {edit(func(a *payer.Authorization) { a.Nonce = "0x" + strings.Repeat("cd", 32) }),
			onchain.ReasonSignature},
		"longer life": {edit(func(a *payer.Authorization) { a.ValidBefore = fmt.Sprint(now.Unix() + 301) }),
			onchain.ReasonSignature},
		"holds for too long": {resign(func(a *evm.Authorization) { a.ValidBefore = evm.NumberOf(now.Unix() + 4201) }),
			onchain.ReasonTooLong},
		"holds for ever": {resign(func(a *evm.Authorization) { a.ValidBefore = evm.WordNumber(evm.Word{0: 0xff}) }),
			onchain.ReasonTooLong},
		"another wallet":    {edit(func(a *payer.Authorization) { a.From = usdcBase }), onchain.ReasonSignature},
		"a bit of r":        {forge(func(s []byte) []byte { s[0] ^= 1; return s }), onchain.ReasonSignature},
		"v 0":               {forge(func(s []byte) []byte { s[64] -= 27; return s }), onchain.ReasonSignature},
		"high s":            {forge(highS), onchain.ReasonSignature},
		"compact signature": {forge(func(s []byte) []byte { return s[:64] }), onchain.ReasonSignature},
		"a byte behind":     {forge(func(s []byte) []byte { return append(s, 0) }), onchain.ReasonSignature},
		"not deployed": {forge(func(s []byte) []byte { return append(s, strings.Repeat("\x64\x92", 16)...) }),
			onchain.ReasonWrapped},
	} {
		if refusal := refusalOf(t, terms, c.header); refusal.Code != onchain.CodeVerification || refusal.Reason != c.reason ||
			refusal.Status() != 402 {
			t.Errorf("%s: %d %s %s", name, refusal.Status(), refusal.Code, refusal.Reason)
		}
	}
	// A signature for another token says so.
	text := strings.Replace(v2(signed(t, func(a *evm.Authorization) {})), `"asset":"`+usdcBase, `"asset":"`+receiver, 1)
	if _, err := terms.Read(encoded(text), now); err != nil {
		t.Errorf("members beside a good signature count: %v", err)
	}
	text = strings.Replace(text, strings.Repeat("ab", 32), strings.Repeat("cd", 32), 1)
	for _, terms := range []*Terms{terms, testTerms(t, nil)} {
		if refusal := refusalOf(t, terms, encoded(text)); refusal.Code != onchain.CodeToken {
			t.Errorf("another token: %s", refusal.Code)
		}
	}
}

// highS is the other s of the same signature, which is as valid to the curve.
func highS(signature []byte) []byte {
	var s secp256k1.ModNScalar
	s.SetByteSlice(signature[32:64])
	s.Negate()
	b := s.Bytes()
	copy(signature[32:64], b[:])
	signature[64] = 27 + 28 - signature[64]
	return signature
}

// Where contracts may pay, the chain is to be asked for a signature that is not the
// key's, and nothing else is let through by it.
func TestContractWalletsAreLeftToTheChain(t *testing.T) {
	terms := testTerms(t, nil)
	p := signed(t, nil)
	p.Signature = "0x" + strings.Repeat("11", 200)
	got, err := terms.Read(encoded(v2(p)), now)
	if err != nil {
		t.Fatal(err)
	}
	o, err := ParseOrder(got.Order)
	if err != nil || !o.EVM.Contract {
		t.Errorf("the order is %+v (%v)", o, err)
	}
	if got, err = terms.Read(encoded(v2(signed(t, nil))), now); err != nil {
		t.Fatal(err)
	}
	if o, err = ParseOrder(got.Order); err != nil || o.EVM.Contract {
		t.Errorf("the order of a key's wallet is %+v (%v)", o, err)
	}
	p.Signature = "0x" + strings.Repeat("6492", 16)
	if refusal := refusalOf(t, terms, encoded(v2(p))); refusal.Reason != onchain.ReasonWrapped {
		t.Errorf("a wallet that is not deployed: %s", refusal.Reason)
	}
}

func solanaPayment(t testing.TB, change func(d *svm.Draft)) payer.Payload {
	t.Helper()
	mint, err := wallet.ParseAddress(usdcSolana)
	if err != nil {
		t.Fatal(err)
	}
	d := svm.Draft{FeePayer: solanaWallet(9).Address(), Payer: solanaWallet(7).Address(), PayTo: solanaWallet(8).Address(),
		Mint: mint, Units: 5_000_000, Blockhash: [32]byte{1}, Memo: "m"}
	if change != nil {
		change(&d)
	}
	return solanaWallet(7).Pay(d.Transaction())
}

// Payments on Solana are read under both names of the network.
func TestSolanaPaymentsAreRead(t *testing.T) {
	terms := testTerms(t, nil)
	read := func(p payer.Payload, network string) (string, error) {
		got, err := terms.Read(encoded(shape(p, `"x402Version":2,"accepted":{"scheme":"exact","network":"`+network+`"}`)),
			now)
		return fmt.Sprintf("%+v", got), err
	}
	first, err := read(solanaPayment(t, nil), "solana")
	if err != nil || !strings.Contains(first, solanaWallet(7).Address().String()) {
		t.Fatalf("%s %v", first, err)
	}
	if again, err := read(solanaPayment(t, nil), solana); err != nil || again != first {
		t.Errorf("by its CAIP-2 name it is %s (%v)", again, err)
	}
	// Whether a fee payer is one of now is asked when the payment is not known.
	rotated, err := read(solanaPayment(t, func(d *svm.Draft) { d.FeePayer = solanaWallet(10).Address() }), "solana")
	if err != nil || rotated == first {
		t.Errorf("the fee payer of before: %v", err)
	}
	for name, c := range map[string]struct {
		p      payer.Payload
		code   string
		reason string
	}{
		"too little":    {solanaPayment(t, func(d *svm.Draft) { d.Units-- }), onchain.CodeTooLow, ""},
		"too much":      {solanaPayment(t, func(d *svm.Draft) { d.Units = 10_000_000_001 }), onchain.CodeTooHigh, ""},
		"2^63 units":    {solanaPayment(t, func(d *svm.Draft) { d.Units = 1 << 63 }), onchain.CodeTooHigh, ""},
		"another mint":  {solanaPayment(t, func(d *svm.Draft) { d.Mint = solanaWallet(3).Address() }), onchain.CodeToken, ""},
		"another payee": {solanaPayment(t, func(d *svm.Draft) { d.PayTo = solanaWallet(3).Address() }), onchain.CodeRecipient, ""},
		"another signer": {solanaWallet(6).Pay(func() *svm.Transaction {
			d := svm.Draft{FeePayer: solanaWallet(9).Address(), Payer: solanaWallet(7).Address(),
				PayTo: solanaWallet(8).Address(), Mint: terms.Network("solana").Asset, Units: 5_000_000}
			return d.Transaction()
		}()), onchain.CodeVerification, onchain.ReasonSignature},
	} {
		_, err := read(c.p, "solana")
		var refusal *onchain.Refusal
		if !errors.As(err, &refusal) || refusal.Code != c.code || refusal.Reason != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	own := testTerms(t, func(c *config.X402) { c.Networks[0].PayTo = solanaWallet(7).Address().String() })
	header := encoded(shape(solanaPayment(t, func(d *svm.Draft) { d.PayTo = solanaWallet(7).Address() }),
		`"x402Version":2,"scheme":"exact","network":"solana"`))
	if refusal := refusalOf(t, own, header); refusal.Code != onchain.CodePayment {
		t.Errorf("the receiver pays itself: %s %s", refusal.Code, refusal.Text)
	}
}

// The id is the chain's identity of a payment; Same tells two payments with one nonce
// from each other.
func TestIdentityIsWhatTheChainKnows(t *testing.T) {
	terms := testTerms(t, nil)
	read := func(p payer.Payload) (string, [32]byte) {
		got, err := terms.Read(encoded(v2(p)), now)
		if err != nil {
			t.Fatal(err)
		}
		return got.ID, got.Same
	}
	id, same := read(signed(t, nil))
	other, otherSame := read(signed(t, func(a *evm.Authorization) { a.Value = evm.NumberOf(8_000_000) }))
	if other != id || otherSame == same {
		t.Error("another amount with the nonce of a payment is another payment, or the same one")
	}
	if other, _ := read(signed(t, func(a *evm.Authorization) { a.Nonce[31]++ })); other == id {
		t.Error("another nonce is the same payment")
	}
	contract := signed(t, nil)
	contract.Signature = "0x22"
	if other, otherSame := read(contract); other != id || otherSame != same {
		t.Error("another signature makes another payment of the same authorization")
	}
}

// No header makes the reader panic, and an accepted one was signed.
func FuzzPaymentHeader(f *testing.F) {
	f.Add(v2(signed(f, nil)))
	f.Add(shape(solanaPayment(f, nil), `"x402Version":1,"scheme":"exact","network":"solana"`))
	f.Add(`{"x402Version":2,"accepted":{},"payload":{"authorization":{}}}`)
	terms := testTerms(f, nil)
	f.Fuzz(func(t *testing.T, text string) {
		for _, header := range []string{text, encoded(text)} {
			p, err := terms.Read(header, now)
			if err != nil {
				continue
			}
			o, err := ParseOrder(p.Order)
			if err != nil || p.Units < 5_000_000 || o.PayTo != terms.Network(p.Network).PayTo.String() {
				t.Fatalf("%+v %v", p, err)
			}
			if o.EVM != nil && !o.EVM.Contract {
				a, digest, signature, err := o.Authorization()
				if err != nil || a.Digest(terms.Network(base).separator) != digest {
					t.Fatalf("%+v %v", o, err)
				}
				if who, err := wallet.Recover(signature, digest); err != nil || who.String() != p.Wallet {
					t.Fatalf("%+v was not signed (%v)", o, err)
				}
			}
		}
	})
}
