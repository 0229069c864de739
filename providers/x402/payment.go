package x402

import (
	"errors"
	"time"

	"farebox/config"
)

// Payment is a signed payment that passed every check for which nobody is asked.
type Payment struct {
	// ID is pay_ and a digest of what the chain knows the payment by: of EVM chain,
	// asset, payer and nonce; of Solana the signed message. Never of a signature, so
	// that no other spelling of a payment is another one.
	ID string
	// Same is of the whole signed payment: a repeat of it has the same, another
	// payment with the nonce of this one has not.
	Same    [32]byte
	Network string // CAIP-2
	Asset   string
	Wallet  string // who pays, as accounts are named
	Units   int64  // of the asset
	Amount  config.Nano
	// Order is all that is needed to send and to find the payment: an Order as JSON.
	Order []byte
	// Expires is when the chain would not take it any more, by the chain's own clock;
	// zero: what Order says decides.
	Expires time.Time
}

// ErrDisagree is what an error wraps where witnesses do not say the same.
var ErrDisagree = errors.New("the witnesses disagree")

// Reply is what a facilitator said.
type Reply struct {
	OK          bool
	Reason      string // as it named it, clipped and without control characters
	Transaction string
	// Unclear says that it may still be brought onto the chain, whatever else it said.
	Unclear bool
}

// Fate is what a chain says of a payment.
type Fate uint8

// The fates of a payment.
const (
	Open  Fate = 1 // it may still be spent, or is being
	Paid  Fate = 2 // it was: exactly these units, from the payer to us
	Spent Fate = 3 // its nonce is used, and not for this: it never will be paid
	Over  Fate = 4 // it was not, and its time is over
)

// Finding is what all witnesses say.
type Finding struct {
	Fate        Fate
	Transaction string // of Paid
	Settled     bool   // deep enough to credit
	Final       bool   // so deep that it is not looked at again
	Reason      string // of Spent and Over
}
