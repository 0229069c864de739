package routes

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/window"
	"farebox/config"
)

// headerNames are the headers that carry the brand word (addendum 3.7), in
// canonical form and built once a snapshot, so that setting one is a copy.
type headerNames struct {
	version, modelID, modelName, router                       []byte
	deprecationWarning, deprecationDate, deprecated, replaced []byte
	balanceUSD, balanceDIEM                                   []byte
}

func newHeaderNames(brand string) headerNames {
	name := func(rest string) []byte { return BrandHeader(brand, rest) }
	return headerNames{
		version: name("version"), modelID: name("model-id"), modelName: name("model-name"),
		router:             name("model-router"),
		deprecationWarning: name("model-deprecation-warning"), deprecationDate: name("model-deprecation-date"),
		deprecated: name("deprecated"), replaced: name("deprecated-replacement"),
		balanceUSD: name("balance-usd"), balanceDIEM: name("balance-diem"),
	}
}

// BrandHeader is the name of a header that carries the brand word, in canonical form.
func BrandHeader(brand, rest string) []byte { return canonical("x-" + brand + "-" + rest) }

func canonical(name string) []byte { return fasthttp.AppendNormalizedHeaderKey(nil, name) }

// Headers whose names do not depend on the brand.
var (
	headerRequestID         = canonical("x-request-id")
	headerRay               = canonical("cf-ray")
	headerLimitRequests     = canonical("x-ratelimit-limit-requests")
	headerRemainingRequests = canonical("x-ratelimit-remaining-requests")
	headerResetRequests     = canonical("x-ratelimit-reset-requests")
	headerLimitTokens       = canonical("x-ratelimit-limit-tokens")
	headerRemainingTokens   = canonical("x-ratelimit-remaining-tokens")
	headerResetTokens       = canonical("x-ratelimit-reset-tokens")
)

// requestID is 32 lower-case hex characters (addendum 3.7).
type requestID [32]byte

func newRequestID(nowNs int64) (raw [16]byte, id requestID) {
	raw = billing.NewRequestID(nowNs)
	hex.Encode(id[:], raw[:])
	return raw, id
}

// setCommon puts the headers of every answer.
func (c *Call) setCommon() {
	h := &c.Ctx.Response.Header
	h.SetCanonical(headerRequestID, c.ID[:])
	h.SetCanonical(headerRay, c.ID[:])
	h.SetCanonical(c.snap.names.version, c.g.version)
}

// setModel sets the headers with the model, its router, and whether it is deprecated.
func (c *Call) setModel() {
	h, n := &c.Ctx.Response.Header, &c.snap.names
	m := c.Model
	h.SetCanonical(n.modelID, ViewBytes(m.ID))
	if m.HeaderName != "" {
		h.SetCanonical(n.modelName, ViewBytes(m.HeaderName))
	}
	if c.Router != "" {
		h.SetCanonical(n.router, ViewBytes(c.Router))
	}
	d := m.Config.Deprecation
	if d == nil {
		return
	}
	if now := time.Now(); !d.StartsAt.IsZero() && now.Before(d.StartsAt) {
		return
	} else if !d.Date.IsZero() && !now.Before(d.Date) {
		h.SetCanonical(n.deprecated, []byte("true"))
	}
	h.SetCanonical(n.deprecationWarning, []byte("Model "+m.ID+" is scheduled for retirement."))
	if !d.Date.IsZero() {
		h.SetCanonical(n.deprecationDate, []byte(d.Date.UTC().Format("2006-01-02T15:04:05.000Z")))
	}
	if d.Replacement != "" {
		h.SetCanonical(n.replaced, []byte(d.Replacement))
	}
}

// setServed puts the headers of every sold answer: its model, the remaining limits, and the
// balances before the request (addendum 3.6, 3.7).
func (c *Call) setServed(balance *money.Parts) {
	if c.Model != nil {
		c.setModel()
	}
	c.setQuotaHeaders()
	c.SetBalance(balance[money.InUSD], balance[money.InDIEM])
}

// setQuota puts the x-ratelimit-* headers (addendum 3.6: requests reset as
// Unix seconds, tokens as seconds left). Unlimited windows have no header.
func setQuota(h *fasthttp.ResponseHeader, q *window.Quota, scratch *[24]byte) {
	set := func(name []byte, v int64) { h.SetCanonical(name, strconv.AppendInt(scratch[:0], v, 10)) }
	if q.LimitRequests >= 0 {
		set(headerLimitRequests, q.LimitRequests)
		set(headerRemainingRequests, q.RemainingRequests)
		set(headerResetRequests, q.ResetRequestsUnix)
	}
	if q.LimitTokens >= 0 {
		set(headerLimitTokens, q.LimitTokens)
		set(headerRemainingTokens, q.RemainingTokens)
		set(headerResetTokens, q.ResetTokensSeconds)
	}
}

// SetWindow puts the remainder of the window that refused a request (addendum 3.6, 13).
func (c *Call) SetWindow(d *billing.Denial) {
	h := &c.Ctx.Response.Header
	h.Set("X-Ratelimit-Type", d.Scope)
	h.Set("X-RateLimit-Limit", strconv.FormatInt(d.Allowed, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(d.Remaining, 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt((d.Reset.UnixNano()+int64(time.Second)-1)/int64(time.Second), 10))
}

// SetBalance puts the balances before this request, when not zero (addendum 3.7).
func (c *Call) SetBalance(usd, diem config.Nano) {
	h, n := &c.Ctx.Response.Header, &c.snap.names
	const nanoDigits = 9
	if usd > 0 {
		h.SetCanonical(n.balanceUSD, config.AppendDecimal(c.number[:0], int64(usd), nanoDigits))
	}
	if diem > 0 {
		h.SetCanonical(n.balanceDIEM, config.AppendDecimal(c.number[:0], int64(diem), nanoDigits))
	}
}
