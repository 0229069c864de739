package routes

import (
	"bytes"
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

type route struct {
	method string
	path   string // below prefix
	access access
	// operation is the OpenTelemetry gen_ai.operation.name of inference routes;
	// empty for the others.
	operation string
	serve     handler
}

// prefix stands before every path of the API (interface.md, Versioning).
const prefix = "/api/v1"

var table = []route{
	{"POST", "/chat/completions", bearer, "chat", serveChat},
	{"POST", "/embeddings", bearer, "embeddings", serveEmbeddings},
	{"POST", "/image/generate", bearer, "image_generation", serveGenerate},
	{"POST", "/image/edit", bearer, "image_edit", serveEdit},
	{"POST", "/image/multi-edit", bearer, "image_edit", serveMultiEdit},
	{"POST", "/image/upscale", bearer, "image_edit", serveUpscale},
	{"POST", "/images/upscale", bearer, "image_edit", serveExtraUpscale},
	{"POST", "/image/background-remove", bearer, "image_edit", serveCutOut},
	{"GET", "/image/styles", catalog, "", serveStyles},
	{"POST", "/images/generations", bearer, "image_generation", serveGenerations},
	{"POST", "/images/edits", bearer, "image_edit", serveSimpleEdit},
	{"GET", "/models", catalog, "", serveModels},
	{"GET", "/models/traits", catalog, "", serveTraits},
	{"GET", "/models/compatibility_mapping", catalog, "", serveCompatibility},
	{"GET", "/models/{id:*}", catalog, "", serveModel},
	{"GET", "/api_keys", admin, "", serveKeys},
	{"POST", "/api_keys", admin, "", createKey},
	{"PATCH", "/api_keys", admin, "", updateKey},
	{"DELETE", "/api_keys", admin, "", deleteKey},
	{"GET", "/api_keys/generate_web3_key", public, "", serveWeb3Token},
	{"POST", "/api_keys/generate_web3_key", public, "", createWeb3Key},
	{"GET", "/api_keys/{id}", admin, "", serveKey},
	{"GET", "/api_keys/rate_limits", bearer, "", serveRateLimits},
	{"GET", "/api_keys/rate_limits/log", admin, "", serveRateLimitLog},
	{"GET", "/billing/balance", admin, "", serveBalance},
	{"GET", "/billing/usage", admin, "", serveUsage},
	{"GET", "/billing/usage-history", admin, "", serveHistory},
	{"GET", "/billing/usage-analytics", admin, "", serveAnalytics},
	{"GET", "/crypto/rpc/networks", public, "", serveNetworks},
	{"POST", "/crypto/rpc/{network}", bearer, "", serveRPC},
}

// isPublic says whether a request needs no credential.
func isPublic(ctx *fasthttp.RequestCtx) bool {
	for i := range table {
		row := &table[i]
		if path, ok := bytes.CutPrefix(ctx.Path(), []byte(prefix)); ok && row.access == public && string(path) == row.path && string(ctx.Method()) == row.method {
			return true
		}
	}
	return false
}

// handler builds the router once. Redirects are off: they would answer a POST
// with a 308 whose target is built from the client's Host header.
func (g *Gateway) newRouter() fasthttp.RequestHandler {
	r := router.New()
	r.RedirectTrailingSlash = false
	r.RedirectFixedPath = false
	r.HandleOPTIONS = false
	r.HandleMethodNotAllowed = true
	r.SaveMatchedRoutePath = false
	for i := range table {
		row := &table[i]
		r.Handle(row.method, prefix+row.path, func(ctx *fasthttp.RequestCtx) { g.serve(ctx, row) })
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
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		g.refuse(ctx, errNoEndpoint(ctx))
	}
	r.MethodNotAllowed = func(ctx *fasthttp.RequestCtx) {
		// The router lists OPTIONS always, and it is not served.
		methods := strings.Split(string(ctx.Response.Header.Peek("Allow")), ", ")
		allow := strings.Join(slices.DeleteFunc(methods, func(m string) bool { return m == "OPTIONS" }), ", ")
		ctx.Response.Header.Set("Allow", allow)
		g.refuse(ctx, &Error{Status: 405, Code: "METHOD_NOT_ALLOWED", Message: "Method " + excerpt(ctx.Method()) + " is not allowed here; allowed: " + allow + "."})
	}
	return g.withCORS(g.callsFirst(r.Handler))
}

func errNoEndpoint(ctx *fasthttp.RequestCtx) *Error {
	return &Error{Status: 404, Code: "NOT_FOUND", Message: "No such endpoint: " + excerpt(ctx.Method()) + " " + excerpt(ctx.Path()) + ". Paths start with " + prefix + "/."}
}

// rowOf finds a row of the table.
func rowOf(method, path string) *route {
	for i := range table {
		if row := &table[i]; row.method == method && row.path == path {
			return row
		}
	}
	return nil
}
