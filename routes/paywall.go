package routes

import (
	"encoding/json"
	"strconv"
	"strings"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/config"
	"farebox/providers/x402"
)

// Answers to requests that nobody has paid for (addendum 14.4).

// headerBalanceLeft has the balance of a wallet after a request that it paid for (addendum 3.7).
const headerBalanceLeft = "X-Balance-Remaining"

// headRoom is how many bytes the head of a request may have: signatures of wallets are long.
func headRoom(cfg *config.Config) int {
	const ofWallets = 24 << 10 // a payment or a sign-in of at most 16 KiB, and the rest
	if cfg.X402 == nil {
		return 0
	}
	return ofWallets
}

// refusesPayment refuses a payment where none is read: its sender expects that it was taken.
func (c *Call) refusesPayment() *Error {
	if c.Row.Payment || len(c.PaymentHeader()) == 0 {
		return nil
	}
	return &Error{Status: 400, Code: "PAYMENT_HEADER_NOT_ACCEPTED", Uncounted: true,
		Message: "Payments are not taken here, and this one was not used; send it to POST " + Prefix + "/x402/top-up."}
}

// PaymentHeader is the payment that the request carries; empty: none.
func (c *Call) PaymentHeader() []byte {
	for _, name := range x402.Payments {
		if header := c.Ctx.Request.Header.Peek(name); len(header) > 0 {
			return header
		}
	}
	return nil
}

// Paywall is the body of a 402 answer and of its header.
type Paywall struct {
	x402.Challenge
	AuthOptions *authOptions `json:"authOptions,omitempty"`
}

type authOptions struct {
	APIKey     apiKeyOption  `json:"apiKey"`
	X402Wallet *walletOption `json:"x402Wallet,omitempty"`
}

type apiKeyOption struct {
	Header string `json:"header"`
	GetKey string `json:"getKey"`
	Docs   string `json:"docs,omitempty"`
}

type walletOption struct {
	Header       string `json:"header"`
	LegacyHeader string `json:"legacyHeader"`
	TopUp        string `json:"topUp"`
	Docs         string `json:"docs,omitempty"`
}

// Paywall tells how an amount can be paid, in a 402 answer for a reason.
func (c *Call) Paywall(reason string, amount money.Nano) Paywall {
	return Paywall{Challenge: x402.Challenge{
		X402Version: x402.Version, Error: reason, Accepts: c.snap.wallets.terms.Accepts(amount),
		Resource: &x402.Resource{URL: c.ownURL(string(c.Ctx.Path())), Description: "Credit for the API, in USD",
			MimeType: "application/json"},
	}}
}

// PayTerms are the accepted payments.
func (c *Call) PayTerms() *x402.Terms { return c.snap.wallets.terms }

// SetChallenge puts the header that clients of x402 look for.
func (c *Call) SetChallenge(challenge *x402.Challenge) {
	if header, err := x402.AppendHeader(nil, challenge); err == nil {
		c.Ctx.Response.Header.SetBytesV(x402.HeaderRequired, header)
	}
}

// askSignIn is a message for a wallet to sign for a second try of the request: siwxChallenge, and
// an extension of the protocol.
func (c *Call) askSignIn() json.RawMessage {
	w := c.snap.wallets
	return w.rules.Challenge(c.Began, c.ownURL(string(c.Ctx.Path())), w.cfg.SignIn.Statement).AppendJSON(nil)
}

// ownURL is a path of ours as the client reaches it: below the origin of its Host, where
// that is one of ours.
func (c *Call) ownURL(path string) string {
	host, sign := strings.ToLower(string(c.Ctx.Host())), &c.snap.cfg.X402.SignIn
	for _, origin := range sign.Origins {
		if _, own, _ := strings.Cut(origin, "://"); own == host {
			return origin + path
		}
	}
	if public := c.snap.cfg.PublicAddress(); public != "" {
		return public + path
	}
	return sign.Origins[0] + path
}

// discovery adds payment options for wallets to a refusal for a missing credential, where the
// operator wants that. The catalog and quotes cost nothing.
func (c *Call) discovery(e *Error) *Error {
	w, h := c.snap.wallets, &c.Ctx.Request.Header
	if !w.cfg.Discovery || !c.Row.Wallet || c.Row.Access == Catalog || len(h.Peek("Authorization")) > 0 ||
		c.Row.KeyHeader != "" && len(h.Peek(c.Row.KeyHeader)) > 0 {
		return e
	}
	cfg := c.snap.cfg
	p := c.Paywall("Payment required", w.cfg.SuggestedTopUp)
	own := c.ownURL(Prefix)
	p.AuthOptions = &authOptions{APIKey: apiKeyOption{Header: "Authorization: Bearer <API key>",
		GetKey: cfg.TopUpURL, Docs: cfg.DocsURL}}
	if p.AuthOptions.APIKey.GetKey == "" {
		p.AuthOptions.APIKey.GetKey = own + "/api_keys/generate_web3_key"
	}
	if w.cfg.Inference {
		p.Extensions = extensions(c.askSignIn())
		p.AuthOptions.X402Wallet = &walletOption{headerSignIn, headerSignInOld, own + "/x402/top-up", cfg.DocsURL}
	}
	c.SetChallenge(&p.Challenge)
	return paymentRequired(p)
}

