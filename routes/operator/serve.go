package operator

import (
	"context"
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"farebox/billing"
)

// row is an operation: of the ledger, or of this process.
type row struct {
	billing.OperationInfo
	parts   []string     // of the path
	members []member     // of the query
	lists   reflect.Type // of the items; nil: the answer is not a list
	pages   shape
	// serve carries it out.
	serve func(ctx context.Context, act billing.Act, query []byte) (any, error)
	// here, if not nil, carries it out on this node alone.
	here func(ctx context.Context, act billing.Act, query []byte) (any, error)
	// raw, if not nil, writes the answer itself.
	raw func(ctx *fasthttp.RequestCtx, by billing.Actor, query []byte) *refusal
}

// table is every operation.
func (a *API) table() (rows []*row) {
	for _, o := range billing.Operations() {
		rows = append(rows, newRow(o, func(ctx context.Context, act billing.Act, query []byte) (any, error) {
			return a.ledger.Perform(ctx, act, o.Name, query)
		}))
	}
	return append(rows, a.processOperations()...)
}

func newRow(o billing.OperationInfo, serve func(context.Context, billing.Act, []byte) (any, error)) *row {
	r := &row{OperationInfo: o, parts: strings.Split(o.Path, "/")[1:], members: membersOf(o.Query), serve: serve}
	r.lists, r.pages = itemOf(o.Answer)
	return r
}

// shape has the names of a list's parts: its items, the next page in the answer, and in the
// query.
type shape struct{ items, next, cursor string }

var shapes = []shape{{"data", "next_cursor", "cursor"}, {"lines", "next", "after"}}

// itemOf is the type of the items of a list.
func itemOf(t reflect.Type) (reflect.Type, shape) {
	if t.Kind() == reflect.Slice {
		return t.Elem(), shapes[0]
	}
	for _, m := range membersOf(t) {
		for _, s := range shapes {
			if m.name == s.items && m.typ.Kind() == reflect.Slice {
				return m.typ.Elem(), s
			}
		}
	}
	return nil, shape{}
}

// handle answers a request.
func (a *API) handle(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	began := time.Now()
	by, r, refusal := a.answer(ctx)
	if refusal != nil {
		refusal.write(ctx)
	}
	if r == nil {
		return
	}
	e := a.log.Debug()
	if r.Change || r.Right == billing.MayOwn || ctx.Response.StatusCode() >= 500 {
		e = a.log.Info()
	}
	e.Str("operation", r.Name).Str("operator", by.Name).Str("from", by.From).Int("status", ctx.Response.StatusCode()).
		Dur("ms", time.Since(began)).Msg("an operator's call")
}

// answer finds the operator and the operation, and carries it out.
func (a *API) answer(ctx *fasthttp.RequestCtx) (by billing.Actor, r *row, rejection *refusal) {
	cfg := &a.gateway.Config().Operator
	if rejection = a.host(ctx, cfg); rejection != nil {
		return by, nil, rejection
	}
	if by, rejection = a.actor(ctx, cfg); rejection != nil {
		return by, nil, rejection
	}
	q := query{}
	if r, rejection = a.find(ctx, q); rejection != nil {
		return by, nil, rejection
	}
	if by.Role < r.Right {
		return by, r, &refusal{status: 403, code: "FORBIDDEN", text: "Your role " + by.Role.String() + " may not do this; " +
			r.Name + " needs the role " + r.Right.String()}
	}
	if r.Method != fasthttp.MethodGet {
		if rejection = a.change(ctx, cfg); rejection != nil {
			return by, r, rejection
		}
	}
	act, format, rejection := r.read(ctx, q)
	if rejection != nil {
		return by, r, rejection
	}
	act.By = by
	if format != inJSON {
		return by, r, a.writeTable(ctx, r, act, q, format)
	}
	body, err := json.Marshal(q)
	if err != nil {
		return by, r, failed(err)
	}
	if r.raw != nil {
		return by, r, r.raw(ctx, by, body)
	}
	answer, err := r.serve(a.ended, act, body)
	if err != nil {
		return by, r, failed(err)
	}
	return by, r, write(ctx, answer)
}

// find finds the row of a path, and adds the parameters of the path to the query.
func (a *API) find(ctx *fasthttp.RequestCtx, q query) (*row, *refusal) {
	path, ok := strings.CutPrefix(string(ctx.URI().PathOriginal()), Prefix+"/")
	parts := strings.Split(path, "/")
	var allow []string
	for _, r := range a.rows {
		if !ok || !r.matches(parts) {
			continue
		}
		if r.Method != string(ctx.Method()) {
			allow = append(allow, r.Method)
			continue
		}
		for i, part := range r.parts {
			name, isParam := strings.CutPrefix(part, "{")
			if !isParam {
				continue
			}
			value, err := url.PathUnescape(parts[i])
			if err == nil {
				err = q.add(r.members, name[:len(name)-1], value)
			}
			if err != nil {
				return nil, failed(err)
			}
		}
		return r, nil
	}
	if allow != nil {
		return nil, &refusal{status: 405, code: "METHOD_NOT_ALLOWED", text: "This path takes " + strings.Join(allow, ", "),
			allow: strings.Join(allow, ", ")}
	}
	return nil, &refusal{status: 404, code: "NOT_FOUND", text: "There is nothing here; " + Prefix + "/openapi.json lists every operation"}
}

