package onchain

// Codes of payments that are refused (addendum 14.3).
const (
	CodeFormat    = "INVALID_PAYMENT_FORMAT"
	CodePayment   = "INVALID_PAYMENT"
	CodeNetwork   = "UNSUPPORTED_NETWORK"
	CodeToken     = "UNSUPPORTED_TOKEN"
	CodeScheme    = "UNSUPPORTED_SCHEME"
	CodeRecipient = "INVALID_PAYMENT_RECIPIENT"
	CodePayer     = "INVALID_PAYMENT_PAYER"
	CodeAmount    = "INVALID_AMOUNT"
	CodeTooLow    = "AMOUNT_TOO_LOW"
	CodeTooHigh   = "AMOUNT_TOO_HIGH"
	// CodeVerification is of a payment that is well-formed and does not hold: status
	// 402, with what would.
	CodeVerification = "PAYMENT_VERIFICATION_FAILED"
	// CodeSettlement is of a payment that a facilitator did not bring onto the chain.
	CodeSettlement = "SETTLEMENT_FAILED"
)

// Reasons of CodeVerification.
const (
	ReasonExpired     = "authorization_expired"
	ReasonNotYetValid = "authorization_not_yet_valid"
	ReasonTooLong     = "authorization_holds_too_long"
	ReasonSignature   = "signature_mismatch"
	ReasonWrapped     = "erc6492_not_supported"
	ReasonFeePayer    = "fee_payer_mismatch"
	ReasonNonceUsed   = "nonce_already_used"
	ReasonFunds       = "insufficient_funds"
	ReasonBlockhash   = "blockhash_expired"
)

// Refusal is why a payment is not taken.
type Refusal struct {
	Code   string
	Reason string // of CodeVerification and CodeSettlement
	Text   string // for the payer, of a payment that cannot be read
}

func (r *Refusal) Error() string { return r.Text }

// Status is that of the answer.
func (r *Refusal) Status() int {
	if r.Code == CodeVerification {
		return 402
	}
	return 400
}
