package signin

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/mr-tron/base58"

	"farebox/providers/wallet"
)

const (
	base   = "eip155:8453"
	solana = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
)

// at is when the messages of the tests were issued.
var at = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func rules() *Rules {
	return &Rules{Domains: []string{"api.example.com", "127.0.0.1:8080"},
		Origins: []string{"https://api.example.com", "http://127.0.0.1:8080"},
		Chains:  []Chain{{Name: base}, {Name: solana}}, MaxAge: 5 * time.Minute, Skew: 30 * time.Second}
}

// signer is a wallet in the test's hands.
type signer struct {
	chain   string
	address string
	sign    func(text string) string
}

func evmSigner(seed byte) signer {
	key := secp256k1.PrivKeyFromBytes([]byte(strings.Repeat(string(rune('a'+seed)), 32)))
	sum := wallet.Keccak(key.PubKey().SerializeUncompressed()[1:])
	return signer{base, wallet.EVMAddress([20]byte(sum[12:])).Checksummed(), func(text string) string {
		hash := wallet.PersonalHash(text)
		compact := ecdsa.SignCompact(key, hash[:], false)
		return "0x" + hex.EncodeToString(append(compact[1:], compact[0]))
	}}
}

func solanaSigner(seed byte) signer {
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune('a'+seed)), 32)))
	return signer{solana, base58.Encode(key.Public().(ed25519.PublicKey)), func(text string) string {
		return base58.Encode(ed25519.Sign(key, []byte(text)))
	}}
}

// text is a message of the wallet, with lines replaced.
func (s signer) text(swaps ...string) string {
	kind, chain := "Ethereum", "8453"
	if s.chain == solana {
		kind, chain = "Solana", solana
	}
	text := "api.example.com wants you to sign in with your " + kind + " account:\n" + s.address +
		"\n\nSign in to farebox\n\nURI: https://api.example.com/api/v1/x402/balance\nVersion: 1\nChain ID: " + chain +
		"\nNonce: 0123456789abcdef\nIssued At: 2026-11-20T12:00:00.000Z\nExpiration Time: 2026-11-20T12:05:00.000Z"
	return strings.NewReplacer(swaps...).Replace(text)
}

// said is a header's JSON for a signed text.
func (s signer) said(text string) map[string]any {
	return map[string]any{"address": s.address, "message": text, "signature": s.sign(text), "chainId": s.chain}
}

// fields are a header's JSON in the other form, signed as x402's own package signs.
func (s signer) fields(text string) map[string]any {
	m := map[string]any{"address": s.address, "domain": "api.example.com", "statement": "Sign in to farebox",
		"uri": "https://api.example.com/api/v1/x402/balance", "version": "1", "chainId": s.chain, "type": "eip191",
		"nonce": "0123456789abcdef", "issuedAt": "2026-11-20T12:00:00.000Z",
		"expirationTime": "2026-11-20T12:05:00.000Z", "signature": s.sign(text)}
	if s.chain == solana {
		m["type"] = "ed25519"
	}
	return m
}

func encode(t testing.TB, m any) []byte {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(base64.StdEncoding.EncodeToString(b))
}

func with(m map[string]any, name string, value any) map[string]any {
	m = maps.Clone(m)
	m[name] = value
	return m
}

func without(m map[string]any, name string) map[string]any {
	m = maps.Clone(m)
	delete(m, name)
	return m
}

func accepts(t *testing.T, what string, r *Rules, header []byte, s signer) *SignIn {
	t.Helper()
	got, no := r.Read(header, at.Add(time.Second))
	if no != nil {
		t.Errorf("%s is refused: %s %s", what, no.Code, no.Message)
		return &SignIn{}
	}
	want, err := wallet.ParseAddress(s.address)
	if err != nil {
		t.Fatal(err)
	}
	if got.Wallet != want || got.Chain != s.chain || !got.IssuedAt.Equal(at) || got.Unproven {
		t.Errorf("%s is read as %+v", what, got)
	}
	return got
}

