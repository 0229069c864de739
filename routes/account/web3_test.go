package account

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"farebox/config"
	"farebox/proxy"
)

// Vectors that other implementations made (notes: wallets, EIP-55, EIP-191).
func TestSignaturesOfOtherImplementations(t *testing.T) {
	const wallet = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
	var digest [32]byte
	if _, err := hex.Decode(
		digest[:], []byte("7d17ea3302d0b371a9ff1b92e32884cbdf3a38bb2577e2e9c3e33609e84d4bc0")); err != nil {
		t.Fatal(err)
	}
	const signature = "0xcd565a36cd9e8a9ef78eab8286c0785f7376031bff635d353cbf48a7eef6a45c33c6a6d1577279acb7738d00526a5687bb73079946f9a3a6953de10e81fe35921b"
	for _, s := range []string{signature, signature[2:], signature[:130] + "00",
		"0x" + strings.ToUpper(signature[2:])} {
		if a, err := recoverSigner(s, digest); err != nil || a.checksummed() != wallet {
			t.Errorf("%s was made by %s, %v", s, a.checksummed(), err)
		}
	}
	if sum := personalHash("hello world"); hex.EncodeToString(sum[:]) !=
		"d9eba16ed0ecae432b71fe008c98cc872bb4cc214d3220a36f365326cf807d68" {
		t.Errorf("personal_sign of hello world hashes to %x", sum)
	}
	for _, s := range []string{
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
		"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
		"0x52908400098527886E0F7030069857D2E4169EE7", "0xde709f2102306220921060314715629080e2fb77", wallet,
	} {
		a, err := parseAddress(s)
		if err != nil || a.checksummed() != s || a.String() != strings.ToLower(s) {
			t.Errorf("%s is read as %s, %v", s, a.checksummed(), err)
		}
		swapped := strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'f':
				return r - 32
			case r >= 'A' && r <= 'F':
				return r + 32
			}
			return r
		}, s[2:])
		if mixed := strings.ToLower(swapped) != swapped && strings.ToUpper(swapped) != swapped; mixed {
			if _, err := parseAddress("0x" + swapped); err == nil {
				t.Errorf("%s with its case swapped is taken", s)
			}
		}
	}
}

