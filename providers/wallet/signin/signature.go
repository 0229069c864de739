package signin

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/mr-tron/base58"

	"farebox/providers/wallet"
)

// maxSignature is the longest signature of a contract wallet in bytes.
const maxSignature = 4096

var (
	errSignature = refuse(InvalidSignature, "The wallet did not make this signature of the message.")
	// errUndeployed is for signatures of contracts that are not on the chain yet.
	errUndeployed = refuse(InvalidSignature,
		"Signatures of contracts that are not deployed (ERC-6492) are not supported; deploy the wallet first.")
)

// undeployed is the suffix of a signature of ERC-6492.
var undeployed = bytes.Repeat([]byte{0x64, 0x92}, 16)

// wallet is the address of a header, if the message has the same.
func (c *claim) wallet(m *message) (wallet.Address, *Refusal) {
	a, err := wallet.ParseAddress(c.address)
	if err != nil || a.Family() != m.family {
		return wallet.Address{}, refuse(InvalidWallet, "address is not that of a wallet of chainId.")
	}
	// In the message as well digits of both cases must be right by EIP-55.
	if signed, err := wallet.ParseAddress(m.address); err != nil {
		return wallet.Address{}, refuse(InvalidWallet, "The message's second line is not the address of a wallet.")
	} else if signed != a {
		return wallet.Address{}, refuse(AddressMismatch, "The message has another address than the header.")
	}
	return a, nil
}

// prove checks whether the wallet signed the text.
func (r *Rules) prove(s *SignIn, c *claim, text string) *Refusal {
	if s.Wallet.Family() == wallet.EVM {
		return r.proveEVM(s, c.signature, text)
	}
	if provesSolana(s, c.signature, text) {
		return nil
	}
	if !c.verbatim {
		// Some wallets write the chain's whole name.
		if whole, refusal := c.rebuild(true); refusal == nil && provesSolana(s, c.signature, whole) {
			return nil
		}
	}
	return errSignature
}

func (r *Rules) proveEVM(s *SignIn, signature, text string) *Refusal {
	digits, ok := strings.CutPrefix(signature, "0x")
	if !ok || len(digits) > 2*maxSignature {
		return errSignature
	}
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) == 0 {
		return errSignature
	}
	if bytes.HasSuffix(raw, undeployed) {
		return errUndeployed
	}
	s.Hash, s.Signature = wallet.PersonalHash(text), raw
	if by, err := wallet.Recover(raw, s.Hash); err == nil && by == s.Wallet {
		return nil
	}
	if chain, _ := r.chain(s.Chain); !chain.Contracts {
		return errSignature
	}
	s.Unproven = true
	return nil
}

// provesSolana tries the encodings of 64 bytes: base58, and base64 of either alphabet. Few
// texts can be read as both.
func provesSolana(s *SignIn, signature, text string) bool {
	const longest = 88 // of 64 bytes, in base58 as in base64
	if len(signature) > longest {
		return false
	}
	if raw, err := base58.Decode(signature); err == nil && wallet.VerifyEd25519(s.Wallet, []byte(text), raw) {
		s.Signature = raw
		return true
	}
	digits := strings.TrimSuffix(strings.NewReplacer("-", "+", "_", "/").Replace(signature), "==")
	raw, err := base64.RawStdEncoding.Strict().DecodeString(digits)
	if err != nil || !wallet.VerifyEd25519(s.Wallet, []byte(text), raw) {
		return false
	}
	s.Signature = raw
	return true
}
