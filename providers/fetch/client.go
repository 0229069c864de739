package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"farebox/config/fair"
)

const (
	defaultLimit     = 20 * time.Second
	defaultParallel  = 64
	defaultRedirects = 3
	// maxURL is the longest accepted address.
	maxURL = 8 << 10
	// maxHead bounds the head of an answer.
	maxHead = 32 << 10
	// firstRead is the number of bytes read before an announced length is trusted.
	firstRead = 64 << 10
	// waiters is how many fetches may wait, and requests of one host, for each that
	// runs.
	waiters = 16
	// readGrowth is by how much a full buffer grows: with 4, a file and the buffer before
	// it take at most 1.3 times its size, where io.ReadAll takes 2.3 times.
	readGrowth = 4
	// acceptLen is how many first bytes Options.Accept gets.
	acceptLen = 512
)

// Options of a Client; the zero value allows the public internet only.
type Options struct {
	// Allow opens addresses that are refused otherwise, at any port: an
	// operator's own image server. Deny refuses further ones.
	Allow, Deny []netip.Prefix
	// Limit is the time for all of one fetch; 0: 20s. A fetch may wait as long for its
	// turn, and again for that at its host; the clock stops meanwhile.
	Limit time.Duration
	// Parallel is how many fetches run at once; others wait for the turn of their
	// owner ([fair.Of]). 0: 64.
	Parallel int
	// PerHost is how many requests one host gets at once; others wait in the same
	// way. 0: any number.
	PerHost int
	// Ports are the allowed ports on public addresses; empty: 80 and 443.
	Ports []uint16
	// Redirects bounds the redirects; 0: 3, below 0: none.
	Redirects int
	// Accept, when set, judges the first bytes, at most 512: false ends the
	// fetch. Types and names that the sender claims are ignored.
	Accept func(first []byte) bool
	// Resolver replaces the system's; for tests.
	Resolver *net.Resolver
	// TLS replaces the default settings; for tests.
	TLS *tls.Config
}

// Client fetches. Safe for concurrent use.
type Client struct {
	o      Options
	http   *http.Client
	dialer *net.Dialer
	turns  *fair.Turns
}

// New makes a Client.
func New(o Options) *Client {
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	if o.Parallel <= 0 {
		o.Parallel = defaultParallel
	}
	if o.Redirects == 0 {
		o.Redirects = defaultRedirects
	}
	g := newGuard(o.Allow, o.Deny, o.Ports...)
	c := &Client{o: o, turns: fair.NewTurns(o.Parallel, waiters*o.Parallel),
		dialer: &net.Dialer{Timeout: o.Limit / 2, Resolver: o.Resolver, ControlContext: g.control}}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // the guard would check only the proxy's address
			DialContext:            c.dialer.DialContext,
			TLSClientConfig:        o.TLS,
			TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1 only
			TLSHandshakeTimeout:    o.Limit / 2,
			ResponseHeaderTimeout:  o.Limit,
			MaxResponseHeaderBytes: maxHead,
			DisableCompression:     true,
			DisableKeepAlives:      true, // hosts are hardly ever asked twice
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > max(0, o.Redirects) {
				return &Error{Reason: TooManyRedirects}
			}
			r.Header.Del("Referer")
			return check(r.URL)
		},
	}
	if o.PerHost > 0 {
		c.http.Transport = &perHost{next: c.http.Transport, most: o.PerHost, wait: o.Limit, hosts: map[string]*queue{}}
	}
	return c
}

// DialContext connects to address, unless that is not on the public internet: for callers
// with their own protocol, such as a browser's proxy.
func (c *Client) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, ended(ctx, err)
	}
	return conn, nil
}

// Reason is the reason for a failed fetch.
type Reason uint8

// The reasons, each with a text for the client (Error.Text).
const (
	BadURL           Reason = iota // not an absolute http or https URL, or with credentials
	Forbidden                      // the address is not on the public internet
	Unreachable                    // no connection, no such name, or the answer broke off
	BadStatus                      // another status than 200
	TooManyRedirects               //
	TooLarge                       //
	TooSlow                        //
	Unwanted                       // Options.Accept refused it, or an encoding that was not asked for
	Busy                           // no place in time
)

var texts = [...]string{
	BadURL:           "The URL must be an absolute http or https URL without credentials.",
	Forbidden:        "The URL leads to an address that may not be fetched.",
	Unreachable:      "The URL could not be fetched: its server cannot be reached or broke off.",
	BadStatus:        "The URL could not be fetched: its server did not answer with status 200.",
	TooManyRedirects: "The URL redirects too often.",
	TooLarge:         "The file at the URL is too large.",
	TooSlow:          "The URL could not be fetched in time.",
	Unwanted:         "The file at the URL has the wrong type.",
	Busy:             "Too much is being fetched at the moment.",
}

