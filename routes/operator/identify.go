package operator

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/config"
	"farebox/proxy"
	"farebox/proxy/listen"
)

const (
	headerChange = "X-Farebox-Operator"     // of each change: pages of other origins cannot send it
	headerSecret = "X-Farebox-Proxy-Secret" // of the proxy for single sign-on
	headerReason = "X-Reason"
	tokenPrefix  = "fbo_"
	// wrongTries is how many wrong secrets an address may send a minute. More are refused unread, unless a token was
	// right before.
	wrongTries = 10
	// mostSeen is how many tokens are remembered as right.
	mostSeen = 1024
)

// host refuses names that nobody gave us: a page whose own name leads here (DNS rebinding).
func (a *API) host(ctx *fasthttp.RequestCtx, cfg *config.Operator) *refusal {
	if a.unix {
		return nil
	}
	name := strings.ToLower(string(ctx.Host()))
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.TrimSuffix(strings.Trim(name, "[]"), ".")
	if name == "localhost" || name == a.named || slices.ContainsFunc(cfg.Hosts, func(h string) bool { return strings.EqualFold(h, name) }) {
		return nil
	}
	if ip, err := netip.ParseAddr(name); err == nil && ip.Unmap() == listen.AddrOf(ctx.LocalAddr()) {
		return nil
	}
	return &refusal{status: 421, code: "INVALID_REQUEST", text: "This host name is not ours; add it to operator.hosts"}
}

// change refuses changes that a page of another origin may have sent.
func (a *API) change(ctx *fasthttp.RequestCtx, cfg *config.Operator) *refusal {
	h := &ctx.Request.Header
	if len(h.Peek(headerChange)) == 0 {
		return &refusal{status: 403, code: "FORBIDDEN", text: "A change needs the header " + headerChange + ": 1"}
	}
	if site := h.Peek("Sec-Fetch-Site"); len(site) > 0 && string(site) != "same-origin" && string(site) != "none" {
		return &refusal{status: 403, code: "FORBIDDEN", text: "Pages of other sites may not change anything"}
	}
	if origin := h.Peek("Origin"); len(origin) > 0 && !sameHost(string(origin), string(ctx.Host()), cfg.Hosts) {
		return &refusal{status: 403, code: "FORBIDDEN", text: "Pages of other origins may not change anything"}
	}
	return nil
}

func sameHost(origin, host string, hosts []string) bool {
	_, at, ok := strings.Cut(origin, "://")
	if !ok {
		return false // null, of a page without an origin
	}
	name := at
	if h, _, err := net.SplitHostPort(at); err == nil {
		name = h
	}
	return strings.EqualFold(at, host) || slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// actor is the operator behind a request: of a token, of a socket, or of a trusted proxy.
func (a *API) actor(ctx *fasthttp.RequestCtx, cfg *config.Operator) (by billing.Actor, rejection *refusal) {
	peer := listen.AddrOf(ctx.RemoteAddr())
	from := proxy.Counted(peer)
	h := &ctx.Request.Header
	auth := h.Peek("Authorization")
	user := []byte(nil)
	if cfg.UserHeader != "" {
		user = h.Peek(cfg.UserHeader)
	}
	switch secret, bearer := bytes.CutPrefix(auth, []byte("Bearer ")); {
	case bearer && bytes.HasPrefix(secret, []byte(tokenPrefix)):
		by, rejection = a.token(from, cfg, string(secret))
	case len(user) > 0:
		by, rejection = a.user(peer, h, cfg, user)
	case len(auth) > 0:
		return by, a.wrong(from, "An operator's token begins with "+tokenPrefix+"; farebox operator token create makes one. "+
			"Keys of customers are not taken here")
	default:
		uid, ok := listen.PeerUID(proxy.ClientOf(ctx.Conn()).Conn)
		if !ok || uid != 0 && uid != os.Getuid() {
			return by, unauthorized("Send Authorization: Bearer " + tokenPrefix + "…; farebox operator token create makes a token")
		}
		by = billing.Actor{Name: "uid " + strconv.Itoa(uid), Role: billing.MayOwn, From: "operator socket"}
	}
	if by.From == "" {
		by.From = "operator socket"
		if peer.IsValid() {
			by.From = peer.String()
		}
	}
	return by, rejection
}

// token finds the operator of a token. An address that guesses is refused for a while. Tokens that were right before still pass.
func (a *API) token(from netip.Addr, cfg *config.Operator, secret string) (by billing.Actor, rejection *refusal) {
	if wait := a.tries.Wait(from, wrongTries, time.Now()); wait > 0 && !a.seen.has(secret) {
		return by, tooMany(wait)
	}
	t, err := a.ledger.OperatorToken(secret)
	switch {
	case errors.Is(err, billing.ErrNoToken):
		a.seen.drop(secret)
		return by, a.wrong(from, "This token is unknown, revoked, or at its end")
	case err != nil:
		return by, failed(err)
	}
	a.seen.add(secret)
	by = billing.Actor{Name: t.Name, Role: t.Role, MaxCredit: t.MaxCredit}
	if by.MaxCredit == 0 {
		by.MaxCredit = cfg.MaxCredit
	}
	return by, nil
}

// user is the user that a trusted proxy names.
func (a *API) user(peer netip.Addr, h *fasthttp.RequestHeader, cfg *config.Operator, name []byte) (by billing.Actor, rejection *refusal) {
	from := proxy.Counted(peer)
	if !cfg.Trusts(peer) {
		return by, unauthorized("This address may not name users; it is not among operator.trusted_proxies")
	}
	if wait := a.tries.Wait(from, wrongTries, time.Now()); wait > 0 {
		return by, tooMany(wait)
	}
	if len(h.PeekAll(cfg.UserHeader)) > 1 || len(h.PeekAll(headerSecret)) != 1 ||
		subtle.ConstantTimeCompare(h.Peek(headerSecret), []byte(cfg.ProxySecret)) != 1 || cfg.ProxySecret == "" {
		return by, a.wrong(from, "The proxy's "+headerSecret+" is not operator.proxy_secret")
	}
	role, ok := cfg.Users[string(name)]
	if !ok {
		return by, &refusal{status: 403, code: "FORBIDDEN", text: "This user has no role; add it to operator.users"}
	}
	by = billing.Actor{Name: string(name), MaxCredit: cfg.MaxCredit}
	return by, failed(by.Role.UnmarshalText([]byte(role)))
}

// wrong counts a wrong secret of an address.
func (a *API) wrong(from netip.Addr, text string) *refusal {
	if wait := a.tries.Take(from, wrongTries, time.Now()); wait > 0 {
		return tooMany(wait)
	}
	a.log.Warn().Str("from", from.String()).Msg("an operator's secret is wrong")
	return unauthorized(text)
}

func unauthorized(text string) *refusal {
	return &refusal{status: 401, code: "AUTHENTICATION_FAILED", text: text}
}

func tooMany(wait time.Duration) *refusal {
	return &refusal{status: 429, code: "RATE_LIMIT_EXCEEDED", text: "Too many wrong secrets came from this address", wait: wait}
}