// "My client signs in, and yours does not know it": every form that clients send.
func TestEveryFormOfEveryClientIsTaken(t *testing.T) {
	evm, sol := evmSigner(0), solanaSigner(0)
	short := func(s string) string { return strings.TrimPrefix(s, "solana:") }
	r := rules()
	take := func(what string, m any, s signer) *SignIn { t.Helper(); return accepts(t, what, r, encode(t, m), s) }

	take("message", evm.said(evm.text()), evm)
	for _, id := range []any{8453, "8453", "eip155:8453"} {
		take(fmt.Sprintf("chainId %v", id), with(evm.said(evm.text()), "chainId", id), evm)
	}
	take("lower case", with(evm.said(evm.text()), "address", strings.ToLower(evm.address)), evm)
	lower := evm.text(evm.address, strings.ToLower(evm.address))
	take("lower case in the message", evm.said(lower), evm)
	take("timestamp", with(evm.said(evm.text()), "timestamp", at.UnixMilli()+30_000), evm)
	take("v of 0 and 1", with(evm.said(evm.text()), "signature", lowV(t, evm.sign(evm.text()))), evm)
	for _, statement := range []string{"", "\n", "\n\n"} {
		text := evm.text("Sign in to farebox\n\n", statement)
		take(fmt.Sprintf("empty lines %q", statement), evm.said(text), evm)
	}
	take("a statement like a line", evm.said(evm.text("Sign in to farebox", "URI: https://evil.example/")), evm)
	take("scheme", evm.said("https://"+evm.text()), evm)
	take("origin alone", evm.said(evm.text("/api/v1/x402/balance", "")), evm)
	take("the usual port", evm.said(evm.text("URI: https://api.example.com", "URI: HTTPS://API.example.com:443")), evm)
	take("another domain of ours", evm.said(evm.text("https://api.example.com", "http://127.0.0.1:8080",
		"api.example.com wants", "127.0.0.1:8080 wants")), evm)
	take("an offset", evm.said(evm.text("T12:00:00.000Z", "T14:00:00+02:00")), evm)
	take("small letters in a time", evm.said(evm.text("T12:00:00.000Z", "t12:00:00.000z")), evm)
	tail := "\nNot Before: 2026-11-20T12:00:00Z\nRequest ID: a%20b:c" +
		"\nResources:\n- https://x.example/?q#f\n- ipfs://b/c\n- urn:a:b"
	take("all lines", evm.said(evm.text()+tail), evm)
	take("no resources", evm.said(evm.text()+"\nRequest ID: \nResources:"), evm)

	take("Solana", with(sol.said(sol.text()), "type", "ed25519"), sol)
	take("Solana's reference", sol.said(sol.text(solana, short(solana))), sol)
	raw, err := base58.Decode(sol.sign(sol.text()))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding,
		base64.RawURLEncoding} {
		take("a signature of base64", with(sol.said(sol.text()), "signature", e.EncodeToString(raw)), sol)
		body, err := json.Marshal(evm.said(evm.text()))
		if err != nil {
			t.Fatal(err)
		}
		accepts(t, "a header of base64", r, []byte(e.EncodeToString(body)), evm)
	}

	take("fields", evm.fields(evm.text()), evm)
	take("fields, lower case", with(evm.fields(evm.text()), "address", strings.ToLower(evm.address)), evm)
	take("fields of Solana", sol.fields(sol.text(solana, short(solana))), sol)
	take("fields of Solana with its whole name", sol.fields(sol.text()), sol)
	take("fields without a statement", without(evm.fields(evm.text("Sign in to farebox\n\n", "\n")), "statement"), evm)
	take("fields with none", with(evm.fields(evm.text("Sign in to farebox\n\n", "\n\n")), "statement", ""), evm)
	take("fields with null", with(evm.fields(evm.text("Sign in to farebox\n\n", "\n")), "statement", nil), evm)
	take("fields of Solana without a statement",
		without(sol.fields(sol.text("Sign in to farebox\n\n", "", solana, short(solana))), "statement"), sol)
	full := with(with(with(evm.fields(evm.text()+tail), "notBefore", "2026-11-20T12:00:00Z"), "requestId", "a%20b:c"),
		"resources", []string{"https://x.example/?q#f", "ipfs://b/c", "urn:a:b"})
	take("all fields", full, evm)
	take("all fields and the kind of signature", with(full, "signatureScheme", "eip191"), evm)
}

func lowV(t *testing.T, signature string) string {
	t.Helper()
	v := map[string]string{"1b": "00", "1c": "01"}[signature[130:]]
	if v == "" {
		t.Fatalf("the signature ends with %s", signature[130:])
	}
	return signature[:130] + v
}

