package routes

import (
	"context"
	"net/netip"
	"strconv"
	"time"

	"farebox/billing"
	"farebox/config"
	"farebox/proxy"
)

// Denied is the answer to a request that was not admitted.
func (c *Call) Denied(d *billing.Denial) *Error {
	topUp := ""
	if url := c.Config().TopUpURL; url != "" {
		topUp = " Top up at " + url + "."
	}
	c.noteShortage(d)
	if c.wallet != "" && (d.Code.OfMoney() || d.Code == billing.InDebt) {
		return c.walletIsShort(c.balanceOf(c.Key), d.Owed)
	}
	switch d.Code {
	case billing.BelowMinimum:
		return &Error{Status: 402, Code: "INSUFFICIENT_BALANCE",
			Message: "The balance of this account is below the minimum of " + c.Config().
				Billing.MinimumBalance.String() + " USD." + topUp}
	case billing.InsufficientBalance:
		return &Error{Status: 402, Code: "INSUFFICIENT_BALANCE",
			Message: "Insufficient balance to cover this request." + topUp}
	case billing.InDebt:
		return &Error{Status: 402, Code: "INSUFFICIENT_BALANCE",
			Message: "This account owes " + d.Owed.String() +
				" USD for earlier requests that cost more than it could cover; a credit pays that first, then " +
				"requests are served again." + topUp}
	case billing.KeyLimitUSD:
		return &Error{Status: 402, Code: "API_KEY_USD_SPEND_LIMIT_EXCEEDED", Message: keyLimitReached("USD")}
	case billing.KeyLimitDIEM:
		return &Error{Status: 402, Code: "API_KEY_DIEM_SPEND_LIMIT_EXCEEDED", Message: keyLimitReached("DIEM")}
	case billing.LimitsAway:
		return &Error{Status: 503, Message: "Rate limits cannot be checked right now; please retry.",
			RetryAfter: d.RetryAfter}
	case billing.StoreAway:
		return &Error{Status: 503, Message: "The balance of this account cannot be checked right now; please retry.",
			RetryAfter: max(d.RetryAfter, time.Second)}
	case billing.NodeFenced:
		return &Error{Status: 503, Message: "This node of the service has been replaced; please retry.",
			RetryAfter: RetrySoon, Close: true}
	case billing.JournalFull:
		return &Error{Status: 503, Message: "The ledger cannot record new charges right now; please retry.",
			RetryAfter: 5 * time.Second}
	}
	c.noteLimit(d.Limit)
	c.Ctx.Response.Header.Set("X-Ratelimit-Type", d.Scope)
	return &Error{
		Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: max(d.RetryAfter, time.Second),
		Message: "Rate limit exceeded: " + d.Limit + " of this " + ScopeText(d.Scope) + " for model " + c.Model.ID +
			". Retry after the time in the Retry-After header.",
	}
}

// noteShortage counts a refusal for want of money, and keeps its sums for the log.
func (c *Call) noteShortage(d *billing.Denial) {
	if limit := d.Limiter(); limit != "" {
		c.short = *d
		c.g.metrics.count(&c.g.metrics.shortages, `farebox_unpaid_refusals_total{limit="`, limit)
	}
}

// Limited is the refusal by a limit of a route, a rate class or the process, not of a model. The
// refusal is noted in the account's log.
func (c *Call) Limited(of string, d *billing.Denial, text string) *Error {
	if c.Key != nil {
		c.limitBy = d.Limit
		c.g.ledger.NoteViolation(c.Key, of, APITier, d.Limit, c.StartNs)
	}
	return &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", Message: text, Custom: text,
		RetryAfter: max(d.RetryAfter, time.Second)}
}

// keyLimitReached explains a refusal by a key's limit. A request holds its largest cost first, so
// the limit can refuse while a little of it is left.
func keyLimitReached(currency string) string {
	return "This API key has reached its " + currency +
		" consumption limit for the current period, or the remaining amount does not cover this request."
}

// ScopeText names the owner of a limit.
func ScopeText(scope string) string {
	switch scope {
	case "api_key":
		return "API key"
	case ofAddress:
		return "address"
	}
	return "account"
}

