package account

import (
	"errors"

	"farebox/billing/report"
	"farebox/config/fair"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// serveBalance answers GET /billing/balance (addendum 17.1, D16): both spellings of the members.
func serveBalance(c *routes.Call) *routes.Error {
	balance, err := reports(c).Balance()
	if err != nil {
		return reportFailed(c, err)
	}
	c.SetBalance(balance.USD, balance.DIEM)
	can := "false"
	if balance.CanConsume {
		can = "true"
	}
	b := append([]byte(`{"canConsume":`), can...)
	b = append(b, `,"can_consume":`...)
	b = append(b, can...)
	b = append(b, `,"consumptionCurrency":`...)
	if balance.Next == 0 {
		b = append(b, "null"...)
	} else {
		b = jsontext.AppendString(b, balance.Next.String())
	}
	b = append(b, `,"balances":{"diem":`...)
	if balance.HasDIEM {
		b = appendAmount(b, balance.DIEM)
	} else {
		b = append(b, "null"...)
	}
	b = appendAmount(append(b, `,"usd":`...), balance.USD)
	b = appendAmount(append(b, `,"bundledCredits":`...), balance.Bundled)
	b = appendAmount(append(b, `},"diemEpochAllocation":`...), balance.DIEMAllocation)
	return writeReport(c, append(b, '}'))
}

// writeReport makes b the answer.
func writeReport(c *routes.Call, b []byte) *routes.Error {
	c.Ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	c.Ctx.Response.SetBodyRaw(b)
	c.Compress()
	return nil
}

// reports are those of the key's account.
func reports(c *routes.Call) report.Account {
	return c.Accounts().Reports(c.Key.Account).For(c.Owner())
}

// reportFailed is the answer when the store could not give a report
// (interface.md, Errors: billing timeout; D21).
func reportFailed(c *routes.Call, err error) *routes.Error {
	if errors.Is(err, fair.ErrFull) {
		return tooMany("billing queries")
	}
	if errors.Is(err, report.ErrTimeout) {
		c.Logger().Warn().Err(err).Bytes("request_id", c.ID[:]).Msg("a billing query took too long")
		return &routes.Error{Status: 504, Code: "REQUEST_TIMEOUT",
			Message: "The billing query timed out: it took longer than 10 seconds allow. Ask for a shorter range of " +
				"dates, or try again."}
	}
	c.Logger().Error().Err(err).Bytes("request_id", c.ID[:]).Msg("cannot answer a billing query")
	return &routes.Error{Status: 503, Message: "The billing data cannot be read right now; please retry.",
		RetryAfter: routes.RetrySoon}
}

// tooMany refuses a call while too many of the account wait for their turn.
func tooMany(what string) *routes.Error {
	return &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: routes.RetrySoon,
		Message: "Rate limit exceeded: too many " + what + " are waiting at the same time; please retry."}
}

// historyFailed is reportFailed for a request that may have brought a cursor.
func historyFailed(c *routes.Call, err error) *routes.Error {
	if !errors.Is(err, report.ErrCursor) {
		return reportFailed(c, err)
	}
	return routes.Invalid(routes.Issue{Code: "custom", Path: "cursor",
		Message: err.Error() + "; begin again without a cursor."})
}
