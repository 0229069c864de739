package wallet

import (
	"encoding/hex"
	"errors"
	"strings"

	"filippo.io/edwards25519"
	"github.com/mr-tron/base58"
)

// Family is the kind of chain that a wallet is of.
type Family uint8

// The families whose wallets can pay and sign in.
const (
	EVM    Family = 1
	Solana Family = 2
)

// Address is that of a wallet. It can be compared.
type Address struct {
	family Family
	b      [32]byte // an EVM address is the first 20
}

// ErrAddress describes a valid address, ErrEVMAddress one of EVM.
var (
	ErrAddress = errors.New("is not a wallet address: expected 0x and 40 hexadecimal digits, in one case or with the " +
		"EIP-55 checksum, or 32 to 44 characters of base58 that encode 32 bytes")
	ErrEVMAddress = errors.New(
		"is not a wallet address: expected 0x and 40 hexadecimal digits, in one case or with the EIP-55 checksum")
)

// EVMAddress is the address of 20 bytes.
func EVMAddress(b [20]byte) (a Address) {
	a.family = EVM
	copy(a.b[:], b[:])
	return a
}

// SolanaAddress is the address that is a public key.
func SolanaAddress(key [32]byte) Address { return Address{Solana, key} }

// ParseAddress reads an address of either family.
func ParseAddress(s string) (Address, error) {
	if strings.HasPrefix(s, "0x") {
		if a, err := ParseEVM(s); err == nil {
			return a, nil
		}
		return Address{}, ErrAddress
	}
	if len(s) < 32 || len(s) > 44 {
		return Address{}, ErrAddress
	}
	key, err := base58.Decode(s)
	if err != nil || len(key) != 32 {
		return Address{}, ErrAddress
	}
	return Address{Solana, [32]byte(key)}, nil
}

// ParseEVM reads 0x and 40 digits. Digits of both cases carry a checksum (EIP-55),
// which must be right.
func ParseEVM(s string) (a Address, err error) {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok || len(digits) != 40 {
		return Address{}, ErrEVMAddress
	}
	if _, err := hex.Decode(a.b[:20], []byte(digits)); err != nil {
		return Address{}, ErrEVMAddress
	}
	a.family = EVM
	if digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && s != a.Checksummed() {
		return Address{}, ErrEVMAddress
	}
	return a, nil
}

// Family is that of the wallet's chain; 0: this is not an address.
func (a Address) Family() Family { return a.family }

// EVM is the address as 20 bytes.
func (a Address) EVM() [20]byte { return [20]byte(a.b[:20]) }

// Key is the public key that a Solana address is.
func (a Address) Key() [32]byte { return a.b }

// String is the address as accounts are named: EVM in lower case, Solana in base58.
func (a Address) String() string {
	if a.family == Solana {
		return base58.Encode(a.b[:])
	}
	return "0x" + hex.EncodeToString(a.b[:20])
}

// Checksummed is an EVM address with the capitals of EIP-55; any other as it is.
func (a Address) Checksummed() string {
	if a.family != EVM {
		return a.String()
	}
	text := []byte(hex.EncodeToString(a.b[:20]))
	sum := Keccak(text)
	for i, c := range text {
		if nibble := sum[i/2] >> (4 * (1 - i%2)) & 15; c >= 'a' && nibble >= 8 {
			text[i] = c - 'a' + 'A'
		}
	}
	return "0x" + string(text)
}

// OnCurve says that 32 bytes are a point of edwards25519, as wallets are and
// addresses that programs derive are not.
func OnCurve(b [32]byte) bool {
	_, err := new(edwards25519.Point).SetBytes(b[:])
	return err == nil
}
