package signin

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/providers/wallet"
)

// original is a header that its wallet made, and its contents.
type original struct {
	header []byte
	wallet wallet.Address
	chain  string
	nonce  string
	issued time.Time
	until  time.Time
}

// originals are headers in every form.
func originals(t testing.TB, r *Rules) (list []original) {
	t.Helper()
	evm, sol := evmSigner(0), solanaSigner(0)
	bare := sol.text(solana, strings.TrimPrefix(solana, "solana:"))
	stamped := with(evm.said(evm.text()+"\nResources:\n- ipfs://a/b"), "timestamp", at.UnixMilli())
	for _, m := range []map[string]any{stamped, evm.fields(evm.text()), with(sol.said(sol.text()), "type", "ed25519"),
		sol.fields(bare)} {
		header := encode(t, m)
		s, no := r.Read(header, at)
		if no != nil {
			t.Fatalf("an original is refused: %s", no.Message)
		}
		list = append(list, original{header, s.Wallet, s.Chain, s.Nonce, s.IssuedAt, s.Until})
	}
	return list
}

// same reports whether a header was read as the original.
func (o *original) same(s *SignIn) bool {
	return s.Wallet == o.wallet && s.Chain == o.chain && s.Nonce == o.nonce && s.IssuedAt.Equal(o.issued) &&
		s.Until.Equal(o.until) && !s.Unproven
}

