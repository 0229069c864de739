package chain

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
)

// This file has the token's signatures: EIP-712, ECDSA and EIP-1271.

const (
	domainType   = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
	transferType = "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter," +
		"uint256 validBefore,bytes32 nonce)"
	wordBytes      = 32
	signatureBytes = 65
)

// Topics and selectors of the token, and of contract wallets.
var (
	topicUsed      = eventOf("AuthorizationUsed(address,bytes32)")
	topicCancelled = eventOf("AuthorizationCanceled(address,bytes32)")
	topicTransfer  = eventOf("Transfer(address,address,uint256)")

	callState     = selectorOf("authorizationState(address,bytes32)")
	callBalance   = selectorOf("balanceOf(address)")
	callSeparator = selectorOf("DOMAIN_SEPARATOR()")
	callDecimals  = selectorOf("decimals()")
	callName      = selectorOf("name()")
	callVersion   = selectorOf("version()")
	callSigned    = selectorOf("isValidSignature(bytes32,bytes)")
)

func keccak(parts ...[]byte) []byte {
	h := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		_, _ = h.Write(p)
	}
	return h.Sum(nil)
}

func hexOf(b []byte) string { return "0x" + hex.EncodeToString(b) }

func eventOf(signature string) string    { return hexOf(keccak([]byte(signature))) }
func selectorOf(signature string) string { return hex.EncodeToString(keccak([]byte(signature))[:4]) }

// word is an address or other short value, right in its 32 bytes.
func word(b []byte) []byte { return append(make([]byte, wordBytes-len(b)), b...) }

func number(n int64) []byte { return big.NewInt(n).FillBytes(make([]byte, wordBytes)) }

// unhex reads 0x and digits, which were checked before.
func unhex(text string) []byte {
	b, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		return nil
	}
	return b
}

// Separator is the token's EIP-712 domain.
func (e *EVM) Separator() []byte {
	return keccak(keccak([]byte(domainType)), keccak([]byte(e.o.Name)), keccak([]byte(e.o.Version)), number(e.o.ID),
		word(unhex(e.o.Asset)))
}

// Digest is the digest that a wallet signs for an authorization.
func (e *EVM) Digest(a Authorization) []byte { return e.digest(a) }

func (e *EVM) digest(a Authorization) []byte {
	body := keccak(keccak([]byte(transferType)), word(unhex(a.From)), word(unhex(a.To)), number(a.Value),
		number(a.ValidAfter), number(a.ValidBefore), word(unhex(a.Nonce)))
	return keccak([]byte{0x19, 1}, e.Separator(), body)
}

// signed says whether a wallet, or the signer of a contract, signed; under mu.
func (e *EVM) signed(wallet string, digest, signature []byte) bool {
	if signer, ok := e.contracts[wallet]; ok {
		wallet = signer
	}
	got, err := recoverAddress(digest, signature)
	return err == nil && got == wallet
}

var errSignature = errors.New("is not a signature: expected r, a low s, and v of 27 or 28")

// recoverAddress is the signer, by the token's own rules.
func recoverAddress(digest, signature []byte) (string, error) {
	if len(signature) != signatureBytes || len(digest) != wordBytes || signature[64] != 27 && signature[64] != 28 {
		return "", errSignature
	}
	var s secp256k1.ModNScalar
	if s.SetByteSlice(signature[32:64]) || s.IsOverHalfOrder() {
		return "", errSignature
	}
	key, _, err := ecdsa.RecoverCompact(append([]byte{signature[64]}, signature[:64]...), digest)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errSignature, err)
	}
	return AddressOf(key), nil
}

// AddressOf is the EVM address of a key, in lower case.
func AddressOf(key *secp256k1.PublicKey) string {
	return hexOf(keccak(key.SerializeUncompressed()[1:])[12:])
}

// Sign is a key's signature of a digest: r, s, v.
func Sign(key *secp256k1.PrivateKey, digest []byte) []byte {
	compact := ecdsa.SignCompact(key, digest, false)
	return append(compact[1:], compact[0])
}

// PersonalDigest is the digest that a wallet signs for a text (EIP-191).
func PersonalDigest(text string) []byte {
	return keccak(fmt.Appendf(nil, "\x19Ethereum Signed Message:\n%d", len(text)), []byte(text))
}
