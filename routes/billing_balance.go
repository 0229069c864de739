package routes

import (
	"errors"

	"farebox/billing/report"
)

// serveBalance answers GET /billing/balance (addendum 17.1, D16): both
// spellings of what clients look for.
func serveBalance(c *Call) *Error {
	balance, err := c.Ledger().Reports(c.Key.Account).Balance()
	if err != nil {
		return c.reportFailed(err)
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
		b = AppendString(b, balance.Next.String())
	}
	b = append(b, `,"balances":{"diem":`...)
	if balance.HasDIEM {
		b = appendAmount(b, balance.DIEM)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"usd":`...)
	b = appendAmount(b, balance.USD)
	b = append(b, `,"bundledCredits":`...)
	b = appendAmount(b, balance.Bundled)
	b = append(b, `},"diemEpochAllocation":`...)
	b = appendAmount(b, balance.DIEMAllocation)
	return c.writeReport(append(b, '}'))
}

// writeReport makes b the answer.
func (c *Call) writeReport(b []byte) *Error {
	c.Ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	c.Ctx.Response.SetBodyRaw(b)
	c.Compress()
	return nil
}

// reportFailed is the answer when the store could not give a report
// (interface.md, Errors: billing timeout; D21).
func (c *Call) reportFailed(err error) *Error {
	if errors.Is(err, report.ErrTimeout) {
		c.Logger().Warn().Err(err).Bytes("request_id", c.ID[:]).Msg("a billing query took too long")
		return &Error{Status: 504, Code: "REQUEST_TIMEOUT", Message: "The billing query timed out: it took longer than 10 seconds allow. Ask for a shorter range of dates, or try again."}
	}
	c.Logger().Error().Err(err).Bytes("request_id", c.ID[:]).Msg("cannot answer a billing query")
	return &Error{Status: 503, Message: "The billing data cannot be read right now; please retry.", RetryAfter: RetrySoon}
}

// historyFailed is reportFailed for a request that may have brought a cursor.
func (c *Call) historyFailed(err error) *Error {
	if !errors.Is(err, report.ErrCursor) {
		return c.reportFailed(err)
	}
	return Invalid(Issue{Code: "custom", Path: "cursor", Message: err.Error() + "; begin again without a cursor."})
}
