package fetch

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	brotli "github.com/molecule-man/go-brrr"

	"farebox/config/fair"
)

// Ask is a fetch whose status, type and final URL matter to the caller.
type Ask struct {
	URL string
	// Agent and Accept are sent as they are; empty: as Get sends them.
	Agent, Accept string
	// Most is how many decoded bytes of a body are read. MostOf, when set, gives it from
	// the status and the headers.
	Most   int64
	MostOf func(status int, header http.Header) int64
	// Cut takes the first Most bytes of a longer body instead of refusing it, as
	// is done with the bodies of all statuses but 2xx.
	Cut bool
	// Redirects is how many are followed, more are TooManyRedirects. 0: a redirect
	// is an answer as any other.
	Redirects int
	// Check is called for every URL before its request, the first one too; its error ends
	// the fetch and is returned unchanged.
	Check func(*url.URL) error
	// Cookies, when set, keeps the cookies of a fetch's hops.
	Cookies http.CookieJar
	// Limit is the time for all of it; 0: the Client's.
	Limit time.Duration
}

// Answer is the answer of a server, whatever its status.
type Answer struct {
	Status int
	URL    *url.URL // of the last hop
	Header http.Header
	Body   []byte // decoded
}

// encodings are the content encodings that Do accepts. Each has its reader, which Most
// bounds.
const encodings = "gzip, br"

// Do fetches. A status other than 200 is no error. The error is an *Error, that of
// Check, or ctx's.
func (c *Client) Do(ctx context.Context, a Ask) (*Answer, error) {
	if len(a.URL) > maxURL {
		return nil, &Error{Reason: BadURL}
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		return nil, &Error{Reason: BadURL}
	}
	allowed := func(u *url.URL) error {
		if err := check(u); err != nil || a.Check == nil {
			return err
		}
		if err := a.Check(u); err != nil {
			return &refusal{err}
		}
		return nil
	}
	if err := allowed(u); err != nil {
		return nil, ended(ctx, err)
	}
	place, err := take(ctx, c.turns, c.o.Limit)
	if err != nil {
		return nil, err
	}
	defer place.Done()
	outer := ctx
	if a.Limit <= 0 || a.Limit > c.o.Limit {
		a.Limit = c.o.Limit
	}
	ctx, cancel := fair.WithLimit(ctx, a.Limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, &Error{Reason: BadURL}
	}
	r.Header.Set("User-Agent", "farebox/1")
	r.Header.Set("Accept", "*/*")
	if a.Agent != "" {
		r.Header.Set("User-Agent", a.Agent)
	}
	if a.Accept != "" {
		r.Header.Set("Accept", a.Accept)
	}
	r.Header.Set("Accept-Encoding", encodings)
	client := http.Client{Transport: c.http.Transport, Jar: a.Cookies,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > a.Redirects {
				if a.Redirects == 0 {
					return http.ErrUseLastResponse
				}
				return &Error{Reason: TooManyRedirects}
			}
			r.Header.Del("Referer")
			return allowed(r.URL)
		}}
	resp, err := client.Do(r)
	if err != nil {
		return nil, ended(outer, err)
	}
	defer resp.Body.Close()
	most := a.Most
	if a.MostOf != nil {
		most = a.MostOf(resp.StatusCode, resp.Header)
	}
	body, err := decoded(resp, most, a.Cut || resp.StatusCode/100 != 2)
	if err != nil {
		return nil, ended(outer, err)
	}
	return &Answer{Status: resp.StatusCode, URL: resp.Request.URL, Header: resp.Header, Body: body}, nil
}

// refusal carries an error of Check through net/http, which wraps it in one that
// names hosts.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

// decoded reads a body with its encoding taken off. The bytes on the wire are bounded as
// well: an encoding may take input for ever without giving a byte.
func decoded(resp *http.Response, most int64, cut bool) (body []byte, err error) {
	if !cut && resp.ContentLength > most+slack {
		return nil, &Error{Reason: TooLarge}
	}
	// The decoder of br is young, and its input is untrusted.
	defer func() {
		if p := recover(); p != nil {
			body, err = nil, fmt.Errorf("the decoder gave up: %v", p)
		}
	}()
	wire := &io.LimitedReader{R: resp.Body, N: most + slack}
	var from io.Reader
	switch encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); encoding {
	case "", "identity", "none":
		from = wire
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(wire)
		switch {
		case err == io.EOF: // an empty body, as of HEAD, 204 and 304
			return nil, nil
		case err != nil:
			return nil, err
		}
		from = z
	case "br":
		b := bufio.NewReader(wire)
		first, err := b.Peek(1)
		switch {
		case err == io.EOF:
			return nil, nil
		case err != nil:
			return nil, err
		case first[0]&1 == 1 && first[0]>>1&7 > maxBrotliWindow-17:
			return nil, &Error{Reason: TooLarge}
		}
		from = brotli.NewReader(b)
	default:
		return nil, &Error{Reason: Unwanted}
	}
	body, err = io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case int64(len(body)) > most && cut:
		return body[:most:most], nil
	case int64(len(body)) > most, wire.N <= 0 && (err != nil || from != io.Reader(wire)):
		return nil, &Error{Reason: TooLarge}
	case err != nil && !(cut && len(body) > 0):
		return nil, err
	}
	return body, nil
}

const (
	// slack is the growth of a body that an encoding does not make smaller.
	slack = 64 << 10
	// maxBrotliWindow is the base-2 logarithm of the memory that a stream of br
	// may ask for: 4 MB. Encoders take no more for pages of the size read here.
	maxBrotliWindow = 22
)