// A nonce is of its wallet, and is remembered longer than its message can be sent.
func TestNonceIsRememberedWithItsWallet(t *testing.T) {
	a, b, r := evmSigner(0), evmSigner(1), rules()
	one := accepts(t, "one", r, encode(t, a.said(a.text())), a)
	again := accepts(t, "again", r, encode(t, a.fields(a.text())), a)
	other := accepts(t, "other", r, encode(t, b.said(b.text())), b)
	next := accepts(t, "next", r, encode(t, a.said(a.text("0123456789abcdef", "0123456789ABCDEF"))), a)
	id, until := one.Token()
	if same, _ := again.Token(); same != id {
		t.Error("the same nonce has another token in another form")
	}
	if x, _ := other.Token(); x == id {
		t.Error("the nonce of another wallet is used up")
	}
	if x, _ := next.Token(); x == id {
		t.Error("another nonce is used up")
	}
	if want := at.Add(5*time.Minute + 90*time.Second); !until.Equal(want) || len(id) > 64 {
		t.Errorf("%s is remembered until %s, not %s", id, until, want)
	}
	if want := at.Add(5 * time.Minute); !one.Until.Equal(want) {
		t.Errorf("the header holds until %s", one.Until)
	}
	soon := accepts(t, "soon", r, encode(t, a.said(a.text("T12:05", "T12:01"))), a)
	if want := at.Add(time.Minute); !soon.Until.Equal(want) {
		t.Errorf("the header holds until %s", soon.Until)
	}
}