// A token holds for 15 minutes, and only what this service made of it.
func TestTokensHoldFifteenMinutes(t *testing.T) {
	now := time.Unix(1_795_000_000, 0)
	secret := []byte(strings.Repeat("s", 32))
	tokens := newWeb3Tokens(secret, func() time.Time { return now })
	token, err := tokens.issue(now)
	if err != nil {
		t.Fatal(err)
	}
	id, expires, err := tokens.check(token)
	if err != nil || len(id) != web3TokenID || !expires.Equal(now.Add(15*time.Minute)) {
		t.Fatalf("%q, %s, %v", id, expires, err)
	}
	made := now
	now = made.Add(15*time.Minute - time.Second)
	if _, _, err := tokens.check(token); err != nil {
		t.Errorf("a second before its end: %v", err)
	}
	now = made.Add(15*time.Minute + time.Second)
	if _, _, err := tokens.check(token); !errors.Is(err, errTokenExpired) {
		t.Errorf("a second after its end: %v", err)
	}
	now = made
	sign := func(change func(jwt.MapClaims)) string {
		claims := jwt.MapClaims{"iss": web3Issuer, "aud": web3Audience, "jti": id, "iat": made.Unix(),
			"exp": made.Add(web3Life).Unix()}
		change(claims)
		s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(secret)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if _, _, err := tokens.check(sign(func(jwt.MapClaims) {})); err != nil {
		t.Errorf("the same claims: %v", err)
	}
	for name, change := range map[string]func(jwt.MapClaims){
		"another issuer":   func(c jwt.MapClaims) { c["iss"] = "other" },
		"another audience": func(c jwt.MapClaims) { c["aud"] = "login" },
		"no audience":      func(c jwt.MapClaims) { delete(c, "aud") },
		"no id":            func(c jwt.MapClaims) { delete(c, "jti") },
		"no end":           func(c jwt.MapClaims) { delete(c, "exp") },
		"no beginning":     func(c jwt.MapClaims) { delete(c, "iat") },
		"a longer life":    func(c jwt.MapClaims) { c["exp"] = made.Add(web3Life + time.Second).Unix() },
		"from the future":  func(c jwt.MapClaims) { c["iat"] = made.Add(time.Minute).Unix() },
		"not yet":          func(c jwt.MapClaims) { c["nbf"] = made.Add(time.Minute).Unix() },
	} {
		if _, _, err := tokens.check(sign(change)); !errors.Is(err, errTokenClaims) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := newWeb3Tokens([]byte("another"), func() time.Time { return now }).check(token); !errors.Is(err,
		errTokenSignature) {
		t.Errorf("another service takes it: %v", err)
	}
}

// "A script with many addresses filled the memory."
func TestTriesAreBounded(t *testing.T) {
	var tr tries
	rules := &config.Web3Keys{PerIP: 2}
	now := time.Unix(1_795_000_000, 0)
	from := func(ip string) netip.Addr { return proxy.Counted(netip.MustParseAddr(ip).Unmap()) }
	for i, want := range []bool{true, true, false, false} {
		if wait := tr.take(from("192.0.2.1"), rules, now); (wait == 0) != want {
			t.Errorf("try %d waits %s", i, wait)
		}
	}
	if tr.take(from("192.0.2.2"), rules, now) != 0 || tr.take(from("::ffff:192.0.2.1"), rules, now) == 0 {
		t.Error("addresses are mixed up")
	}
	if tr.take(from("2001:db8::1"), rules, now) != 0 || tr.take(from("2001:db8::2"), rules, now) != 0 ||
		tr.take(from("2001:db8::3"), rules, now) == 0 {
		t.Error("one customer's /64 is not counted together")
	}
	if tr.take(from("192.0.2.1"), rules, now.Add(30*time.Second)) != 0 {
		t.Error("half a minute later there is no room for one of two a minute")
	}
	if tr.take(netip.Addr{}, rules, now) != 0 || tr.take(from("192.0.2.1"), &config.Web3Keys{}, now) != 0 {
		t.Error("what is not counted is refused")
	}
	for i := range 3 * maxTries {
		tr.take(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), rules, now)
	}
	if len(tr.at) > maxTries {
		t.Errorf("%d addresses are kept", len(tr.at))
	}
}

// FuzzWeb3 feeds the parsers of what a stranger sends: none breaks, and nothing
// but our own token and a low-s signature passes.
func FuzzWeb3(f *testing.F) {
	// The same in all workers.
	now, own := time.Unix(1_795_000_000, 0), strings.Repeat("A", web3TokenID)
	tokens := newWeb3Tokens([]byte("secret"), func() time.Time { return now })
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": web3Issuer, "aud": web3Audience, "jti": own, "iat": now.Unix(), "exp": now.Add(web3Life).Unix(),
	}).SignedString([]byte("secret"))
	if err != nil {
		f.Fatal(err)
	}
	const signature = "0xcd565a36cd9e8a9ef78eab8286c0785f7376031bff635d353cbf48a7eef6a45c33c6a6d1577279acb7738d00526a5687bb73079946f9a3a6953de10e81fe35921b"
	for _, s := range [][3]string{
		{"0x70997970C51812dc3A010C7d01b50e0d17dc79C8", signature, token}, {"", "", ""}, {"0x", "0x", ".."},
		{"0x70997970c51812dc3a010c7d01b50e0d17dc79c8", signature[:130] + "1c", "eyJhbGciOiJub25lIn0.e30."},
		{"0xff", strings.Repeat("f", 130), "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjk5OTk5OTk5OTk5OX0.AA"},
		{"é", "0xé", "a.b.c.d"},
		{"0X70997970C51812DC3A010C7D01B50E0D17DC79C8", strings.Repeat("0", 130),
			"eyJhbGciOiJIUzI1NiIsImNyaXQiOlsiYiJdfQ.bnVsbA.AA"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, wallet, signature, token string) {
		if a, err := parseAddress(wallet); err == nil && !strings.EqualFold(a.String(), wallet) {
			t.Fatalf("%q became %s", wallet, a)
		}
		if a, err := recoverSigner(signature, personalHash(token)); err == nil {
			raw, bad := hex.DecodeString(strings.TrimPrefix(signature, "0x"))
			if bad != nil || len(raw) != 65 || a == (address{}) || raw[32] > 0x7f {
				t.Fatalf("%q is taken as a signature of %s", signature, a)
			}
		}
		if id, _, err := tokens.check(token); err == nil && id != own {
			t.Fatalf("%q is taken as a token", token)
		}
	})
}