// FuzzRead: other wallets' keys are not at hand, so that every accepted header has an
// original's contents.
func FuzzRead(f *testing.F) {
	r := rules()
	list := originals(f, r)
	for _, o := range list {
		body, err := base64.StdEncoding.DecodeString(string(o.header))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	for _, s := range []string{"", "{}", `{"address":"0x","signature":"0x","chainId":1e9,"message":"\ud800"}`,
		`{"resources":[null],"domain":"\u0000","chainId":"solana:"}`, `{"timestamp":1e999}`,
		`{"address":"1","signature":"","chainId":1,` +
			`"message":"a wants you to sign in with your Ethereum account:\n1\n\n\n"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, no := r.Read([]byte(base64.StdEncoding.EncodeToString(body)), at)
		if no != nil {
			if s != nil || no.Message == "" || !strings.HasPrefix(no.Code, "X402_SIGN_IN_") {
				t.Fatalf("%q is refused with %+v and %+v", body, no, s)
			}
			return
		}
		for i := range list {
			if list[i].same(s) {
				return
			}
		}
		t.Fatalf("%q is taken as %+v", body, s)
	})
}

// FuzzHeader: a header is decoded as by a decoder of its alphabet.
func FuzzHeader(f *testing.F) {
	for _, s := range []string{"e30=", "e30", "_-_-", "+/+/", "e31=", "e3=0", "====", "=", "A", "e30=\n", "e3 0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		got, ok := decode(header)
		if !ok {
			return
		}
		trimmed := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(string(header), "="))
		want, err := base64.RawStdEncoding.Strict().DecodeString(trimmed)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q is decoded to %q, not %q, %v", header, got, want, err)
		}
	})
}

// FuzzFields: no field of a header can set another one.
func FuzzFields(f *testing.F) {
	f.Add("api.example.com", "Sign in", "https://api.example.com", "8453abcd", "2026-11-20T12:00:00Z",
		"2026-11-20T12:05:00Z", "x", "ipfs://a", true)
	f.Add("a", "", "a:", "01234567", "2026-11-20T12:00:00Z", "", "", "", false)
	f.Add("a://b", "a\n\nURI: a:", "a:b\nVersion: 1", "0123456\n", "x\nNonce: 12345678", "\n", "\nResources:",
		"\n- a:", true)
	f.Add("a"+asksSolana, "URI: a:b", "a:b", "01234567", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999999Z",
		"%41", "mailto:a@b", false)
	f.Fuzz(func(t *testing.T, domain, statement, uri, nonce, issued, expires, request, resource string, evm bool) {
		s := evmSigner(0)
		c := &claim{address: s.address, chain: base, resources: []string{resource}, listed: true}
		if !evm {
			c.chain = solana
		}
		for id, text := range map[int]string{fieldDomain: domain, fieldStatement: statement, fieldURI: uri,
			fieldVersion: "1", fieldNonce: nonce, fieldIssued: issued, fieldExpires: expires, fieldRequest: request} {
			c.fields[id] = optional{text, text != ""}
		}
		text, no := c.rebuild(false)
		if no != nil {
			return
		}
		m, no := parseMessage(text)
		if no != nil {
			return
		}
		shown := m.domain
		if m.scheme != "" {
			shown = m.scheme + "://" + m.domain
		}
		if shown != domain || m.uri != uri || m.version != "1" || m.nonce != nonce || m.address != s.address ||
			m.family != family(c.chain) || !strings.HasSuffix(c.chain, ":"+m.chain) || m.expiring != (expires != "") {
			t.Fatalf("%+v is read from\n%s", m, text)
		}
		want, err := time.Parse(time.RFC3339, strings.ToUpper(issued))
		if err != nil || !want.Equal(m.issued) || !m.notBefore.IsZero() {
			t.Fatalf("%+v is read from\n%s", m, text)
		}
	})
}

// FuzzOrigin: an accepted text has an origin that net/url sees as well.
func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"https://api.example.com", "https://api.example.com:443/x?y#z", "https://a@api.example.com",
		"https://api.example.com\\@b", "HTTPS://API.EXAMPLE.COM", "http://api.example.com:80", "https://api.example.com%2f",
		"https://[::1]:443/", "a:b", "https://", "https:///x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		if !isURI(uri) || !sameOrigin("https://api.example.com", uri) {
			return
		}
		u, err := url.Parse(uri)
		if err != nil || !strings.EqualFold(u.Scheme, "https") || !strings.EqualFold(u.Hostname(), "api.example.com") ||
			u.Port() != "" && u.Port() != "443" || u.User != nil || u.Opaque != "" {
			t.Fatalf("%q is of our origin; net/url: %+v, %v", uri, u, err)
		}
	})
}

// mutations is how many changed headers the long run reads; mutate makes one of a
// header: of its base64, of its JSON, or of a string in its JSON.
const mutations = 1_000_000

func mutate(rng *rand.Rand, header []byte) []byte {
	switch rng.IntN(3) {
	case 0:
		return scramble(rng, header)
	case 1:
		return wrap(scramble(rng, unwrap(header)))
	}
	var m map[string]any
	if err := json.Unmarshal(unwrap(header), &m); err != nil {
		panic(err)
	}
	names := []string{"address", "message", "signature", "chainId", "domain", "uri", "nonce", "issuedAt", "expirationTime",
		"statement", "version", "type"}
	for {
		name := names[rng.IntN(len(names))]
		if text, ok := m[name].(string); ok {
			m[name] = string(scramble(rng, []byte(text)))
			break
		}
	}
	body, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return wrap(body)
}

func wrap(body []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(body)) }

func unwrap(header []byte) []byte {
	body, err := base64.StdEncoding.DecodeString(string(header))
	if err != nil {
		panic(err)
	}
	return body
}

// scramble changes one to three places.
func scramble(rng *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + rng.IntN(3) {
		i := rng.IntN(len(b) + 1)
		j := min(len(b), i+rng.IntN(8))
		switch rng.IntN(6) {
		case 0: // goes
			b = append(b[:i:i], b[j:]...)
		case 1: // comes twice
			b = append(b[:j:j], b[i:]...)
		case 2: // comes in
			b = append(b[:i:i], append([]byte{byte(rng.Uint32())}, b[i:]...)...)
		case 3: // changes its case
			for k := i; k < j; k++ {
				b[k] ^= 0x20
			}
		default:
			if i < len(b) {
				b[i] ^= 1 << rng.IntN(8)
			}
		}
		if len(b) == 0 {
			return b
		}
	}
	return b
}

func readMutations(t *testing.T, seed uint64, n int) {
	t.Helper()
	r := rules()
	list := originals(t, r)
	rng := rand.New(rand.NewPCG(seed, 13))
	taken, codes := 0, map[string]int{}
	for i := range n {
		o := &list[rng.IntN(len(list))]
		header := mutate(rng, o.header)
		s, no := r.Read(header, at)
		switch {
		case no != nil:
			codes[no.Code]++
		case !o.same(s):
			t.Fatalf("mutation %d of seed %d is taken as %+v:\n%s", i, seed, s, header)
		default:
			taken++
		}
	}
	t.Logf("%d of %d taken; refused: %v", taken, n, codes)
	if taken == 0 || len(codes) < 8 {
		t.Error("the mutations show too little")
	}
}

// A changed header proves only its wallet's signed text.
func TestChangedHeadersSayNothingNew(t *testing.T) { readMutations(t, 1, 10_000) }

func TestLongChangedHeadersSayNothingNew(t *testing.T) {
	readMutations(t, rand.Uint64(), servers.Campaign(mutations))
}
