package evm

import (
	"encoding/hex"
	"errors"
	"math/big"
	"strings"

	"farebox/providers/wallet"
)

// Word is a word of the EVM.
type Word = [32]byte

var (
	domainType = wallet.Keccak([]byte("EIP712Domain(string name,string version,uint256 chainId," +
		"address verifyingContract)"))
	transferType = wallet.Keccak([]byte("TransferWithAuthorization(address from,address to,uint256 value," +
		"uint256 validAfter,uint256 validBefore,bytes32 nonce)"))
)

// Domain is the domain of an authorization's signature: one token on one chain.
type Domain struct {
	Name, Version string
	ChainID       *big.Int
	Asset         wallet.Address
}

// Separator is the token's DOMAIN_SEPARATOR().
func (d *Domain) Separator() Word {
	name, version := wallet.Keccak([]byte(d.Name)), wallet.Keccak([]byte(d.Version))
	var chain Word
	d.ChainID.FillBytes(chain[:])
	asset := addressWord(d.Asset)
	return wallet.Keccak(domainType[:], name[:], version[:], chain[:], asset[:])
}

// Authorization allows one transfer.
type Authorization struct {
	From, To                       wallet.Address
	Value, ValidAfter, ValidBefore Number
	Nonce                          Word
}

// Digest is the digest that is signed under a domain.
func (a *Authorization) Digest(separator Word) Word {
	from, to := addressWord(a.From), addressWord(a.To)
	value, after, before := a.Value.Word(), a.ValidAfter.Word(), a.ValidBefore.Word()
	sum := wallet.Keccak(transferType[:], from[:], to[:], value[:], after[:], before[:], a.Nonce[:])
	return wallet.Keccak([]byte{0x19, 0x01}, separator[:], sum[:])
}

// Number is an unsigned number of 256 bits, kept as it is signed.
type Number struct{ word Word }

// maxDigits are those of 2^256.
const maxDigits = 78

// ErrNumber describes a valid number.
var ErrNumber = errors.New("is not a number of 256 bits in decimal digits without a zero in front")

// ParseNumber reads decimal digits.
func ParseNumber(s string) (n Number, err error) {
	if s == "" || len(s) > maxDigits || s[0] == '0' && s != "0" || strings.Trim(s, "0123456789") != "" {
		return n, ErrNumber
	}
	value, ok := new(big.Int).SetString(s, 10)
	if !ok || value.BitLen() > 256 {
		return n, ErrNumber
	}
	value.FillBytes(n.word[:])
	return n, nil
}

// NumberOf is a number that is not negative.
func NumberOf(v int64) (n Number) {
	big.NewInt(v).FillBytes(n.word[:])
	return n
}

// WordNumber is the number that a word is.
func WordNumber(w Word) Number { return Number{w} }

// Word is the number as an EVM has it.
func (n Number) Word() Word { return n.word }

// String is the number in decimal digits.
func (n Number) String() string { return new(big.Int).SetBytes(n.word[:]).String() }

// Int is the number where it fits.
func (n Number) Int() (int64, bool) {
	v := new(big.Int).SetBytes(n.word[:])
	return v.Int64(), v.IsInt64()
}

// ParseHex reads 0x and an even number of hexadecimal digits, at most that many bytes.
func ParseHex(s string, most int) ([]byte, bool) {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok || len(digits) > 2*most {
		return nil, false
	}
	b, err := hex.DecodeString(digits)
	return b, err == nil
}

// ParseWord reads 0x and 64 hexadecimal digits.
func ParseWord(s string) (w Word, ok bool) {
	b, ok := ParseHex(s, len(w))
	if !ok || len(b) != len(w) {
		return w, false
	}
	return Word(b), true
}

// Hex is 0x and hexadecimal digits.
func Hex(b []byte) string { return "0x" + hex.EncodeToString(b) }

func addressWord(a wallet.Address) (w Word) {
	b := a.EVM()
	copy(w[12:], b[:])
	return w
}
