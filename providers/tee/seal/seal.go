package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// Sizes of a sealed text: an uncompressed key, a nonce, the ciphertext and a tag, in
// hexadecimal digits.
const (
	keyBytes   = 65
	nonceBytes = 12
	tagBytes   = 16
	// Overhead is the length of a sealed text beside its ciphertext.
	Overhead = keyBytes + nonceBytes + tagBytes
	// LeastDigits is how long the shortest sealed text is.
	LeastDigits = 2 * Overhead
	info        = "ecdsa_encryption"
)

// ErrKey is an invalid key.
var ErrKey = errors.New("no public key: expected 130 hexadecimal digits, 04 and a point of secp256k1")

// Key is the public key of an enclave or of a client.
type Key struct{ point *secp256k1.PublicKey }

// ParseKey reads 130 hexadecimal digits, or the 128 that some enclaves show, which leave
// out the 04.
func ParseKey(text string) (k Key, err error) {
	if len(text) == 2*keyBytes-2 {
		text = "04" + text
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != keyBytes || raw[0] != 4 {
		return k, ErrKey
	}
	if k.point, err = secp256k1.ParsePubKey(raw); err != nil {
		return k, ErrKey
	}
	return k, nil
}

// String is the key in 130 digits.
func (k Key) String() string { return hex.EncodeToString(k.point.SerializeUncompressed()) }

// Bytes are the 65 of the key.
func (k Key) Bytes() []byte { return k.point.SerializeUncompressed() }

// Sealed says whether a text looks like a sealed one: an even number of hexadecimal
// digits, and enough of them. Only its receiver can say more. It is asked of
// every delta of a stream, so it looks at eight digits at a time.
func Sealed(text []byte) bool {
	if len(text) < LeastDigits || len(text)%2 != 0 {
		return false
	}
	wrong := uint64(0)
	for ; len(text) >= 8; text = text[8:] {
		wrong |= odd(binary.LittleEndian.Uint64(text))
	}
	for _, c := range text {
		if c-'0' > 9 && c|0x20-'a' > 5 {
			return false
		}
	}
	return wrong == 0
}

// odd is not zero if one of eight bytes is not a hexadecimal digit. The highest bit of each
// byte shows, after an addition, whether it is at least a bound, as long as no byte has
// that bit itself.
func odd(x uint64) uint64 {
	const ones = 0x0101010101010101
	const highs = ones << 7
	low := x &^ highs
	digit := (low + ones*(0x80-'0')) &^ (low + ones*(0x80-'9'-1))
	low |= ones * 0x20
	letter := (low + ones*(0x80-'a')) &^ (low + ones*(0x80-'f'-1))
	return (x | ^(digit | letter)) & highs
}

// Plain is how many bytes are sealed in a text of so many digits.
func Plain(digits int) int { return max(0, digits/2-Overhead) }

// Box seals the texts of one request to a key. They have a key of their own together, and
// each a nonce, as the replies of some enclaves do: agreeing on a key costs a hundred times
// as much as sealing a turn.
type Box struct {
	public []byte
	cipher cipher.AEAD
}

// Box makes one.
func (k Key) Box() (*Box, error) {
	own, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	defer own.Zero()
	return k.box(own)
}

func (k Key) box(own *secp256k1.PrivateKey) (*Box, error) {
	c, err := box(secp256k1.GenerateSharedSecret(own, k.point))
	return &Box{own.PubKey().SerializeUncompressed(), c}, err
}

// Append appends a sealed text.
func (b *Box) Append(dst, text []byte) []byte {
	var nonce [nonceBytes]byte
	rand.Read(nonce[:]) // never fails
	return b.append(dst, nonce, text)
}

func (b *Box) append(dst []byte, nonce [nonceBytes]byte, text []byte) []byte {
	raw := append(make([]byte, 0, Overhead+len(text)), b.public...)
	return hex.AppendEncode(dst, b.cipher.Seal(append(raw, nonce[:]...), nonce[:], text, nil))
}

// To seals a text to a key, with a key of its own for this one text.
func (k Key) To(text []byte) (string, error) {
	b, err := k.Box()
	if err != nil {
		return "", err
	}
	return string(b.Append(nil, text)), nil
}

func (k Key) with(own *secp256k1.PrivateKey, nonce [nonceBytes]byte, text []byte) (string, error) {
	b, err := k.box(own)
	if err != nil {
		return "", err
	}
	return string(b.append(nil, nonce, text)), nil
}

// box is the cipher that two keys share.
func box(secret []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, secret, nil, info, 32)
	if err != nil {
		return nil, fmt.Errorf("cannot derive a key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("cannot seal: %w", err)
	}
	return cipher.NewGCM(block)
}
