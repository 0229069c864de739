package routes

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"farebox/config"
	"farebox/providers/x402"
)

// withCORS lets pages of the origins that the operator named (cors.origins) call
// the API. Preflights are answered here: they carry no key.
func (g *Gateway) withCORS(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		snap := g.live.Load()
		if snap.cors == nil {
			next(ctx)
			return
		}
		origin := ctx.Request.Header.Peek("Origin")
		allowed := len(origin) > 0 && snap.cors.allows(origin)
		if allowed && ctx.IsOptions() && len(ctx.Request.Header.Peek("Access-Control-Request-Method")) > 0 {
			snap.cors.preflight(ctx)
		} else {
			next(ctx)
		}
		ctx.Response.Header.Add("Vary", "Origin")
		if allowed {
			ctx.Response.Header.SetBytesV("Access-Control-Allow-Origin", origin)
			ctx.Response.Header.SetBytesV("Access-Control-Expose-Headers", snap.cors.expose)
		}
	}
}

// crossOrigin is the cors group of the config.
type crossOrigin struct {
	origins       [][]byte
	any, loopback bool
	expose        []byte
	maxAge        string
}

func newCrossOrigin(c *config.CORS, s *snapshot) *crossOrigin {
	if len(c.Origins) == 0 {
		return nil
	}
	o := &crossOrigin{maxAge: strconv.Itoa(int(c.MaxAge.Seconds()))}
	for _, origin := range c.Origins {
		switch origin {
		case "*":
			o.any = true
		case config.LoopbackOrigins:
			o.loopback = true
		default:
			o.origins = append(o.origins, []byte(strings.ToLower(origin)))
		}
	}
	list := slices.Clone(c.Expose)
	for _, name := range [][]byte{
		headerRequestID, headerLimitRequests, headerRemainingRequests, headerResetRequests, headerLimitTokens,
		headerRemainingTokens, headerResetTokens,
		s.names.modelID, s.names.modelName, s.names.balanceUSD, s.names.balanceDIEM,
	} {
		list = append(list, string(name))
	}
	if s.wallets != nil {
		list = append(list, x402.HeaderRequired, x402.HeaderResponse, x402.HeaderResponseV1, headerBalanceLeft)
	}
	for i := range s.views {
		for _, name := range s.views[i].Headers {
			list = append(list, string(name))
		}
	}
	o.expose = []byte(strings.Join(append(list, "Retry-After", "Idempotent-Replayed"), ", "))
	return o
}

func (o *crossOrigin) allows(origin []byte) bool {
	if o.any {
		return true
	}
	lower := bytes.ToLower(origin)
	for _, allowed := range o.origins {
		if bytes.Equal(allowed, lower) {
			return true
		}
	}
	return o.loopback && isLoopbackOrigin(string(lower))
}

func isLoopbackOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" {
		return false
	}
	host := u.Hostname()
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// corsMethods are the methods that pages may use.
const corsMethods = "GET, POST, PATCH, DELETE"

// preflight allows a page the method and headers that it asked for.
func (o *crossOrigin) preflight(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	h.Set("Access-Control-Allow-Methods", corsMethods)
	if asked := ctx.Request.Header.Peek("Access-Control-Request-Headers"); isHeaderList(asked) {
		h.SetBytesV("Access-Control-Allow-Headers", asked)
	} else {
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, "+walletHeaders)
	}
	h.Set("Access-Control-Max-Age", o.maxAge)
	h.Add("Vary", "Access-Control-Request-Headers")
}

// isHeaderList says that a client's list of header names can be repeated.
func isHeaderList(list []byte) bool {
	if len(list) == 0 || len(list) > 2048 {
		return false
	}
	for _, c := range list {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == ',' ||
			c == ' ') {
			return false
		}
	}
	return true
}
