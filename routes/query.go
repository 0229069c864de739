package routes

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"
)

// Query reads the parameters of a request and collects everything that is
// wrong with them, so that a client hears of it at once.
type Query struct {
	args   *fasthttp.Args
	params Params
	Issues []Issue
}

// NewQuery reads parameters by their rules.
func NewQuery(args *fasthttp.Args, params Params) *Query { return &Query{args: args, params: params} }

// Query reads the parameters of the request.
func (c *Call) Query() *Query { return NewQuery(c.Ctx.QueryArgs(), c.Row.Params) }

// Refusal is the answer to all issues of the query; nil without any.
func (q *Query) Refusal() *Error {
	if len(q.Issues) == 0 {
		return nil
	}
	return Invalid(q.Issues...)
}

// Wrong adds an issue of the parameters.
func (q *Query) Wrong(i Issue) { q.Issues = append(q.Issues, i) }

// Text gives a parameter, also in its other spelling: start_date for startDate
// (addendum D23). One that is given twice could be read either way.
func (q *Query) Text(name string) (value string, given bool) {
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
	q.Wrong(Issue{Code: "custom", Path: name, Message: name + " is given more than once; give it once."})
	return "", false
}

// List reads the values of a list, which may be given several times, in either
// spelling, and each time as several with commas between them. Empty ones are left out.
func (q *Query) List(name string) (list []string) {
	all := q.args.PeekMulti(name)
	if other := snakeCase(name); other != name {
		all = append(all, q.args.PeekMulti(other)...)
	}
	r := q.params[name]
	for _, some := range all {
		for one := range strings.SplitSeq(string(some), ",") {
			if one = strings.TrimSpace(one); one == "" {
				continue
			}
			if len(list) == r.Items {
				q.Wrong(Issue{Code: "too_big", Path: name, Maximum: strconv.Itoa(r.Items),
					Message: name + " must have at most " + strconv.Itoa(r.Items) + " values."})
				return nil
			}
			list = append(list, q.within(name, one))
		}
	}
	return list
}

// Short reads a text of at most as many characters as its rule says.
func (q *Query) Short(name string) string {
	text, _ := q.Text(name)
	return q.within(name, text)
}

func (q *Query) within(name, text string) string {
	most := q.params[name].Characters
	if n := utf8.RuneCountInString(text); n > most {
		q.Wrong(Issue{Code: "too_big", Path: name, Maximum: strconv.Itoa(most),
			Message: name + " must have at most " + strconv.Itoa(most) + " characters; got " + strconv.Itoa(n) + "."})
		return ""
	}
	return text
}

// Switch reads true or false; given is false without it.
func (q *Query) Switch(name string) (on, given bool) {
	choice := q.Choice(name)
	return choice == "true", choice != ""
}

// Has says whether a parameter is given, in either spelling.
func (q *Query) Has(name string) bool { return q.args.Has(name) || q.args.Has(snakeCase(name)) }

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

// Integer reads a whole number.
func (q *Query) Integer(name string) int64 {
	r := q.params[name]
	normal, least, most := int64(r.Default.(int)), int64(r.Min), int64(math.MaxInt64)
	if !math.IsInf(r.Max, 1) {
		most = int64(r.Max)
	}
	text, given := q.Text(name)
	if !given {
		return normal
	}
	expected := fmt.Sprintf("%s must be a whole number from %d to %d", name, least, most)
	v, err := strconv.ParseInt(text, 10, 64)
	low, high := strconv.FormatInt(least, 10), strconv.FormatInt(most, 10)
	switch digits := strings.TrimPrefix(text, "-"); {
	case !AllDigits(digits):
		q.Wrong(Issue{Code: "invalid_type", Path: name, Expected: "integer", Received: Quoted(text), Minimum: low,
			Maximum: high, Message: expected + "; got " + Quoted(text) + "."})
	case err != nil && text[0] != '-' || v > most:
		q.Wrong(Issue{Code: "too_big", Path: name, Minimum: low, Maximum: high,
			Message: expected + "; " + Excerpt(ViewBytes(text)) + " is too much."})
	case err != nil || v < least:
		q.Wrong(Issue{Code: "too_small", Path: name, Minimum: low, Maximum: high,
			Message: expected + "; " + Excerpt(ViewBytes(text)) + " is too little."})
	default:
		return v
	}
	return normal
}

// AllDigits says that a text is a number without sign.
func AllDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// Choice reads one of a list of words in any case and gives it as listed.
func (q *Query) Choice(name string) string {
	normal, _ := q.params[name].Default.(string)
	options := q.params[name].Enum
	text, given := q.Text(name)
	if !given {
		return normal
	}
	for _, o := range options {
		if strings.EqualFold(text, o) {
			return o
		}
	}
	q.Wrong(Issue{
		Code: "invalid_enum_value", Path: name, Received: Excerpt(ViewBytes(text)), Options: options,
		Message: name + " must be one of " + strings.Join(options, ", ") + "; got " + Quoted(text) + ".",
	})
	return normal
}

// Quoted is an excerpt of s in quotation marks.
func Quoted(s string) string { return strconv.Quote(Excerpt(ViewBytes(s))) }

// maxTime is the most characters that a time may have (addendum 17.3).
const maxTime = 40

// Forms of ISO 8601 that are read; those without a zone are UTC.
var timeForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00",
	"2006-01-02T15:04"}

// Moment reads an ISO 8601 date or time; day says that it was a date.
func (q *Query) Moment(name string) (t time.Time, day, given bool) {
	text, given := q.Text(name)
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
	q.Wrong(Issue{
		Code: "invalid_string", Path: name, Expected: "date or date-time", Received: Excerpt(ViewBytes(text)),
		Message: fmt.Sprintf("%s must be an ISO 8601 date or time of at most %d characters such as 2026-11-21 or "+
			"2026-11-21T12:00:00Z; got %s.", name, maxTime, Quoted(text)),
	})
	return t, false, false
}

// Instant reads an ISO 8601 time in UTC, with its Z.
func (q *Query) Instant(name string) (t time.Time, given bool) {
	text, given := q.Text(name)
	if !given {
		return t, false
	}
	if len(text) <= maxTime && strings.HasSuffix(text, "Z") {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return t, true
		}
	}
	q.Wrong(Issue{
		Code: "invalid_string", Path: name, Expected: "date-time in UTC", Received: Excerpt(ViewBytes(text)),
		Message: fmt.Sprintf("%s must be an ISO 8601 time in UTC of at most %d characters such as "+
			"2026-11-21T12:00:00.000Z; got %s.", name, maxTime, Quoted(text)),
	})
	return t, false
}

// Date reads a UTC day as YYYY-MM-DD.
func (q *Query) Date(name string) (t time.Time, given bool) {
	text, given := q.Text(name)
	if !given {
		return t, false
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		q.Wrong(Issue{
			Code: "invalid_string", Path: name, Expected: "date", Received: Excerpt(ViewBytes(text)),
			Message: name + " must be a day of the form YYYY-MM-DD such as 2026-11-21; got " + Quoted(text) + ".",
		})
		return t, false
	}
	return t, true
}
