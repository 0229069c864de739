package routes

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"farebox/billing"
	"farebox/providers"
	"farebox/providers/health"
)

// ProcessState is how this process does, for operators.
type ProcessState struct {
	Version   string       `json:"version"`
	StartedAt time.Time    `json:"started_at"`
	Ready     bool         `json:"ready"`
	Reasons   []string     `json:"reasons"` // why it is not ready, or not for long
	Draining  bool         `json:"draining"`
	Active    int64        `json:"active_requests"`
	OpenHolds int          `json:"open_holds"`
	Held      billing.Nano `json:"held"`
	Debt      billing.Nano `json:"debt"`
	Store     StoreState   `json:"store"`
	Redis     RedisState   `json:"redis"`
	Journal   JournalState `json:"journal"`
	// Certificates are those of the listeners.
	Certificates []CertificateState  `json:"certificates"`
	Backup       *billing.BackupNote `json:"last_backup"`   // of the store; null: none was made
	ConfigDigest string              `json:"config_digest"` // the same on nodes with the same config
	Warnings     []Warning           `json:"warnings"`
}

// StoreState is the ledger's store.
type StoreState struct {
	Name        string        `json:"name"`
	Up          bool          `json:"up"`
	Unprojected int64         `json:"unprojected_records"` // of the journal, which balances in the store do not have yet
	LatencyMs   float64       `json:"latency_ms"`          // of a read
	Bytes       int64         `json:"size_bytes"`
	Disk        *billing.Disk `json:"disk"` // null: the store is on another machine
}

// RedisState is the shared limits' Redis.
type RedisState struct {
	Configured bool `json:"configured"`
	Up         bool `json:"up"`
}

// Version is the build stamp.
func (g *Gateway) Version() string { return string(g.version) }

// State is how this process does.
func (g *Gateway) State() ProcessState {
	cfg, figures := g.Config(), g.ledger.Stats()
	s := ProcessState{Version: string(g.version), StartedAt: g.started.UTC(), Reasons: []string{},
		Draining: g.draining.Load(), Active: g.metrics.active.Load(), OpenHolds: figures.OpenHolds, Held: figures.Held, Debt: figures.Debt,
		Store: StoreState{Name: cfg.StoreName(), Up: !figures.StoreAway, Unprojected: figures.JournalLag},
		Redis: RedisState{len(cfg.Redis.Addresses) > 0, len(cfg.Redis.Addresses) > 0 && !g.ledger.Limits().Stats().Degraded}}
	refuses := g.ledger.Ready()
	s.Ready = refuses == nil && !s.Draining
	for _, err := range []error{refuses, g.ledger.Healthy()} {
		if err != nil && !slices.Contains(s.Reasons, err.Error()) {
			s.Reasons = append(s.Reasons, err.Error())
		}
	}
	g.condition(&s, cfg)
	return s
}

// TargetState is an upstream with a model, network or search provider that it serves.
type TargetState struct {
	Kind     string `json:"kind"` // model, network or search
	Model    string `json:"model"`
	Upstream string `json:"upstream"`
	Name     string `json:"upstream_model"`
	Weight   int    `json:"weight"`
	Priority int    `json:"priority"`
	// State is closed: it serves; open: it rests; half_open: it is tried; drained or offline: operators keep requests away.
	State       string            `json:"state"`
	Steering    *billing.Steering `json:"steering,omitempty"` // of an operator
	RestsUntil  *time.Time        `json:"rests_until,omitempty"`
	Failures    int64             `json:"failures"`
	Rests       int64             `json:"rests"`
	Connections int               `json:"connections"` // of the upstream
	Idle        int               `json:"idle_connections"`
	UnderWay    int               `json:"requests_under_way"` // of the upstream
	// Errors are the answers that did not succeed, by status: 4xx, 5xx, broken, none or left.
	Errors map[string]int64 `json:"errors"`
	// ErrorKinds are the failed attempts at the upstream since the process began, whatever they were for:
	// connection, dns, tls, timeout, interrupted, invalid_answer, auth, payment, rate_limit, server_error,
	// request_refused, no_connection or no_credential.
	ErrorKinds map[string]int64 `json:"errors_by_kind"`
	Credential *CredentialState `json:"credential,omitempty"` // of an upstream of a model
	// Answers are those since the process began, by status and kind.
	Answers []AnswerState `json:"answers"`
}

// CredentialState is the age of a credential for an upstream.
type CredentialState struct {
	Kind      string    `json:"kind"`                // key, token_file, service_account or signature
	GotAt     time.Time `json:"got_at,omitzero"`     // read or fetched; missing: not yet
	ExpiresAt time.Time `json:"expires_at,omitzero"` // missing: unknown
	// LastAccepted is when a request with it last succeeded, to the second. Missing: not since it was loaded.
	LastAccepted time.Time `json:"last_accepted_at,omitzero"`
}

// AnswerState are the answers of an upstream that ended alike, with their times in ms, as exact
// as the buckets of the histogram in metrics.
type AnswerState struct {
	Status   string  `json:"status"` // 2xx to 5xx, broken, none or left
	Streamed bool    `json:"streamed"`
	Count    int64   `json:"count"`
	FirstP50 float64 `json:"first_byte_p50_ms"`
	FirstP95 float64 `json:"first_byte_p95_ms"`
	WholeP50 float64 `json:"whole_p50_ms"`
	WholeP95 float64 `json:"whole_p95_ms"`
}

// answersOf are the answers of a target.
func answersOf(m *health.Meter) []AnswerState {
	list := []AnswerState{}
	m.Each(func(status string, streamed bool, first, whole *health.Times) {
		ms := func(t *health.Times, q float64) float64 {
			return float64(t.Quantile(q).Microseconds()) / 1000
		}
		list = append(list, AnswerState{status, streamed, whole.Count(), ms(first, 0.5), ms(first, 0.95), ms(whole, 0.5), ms(whole, 0.95)})
	})
	return list
}

