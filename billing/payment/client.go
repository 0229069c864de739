package payment

import (
	"context"

	"farebox/config/onchain"
)

// ChainClient asks facilitators and chains. Its errors say that none could be asked, or
// that the answers do not agree: nothing is known then.
type ChainClient interface {
	// Prepare asks the chain, before the payment is stored, whether it could still be
	// spent and is covered. It gives Order with the place where Find begins. A refused
	// payment is sent to no facilitator. An order with a refusal is of a payment that
	// the chain has already, exactly as it was signed.
	Prepare(ctx context.Context, p *onchain.Payment) (order []byte, refused *onchain.Refusal, err error)
	// Verify and Settle ask the facilitator of the payment. Their answers are hints for
	// the payer and for Find.
	Verify(ctx context.Context, p *onchain.Payment) (onchain.Reply, error)
	Settle(ctx context.Context, p *onchain.Payment) (onchain.Reply, error)
	// Find asks the chain for the state of a payment. transaction is a hint that may be
	// empty and is checked.
	Find(ctx context.Context, p *onchain.Payment, transaction string) (onchain.Result, error)
}
