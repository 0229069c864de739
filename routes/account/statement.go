package account

import (
	"errors"
	"math"
	"strconv"
	"time"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// A statement of the account, and the requests that were refused: additions to the specification.

// statementParams are those of GET /billing/statement. limit counts bookings, of which one may have
// the charges of several requests.
var statementParams = routes.Params{
	"currency": {Kinds: routes.String, Enum: money.Names, Default: "USD"},
	"limit":    {Kinds: routes.Number, Integer: true, Min: 1, Max: 500, Default: 200},
	"from":     {Kinds: routes.String, Format: "date-time in UTC"},
	"to":       {Kinds: routes.String, Format: "date-time in UTC"},
	"cursor":   {Kinds: routes.String, NonEmpty: true, Length: cursorMost, Format: "nextCursor"},
}

// cursorMost is longer than any cursor here.
const cursorMost = 128

// serveStatement answers GET /billing/statement: the changes of the account's balance.
func serveStatement(c *routes.Call) *routes.Error {
	q := c.Query()
	ask := report.StatementQuery{Currency: currencyOf(q), Most: int(q.Integer("limit"))}
	ask.From, ask.To = period(q)
	if cursor, follows := q.Text("cursor"); follows {
		n, err := strconv.ParseInt(cursor, 10, 64)
		if err != nil || n <= 0 {
			q.Wrong(wrongCursor())
		}
		ask.After = n
	}
	if e := q.Refusal(); e != nil {
		return e
	}
	account := reports(c)
	if ask.After == 0 && ask.To.IsZero() {
		account.Newest.Detail()
	}
	s, err := account.Statement(ask)
	if err != nil {
		return reportFailed(c, err)
	}
	b := append([]byte(nil), `{"openingBalance":`...)
	if ask.After == 0 {
		b = appendAmount(b, s.Opening)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"data":[`...)
	for i := range s.Lines {
		b = appendLine(jsontext.Comma(b), &s.Lines[i])
	}
	b = append(b, `],"nextCursor":`...)
	if s.Next == 0 {
		return writeReport(c, append(b, "null}"...))
	}
	return writeReport(c, append(jsontext.AppendString(b, strconv.FormatInt(s.Next, 10)), '}'))
}

func appendLine(b []byte, l *report.StatementLine) []byte {
	b = appendTime(append(b, `{"timestamp":`...), l.At)
	b = jsontext.Object(b).Text("kind", l.Kind)
	b = appendAmount(append(b, `,"amount":`...), l.Amount)
	b = appendAmount(append(b, `,"balance":`...), l.Balance)
	if l.Owed != 0 {
		b = appendAmount(append(b, `,"owed":`...), l.Owed)
	}
	return appendTexts(b, "requestId", l.Request, "modelId", l.Model, "apiKeyId", l.Key, "reference", l.Ref, "memo", l.Memo, "reason", l.Reason)
}

// appendTexts appends the members that are not empty, and ends the object.
func appendTexts(b []byte, pairs ...string) []byte {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			b = jsontext.Object(b).Text(pairs[i], pairs[i+1])
		}
	}
	return append(b, '}')
}

// period reads from and to, which is not included.
func period(q *routes.Query) (from, to time.Time) {
	from, begins := q.Instant("from")
	to, ends := q.Instant("to")
	if begins && ends && !to.After(from) {
		q.Wrong(routes.Issue{Code: "custom", Path: "to", Message: "to must be later than from."})
	}
	return from, to
}

func wrongCursor() routes.Issue {
	return routes.Issue{Code: "custom", Path: "cursor", Message: "cursor must be a nextCursor of this list; begin again without a cursor."}
}

// refusalsParams are those of GET /billing/refusals.
var refusalsParams = routes.Params{
	"limit":  {Kinds: routes.Number, Integer: true, Min: 1, Max: 500, Default: 100},
	"from":   statementParams["from"],
	"to":     statementParams["to"],
	"cursor": statementParams["cursor"],
}

// serveRefusals answers GET /billing/refusals: requests of the account that were refused with 402, 403
// or 429, the latest first. They are there within a second or two.
func serveRefusals(c *routes.Call) *routes.Error {
	q := c.Query()
	from, to := period(q)
	page := billing.Page{Limit: int(min(q.Integer("limit"), math.MaxInt32))}
	page.Cursor, _ = q.Text("cursor")
	if e := q.Refusal(); e != nil {
		return e
	}
	list, err := c.Accounts().Refusals(c.Key.Account, page, from, to)
	if errors.Is(err, billing.ErrQuery) {
		return routes.Invalid(wrongCursor())
	}
	if err != nil {
		return reportFailed(c, err)
	}
	b := append([]byte(nil), `{"data":[`...)
	for i := range list.Items {
		b = appendRefusal(jsontext.Comma(b), &list.Items[i])
	}
	b = append(b, `],"nextCursor":`...)
	if list.Next == "" {
		return writeReport(c, append(b, "null}"...))
	}
	return writeReport(c, append(jsontext.AppendString(b, list.Next), '}'))
}

func appendRefusal(b []byte, r *billing.Refusal) []byte {
	b = appendTime(append(b, `{"timestamp":`...), r.At)
	b = jsontext.Object(b).Text("requestId", r.ID).Int("status", int64(r.Status)).Int("alike", r.Alike)
	for _, sum := range []struct {
		name string
		n    *billing.Nano
	}{{"had", r.Had}, {"held", r.Held}, {"needed", r.Needed}, {"remaining", r.Remaining}} {
		if sum.n != nil {
			b = appendAmount(append(b, `,"`+sum.name+`":`...), *sum.n)
		}
	}
	return appendTexts(b, "apiKeyId", r.Key, "route", r.Route, "modelId", r.Model, "code", r.Code, "limit", r.Limit, "limitPeriod", r.Period)
}
