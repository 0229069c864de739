package routes

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/billing/job"
	"farebox/billing/payment"
	"farebox/config"
	"farebox/config/fair"
	"farebox/providers"
	"farebox/providers/media"
	"farebox/proxy"
)

// Options are the parts a Gateway connects.
type Options struct {
	Ledger  *billing.Ledger
	Proxy   *proxy.Proxy
	Log     zerolog.Logger
	Version string // build stamp, YYYYMMDD.HHMMSS (addendum 3.7)
	// Media keeps the results of jobs; nil: no jobs are taken. Maker, if not nil, drives jobs
	// instead of the dialects of the catalog's targets.
	Media media.Store
	Maker job.Maker
	// Payments, if not nil, is asked about payments in place of the config's facilitators
	// and chains.
	Payments PaymentClient
}

// Gateway answers requests. Its parts live as long as the process; the settings that the operator
// may change at run time are in a snapshot that Reload swaps whole.
type Gateway struct {
	ledger  *billing.Ledger
	proxy   *proxy.Proxy
	log     zerolog.Logger
	version []byte
	started time.Time
	uploads *proxy.Uploads

	capabilities []Capability
	rows         []Row

	live     atomic.Pointer[snapshot]
	handler  fasthttp.RequestHandler
	calls    sync.Pool
	reloads  sync.Mutex
	steering sync.Mutex
	balances balances
	draining atomic.Bool
	leaving  atomic.Bool
	unready  atomic.Bool // the last answer of /readyz was that the ledger cannot record
	ailing   atomic.Bool // it was that the ledger can record, but not for long

	finishes *fair.Space // requests with an idempotency key that go on without their client
	serving  atomic.Bool // Warm was called

	jobs  *job.Machine // nil: none are taken
	media media.Store

	payments         *payment.Machine
	newPaymentClient func(cfg *config.Config, catalog *providers.Catalog, before PaymentClient) (PaymentClient, error)
	contracts        contracts
	unpaid           *fair.Budget // processor time of children
	anonymous        PerMinute[anonymousClient]

	metricsHere bool
	metrics     *meters
	sampler     sampler
}

// snapshot is one immutable view of the config, with all objects built from it.
type snapshot struct {
	cfg       *config.Config
	catalog   *providers.Catalog
	names     headerNames
	cors      *crossOrigin   // nil: no page may call
	views     []View         // by the gateway's capabilities
	models    []*modelMeters // by catalog index of the model
	classes   []*RateClass   // that have limits of their own and are offered
	windows   map[*RateClass]classWindow
	books     map[*Row]*Rulebook
	openAPI   func() ([]byte, error) // made when it is first asked for
	zipped    sync.Map               // the same by coding
	directory *directory
	wallets   *wallets          // nil: there is nothing for them
	upstreams map[string]uint32 // their numbers in the books
	errors    map[string]*upstreamErrors
}

// New builds a gateway with some capabilities that serves cfg.
func New(o Options, cfg *config.Config, capabilities ...Capability) (*Gateway, error) {
	g := &Gateway{
		capabilities: capabilities,
		ledger:       o.Ledger, proxy: o.Proxy, log: o.Log, version: []byte(o.Version),
		started: time.Now(), uploads: proxy.NewUploads(int64(cfg.Server.MaxInFlight)),
		finishes:    fair.NewRoom(int64(cfg.Idempotency.Unattended)),
		unpaid:      fair.NewBudget(cfg.Limits.UnpaidWork),
		metricsHere: cfg.Server.MetricsListen == config.MetricsOnListen,
	}
	g.sampler.log = o.Log
	g.calls.New = func() any { return newCall(g) }
	g.metrics = newMeters(g)
	g.openPayments(&o)
	if o.Media != nil {
		g.openJobs(&o, cfg)
		capabilities = append(slices.Clone(capabilities), &jobHooks{g}, &jobList{g})
	}
	capabilities = append(slices.Clone(capabilities), &openAPI{g})
	g.capabilities = capabilities
	for _, of := range capabilities {
		for _, row := range of.Open(g) {
			if wrong := row.mistake(); wrong != "" {
				panic("routes: the row " + row.Method + " " + row.Path + ": " + wrong) // it is written in the source
			}
			row.of = of
			row.slot = -2 - len(g.rows)
			g.rows = append(g.rows, row)
		}
	}
	g.log.Debug().Strs("endpoints", rowNames(g.rows)).Msg("these are all endpoints, offered or not")
	o.Proxy.OnPanic(func(v any) { g.NotePanic("an answer on its way", v) })
	g.sampler.configure(&cfg.Log)
	if err := g.Reload(cfg); err != nil {
		return nil, err
	}
	g.ledger.OnSteering(g.hasUpstream, g.steer)
	g.steer() // changes since the config was loaded
	g.handler = g.withCORS(func(ctx *fasthttp.RequestCtx) { g.live.Load().directory.serve.Handler(ctx) })
	return g, nil
}

