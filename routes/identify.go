package routes

import (
	"bytes"
	"crypto/subtle"
	"errors"

	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/billing/store"
	"farebox/proxy"
)

// maxSecret bounds the bytes that are hashed for a credential; real secrets have about 62.
const maxSecret = 256

// authorize lets a request in that its row may have: with a payment only where one is read,
// with the credential that the row asks for.
func (c *Call) authorize() *Error {
	if c.snap.wallets != nil {
		if e := c.refusesPayment(); e != nil {
			return e
		}
	}
	return c.Identify(c.Row.Access)
}

// Identify finds the key behind the request's credential, and refuses one that failed too
// often. Requests with a model count by model, so that UseModel asks for those. Handlers of
// public rows call it where the config asks for a credential.
func (c *Call) Identify(need Access) *Error {
	if e := c.identify(need); e != nil || c.Key == nil || c.Row.Rate == ByModel {
		return e
	}
	return c.CheckFailures()
}

// identify finds the key behind the request's credential (design.md 2, step 1).
func (c *Call) identify(need Access) *Error {
	if need == Public || (need == Catalog && c.snap.cfg.Compat.PublicCatalog) {
		return nil
	}
	if c.snap.wallets != nil {
		if done, e := c.identifyWallet(need); done {
			return e
		}
	}
	key, e := c.g.lookup(c.Ctx, c.Row)
	c.Key = key
	if e != nil {
		c.refused = e.key
	}
	if e == nil {
		c.noteOwner()
		key.Touch(c.StartNs)
	} else if e.Status == 401 && c.snap.wallets != nil {
		return c.discovery(e)
	}
	if e == nil && need == Admin && key.Type != store.Admin {
		return &Error{Status: 403, Code: "UNAUTHORIZED", Message: "This API key may not do this: it is of type " +
			key.Type.String() + ", and the operation needs an ADMIN key."}
	}
	return e
}

// remembered is the credential of a connection's last request. Clients keep their connections and
// their keys, so the next request mostly needs no digest.
type remembered struct {
	header []byte
	bare   bool // the header was the key alone
	key    *billing.Key
	paid   bool // its account is
}

// lookup finds the live key that a request to a row names.
func (g *Gateway) lookup(ctx *fasthttp.RequestCtx, row *Row) (*billing.Key, *Error) {
	header, bare, e := credential(ctx, row)
	if e != nil {
		return nil, e
	}
	client := proxy.ClientOf(ctx.Conn())
	if client == nil {
		return g.lookupHeader(ctx, header, bare)
	}
	last, _ := client.Kept.(*remembered)
	// A proxy in front may put several callers on one connection; how long the
	// comparison takes tells none of them about another.
	if last != nil && last.bare == bare && subtle.ConstantTimeCompare(last.header, header) == 1 &&
		g.ledger.Live(last.key) {
		return last.key, nil
	}
	key, e := g.lookupHeader(ctx, header, bare)
	if e == nil {
		client.Kept = &remembered{header: bytes.Clone(header), bare: bare, key: key}
	}
	return key, e
}

// credential is the header that names the key. bare says that it is the key alone.
func credential(ctx *fasthttp.RequestCtx, row *Row) (header []byte, bare bool, e *Error) {
	header = ctx.Request.Header.Peek("Authorization")
	if row == nil || row.KeyHeader == "" {
		return header, false, nil
	}
	own := bytes.TrimSpace(ctx.Request.Header.Peek(row.KeyHeader))
	if len(own) == 0 {
		return header, false, nil
	}
	if len(header) == 0 {
		return own, true, nil
	}
	if secret, e := bearerSecret(header); e != nil || subtle.ConstantTimeCompare(secret, own) != 1 {
		return nil, false, errAuthentication("Authentication failed: Authorization and " + row.KeyHeader +
			" name different keys; send one of them.")
	}
	return own, true, nil
}

func (g *Gateway) lookupHeader(ctx *fasthttp.RequestCtx, header []byte, bare bool) (*billing.Key, *Error) {
	secret := header
	if !bare {
		var e *Error
		if secret, e = bearerSecret(header); e != nil {
			return nil, e
		}
	} else if len(secret) > maxSecret {
		return nil, errUnknownKey()
	}
	key, err := g.ledger.LookupFrom(proxy.Address(ctx), secret)
	var wrong *billing.TooManyWrong
	switch {
	case err == nil:
		return key, nil
	case errors.Is(err, billing.ErrSuspended), errors.Is(err, billing.ErrClosed):
		return nil, Disabled(err)
	case errors.Is(err, billing.ErrUnknownKey):
		e := errUnknownKey()
		_ = errors.As(err, &e.key)
		return nil, e
	case errors.As(err, &wrong):
		return nil, &Error{
			Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: max(RetrySoon, wrong.After), Uncounted: true,
			Message: "Too many API keys that are unknown, expired or revoked were tried from this address; retry " +
				"after the time in the Retry-After header.",
		}
	case errors.Is(err, billing.ErrManyUnknownKeys):
		return nil, &Error{Status: 503, Message: "Too many unknown API keys are being tried right now; please retry.",
			RetryAfter: RetrySoon}
	}
	g.log.Error().Err(err).Msg("cannot look up a key")
	return nil, &Error{Status: 503, Message: "The key store cannot be read right now; please retry.",
		RetryAfter: RetrySoon}
}

func bearerSecret(header []byte) ([]byte, *Error) {
	if len(header) == 0 {
		return nil, errAuthentication("Authentication required: send the header Authorization: Bearer <API key>.")
	}
	scheme, secret, found := bytes.Cut(header, []byte(" "))
	secret = bytes.TrimSpace(secret)
	if !found || !bytes.EqualFold(scheme, []byte("Bearer")) || len(secret) == 0 {
		return nil, errAuthentication(
			"Authentication failed: the Authorization header must be of the form Bearer <API key>.")
	}
	if len(secret) > maxSecret {
		return nil, errUnknownKey()
	}
	return secret, nil
}

func errUnknownKey() *Error {
	return errAuthentication("Authentication failed: the API key is unknown, expired or revoked.")
}

// Disabled says that an account may not be used, which its owner can only
// clear up with the operator.
func Disabled(err error) *Error {
	text := "This account is suspended; ask the operator of this service to resume it."
	if errors.Is(err, billing.ErrClosed) {
		text = "This account is closed."
	}
	e := &Error{Status: 403, Code: "API_ACCESS_DISABLED", Message: text}
	_ = errors.As(err, &e.key)
	return e
}
