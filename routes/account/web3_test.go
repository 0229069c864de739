package account

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"farebox/providers/wallet"
)

// The signature may be written with 0x or without, in either case.
func TestSignaturesAreReadInAnyDigits(t *testing.T) {
	const signer, text = "0x14791697260E4c9A71f18484C9f997B308e59325", "hello world"
	const signature = "0xddd0a7290af9526056b4e35a077b9a11b513aa0028ec6c9880948544508f3c63" +
		"265e99e47ad31bb2cab9646c504576b3abc6939a1710afc08cbf3034d73214b81c"
	for _, s := range []string{signature, signature[2:], "0x" + strings.ToUpper(signature[2:])} {
		if a, err := recoverSigner(s, text); err != nil || a.Checksummed() != signer {
			t.Errorf("%s was made by %s, %v", s, a.Checksummed(), err)
		}
	}
	for _, s := range []string{"", "0x", "0x0x" + signature[2:], signature[:131], signature + "00", "0X" + signature[2:]} {
		if a, err := recoverSigner(s, text); err == nil {
			t.Errorf("%s is taken as made by %s", s, a)
		}
	}
}

// A token is valid for 15 minutes, and only as this service issued it.
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

// FuzzWeb3 feeds the parsers of unauthenticated input: none breaks, and only our own
// token and a low-s signature pass.
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
	f.Fuzz(func(t *testing.T, address, signature, token string) {
		if a, err := wallet.ParseEVM(address); err == nil && !strings.EqualFold(a.String(), address) {
			t.Fatalf("%q became %s", address, a)
		}
		if a, err := recoverSigner(signature, token); err == nil {
			raw, bad := hex.DecodeString(strings.TrimPrefix(signature, "0x"))
			if bad != nil || len(raw) != 65 || a == (wallet.Address{}) || raw[32] > 0x7f {
				t.Fatalf("%q is taken as a signature of %s", signature, a)
			}
		}
		if id, _, err := tokens.check(token); err == nil && id != own {
			t.Fatalf("%q is taken as a token", token)
		}
	})
}
