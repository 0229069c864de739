package augment

import (
	"context"
	"errors"
	"time"

	"farebox/providers/scrape"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

// Ids of the members of a body.
const scrapeURL = 0

// maxLink is the longest address that is taken.
const maxLink = 8 << 10

// scrapeBook describes a body (addendum 12.1).
var scrapeBook = routes.NewRulebook(scan.NewShape(scan.Member{Name: "url"}), map[string]*routes.Rule{
	"url": {Kinds: routes.String, Required: true, NonEmpty: true, Length: maxLink, Format: "http or https URL"},
})

// scrape answers POST /augment/scrape: a page as Markdown (interface.md, Augment).
func (ca *Capability) scrape(rc *routes.Call) *routes.Error {
	c := ca.begin(rc, pages)
	v, e := rc.ReadBody()
	if e != nil {
		return e
	}
	link := v.Words(-1, scrapeURL)
	return c.sell(c.view.tools.Pages.Longest(), func() *routes.Error {
		var page scrape.Page
		cause, err := ca.attend(rc, c.view.tools.Pages.Longest(), func(ctx context.Context) (err error) {
			page, err = c.view.tools.Pages.Page(ctx, link)
			c.begun.Store(page.Asked) // a client that leaves before any site was asked owes nothing
			return err
		})
		switch {
		case cause != proxy.None:
			return c.gone(cause)
		case err != nil:
			return c.noPage(err)
		}
		b := jsontext.Object("{").Text("url", page.URL).Text("content", page.Markdown)
		c.sale.Answer.Body = append(b, `,"format":"markdown"}`...)
		return nil
	})
}

// noPage is the answer when there is no page: 400 where the client named what
// cannot be read, 500 for a site that fails (addendum 12.1). It costs nothing.
func (c *call) noPage(err error) *routes.Error {
	var refusal *scrape.Error
	if !errors.As(err, &refusal) {
		return &routes.Error{Status: 500, Message: "The page could not be read; nothing was charged. Please retry."}
	}
	switch refusal.Fault() {
	case scrape.OfClient:
		return routes.Invalid(routes.Issue{Code: "custom", Path: "url", Message: "url: " + refusal.Text()})
	case scrape.OfUs:
		return &routes.Error{Status: 503, Message: refusal.Text(), RetryAfter: max(refusal.RetryAfter, routes.RetrySoon)}
	}
	return &routes.Error{Status: 500, Message: refusal.Text() + " Nothing was charged.", RetryAfter: min(refusal.RetryAfter,
		time.Hour)}
}
