package rpc

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"testing"

	"golang.org/x/crypto/sha3"
)

// A transaction's hash is known before a node answers; the first is the example of EIP-155.
func TestTransactionHash(t *testing.T) {
	evm, solana := FamilyOf("evm"), FamilyOf("solana")
	f := func(family *Family, params, want string) {
		t.Helper()
		if got := string(transactionHash(family, []byte(params))); got != want {
			t.Errorf("%s has the hash %s, want %s", params, got, want)
		}
	}
	keccak := func(raw string) string {
		p, err := hex.DecodeString(raw)
		if err != nil {
			t.Fatal(err)
		}
		h := sha3.NewLegacyKeccak256()
		_, _ = h.Write(p)
		return `"0x` + hex.EncodeToString(h.Sum(nil)) + `"`
	}
	f(evm, `["0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"]`,
		`"0x33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788"`)
	f(evm, `[ "0x02C20102" , {}]`, keccak("02c20102"))
	// Blobs beside a transaction do not count into its hash (EIP-4844).
	f(evm, `["0x03c20102"]`, keccak("03c20102"))
	f(evm, `["0x03c5c20102c100"]`, keccak("03c20102"))
	f(evm, `["0x03f805c20102c100"]`, keccak("03c20102"))
	for _, bad := range []string{`[]`, `{}`, `[1]`, `["abc"]`, `["0x"]`, `["0x1"]`, `["0xzz"]`, ``} {
		f(evm, bad, "")
	}
	f(evm, `["0x03"]`, keccak("03"))
	f(evm, `["0x03ff"]`, keccak("03ff"))

	signature := make([]byte, 64)
	for i := range signature {
		signature[i] = byte(i)
	}
	raw := slices.Concat([]byte{1}, signature, []byte("message"))
	want := `"` + base58Encode(signature) + `"`
	f(solana, `["`+base64.StdEncoding.EncodeToString(raw)+`",{"encoding":"base64"}]`, want)
	f(solana, `["`+base58Encode(raw)+`"]`, want)
	f(solana, `["0OIl"]`, "")
	f(solana, `["AAAA",{"encoding":"base64"}]`, "")
}

func TestBase58(t *testing.T) {
	for text, want := range map[string]string{"Hello World!": "2NEpo7TZRRrLZSi2U", "\x00\x00\x01": "112", "": "",
		"\x00": "1"} {
		if got := base58Encode([]byte(text)); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
		if got := base58Decode(want); want != "" && string(got) != text {
			t.Errorf("%s is %q, want %q", want, got, text)
		}
	}
}

// Whatever the params, computing the hash does no harm.
func FuzzTransactionHash(f *testing.F) {
	f.Add([]byte(`["0x03f838f801c0"]`))
	f.Add([]byte(`["1111"]`))
	f.Add([]byte(`["AAAA",{"encoding":"base64"}]`))
	f.Fuzz(func(_ *testing.T, params []byte) {
		transactionHash(FamilyOf("evm"), params)
		transactionHash(FamilyOf("solana"), params)
	})
}