// Admit checks and counts the limits of a request and opens the hold that pays
// for it. The key, the time and the limits of the model or the route are filled in.
func (c *Call) Admit(want *billing.Admission) billing.Denial {
	want.Key, want.Now, want.RequestID = c.Key, billing.At(c.Began), c.raw
	if c.wallet != "" {
		want.Floor = c.snap.wallets.cfg.MinBalance
	}
	if w, ok := c.window(); ok {
		want.Slot, want.Rate = w.slot, w.rate
	}
	return c.g.ledger.Admit(&c.hold, want)
}

// Cover has the hold pay for cost, where that is known only after admission.
func (c *Call) Cover(cost billing.Nano) *Error {
	more := cost - c.hold.Granted()
	if more <= 0 || c.hold.Extend(more) {
		return nil
	}
	refusal := c.Key.Shortage(more, c.StartNs)
	return c.Denied(&refusal)
}

// Count counts n units of another product that a route uses, such as searches of a chat, in the
// limits of its class. The request was admitted already. Overrun answers if the limits are used
// up. Without a key, the client's address has the requests a minute.
func (c *Call) Count(class *RateClass, n int64) billing.Denial {
	w, ok := c.snap.windows[class]
	if !ok {
		return billing.Denial{}
	}
	if c.Key == nil {
		return c.countAnonymous(class, w.rate)
	}
	return c.g.ledger.Count(c.Key, w.slot, w.rate, n, billing.At(c.Began))
}

// anonymousClient is a client without a key, in a class.
type anonymousClient struct {
	from  netip.Addr
	class *RateClass
}

// ofAddress is the scope of limits for clients without a key (addendum 3.6).
const ofAddress = "global"

func (c *Call) countAnonymous(class *RateClass, r *config.Rate) (d billing.Denial) {
	from := proxy.Address(c.Ctx)
	if r == nil || !from.IsValid() {
		return d
	}
	if wait := c.g.anonymous.Take(anonymousClient{from, class}, r.RPM, c.Began); wait > 0 {
		d = billing.Denial{Code: billing.RateRequests, Scope: ofAddress, Limit: "RPM", Allowed: r.RPM, RetryAfter: wait,
			Reset: c.Began.Add(wait)}
	}
	return d
}

// Overrun is the answer to a request that the limits of a class do not let through; of names the
// limited units.
func (c *Call) Overrun(class *RateClass, d *billing.Denial, of string) *Error {
	if d.Code != billing.RateRequests && d.Code != billing.RateTokens {
		return c.Denied(d)
	}
	c.SetWindow(d)
	return c.Limited(class.Name, d, "Rate limit exceeded: "+d.Limit+" of this "+ScopeText(d.Scope)+" for "+of+", "+
		strconv.FormatInt(d.Allowed, 10)+" requests.")
}

// AdmitCost counts a request as so many, and opens a hold of its cost: all of it or nothing. A
// repeat only counts; the first request was paid for.
func (c *Call) AdmitCost(again bool, cost billing.Nano, requests int64) *Error {
	c.want = billing.Admission{Requests: requests}
	if !again {
		c.want.Hold, c.want.Min = cost, cost
	}
	d := c.Admit(&c.want)
	switch {
	case d.Code == billing.Admitted:
		return nil
	case c.Model == nil:
		return c.Overrun(c.Row.Rate, &d, c.Row.Path)
	}
	return c.Denied(&d)
}

// noteLimit puts a refusal by a limit into the account's log.
func (c *Call) noteLimit(kind string) {
	of := ""
	if c.Model != nil {
		of = c.Model.ID
	} else if c.Row != nil {
		of = c.Row.Path
	}
	c.limitBy = kind
	c.g.ledger.NoteViolation(c.Key, of, APITier, kind, c.StartNs)
}

// APITier is the tier of every account; limits differ by model (addendum 3.6).
const APITier = "paid"

// Occupy takes one of the requests that the account may have under way, of most,
// within a time; the end of the request gives it back.
func (c *Call) Occupy(most int, within time.Duration) (ok bool, cause proxy.Cause) {
	account := c.Key.Account
	if c.occupies { // as a request of a wallet, of the same slots
		c.g.ledger.Release(account)
		most = min(most, c.snap.wallets.cfg.MaxInFlight)
	}
	if c.occupies = c.g.ledger.TryAcquire(account, most); c.occupies {
		return true, proxy.None
	}
	cause = proxy.TotalTimeout
	if within > 0 {
		cause, _ = c.g.proxy.Await(c.Ctx, within, func(ctx context.Context) error {
			c.occupies = c.g.ledger.Acquire(ctx, account, most)
			return nil
		})
	}
	return c.occupies, cause
}