// Every refusal says why, by its code.
func TestRefusalsNameTheirReason(t *testing.T) {
	evm, sol, r := evmSigner(0), solanaSigner(0), rules()
	good := evm.said(evm.text())
	refused := func(what, code string, header []byte, when time.Time) {
		t.Helper()
		s, no := r.Read(header, when)
		switch {
		case no == nil:
			t.Errorf("%s is taken: %+v", what, s)
		case no.Code != code:
			t.Errorf("%s: %s %s, not %s", what, no.Code, no.Message, code)
		case no.Message == "" || strings.Contains(no.Message, evm.address):
			t.Errorf("%s: %q", what, no.Message)
		}
	}
	f := func(what, code string, m map[string]any) { t.Helper(); refused(what, code, encode(t, m), at) }
	raw := func(what, body string) {
		t.Helper()
		refused(what, InvalidPayload, []byte(base64.StdEncoding.EncodeToString([]byte(body))), at)
	}
	signed := func(what, code string, swaps ...string) { t.Helper(); f(what, code, evm.said(evm.text(swaps...))) }

	refused("nothing", InvalidPayload, nil, at)
	refused("no base64", InvalidPayload, []byte("{}"), at)
	refused("a line break", InvalidPayload, []byte("e30\n="), at)
	refused("too much", InvalidPayload, []byte(strings.Repeat("A", MaxHeader+1)), at)
	body, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	raw("no object", "[]")
	raw("no JSON", "{")
	raw("more than JSON", string(body)+"x")
	raw("a member twice", strings.Replace(string(body), "{", `{"address":"`+sol.address+`",`, 1))
	raw("a member in capitals", strings.Replace(string(body), "{", `{"Address":"`+sol.address+`",`, 1))
	raw("a member with escapes", strings.Replace(string(body), "{", `{"\u0061ddress":"`+sol.address+`",`, 1))
	raw("no UTF-8", strings.Replace(string(body), "Sign", "\xff", 1))
	raw("too deep", strings.Replace(string(body), "{", `{"x":[[[[[[[[1]]]]]]]],`, 1))
	for _, name := range []string{"address", "message", "signature"} {
		f("no "+name, InvalidPayload, with(good, name, 1))
	}
	f("no address", InvalidPayload, without(good, "address"))
	f("no signature", InvalidPayload, without(good, "signature"))
	f("text as timestamp", InvalidPayload, with(good, "timestamp", "1"))
	f("resources of numbers", InvalidPayload, with(evm.fields(evm.text()), "resources", []int{1}))
	f("resources that are none", InvalidPayload, with(evm.fields(evm.text()), "resources", "x"))
	f("the other type", InvalidPayload, with(good, "type", "ed25519"))
	for _, name := range []string{"domain", "uri", "version", "issuedAt"} {
		f("no "+name, InvalidPayload, without(evm.fields(evm.text()), name))
	}

	f("no chain", InvalidChainID, without(good, "chainId"))
	for _, id := range []any{"", "0", "08453", "eip155:", "eip155:x", 8453.5, -1, "cosmos:hub", "solana:", "base", true,
		nil, "eip155:8453 ", "EIP155:8453", "solana:a b"} {
		f(fmt.Sprintf("chain %v", id), InvalidChainID, with(good, "chainId", id))
	}
	f("another chain", UnsupportedChain, with(good, "chainId", 1))
	f("another cluster", UnsupportedChain,
		with(sol.said(sol.text()), "chainId", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"))
	signed("another chain in the message", ChainMismatch, "Chain ID: 8453", "Chain ID: 1")
	signed("zeros before the chain", ChainMismatch, "Chain ID: 8453", "Chain ID: 08453")
	signed("the name of an EVM chain", ChainMismatch, "Chain ID: 8453", "Chain ID: eip155:8453")
	f("Solana for EVM", ChainMismatch, with(sol.said(sol.text()), "chainId", base))

	signed("trailing line", ParseError, "T12:05:00.000Z", "T12:05:00.000Z\n")
	signed("another greeting", ParseError, "wants you", "asks you")
	signed("no domain", ParseError, "api.example.com wants", " wants")
	signed("carriage returns", ParseError, "\n", "\r\n")
	signed("a tab", ParseError, "Sign in", "Sign\tin")
	signed("beyond ASCII", ParseError, "Sign in", "Sign ïn")
	signed("no empty line", ParseError, evm.address+"\n\n", evm.address+"\n")
	signed("four empty lines", ParseError, "Sign in to farebox", "\n")
	signed("two lines of statement", ParseError, "Sign in to farebox", "Sign in\nto farebox")
	signed("no URI", ParseError, "URI: https://api.example.com/api/v1/x402/balance\n", "")
	signed("lines in another order", ParseError, "Version: 1\nChain ID: 8453", "Chain ID: 8453\nVersion: 1")
	signed("a line twice", ParseError, "Version: 1", "Version: 1\nVersion: 1")
	signed("an unknown line", ParseError, "\nExpiration", "\nFoo: bar\nExpiration")
	f("nothing to read", ParseError, evm.said(""))

	signed("another version", InvalidMessage, "Version: 1", "Version: 2")
	signed("a quote in the statement", InvalidMessage, "Sign in", `Sign "in"`)
	signed("no URI by its grammar", InvalidMessage, "/x402/balance", "/x402/ balance")
	signed("broken escape", InvalidMessage, "/x402/balance", "/x402/%2")
	signed("short nonce", InvalidMessage, "0123456789abcdef", "0123456")
	signed("odd nonce", InvalidMessage, "0123456789abcdef", "0123456789-abcdef")
	signed("long nonce", InvalidMessage, "0123456789abcdef", strings.Repeat("a", 129))
	signed("no time", InvalidMessage, "T12:00:00.000Z", "")
	signed("a time without zone", InvalidMessage, "T12:00:00.000Z", "T12:00:00")
	signed("a comma in a time", InvalidMessage, "T12:00:00.000Z", "T12:00:00,000Z")
	signed("the 32nd", InvalidMessage, "11-20T12:05", "11-32T12:05")
	signed("an invalid resource", InvalidMessage, "T12:05:00.000Z", "T12:05:00.000Z\nResources:\n- a b")
	f("a line in a field", InvalidMessage,
		with(evm.fields(evm.text()), "statement", "Sign in to farebox\n\nURI: https://evil.example"))
	f("a line in a resource", InvalidMessage, with(evm.fields(evm.text()), "resources", []string{"a:b\n- c:d"}))

	signed("no nonce", MissingNonce, "Nonce: 0123456789abcdef\n", "")
	signed("an empty nonce", MissingNonce, "0123456789abcdef", "")
	f("no nonce in the fields", MissingNonce, without(evm.fields(evm.text()), "nonce"))

	signed("another domain", DomainMismatch, "api.example.com wants", "evil.example wants")
	signed("our domain in another", DomainMismatch, "api.example.com wants", "api.example.com.evil.example wants")
	signed("a port that is not ours", DomainMismatch, "api.example.com wants", "api.example.com:8443 wants")
	signed("a user before our domain", DomainMismatch, "api.example.com wants", "x@api.example.com wants")
	signed("another scheme", DomainMismatch, "api.example.com wants", "http://api.example.com wants")
	for _, uri := range []string{"https://evil.example", "http://api.example.com", "https://api.example.com:8443/",
		"https://api.example.com@evil.example/", "https://evil.example@api.example.com/", "urn:api.example.com",
		"https://api.example.com.evil.example", "https:/api.example.com", "https:///api.example.com",
		"https://api.example.com:443:443", "https://api.example.com."} {
		s, no := r.Read(encode(t, evm.said(evm.text("https://api.example.com/api/v1/x402/balance", uri))), at)
		if no == nil || no.Code != DomainMismatch && no.Code != InvalidMessage {
			t.Errorf("URI %s: %+v, %+v", uri, s, no)
		}
	}

	other := evmSigner(1)
	f("another address", AddressMismatch, with(good, "address", other.address))
	f("no wallet", InvalidWallet, with(good, "address", "0x12"))
	f("a wallet of the other chain", InvalidWallet, with(good, "address", sol.address))
	f("a wrong checksum", InvalidWallet, with(good, "address", swapCase(evm.address)))
	signed("a wrong checksum in the message", InvalidWallet, evm.address, swapCase(evm.address))

	f("timestamp too early", TimestampMismatch, with(good, "timestamp", at.UnixMilli()-30_001))
	f("timestamp too late", TimestampMismatch, with(good, "timestamp", at.UnixMilli()+30_001))
	f("timestamp in seconds", TimestampMismatch, with(good, "timestamp", at.Unix()))
	f("timestamp of any size", TimestampMismatch, with(good, "timestamp", 1e300))
	header := encode(t, good)
	refused("later than its end", Expired, header, at.Add(5*time.Minute))
	long := encode(t, evm.said(evm.text("T12:05", "T13:05")))
	signed("an end before all times", Expired, "2026-11-20T12:05:00.000Z", "0001-01-01T00:00:00Z")
	refused("too old", Expired, long, at.Add(5*time.Minute+time.Millisecond))
	refused("from the future", FutureTimestamp, header, at.Add(-30*time.Second-time.Millisecond))
	signed("not valid yet", NotBefore, "T12:05:00.000Z", "T12:05:00.000Z\nNot Before: 2026-11-20T12:00:31Z")

	for what, signature := range map[string]string{
		"none": "", "another's": other.sign(evm.text()), "of another text": evm.sign(evm.text() + " "),
		"without 0x": evm.sign(evm.text())[2:], "no digits": "0x" + strings.Repeat("zz", 65),
		"half": evm.sign(evm.text())[:66], "with more": evm.sign(evm.text()) + "00", "empty": "0x",
	} {
		f("signature "+what, InvalidSignature, with(good, "signature", signature))
	}
	for what, signature := range map[string]string{
		"none": "", "another's": solanaSigner(1).sign(sol.text()), "of another text": sol.sign(sol.text() + " "),
		"of EVM": evm.sign(sol.text()), "long": strings.Repeat("1", 4000),
	} {
		f("Solana signature "+what, InvalidSignature, with(sol.said(sol.text()), "signature", signature))
		f("Solana fields, signature "+what, InvalidSignature, with(sol.fields(sol.text()), "signature", signature))
	}
	f("fields with another statement", InvalidSignature, with(evm.fields(evm.text()), "statement", "Sign in to farebox!"))
}

func swapCase(address string) string {
	return "0x" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'f':
			return r - 32
		case r >= 'A' && r <= 'F':
			return r + 32
		}
		return r
	}, address[2:])
}