// Error is a failed fetch. Its text names no hosts.
type Error struct{ Reason Reason }

// Error is Text.
func (e *Error) Error() string { return e.Text() }

// Text is the message to a client.
func (e *Error) Text() string { return texts[e.Reason] }

// Get reads the file of rawURL, at most most bytes. The error is an *Error,
// or ctx's.
func (c *Client) Get(ctx context.Context, rawURL string, most int64) ([]byte, error) {
	if len(rawURL) > maxURL {
		return nil, &Error{Reason: BadURL}
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, &Error{Reason: BadURL}
	}
	if err := check(u); err != nil {
		return nil, err
	}
	place, err := take(ctx, c.turns, c.o.Limit)
	if err != nil {
		return nil, err
	}
	defer place.Done()
	outer := ctx
	ctx, cancel := fair.WithLimit(ctx, c.o.Limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, &Error{Reason: BadURL}
	}
	r.Header.Set("User-Agent", "farebox/1")
	r.Header.Set("Accept", "*/*")
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, ended(outer, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, &Error{Reason: BadStatus}
	case resp.ContentLength > most:
		return nil, &Error{Reason: TooLarge}
	case resp.Header.Get("Content-Encoding") != "" && resp.Header.Get("Content-Encoding") != "identity":
		return nil, &Error{Reason: Unwanted}
	}
	body, err := read(resp, most, c.o.Accept)
	if err != nil {
		return nil, ended(outer, err)
	}
	return body, nil
}

// take waits for the turn of ctx's owner. The error is an *Error, or ctx's.
func take(ctx context.Context, turns *fair.Turns, wait time.Duration) (fair.Place, error) {
	waits, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	place, err := turns.Take(waits, fair.Of(ctx))
	switch {
	case err == nil:
		return place, nil
	case ctx.Err() != nil:
		return place, ctx.Err()
	}
	return place, &Error{Reason: Busy}
}

// read allocates memory as bytes arrive: an announced length alone gets none. accept is
// Options.Accept.
func read(resp *http.Response, most int64, accept func(first []byte) bool) ([]byte, error) {
	buf := make([]byte, min(firstRead, most+1))
	n := 0
	for {
		k, err := resp.Body.Read(buf[n:])
		n += k
		if int64(n) > most {
			return nil, &Error{Reason: TooLarge}
		}
		if accept != nil && (n >= acceptLen || err != nil) {
			if !accept(buf[:min(n, acceptLen)]) {
				return nil, &Error{Reason: Unwanted}
			}
			accept = nil
		}
		if err == io.EOF {
			return buf[:n:n], nil
		}
		if err != nil {
			return nil, err
		}
		if n < len(buf) {
			continue
		}
		size := min(readGrowth*int64(len(buf)), most+1)
		if resp.ContentLength > int64(n) {
			size = min(resp.ContentLength, most) + 1
		}
		grown := make([]byte, size)
		copy(grown, buf)
		buf = grown
	}
}

// check refuses a URL for faults of its text alone. It is not a protection
// by itself: that is the guard's.
func check(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Opaque != "" || u.Hostname() == "" {
		return &Error{Reason: BadURL}
	}
	// Hosts that end in a number are addresses to some resolvers and names to
	// others: 127.1, 0x7f000001, 0177.0.0.1, 2130706433. Only the plain forms are accepted.
	host := strings.TrimSuffix(u.Hostname(), ".")
	if _, err := netip.ParseAddr(host); err != nil {
		last := host[strings.LastIndexByte(host, '.')+1:]
		if last == "" || numeric(last) {
			return &Error{Reason: Forbidden}
		}
	}
	return nil
}

// numeric is a label that could be read as a number, 0x7f too.
func numeric(label string) bool {
	digits := strings.TrimLeft(label, "0123456789")
	if digits == "" {
		return true
	}
	if rest, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return false
}

// ended finds the reason of an error; the transport's own words name hosts.
func ended(outer context.Context, err error) error {
	var own *Error
	var asked *refusal
	var timeout net.Error
	switch {
	case errors.As(err, &asked):
		return asked.err
	case errors.As(err, &own) && (own.Reason != Busy || outer.Err() == nil):
		return own
	case outer.Err() != nil:
		return outer.Err()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) &&
		timeout.Timeout():
		return &Error{Reason: TooSlow}
	}
	return &Error{Reason: Unreachable}
}
