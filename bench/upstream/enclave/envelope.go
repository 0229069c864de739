package enclave

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
)

// identity is the key that an enclave has to itself: contents are sealed to it, and it
// signs for answers.
type identity struct{ key *secp256k1.PrivateKey }

func newIdentity() (identity, error) {
	key, err := secp256k1.GeneratePrivateKey()
	return identity{key}, err
}

func (i identity) public() []byte { return i.key.PubKey().SerializeUncompressed() }

func keccak(b []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(b)
	return h.Sum(nil)
}

func addressOf(public []byte) []byte { return keccak(public[1:])[12:] }

// sign is EIP-191 over a text: r, s, v.
func (i identity) sign(text string) string {
	sum := keccak([]byte("\x19Ethereum Signed Message:\n" + strconv.Itoa(len(text)) + text))
	c := ecdsa.SignCompact(i.key, sum, false)
	return "0x" + hex.EncodeToString(append(c[1:], c[0]))
}

const (
	keyBytes   = 65
	nonceBytes = 12
	overhead   = keyBytes + nonceBytes + 16
)

func cipherOf(own *secp256k1.PrivateKey, other *secp256k1.PublicKey) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secp256k1.GenerateSharedSecret(own, other), nil, "ecdsa_encryption", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// fault is an enclave's error for a field.
type fault string

func (f fault) Error() string { return string(f) }

const (
	errSealed = fault("Encrypted field is not valid hex")
	errOpened = fault("Failed to decrypt field")
)

// open opens a content that was sealed to the enclave.
func (i identity) open(text string) (string, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) < overhead {
		return "", errSealed
	}
	from, err := secp256k1.ParsePubKey(raw[:keyBytes])
	if err != nil {
		return "", errOpened
	}
	c, err := cipherOf(i.key, from)
	if err != nil {
		return "", err
	}
	plain, err := c.Open(nil, raw[keyBytes:keyBytes+nonceBytes], raw[keyBytes+nonceBytes:], nil)
	if err != nil {
		return "", errOpened
	}
	return string(plain), nil
}

// Seal seals a text to a client's key.
func seal(to *secp256k1.PublicKey, text string) (string, error) {
	own, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		return "", err
	}
	c, err := cipherOf(own, to)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, nonceBytes)
	rand.Read(nonce)
	out := append(own.PubKey().SerializeUncompressed(), nonce...)
	return hex.EncodeToString(c.Seal(out, nonce, []byte(text), nil)), nil
}
