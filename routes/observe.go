package routes

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/billing/replay"
	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/providers/health"
	"farebox/proxy"
)

// meters are the gateway's metrics. Names follow the OpenTelemetry GenAI
// conventions, in Prometheus spelling, where those exist.
type meters struct {
	set      *metrics.Set
	active   atomic.Int64
	statuses [600]atomic.Pointer[metrics.Counter]
	panics   *metrics.Counter    // that were recovered
	reloads  [2]*metrics.Counter // of the config: refused, applied
	causes   sync.Map            // cause text -> *metrics.Counter
	signIns  sync.Map            // result -> *metrics.Counter
	// shortages are by the limit that refused: limit -> *metrics.Counter
	shortages sync.Map
	mu        sync.Mutex
	models    map[string]*modelMeters
}

// modelMeters are the series of one model, found once a snapshot.
type modelMeters struct {
	duration   [2]*metrics.PrometheusHistogram // not streamed, streamed; seconds
	chargedUSD *metrics.FloatCounter           // for dashboards; the ledger holds the integers
	retries    *metrics.Counter                // attempts after the first
}

var (
	// DurationBounds are the buckets of how long requests take, in seconds.
	DurationBounds = []float64{0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96,
		81.92, 300}
)

func newMeters(g *Gateway) *meters {
	m := &meters{set: metrics.NewSet(), models: map[string]*modelMeters{}}
	gauge := func(name string, f func() float64) { m.set.NewGauge(name, f) }
	gauge("http_server_active_requests", func() float64 { return float64(m.active.Load()) })
	gauge("farebox_unattended_keyed", func() float64 { return float64(g.finishes.Used()) })
	gauge("farebox_holds_open", func() float64 { return float64(g.ledger.Stats().OpenHolds) })
	gauge("farebox_held_nano", func() float64 { return float64(g.ledger.Stats().Held) })
	// All debt since the ledger exists, and the part that is owed still.
	gauge("farebox_shortfall_nano_total", func() float64 { return float64(g.ledger.Stats().Shortfall) })
	gauge("farebox_debt_nano", func() float64 { return float64(g.ledger.Stats().Debt) })
	gauge("farebox_journal_unprojected_records", func() float64 { return float64(g.ledger.Stats().JournalLag) })
	gauge("farebox_request_details_dropped_total", func() float64 { return float64(g.ledger.RequestsDropped()) })
	gauge("farebox_store_up", func() float64 { return oneIf(!g.ledger.Stats().StoreAway) })
	if g.ledger.NodeLabel() != "" {
		gauge("farebox_node_session_age_seconds", func() float64 { return g.ledger.Stats().SessionAge.Seconds() })
		gauge(`farebox_clock_skew_seconds{server="postgresql"}`,
			func() float64 { store, _ := g.ledger.Skew(); return store.Seconds() })
	}
	gauge(`farebox_clock_skew_seconds{server="redis"}`, func() float64 {
		_, redis := g.ledger.Skew()
		return redis.Seconds()
	})
	gauge("farebox_redis_degraded", func() float64 { return oneIf(g.ledger.Limits().Stats().Degraded) })
	gauge("farebox_redis_away_total", func() float64 { return float64(g.ledger.Limits().Stats().Away) })
	gauge("farebox_redis_calls_total", func() float64 { return float64(g.ledger.Limits().Stats().Calls) })
	gauge("farebox_redis_errors_total", func() float64 { return float64(g.ledger.Limits().Stats().Errors) })
	gauge("farebox_redis_leases_total", func() float64 { return float64(g.ledger.Limits().Stats().Slices) })
	gauge("farebox_shared_limit_refusals_total", func() float64 { return float64(g.ledger.Limits().Stats().Refused) })
	gauge("farebox_shared_limit_alone_total", func() float64 { return float64(g.ledger.Limits().Stats().Alone) })
	for outcome, f := range map[string]func(replay.Stats) int64{
		"led": func(s replay.Stats) int64 { return s.Led }, "replayed": func(s replay.Stats) int64 {
			return s.Replayed
		},
		"reused": func(s replay.Stats) int64 { return s.Reused }, "busy": func(s replay.Stats) int64 { return s.Busy },
		"away": func(s replay.Stats) int64 { return s.Away }, "full": func(s replay.Stats) int64 { return s.Full },
		"free": func(s replay.Stats) int64 { return s.Free },
	} {
		gauge(`farebox_idempotency_total{outcome="`+outcome+`"}`,
			func() float64 { return float64(f(g.ledger.Idempotency().Stats())) })
	}
	for name, kept := range map[string]*replay.Values{"items": g.ledger.Items(), "responses": g.ledger.Responses()} {
		if kept == nil {
			continue
		}
		for outcome, f := range map[string]func(replay.ValuesStats) int64{
			"kept": func(s replay.ValuesStats) int64 { return s.Kept }, "large": func(s replay.ValuesStats) int64 {
				return s.Large
			},
			"full": func(s replay.ValuesStats) int64 { return s.Full }, "away": func(s replay.ValuesStats) int64 { return s.Away },
		} {
			gauge("farebox_"+name+`_total{outcome="`+outcome+`"}`, func() float64 { return float64(f(kept.Stats())) })
		}
	}
	m.panics = m.set.NewCounter("farebox_panics_total")
	m.reloads = [2]*metrics.Counter{m.set.NewCounter(`farebox_config_reloads_total{applied="false"}`),
		m.set.NewCounter(`farebox_config_reloads_total{applied="true"}`)}
	m.set.NewCounter(`farebox_unpaid_refusals_total{limit="balance"}`)
	m.set.NewCounter(`farebox_sign_ins_total{result="new"}`) // of those there are, one to begin with
	gauge("farebox_start_time_seconds", func() float64 { return float64(g.started.Unix()) })
	return m
}

