package fetch

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"farebox/config/fair"
)

// Part is a range of bytes of a link's file.
type Part struct {
	Bytes []byte
	Size  int64 // of the whole; -1: its server does not say
}

// Part reads at most length bytes from an offset on. A server that gives no parts is read
// from its beginning if from is 0, and refused with Unwanted otherwise. The error is an
// *Error, or ctx's.
func (c *Client) Part(ctx context.Context, rawURL string, from, length int64) (Part, error) {
	u, err := parse(rawURL)
	if err != nil {
		return Part{}, err
	}
	place, err := take(ctx, c.turns, c.o.Limit)
	if err != nil {
		return Part{}, err
	}
	defer place.Done()
	outer := ctx
	ctx, cancel := fair.WithLimit(ctx, c.o.Limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Part{}, &Error{Reason: BadURL}
	}
	r.Header.Set("User-Agent", "farebox/1")
	r.Header.Set("Accept", "*/*")
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("Range", "bytes="+strconv.FormatInt(from, 10)+"-"+strconv.FormatInt(from+length-1, 10))
	resp, err := c.http.Do(r)
	if err != nil {
		return Part{}, ended(outer, err)
	}
	defer resp.Body.Close() // the whole body, not the part below
	size, err := wholeOf(resp, from)
	if err != nil {
		return Part{}, err
	}
	resp.Body = io.NopCloser(io.LimitReader(resp.Body, length))
	body, err := read(resp, length, nil)
	if err != nil {
		return Part{}, ended(outer, err)
	}
	return Part{Bytes: body, Size: size}, nil
}

// wholeOf is the size of the whole that a part is taken of, or an error if the part is not
// the requested one.
func wholeOf(resp *http.Response, from int64) (int64, error) {
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return 0, &Error{Reason: Unwanted}
	}
	switch resp.StatusCode {
	case http.StatusOK:
		if from > 0 {
			return 0, &Error{Reason: Unwanted}
		}
		return resp.ContentLength, nil
	case http.StatusPartialContent:
		said, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes ")
		span, whole, _ := strings.Cut(said, "/")
		first, _, _ := strings.Cut(span, "-")
		if at, err := strconv.ParseInt(first, 10, 64); !ok || err != nil || at != from {
			return 0, &Error{Reason: Unwanted}
		}
		if size, err := strconv.ParseInt(whole, 10, 64); err == nil && size > from {
			return size, nil
		}
		return -1, nil
	}
	return 0, &Error{Reason: BadStatus}
}

func parse(rawURL string) (*url.URL, error) {
	if len(rawURL) > maxURL {
		return nil, &Error{Reason: BadURL}
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, &Error{Reason: BadURL}
	}
	return u, check(u)
}

// Final is the final URL of a link, behind its redirects: it may be given to others instead.
// Each hop may be fetched from here, and each address of the last host is public. The body
// is not read, and its status does not matter. Without a redirect it is the link as it was.
// It protects later users of the address only while names keep their addresses and servers
// their redirects.
func (c *Client) Final(ctx context.Context, rawURL string) (string, error) {
	u, err := parse(rawURL)
	if err == nil {
		err = c.allowed(ctx, u)
	}
	if err != nil {
		return "", err
	}
	place, err := take(ctx, c.turns, c.o.Limit)
	if err != nil {
		return "", err
	}
	defer place.Done()
	inner, cancel := fair.WithLimit(ctx, c.o.Limit)
	defer cancel()
	r, err := http.NewRequestWithContext(inner, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", &Error{Reason: BadURL}
	}
	r.Header.Set("User-Agent", "farebox/1")
	r.Header.Set("Accept", "*/*")
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("Range", "bytes=0-0")
	resp, err := c.http.Do(r)
	if err != nil {
		return "", ended(ctx, err)
	}
	_ = resp.Body.Close()
	switch last := resp.Request.URL; {
	case resp.StatusCode/100 == 3: // a redirect that others may read differently
		return "", &Error{Reason: BadStatus}
	case last.String() == u.String():
		return rawURL, nil
	default:
		return last.String(), c.allowed(ctx, last)
	}
}

// allowed says that each address of a host may be fetched from here.
func (c *Client) allowed(ctx context.Context, u *url.URL) (err error) {
	host := strings.TrimSuffix(u.Hostname(), ".")
	list := make([]netip.Addr, 1)
	if list[0], err = netip.ParseAddr(host); err != nil {
		resolver := c.dialer.Resolver // nil is the system's
		if list, err = resolver.LookupNetIP(ctx, "ip", host); err != nil || len(list) == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &Error{Reason: Unreachable}
		}
	}
	port := uint16(443)
	if u.Scheme == "http" {
		port = 80
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return &Error{Reason: BadURL}
		}
		port = uint16(n)
	}
	for _, ip := range list {
		network := "tcp6"
		if ip = ip.Unmap(); ip.Is4() {
			network = "tcp4"
		}
		if err := c.dialer.ControlContext(ctx, network, netip.AddrPortFrom(ip, port).String(), nil); err != nil {
			return err
		}
	}
	return nil
}
