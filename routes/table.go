package routes

import (
	"slices"
	"strings"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
)

// access is the credential a route asks for (addendum 3.2).
type access uint8

const (
	public  access = iota // no credential
	catalog               // a key, unless compat.public_catalog opens it (design.md 7)
	bearer                // any live key
	admin                 // a key of type ADMIN
)

// handler serves one request. A returned error is written by the caller.
type handler func(g *Gateway, c *Call) *Error

// body is what a route takes of a body.
type body uint8

const (
	small body = iota // what needs no key gets no more than that
	plain             // up to server.max_body
	forms             // the same, or a form with several pictures
)

type route struct {
	method string
	path   string // below prefix
	access access
	body   body
	// operation is the OpenTelemetry gen_ai.operation.name of inference routes;
	// empty for the others.
	operation string
	serve     handler
	// each names the values of the path's parameter that have a path of their
	// own, which costs no allocation; nil: none.
	each func(*snapshot) []string
}

// prefix stands before every path of the API (interface.md, Versioning).
const prefix = "/api/v1"

var table = []route{
	{"POST", "/chat/completions", bearer, plain, "chat", serveChat, nil},
	{"POST", "/embeddings", bearer, plain, "embeddings", serveEmbeddings, nil},
	{"POST", "/image/generate", bearer, plain, "image_generation", serveGenerate, nil},
	{"POST", "/image/edit", bearer, plain, "image_edit", serveEdit, nil},
	{"POST", "/image/multi-edit", bearer, forms, "image_edit", serveMultiEdit, nil},
	{"POST", "/image/upscale", bearer, plain, "image_edit", serveUpscale, nil},
	{"POST", "/images/upscale", bearer, plain, "image_edit", serveExtraUpscale, nil},
	{"POST", "/image/background-remove", bearer, plain, "image_edit", serveCutOut, nil},
	{"GET", "/image/styles", catalog, plain, "", serveStyles, nil},
	{"POST", "/images/generations", bearer, plain, "image_generation", serveGenerations, nil},
	{"POST", "/images/edits", bearer, forms, "image_edit", serveSimpleEdit, nil},
	{"GET", "/models", catalog, plain, "", serveModels, nil},
	{"GET", "/models/traits", catalog, plain, "", serveTraits, nil},
	{"GET", "/models/compatibility_mapping", catalog, plain, "", serveCompatibility, nil},
	{"GET", "/models/{id:*}", catalog, plain, "", serveModel, nil},
	{"GET", "/api_keys", admin, plain, "", serveKeys, nil},
	{"POST", "/api_keys", admin, plain, "", createKey, nil},
	{"PATCH", "/api_keys", admin, plain, "", updateKey, nil},
	{"DELETE", "/api_keys", admin, plain, "", deleteKey, nil},
	{"GET", "/api_keys/generate_web3_key", public, small, "", serveWeb3Token, nil},
	{"POST", "/api_keys/generate_web3_key", public, small, "", createWeb3Key, nil},
	{"GET", "/api_keys/{id}", admin, plain, "", serveKey, nil},
	{"GET", "/api_keys/rate_limits", bearer, plain, "", serveRateLimits, nil},
	{"GET", "/api_keys/rate_limits/log", admin, plain, "", serveRateLimitLog, nil},
	{"GET", "/billing/balance", admin, plain, "", serveBalance, nil},
	{"GET", "/billing/usage", admin, plain, "", serveUsage, nil},
	{"GET", "/billing/usage-history", admin, plain, "", serveHistory, nil},
	{"GET", "/billing/usage-analytics", admin, plain, "", serveAnalytics, nil},
	{"GET", "/crypto/rpc/networks", public, small, "", serveNetworks, nil},
	{"POST", "/crypto/rpc/{network}", bearer, plain, "", serveRPC, func(s *snapshot) []string { return s.rpc.names }},
}

// directory is what leads a request to its row.
type directory struct {
	serve *router.Router // by the row's handler
	find  *router.Router // its handlers note the row
}

// newDirectory builds the routers of a snapshot. Redirects are off: they would
// answer a POST with a 308 whose target is built from the client's Host header.
func (g *Gateway) newDirectory(s *snapshot) *directory {
	d := &directory{serve: router.New(), find: router.New()}
	r := d.serve
	r.RedirectTrailingSlash = false
	r.RedirectFixedPath = false
	r.HandleOPTIONS = false
	r.HandleMethodNotAllowed = false
	r.SaveMatchedRoutePath = false
	for i := range table {
		row := &table[i]
		paths := []string{prefix + row.path}
		if row.each != nil {
			fixed, _, _ := strings.Cut(row.path, "{")
			for _, value := range row.each(s) {
				paths = append(paths, prefix+fixed+value)
			}
		}
		for _, path := range paths {
			d.serve.Handle(row.method, path, func(ctx *fasthttp.RequestCtx) { g.serve(ctx, row) })
			d.find.Handle(row.method, path, func(ctx *fasthttp.RequestCtx) { ctx.SetUserValue(foundRow{}, row) })
		}
	}
	for _, probe := range []struct {
		path  string
		serve fasthttp.RequestHandler
	}{{"/healthz", g.serveHealth}, {"/readyz", g.serveReady}} {
		r.GET(probe.path, probe.serve)
		r.HEAD(probe.path, probe.serve)
	}
	if g.metricsHere {
		r.GET("/metrics", g.ServeMetrics)
	}
	r.NotFound = func(ctx *fasthttp.RequestCtx) { g.refuse(ctx, d.missing(ctx)) }
	return d
}

// foundRow is the name of the row that find noted.
type foundRow struct{}

// rowOf is the row that a request will have, nil for none. It is for what is
// decided before the handler runs.
func (g *Gateway) rowOf(ctx *fasthttp.RequestCtx) *route {
	note, _ := g.live.Load().directory.find.Lookup(string(ctx.Method()), string(ctx.Request.URI().PathOriginal()), nil)
	if note == nil {
		return nil
	}
	note(ctx)
	row, _ := ctx.UserValue(foundRow{}).(*route)
	return row
}

// missing is the answer to a request without a row: 405 where another method
// has one.
func (d *directory) missing(ctx *fasthttp.RequestCtx) *Error {
	var allowed []string
	for method := range d.serve.List() {
		if found, _ := d.serve.Lookup(method, string(ctx.Request.URI().PathOriginal()), nil); found != nil {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return errNoEndpoint(ctx)
	}
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	ctx.Response.Header.Set("Allow", allow)
	return &Error{Status: 405, Code: "METHOD_NOT_ALLOWED", Message: "Method " + excerpt(ctx.Method()) + " is not allowed here; allowed: " + allow + "."}
}

func errNoEndpoint(ctx *fasthttp.RequestCtx) *Error {
	return &Error{Status: 404, Code: "NOT_FOUND", Message: "No such endpoint: " + excerpt(ctx.Method()) + " " + excerpt(ctx.Path()) + ". Paths start with " + prefix + "/."}
}