func extensions(signIn json.RawMessage) json.RawMessage {
	return append(append([]byte(`{"sign-in-with-x":`), signIn...), '}')
}

func paymentRequired(body any) *Error {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // it has nothing that could not be written
	}
	return &Error{Status: 402, Code: "PAYMENT_REQUIRED", Message: "Payment required", Body: text, Uncounted: true}
}

// shortWallet is the body for a wallet that signed in and has not enough.
type shortWallet struct {
	Error           string            `json:"error"`
	Code            string            `json:"code"`
	Reason          string            `json:"reason"`
	Message         string            `json:"message"`
	CurrentBalance  json.Number       `json:"currentBalanceUsd"`
	MinimumBalance  json.Number       `json:"minimumBalanceUsd"`
	Description     string            `json:"description"`
	SuggestedTopUp  json.Number       `json:"suggestedTopUpUsd"`
	MinimumTopUp    json.Number       `json:"minimumTopUpUsd"`
	SupportedTokens []string          `json:"supportedTokens"`
	SupportedChains []string          `json:"supportedChains"`
	Instructions    topUpInstructions `json:"topUpInstructions"`
	Challenge       json.RawMessage   `json:"siwxChallenge"`
}

type topUpInstructions struct {
	Step1          string      `json:"step1"`
	Step2          string      `json:"step2"`
	Step3          string      `json:"step3"`
	ReceiverWallet string      `json:"receiverWallet"`
	TokenAddress   string      `json:"tokenAddress"`
	TokenDecimals  int         `json:"tokenDecimals"`
	Network        string      `json:"network"`
	MinimumAmount  json.Number `json:"minimumAmountUsd"`
}

func usd(n money.Nano) json.Number { return json.Number(n.String()) }

// walletIsShort refuses a wallet that has too little for the request, or owes something.
func (c *Call) walletIsShort(has, owes money.Nano) *Error {
	x := c.snap.wallets.cfg
	n := &x.Networks[0]
	topUp := c.ownURL(Prefix + "/x402/top-up")
	why := "which is less than this request needs; a request begins with at least " + x.MinBalance.String() + " USD."
	if owes > 0 {
		why = "and owes " + owes.String() + " USD for earlier requests that cost more than it could cover; a top-up " +
			"pays that first."
	}
	body := shortWallet{
		Error: "Payment required", Code: "PAYMENT_REQUIRED", Reason: "insufficient_balance",
		Message:        "This wallet has " + has.String() + " USD here, " + why,
		CurrentBalance: usd(has), MinimumBalance: usd(x.MinBalance),
		Description:    "Requests are paid from the credit of the wallet that signed them; it tops up with USDC.",
		SuggestedTopUp: usd(x.SuggestedTopUp), MinimumTopUp: usd(x.MinTopUp),
		SupportedTokens: []string{"USDC"},
		Instructions: topUpInstructions{
			Step1: "POST " + topUp + " without a payment; the 402 answer lists the accepted payments.",
			Step2: "Sign one of its entries with this wallet (x402, scheme exact).",
			Step3: "POST " + topUp + " again with the payment in the header PAYMENT-SIGNATURE, then repeat this " +
				"request with a new sign-in.",
			ReceiverWallet: n.PayTo, TokenAddress: n.Asset, TokenDecimals: 6, Network: n.Network,
			MinimumAmount: usd(x.MinTopUp),
		},
		Challenge: c.askSignIn(),
	}
	for i := range x.Networks {
		body.SupportedChains = append(body.SupportedChains, x.Networks[i].ShortName())
	}
	p := c.Paywall(body.Error, x.SuggestedTopUp)
	p.Extensions = extensions(body.Challenge)
	c.SetChallenge(&p.Challenge)
	return paymentRequired(body)
}

// balanceOf is the money that a key's account could spend now, without the DIEM of the day.
func (c *Call) balanceOf(k *billing.Key) money.Nano {
	have := k.BalanceAt(c.StartNs)
	_, usd := have.ByLimit()
	return usd
}

// setBalanceLeft sets a wallet's balance: for a whole answer after its charge, for a stream
// without its hold (addendum 3.7, 14.5).
func (c *Call) setBalanceLeft() {
	if c.wallet == "" {
		return
	}
	const micro = 1_000_000
	left := int64(max(0, c.balanceOf(c.Key))) / 1000
	text := strconv.AppendInt(c.number[:0], left/micro, 10)
	text = append(text, '.')
	// One more digit in front, of which only the others are shown.
	digits := strconv.AppendInt(nil, micro+left%micro, 10)
	c.Ctx.Response.Header.SetBytesV(headerBalanceLeft, append(text, digits[1:]...))
}
