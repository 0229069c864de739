package wallet

import (
	"errors"
	"time"

	"farebox/billing"
	"farebox/routes"
)

// linkPath is the path that the signed message of a link must name: a message that was
// signed for another path must not give a wallet away.
const linkPath = routes.Prefix + "/x402/link"

type linkBody struct {
	Wallet  string `json:"walletAddress"`
	Account string `json:"accountId"`
	Since   string `json:"since"`
}

// link answers POST /x402/link: it links the wallet that signed to the account of the ADMIN
// key. The account gets the wallet's later credit, and the wallet spends from it.
func link(c *routes.Call) *routes.Error {
	if e := refuseMembers(c); e != nil {
		return e
	}
	s, e := c.ReadSignInFor(linkPath)
	if e != nil {
		return e
	}
	if e := c.ConfirmSignIn(s); e != nil {
		return e
	}
	if e := c.SpendSignIn(s); e != nil {
		return e
	}
	made, err := c.Accounts().LinkWallet(s.Wallet.String(), c.Key.Account.ID, "key "+c.Key.ID)
	switch {
	case errors.Is(err, billing.ErrLinked):
		return &routes.Error{Status: 409, Code: "WALLET_LINKED",
			Message: "This wallet is linked already; the operator of this service can end the link."}
	case errors.Is(err, billing.ErrFunds):
		return &routes.Error{Status: 409, Code: "WALLET_HAS_FUNDS",
			Message: "This wallet has credit of its own, or owes something; let it spend that first."}
	case err != nil:
		c.Logger().Error().Err(err).Bytes("request_id", c.ID[:]).Msg("cannot link a wallet")
		return &routes.Error{Status: 503, Message: "The wallet cannot be linked right now; please retry.",
			RetryAfter: routes.RetrySoon}
	}
	c.Logger().Info().Bytes("request_id", c.ID[:]).Str("wallet", made.Address).Str("account", made.AccountID).
		Msg("a wallet was linked to an account")
	return answer(c, linkBody{made.Address, made.AccountID, made.Since.UTC().Format(time.RFC3339)})
}