// The edges of time are those of addendum 14.2.
func TestMessageIsTakenToTheLastMoment(t *testing.T) {
	s, r := evmSigner(0), rules()
	header := encode(t, s.said(s.text("T12:05", "T13:05")+"\nNot Before: 2026-11-20T12:00:00Z"))
	for _, when := range []time.Duration{-30 * time.Second, 0, 5 * time.Minute} {
		if _, no := r.Read(header, at.Add(when)); no != nil {
			t.Errorf("after %s: %s", when, no.Message)
		}
	}
}

// "Our safe signs in by its contract": that is for a node to say, where contracts may.
func TestContractWalletsAreLeftToTheChain(t *testing.T) {
	s, other, r := evmSigner(0), evmSigner(1), rules()
	r.Chains[0].Contracts = true
	text := s.text()
	for what, signature := range map[string]string{
		"an owner's": other.sign(text), "of two owners": other.sign(text) + s.sign(text)[2:], "short": "0x01",
		"the longest": "0x" + strings.Repeat("ab", maxSignature),
	} {
		got, no := r.Read(encode(t, with(s.said(text), "signature", signature)), at)
		if no != nil {
			t.Errorf("%s: %s", what, no.Message)
			continue
		}
		if !got.Unproven || got.Hash != wallet.PersonalHash(text) || "0x"+hex.EncodeToString(got.Signature) != signature {
			t.Errorf("%s is read as %+v", what, got)
		}
	}
	accepts(t, "its key", r, encode(t, s.said(text)), s)
	for what, signature := range map[string]string{"too long": "0x" + strings.Repeat("ab", maxSignature+1), "empty": "0x",
		"not deployed": "0x" + strings.Repeat("ab", 96) + strings.Repeat("6492", 16)} {
		_, no := r.Read(encode(t, with(s.said(text), "signature", signature)), at)
		if no == nil || no.Code != InvalidSignature || what == "not deployed" && !strings.Contains(no.Message, "ERC-6492") {
			t.Errorf("%s: %+v", what, no)
		}
	}
	if _, no := r.Read(encode(t, with(s.said(text), "type", "eip6492")), at); no != errUndeployed {
		t.Errorf("type eip6492: %+v", no)
	}
	sol := solanaSigner(0)
	if got, no := r.Read(encode(t, with(sol.said(sol.text()), "signature", other.sign(text))), at); no == nil {
		t.Errorf("a wallet of Solana has no contract: %+v", got)
	}
}

