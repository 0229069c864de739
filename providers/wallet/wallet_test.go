package wallet

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/mr-tron/base58"
)

// vector is a signature that viem made.
const (
	vectorWallet    = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
	vectorDigest    = "7d17ea3302d0b371a9ff1b92e32884cbdf3a38bb2577e2e9c3e33609e84d4bc0"
	vectorSignature = "cd565a36cd9e8a9ef78eab8286c0785f7376031bff635d353cbf48a7eef6a45c" +
		"33c6a6d1577279acb7738d00526a5687bb73079946f9a3a6953de10e81fe35921b"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func vector(t testing.TB) (signature []byte, digest [32]byte) {
	t.Helper()
	return unhex(t, vectorSignature), [32]byte(unhex(t, vectorDigest))
}

// The hashes and signatures of other implementations.
func TestSignaturesOfOtherImplementations(t *testing.T) {
	signature, digest := vector(t)
	for _, v := range []byte{27, 0} {
		signature[64] = v
		if a, err := Recover(signature, digest); err != nil || a.Checksummed() != vectorWallet {
			t.Errorf("v %d: made by %s, %v", v, a.Checksummed(), err)
		}
	}
	for text, want := range map[string]string{
		"hello world": "d9eba16ed0ecae432b71fe008c98cc872bb4cc214d3220a36f365326cf807d68",
		"":            "5f35dce98ba4fba25530a026ed80b2cecdaa31091ba4958b99b52ea1d068adad",
	} {
		if sum := PersonalHash(text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("personal_sign of %q hashes to %x", text, sum)
		}
	}
}

// Of the forms in which a signature can be written one is taken.
func TestSignatureHasOneForm(t *testing.T) {
	change := func(f func(s []byte)) (signature []byte, digest [32]byte) {
		signature, digest = vector(t)
		f(signature)
		return signature, digest
	}
	for what, f := range map[string]func(s []byte){
		"high s": func(b []byte) {
			var s secp256k1.ModNScalar
			s.SetByteSlice(b[32:64])
			s.Negate()
			high := s.Bytes()
			copy(b[32:], high[:])
			b[64] = 28
		},
		"v 2":  func(b []byte) { b[64] = 2 },
		"v 26": func(b []byte) { b[64] = 26 }, "v 29": func(b []byte) { b[64] = 29 }, "v 255": func(b []byte) { b[64] = 255 },
		"r 0": func(b []byte) { clear(b[:32]) }, "s 0": func(b []byte) { clear(b[32:64]) },
		"r of the order": func(b []byte) {
			copy(b, unhex(t, "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"))
		},
		"r that is not an x": func(b []byte) { clear(b[:32]); b[31] = 5 },
	} {
		if a, err := Recover(change(f)); err == nil {
			t.Errorf("%s is taken as a signature of %s", what, a)
		}
	}
	signature, digest := vector(t)
	for _, s := range [][]byte{nil, signature[:64], append(signature, 0)} {
		if _, err := Recover(s, digest); err == nil {
			t.Errorf("%d bytes are taken", len(s))
		}
	}
	other, digest := change(func(b []byte) { b[64] = 28 })
	if a, err := Recover(other, digest); err == nil && a.Checksummed() == vectorWallet {
		t.Error("the other v is of the same wallet")
	}
}

// The vectors of EIP-55, and wrong ones.
func TestAddressesCarryTheirChecksum(t *testing.T) {
	for _, s := range []string{
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
		"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
		"0x52908400098527886E0F7030069857D2E4169EE7", "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
		"0xde709f2102306220921060314715629080e2fb77", "0x27b1fdb04752bbc536007a920d24acb045561c26", vectorWallet,
	} {
		a, err := ParseAddress(s)
		if err != nil || a.Checksummed() != s || a.String() != strings.ToLower(s) || a.Family() != EVM {
			t.Errorf("%s is read as %s, %v", s, a.Checksummed(), err)
		}
		for _, one := range []string{strings.ToLower(s), "0x" + strings.ToUpper(s[2:])} {
			if b, err := ParseEVM(one); err != nil || b != a || EVMAddress(a.EVM()) != b {
				t.Errorf("%s is another address, %v", one, err)
			}
		}
		for i := 2; i < len(s); i++ {
			changed := []byte(s)
			if changed[i] ^= 0x20; s[i] <= '9' {
				continue
			}
			text := string(changed)
			if text[2:] == strings.ToLower(text[2:]) || text[2:] == strings.ToUpper(text[2:]) {
				continue
			}
			if _, err := ParseAddress(text); err == nil {
				t.Errorf("%s is taken", text)
			}
		}
	}
	for _, s := range []string{"", "0x", "0X70997970C51812dc3A010C7d01b50e0d17dc79C8", vectorWallet[2:], vectorWallet[:41],
		vectorWallet + "0", "0x70997970c51812dc3a010c7d01b50e0d17dc79cg", " " + vectorWallet,
		"1111111111111111111111111111111", strings.Repeat("1", 33), strings.Repeat("z", 44),
		"5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpO", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp\u00e9"} {
		if a, err := ParseAddress(s); err == nil {
			t.Errorf("%q is taken as %s", s, a)
		}
	}
	key := ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey)
	a, err := ParseAddress(base58.Encode(key))
	if err != nil || a != SolanaAddress([32]byte(key)) || a.Checksummed() != base58.Encode(key) || a.Family() != Solana ||
		a.Key() != [32]byte(key) {
		t.Errorf("a wallet of Solana is read as %s, %v", a, err)
	}
	if _, err := ParseEVM(a.String()); err == nil {
		t.Error("a wallet of Solana is one of EVM")
	}
}

