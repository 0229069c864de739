package account

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
)

// address is that of an EVM wallet.
type address [20]byte

var (
	errAddress = errors.New(
		"is not a wallet address: expected 0x and 40 hexadecimal digits, in one case or with the EIP-55 checksum")
	errSignature = errors.New(
		"is not a signature of an externally owned account: expected 65 bytes as hexadecimal digits, r, s (low) and v")
)

// parseAddress reads 0x and 40 digits. Digits of both cases carry a checksum
// (EIP-55), which must be right.
func parseAddress(s string) (a address, err error) {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok || len(digits) != 2*len(a) {
		return a, errAddress
	}
	if _, err := hex.Decode(a[:], []byte(digits)); err != nil {
		return a, errAddress
	}
	if digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && s != a.checksummed() {
		return a, errAddress
	}
	return a, nil
}

// String is the address in lower case, as accounts are named.
func (a address) String() string { return "0x" + hex.EncodeToString(a[:]) }

// checksummed is the address with the capitals of EIP-55.
func (a address) checksummed() string {
	text := []byte(hex.EncodeToString(a[:]))
	sum := keccak(text)
	for i, c := range text {
		if nibble := sum[i/2] >> (4 * (1 - i%2)) & 15; c >= 'a' && nibble >= 8 {
			text[i] = c - 'a' + 'A'
		}
	}
	return "0x" + string(text)
}

func keccak(parts ...[]byte) (sum [32]byte) {
	h := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(sum[:0])
	return sum
}

// personalHash is what a wallet signs for a text (EIP-191, personal_sign).
func personalHash(text string) [32]byte {
	return keccak([]byte("\x19Ethereum Signed Message:\n"+strconv.Itoa(len(text))), []byte(text))
}

// recoverSigner gives the wallet that made a signature over a hash. Each
// signature has one accepted form: s in the lower half, v 27 or 28 (or 0 or 1,
// as some wallets have it).
func recoverSigner(signature string, hash [32]byte) (a address, err error) {
	var raw [65]byte
	digits := strings.TrimPrefix(signature, "0x")
	if len(digits) != 2*len(raw) {
		return a, errSignature
	}
	if _, err := hex.Decode(raw[:], []byte(digits)); err != nil {
		return a, errSignature
	}
	var r, s secp256k1.ModNScalar
	if r.SetByteSlice(raw[:32]) || s.SetByteSlice(raw[32:64]) || r.IsZero() || s.IsZero() || s.IsOverHalfOrder() {
		return a, errSignature
	}
	v := raw[64]
	if v >= 27 {
		v -= 27
	}
	if v > 1 {
		return a, errSignature
	}
	// decred's compact form is v, r, s.
	compact := append([]byte{27 + v}, raw[:64]...)
	key, _, err := ecdsa.RecoverCompact(compact, hash[:])
	if err != nil {
		return a, errSignature
	}
	sum := keccak(key.SerializeUncompressed()[1:])
	copy(a[:], sum[12:])
	return a, nil
}