func boolIndex(b bool) int {
	if b {
		return 1
	}
	return 0
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (m *meters) model(id string) *modelMeters {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mm := m.models[id]; mm != nil {
		return mm
	}
	label := func(extra string) string { return fmt.Sprintf("{gen_ai_request_model=%q%s}", id, extra) }
	mm := &modelMeters{
		chargedUSD: m.set.NewFloatCounter("farebox_charged_usd_total" + label("")),
		retries:    m.set.NewCounter("farebox_upstream_retries_total" + label("")),
	}
	for i, streamed := range []string{"false", "true"} {
		mm.duration[i] = m.set.NewPrometheusHistogramExt("gen_ai_server_request_duration_seconds"+
			label(`,streamed="`+streamed+`"`), DurationBounds)
	}
	m.models[id] = mm
	return mm
}

func (m *meters) status(code int) {
	if code < 0 || code >= len(m.statuses) {
		code = 0
	}
	counter := m.statuses[code].Load()
	if counter == nil {
		counter = m.set.GetOrCreateCounter(`farebox_http_requests_total{http_response_status_code="` +
			strconv.Itoa(code) + `"}`)
		m.statuses[code].Store(counter)
	}
	counter.Inc()
}

func (m *meters) cause(text string) { m.count(&m.causes, `farebox_ended_early_total{cause="`, text) }

// signIn counts a header that a wallet signed, or not, by how it was judged.
func (m *meters) signIn(result string) {
	m.count(&m.signIns, `farebox_sign_ins_total{result="`, result)
}

// count counts in one of the series that begin alike. Their number is that of the words
// in the source.
func (m *meters) count(series *sync.Map, name, text string) {
	if v, ok := series.Load(text); ok {
		v.(*metrics.Counter).Inc()
		return
	}
	counter := m.set.GetOrCreateCounter(name + text + `"}`)
	series.Store(text, counter)
	counter.Inc()
}

// NoteReload counts and logs a change of the config file that was applied, or
// refused with an error.
func (g *Gateway) NoteReload(msg string, err error) {
	if err != nil {
		g.metrics.reloads[0].Inc()
		g.log.Error().Err(err).Msg(msg)
		return
	}
	g.metrics.reloads[1].Inc()
	g.log.Info().Msg(msg)
}

// Each series is announced with its type, as scrapers expect; withHelp adds the help text.
func init() { metrics.ExposeMetadata(true) }

// ServeMetrics answers /metrics in the Prometheus text format.
func (g *Gateway) ServeMetrics(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("text/plain; version=0.0.4; charset=utf-8")
	w := new(bytes.Buffer)
	g.metrics.set.WritePrometheus(w)
	s := g.live.Load()
	s.catalog.WriteMetrics(w)
	s.writeErrors(w)
	if s.wallets != nil {
		s.wallets.writeMetrics(w)
	}
	for i := range s.views {
		if write := s.views[i].Metrics; write != nil {
			write(w)
		}
	}
	metrics.WriteProcessMetrics(w)
	ctx.Response.SetBodyRaw(withHelp(w.Bytes()))
}

// serveHealth says that the process runs.
func (g *Gateway) serveHealth(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("ok\n") }

// serveReady says whether new work is welcome.
func (g *Gateway) serveReady(ctx *fasthttp.RequestCtx) {
	if g.draining.Load() {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		ctx.SetBodyString("draining\n")
		return
	}
	// The reason names paths: it goes into the log once, and never into an answer.
	err, weak := g.ledger.Ready(), g.ledger.Healthy()
	if unready := err != nil; g.unready.Swap(unready) != unready && unready {
		g.log.Error().Err(err).Msg("not ready: the ledger cannot record")
	}
	if ailing := weak != nil && err == nil; g.ailing.Swap(ailing) != ailing && ailing {
		g.log.Error().Err(weak).Msg("ready as long as the journal has room: charges cannot be booked or the journal cannot grow")
	}
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		ctx.SetBodyString("ledger\n")
		return
	}
	ctx.SetBodyString("ready\n")
}

