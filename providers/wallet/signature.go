package wallet

import (
	"crypto/ed25519"
	"errors"
	"strconv"

	"filippo.io/edwards25519"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
)

// ErrSignature describes a valid signature of an externally owned account.
var ErrSignature = errors.New(
	"is not a signature of an externally owned account: expected 65 bytes as hexadecimal digits, r, s (low) and v")

// Keccak is Keccak-256 over all parts.
func Keccak(parts ...[]byte) (sum [32]byte) {
	h := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(sum[:0])
	return sum
}

// PersonalHash is the digest that a wallet signs for a text (EIP-191, personal_sign).
func PersonalHash(text string) [32]byte {
	return Keccak([]byte("\x19Ethereum Signed Message:\n"+strconv.Itoa(len(text))), []byte(text))
}

// Recover gives the wallet that signed a hash: r, s in the lower half, and v, which is
// 27 or 28, or 0 or 1 as some wallets have it.
func Recover(signature []byte, hash [32]byte) (Address, error) {
	if len(signature) != 65 {
		return Address{}, ErrSignature
	}
	var r, s secp256k1.ModNScalar
	if r.SetByteSlice(signature[:32]) || s.SetByteSlice(signature[32:64]) || r.IsZero() || s.IsZero() ||
		s.IsOverHalfOrder() {
		return Address{}, ErrSignature
	}
	v := signature[64]
	if v >= 27 {
		v -= 27
	}
	if v > 1 {
		return Address{}, ErrSignature
	}
	// decred's compact form is v, r, s.
	compact := append([]byte{27 + v}, signature[:64]...)
	key, _, err := ecdsa.RecoverCompact(compact, hash[:])
	if err != nil {
		return Address{}, ErrSignature
	}
	sum := Keccak(key.SerializeUncompressed()[1:])
	return EVMAddress([20]byte(sum[12:])), nil
}

// VerifyEd25519 says whether a Solana wallet signed a message. Keys of small order verify
// anything and are refused.
func VerifyEd25519(a Address, message, signature []byte) bool {
	if a.family != Solana || len(signature) != ed25519.SignatureSize {
		return false
	}
	p, err := new(edwards25519.Point).SetBytes(a.b[:])
	if err != nil || new(edwards25519.Point).MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return false
	}
	return ed25519.Verify(a.b[:], message, signature)
}
