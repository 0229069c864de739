package scrape

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// maxURL is the longest accepted address.
const maxURL = 8 << 10

// Site is a host, with all below it, that is never asked.
type Site struct {
	Host string
	// Text is the message to a client; empty: that the site wants a sign-in.
	Text string
}

// blockedSites show next to nothing without a sign-in: a request costs time and gives a
// page about cookies.
var blockedSites = []Site{
	{"x.com", "X does not let posts be read without signing in. For X, ask a model with X search instead."},
	{"twitter.com", "X does not let posts be read without signing in. For X, ask a model with X search instead."},
	{"t.co", "Links of t.co lead through X, which cannot be scraped. Give the address that it leads to."},
	{"reddit.com", "Reddit does not let its pages be read by programs."},
	{"redd.it", "Reddit does not let its pages be read by programs."},
	{Host: "facebook.com"}, {Host: "fb.com"}, {Host: "fb.watch"}, {Host: "messenger.com"},
	{Host: "instagram.com"}, {Host: "threads.net"}, {Host: "threads.com"},
	{Host: "linkedin.com"}, {Host: "lnkd.in"}, {Host: "tiktok.com"}, {Host: "snapchat.com"},
	{Host: "pinterest.com"}, {Host: "pin.it"}, {Host: "vk.com"}, {Host: "ok.ru"},
	{Host: "weibo.com"}, {Host: "weibo.cn"}, {Host: "xiaohongshu.com"}, {Host: "quora.com"}, {Host: "discord.com"},
}

// BlockedSites are those of Options.Blocked when it is nil.
func BlockedSites() []Site { return slices.Clone(blockedSites) }

// Refuse is a check of hosts against blocked sites, for browsers that load parts of pages;
// nil: BlockedSites.
func Refuse(sites []Site) func(host string) error {
	r := newRules(&Options{Blocked: sites})
	return func(host string) error {
		host, err := asciiHost(host)
		if err != nil {
			return &Error{Reason: BadURL}
		}
		return r.site(host)
	}
}

// rules are the ports and sites that an address may name.
type rules struct {
	ports   []uint16
	blocked map[string]Site
	open    []netip.Prefix // an operator's own, at any port
}

func newRules(o *Options) *rules {
	r := &rules{ports: o.Ports, blocked: map[string]Site{}, open: o.Allow}
	sites := o.Blocked
	if sites == nil {
		sites = blockedSites
	}
	for _, s := range sites {
		host, err := asciiHost(s.Host)
		if err != nil {
			host = strings.ToLower(s.Host)
		}
		r.blocked[host] = s
	}
	return r
}

// address reads a client's URL into the form that is fetched, compared and cached:
// the host in ASCII and small letters, without the usual port and fragment.
func (r *rules) address(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if len(raw) > maxURL {
		return nil, &Error{Reason: BadURL}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, &Error{Reason: BadURL}
	}
	return r.normal(u)
}

func (r *rules) normal(u *url.URL) (*url.URL, error) {
	u.Scheme = strings.ToLower(u.Scheme)
	if u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Opaque != "" || u.Hostname() == "" ||
		len(u.Host)+len(u.Path)+len(u.RawQuery) > maxURL {
		return nil, &Error{Reason: BadURL}
	}
	host, err := asciiHost(u.Hostname())
	if err != nil {
		return nil, &Error{Reason: BadURL}
	}
	if err := r.site(host); err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		port = ""
	}
	if port != "" && !r.port(host, port) {
		return nil, &Error{Reason: BadURL}
	}
	u.Host = host
	if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if port != "" {
		u.Host += ":" + port
	}
	if u.Path == "" {
		u.Path = "/"
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// port says that a host may be asked at a port. The address of a name is not known here;
// the dialer checks it.
func (r *rules) port(host, port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return false
	}
	if len(r.open) > 0 {
		return true
	}
	return slices.Contains(r.ports, uint16(n)) || len(r.ports) == 0 && (n == 80 || n == 443)
}

// site refuses a host that is blocked, or is below one.
func (r *rules) site(host string) error {
	for at := host; at != ""; {
		if s, ok := r.blocked[at]; ok {
			return &Error{Reason: Blocked, Name: s.Host, text: s.Text}
		}
		_, rest, more := strings.Cut(at, ".")
		if !more {
			break
		}
		at = rest
	}
	return nil
}

// asciiHost is a host as it is dialled: hosts that look different to a list ("ｘ.com",
// "X.COM.") are the same to a resolver.
func asciiHost(host string) (string, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String(), nil
	}
	ascii := true
	for i := range len(host) {
		ascii = ascii && host[i] < 0x80
	}
	if ascii {
		return host, nil // underscores and the like exist, although the standard forbids them
	}
	out, err := idna.Lookup.ToASCII(host)
	return strings.TrimSuffix(out, "."), err
}