// smallOrder are the points whose multiple of 8 is the identity, in all spellings.
var smallOrder = []string{
	"0100000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000080",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0000000000000000000000000000000000000000000000000000000000000080",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
}

// "Somebody signed in with a key that nobody has": under a key of small order the same
// signature holds for one message in eight, or for all.
func TestKeysOfSmallOrderAreNobodys(t *testing.T) {
	fooled := 0
	for _, text := range smallOrder {
		key := [32]byte(unhex(t, text))
		// R is the key's own multiple of nothing: S is 0.
		for _, r := range smallOrder {
			signature := append(unhex(t, r), make([]byte, 32)...)
			for n := range byte(16) {
				if ed25519.Verify(key[:], []byte{n}, signature) {
					fooled++
				}
				if VerifyEd25519(SolanaAddress(key), []byte{n}, signature) {
					t.Fatalf("key %s, R %s: taken", text, r)
				}
			}
		}
	}
	if fooled == 0 {
		t.Error("no signature fools the library, so that the test shows nothing")
	}
}

// A signature is of one wallet and one text.
func TestEd25519SignaturesAreOfTheWallet(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	a := SolanaAddress([32]byte(key.Public().(ed25519.PublicKey)))
	text := []byte("sign in")
	good := ed25519.Sign(key, text)
	if !VerifyEd25519(a, text, good) || !OnCurve(a.Key()) {
		t.Error("the wallet's own signature is refused")
	}
	for what, s := range map[string][]byte{"none": nil, "short": good[:63], "long": append(bytes.Clone(good), 0),
		"of another text": ed25519.Sign(key, []byte("sign in ")), "changed": func() []byte {
			b := bytes.Clone(good)
			b[40] ^= 1
			return b
		}()} {
		if VerifyEd25519(a, text, s) {
			t.Errorf("signature %s is taken", what)
		}
	}
	var evm [20]byte
	copy(evm[:], key)
	if VerifyEd25519(EVMAddress(evm), text, good) || VerifyEd25519(Address{}, text, good) {
		t.Error("an address of another family signs")
	}
	off := [32]byte{2} // y 2 is of no point
	if OnCurve(off) || VerifyEd25519(SolanaAddress(off), text, good) {
		t.Error("a key that is not a point signs")
	}
}

// FuzzParseAddress: an accepted address is read back unchanged, in every spelling.
func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{vectorWallet, strings.ToLower(vectorWallet), "0x", "",
		"0X70997970C51812dc3A010C7d01b50e0d17dc79C8",
		"AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9", "11111111111111111111111111111111", strings.Repeat("é", 20),
		"5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "\x00" + strings.Repeat("1", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil {
			if a != (Address{}) {
				t.Fatalf("%q is refused and gives %s", s, a)
			}
			return
		}
		switch a.Family() {
		case EVM:
			if !strings.EqualFold(a.String(), s) || len(s) != 42 {
				t.Fatalf("%q became %s", s, a)
			}
		case Solana:
			if a.String() != s {
				t.Fatalf("%q became %s", s, a)
			}
		default:
			t.Fatalf("%q has no family", s)
		}
		if b, err := ParseAddress(a.Checksummed()); err != nil || a != b {
			t.Fatalf("%q became %s, then %s, %v", s, a, b, err)
		}
	})
}

// FuzzRecover: an accepted signature has one form, and one wallet.
func FuzzRecover(f *testing.F) {
	signature, digest := vector(f)
	f.Add(signature, digest[:])
	f.Add(signature[:64], digest[:])
	f.Add(make([]byte, 65), make([]byte, 32))
	f.Add(bytes.Repeat([]byte{255}, 65), digest[:])
	f.Fuzz(func(t *testing.T, signature, digest []byte) {
		var hash [32]byte
		copy(hash[:], digest)
		a, err := Recover(signature, hash)
		if err != nil {
			if a != (Address{}) {
				t.Fatalf("%x is refused and gives %s", signature, a)
			}
			return
		}
		if len(signature) != 65 || signature[32] > 0x7f || a.Family() != EVM || a.EVM() == [20]byte{} {
			t.Fatalf("%x is taken as a signature of %s", signature, a)
		}
		// The same with the other v is of another key.
		if signature[64] >= 27 {
			signature[64] -= 27
		}
		signature[64] ^= 1
		if b, err := Recover(signature, hash); err == nil && a == b {
			t.Fatalf("%x is of %s with either v", signature, a)
		}
	})
}
