package account

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"farebox/billing"
	"farebox/billing/store"
	"farebox/providers/wallet"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// web3Description is that of a wallet's key which gives none (addendum 16.6).
const web3Description = "Web3 API Key"

// byAddress is the limit of requests for wallet keys: web3_keys.per_ip, counted
// by the address they come from.
var byAddress = &routes.RateClass{Name: "address"}

// web3Keys is where wallets make keys for themselves.
type web3Keys struct {
	tokens *web3Tokens
	tries  routes.PerAddress
}

func newWeb3Keys(l routes.Accounts) *web3Keys {
	return &web3Keys{tokens: newWeb3Tokens(l.DeriveSecret("web3 tokens"), l.Now)}
}

// serveWeb3Token answers GET /api_keys/generate_web3_key: a text for a wallet
// to sign.
func (ca *Capability) serveWeb3Token(c *routes.Call) *routes.Error {
	if e := ca.mayTryWeb3(c); e != nil {
		return e
	}
	token, err := ca.web3.tokens.issue(c.Accounts().Now())
	if err != nil {
		c.Logger().Error().Err(err).Msg("cannot make a web3 token")
		return &routes.Error{Status: 500, Code: "UNKNOWN_ERROR", Message: "The token could not be made; please retry."}
	}
	c.Ctx.Response.Header.Set("Cache-Control", "no-store")
	return c.WriteJSON(append(jsontext.AppendString([]byte(`{"success":true,"data":{"token":`), token), `}}`...))
}

// createWeb3Key answers POST /api_keys/generate_web3_key. The signer of the
// token with a wallet gets a key of that wallet's account. The use of the token
// is recorded last, so that nobody can use up the token of another.
func (ca *Capability) createWeb3Key(c *routes.Call) *routes.Error {
	if e := ca.mayTryWeb3(c); e != nil {
		return e
	}
	b, e := readKeyBody(c)
	if e != nil {
		return e
	}
	signer, err := wallet.ParseEVM(b.address)
	if err != nil {
		return errWeb3("address", "Invalid wallet address: it "+err.Error()+".")
	}
	id, expires, err := ca.web3.tokens.check(b.token)
	if err != nil {
		return errWeb3("token", err.Error()+"; get a new token with GET "+routes.Prefix+c.Row.Path+".")
	}
	by, err := recoverSigner(b.signature, b.token)
	if err != nil {
		return errWeb3("signature", "Could not verify wallet signature: it "+err.Error()+".")
	}
	if by != signer {
		return errWeb3("signature",
			"Wallet signature does not match: another wallet than address has signed, or another text than the token.")
	}
	account, e := walletAccount(c, signer)
	if e != nil {
		return e
	}
	if account.ID != "" && account.Name != signer.String() && b.typ == store.Admin {
		// The wallet spends an account that is not its own; it does not manage it.
		return errWeb3("apiKeyType", "A wallet that is linked to an account cannot create ADMIN keys of that account.")
	}
	switch fresh, err := c.Accounts().UseToken(c.Owner(), id, expires); {
	case errors.Is(err, billing.ErrManyTokens):
		return routes.ManyTokens()
	case err != nil:
		return keyError(c, err)
	case !fresh:
		return errWeb3("token", errTokenClaims.Error()+": the token was used before; get a new token with GET "+
			routes.Prefix+c.Row.Path+".")
	}
	if account.ID == "" {
		if account, err = c.Accounts().WalletAccount(signer.String(), true); err != nil {
			return keyError(c, err)
		}
	}
	return makeKey(c, account.ID, b, web3Description)
}

// recoverSigner gives the wallet that signed a text (EIP-191): 65 bytes as digits, with
// or without 0x.
func recoverSigner(signature, text string) (wallet.Address, error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(signature, "0x"))
	if err != nil {
		return wallet.Address{}, wallet.ErrSignature
	}
	return wallet.Recover(raw, wallet.PersonalHash(text))
}

// walletAccount finds the account of a wallet that may make keys. Its id is
// empty where any wallet may and this one has none yet.
func walletAccount(c *routes.Call, signer wallet.Address) (billing.Account, *routes.Error) {
	rules := &c.Config().Web3Keys
	if rules.Require == "allowlist" && !slices.ContainsFunc(rules.Allow,
		func(a string) bool { return strings.EqualFold(a, signer.String()) }) {
		return billing.Account{}, errWeb3("address", "This wallet may not create API keys here.")
	}
	account, err := c.Accounts().WalletAccount(signer.String(), false)
	switch {
	case err == nil:
		return account, nil
	case !errors.Is(err, billing.ErrNoAccount):
		return account, keyError(c, err)
	case rules.Require == "ledger":
		text := "This wallet has no account here, so it cannot create API keys."
		if url := c.Config().TopUpURL; url != "" {
			text += " Top up at " + url + "."
		}
		return account, errWeb3("address", text)
	}
	return account, nil
}

func errWeb3(path, text string) *routes.Error {
	return routes.Invalid(routes.Issue{Code: "custom", Path: path, Message: text})
}

// mayTryWeb3 refuses where wallets make no keys, and an address that tries too
// often: these requests carry no credential.
func (ca *Capability) mayTryWeb3(c *routes.Call) *routes.Error {
	rules := &c.Config().Web3Keys
	if rules.Require == "deny" {
		return &routes.Error{Status: 403, Code: "UNAUTHORIZED", Message: "Wallets cannot create API keys here."}
	}
	if wait := ca.web3.tries.Take(proxy.Address(c.Ctx), rules.PerIP, c.Began); wait > 0 {
		return &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED",
			Message:    "Rate limit exceeded: too many requests for wallet keys from this address.",
			RetryAfter: max(routes.RetrySoon, wait)}
	}
	return nil
}