// Reload swaps models, prices, upstreams and limits. Requests that are under
// way keep the snapshot they began with.
func (g *Gateway) Reload(cfg *config.Config) error {
	g.reloads.Lock()
	defer g.reloads.Unlock()
	old := g.live.Load()
	var prev *providers.Catalog
	if old != nil {
		prev = old.catalog
	}
	catalog, err := providers.NewCatalog(cfg, prev, time.Now(), g.log)
	if err != nil {
		return fmt.Errorf("cannot build the model catalog: %w", err)
	}
	next := &snapshot{cfg: cfg, catalog: catalog, names: newHeaderNames(cfg.Brand)}
	if next.wallets, err = g.newWallets(cfg, catalog, old); err != nil {
		catalog.Close(prev)
		return err
	}
	if err := g.load(next, old); err != nil {
		catalog.Close(prev)
		return err
	}
	next.cors = newCrossOrigin(&cfg.CORS, next)
	for _, m := range catalog.Models() {
		m.Slot = g.ledger.ModelNumber(m.ID)
		next.models = append(next.models, g.metrics.model(m.ID))
	}
	g.numberUpstreams(next, old)
	next.classes = g.offeredClasses(cfg)
	next.windows = map[*RateClass]classWindow{}
	for _, class := range next.classes {
		rate, _ := class.Rate(cfg)
		next.windows[class] = classWindow{g.ledger.ModelNumber(class.Name), rate}
	}
	next.openAPI = sync.OnceValues(func() ([]byte, error) { return g.describe(next) })
	next.books = map[*Row]*Rulebook{}
	for i := range g.rows {
		if row := &g.rows[i]; row.Rules != nil {
			next.books[row] = row.Rules(cfg)
		}
	}
	next.directory = g.newDirectory(next)
	if err := g.configurePayments(next.wallets); err != nil {
		next.close(old)
		return err
	}
	g.ledger.Configure(cfg)
	if g.jobs != nil {
		g.jobs.Configure(jobTerms(cfg))
	}
	g.unpaid.Resize(cfg.Limits.UnpaidWork)
	g.sampler.configure(&cfg.Log)
	g.noteRests(next)
	g.live.Store(next)
	g.steer()
	if g.serving.Load() {
		g.Warm()
	}
	if old != nil {
		old.close(next)
	}
	return nil
}

// Handler is the whole API for a fasthttp server.
func (g *Gateway) Handler() fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		g.handler(ctx)
		if g.leaving.Load() {
			ctx.SetConnectionClose()
		}
	}
}

// Warm begins, in the background, preparations that only a serving process needs.
func (g *Gateway) Warm() {
	g.serving.Store(true)
	s := g.live.Load()
	if s.wallets != nil {
		s.wallets.client.Start()
	}
	for i := range s.views {
		if begin := s.views[i].Serve; begin != nil {
			begin()
		}
	}
}

// SetDraining makes /readyz answer 503 so that load balancers look away.
func (g *Gateway) SetDraining() { g.draining.Store(true) }

// SetLeaving makes every answer the last one of its connection.
func (g *Gateway) SetLeaving() { g.leaving.Store(true) }

// serve runs one table row: identify, handle, answer, observe.
func (g *Gateway) serve(ctx *fasthttp.RequestCtx, row *Row) {
	c := g.calls.Get().(*Call)
	c.begin(ctx, row)
	panicking := true
	defer func() {
		if panicking && !c.relaying { // else the relay or delivery of the answer ends it
			c.release() // the Call is not used again: its state is unknown
		}
	}()
	if err := c.authorize(); err != nil {
		c.fail(err)
	} else if err := c.readBody(); err != nil {
		c.fail(err)
	} else if row.Offered != nil && !row.Offered(c.snap.cfg) {
		c.fail(NoEndpoint(ctx))
	} else if err := row.Serve(c); err != nil {
		c.fail(err)
	}
	panicking = false
	if !c.relaying {
		c.end()
	}
}

// refuse answers a request that matched no row.
func (g *Gateway) refuse(ctx *fasthttp.RequestCtx, e *Error) {
	c := g.calls.Get().(*Call)
	c.begin(ctx, nil)
	c.refused = e.key
	c.fail(e)
	c.end()
}
