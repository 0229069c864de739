package account

import (
	"strconv"
	"time"

	"farebox/billing"
	"farebox/config"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// serveRateLimits answers GET /api_keys/rate_limits for the calling key: the
// documentation's fields and, as `windows`, those of the specification
// (addendum 16.4). It says that access is permitted while a paid request
// could begin.
func serveRateLimits(c *routes.Call) *routes.Error {
	k := c.Key
	windows, err := c.Accounts().KeyWindows(k, billing.At(c.Began))
	if err != nil {
		return keyError(c, err)
	}
	// The store's: an idle node does not see the charges of others.
	have, err := reports(c).Balance()
	if err != nil {
		return reportFailed(c, err)
	}
	c.SetBalance(have.USD, have.DIEM)
	b := []byte(`{"data":{"accessPermitted":`)
	b = strconv.AppendBool(b, have.CanConsume && k.HasRoom(c.StartNs))
	b = append(b, `,"apiTier":{"id":"`+routes.APITier+`","isCharged":true},"balances":{"USD":`...)
	b = appendAmount(b, have.Lasting())
	b = appendAmount(append(b, `,"DIEM":`...), have.DIEM)
	b = appendTime(append(b, `},"keyExpiration":`...), k.ExpiresAt)
	b = appendTime(append(b, `,"nextEpochBegins":`...), c.Began.UTC().Truncate(24*time.Hour).Add(24*time.Hour))
	b = append(b, `,"rateLimits":[`...)
	for _, m := range c.Catalog().Models() {
		b = jsontext.Comma(b)
		b = jsontext.Object(append(b, '{')).Text("apiModelId", m.ID)
		b = append(b, `,"rateLimits":[`...)
		b = append(appendRates(b, m.Rate), `]}`...)
	}
	for _, class := range c.RateClasses() {
		rate, _ := class.Rate(c.Config())
		b = append(jsontext.Comma(b), `{"apiModelId":"`+class.Name+`","rateLimits":[`...)
		b = append(appendRates(b, rate), `]}`...)
	}
	b = append(b, `],"windows":{`...)
	for i, name := range [...]string{"minute", "hour", "day", "month"} {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendWindow(append(b, `"`+name+`":`...), &windows[i])
	}
	return c.WriteJSON(append(b, `}}}`...))
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
		b = jsontext.Object(append(b, '{')).Int("amount", limit.amount)
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
	b = jsontext.Object(b).Int("used", w.Used)
	number(`,"remaining":`, w.Remaining)
	b = appendTime(append(b, `,"resetsAt":`...), w.Resets)
	return append(b, '}')
}

// serveRateLimitLog answers GET /api_keys/rate_limits/log: the last refusals of
// the account by limits, newest first (addendum 16.5).
func serveRateLimitLog(c *routes.Call) *routes.Error {
	list, err := c.Accounts().Violations(c.Key.Account)
	if err != nil {
		return keyError(c, err)
	}
	b := []byte(`{"object":"list","data":[`)
	for i := range list {
		v := &list[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = jsontext.Object(append(b, '{')).Text("apiKeyId", v.KeyID).Text("modelId", v.Model).
			Text("rateLimitTier", v.Tier).Text("rateLimitType", v.Kind)
		b = append(b, `,"timestamp":`...)
		b = append(appendTime(b, v.At), '}')
	}
	return c.WriteJSON(append(b, `]}`...))
}