// A challenge can be signed and is taken, and names the host that was called.
func TestChallengeIsAnswered(t *testing.T) {
	s, r := evmSigner(0), rules()
	r.Chains[0].Contracts = true
	c := r.Challenge(at, "http://127.0.0.1:8080/api/v1/x402/top-up?a=1&b=2", "Sign in to farebox")
	var sent map[string]any
	if err := json.Unmarshal(c.AppendJSON(nil), &sent); err != nil {
		t.Fatal(err)
	}
	info := sent["info"].(map[string]any)
	if chains := fmt.Sprint(sent["supportedChains"]); chains != "[map[chainId:"+base+" type:eip191] map[chainId:"+base+
		" type:eip1271] map[chainId:"+solana+" type:ed25519]]" {
		t.Errorf("chains %s", chains)
	}
	if info["domain"] != "127.0.0.1:8080" || info["issuedAt"] != "2026-11-20T12:00:00.000Z" ||
		info["expirationTime"] != "2026-11-20T12:05:00.000Z" || len(info["nonce"].(string)) != 32 || len(info) != 7 {
		t.Errorf("info %v", info)
	}
	info["address"], info["chainId"], info["type"] = s.address, base, "eip191"
	info["signature"] = s.sign(fmt.Sprintf("%s wants you to sign in with your Ethereum account:\n%s\n\n%s\n\nURI: %s\n"+
		"Version: 1\nChain ID: 8453\nNonce: %s\nIssued At: %s\nExpiration Time: %s", info["domain"], s.address,
		info["statement"], info["uri"], info["nonce"], info["issuedAt"], info["expirationTime"]))
	accepts(t, "the answer", r, encode(t, info), s)
	if c := r.Challenge(at, "https://other.example/", ""); c.Info.Domain != "api.example.com" ||
		strings.Contains(string(c.AppendJSON(nil)), "statement") {
		t.Errorf("challenge of another host: %+v", c.Info)
	}
	if one, two := r.Challenge(at, "", "").Info.Nonce, r.Challenge(at, "", "").Info.Nonce; one == two {
		t.Error("a nonce comes twice")
	}
	for s, want := range map[string]bool{"Sign in to farebox": true, "": false, "a\nb": false, "a\"b": false,
		"ü": false} {
		if IsStatement(s) != want {
			t.Errorf("statement %q: %v", s, !want)
		}
	}
}
