package config

import (
	"encoding/hex"
	"strings"

	"github.com/mr-tron/base58"
	"golang.org/x/crypto/sha3"
)

const (
	evmExpected = "expected 0x and 40 hexadecimal digits in quotes, in one case or with the EIP-55 checksum"
	// solanaExpected is shorter than the truth: 32 bytes have 32 to 44 characters.
	solanaExpected = "expected 32 to 44 characters of base58 that encode 32 bytes"
)

// walletName is an address as accounts are named: EVM in lower case. Other text stays as it is,
// and is found by the rules.
func walletName(text string) string {
	if strings.HasPrefix(text, "0x") {
		return strings.ToLower(text)
	}
	return text
}

// IsWallet says that text is the address of a wallet.
func IsWallet(text string) bool { return isEVMAddress(text) || isSolanaAddress(text) }

// isEVMAddress says that text is an address. Capitals among small letters are a checksum
// that must be right: it is what finds the slip of a finger in where money goes.
func isEVMAddress(text string) bool {
	digits, ok := strings.CutPrefix(text, "0x")
	if _, err := hex.DecodeString(digits); !ok || len(digits) != 40 || err != nil {
		return false
	}
	lower := strings.ToLower(digits)
	if digits == lower || digits == strings.ToUpper(digits) {
		return true
	}
	h := sha3.NewLegacyKeccak256()
	h.Write([]byte(lower))
	sum := h.Sum(nil)
	for i, c := range []byte(digits) {
		capital := sum[i/2]>>(4*(1-i%2))&15 >= 8
		if c >= 'A' && c <= 'F' && !capital || c >= 'a' && c <= 'f' && capital {
			return false
		}
	}
	return true
}

func isSolanaAddress(text string) bool {
	if len(text) < 32 || len(text) > 44 {
		return false
	}
	key, err := base58.Decode(text)
	return err == nil && len(key) == 32
}
