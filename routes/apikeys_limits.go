package routes

import (
	"strconv"
	"time"

	"farebox/billing"
	"farebox/config"
)

// apiTier is the tier of every account; limits differ by model (addendum 3.6).
const apiTier = "paid"

// serveRateLimits answers GET /api_keys/rate_limits for the calling key: the
// documentation's fields and, as `windows`, those of the specification
// (addendum 16.4). It says that access is permitted while a paid request
// could begin.
func serveRateLimits(g *Gateway, c *Call) *Error {
	k := c.key
	windows, err := g.ledger.KeyWindows(k, c.startNs)
	if err != nil {
		return c.keyError(err)
	}
	// The store's: a node that is idle knows nothing of what others charge.
	have, err := g.ledger.Balance(k)
	if err != nil {
		return c.reportFailed(err)
	}
	c.setBalance(have.USD, have.DIEM)
	b := []byte(`{"data":{"accessPermitted":`)
	b = strconv.AppendBool(b, have.CanConsume && k.HasRoom(c.startNs))
	b = append(b, `,"apiTier":{"id":"`+apiTier+`","isCharged":true},"balances":{"USD":`...)
	b = appendAmount(b, have.USD+have.Bundled)
	b = append(b, `,"DIEM":`...)
	b = appendAmount(b, have.DIEM)
	b = append(b, `},"keyExpiration":`...)
	b = appendTime(b, k.ExpiresAt)
	b = append(b, `,"nextEpochBegins":`...)
	b = appendTime(b, c.began.UTC().Truncate(24*time.Hour).Add(24*time.Hour))
	b = append(b, `,"rateLimits":[`...)
	for i, m := range c.snap.catalog.Models() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"apiModelId":`...)
		b = appendString(b, m.ID)
		b = append(b, `,"rateLimits":[`...)
		b = append(appendRates(b, m.Rate), `]}`...)
	}
	if o := c.snap.rpc; len(o.names) > 0 {
		b = append(comma(b, len(c.snap.catalog.Models())), `{"apiModelId":"`+rpcLimit+`","rateLimits":[`...)
		b = append(appendRates(b, o.rate), `]}`...)
	}
	b = append(b, `],"windows":{`...)
	for i, name := range [...]string{"minute", "hour", "day", "month"} {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `"`+name+`":`...)
		b = appendWindow(b, &windows[i])
	}
	return c.writeJSON(append(b, `}}}`...))
}

// appendRates lists the limits of a tier that there are.
func appendRates(b []byte, r *config.Rate) []byte {
	if r == nil {
		return b
	}
	first := true
	for _, limit := range [...]struct {
		name   string
		amount int64
	}{{"RPM", r.RPM}, {"RPH", r.RPH}, {"RPD", r.RPD}, {"RPMON", r.RPMon}, {"TPM", r.TPM}} {
		if limit.amount == 0 {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, `{"amount":`...)
		b = strconv.AppendInt(b, limit.amount, 10)
		b = append(b, `,"type":"`+limit.name+`"}`...)
	}
	return b
}

func appendWindow(b []byte, w *billing.WindowUse) []byte {
	number := func(name string, n int64) {
		b = append(b, name...)
		if w.Limit < 0 {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendInt(b, n, 10)
		}
	}
	number(`{"limit":`, w.Limit)
	b = append(b, `,"used":`...)
	b = strconv.AppendInt(b, w.Used, 10)
	number(`,"remaining":`, w.Remaining)
	b = append(b, `,"resetsAt":`...)
	b = appendTime(b, w.Resets)
	return append(b, '}')
}

// serveRateLimitLog answers GET /api_keys/rate_limits/log: the last refusals of
// the account by limits, newest first (addendum 16.5).
func serveRateLimitLog(g *Gateway, c *Call) *Error {
	list, err := g.ledger.Violations(c.key.Account)
	if err != nil {
		return c.keyError(err)
	}
	b := []byte(`{"object":"list","data":[`)
	for i := range list {
		v := &list[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"apiKeyId":`...)
		b = appendString(b, v.KeyID)
		b = append(b, `,"modelId":`...)
		b = appendString(b, v.Model)
		b = append(b, `,"rateLimitTier":`...)
		b = appendString(b, v.Tier)
		b = append(b, `,"rateLimitType":`...)
		b = appendString(b, v.Kind)
		b = append(b, `,"timestamp":`...)
		b = append(appendTime(b, v.At), '}')
	}
	return c.writeJSON(append(b, `]}`...))
}

// noteLimit puts a refusal by a limit into the account's log.
func (c *Call) noteLimit(kind string) {
	of := ""
	if c.model != nil {
		of = c.model.ID
	} else if c.row != nil {
		of = c.row.path
	}
	c.g.ledger.NoteViolation(c.key, of, apiTier, kind, c.startNs)
}