// matches compares a path; fixed parts go before parameters by the order of the table.
func (r *row) matches(parts []string) bool {
	return len(parts) == len(r.parts) && !slices.ContainsFunc(indexes(parts), func(i int) bool {
		return parts[i] == "" || r.parts[i] != parts[i] && r.parts[i][0] != '{'
	})
}

func indexes(list []string) []int {
	of := make([]int, len(list))
	for i := range of {
		of[i] = i
	}
	return of
}

// Formats of lists.
const (
	inJSON = "json"
	inCSV  = "csv"
	inHTML = "html" // a page to print
)

var formats = []string{inJSON, inCSV, inHTML}

// read adds the query string and the body to the query, and takes out the call's own members.
func (r *row) read(ctx *fasthttp.RequestCtx, q query) (act billing.Act, format string, rejection *refusal) {
	h := &ctx.Request.Header
	act.Key, act.Match, act.Reason = string(h.Peek("Idempotency-Key")), string(h.Peek("If-Match")), string(h.Peek(headerReason))
	known := r.members
	if r.lists != nil {
		known = append(slices.Clone(known), member{name: "format", typ: reflect.TypeFor[string]()})
	}
	if err := q.addString(known, string(ctx.URI().QueryString())); err != nil {
		return act, format, failed(err)
	}
	format = inJSON
	if text, ok := q["format"]; ok && r.lists != nil {
		delete(q, "format")
		if format = strings.Trim(string(text), `"`); !slices.Contains(formats, format) {
			return act, format, failed(&invalid{"format", "expected " + strings.Join(formats, ", ")})
		}
	}
	body := ctx.PostBody()
	if r.Method == fasthttp.MethodGet && len(body) > 0 {
		return act, format, failed(&invalid{"body", "is not taken here; expected the query string"})
	}
	if len(body) > 0 {
		if kind, _, _ := strings.Cut(string(h.ContentType()), ";"); !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
			return act, format, &refusal{status: 415, code: "INVALID_CONTENT_TYPE", text: "Expected Content-Type: application/json"}
		}
		if err := q.addBody(body); err != nil {
			return act, format, failed(err)
		}
	}
	if reason, ok := q["reason"]; ok && !slices.ContainsFunc(r.members, func(m member) bool { return m.name == "reason" }) {
		delete(q, "reason")
		if act.Reason != "" || json.Unmarshal(reason, &act.Reason) != nil {
			return act, format, failed(&invalid{"reason", "expected one text, here or in " + headerReason})
		}
	}
	for name := range q {
		if !slices.ContainsFunc(r.members, func(m member) bool { return m.name == name }) {
			return act, format, failed(&invalid{name, "is not known here; expected one of " + names(r.members)})
		}
	}
	return act, format, nil
}

// write makes an answer the response.
func write(ctx *fasthttp.RequestCtx, answer any) *refusal {
	body, err := listJSON(answer)
	if err != nil {
		return failed(err)
	}
	if version := gjson.GetBytes(body, "version"); version.Type == gjson.Number {
		ctx.Response.Header.Set("ETag", `"`+version.Raw+`"`)
	}
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.Response.SetBodyRaw(body)
	return nil
}

// listJSON is an answer in JSON. Every list has the shape of a page.
func listJSON(answer any) ([]byte, error) {
	body, err := json.Marshal(answer)
	if reflect.ValueOf(answer).Kind() != reflect.Slice || err != nil {
		return body, err
	}
	if string(body) == "null" {
		body = []byte("[]")
	}
	return append(append([]byte(`{"data":`), body...), `,"next_cursor":""}`...), nil
}

// csvPage is how many rows of an export are read at once.
const csvPage = 500

// writeTable writes all pages of a list as CSV or HTML. Mistakes of the query are found with the first page.
func (a *API) writeTable(ctx *fasthttp.RequestCtx, r *row, act billing.Act, q query, format string) *refusal {
	has := func(name string) bool {
		return slices.ContainsFunc(r.members, func(m member) bool { return m.name == name })
	}
	t := &table{ctx: a.ended, pages: r.pages, columns: columnsOf(r.lists, "", 3), page: func(c context.Context, cursor string) ([]byte, error) {
		if _, ok := q["limit"]; !ok && has("limit") {
			q["limit"], _ = json.Marshal(csvPage)
		}
		if cursor != "" && has(r.pages.cursor) {
			q[r.pages.cursor] = json.RawMessage(cursor)
		}
		body, err := json.Marshal(q)
		if err != nil {
			return nil, err
		}
		answer, err := r.serve(c, act, body)
		if err != nil {
			return nil, err
		}
		return listJSON(answer)
	}}
	h := &ctx.Response.Header
	if format == inCSV {
		t.out = csvWriter{&t.rows}
		h.SetContentType("text/csv; charset=utf-8; header=present")
		h.Set("Content-Disposition", `attachment; filename="`+r.Name+`.csv"`)
	} else {
		t.out = &htmlWriter{rows: &t.rows, title: summary(r.Name), asked: q.texts(), pages: r.pages}
		h.SetContentType("text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	}
	if err := t.fill(); err != nil {
		h.Del("Content-Disposition")
		return failed(err)
	}
	ctx.Response.SetBodyStream(t, -1)
	return nil
}
