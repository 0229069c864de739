package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// Sizes of a sealed text: an uncompressed key, a nonce, what is sealed and a tag, in
// hexadecimal digits.
const (
	keyBytes   = 65
	nonceBytes = 12
	tagBytes   = 16
	// Overhead is how many bytes a sealed text has beside what is sealed.
	Overhead = keyBytes + nonceBytes + tagBytes
	// LeastDigits is how long the shortest sealed text is.
	LeastDigits = 2 * Overhead
	info        = "ecdsa_encryption"
)

// ErrKey is a key that is none.
var ErrKey = errors.New("Invalid public key: expected 130 hexadecimal digits, 04 and a point of secp256k1")

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
// digits, and enough of them. Nobody but who it is for can say more.
func Sealed[T string | []byte](text T) bool {
	if len(text) < LeastDigits || len(text)%2 != 0 {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if c-'0' > 9 && c|0x20-'a' > 5 {
			return false
		}
	}
	return true
}

// Plain is how many bytes are sealed in a text of so many digits.
func Plain(digits int) int { return max(0, digits/2-Overhead) }

// To seals a text to a key, with a key of its own for this one text.
func (k Key) To(text []byte) (string, error) {
	own, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		return "", fmt.Errorf("cannot make a key: %w", err)
	}
	defer own.Zero()
	var nonce [nonceBytes]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return "", fmt.Errorf("cannot make a nonce: %w", err)
	}
	return k.with(own, nonce, text)
}

func (k Key) with(own *secp256k1.PrivateKey, nonce [nonceBytes]byte, text []byte) (string, error) {
	box, err := box(secp256k1.GenerateSharedSecret(own, k.point))
	if err != nil {
		return "", err
	}
	out := append(own.PubKey().SerializeUncompressed(), nonce[:]...)
	return hex.EncodeToString(box.Seal(out, nonce[:], text, nil)), nil
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
