package scrape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"farebox/config/fair"
	"farebox/providers/fetch"
	"farebox/providers/jail"
)

// The defaults of Options.
const (
	defaultAgent    = "farebox/1"
	defaultLimit    = 10 * time.Second
	defaultParallel = 32
	defaultWait     = 20 * time.Second
	defaultPage     = 3 << 20
	defaultDocument = 25 << 20
	defaultMinText  = 200
)

// accepts lists the types whose conversion to Markdown costs least first.
const accepts = "text/markdown, text/html;q=.9, application/xhtml+xml;q=.9, text/plain;q=.8, " +
	"application/pdf;q=.5, */*;q=.1"

// redirects bounds the redirects that are followed.
const redirects = 5

// Jail is where hostile bytes are read: a *jail.Pool.
type Jail interface {
	Do(ctx context.Context, job, word string, in []byte) ([]byte, error)
}

// Renderer is a browser, for pages that are made by scripts. Requests of its pages must go
// out by providers/fetch as well.
type Renderer interface {
	// Render gives a page after its scripts have run, and its final URL.
	Render(ctx context.Context, url string) (html []byte, final string, err error)
}

// Options of a Scraper. Fetch and Jail are required.
type Options struct {
	Fetch *fetch.Client
	Jail  Jail
	// Document makes text of a document, such as a PDF; nil: those are
	// Unsupported. An *Error of its own is given back as it is, another with a Text
	// is Unsupported with that text.
	Document func(ctx context.Context, doc []byte) (string, error)
	// Renderer, when set, gets pages with less than MinText visible characters.
	Renderer Renderer
	MinText  int // 0: 200
	// Agent is our user agent; its first word is looked for in robots.txt.
	Agent string
	// IgnoreRobots fetches no robots.txt.
	IgnoreRobots bool
	// Blocked are the sites that are not asked; nil: BlockedSites.
	Blocked []Site
	// Ports that may be in a URL; empty: 80 and 443. Allow are addresses that
	// Fetch lets through at any port. Both are as in Fetch's own options.
	Ports []uint16
	Allow []netip.Prefix
	// Limit is the time for all of a page; 0: 10s. It does not run while the page waits
	// for the turn of its owner ([fair.Of]).
	Limit time.Duration
	// Parallel is how many pages are read at once; 0: 32. Wait is how long others may wait
	// for that, and again for fetches and children; 0: 20s. It should be the longest time
	// of one piece of work.
	Parallel int
	Wait     time.Duration
	// MaxPage and MaxDocument bound the bytes read of a page, 0: 3 MB, and of a
	// document, 0: 25 MB.
	MaxPage, MaxDocument int64
	// Cache bounds the bytes of cached pages, which are kept for TTL; 0: no cache.
	Cache int64
	TTL   time.Duration
}

// Page is a scraped page.
type Page struct {
	URL      string // the final one
	Markdown string
	Cached   bool
	// Asked says, if ctx has ended, that a site had been asked by then, for any request
	// that waits for the same page.
	Asked bool
}

// Scraper reads pages. Safe for concurrent use.
type Scraper struct {
	o      Options
	rules  *rules
	robots *robots
	kept   *pageCache
	shared flights
	turns  *fair.Turns
}

// waiters is how many pages may wait for each that is read.
const waiters = 16

// New makes a Scraper.
func New(o Options) (*Scraper, error) {
	if o.Fetch == nil || o.Jail == nil {
		return nil, errors.New("cannot scrape without a fetcher and a jail")
	}
	o.Agent = cmp.Or(o.Agent, defaultAgent)
	o.Limit = cmp.Or(o.Limit, defaultLimit)
	o.Wait = cmp.Or(o.Wait, defaultWait)
	o.Parallel = cmp.Or(o.Parallel, defaultParallel)
	o.MinText = cmp.Or(o.MinText, defaultMinText)
	o.MaxPage = cmp.Or(o.MaxPage, defaultPage)
	o.MaxDocument = cmp.Or(o.MaxDocument, defaultDocument)
	s := &Scraper{o: o, rules: newRules(&o), turns: fair.NewTurns(o.Parallel, waiters*o.Parallel)}
	var err error
	if s.robots, err = newRobots(&o, s.rules); err != nil {
		return nil, fmt.Errorf("cannot make the cache of robots.txt: %w", err)
	}
	if s.kept, err = newPageCache(o.Cache, o.TTL); err != nil {
		return nil, fmt.Errorf("cannot make the cache of pages: %w", err)
	}
	return s, nil
}

