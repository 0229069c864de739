package routes

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/dgraph-io/ristretto/v2"
	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/config/fair"
	"farebox/providers/wallet"
	"farebox/providers/wallet/signin"
	"farebox/proxy"
)

const (
	// walletHeaders are the headers that pages may send for wallets (addendum 14.1, 14.3).
	walletHeaders = headerSignIn + ", " + headerSignInOld + ", PAYMENT-SIGNATURE, X-402-Payment, X-PAYMENT"

	headerSignIn    = "SIGN-IN-WITH-X"
	headerSignInOld = "X-Sign-In-With-X"

	// contractAsks is how many contracts are asked at a time whether they signed, contractQueue
	// how many requests wait for that, and contractTries how many a minute one client address may
	// cause: any header can cause one, and nodes are paid for.
	contractAsks  = 16
	contractQueue = 64
	contractTries = 30
	// contractTime is for one question to all witnesses, and contractWait for the turn.
	contractTime = 5 * time.Second
	contractWait = 10 * time.Second
)

// SignedIn is a wallet that has identified itself.
type SignedIn struct {
	Wallet wallet.Address
	// sign is nil where the header was proven before.
	sign *signin.SignIn
	sum  [sha256.Size]byte // of the header
}

// signInHeader is the signed message of a wallet; nil: nothing.
func signInHeader(ctx *fasthttp.RequestCtx) []byte {
	if header := ctx.Request.Header.Peek(headerSignIn); len(header) > 0 {
		return header
	}
	if header := ctx.Request.Header.Peek(headerSignInOld); len(header) > 0 {
		return header
	}
	return nil
}

// takes says that a wallet may ask at a row in the place of a key.
func (w *wallets) takes(row *Row) bool { return row.Wallet && w.cfg.Inference }

// identifyWallet finds the key of the wallet that signed the request, if one did. It
// beats a key that is sent along (addendum 3.2).
func (c *Call) identifyWallet(need Access) (done bool, e *Error) {
	if !c.snap.wallets.takes(c.Row) || signInHeader(c.Ctx) == nil {
		return false, nil
	}
	s, e := c.ReadSignIn()
	if e != nil || need == Catalog { // which shows the same to everybody
		return true, e
	}
	key, e := c.KeyOfWallet(s.Wallet)
	if e != nil {
		return true, e
	}
	if key == nil {
		c.noteShortage(&billing.Denial{Code: billing.BelowMinimum,
			Short: billing.Shortage{Needed: c.snap.wallets.cfg.MinBalance}})
		return true, c.walletIsShort(0, 0)
	}
	if e := c.ConfirmSignIn(s); e != nil { // before it takes one of the wallet's slots
		return true, e
	}
	if e := c.occupyWallet(key, s); e != nil {
		return true, e
	}
	if e := c.UseSignIn(s); e != nil {
		return true, e
	}
	key.Touch(c.StartNs)
	return true, nil
}

// occupyWallet makes the request one of a wallet's. The end of the request gives its
// slot back.
func (c *Call) occupyWallet(key *billing.Key, s *SignedIn) *Error {
	most := c.snap.wallets.cfg.MaxInFlight
	if !c.g.ledger.TryAcquire(key.Account, most) {
		return &Error{Status: 429, Code: "X402_CONCURRENCY_LIMIT", RetryAfter: RetrySoon,
			Message: "Too many requests of this wallet are under way; at most " + strconv.Itoa(most) +
				" are served at the same time."}
	}
	c.Key, c.wallet, c.occupies = key, s.Wallet.String(), true
	c.noteOwner()
	return nil
}

// ReadSignIn reads the header by which a wallet identifies itself, and makes all checks that need
// no other service (addendum 14.2). It proves nothing until ConfirmSignIn and UseSignIn.
func (c *Call) ReadSignIn() (*SignedIn, *Error) { return c.readSignIn(c.snap.wallets.known) }

