package account

import (
	"math"
	"slices"
	"strconv"
	"time"

	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// Limits of the listing (interface.md, Limits).
var usageParams = routes.Params{
	"format":    formatRule,
	"currency":  {Kinds: routes.String, Enum: money.Labels[1:]},
	"limit":     {Kinds: routes.Number, Integer: true, Min: 1, Max: 500, Default: 200},
	"page":      {Kinds: routes.Number, Integer: true, Min: 1, Max: math.Inf(1), Default: 1},
	"sortOrder": {Kinds: routes.String, Enum: []string{"asc", "desc"}, Default: "desc"},
	"startDate": {Kinds: routes.String, Format: "date or date-time"},
	"endDate":   {Kinds: routes.String, Format: "date or date-time"},
}

// formatRule is the rule of lists that also exist as CSV; without it the Accept header decides.
var formatRule = &routes.Rule{Kinds: routes.String, Enum: []string{"json", "csv"}}

// serveUsage answers GET /billing/usage (addendum 17.2).
func serveUsage(c *routes.Call) *routes.Error {
	q := c.Query()
	csv := wantsCSV(c, q)
	ask := report.ListQuery{
		Currency:  currencyOf(q),
		Limit:     q.Integer("limit"),
		Page:      q.Integer("page"),
		Ascending: q.Choice("sortOrder") == "asc",
	}
	ask.FromUs, ask.ToUs = days(q)
	if e := q.Refusal(); e != nil {
		return e
	}
	list, err := reports(c).List(ask)
	if err != nil {
		return reportFailed(c, err)
	}
	pages := (list.Total + ask.Limit - 1) / ask.Limit
	h := &c.Ctx.Response.Header
	for _, v := range []struct {
		name string
		n    int64
	}{{"limit", ask.Limit}, {"page", ask.Page}, {"total", list.Total}, {"total-pages", pages}} {
		h.Set("x-pagination-"+v.name, strconv.FormatInt(v.n, 10))
	}
	if csv {
		return writeCSV(c, "billing_usage.csv", entriesCSV(list.Entries))
	}
	b := []byte{'{'}
	if list.Behind {
		b = append(b, `"warningMessage":"The newest requests are not listed yet; ask again in a moment.",`...)
	}
	b = appendEntries(append(b, `"data":`...), list.Entries)
	b = strconv.AppendInt(append(b, `,"pagination":{"limit":`...), ask.Limit, 10)
	b = jsontext.Object(b).Int("page", ask.Page).Int("total", list.Total).Int("totalPages", pages)
	return writeList(c, append(b, "}}"...))
}

// currencyOf is the currency that a query names; 0: none.
func currencyOf(q *routes.Query) money.Currency {
	return money.Currency(slices.Index(money.Labels, q.Choice("currency")))
}

// days reads startDate and endDate. Both are included: a date as a whole day, a
// time as the millisecond that entries show.
func days(q *routes.Query) (fromUs, toUs int64) {
	start, _, from := q.Moment("startDate")
	end, day, to := q.Moment("endDate")
	if from {
		fromUs = max(0, start.UnixMicro())
	}
	if !to {
		return fromUs, 0
	}
	if from && end.Before(start) && !(day && end.Add(24*time.Hour).After(start)) {
		q.Wrong(routes.Issue{Code: "custom", Path: "endDate", Message: "endDate must not be before startDate."})
	}
	if day {
		end = end.AddDate(0, 0, 1)
	} else {
		end = end.Truncate(time.Millisecond).Add(time.Millisecond)
	}
	return fromUs, max(1, end.UnixMicro())
}

// writeCSV makes b an answer that browsers save under a name.
func writeCSV(c *routes.Call, name string, b []byte) *routes.Error {
	h := &c.Ctx.Response.Header
	h.SetContentType("text/csv")
	h.Set("Content-Disposition", "attachment; filename="+name)
	c.Ctx.Response.SetBodyRaw(b)
	c.Compress()
	h.Add("Vary", "Accept")
	return nil
}

// writeList is writeReport for lists that also exist as CSV.
func writeList(c *routes.Call, b []byte) *routes.Error {
	e := writeReport(c, b)
	c.Ctx.Response.Header.Add("Vary", "Accept")
	return e
}

// Sizes of a page of the history (addendum 17.3).
var historyParams = routes.Params{
	"format":         formatRule,
	"currency":       {Kinds: routes.String, Enum: money.Names},
	"pageSize":       {Kinds: routes.Number, Integer: true, Min: 10, Max: 1000, Default: 1000},
	"startTimestamp": {Kinds: routes.String, Format: "date-time in UTC"},
	"endTimestamp":   {Kinds: routes.String, Format: "date-time in UTC"},
	"cursor":         {Kinds: routes.String, NonEmpty: true, Length: report.MaxCursor, Format: "nextCursor"},
}

// serveHistory answers GET /billing/usage-history (addendum 17.3).
func serveHistory(c *routes.Call) *routes.Error {
	q := c.Query()
	csv := wantsCSV(c, q)
	cursor, follows := q.Text("cursor")
	ask := history(q, cursor, follows)
	if e := q.Refusal(); e != nil {
		return e
	}
	var h report.History
	var err error
	if follows {
		h, err = reports(c).HistoryAfter(cursor)
	} else {
		h, err = reports(c).History(ask)
	}
	if err != nil {
		return historyFailed(c, err)
	}
	if csv {
		if h.Next != "" {
			c.Ctx.Response.Header.Set("x-next-cursor", h.Next)
		}
		now := c.Began.UTC()
		name := "billing-usage-history-" + now.Format("20060102T150405") + now.Format(".000")[1:] + "Z.csv"
		return writeCSV(c, name, entriesCSV(h.Entries))
	}
	b := append([]byte(nil), `{"data":`...)
	b = appendEntries(b, h.Entries)
	b = append(b, `,"nextCursor":`...)
	if h.Next == "" {
		b = append(b, "null"...)
	} else {
		b = jsontext.AppendString(b, h.Next)
	}
	return writeList(c, append(b, '}'))
}

// history reads the filters of a first page. A cursor has them in it and comes
// alone.
func history(q *routes.Query, cursor string, follows bool) report.HistoryQuery {
	if follows {
		for _, name := range []string{"currency", "startTimestamp", "endTimestamp", "pageSize"} {
			if q.Has(name) {
				q.Wrong(routes.Issue{Code: "custom", Path: name,
					Message: name + " cannot come with cursor: the filters and the page size are in the cursor."})
			}
		}
		if !isCursor(cursor) {
			q.Wrong(routes.Issue{Code: "invalid_string", Path: "cursor",
				Message: "cursor must be 1 to " + strconv.Itoa(report.MaxCursor) +
					" characters of A-Z, a-z, 0-9, - and _, as nextCursor gave it."})
		}
		return report.HistoryQuery{}
	}
	ask := report.HistoryQuery{Currency: currencyOf(q), PageSize: int(q.Integer("pageSize"))}
	start, from := q.Instant("startTimestamp")
	end, to := q.Instant("endTimestamp")
	if from {
		ask.FromUs = max(0, ceilMicro(start))
	}
	if to {
		ask.ToUs = max(1, ceilMicro(end))
	}
	if from && to && !end.After(start) {
		q.Wrong(routes.Issue{Code: "custom", Path: "endTimestamp",
			Message: "endTimestamp must be later than startTimestamp."})
	}
	return ask
}

// ceilMicro is the first microsecond that is not before t.
func ceilMicro(t time.Time) int64 { return t.Add(time.Microsecond - 1).UnixMicro() }

func isCursor(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return s != "" && len(s) <= report.MaxCursor
}
