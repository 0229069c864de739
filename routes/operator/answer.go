package operator

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/routes"
)

// refusal is why a call is not carried out.
type refusal struct {
	status     int
	code, text string
	member     string // of the query that is wrong
	wait       time.Duration
	allow      string          // methods of the path
	first      json.RawMessage // the result of an earlier call with the same reference
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) write(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	e := &routes.Error{Status: r.status, Code: r.code, Message: r.text}
	if r.member != "" {
		e.Issues = []routes.Issue{{Code: "custom", Path: r.member, Message: r.text}}
	}
	body := routes.AppendError(nil, e, routes.ShapeString, nil)
	if r.first != nil {
		body = append(append(append(body[:len(body)-1], `,"first":`...), r.first...), '}')
	}
	if r.wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int((r.wait+time.Second-1)/time.Second)))
	}
	if r.status == fasthttp.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
		ctx.SetConnectionClose()
	}
	if r.allow != "" {
		h.Set("Allow", r.allow)
	}
	ctx.SetStatusCode(r.status)
	h.SetContentType("application/json; charset=utf-8")
	ctx.Response.SetBodyRaw(body)
}

// causes are the errors of operations that callers tell apart, with the status of their answers.
var causes = []struct {
	err    error
	status int
	code   string
}{
	{billing.ErrNotAllowed, 403, "FORBIDDEN"},
	{billing.ErrNoOperation, 404, "NOT_FOUND"},
	{billing.ErrNoNode, 404, "NOT_FOUND"},
	{billing.ErrNoUpstream, 404, "NOT_FOUND"},
	{billing.ErrNoMatch, 428, "PRECONDITION_REQUIRED"},
	{billing.ErrStale, 412, "PRECONDITION_FAILED"},
	{billing.ErrMostCredit, 403, "FORBIDDEN"},
	{billing.ErrNoAccount, 404, "NOT_FOUND"},
	{billing.ErrNoToken, 404, "NOT_FOUND"},
	{billing.ErrNoKey, 404, "NOT_FOUND"},
	{billing.ErrNoReview, 404, "NOT_FOUND"},
	{billing.ErrNoJob, 404, "NOT_FOUND"},
	{billing.ErrNoRequest, 404, "NOT_FOUND"},
	{billing.ErrNoPayment, 404, "NOT_FOUND"},
	{billing.ErrNotLinked, 404, "NOT_FOUND"},
	{billing.ErrRef, 409, "CONFLICT"},
	{billing.ErrOtherQuery, 409, "CONFLICT"},
	{billing.ErrAnswerLost, 409, "CONFLICT"},
	{billing.ErrNameTaken, 409, "CONFLICT"},
	{billing.ErrSuspended, 409, "CONFLICT"},
	{billing.ErrClosed, 409, "CONFLICT"},
	{billing.ErrBalance, 409, "CONFLICT"},
	{billing.ErrReviewed, 409, "CONFLICT"},
	{billing.ErrJobRuns, 409, "CONFLICT"},
	{billing.ErrJobGiven, 409, "CONFLICT"},
	{billing.ErrLinked, 409, "CONFLICT"},
	{billing.ErrFunds, 409, "CONFLICT"},
	{billing.ErrWalletKey, 409, "CONFLICT"},
	{billing.ErrDecided, 409, "CONFLICT"},
	{billing.ErrPaymentBusy, 409, "CONFLICT"},
	{billing.ErrNotShared, 409, "CONFLICT"},
	{billing.ErrVerifying, 409, "CONFLICT"},
}

// failed is the answer to an error, nil for nil. An error of no known cause is a mistake in the query,
// unless it comes from the store or the system.
func failed(err error) *refusal {
	if err == nil {
		return nil
	}
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	r = &refusal{status: 400, code: "INVALID_REQUEST", text: err.Error()}
	var wrong *invalid
	if errors.As(err, &wrong) {
		r.member = wrong.member
		return r
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			r.status, r.code = c.status, c.code
			var taken *billing.RefError
			if errors.As(err, &taken) {
				r.first, _ = json.Marshal(taken.Booking)
			}
			return r
		}
	}
	if fromBelow(err) {
		r.status, r.code = 503, "SERVICE_UNAVAILABLE"
	}
	return r
}

// fromBelow says that an error comes from a database, the system or the network.
func fromBelow(err error) bool {
	var sqlite interface{ Code() int }
	var postgres interface{ SQLState() string }
	var path *fs.PathError
	var network net.Error
	return errors.As(err, &sqlite) || errors.As(err, &postgres) || errors.As(err, &path) || errors.As(err, &network) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
