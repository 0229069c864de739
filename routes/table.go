package routes

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"farebox/config"
)

// Access is the credential a route asks for (addendum 3.2).
type Access uint8

const (
	Public  Access = iota // no credential
	Catalog               // a key, unless compat.public_catalog opens it (design.md 7)
	Bearer                // any live key
	Admin                 // a key of type ADMIN
)

// Handler serves one request. A returned error is written by the caller.
type Handler func(c *Call) *Error

// Form is the kind of body of a route.
type Form uint8

const (
	NoBody     Form = iota // a body is not looked at
	JSONBody               // an object of JSON
	JSONOrNone             // the same, or nothing
	JSONOrForm             // the same members in JSON or as multipart/form-data
	FormBody               // multipart/form-data only
	RawJSON                // any JSON, read by the route itself; the type may be listed twice
)

// Limit is how many bytes of a body a route takes.
type Limit func(*config.Config) int

// maxBody is the limit of most routes.
func maxBody(cfg *config.Config) int { return int(cfg.Server.MaxBody) }

// SmallBody is far more than any body needs that has neither text for a model
// nor a picture.
func SmallBody(*config.Config) int { return 16 << 10 }

// RateClass is which limits the requests of a route count in, beside those of
// their key and account. nil: none.
type RateClass struct {
	// Name is in the log of refusals and in the list of limits.
	Name string
	// Rate is the limit of all requests of the class together, and offered says that the config
	// sells the product of its routes. nil: Rate is not one for all.
	Rate func(*config.Config) (rate *config.Rate, offered bool)
}

// classWindow is where the requests of a class are counted under a config, and their
// limit; nil: they have none.
type classWindow struct {
	slot int
	rate *config.Rate
}

// ByModel are the limits of the model that serves a request.
var ByModel = &RateClass{Name: "model"}

// Row is one row of the table: all that is known of an endpoint before its handler runs. Only the
// row knows its endpoint's settings.
type Row struct {
	Method string
	Path   string // below prefix
	Access Access
	// Wallet says that a wallet which signed in may ask in the place of a key, where
	// x402.inference is on (addendum 3.2).
	Wallet bool
	// Payment says that a payment header is read; others are refused with one
	// (addendum 14.3).
	Payment bool
	Form    Form
	Limit   Limit // nil: maxBody
	// FormLimit is that of multipart bodies, where those may have more.
	FormLimit Limit
	Rate      *RateClass
	// Counts are further classes that some of its requests count in (Call.Count).
	Counts []*RateClass
	// Errors is how its errors are written; nil: as the client understands them.
	Errors ErrorShape
	// KeyHeader is where the key may stand instead of in Authorization; empty: nowhere.
	KeyHeader string
	// Rules are those of the body under a config; nil if absent, or the route
	// reads it itself.
	Rules  func(*config.Config) *Rulebook
	Params Params // of the query
	// Operation is the OpenTelemetry gen_ai.operation.name of inference routes;
	// empty for the others.
	Operation string
	// Offered says that the config has the route; nil: each has.
	Offered func(*config.Config) bool
	Serve   Handler
	// Each names the values of the path's parameter that have a path of their
	// own, which costs no allocation, by the Own of the capability's view; nil: none.
	Each func(own any) []string

	of   Capability
	slot int // of its failures without a model, below 0
}

// mistake says how a row contradicts itself; empty: it does not.
func (r *Row) mistake() string {
	takes := r.Method == "POST" || r.Method == "PATCH"
	switch {
	case r.Method != "HEAD" && !slices.Contains(strings.Split(corsMethods, ", "), r.Method):
		return "pages of other origins may not use this method"
	case takes && r.Form == NoBody, r.Method == "GET" && r.Form != NoBody:
		return "its form is not one of its method"
	case r.FormLimit != nil && r.Form != JSONOrForm:
		return "it has a limit for forms and accepts none"
	case r.Wallet && r.Access != Bearer && r.Access != Catalog:
		return "a wallet has no key of another type"
	case r.Access == Public && r.Limit == nil:
		return "clients without a key may send as much as others"
	case r.Rules == nil && r.Form != NoBody && r.Form != RawJSON:
		return "its body has no rules"
	case (r.Operation != "") != (r.Rate == ByModel):
		return "it is an operation of a model without a model's limits, or the reverse"
	}
	return ""
}

// rowNames are the methods and paths of rows.
func rowNames(rows []Row) (names []string) {
	for i := range rows {
		names = append(names, rows[i].Method+" "+rows[i].Path)
	}
	return names
}

// fixed is the part of a route's path before its parameter.
func (r *Row) fixed() string {
	before, _, _ := strings.Cut(r.Path, "{")
	return before
}

// most is how many bytes of a body the route takes.
func (r *Row) most(cfg *config.Config) int {
	if r.Limit == nil {
		return maxBody(cfg)
	}
	return r.Limit(cfg)
}

// Always is for rules that are the same under every config.
func Always(b *Rulebook) func(*config.Config) *Rulebook {
	return func(*config.Config) *Rulebook { return b }
}

// Prefix precedes every path of the API (interface.md, Versioning). Alias is another
// one that many clients have, unless compat.v1_alias is off.
const (
	Prefix = "/api/v1"
	Alias  = "/v1"
)

// below is a path without the API's prefix; false if absent.
func below(path []byte) ([]byte, bool) {
	if rest, ok := bytes.CutPrefix(path, ViewBytes(Prefix)); ok {
		return rest, true
	}
	return bytes.CutPrefix(path, ViewBytes(Alias))
}

// probe is a path beside the API, for the operators of the gateway.
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

