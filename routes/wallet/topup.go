package wallet

import (
	"encoding/json"
	"errors"
	"time"

	"farebox/billing/payment"
	"farebox/config/onchain"
	"farebox/providers/x402"
	"farebox/proxy"
	"farebox/routes"
)

const (
	// retryUnsent is the wait before the same payment is sent again after nothing was sent,
	// and retryPending the wait for an outcome.
	retryUnsent  = 5 * time.Second
	retryPending = 10 * time.Second
)

// topUp answers POST /x402/top-up: a signed payment becomes credit of its wallet (addendum
// 14.3). Without a payment, the answer lists the accepted payments.
func (cp *Capability) topUp(c *routes.Call) *routes.Error {
	if e := offered(c); e != nil {
		return e
	}
	if e := cp.mayTopUp(c); e != nil {
		return e
	}
	header := c.PaymentHeader()
	if len(header) == 0 {
		return challenge(c, "PAYMENT_REQUIRED", "Payment required: choose an entry of accepts, sign it with the wallet "+
			"that is to be credited, and send it in the header PAYMENT-SIGNATURE.", nil)
	}
	p, err := c.PayTerms().Read(string(header), c.Began)
	var refusal *onchain.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Status() == 402:
		return refused(c, nil, onchain.Refusal{Code: refusal.Code, Reason: refusal.Reason}, sentence(refusal.Text))
	case refusal != nil:
		return detailed(refusal.Status(), refusal.Code, sentence(refusal.Text), reason(refusal.Reason))
	case err != nil:
		c.Logger().Error().Err(err).Bytes("request_id", c.ID[:]).Msg("cannot read a payment")
		return problem(500, "UNKNOWN_ERROR", "The payment could not be read; it was not used.")
	}
	if !c.Config().X402.MayUse(p.Wallet) {
		return problem(403, "UNAUTHORIZED", "This wallet may not pay here; the payment was not used.")
	}
	out := cp.pay(c, p)
	c.Logger().Info().Bytes("request_id", c.ID[:]).Str("payment", p.ID).Str("wallet", p.Wallet).
		Str("network", p.Network).Str("amount_usd", p.Amount.String()).
		Str("outcome", payment.EndingNames[out.Ending]).Str("transaction", out.Transaction).
		Str("reason", out.Refusal.Reason).Bool("again", out.Again).Msg("a wallet paid")
	return outcome(c, p, &out)
}

// mayTopUp checks the API key where the config wants one beside the payment, and counts
// the request for its address.
func (cp *Capability) mayTopUp(c *routes.Call) *routes.Error {
	x := c.Config().X402
	if x.TopUpAuth == "bearer" || x.TopUpAuth == "optional" && len(c.Ctx.Request.Header.Peek("Authorization")) > 0 {
		if e := c.Identify(routes.Bearer); e != nil {
			return e
		}
	}
	if wait := cp.topUps.Take(proxy.Address(c.Ctx), x.TopUpPerIP, c.Began); wait > 0 {
		return later(problem(429, "RATE_LIMIT_EXCEEDED", "Too many top-ups came from this address; the payment was "+
			"not used."), max(routes.RetrySoon, wait))
	}
	return refuseMembers(c)
}

// refuseMembers refuses a body with members: a client could mean one as the amount.
func refuseMembers(c *routes.Call) *routes.Error {
	if len(c.Ctx.Request.Body()) == 0 {
		return nil
	}
	_, e := c.ReadBody()
	return e
}

func reason(text string) *details {
	if text == "" {
		return nil
	}
	return &details{Reason: text}
}

// challenge is an answer of 402 that lists the accepted payments.
func challenge(c *routes.Call, code, text string, more *details) *routes.Error {
	p := c.Paywall(code, c.Config().X402.MinTopUp)
	c.SetChallenge(&p.Challenge)
	return &routes.Error{Status: 402, Code: code, Message: text, Uncounted: true,
		Body: encode(refusedBody{p.Challenge, text, more})}
}

// refused is the answer to a payment that is not accepted.
func refused(c *routes.Call, p *onchain.Payment, refusal onchain.Refusal, text string) *routes.Error {
	s := x402.Settlement{ErrorReason: refusal.Reason}
	if p != nil {
		s.Network, s.Payer = p.Network, p.Wallet
	}
	setSettlement(c, &s)
	return challenge(c, refusal.Code, text, reason(refusal.Reason))
}

// setSettlement sets the headers in which x402 packages expect the outcome of a payment.
func setSettlement(c *routes.Call, s *x402.Settlement) {
	header, err := x402.AppendHeader(nil, s)
	if err != nil {
		panic(err) // it has nothing that could not be written
	}
	c.Ctx.Response.Header.SetBytesV(x402.HeaderResponse, header)
	c.Ctx.Response.Header.SetBytesV(x402.HeaderResponseV1, header)
}

// credited is the answer to a payment that was credited.
type credited struct {
	Wallet    string      `json:"walletAddress"`
	Amount    json.Number `json:"amountCredited"`
	Balance   json.Number `json:"newBalance"`
	PaymentID string      `json:"paymentId"`
}

// outcome is the answer to a payment by the ending of its submission.
func outcome(c *routes.Call, p *onchain.Payment, out *payment.Outcome) *routes.Error {
	known := &details{PaymentID: p.ID, Transaction: out.Transaction}
	switch out.Ending {
	case payment.Credited:
		setSettlement(c, &x402.Settlement{Success: true, Transaction: out.Transaction, Network: p.Network,
			Payer: p.Wallet})
		return answer(c, credited{p.Wallet, usd(out.Amount), usd(out.Balance), p.ID})
	case payment.Refused:
		return refused(c, p, out.Refusal, refusalText(out.Refusal))
	case payment.InProgress:
		known.Retry = "same payment"
		return later(detailed(409, "PAYMENT_IN_PROGRESS", "This payment is being settled already; ask for its result "+
			"with the same payment, or read the balance. Do not sign another one for it.", known), retryPending)
	case payment.NotSent, payment.Full:
		known.Retry = "same payment"
		return later(detailed(503, "X402_UNAVAILABLE", "The payment could not be sent right now; send the same payment "+
			"again later. Do not sign another one for it.", known), retryUnsent)
	}
	known.Retry = "same payment"
	return later(detailed(504, "SETTLEMENT_TIMEOUT", "It is not known yet whether the payment was settled. If it was, "+
		"the wallet is credited as soon as its chain shows it: read the balance, or send the same payment again. Do not "+
		"sign another one for it.", known), retryPending)
}

// refusalText is for people; programs read the code and the reason.
func refusalText(refusal onchain.Refusal) string {
	switch {
	case refusal.Code == "SETTLEMENT_FAILED":
		return "The payment was not settled, and no money was moved. If the chain takes it all the same, the wallet is " +
			"credited."
	case refusal.Reason == onchain.ReasonNonceUsed:
		return "This payment was used before; sign a new one."
	case refusal.Reason == onchain.ReasonFunds:
		return "The wallet has not enough of the token for this payment."
	case refusal.Reason == onchain.ReasonExpired || refusal.Reason == onchain.ReasonBlockhash:
		return "The payment has expired; sign a new one."
	}
	return "The payment does not hold: " + refusal.Reason + "."
}