// Close drops the caches.
func (s *Scraper) Close() error {
	s.kept.close()
	s.robots.kept.Close()
	return nil
}

// Longest is how long a page can take, with all waiting.
func (s *Scraper) Longest() time.Duration { return 2*s.o.Wait + s.o.Limit }

// Page reads the page of url. The error is an *Error, or ctx's. An owner that asks
// for a page that is being read for it already gets the same.
func (s *Scraper) Page(ctx context.Context, url string) (Page, error) {
	u, err := s.rules.address(url)
	if err != nil {
		return Page{}, err
	}
	key := u.String()
	if p, ok := s.kept.find(key); ok {
		return p, nil
	}
	return s.shared.do(ctx, flightKey{fair.Of(ctx), key}, func(ctx context.Context) (Page, error) {
		p, err := s.read(ctx, key)
		if err != nil {
			return Page{}, failed(err)
		}
		return p, nil
	})
}

// read is one page from the first request to its Markdown.
func (s *Scraper) read(ctx context.Context, url string) (p Page, err error) {
	waits, cancel := context.WithTimeout(ctx, s.o.Wait)
	place, err := s.turns.Take(waits, fair.Of(ctx))
	cancel()
	switch {
	case err == nil:
		defer place.Done()
	case ctx.Err() != nil:
		return p, ctx.Err()
	default:
		return p, &Error{Reason: Busy}
	}
	whole, cancelWhole := context.WithTimeout(ctx, s.o.Wait+s.o.Limit)
	defer cancelWhole()
	ctx, cancel = fair.WithLimit(whole, s.o.Limit)
	defer cancel()
	defer func() {
		if left, _ := fair.Left(ctx); err != nil && left > 0 && whole.Err() != nil {
			err = &Error{Reason: Busy} // it waited for all of its time
		}
	}()
	t := &trail{}
	if t.jar, err = cookiejar.New(nil); err != nil {
		return p, err
	}
	next, err := s.rules.address(url)
	var a *fetch.Answer
	for next != nil && err == nil {
		if a, err = s.get(ctx, next, t); err == nil {
			p, next, err = s.answered(ctx, a)
		}
	}
	if err != nil {
		return Page{}, err
	}
	if !strings.Contains(strings.ToLower(a.Header.Get("Cache-Control")), "no-store") {
		s.kept.store(url, p)
	}
	return p, nil
}

// answered makes a page of an answer, by its type. next is the page's redirect.
func (s *Scraper) answered(ctx context.Context, a *fetch.Answer) (p Page, next *url.URL, err error) {
	p.URL = a.URL.String()
	switch kind := kindOf(a.Header, a.Body); kind {
	case isPage:
		return s.page(ctx, a)
	case isText:
		p.Markdown, err = s.passed(ctx, a.Body, a.Header.Get("Content-Type"))
	case isDocument:
		p.Markdown, err = s.document(ctx, a.Body)
	default:
		err = &Error{Reason: Unsupported}
	}
	if err == nil && strings.TrimSpace(p.Markdown) == "" {
		err = &Error{Reason: NoText}
	}
	return p, nil, err
}