// offeredClasses are the rate classes with a limit for all their requests whose product the
// config sells.
func (g *Gateway) offeredClasses(cfg *config.Config) (list []*RateClass) {
	for i := range g.rows {
		row := &g.rows[i]
		for _, class := range append([]*RateClass{row.Rate}, row.Counts...) {
			if class == nil || class.Rate == nil || slices.Contains(list, class) {
				continue
			}
			if _, offered := class.Rate(cfg); offered {
				list = append(list, class)
			}
		}
	}
	return list
}

// directory finds the row of a request.
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
	for i := range g.rows {
		row := &g.rows[i]
		paths := []string{Prefix + row.Path}
		if row.Each != nil {
			for _, value := range row.Each(g.stateOf(s, row.of)) {
				paths = append(paths, Prefix+row.fixed()+value)
			}
		}
		if *s.cfg.Compat.V1Alias {
			for _, path := range slices.Clone(paths) {
				paths = append(paths, Alias+strings.TrimPrefix(path, Prefix))
			}
		}
		for _, path := range paths {
			d.serve.Handle(row.Method, path, func(ctx *fasthttp.RequestCtx) { g.serve(ctx, row) })
			d.find.Handle(row.Method, path, func(ctx *fasthttp.RequestCtx) { ctx.SetUserValue(foundRow{}, row) })
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
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		e := d.missing(ctx)
		if ctx.IsOptions() && e.Status == fasthttp.StatusMethodNotAllowed {
			g.answerOptions(ctx)
			return
		}
		g.refuse(ctx, e)
	}
	return d
}

// foundRow is the name of the row that find noted.
type foundRow struct{}

// rowOf is the row that a request will have, nil for none. It is for decisions before the handler
// runs.
func (g *Gateway) rowOf(ctx *fasthttp.RequestCtx) *Row {
	note, _ := g.live.Load().directory.find.Lookup(string(ctx.Method()), string(ctx.Request.URI().PathOriginal()), nil)
	if note == nil {
		return nil
	}
	note(ctx)
	row, _ := ctx.UserValue(foundRow{}).(*Row)
	return row
}

// missing is the answer to a request without a row: 405 where another method
// has one.
func (d *directory) missing(ctx *fasthttp.RequestCtx) *Error {
	if words := unserved(ctx.Path()); words != "" {
		e := NoEndpoint(ctx)
		e.Message = words
		return e
	}
	var allowed []string
	for method := range d.serve.List() {
		if found, _ := d.serve.Lookup(method, string(ctx.Request.URI().PathOriginal()), nil); found != nil {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return NoEndpoint(ctx)
	}
	allowed = append(allowed, "OPTIONS")
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	ctx.Response.Header.Set("Allow", allow)
	return &Error{Status: 405, Code: "METHOD_NOT_ALLOWED", Message: "Method " + Excerpt(ctx.Method()) +
		" is not allowed here; allowed: " + allow + "."}
}

// answerOptions tells the methods of a path, which the header Allow lists already.
func (g *Gateway) answerOptions(ctx *fasthttp.RequestCtx) {
	c := g.calls.Get().(*Call)
	c.begin(ctx, nil)
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	c.end()
}

// isGemini says whether a path is one of Google's, such as
// /v1beta/models/gemini-2.5-pro:generateContent.
func isGemini(path []byte) bool {
	_, method, _ := bytes.Cut(path, []byte("/models/"))
	_, verb, _ := bytes.Cut(method, []byte(":"))
	switch string(verb) {
	case "generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents", "predict":
		return true
	}
	return bytes.Contains(path, []byte("/v1beta/")) || bytes.Contains(path, []byte("/v1alpha/"))
}

// others are endpoints of other APIs, which clients try, and what to do instead.
var others = map[string]string{
	"completions": "send messages to " + Prefix + "/chat/completions", "engines": "send messages to " + Prefix + "/chat/completions",
	"moderations": "", "rerank": "", "assistants": "use " + Prefix + "/responses", "threads": "use " + Prefix + "/responses",
	"conversations": "use " + Prefix + "/responses", "batches": "", "files": "", "uploads": "", "fine_tuning": "", "vector_stores": "",
	"realtime": "", "videos": "use " + Prefix + "/video/queue", "containers": "", "evals": "",
	"images/variations":  "send the picture with a prompt to " + Prefix + "/images/edits",
	"audio/translations": "use " + Prefix + "/audio/transcriptions, and a chat to translate",
	"responses/compact":  "send the whole conversation as input", "responses/input_tokens": "use " + Prefix + "/messages/count_tokens",
}

// unserved says that a path is of another API; empty: it is of none that is known.
func unserved(path []byte) string {
	if isGemini(path) {
		return "Gemini's own API is not spoken here. All chat models answer to clients of OpenAI at " + Prefix +
			" and of Anthropic at " + strings.TrimSuffix(Prefix, "/v1") + "."
	}
	_, rest, _ := bytes.Cut(path, []byte("/v1/"))
	if id, ok := bytes.CutPrefix(rest, []byte("chat/completions/")); ok && len(id) > 0 {
		return "Chat completions are not stored here; keep the answers that you want to read again."
	}
	name, below, _ := bytes.Cut(rest, []byte("/"))
	instead, known := others[string(name)]
	if !known {
		below, _, _ = bytes.Cut(below, []byte("/"))
		name = slices.Concat(name, []byte("/"), below)
		instead, known = others[string(name)]
	}
	if !known {
		return ""
	}
	words := "/" + string(name) + " is not served here"
	if instead != "" {
		words += "; " + instead
	}
	return words + "."
}

// NoEndpoint is the answer to a path that there is not.
func NoEndpoint(ctx *fasthttp.RequestCtx) *Error {
	return &Error{Status: 404, Code: "NOT_FOUND", Message: "No such endpoint: " + Excerpt(ctx.Method()) + " " +
		Excerpt(ctx.Path()) + ". Paths start with " + Prefix + "/."}
}
