package routes

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// query reads the parameters of a request and collects everything that is
// wrong with them, so that a client hears of it at once.
type query struct {
	args   *fasthttp.Args
	issues []Issue
}

func (c *Call) query() *query { return &query{args: c.ctx.QueryArgs()} }

// refusal is the answer to what was wrong; nil when nothing was.
func (q *query) refusal() *Error {
	if len(q.issues) == 0 {
		return nil
	}
	return errInvalid(q.issues...)
}

func (q *query) wrong(i Issue) { q.issues = append(q.issues, i) }

// text gives a parameter, also in its other spelling: start_date for startDate
// (addendum D23). One that is given twice could be read either way.
func (q *query) text(name string) (value string, given bool) {
	all := q.args.PeekMulti(name)
	if other := snakeCase(name); other != name {
		all = append(all, q.args.PeekMulti(other)...)
	}
	switch len(all) {
	case 0:
		return "", false
	case 1:
		return string(all[0]), true
	}
	q.wrong(Issue{Code: "custom", Path: name, Message: name + " is given more than once; give it once."})
	return "", false
}

// has says whether a parameter is given, in either spelling.
func (q *query) has(name string) bool { return q.args.Has(name) || q.args.Has(snakeCase(name)) }

// snakeCase is a name in the other spelling: start_date of startDate.
func snakeCase(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// integer reads a whole number.
func (q *query) integer(name string, normal, least, most int64) int64 {
	text, given := q.text(name)
	if !given {
		return normal
	}
	expected := fmt.Sprintf("%s must be a whole number from %d to %d", name, least, most)
	v, err := strconv.ParseInt(text, 10, 64)
	low, high := strconv.FormatInt(least, 10), strconv.FormatInt(most, 10)
	switch digits := strings.TrimPrefix(text, "-"); {
	case !allDigits(digits):
		q.wrong(Issue{Code: "invalid_type", Path: name, Expected: "integer", Received: quoted(text), Minimum: low, Maximum: high, Message: expected + "; got " + quoted(text) + "."})
	case err != nil && text[0] != '-' || v > most:
		q.wrong(Issue{Code: "too_big", Path: name, Minimum: low, Maximum: high, Message: expected + "; " + excerpt(stringBytes(text)) + " is too much."})
	case err != nil || v < least:
		q.wrong(Issue{Code: "too_small", Path: name, Minimum: low, Maximum: high, Message: expected + "; " + excerpt(stringBytes(text)) + " is too little."})
	default:
		return v
	}
	return normal
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// choice reads one of a list of words in any case and gives it as listed.
func (q *query) choice(name, normal string, options ...string) string {
	text, given := q.text(name)
	if !given {
		return normal
	}
	for _, o := range options {
		if strings.EqualFold(text, o) {
			return o
		}
	}
	q.wrong(Issue{
		Code: "invalid_enum_value", Path: name, Received: excerpt(stringBytes(text)), Options: options,
		Message: name + " must be one of " + strings.Join(options, ", ") + "; got " + quoted(text) + ".",
	})
	return normal
}

func quoted(s string) string { return strconv.Quote(excerpt(stringBytes(s))) }

// maxTime is the most characters that a time may have (addendum 17.3).
const maxTime = 40

// Forms of ISO 8601 that are read; those without a zone are UTC.
var timeForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04"}

// moment reads an ISO 8601 date or time; day says that it was a date.
func (q *query) moment(name string) (t time.Time, day, given bool) {
	text, given := q.text(name)
	if !given {
		return t, false, false
	}
	if len(text) <= maxTime {
		if t, err := time.Parse(time.DateOnly, text); err == nil {
			return t, true, true
		}
		// The plus of a zone arrives as a space when it was not escaped.
		zoned := strings.Replace(text, " ", "+", 1)
		for _, form := range timeForms {
			if t, err := time.Parse(form, zoned); err == nil {
				return t.UTC(), false, true
			}
		}
	}
	q.wrong(Issue{
		Code: "invalid_string", Path: name, Expected: "date or date-time", Received: excerpt(stringBytes(text)),
		Message: fmt.Sprintf("%s must be an ISO 8601 date or time of at most %d characters such as 2026-11-21 or 2026-11-21T12:00:00Z; got %s.", name, maxTime, quoted(text)),
	})
	return t, false, false
}

// instant reads an ISO 8601 time in UTC, with its Z.
func (q *query) instant(name string) (t time.Time, given bool) {
	text, given := q.text(name)
	if !given {
		return t, false
	}
	if len(text) <= maxTime && strings.HasSuffix(text, "Z") {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return t, true
		}
	}
	q.wrong(Issue{
		Code: "invalid_string", Path: name, Expected: "date-time in UTC", Received: excerpt(stringBytes(text)),
		Message: fmt.Sprintf("%s must be an ISO 8601 time in UTC of at most %d characters such as 2026-11-21T12:00:00.000Z; got %s.", name, maxTime, quoted(text)),
	})
	return t, false
}

// date reads a UTC day as YYYY-MM-DD.
func (q *query) date(name string) (t time.Time, given bool) {
	text, given := q.text(name)
	if !given {
		return t, false
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		q.wrong(Issue{
			Code: "invalid_string", Path: name, Expected: "date", Received: excerpt(stringBytes(text)),
			Message: name + " must be a day of the form YYYY-MM-DD such as 2026-11-21; got " + quoted(text) + ".",
		})
		return t, false
	}
	return t, true
}
