package account

import (
	"strconv"
	"strings"
	"time"

	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// analyticsDays is the range when none is asked for (interface.md, Limits).
const analyticsDays = 7

var analyticsParams = routes.Params{
	"lookback":  {Kinds: routes.String, Format: "1d to 90d", Default: strconv.Itoa(analyticsDays) + "d"},
	"startDate": {Kinds: routes.String, Format: "date"},
	"endDate":   {Kinds: routes.String, Format: "date"},
}

// serveAnalytics answers GET /billing/usage-analytics (addendum 17.4).
func serveAnalytics(c *routes.Call) *routes.Error {
	q := c.Query()
	r := rangeOf(q, c.Accounts().Today())
	if e := q.Refusal(); e != nil {
		return e
	}
	sum, err := reports(c).Analytics(r.first, r.last)
	if err != nil {
		return reportFailed(c, err)
	}
	return writeReport(c, appendAnalytics(nil, r.label, sum))
}

// analyticsRange is a range of UTC days and how the answer names it.
type analyticsRange struct {
	first, last int32
	label       string
}

func rangeOf(q *routes.Query, today int32) analyticsRange {
	lookback, back := q.Text("lookback")
	start, from := q.Date("startDate")
	end, to := q.Date("endDate")
	from, to = from || q.Has("startDate"), to || q.Has("endDate")
	switch {
	case back && (from || to):
		q.Wrong(routes.Issue{Code: "custom", Path: "lookback",
			Message: "lookback cannot be combined with startDate and endDate; give either."})
	case from != to:
		given, missing := "startDate", "endDate"
		if to {
			given, missing = missing, given
		}
		q.Wrong(routes.Issue{Code: "custom", Path: missing, Message: given + " needs " + missing +
			": give both or neither."})
	case from:
		return dates(q, start, end)
	}
	days := int64(analyticsDays)
	if back {
		days = lookbackDays(q, lookback)
	}
	return analyticsRange{today - int32(days) + 1, today, strconv.FormatInt(days, 10) + "d"}
}

// lookbackDays reads a number of days, today included: 1d to 90d.
func lookbackDays(q *routes.Query, text string) int64 {
	digits, unit := strings.CutSuffix(text, "d")
	n, err := strconv.ParseInt(digits, 10, 64)
	const expected = "lookback must be a number of days from 1d to 90d, such as 7d; got "
	switch {
	case !unit || !routes.AllDigits(digits):
		q.Wrong(routes.Issue{Code: "invalid_string", Path: "lookback", Expected: "1d to 90d",
			Received: routes.Excerpt(routes.ViewBytes(text)), Message: expected + routes.Quoted(text) + "."})
	case err != nil || n > report.MostDays:
		q.Wrong(routes.Issue{Code: "too_big", Path: "lookback", Minimum: "1", Maximum: strconv.Itoa(report.MostDays),
			Message: expected + routes.Quoted(text) + "."})
	case n < 1:
		q.Wrong(routes.Issue{Code: "too_small", Path: "lookback", Minimum: "1", Maximum: strconv.Itoa(report.MostDays),
			Message: expected + routes.Quoted(text) + "."})
	default:
		return n
	}
	return analyticsDays
}

// dates takes startDate and endDate, both included.
func dates(q *routes.Query, start, end time.Time) analyticsRange {
	days := end.Sub(start)/(24*time.Hour) + 1
	switch {
	case len(q.Issues) > 0:
	case days < 1:
		q.Wrong(routes.Issue{Code: "custom", Path: "endDate", Message: "endDate must not be before startDate."})
	case days > report.MostDays:
		q.Wrong(routes.Issue{Code: "too_big", Path: "endDate", Maximum: strconv.Itoa(report.MostDays),
			Message: "startDate to endDate may be at most 90 days, both included; these are " +
				strconv.FormatInt(int64(days), 10) + "."})
	}
	return analyticsRange{
		int32(start.Unix() / 86400), int32(end.Unix() / 86400),
		start.Format(time.DateOnly) + ":" + end.Format(time.DateOnly),
	}
}

// analyticsTypes are the modelTypes by the type of the sold model; all other have null.
var analyticsTypes = map[string]string{"llm": `"LLM"`, "image": `"IMAGE"`, "tts": `"TTS"`, "asr": `"ASR"`,
	"video": `"VIDEO"`}

// breakdownTypes name the kinds of tokens.
var breakdownTypes = []struct {
	name  string
	kinds []money.Kind
}{
	{"Input", []money.Kind{money.InputTokens, money.EmbeddingTokens}},
	{"Output", []money.Kind{money.OutputTokens}},
	{"Cache Read", []money.Kind{money.CacheReadTokens, money.EmbeddingCacheTokens}},
	{"Cache Write", []money.Kind{money.CacheWriteTokens, money.CacheWrite1hTokens, money.EmbeddingStoredTokens}},
}

func appendAnalytics(b []byte, label string, s *report.Analytics) []byte {
	b = jsontext.Object(append(b, '{')).Text("lookback", label)
	b = append(b, `,"byDate":[`...)
	for i, day := range s.Days {
		b = jsontext.Comma(b)
		b = append(b, `{"date":"`...)
		b = s.Date(i).AppendFormat(b, time.DateOnly)
		b = appendAmount(append(b, `","USD":`...), day.USD)
		b = append(b, `,"DIEM":`...)
		b = append(appendAmount(b, day.DIEM), '}')
	}
	b = append(b, `],"byModel":[`...)
	for i := range s.Models {
		b = jsontext.Comma(b)
		b = appendModelUsage(b, &s.Models[i])
	}
	b = append(b, ']')
	models := modelSeries(s)
	b = models.append(b, s, "byModelDaily", "topModels", "byModelDailyUsd")
	b = append(b, `,"byKey":[`...)
	for i := range s.Keys {
		b = jsontext.Comma(b)
		b = appendKeyUsage(b, &s.Keys[i])
	}
	b = append(b, ']')
	keys := keySeries(s)
	b = keys.append(b, s, "byKeyDaily", "topKeyNames", "byKeyDailyUsd")
	return append(b, '}')
}

func appendModelUsage(b []byte, m *report.ModelSpend) []byte {
	b = jsontext.Object(append(b, '{')).Text("modelName", m.Name)
	b = append(b, `,"unitType":"`+m.Unit+`","modelType":`...)
	if t := analyticsTypes[m.What]; t != "" {
		b = append(b, t...)
	} else {
		b = append(b, "null"...)
	}
	b = appendTotals(b, m.Spend)
	if m.Unit != "tokens" {
		return append(b, '}')
	}
	b = append(b, `,"breakdown":[`...)
	n := 0
	for _, t := range breakdownTypes {
		l := m.Sum(t.kinds)
		if l == (report.Spend{}) {
			continue
		}
		b = jsontext.Comma(b)
		n++
		b = jsontext.Object(append(b, '{')).Text("type", t.name)
		b = appendAmount(append(b, `,"usd":`...), l.USD)
		b = appendAmount(append(b, `,"diem":`...), l.DIEM)
		b = append(b, `,"units":`...)
		b = append(strconv.AppendInt(b, l.Units, 10), '}')
	}
	return append(b, "]}"...)
}

func appendTotals(b []byte, s report.Spend) []byte {
	b = appendAmount(append(b, `,"totalUsd":`...), s.USD)
	b = appendAmount(append(b, `,"totalDiem":`...), s.DIEM)
	return strconv.AppendInt(append(b, `,"totalUnits":`...), s.Units, 10)
}

// keyName is how a key is called; usage without a known key is the web app's.
func keyName(k *report.KeySpend) string {
	switch {
	case k.ID == "":
		return "Web App"
	case k.Description != "":
		return k.Description
	}
	return "Key …" + k.Last6
}

func appendKeyUsage(b []byte, k *report.KeySpend) []byte {
	b = append(b, `{"apiKeyId":`...)
	if k.ID == "" {
		b = append(b, "null"...)
	} else {
		b = jsontext.AppendString(b, k.ID)
	}
	b = append(b, `,"description":`...)
	if k.ID == "" {
		b = jsontext.AppendString(b, keyName(k))
	} else {
		b = jsontext.AppendString(b, k.Description)
	}
	return append(appendTotals(b, k.Spend), '}')
}

// series are the daily figures of the dearest models or keys under names that
// are members of one JSON object, and so differ from each other and from date.
type series struct {
	names []string
	daily [][]report.Spend
}

func (s *series) add(name, id string, daily []report.Spend) {
	taken := map[string]bool{"date": true}
	for _, n := range s.names {
		taken[n] = true
	}
	n := 1
	if taken[name] && id != "" {
		name, n = name+" ("+id+")", 2
	}
	for base := name; taken[name]; n++ {
		name = base + " " + strconv.Itoa(n)
	}
	s.names, s.daily = append(s.names, name), append(s.daily, daily)
}

func modelSeries(s *report.Analytics) *series {
	top := &series{}
	for i := range min(len(s.Models), report.TopSeries) {
		top.add(s.Models[i].Name, s.Models[i].Unit, s.Models[i].Daily)
	}
	return top
}

func keySeries(s *report.Analytics) *series {
	top := &series{}
	for i := range min(len(s.Keys), report.TopSeries) {
		top.add(keyName(&s.Keys[i]), s.Keys[i].Last6, s.Keys[i].Daily)
	}
	return top
}

// append writes the units of each day, the names, and the USD of each day.
func (s *series) append(b []byte, a *report.Analytics, units, names, usd string) []byte {
	b = s.appendDays(b, a, units, func(b []byte, n report.Spend) []byte { return strconv.AppendInt(b, n.Units, 10) })
	b = append(b, `,"`+names+`":[`...)
	for _, name := range s.names {
		b = jsontext.Comma(b)
		b = jsontext.AppendString(b, name)
	}
	b = append(b, ']')
	return s.appendDays(b, a, usd, func(b []byte, n report.Spend) []byte { return appendAmount(b, n.USD) })
}

func (s *series) appendDays(b []byte, a *report.Analytics, member string,
	value func([]byte, report.Spend) []byte) []byte {
	b = append(b, `,"`+member+`":[`...)
	for day := range a.Days {
		b = jsontext.Comma(b)
		b = jsontext.Object(append(b, '{')).Int("date", a.Date(day).UnixMilli())
		for i, name := range s.names {
			b = jsontext.AppendString(append(b, ','), name)
			b = append(b, ':')
			b = value(b, s.daily[i][day])
		}
		b = append(b, '}')
	}
	return append(b, ']')
}
