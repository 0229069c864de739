package tee

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"farebox/providers/wallet"
)

const halves = "abababababababababababababababababababababababababababababababab:" +
	"cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"

// signer signs as an enclave does.
func signer(text string) (address, signature string) {
	key := secp256k1.PrivKeyFromBytes([]byte(strings.Repeat("\x11", 32)))
	hash := wallet.PersonalHash(text)
	c := ecdsa.SignCompact(key, hash[:], false)
	sum := wallet.Keccak(key.PubKey().SerializeUncompressed()[1:])
	return "0x" + hex.EncodeToString(sum[12:]), "0x" + hex.EncodeToString(append(c[1:], c[0]))
}

// An enclave's signature is accepted if it has only one reading, and believed if it is
// the address's over that very text.
func TestSignaturesOfAnswers(t *testing.T) {
	t.Parallel()
	address, signature := signer(halves)
	other, _ := signer("m:" + halves)
	if address != other {
		t.Fatal("it is not one key")
	}
	good := `{"text":"` + halves + `","signature":"` + signature + `","signing_address":"` + address + `","signing_algo":"ecdsa"}`
	set := func(from, to string) string { return strings.Replace(good, from, to, 1) }
	with := func(more string) string { return good[:len(good)-1] + "," + more + "}" }
	for name, raw := range map[string]string{"good": good, "as an object": set(`"`+signature+`"`, `{"value":"`+signature+`"}`),
		"with more": with(`"receipt":{"text":"x"}`), "of no algorithm": set(`,"signing_algo":"ecdsa"`, "")} {
		if s, err := ReadSignature([]byte(raw)); err != nil || !s.Valid || s.Request != halves[:64] || s.Response != halves[65:] {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	for name, raw := range map[string]string{
		"another text":      set("abab", "abac"),
		"another address":   set(address, "0x"+strings.Repeat("ab", 20)),
		"no address":        set(`"`+address+`"`, "null"),
		"of ed25519":        set("ecdsa", "ed25519"),
		"a short one":       set(signature, signature[:100]),
		"zeros":             set(signature, "0x"+strings.Repeat("00", 65)),
		"negated":           set(signature, negated(t, signature)),
		"of the other root": set(signature, signature[:len(signature)-2]+map[string]string{"1b": "1c", "1c": "1b"}[signature[len(signature)-2:]]),
	} {
		if s, err := ReadSignature([]byte(raw)); err != nil || s.Valid {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	for name, raw := range map[string]string{
		"another text behind":     with(`"text":"x"`),
		"one in other letters":    with(`"Text":"x"`),
		"one with escapes":        with(`"t\u0065xt":"x"`),
		"another signature":       with(`"signature":"0x00"`),
		"another within":          set(`"`+signature+`"`, `{"value":"`+signature+`","value":"0x00"}`),
		"another address":         with(`"signing_address":"0x00"`),
		"another algorithm":       with(`"SIGNING_ALGO":"x"`),
		"no text":                 set(`"text"`, `"words"`),
		"a signature of no text":  set(`"`+signature+`"`, "1"),
		"an error in its clothes": `{"error_code":"STREAM_DISCONNECTED","message":"no"}`,
		"an array":                "[" + good + "]", "two": good + good, "nothing": "", "cut": good[:50],
		"a long text": set(halves, strings.Repeat("a", maxText+1)),
	} {
		if s, err := ReadSignature([]byte(raw)); !errors.Is(err, ErrAnswer) && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// negated is the other valid signature that can be derived from one.
func negated(t *testing.T, signature string) string {
	t.Helper()
	raw, err := hex.DecodeString(signature[2:])
	if err != nil {
		t.Fatal(err)
	}
	var s secp256k1.ModNScalar
	s.SetByteSlice(raw[32:64])
	s.Negate()
	b := s.Bytes()
	copy(raw[32:64], b[:])
	raw[64] ^= 1
	return "0x" + hex.EncodeToString(raw)
}

// FuzzReadSignature: only the holder of the key makes a valid one, and another parser
// reads the same text.
func FuzzReadSignature(f *testing.F) {
	address, signature := signer(halves)
	for _, s := range []string{`{"text":"` + halves + `","signature":"` + signature + `","signing_address":"` + address + `"}`,
		`{"text":"a:b","signature":{"value":"0x"},"signing_address":"0x","signing_algo":"ed25519"}`, `{}`, `{"text":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ReadSignature(raw)
		var other struct {
			Text    string `json:"text"`
			Address string `json:"signing_address"`
		}
		if err != nil || json.Unmarshal(raw, &other) != nil {
			return
		}
		if request, response := hashes(other.Text); request != s.Request || response != s.Response {
			t.Errorf("%q, and by another %q", s.Request, request)
		}
		if s.Valid && (other.Text != halves || !strings.EqualFold(other.Address, address)) {
			t.Errorf("%q is valid", raw)
		}
	})
}
