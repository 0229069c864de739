package seal

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// open decrypts as an enclave does.
func open(t testing.TB, own *secp256k1.PrivateKey, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) < Overhead {
		t.Fatalf("%q, %v", text, err)
	}
	from, err := secp256k1.ParsePubKey(raw[:keyBytes])
	if err != nil {
		t.Fatal(err)
	}
	b, err := box(secp256k1.GenerateSharedSecret(own, from))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := b.Open(nil, raw[keyBytes:keyBytes+nonceBytes], raw[keyBytes+nonceBytes:], nil)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func private(b byte) *secp256k1.PrivateKey {
	return secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{b}, 32))
}

// A vector that implementations of clients agree on.
func TestSealedAsOthersDo(t *testing.T) {
	t.Parallel()
	const model = "044f355bdcb7cc0af728ef3cceb9615d90684bb5b2ca5f859ab0f0b704075871aa385b6b1b8ead809ca67454d9683fcf2ba03456d6fe2c4abe2b07f0fbdbb2f1c1"
	k, err := ParseKey(model)
	if err != nil || k.String() != model || !bytes.Equal(k.Bytes(), private(0x11).PubKey().SerializeUncompressed()) {
		t.Fatalf("%s, %v", k, err)
	}
	got, err := k.with(private(0x22), [12]byte(bytes.Repeat([]byte{0x33}, 12)), []byte("hello"))
	want := "04466d7fcae563e5cb09a0d1870bb580344804617879a14949cf22285f1bae3f276728176c3c6431f8eeda4538dc37c865e2784f3a9e77d044f33e407797e1278a33333333333333333333333351a8b9beddbf2a2acf0056fd5b05d757b7153c1b8f"
	if err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	if !Sealed([]byte(want)) || Plain(len(want)) != 5 || string(open(t, private(0x11), want)) != "hello" {
		t.Error("it is not recognised as a sealed text")
	}
}

// Two texts that are alike are not seen to be.
func TestEverySealIsAnother(t *testing.T) {
	t.Parallel()
	k, err := ParseKey(hex.EncodeToString(private(0x11).PubKey().SerializeUncompressed())[2:])
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 20 {
		text, err := k.To([]byte("the same"))
		if err != nil || !Sealed([]byte(text)) || seen[text[:2*keyBytes]] || string(open(t, private(0x11), text)) != "the same" {
			t.Fatal(text, err)
		}
		seen[text[:2*keyBytes]] = true
	}
}

func TestKeysThatAreNone(t *testing.T) {
	t.Parallel()
	good := hex.EncodeToString(private(0x11).PubKey().SerializeUncompressed())
	for _, s := range []string{"", "04", good[:128], good + "00", "02" + good[2:], "06" + good[2:], strings.Repeat("00", 65),
		"04" + strings.Repeat("ff", 64), "0x" + good[2:], good[:129] + "g", good[:129] + "0"} {
		if len(s) == 130 && s == good {
			continue
		}
		if k, err := ParseKey(s); err == nil {
			t.Errorf("%q is read as %s", s, k)
		}
	}
}

func TestWhatLooksSealed(t *testing.T) {
	t.Parallel()
	least := strings.Repeat("aF", LeastDigits/2)
	for text, want := range map[string]bool{least: true, least + "00": true, least + "0": false, least[2:]: false, "": false,
		least[:10] + "g" + least[11:]: false, least[:10] + " " + least[11:]: false, least[:10] + "\x10" + least[11:]: false,
		least[:10] + "@" + least[11:]: false, strings.ToUpper(least): true} {
		if Sealed([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// Each byte that is not a digit is found, wherever it is.
func TestEveryByteIsLookedAt(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("09afAF5c", LeastDigits/8+1))[:LeastDigits+2]
	for at := range text {
		was := text[at]
		for c := range 256 {
			digit := c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
			if text[at] = byte(c); Sealed(text) != digit {
				t.Fatalf("byte %#x at %d: %v", c, at, !digit)
			}
		}
		text[at] = was
	}
}

// The texts of one request open as others do, and are no more alike.
func TestTextsOfOneBox(t *testing.T) {
	t.Parallel()
	k, err := ParseKey(hex.EncodeToString(private(0x11).PubKey().SerializeUncompressed()))
	if err != nil {
		t.Fatal(err)
	}
	b, err := k.Box()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, text := range []string{"the same", "the same", "", "\x00ü"} {
		sealed := string(b.Append(nil, []byte(text)))
		if got := string(open(t, private(0x11), sealed)); got != text || !Sealed([]byte(sealed)) || Plain(len(sealed)) != len(text) {
			t.Errorf("%q became %q", text, got)
		}
		if rest := sealed[2*keyBytes:]; seen[rest] {
			t.Error("two texts have the same nonce")
		} else {
			seen[rest] = true
		}
	}
}

// FuzzSealed: a text that looks sealed is hexadecimal digits and long enough, and nothing else.
func FuzzSealed(f *testing.F) {
	least := strings.Repeat("aF", LeastDigits/2)
	for _, s := range []string{least, least + "0", least[2:], least[:20] + "\x80" + least[21:], strings.Repeat("\u00e4", LeastDigits), ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		raw, err := hex.DecodeString(string(text))
		if want := err == nil && len(raw) >= Overhead; Sealed(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
		if n := Plain(len(text)); n < 0 || Sealed(text) && n != len(raw)-Overhead {
			t.Errorf("%q seals %d bytes", text, n)
		}
	})
}

// FuzzParseKey: a key that is read is a point of the curve, and written as it was.
func FuzzParseKey(f *testing.F) {
	good := hex.EncodeToString(private(0x11).PubKey().SerializeUncompressed())
	for _, s := range []string{good, good[2:], strings.ToUpper(good), "02" + good[2:66], "06" + good[2:], strings.Repeat("0", 130)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKey(text)
		if err != nil {
			return
		}
		if s := k.String(); !strings.EqualFold(s, text) && !strings.EqualFold(s[2:], text) || !k.point.IsOnCurve() {
			t.Errorf("%q is %s", text, s)
		}
	})
}

func BenchmarkSealed(b *testing.B) {
	text := []byte(strings.Repeat("0123456789abcdef", 14))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if !Sealed(text) {
			b.Fatal("it is")
		}
	}
}
