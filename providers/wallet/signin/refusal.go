package signin

// The codes of refusals (error-codes.yaml, sign_in_401).
const (
	Invalid           = "X402_INVALID_SIGN_IN" // for reasons without a code of their own
	InvalidPayload    = "X402_SIGN_IN_INVALID_PAYLOAD"
	ParseError        = "X402_SIGN_IN_PARSE_ERROR"
	InvalidMessage    = "X402_SIGN_IN_INVALID_MESSAGE"
	AddressMismatch   = "X402_SIGN_IN_ADDRESS_MISMATCH"
	InvalidChainID    = "X402_SIGN_IN_INVALID_CHAIN_ID"
	ChainMismatch     = "X402_SIGN_IN_CHAIN_MISMATCH"
	UnsupportedChain  = "X402_SIGN_IN_UNSUPPORTED_CHAIN"
	MissingNonce      = "X402_SIGN_IN_MISSING_NONCE"
	DomainMismatch    = "X402_SIGN_IN_DOMAIN_MISMATCH"
	TimestampMismatch = "X402_SIGN_IN_TIMESTAMP_MISMATCH"
	Expired           = "X402_SIGN_IN_EXPIRED"
	FutureTimestamp   = "X402_SIGN_IN_FUTURE_TIMESTAMP"
	NotBefore         = "X402_SIGN_IN_NOT_BEFORE"
	InvalidSignature  = "X402_SIGN_IN_INVALID_SIGNATURE"
	InvalidWallet     = "X402_SIGN_IN_INVALID_WALLET"
	NonceReused       = "X402_SIGN_IN_NONCE_REUSED"
)

// Refusal is the reason that a header proves nothing. It holds no text of the header.
type Refusal struct {
	Code    string
	Message string // a sentence
}

func refuse(code, message string) *Refusal { return &Refusal{code, message} }

// The refusals that only callers can make.
var (
	// ErrReused: the nonce was used before.
	ErrReused = refuse(NonceReused, "The nonce of this sign-in was used before; sign a new message with a fresh one.")
	// ErrUnproven: the contract of the wallet does not accept the signature.
	ErrUnproven = refuse(InvalidSignature,
		"Neither the wallet's key nor its contract (EIP-1271) made this signature of the message.")
)
