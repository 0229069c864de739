package augment

import (
	"strconv"
	"time"
	"unicode/utf8"

	"farebox/providers/search"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

// Ids of the members of a body.
const (
	searchQuery = iota
	searchLimit
	searchProvider
)

const (
	// maxQuery is how many characters can be searched for (interface.md).
	maxQuery = 400
	// usualLimit is how many results there are without limit.
	usualLimit = 10
	// usualProvider is the provider without search_provider.
	usualProvider = "brave"
)

// searchBook describes a body (addendum 12.2).
var searchBook = routes.NewRulebook(
	scan.NewShape(scan.Member{Name: "query"}, scan.Member{Name: "limit"}, scan.Member{Name: "search_provider"}),
	map[string]*routes.Rule{
		"query": {Kinds: routes.String, Required: true, NonEmpty: true, Characters: maxQuery},
		"limit": {Kinds: routes.Number, Integer: true, Min: 1, Max: search.MaxLimit, Default: usualLimit},
		"search_provider": {Kinds: routes.String, Enum: []string{usualProvider, "google"},
			Default: usualProvider},
	})

// search answers POST /augment/search (interface.md, Augment).
func (ca *Capability) search(rc *routes.Call) *routes.Error {
	c := ca.begin(rc, searches)
	v, e := rc.ReadBody()
	if e != nil {
		return e
	}
	q := search.Query{Text: v.Words(-1, searchQuery), Limit: usualLimit, Provider: usualProvider,
		Account: rc.Key.Account.Number(), ID: rc.ID[:]}
	if n := utf8.RuneCountInString(q.Text); n > maxQuery {
		return routes.Invalid(routes.Issue{Code: "too_big", Path: "query", Maximum: strconv.Itoa(maxQuery),
			Message: "query: must have at most " + strconv.Itoa(maxQuery) + " characters, has " + strconv.Itoa(n) + "."})
	}
	if v.Member(-1, searchLimit) != nil {
		q.Limit = int(v.Integer(searchLimit))
	}
	if name := v.Words(-1, searchProvider); name != "" {
		q.Provider = name
	}
	service := c.view.tools.Search
	if !service.Offers(q.Provider) {
		return routes.Unsupported("search_provider", "Nobody answers searches of "+q.Provider+" here.")
	}
	q.Stay = func() (time.Duration, bool) { return 0, rc.Keeps() && rc.MayFinish() }
	return c.sell(rc.Config().Augment.Search.Timeout, func() *routes.Error {
		found := service.Find(rc.Proxy(), rc.Ctx, &q)
		rc.Attempts, rc.Tried = found.Attempts, found.Tried
		c.begun.Store(found.Sent)
		if found.Upstream != nil {
			rc.Upstream = found.Upstream.Name
		}
		if !found.OK() {
			if found.Cause != proxy.None {
				rc.Cause = found.Cause.String()
			}
			return c.notFound(service, &q, found)
		}
		c.sale.Answer.Body = appendResults(jsontext.AppendString([]byte(`{"query":`), q.Text), found.Results)
		return nil
	})
}

// appendResults ends the body of an answer.
func appendResults(b []byte, results []search.Result) []byte {
	b = append(b, `,"results":[`...)
	for i := range results {
		r := &results[i]
		b = jsontext.Object(append(jsontext.Comma(b), '{')).Text("title", r.Title).Text("url", r.URL).
			Text("content", r.Content).Text("date", r.Date).End()
	}
	return append(b, "]}"...)
}

// notFound is the answer when no provider has answered. Texts of providers stay with the
// operator: they may repeat the query. It costs nothing.
func (c *call) notFound(s *search.Service, q *search.Query, f *search.Found) *routes.Error {
	const free = " Nothing was charged; please retry."
	rest := max(s.RestsFor(q.Provider), f.RetryAfter, routes.RetrySoon)
	switch {
	case f.Cause.Final():
		return c.gone(f.Cause)
	case f.Cause == proxy.FirstByteTimeout || f.Cause == proxy.IdleTimeout || f.Cause == proxy.TotalTimeout:
		return &routes.Error{Status: 504, Code: "REQUEST_TIMEOUT", Message: "The search took too long." + free}
	case f.Cause == proxy.None && f.Status == 429:
		return &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: rest,
			Message: "The search provider accepts no more searches at the moment." + free}
	case f.Cause == proxy.None && (f.Status == 400 || f.Status == 422):
		return &routes.Error{Status: 400, Message: "The search provider does not take this query. Nothing was charged."}
	}
	return &routes.Error{Status: 503, RetryAfter: rest, Message: "The search provider cannot be reached." + free}
}
