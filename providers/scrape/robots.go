package scrape

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"farebox/providers/fetch"
)

const (
	// robotsMost bounds the bytes read of a robots.txt: RFC 9309, 2.5.
	robotsMost = 500 << 10
	// robotsLimit is how long it may take; the page follows it.
	robotsLimit = 4 * time.Second
	// robotsRedirects are followed: RFC 9309, 2.3.1.2.
	robotsRedirects = 5
	robotsKept      = time.Hour
	// robotsFailed is how long a failing site's refusal holds.
	robotsFailed = 5 * time.Minute
	robotsCache  = 16 << 20
)

// robots reads the rules of sites for us.
type robots struct {
	token string // our name in a robots.txt
	agent string
	fetch *fetch.Client
	rules *rules
	kept  *ristretto.Cache[string, *policy]
}

// policy is the rules of one site for us, of which the longest decides. It does not change.
type policy struct {
	rules  []robotsRule
	closed bool // nothing is allowed
}

type robotsRule struct {
	path  string
	allow bool
}

func newRobots(o *Options, r *rules) (*robots, error) {
	kept, err := ristretto.NewCache(&ristretto.Config[string, *policy]{NumCounters: 100_000, MaxCost: robotsCache,
		BufferItems: 64})
	token, _, _ := strings.Cut(o.Agent, "/")
	return &robots{token: productToken(token), agent: o.Agent, fetch: o.Fetch, rules: r, kept: kept}, err
}

// allowed checks a page against its site's robots.txt.
func (b *robots) allowed(ctx context.Context, u *url.URL) error {
	origin := u.Scheme + "://" + u.Host
	p, ok := b.kept.Get(origin)
	if !ok {
		var err error
		if p, err = b.fetchPolicy(ctx, origin); err != nil {
			return err
		}
	}
	if !p.allows(u) {
		return &Error{Reason: Robots}
	}
	return nil
}

// fetchPolicy fetches a robots.txt. A missing file allows all, an unreachable one allows
// nothing: RFC 9309, 2.3.1.
func (b *robots) fetchPolicy(ctx context.Context, origin string) (*policy, error) {
	a, err := b.fetch.Do(ctx, fetch.Ask{URL: origin + "/robots.txt", Agent: b.agent, Accept: "text/plain, */*;q=.5",
		Most: robotsMost, Cut: true, Redirects: robotsRedirects, Limit: robotsLimit, Check: func(u *url.URL) error {
			_, err := b.rules.normal(new(*u))
			return err
		}})
	var refusal *fetch.Error
	var own *Error
	p, keep := &policy{}, robotsKept
	switch {
	case err == nil && a.Status == 200:
		p = parseRobots(a.Body, b.token)
	case err == nil && a.Status >= 500:
		p.closed, keep = true, robotsFailed
	case errors.As(err, &own), errors.As(err, &refusal) && refusal.Reason == fetch.TooManyRedirects:
		// Its redirects end nowhere: as good as a missing file.
	case err != nil:
		return nil, failed(err) // the page cannot be fetched either
	}
	b.kept.SetWithTTL(origin, p, p.size()+int64(len(origin)), keep)
	return p, nil
}

func (p *policy) size() (n int64) {
	for _, r := range p.rules {
		n += int64(len(r.path)) + 32
	}
	return n + 64
}

// parseRobots picks the rules for a name, or else those for everyone: RFC 9309,
// 2.2. Groups of the same name are one.
func parseRobots(text []byte, token string) *policy {
	var own, all []robotsRule
	var forUs, forAll, named, met bool // named: the line before was a user-agent
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	for len(text) > 0 {
		end := bytes.IndexAny(text, "\r\n")
		line := text
		if end < 0 {
			text = nil
		} else {
			line, text = text[:end], text[end+1:]
		}
		line, _, _ = bytes.Cut(line, []byte("#"))
		key, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		what := strings.TrimSpace(string(value))
		switch field := strings.ToLower(strings.TrimSpace(string(key))); field {
		case "user-agent", "useragent", "user agent":
			if !named {
				forUs, forAll = false, false
			}
			named = true
			forAll = forAll || strings.HasPrefix(what, "*")
			if productToken(what) == token {
				forUs, met = true, true
			}
		case "allow", "disallow", "dissallow":
			named = false
			if what == "" || !forUs && !forAll {
				continue
			}
			if what[0] != '/' && what[0] != '*' {
				what = "/" + what
			}
			r := robotsRule{path: normalPath(what), allow: field == "allow"}
			if forUs {
				own = append(own, r)
			}
			if forAll {
				all = append(all, r)
			}
		}
	}
	if met {
		return &policy{rules: own}
	}
	return &policy{rules: all}
}

// productToken is a crawler's name without its version.
func productToken(s string) string {
	for i := range len(s) {
		if c := s[i] | 0x20; (c < 'a' || c > 'z') && s[i] != '-' && s[i] != '_' {
			s = s[:i]
			break
		}
	}
	return strings.ToLower(s)
}

// allows finds the longest rule that fits; of two equal ones the permissive one.
func (p *policy) allows(u *url.URL) bool {
	if p.closed {
		return false
	}
	path := u.EscapedPath()
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	path = normalPath(path)
	if path == "/robots.txt" {
		return true
	}
	longest, allow := -1, true
	for _, r := range p.rules {
		if (len(r.path) > longest || len(r.path) == longest && r.allow) && fits(r.path, path) {
			longest, allow = len(r.path), r.allow
		}
	}
	return allow
}

// fits matches a rule, in which "*" is anything and "$" the end, in time that grows with
// the path alone, for any rule.
func fits(rule, path string) bool {
	rule, whole := strings.CutSuffix(rule, "$")
	pieces := strings.Split(rule, "*")
	if !strings.HasPrefix(path, pieces[0]) {
		return false
	}
	path = path[len(pieces[0]):]
	if len(pieces) == 1 {
		return !whole || path == ""
	}
	last := len(pieces) - 1
	for _, piece := range pieces[1:last] {
		at := strings.Index(path, piece)
		if at < 0 {
			return false
		}
		path = path[at+len(piece):]
	}
	if whole {
		return strings.HasSuffix(path, pieces[last])
	}
	return strings.Contains(path, pieces[last])
}

// normalPath normalises the escapes of a path.
func normalPath(s string) string {
	const digits = "0123456789ABCDEF"
	plain := true
	for i := range len(s) {
		plain = plain && s[i] != '%' && s[i] < 0x80
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c, escaped := s[i], s[i] >= 0x80
		if c == '%' && i+2 < len(s) {
			hi, lo := strings.IndexByte(digits, upper(s[i+1])), strings.IndexByte(digits, upper(s[i+2]))
			if hi >= 0 && lo >= 0 {
				c = byte(hi<<4 | lo)
				escaped = !unreserved(c)
				i += 2
			}
		}
		if escaped {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

func unreserved(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("-._~", c) >= 0
}
