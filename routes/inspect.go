package routes

import (
	"cmp"
	"slices"
	"time"

	"farebox/billing"
	"farebox/providers"
	"farebox/providers/health"
)

// ProcessState is how this process does, for operators.
type ProcessState struct {
	Version   string       `json:"version"`
	Node      string       `json:"node"` // empty: the store is embedded
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
}

// StoreState is the ledger's store.
type StoreState struct {
	Name        string `json:"name"`
	Up          bool   `json:"up"`
	Unprojected int64  `json:"unprojected_records"` // of the journal, which balances in the store do not have yet
}

// RedisState is the shared limits' Redis.
type RedisState struct {
	Configured bool `json:"configured"`
	Up         bool `json:"up"`
}

// State is how this process does.
func (g *Gateway) State() ProcessState {
	cfg, figures := g.Config(), g.ledger.Stats()
	s := ProcessState{Version: string(g.version), Node: g.ledger.NodeLabel(), StartedAt: g.started.UTC(), Reasons: []string{},
		Draining: g.draining.Load(), Active: g.metrics.active.Load(), OpenHolds: figures.OpenHolds, Held: figures.Held, Debt: figures.Debt,
		Store: StoreState{cfg.StoreName(), !figures.StoreAway, figures.JournalLag},
		Redis: RedisState{len(cfg.Redis.Addresses) > 0, len(cfg.Redis.Addresses) > 0 && !g.ledger.Limits().Stats().Degraded}}
	refuses := g.ledger.Ready()
	s.Ready = refuses == nil && !s.Draining
	for _, err := range []error{refuses, g.ledger.Healthy()} {
		if err != nil && !slices.Contains(s.Reasons, err.Error()) {
			s.Reasons = append(s.Reasons, err.Error())
		}
	}
	return s
}

// TargetState is an upstream that serves a model.
type TargetState struct {
	Model       string     `json:"model"`
	Upstream    string     `json:"upstream"`
	Name        string     `json:"upstream_model"`
	Weight      int        `json:"weight"`
	Priority    int        `json:"priority"`
	State       string     `json:"state"` // closed: it serves; open: it rests; half_open: it is tried
	RestsUntil  *time.Time `json:"rests_until,omitempty"`
	Failures    int64      `json:"failures"`
	Rests       int64      `json:"rests"`
	Connections int        `json:"connections"` // of the upstream
	Idle        int        `json:"idle_connections"`
	// Answers are those since the process began, by status and kind.
	Answers []AnswerState `json:"answers"`
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
func answersOf(t *providers.Target) []AnswerState {
	list := []AnswerState{}
	t.Meter.Each(func(status string, streamed bool, first, whole *health.Times) {
		ms := func(t *health.Times, q float64) float64 {
			return float64(t.Quantile(q).Microseconds()) / 1000
		}
		list = append(list, AnswerState{status, streamed, whole.Count(), ms(first, 0.5), ms(first, 0.95), ms(whole, 0.5), ms(whole, 0.95)})
	})
	return list
}

// Targets are the upstreams of all models with their health, ordered by model.
func (g *Gateway) Targets() []TargetState {
	list, now := []TargetState{}, time.Now()
	for _, m := range g.live.Load().catalog.Models() {
		for _, t := range m.Targets {
			s := TargetState{Model: m.ID, Upstream: t.Upstream.Name, Name: t.Name, Weight: t.Weight, Priority: t.Priority,
				State: t.Breaker.State(now.UnixNano()).String(), Answers: answersOf(t)}
			s.Failures, s.Rests = t.Breaker.Counts()
			s.Connections, s.Idle = t.Upstream.Proxy.Conns()
			if until := time.Unix(0, t.Breaker.RestsUntil()).UTC(); until.After(now) {
				s.RestsUntil = &until
			}
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b TargetState) int { return cmp.Compare(a.Model, b.Model) })
	return list
}
