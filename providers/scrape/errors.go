package scrape

import (
	"fmt"
	"time"
)

// Reason is the reason that there is no page.
type Reason uint8

// The reasons, each with a text for the client (Error.Text).
const (
	BadURL       Reason = iota // not an absolute http or https URL, with credentials, or at another port
	Blocked                    // a site that is never asked
	Forbidden                  // an address that is not on the public internet
	Robots                     // the site's robots.txt forbids it
	Unsupported                // neither a page, nor text, nor a document that can be read
	TooLarge                   //
	Refused                    // the site answered 401, 403, 407, 429, 451 or 503
	Challenge                  // the site wants a proof that we are human
	Status                     // the site answered another status that is not a page
	Unreachable                // no such name, no connection, or it broke off
	Redirects                  // too many
	TooSlow                    //
	NoText                     // a page without text
	NeedsBrowser               // a page without text before its scripts have run, and there is no Renderer
	Busy                       // there are too many requests
	Failed                     // a failure of ours
)

// Fault is the party that can fix an error.
type Fault uint8

// The faults: a client's answers 400, a site's 500 and ours 503; all are free.
const (
	OfClient Fault = iota
	OfSite
	OfUs
)

// Error is a failure to read a page.
type Error struct {
	Reason Reason
	// Status is the site's, where it answered one.
	Status int
	// Name is the obstacle: the blocked site, or the service that challenges.
	Name string
	// RetryAfter is the wait that the site asked for.
	RetryAfter time.Duration
	text       string // replaces the reason's
	cause      error  // of Failed; for logs, never for clients
}

var texts = [...]string{
	BadURL:      "The URL must be an absolute http or https URL without credentials, at the usual port.",
	Blocked:     "%s cannot be scraped: it does not let pages be read without signing in.",
	Forbidden:   "The URL leads to an address that may not be fetched.",
	Robots:      "The site does not allow this page to be read: its robots.txt excludes it.",
	Unsupported: "The URL leads neither to a page nor to text or a document that can be read.",
	TooLarge:    "The page is too large.",
	Refused:     "The site refuses to show the page: it answered with status %d.",
	Challenge:   "The site does not show the page to programs: %s blocks it.",
	Status:      "The page could not be read: the site answered with status %d.",
	Unreachable: "The site could not be reached, or it broke off.",
	Redirects:   "The URL redirects too often.",
	TooSlow:     "The page could not be read in time.",
	NoText:      "The page has no readable text.",
	NeedsBrowser: "The page has no readable text before its scripts run in a browser. No browser is set up here " +
		"(augment.scrape.js.engine is none).",
	Busy:   "Too many pages are being read at the moment. Try again shortly.",
	Failed: "The page could not be read.",
}

// Error is Text.
func (e *Error) Error() string { return e.Text() }

// Text is the message to a client.
func (e *Error) Text() string {
	switch {
	case e.text != "":
		return e.text
	case e.Reason == Blocked, e.Reason == Challenge:
		return fmt.Sprintf(texts[e.Reason], e.Name)
	case e.Reason == Refused, e.Reason == Status:
		return fmt.Sprintf(texts[e.Reason], e.Status)
	}
	return texts[e.Reason]
}

// Unwrap is the cause on our side.
func (e *Error) Unwrap() error { return e.cause }

// Fault is the party at fault.
func (e *Error) Fault() Fault {
	switch {
	case e.Reason <= TooLarge:
		return OfClient
	case e.Reason >= Busy:
		return OfUs
	}
	return OfSite
}