// log writes the request's one line: no header, no body, no secret.
func (c *Call) log(took time.Duration) {
	var skipped int64
	ok := false
	if c.Status >= 400 || c.Cause != "" {
		ok = c.g.sampler.takeFailure(failure{c.Status, c.errCode, c.Cause})
	} else {
		ok, skipped = c.g.sampler.take(c.StartNs + int64(took))
	}
	if !ok {
		return
	}
	e := c.g.log.Info()
	if c.Status >= 500 {
		e = c.g.log.Warn()
	}
	if e == nil {
		return
	}
	e = e.Bytes("request_id", c.ID[:]).Int("status", c.Status).Dur("took_ms", took)
	if c.Row != nil {
		e = e.Str("method", c.Row.Method).Str("path", c.Row.Path)
	}
	if c.Key != nil {
		e = e.Str("key", c.Key.ID).Str("account", c.Key.Account.ID)
	}
	if c.Model != nil {
		e = e.Str("model", c.Model.ID).Bool("stream", c.Streams)
	}
	if c.Upstream != "" {
		e = e.Str("upstream", c.Upstream).Int("attempts", c.Attempts)
	}
	if len(c.Tried) > 0 {
		e = e.Array("tried", triedTargets(c.Tried))
	}
	if c.Part != nil {
		e = c.Part.Log(e)
	}
	if c.shortfall > 0 {
		e = e.Str("shortfall_usd", c.shortfall.String())
	}
	if limit := c.short.Limiter(); limit != "" {
		e = logShortage(e, limit, &c.short)
	}
	if c.Cause != "" {
		e = e.Str("cause", c.Cause)
	}
	if c.errCode != "" {
		e = e.Str("code", c.errCode)
	}
	if c.Hint != "" {
		e = e.Str("hint", c.Hint)
	}
	if skipped > 0 {
		e = e.Int64("skipped_lines", skipped)
	}
	e.Msg("request")
}

// logShortage adds the sums of a refusal for want of money, in USD; a DIEM is one.
func logShortage(e *zerolog.Event, limit string, d *billing.Denial) *zerolog.Event {
	s := &d.Short
	e = e.Str("refused_by", limit).Stringer("had_usd", s.Had).Stringer("held_usd", s.Held).Stringer("needed_usd", s.Needed)
	if s.Period != 0 {
		e = e.Stringer("limit_left_usd", s.Left).Stringer("limit_period", s.Period)
	}
	if d.Owed > 0 {
		e = e.Stringer("owed_usd", d.Owed)
	}
	return e
}

// triedTargets are the targets that failed a request, in the log.
type triedTargets []attempt.Tried

func (t triedTargets) MarshalZerologArray(a *zerolog.Array) {
	for i := range t {
		a.Object(&triedTarget{&t[i]})
	}
}

type triedTarget struct{ *attempt.Tried }

func (t *triedTarget) MarshalZerologObject(e *zerolog.Event) {
	e.Str("upstream", t.Upstream)
	if t.Status != 0 {
		e.Int("status", t.Status)
	}
	if t.Cause != proxy.None {
		e.Str("cause", t.Cause.String())
	}
	if t.Words != "" {
		e.Str("error", t.Words)
	}
}

// noteRests logs each change of a target's breaker from here on. Targets that
// were taken over from an older snapshot are watched once again, which changes
// nothing.
func (g *Gateway) noteRests(s *snapshot) {
	s.catalog.Watch(func(t *dialect.Target, c health.Change) {
		g.NoteRest(c, func(e *zerolog.Event) *zerolog.Event {
			return e.Str("upstream", t.Upstream.Name).Str("upstream_model", t.Name)
		})
	})
}

// NoteRest logs that the breaker of a target changed. who says which it is.
func (g *Gateway) NoteRest(c health.Change, who func(*zerolog.Event) *zerolog.Event) {
	switch c.To {
	case health.Open:
		text := "it failed too often in a row"
		if c.Asked {
			text = "it asked for time"
		}
		who(g.log.Warn()).Str("breaker", c.To.String()).Dur("rest_ms", c.Rest).Msg("a target rests: " + text)
	case health.HalfOpen:
		who(g.log.Info()).Str("breaker", c.To.String()).Msg("a target is tried again")
	case health.Closed:
		who(g.log.Info()).Str("breaker", c.To.String()).Msg("a target is back in use")
	}
}