// ReadSignInFor is ReadSignIn for a message that must be signed for just that path.
func (c *Call) ReadSignInFor(path string) (*SignedIn, *Error) {
	s, e := c.readSignIn(nil)
	if e != nil {
		return nil, e
	}
	if u, err := url.Parse(s.sign.URI); err != nil || u.Path != path {
		return nil, c.unsigned(signin.InvalidMessage, "The URI of the message must be that of "+path+".")
	}
	return s, nil
}

func (c *Call) readSignIn(known *ristretto.Cache[string, knownWallet]) (*SignedIn, *Error) {
	header := signInHeader(c.Ctx)
	if header == nil {
		return nil, c.unsigned(signin.Invalid, "Wallet sign-in required: send the header "+headerSignIn+
			" with a message that the wallet signed.")
	}
	w := c.snap.wallets
	s := &SignedIn{}
	if known != nil {
		s.sum = sha256.Sum256(header)
		if before, ok := known.Get(string(s.sum[:])); ok && c.Began.Before(before.until) {
			s.Wallet = before.wallet
			return s, c.walletMayUse(s.Wallet)
		}
	}
	from := proxy.Address(c.Ctx)
	if wait := c.g.ledger.SignInWait(from); wait > 0 {
		return nil, &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: max(RetrySoon, wait), Uncounted: true,
			Message: "Too many sign-ins that no wallet signed came from this address; retry after the time in the " +
				"Retry-After header."}
	}
	sign, refusal := w.rules.Read(header, c.Began)
	if refusal != nil {
		if refusal.Code == signin.InvalidSignature { // whose check costs most
			c.g.ledger.NoteWrongSignIn(from)
		}
		return nil, c.unsigned(refusal.Code, refusal.Message)
	}
	s.Wallet, s.sign = sign.Wallet, sign
	return s, c.walletMayUse(s.Wallet)
}

// unsigned is the answer to a header that proves nothing.
func (c *Call) unsigned(code, text string) *Error {
	c.g.metrics.signIn(code)
	return &Error{Status: 401, Code: code, Message: text, Uncounted: true}
}

// walletMayUse refuses wallets that the operator lists as such.
func (c *Call) walletMayUse(a wallet.Address) *Error {
	if c.snap.cfg.X402.MayUse(a.String()) {
		return nil
	}
	c.g.metrics.signIn("not_allowed")
	return &Error{Status: 403, Code: "UNAUTHORIZED", Message: "This wallet may not sign in here.", Uncounted: true}
}

// KeyOfWallet is the key through which a wallet spends; nil: it has no ledger.
func (c *Call) KeyOfWallet(a wallet.Address) (*billing.Key, *Error) {
	key, err := c.g.ledger.Wallets().Key(proxy.Address(c.Ctx), a.String())
	switch {
	case err == nil:
		return key, nil
	case errors.Is(err, billing.ErrUnknownKey):
		return nil, nil
	case errors.Is(err, billing.ErrSuspended), errors.Is(err, billing.ErrClosed):
		e := Disabled(err)
		c.refused = e.key
		return nil, e
	case errors.Is(err, billing.ErrManyUnknownKeys):
		return nil, &Error{Status: 503, Message: "Too many unknown wallets are signing in right now; please retry.",
			RetryAfter: RetrySoon}
	}
	c.g.log.Error().Err(err).Msg("cannot look up a wallet")
	return nil, walletsAway()
}

func walletsAway() *Error {
	return &Error{Status: 503, Message: "The ledgers of wallets cannot be read right now; please retry.",
		RetryAfter: RetrySoon}
}

// UseSignIn lets a message be sent once, or, where the operator has it so, until it is too old.
// It is for wallets with a ledger, and comes last of all checks: nothing is stored for an unknown
// client, and nobody uses up a message that another has signed.
func (c *Call) UseSignIn(s *SignedIn) *Error {
	if s.sign == nil {
		c.g.metrics.signIn("known")
		return nil
	}
	if known := c.snap.wallets.known; known != nil {
		known.SetWithTTL(string(s.sum[:]), knownWallet{s.Wallet, s.sign.Until}, 1, s.sign.Until.Sub(c.Began))
		c.g.metrics.signIn("new")
		return nil
	}
	return c.SpendSignIn(s)
}

