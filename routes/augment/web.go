package augment

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"farebox/billing"
	"farebox/providers/parse"
	"farebox/providers/scrape"
	"farebox/providers/search"
	"farebox/proxy"
	"farebox/routes"
)

// Other capabilities use the same services without a sale.
var _ routes.Web = (*Capability)(nil)

// Offer is routes.Web.
func (c *Capability) Offer(rc *routes.Call) routes.WebOffer {
	v := rc.Own(c).(*view)
	return routes.WebOffer{
		Searches: v.tools.Search != nil, Pages: v.tools.Pages != nil, Documents: v.tools.Documents != nil,
		Search: v.price[searches], Page: v.price[pages],
	}
}

// overrun counts n of a product in its limits. It is false where they have room.
func overrun(rc *routes.Call, product int, n int, a *routes.WebAnswer) bool {
	d := rc.Count(products[product].class, int64(n))
	if d.Code == billing.Admitted {
		return false
	}
	a.Failed, a.RetryAfter = true, d.RetryAfter
	a.Overrun = func() *routes.Error { return rc.Overrun(products[product].class, &d, products[product].text) }
	return true
}

// Search is routes.Web: it asks the usual provider, or the other one where there
// is none.
func (c *Capability) Search(rc *routes.Call, query string, most int) (a routes.WebAnswer) {
	service := rc.Own(c).(*view).tools.Search
	q := search.Query{Text: query, Limit: most, Provider: usualProvider, Account: rc.Key.Account.Number(), ID: rc.ID[:],
		Stay: func() (time.Duration, bool) { return 0, rc.Keeps() && rc.MayFinish() }}
	if !service.Offers(q.Provider) {
		q.Provider = "google"
	}
	if overrun(rc, searches, 1, &a) {
		return a
	}
	found := service.Find(rc.Proxy(), rc.Ctx, &q)
	rc.Tried = append(rc.Tried, found.Tried...)
	switch {
	case found.Cause.Final():
		a.Cause = found.Cause
		if found.Sent {
			a.Units = 1
		}
	case !found.OK():
		a.Failed, a.RetryAfter = true, max(service.RestsFor(q.Provider), found.RetryAfter, routes.RetrySoon)
	default:
		a.Units = 1
		for _, r := range found.Results {
			a.Found = append(a.Found, routes.WebText{Title: r.Title, URL: r.URL, Text: r.Content, Date: r.Date})
		}
	}
	return a
}

// Pages is routes.Web.
func (c *Capability) Pages(rc *routes.Call, links []string) (a routes.WebAnswer) {
	tools := rc.Own(c).(*view).tools
	if overrun(rc, pages, len(links), &a) {
		return a
	}
	a.Found = make([]routes.WebText, len(links))
	var units atomic.Int64
	a.Cause, _ = c.attend(rc, tools.Pages.Longest(), func(ctx context.Context) error {
		var all sync.WaitGroup
		for i, link := range links {
			all.Go(func() {
				var asked bool
				if a.Found[i], asked = c.page(ctx, rc, link); asked {
					units.Add(1)
				}
			})
		}
		all.Wait()
		return nil
	})
	a.Units = units.Load()
	a.Failed = a.Cause == proxy.None && a.Units == 0
	return a
}

// page reads one page, or says why it cannot be read. It is paid for when it is here,
// and by clients that left when their site had been asked.
func (c *Capability) page(ctx context.Context, rc *routes.Call, link string) (t routes.WebText, paid bool) {
	t = routes.WebText{URL: link, Failure: "The page could not be read."}
	defer func() {
		if v := recover(); v != nil {
			c.gateway.NotePanic(rc.Row.Path, v)
		}
	}()
	ctx, end := rc.Piece(ctx)
	defer func() { end(paid) }()
	page, err := rc.Own(c).(*view).tools.Pages.Page(ctx, link)
	var refusal *scrape.Error
	switch {
	case err == nil:
		t.URL, t.Text, t.Failure, paid = page.URL, page.Markdown, "", true
	case errors.As(err, &refusal):
		t.Failure = refusal.Text()
	case errors.Is(err, context.Canceled):
		paid = page.Asked
	}
	return t, paid
}

// Document is routes.Web.
func (c *Capability) Document(rc *routes.Call, d *routes.WebDocument) (string, *routes.Error) {
	parser := rc.Own(c).(*view).tools.Documents
	var limits routes.WebAnswer
	if overrun(rc, documents, 1, &limits) {
		return "", limits.Overrun()
	}
	longest, read := parser.Longest(), func(ctx context.Context) (parse.Text, error) { return parser.Text(ctx, d.Bytes) }
	if d.Link != "" {
		longest = parser.LongestLinked()
		read = func(ctx context.Context) (parse.Text, error) { return parser.Linked(ctx, d.Link, d.Most) }
	}
	var text string
	cause, err := c.attend(rc, longest, func(ctx context.Context) error {
		found, err := read(ctx)
		text = found.Text
		return err
	})
	switch {
	case cause != proxy.None:
		return "", rc.Unreachable(&proxy.Result{Cause: cause})
	case err != nil:
		return "", rc.Overworked(noText(d.Path, err))
	}
	return text, nil
}
