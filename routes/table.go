package routes

import (
	"slices"
	"strings"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"farebox/config"
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

// form is what a route takes as a body.
type form uint8

const (
	noBody     form = iota // what comes is not looked at
	jsonBody               // an object of JSON
	jsonOrNone             // the same, or nothing
	jsonOrForm             // the same members in JSON or as multipart/form-data
	rawJSON                // any JSON, read by the route itself; the type may be listed twice
)

// limit is how many bytes of a body a route takes.
type limit func(*config.Config) int

// maxBody is the limit of most routes.
func maxBody(cfg *config.Config) int { return int(cfg.Server.MaxBody) }

// smallBody is far more than any body needs that has neither text for a model
// nor a picture.
func smallBody(*config.Config) int { return 16 << 10 }

// rateClass is which limits the requests of a route count in, beside those of
// their key and account. nil: none.
type rateClass struct {
	// name stands in the log of refusals and in the list of limits.
	name string
	// rate is the limit of all requests of the class together, and offered says
	// that the config sells what they ask for. nil: rate is not one for all.
	rate func(*config.Config) (rate *config.Rate, offered bool)
}

// byModel are the limits of the model that serves a request.
var byModel = &rateClass{name: "model"}

// route is one row of the table: all that is known of an endpoint before its
// handler runs. What depends on the endpoint is asked of it and of nothing else.
type route struct {
	method string
	path   string // below prefix
	access access
	form   form
	limit  limit // nil: maxBody
	// formLimit is that of multipart bodies, where those may have more.
	formLimit limit
	rate      *rateClass
	errors    errorShape
	// operation is the OpenTelemetry gen_ai.operation.name of inference routes;
	// empty for the others.
	operation string
	// offered says that the config has the route; nil: each has.
	offered func(*config.Config) bool
	serve   handler
	// each names the values of the path's parameter that have a path of their
	// own, which costs no allocation; nil: none.
	each func(*snapshot) []string
}

// fixed is what stands in the paths of a route before their parameter.
func (r *route) fixed() string {
	before, _, _ := strings.Cut(r.path, "{")
	return before
}

// most is how many bytes of a body the route takes.
func (r *route) most(cfg *config.Config) int {
	if r.limit == nil {
		return maxBody(cfg)
	}
	return r.limit(cfg)
}

// prefix stands before every path of the API (interface.md, Versioning).
const prefix = "/api/v1"

var table = []route{
	{
		method: "POST", path: "/chat/completions", access: bearer, form: jsonBody,
		rate: byModel, operation: "chat", serve: serveChat,
	},
	{
		method: "POST", path: "/embeddings", access: bearer, form: jsonBody,
		rate: byModel, operation: "embeddings", serve: serveEmbeddings,
	},
	{
		method: "POST", path: "/image/generate", access: bearer, form: jsonBody,
		rate: byModel, operation: "image_generation", serve: serveGenerate,
	},
	{
		method: "POST", path: "/image/edit", access: bearer, form: jsonOrForm,
		rate: byModel, operation: "image_edit", serve: serveEdit,
	},
	{
		method: "POST", path: "/image/multi-edit", access: bearer, form: jsonOrForm,
		formLimit: severalPictures, rate: byModel, operation: "image_edit", serve: serveMultiEdit,
	},
	{
		method: "POST", path: "/image/upscale", access: bearer, form: jsonOrForm,
		rate: byModel, operation: "image_edit", serve: serveUpscale,
	},
	{
		method: "POST", path: "/images/upscale", access: bearer, form: jsonOrForm,
		rate: byModel, operation: "image_edit", offered: openAIExtras, serve: serveUpscale,
	},
	{
		method: "POST", path: "/image/background-remove", access: bearer, form: jsonOrForm,
		rate: byModel, operation: "image_edit", serve: serveCutOut,
	},
	{method: "GET", path: "/image/styles", access: catalog, form: noBody, serve: serveStyles},
	{
		method: "POST", path: "/images/generations", access: bearer, form: jsonBody,
		rate: byModel, operation: "image_generation", serve: serveGenerations,
	},
	{
		method: "POST", path: "/images/edits", access: bearer, form: jsonOrForm,
		formLimit: severalPictures, rate: byModel, operation: "image_edit", serve: serveSimpleEdit,
	},
	{method: "GET", path: "/models", access: catalog, form: noBody, serve: serveModels},
	{method: "GET", path: "/models/traits", access: catalog, form: noBody, serve: serveTraits},
	{method: "GET", path: "/models/compatibility_mapping", access: catalog, form: noBody, serve: serveCompatibility},
	{method: "GET", path: "/models/{id:*}", access: catalog, form: noBody, serve: serveModel},
	{method: "GET", path: "/api_keys", access: admin, form: noBody, serve: serveKeys},
	{method: "POST", path: "/api_keys", access: admin, form: jsonBody, limit: smallBody, serve: createKey},
	{method: "PATCH", path: "/api_keys", access: admin, form: jsonBody, limit: smallBody, serve: updateKey},
	{method: "DELETE", path: "/api_keys", access: admin, form: jsonOrNone, limit: smallBody, serve: deleteKey},
	{
		method: "GET", path: "/api_keys/generate_web3_key", access: public, form: noBody,
		limit: smallBody, rate: byAddress, serve: serveWeb3Token,
	},
	{
		method: "POST", path: "/api_keys/generate_web3_key", access: public, form: jsonBody,
		limit: smallBody, rate: byAddress, serve: createWeb3Key,
	},
	{method: "GET", path: "/api_keys/{id}", access: admin, form: noBody, serve: serveKey},
	{method: "GET", path: "/api_keys/rate_limits", access: bearer, form: noBody, serve: serveRateLimits},
	{method: "GET", path: "/api_keys/rate_limits/log", access: admin, form: noBody, serve: serveRateLimitLog},
	{method: "GET", path: "/billing/balance", access: admin, form: noBody, serve: serveBalance},
	{method: "GET", path: "/billing/usage", access: admin, form: noBody, serve: serveUsage},
	{method: "GET", path: "/billing/usage-history", access: admin, form: noBody, serve: serveHistory},
	{method: "GET", path: "/billing/usage-analytics", access: admin, form: noBody, serve: serveAnalytics},
	{method: "GET", path: "/crypto/rpc/networks", access: public, form: noBody, limit: smallBody, serve: serveNetworks},
	{
		method: "POST", path: "/crypto/rpc/{network}", access: bearer, form: rawJSON,
		limit: rpcBody, rate: byCredits, serve: serveRPC, each: func(s *snapshot) []string { return s.rpc.names },
	},
}

// probe is a path beside the API, for those who run the gateway.
type probe struct {
	methods []string
	path    string
	serve   func(*Gateway, *fasthttp.RequestCtx)
	offered func(*Gateway) bool // nil: always
}

var (
	metricsProbe = probe{
		methods: []string{"GET"}, path: "/metrics", serve: (*Gateway).ServeMetrics,
		offered: func(g *Gateway) bool { return g.metricsHere },
	}
	probes = []probe{
		{methods: []string{"GET", "HEAD"}, path: "/healthz", serve: (*Gateway).serveHealth},
		{methods: []string{"GET", "HEAD"}, path: "/readyz", serve: (*Gateway).serveReady},
		metricsProbe,
	}
)

// offeredClasses are the rate classes with a limit for all their requests, of
// what the config sells.
func offeredClasses(cfg *config.Config) (list []*rateClass) {
	for i := range table {
		class := table[i].rate
		if class == nil || class.rate == nil || slices.Contains(list, class) {
			continue
		}
		if _, offered := class.rate(cfg); offered {
			list = append(list, class)
		}
	}
	return list
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
			for _, value := range row.each(s) {
				paths = append(paths, prefix+row.fixed()+value)
			}
		}
		for _, path := range paths {
			d.serve.Handle(row.method, path, func(ctx *fasthttp.RequestCtx) { g.serve(ctx, row) })
			d.find.Handle(row.method, path, func(ctx *fasthttp.RequestCtx) { ctx.SetUserValue(foundRow{}, row) })
		}
	}
	for _, p := range probes {
		if p.offered != nil && !p.offered(g) {
			continue
		}
		for _, method := range p.methods {
			r.Handle(method, p.path, func(ctx *fasthttp.RequestCtx) { p.serve(g, ctx) })
		}
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