// SpendSignIn lets a message be sent once, whatever the operator has.
func (c *Call) SpendSignIn(s *SignedIn) *Error {
	id, expires := s.sign.Token()
	switch fresh, err := c.g.ledger.UseToken(c.Owner(), id, expires); {
	case errors.Is(err, billing.ErrManyTokens):
		return ManyTokens()
	case err != nil:
		c.g.log.Error().Err(err).Msg("cannot record a sign-in")
		return walletsAway()
	case !fresh:
		return c.unsigned(signin.ErrReused.Code, signin.ErrReused.Message)
	}
	c.g.metrics.signIn("new")
	return nil
}

// ManyTokens is the answer to an owner that has its share of the used tokens.
func ManyTokens() *Error {
	return &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: time.Minute, Uncounted: true,
		Message: "Too many sign-ins of this account or address have not expired; retry after the time in the " +
			"Retry-After header."}
}

// ConfirmSignIn asks the chain whether a wallet that is a contract signed (EIP-1271). It is for
// wallets with a ledger: unknown clients cause no question.
func (c *Call) ConfirmSignIn(s *SignedIn) *Error {
	if s.sign == nil || !s.sign.Unproven {
		return nil
	}
	from := proxy.Address(c.Ctx)
	if wait := c.g.contracts.tries.Take(from, contractTries, c.Began); wait > 0 {
		return &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: max(RetrySoon, wait), Uncounted: true,
			Message: "Too many sign-ins of contract wallets came from this address."}
	}
	var signed bool
	cause, err := c.g.proxy.Await(c.Ctx, contractWait+contractTime, func(ctx context.Context) (err error) {
		waiting, enough := context.WithTimeout(ctx, contractWait)
		defer enough()
		place, err := c.g.contracts.turns.Take(waiting, fair.Unpaid(from)) // it has proven no account yet
		if err != nil {
			return err
		}
		defer place.Done()
		ctx, cancel := context.WithTimeout(ctx, contractTime)
		defer cancel()
		signed, err = c.snap.wallets.client.ContractSigned(ctx, s.sign.Chain, s.Wallet, s.sign.Hash, s.sign.Signature)
		return err
	})
	switch {
	case cause == proxy.ClientGone || cause == proxy.ClientStalled:
		return c.Unreachable(&proxy.Result{Cause: cause})
	case errors.Is(err, fair.ErrFull):
		return contractAway()
	case err != nil || cause != proxy.None:
		c.g.log.Warn().Err(err).Str("cause", cause.String()).Str("network", s.sign.Chain).Msg(
			"the nodes of a chain could not say whether a contract wallet signed")
		c.g.metrics.signIn("chain_away")
		return contractAway()
	case !signed:
		c.g.ledger.NoteWrongSignIn(from)
		return c.unsigned(signin.ErrUnproven.Code, signin.ErrUnproven.Message)
	}
	return nil
}

func contractAway() *Error {
	return &Error{Status: 503, Message: "The wallet's chain cannot be asked right now whether it signed; please retry.",
		RetryAfter: RetrySoon, Uncounted: true}
}

// contracts bounds the questions to chains that unknown clients cause.
type contracts struct {
	turns *fair.Turns
	tries PerAddress
}

// knownWallet is the signer of a header, where one holds for several requests.
type knownWallet struct {
	wallet wallet.Address
	until  time.Time
}

// walletClient is the address that a wallet's request comes from; zero for one with a key.
// Failures of wallets count for it (addendum 3.6).
func (c *Call) walletClient() (from netip.Addr) {
	if c.wallet != "" {
		from = proxy.Address(c.Ctx)
	}
	return from
}

// noteFailure counts a mistake of the client.
func (c *Call) noteFailure(unsupported bool) {
	c.g.ledger.NoteFailure(c.walletClient(), c.Key, c.slot(), c.user, unsupported, billing.At(c.Began))
}

func (c *Call) failureBlock() (until int64, kind string) {
	return c.g.ledger.FailureBlock(c.walletClient(), c.Key, c.slot(), c.user, billing.At(c.Began))
}