// Targets are the upstreams with their health, ordered by model, network or search provider.
func (g *Gateway) Targets() []TargetState {
	now, steering := time.Now(), g.ledger.Steering()
	list := []TargetState{}
	live := g.live.Load()
	for _, w := range live.watched() {
		s := TargetState{Kind: w.Kind, Model: w.Model, Upstream: w.Upstream, Name: w.Name, Weight: w.Weight, Priority: w.Priority,
			State: w.Breaker.State(now.UnixNano()).String(), Errors: map[string]int64{}, Answers: []AnswerState{},
			ErrorKinds: live.errors[w.Upstream].byKind()}
		s.Failures, s.Rests = w.Breaker.Counts()
		s.Connections, s.Idle = w.Conns()
		s.UnderWay = s.Connections - s.Idle
		if w.Kind == "model" {
			kind, got, expires, accepted := live.catalog.Credential(w.Upstream)
			s.Credential = &CredentialState{kind, got.UTC(), expires.UTC(), accepted.UTC().Truncate(time.Second)}
		}
		if w.Meter != nil {
			s.Answers = answersOf(w.Meter)
		}
		for _, a := range s.Answers {
			if a.Status != "2xx" {
				s.Errors[a.Status] += a.Count
			}
		}
		if held := w.Breaker.Held(); held != health.Free {
			s.State = held.String()
			if by := billing.SteeredOf(steering, w.Upstream, w.Model); by.State != billing.Serving {
				s.Steering = &by
			}
		} else if until := time.Unix(0, w.Breaker.RestsUntil()).UTC(); until.After(now) {
			s.RestsUntil = &until
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b TargetState) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Model, b.Model)) })
	return list
}

// ModelState is a model with the upstreams that serve it.
type ModelState struct {
	Model   string `json:"model"`
	Type    string `json:"type"`
	Offline bool   `json:"offline"` // by the config
	// Serving is how many of its upstreams take requests now.
	Serving int           `json:"serving"`
	Targets []ModelTarget `json:"targets"`
}

// ModelTarget is an upstream of a model.
type ModelTarget struct {
	Upstream string `json:"upstream"`
	Name     string `json:"upstream_model"`
	Weight   int    `json:"weight"`
	Priority int    `json:"priority"`
	State    string `json:"state"`
}

// Models are all models with their upstreams, by id.
func (g *Gateway) Models() []ModelState {
	list := []ModelState{}
	targets := map[string][]ModelTarget{}
	for _, t := range g.Targets() {
		if t.Kind == "model" {
			targets[t.Model] = append(targets[t.Model], ModelTarget{t.Upstream, t.Name, t.Weight, t.Priority, t.State})
		}
	}
	for _, m := range g.live.Load().catalog.Models() {
		s := ModelState{Model: m.ID, Type: m.Config.Type, Offline: m.Config.Offline, Targets: targets[m.ID]}
		for _, t := range s.Targets {
			if t.State == health.Closed.String() || t.State == health.HalfOpen.String() {
				s.Serving++
			}
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b ModelState) int { return cmp.Compare(a.Model, b.Model) })
	return list
}

// CheckState is an upstream's answer to a check that is free.
type CheckState struct {
	Upstream string  `json:"upstream"` // with the network or search provider before it, if it serves no model
	Good     bool    `json:"good"`
	Status   int     `json:"status"` // HTTP status, 0: none
	Message  string  `json:"message"`
	TookMs   float64 `json:"took_ms"`
}

// CheckUpstream asks an upstream something that is free. A refused credential is a bad answer.
func (g *Gateway) CheckUpstream(ctx context.Context, upstream, model string) []CheckState {
	list := []CheckState{}
	if !g.hasUpstream(upstream, model) {
		return list
	}
	for _, a := range providers.AskNow(ctx, g.Config(), upstream, model) {
		c := CheckState{Upstream: a.Name, Good: a.Err == nil, Status: a.Status, Message: a.Good, TookMs: float64(a.Took.Microseconds()) / 1000}
		if a.Err != nil {
			c.Message = a.Err.Error()
		}
		list = append(list, c)
	}
	return list
}

// BalanceState is the operator's balance at a provider.
type BalanceState struct {
	Upstream string              `json:"upstream"`
	AskedAt  time.Time           `json:"asked_at"`
	Balances []providers.Balance `json:"balances"`
	Error    string              `json:"error,omitempty"`
}

// balances are the answers of providers. Each is asked once a minute at most.
type balances struct {
	mu sync.Mutex
	of map[string]*balance
}

type balance struct {
	mu   sync.Mutex // of one question at a time
	last BalanceState
}

// balanceEvery is how long an answer is good for.
const balanceEvery = time.Minute

// Balance is the operator's balance as an upstream reports it; false: there is no such upstream.
func (g *Gateway) Balance(ctx context.Context, upstream string) (BalanceState, bool) {
	if !g.hasUpstream(upstream, "") {
		return BalanceState{}, false
	}
	g.balances.mu.Lock()
	if g.balances.of == nil {
		g.balances.of = map[string]*balance{}
	}
	b := g.balances.of[upstream]
	if b == nil {
		b = &balance{}
		g.balances.of[upstream] = b
	}
	g.balances.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.last.AskedAt) >= balanceEvery {
		list, err := providers.BalanceAt(ctx, g.Config(), upstream)
		b.last = BalanceState{Upstream: upstream, AskedAt: now.UTC(), Balances: append([]providers.Balance{}, list...)}
		if err != nil {
			b.last.Error = err.Error()
		}
	}
	return b.last, true
}