// page is the main content of HTML, rendered if the HTML has next to no text.
func (s *Scraper) page(ctx context.Context, a *fetch.Answer) (p Page, next *url.URL, err error) {
	p.URL = a.URL.String()
	f, err := s.extract(ctx, a.Body, a.Header.Get("Content-Type"), p.URL)
	if err != nil {
		return p, nil, err
	}
	little := f.empty || f.visible < s.o.MinText
	if to := refreshOf(a.Header.Get("Refresh"), a.URL); to != "" {
		f.next, f.always = to, true
	}
	if f.next != "" && (f.always || little) {
		if next, err = s.rules.address(f.next); err != nil || next.String() != p.URL {
			return p, next, err
		}
	}
	p.Markdown = f.markdown
	if !little {
		return p, nil, nil
	}
	if wall := challengeIn(a.Status, a.Header, a.Body); wall != nil {
		return p, nil, &Error{Reason: Challenge, Name: wall.name, Status: a.Status}
	}
	if s.o.Renderer != nil {
		made, at, err := s.render(ctx, p.URL)
		switch {
		case err != nil && (f.empty || f.visible == 0):
			return p, nil, err
		case err == nil && !made.empty && made.visible > 0 && (f.empty || made.visible > f.visible):
			return Page{URL: at, Markdown: made.markdown}, nil, nil
		}
	}
	switch {
	case f.empty && s.o.Renderer == nil:
		err = &Error{Reason: NeedsBrowser}
	case f.empty, f.visible == 0:
		err = &Error{Reason: NoText}
	}
	return p, nil, err
}

// render has the browser load a page. Its final URL is checked as any other hop.
func (s *Scraper) render(ctx context.Context, url string) (f found, final string, err error) {
	body, at, err := s.o.Renderer.Render(ctx, url)
	if err != nil {
		return f, url, err
	}
	u, err := s.rules.address(at)
	if err != nil {
		return f, url, err
	}
	if final = u.String(); final != url {
		if err := s.allowed(ctx, u); err != nil {
			return f, url, err
		}
	}
	if int64(len(body)) > s.o.MaxPage {
		return f, url, &Error{Reason: TooLarge}
	}
	if f, err = s.extract(ctx, body, "text/html; charset=utf-8", final); err != nil {
		return f, url, err
	}
	if wall := challengeIn(http.StatusOK, nil, body); wall != nil && f.visible < s.o.MinText {
		return f, url, &Error{Reason: Challenge, Name: wall.name}
	}
	return f, final, nil
}

// extract has the jail find the main content. A page that is too large for that gives its
// text, for which some time is reserved.
func (s *Scraper) extract(ctx context.Context, body []byte, contentType, url string) (f found, err error) {
	t := task{ContentType: contentType, URL: url}
	if len(body) == 0 {
		return found{}, nil
	}
	inner, cancel := ctx, context.CancelFunc(func() {})
	if left, ok := fair.Left(ctx); ok {
		inner, cancel = fair.WithLimit(ctx, left/3*2)
	}
	defer cancel()
	out, err := s.o.Jail.Do(inner, pageJob, t.word(), body)
	if err != nil && ctx.Err() == nil && !errors.Is(err, jail.ErrBusy) && !errors.Is(err, jail.ErrUnavailable) {
		out, err = s.o.Jail.Do(ctx, textJob, t.word(), body)
	}
	if err != nil {
		return f, err
	}
	return parseFound(out)
}

func (s *Scraper) document(ctx context.Context, doc []byte) (string, error) {
	if s.o.Document == nil {
		return "", &Error{Reason: Unsupported}
	}
	return s.o.Document(ctx, doc)
}

// failed is the error that a client reads.
func failed(err error) error {
	var own *Error
	var refusal *fetch.Error
	var said interface{ Text() string } // of the reader of documents
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Reason: TooSlow}
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &refusal):
		return &Error{Reason: reasons[refusal.Reason]}
	case errors.As(err, &said):
		return &Error{Reason: Unsupported, text: said.Text(), cause: err}
	case errors.Is(err, jail.ErrBusy), errors.Is(err, jail.ErrUnavailable):
		return &Error{Reason: Busy, cause: err}
	case errors.Is(err, jail.ErrTooSlow):
		return &Error{Reason: TooSlow, cause: err}
	case errors.Is(err, jail.ErrTooLarge):
		return &Error{Reason: TooLarge, cause: err}
	case errors.Is(err, jail.ErrDied):
		return &Error{Reason: NoText, cause: err}
	}
	return &Error{Reason: Failed, cause: err}
}

var reasons = map[fetch.Reason]Reason{fetch.BadURL: BadURL, fetch.Forbidden: Forbidden,
	fetch.Unreachable: Unreachable, fetch.BadStatus: Status, fetch.TooManyRedirects: Redirects,
	fetch.TooLarge: TooLarge, fetch.TooSlow: TooSlow, fetch.Unwanted: Unsupported, fetch.Busy: Busy}
