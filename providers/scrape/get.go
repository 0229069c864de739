package scrape

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"farebox/providers/fetch"
)

// trail is the state of the requests for one page.
type trail struct {
	// Some sites redirect a reader in a circle until it sends their cookie. The jar is
	// dropped with the page.
	jar  *cookiejar.Jar
	hops int // requests so far
}

// get follows a URL to its answer. Every hop is checked before it is requested: the list of
// sites, and its own robots.txt.
func (s *Scraper) get(ctx context.Context, u *url.URL, t *trail) (*fetch.Answer, error) {
	for ; t.hops <= redirects; t.hops++ {
		if err := s.allowed(ctx, u); err != nil {
			return nil, err
		}
		a, err := s.o.Fetch.Do(ctx, fetch.Ask{URL: u.String(), Agent: s.o.Agent, Accept: accepts, Cookies: t.jar,
			MostOf: s.most, Limit: s.o.Limit})
		if err != nil {
			return nil, err
		}
		to := a.Header.Get("Location")
		if a.Status < 300 || a.Status > 399 || to == "" {
			t.hops++
			return a, judge(a)
		}
		next, err := a.URL.Parse(to)
		if err != nil || len(to) > maxURL {
			return nil, &Error{Reason: Unreachable}
		}
		if u, err = s.rules.normal(next); err != nil {
			return nil, err
		}
	}
	return nil, &Error{Reason: Redirects}
}

func (s *Scraper) allowed(ctx context.Context, u *url.URL) error {
	if s.o.IgnoreRobots {
		return nil
	}
	return s.robots.allowed(ctx, u)
}

// errorPage bounds the bytes read of an answer that is not a page: enough to detect a wall.
const errorPage = 256 << 10

func (s *Scraper) most(status int, h http.Header) int64 {
	switch {
	case status != http.StatusOK && status != http.StatusNonAuthoritativeInfo:
		return errorPage
	case kindOf(h, nil) == isDocument, kindOf(h, nil) == isUnknown:
		return max(s.o.MaxDocument, s.o.MaxPage)
	}
	return s.o.MaxPage
}

// judge turns the status of an answer into an error.
func judge(a *fetch.Answer) error {
	switch {
	case a.Status == http.StatusOK, a.Status == http.StatusNonAuthoritativeInfo:
		return nil
	case a.Status == http.StatusAccepted && len(a.Body) > 0 && challengeIn(a.Status, a.Header, a.Body) == nil:
		return nil
	}
	if wall := challengeIn(a.Status, a.Header, a.Body); wall != nil {
		return &Error{Reason: Challenge, Name: wall.name, Status: a.Status, RetryAfter: retryAfter(a.Header)}
	}
	if slices.Contains([]int{401, 403, 407, 429, 451, 503}, a.Status) {
		return &Error{Reason: Refused, Status: a.Status, RetryAfter: retryAfter(a.Header)}
	}
	return &Error{Reason: Status, Status: a.Status, RetryAfter: retryAfter(a.Header)}
}

// retryAfter is the wait that a site asks for, in whole seconds or as a date.
func retryAfter(h http.Header) time.Duration {
	const most = 24 * time.Hour
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(v, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, most)
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(time.Until(at), 0), most)
	}
	return 0
}

// kind is how an answer is read.
type kind uint8

const (
	isUnknown kind = iota // its first bytes decide
	isPage
	isText
	isDocument
	isOther
)

// kinds by media type. Bodies of other types are sniffed; text of any other sort is plain.
var kinds = map[string]kind{
	"text/html": isPage, "application/xhtml+xml": isPage, "application/pdf": isDocument, "application/x-pdf": isDocument,
	"application/epub+zip": isDocument, "application/msword": isOther, "application/rtf": isOther,
	"application/vnd.ms-excel": isDocument,
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   isDocument,
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": isDocument,
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         isDocument,
	"application/json": isText, "application/ld+json": isText, "application/xml": isText, "application/rss+xml": isText,
	"application/atom+xml": isText, "application/yaml": isText, "application/x-yaml": isText, "application/toml": isText,
	"application/javascript": isText, "application/x-sh": isText, "application/sql": isText,
	"": isUnknown, "application/octet-stream": isUnknown, "binary/octet-stream": isUnknown,
	"application/x-download": isUnknown,
	"text/rtf":               isOther,
}

// kindOf goes by the header, and by the first bytes if the header names no type.
func kindOf(h http.Header, body []byte) kind {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		media, _, _ = strings.Cut(h.Get("Content-Type"), ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	k, ok := kinds[media]
	switch {
	case !ok && (strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json")):
		return isText
	case !ok:
		return isOther
	case k != isUnknown || body == nil:
		return k
	case bytes.HasPrefix(body, []byte("%PDF-")), bytes.HasPrefix(body, []byte("PK\x03\x04")):
		return isDocument
	}
	sniffed, _, _ := strings.Cut(http.DetectContentType(body), ";")
	switch sniffed {
	case "text/html":
		return isPage
	case "text/plain", "text/xml":
		return isText
	}
	return isOther
}

// passed is text as it is, if it is text. Other charsets than UTF-8 are decoded in the
// jail.
func (s *Scraper) passed(ctx context.Context, body []byte, contentType string) (string, error) {
	text := bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(text) || bytes.ContainsAny(text, "\x00\x1b") {
		var err error
		t := task{ContentType: contentType}
		if text, err = s.o.Jail.Do(ctx, decodeJob, t.word(), body); err != nil {
			return "", err
		}
	}
	if bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text) {
		return "", &Error{Reason: Unsupported}
	}
	return string(text), nil
}
