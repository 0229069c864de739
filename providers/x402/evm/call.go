package evm

import (
	"farebox/providers/wallet"
)

// Selectors of calls to tokens and contract wallets: the first four bytes.
var (
	authorizationState = [4]byte{0xe9, 0x4a, 0x01, 0x02}
	balanceOf          = [4]byte{0x70, 0xa0, 0x82, 0x31}
	domainSeparator    = [4]byte{0x36, 0x44, 0xe5, 0x15}
	decimals           = [4]byte{0x31, 0x3c, 0xe5, 0x67}
	tokenName          = [4]byte{0x06, 0xfd, 0xde, 0x03}
	tokenVersion       = [4]byte{0x54, 0xfd, 0x4d, 0x50}
	eip712Domain       = [4]byte{0x84, 0xb0, 0x19, 0x6e}
	isValidSignature   = [4]byte{0x16, 0x26, 0xba, 0x7e}
)

// Events of tokens, by their first topic.
var (
	AuthorizationUsed     = wallet.Keccak([]byte("AuthorizationUsed(address,bytes32)"))
	AuthorizationCanceled = wallet.Keccak([]byte("AuthorizationCanceled(address,bytes32)"))
	Transfer              = wallet.Keccak([]byte("Transfer(address,address,uint256)"))
)

// SignatureGood is a contract wallet's answer for a signature of its own (EIP-1271).
var SignatureGood = func() (w Word) {
	copy(w[:], isValidSignature[:])
	return w
}()

// mark ends a signature that is wrapped with the making of its contract.
var mark = [2]byte{0x64, 0x92}

// IsWrapped says that a signature is of a wallet that is still to be made (ERC-6492).
func IsWrapped(signature []byte) bool {
	if len(signature) < 32 {
		return false
	}
	for i, c := range signature[len(signature)-32:] {
		if c != mark[i%2] {
			return false
		}
	}
	return true
}

// StateCall asks a token whether a nonce of an owner is used up.
func StateCall(from wallet.Address, nonce Word) []byte {
	return call(authorizationState, addressWord(from), nonce)
}

// BalanceCall asks a token for an owner's balance.
func BalanceCall(owner wallet.Address) []byte { return call(balanceOf, addressWord(owner)) }

// SeparatorCall asks a token for its domain.
func SeparatorCall() []byte { return call(domainSeparator) }

// DecimalsCall asks a token for its decimals.
func DecimalsCall() []byte { return call(decimals) }

// NameCall asks a token for its name.
func NameCall() []byte { return call(tokenName) }

// VersionCall asks a token for the version of its signatures.
func VersionCall() []byte { return call(tokenVersion) }

// DomainCall asks a token for its whole domain (EIP-5267), which not every token has.
func DomainCall() []byte { return call(eip712Domain) }

// Text is the string that the word at an index of an answer points to.
func Text(answer []byte, index int) (text string, ok bool) {
	at, ok := place(answer, index*len(Word{}))
	if !ok {
		return "", false
	}
	size, ok := place(answer, at)
	if !ok || size > len(answer)-at-len(Word{}) {
		return "", false
	}
	return string(answer[at+len(Word{}):][:size]), true
}

// place reads a word of an answer that is an offset or a length.
func place(answer []byte, at int) (n int, ok bool) {
	if at < 0 || at > len(answer)-len(Word{}) {
		return 0, false
	}
	v, fits := WordNumber(Word(answer[at:])).Int()
	return int(v), fits && v <= int64(len(answer))
}

// SignedCall asks a contract wallet whether it signed a hash.
func SignedCall(hash Word, signature []byte) []byte {
	data := call(isValidSignature, hash, NumberOf(64).Word(), NumberOf(int64(len(signature))).Word())
	data = append(data, signature...)
	if rest := len(signature) % 32; rest != 0 {
		data = append(data, make([]byte, 32-rest)...)
	}
	return data
}

// Topic is an address as logs have it.
func Topic(a wallet.Address) Word { return addressWord(a) }

func call(selector [4]byte, words ...Word) []byte {
	data := append([]byte(nil), selector[:]...)
	for _, w := range words {
		data = append(data, w[:]...)
	}
	return data
}
