package payment

import (
	"context"
	"errors"
	"time"

	"farebox/billing/money"
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
	Wallet  string // who pays and is credited, as accounts are named
	Units   int64  // of the asset
	Amount  money.Nano
	// Order is for the Desk alone: all that it needs to send and to find the payment.
	Order []byte
	// Expires is when the chain would not take it any more, by the chain's own clock;
	// zero: the Desk knows from Order.
	Expires time.Time
}

// Desk asks facilitators and chains. Its errors say that nobody could be asked, or
// that the answers do not agree: nothing is known then.
type Desk interface {
	// Prepare asks the chain, before the payment is written down, whether it could
	// still be spent and is covered, and gives Order with what Find begins at. Where
	// it says refused, nobody is sent anything; an order beside that is of a payment that
	// the chain has already, exactly as it was signed, whoever brought it there.
	Prepare(ctx context.Context, p *Payment) (order []byte, refused *Refusal, err error)
	// Verify and Settle ask the facilitator that the payment belongs to. What they
	// give is a hint for the payer and for Find.
	Verify(ctx context.Context, p *Payment) (Reply, error)
	Settle(ctx context.Context, p *Payment) (Reply, error)
	// Find asks the chain what became of it. transaction is a hint, may be empty and
	// is not believed.
	Find(ctx context.Context, p *Payment, transaction string) (Finding, error)
}

// ErrDisagree is what an error of a Desk wraps where witnesses do not say the same.
var ErrDisagree = errors.New("the witnesses disagree")

// Reply is what a facilitator said.
type Reply struct {
	OK          bool
	Reason      string // as it named it, clipped and without control characters
	Transaction string
	// Unclear says that it may still be brought onto the chain, whatever else it said.
	Unclear bool
}

// Refusal is why a payment is not taken, as the payer is told.
type Refusal struct {
	Code   string // PAYMENT_VERIFICATION_FAILED, SETTLEMENT_FAILED, …
	Reason string // nonce_already_used, insufficient_funds, …
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
