package routes

import (
	"time"

	"farebox/billing/money"
	"farebox/proxy"
)

// Web is a capability's access to the web on behalf of a request: search services, pages and
// documents. It sells nothing: usage is on the bill of the request, at the prices of its
// WebOffer. All of it counts in the limits for buyers of single calls.
type Web interface {
	// Offer describes the services of the config that the request began with.
	Offer(c *Call) WebOffer
	// Search asks a search provider for a text. Texts of the web are not looked at.
	Search(c *Call, query string, most int) WebAnswer
	// Pages reads the pages of the links, all at once.
	Pages(c *Call, links []string) WebAnswer
	// Document is the text of a file.
	Document(c *Call, d *WebDocument) (string, *Error)
}

// WebDocument is a file: its bytes, or a link to at most Most bytes.
type WebDocument struct {
	Path  string // where it is in the request
	Bytes []byte
	Link  string
	Most  int64
}

// WebOffer lists the available services and their prices.
type WebOffer struct {
	Searches, Pages, Documents bool
	// Search is the price of a search, Page that of a page.
	Search, Page money.Pico
}

// WebText is one result of a search, or one page, in the order that was asked for.
type WebText struct {
	Title, URL, Text, Date string
	// Failure says why there is no text, in words of ours; empty: there is.
	Failure string
}

// WebAnswer is the result of a search or of pages.
type WebAnswer struct {
	Found []WebText
	// Units are the number of charged items: the search that was answered, the pages that were
	// read. Where Cause says that the client left, they are those that had been begun.
	Units int64
	// Cause is why the request ended meanwhile; None: it has not.
	Cause proxy.Cause
	// Failed says that nobody has answered; RetryAfter is when one may.
	Failed     bool
	RetryAfter time.Duration
	// Overrun, if not nil, makes the refusal by the limits, which let no more through:
	// nobody was asked.
	Overrun func() *Error
}
