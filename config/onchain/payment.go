package onchain

import (
	"errors"
	"time"

	"farebox/config"
)

// Payment is a signed payment that passed all checks that need neither a chain nor a
// facilitator.
type Payment struct {
	// ID is pay_ and a digest of the payment's identity on the chain: of EVM chain, asset, payer
	// and nonce; of Solana the signed message. A signature is not part of it: one payment has
	// many spellings of its signature.
	ID string
	// Same is a digest of the whole signed payment: a repeat has the same, another
	// payment with the same nonce has not.
	Same    [32]byte
	Network string // CAIP-2
	Asset   string
	Wallet  string // that pays and is credited, as accounts are named
	Units   int64  // of the asset
	Amount  config.Nano
	// Order is all that is needed to send and to find the payment: an x402.Order as JSON.
	Order []byte
	// Expires is when the chain would not take it any more, by the chain's own clock;
	// zero: Order decides.
	Expires time.Time
}

// ErrDisagree is wrapped by errors about RPC nodes that contradict each other.
var ErrDisagree = errors.New("the witnesses disagree")

// Reply is the answer of a facilitator.
type Reply struct {
	OK          bool
	Reason      string // as the facilitator named it, clipped and without control characters
	Transaction string
	// Unclear says that the payment may still reach the chain, whatever else the answer says.
	Unclear bool
}

// State is the state of a payment on its chain.
type State uint8

// The states of a payment on its chain.
const (
	Open  State = 1 // it may still be spent, or is being
	Paid  State = 2 // it was: exactly these units, from the payer to us
	Spent State = 3 // its nonce is used for something else: it never will be paid
	Over  State = 4 // it was not paid, and its time is over
)

// Result is the common answer of all witnesses about a payment.
type Result struct {
	State       State
	Transaction string // of Paid
	Settled     bool   // deep enough to credit
	Final       bool   // so deep that it is not checked again
	Reason      string // of Spent and Over
}
