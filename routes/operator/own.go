package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/config"
	"farebox/routes"
)

// Self is the calling operator.
type Self struct {
	Name      string        `json:"name"`
	Role      billing.Right `json:"role"`
	From      string        `json:"from"`
	MaxCredit billing.Nano  `json:"max_credit"` // of a UTC day, for the role support
}

// ConfigText is a config file. Secrets in it are masked.
type ConfigText struct {
	File     string    `json:"file"` // empty: the demonstration
	Text     string    `json:"text"`
	Warnings []Problem `json:"warnings"`
}

// Problem is a mistake in a config, or a warning.
type Problem struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

// CheckConfig checks a config that is not in effect.
type CheckConfig struct {
	Text string `json:"text"`
}

// CompareConfig compares the config in effect with another one.
type CompareConfig struct {
	Text string `json:"text,omitempty"` // empty: the config file as it is now
}

// Compared lists the changes that a config would make. One with mistakes is not compared.
type Compared struct {
	Good     bool      `json:"good"`
	Mistakes []Problem `json:"mistakes"`
	config.Difference
}

// Checked is the result of a check.
type Checked struct {
	Good     bool      `json:"good"`
	Mistakes []Problem `json:"mistakes"`
	Warnings []Problem `json:"warnings"`
	Restart  []string  `json:"restart"` // keys whose new values need a restart
}

// Reloaded is the result of a reload on a node.
type Reloaded struct {
	Who
	Done    bool   `json:"done"` // the file is in effect, or was before
	Message string `json:"message"`
}

// NodeHealth is how a node does.
type NodeHealth struct {
	Who
	routes.ProcessState
}

// NodeUpstream is an upstream as a node sees it.
type NodeUpstream struct {
	Who
	routes.TargetState
}

// NodeModel is a model as a node sees it.
type NodeModel struct {
	Who
	routes.ModelState
}

// NodeCheck is an upstream's answer to the check of a node.
type NodeCheck struct {
	Who
	routes.CheckState
}

// CheckUpstream asks an upstream something that is free.
type CheckUpstream struct {
	OnNode
	Upstream string `json:"upstream"`
	Model    string `json:"model,omitempty"` // network or search provider, where several have an upstream of the name
}

// nothing is the query of operations that have none.
type nothing struct{}

// processOperations are the operations on this process.
func (a *API) processOperations() []*row {
	rows := []*row{
		own("read_backup", billing.MayOwn, "GET", "/backup", func(billing.Act, nothing) (object, error) { return nil, nil }),
		own("get_openapi", billing.MayList, "GET", "/openapi.json", func(billing.Act, nothing) (object, error) { return nil, nil }),
		own("get_self", billing.MayList, "GET", "/self", func(act billing.Act, _ nothing) (Self, error) {
			return Self{act.By.Name, act.By.Role, act.By.From, act.By.MaxCredit}, nil
		}),
		a.health(),
		shared(a, info("list_upstreams", billing.MayList, "GET", "/upstreams"), waitForList, a.upstreamsHere),
		shared(a, info("list_models", billing.MayList, "GET", "/models"), waitForList, a.modelsHere),
		shared(a, info("check_upstream", billing.MaySupport, "POST", "/upstreams/{upstream}/check"), waitForWork, a.checkHere),
		own("get_balance", billing.MayBook, "GET", "/upstreams/{upstream}/balance", func(_ billing.Act, q struct {
			Upstream string `json:"upstream"`
		}) (routes.BalanceState, error) {
			b, ok := a.gateway.Balance(a.ended, q.Upstream)
			if !ok {
				return b, fmt.Errorf("%w: %q", billing.ErrNoUpstream, q.Upstream)
			}
			return b, nil
		}),
		own("get_config", billing.MayBook, "GET", "/config", func(billing.Act, nothing) (ConfigText, error) {
			cfg := a.gateway.Config()
			return ConfigText{cfg.Source, cfg.Text(), problems(cfg.Warnings)}, nil
		}),
		own("check_config", billing.MayOwn, "POST", "/config/check", a.check),
		own("compare_config", billing.MayOwn, "POST", "/config/difference", a.compare),
		a.reloads(),
		own("profile", billing.MayOwn, "GET", "/profiles/{profile}", func(billing.Act, profile) (object, error) { return nil, nil }),
	}
	rows[0].raw, rows[1].raw, rows[len(rows)-1].raw = a.readBackup, a.openAPI, a.writeProfile
	return rows
}

// own is the row of an operation on the process that is called.
func own[Q, A any](name string, right billing.Right, method, path string, do func(billing.Act, Q) (A, error)) *row {
	info := billing.OperationInfo{Name: name, Right: right, Method: method, Path: path, Query: reflect.TypeFor[Q](), Answer: reflect.TypeFor[A]()}
	return newRow(info, func(_ context.Context, act billing.Act, query []byte) (any, error) {
		var q Q
		if err := json.Unmarshal(query, &q); err != nil {
			return nil, &invalid{"body", err.Error()}
		}
		return do(act, q)
	})
}

// info is the row of an operation without its types.
func info(name string, right billing.Right, method, path string) billing.OperationInfo {
	return billing.OperationInfo{Name: name, Right: right, Method: method, Path: path}
}

// health is the row of the health. Findings of a look at all nodes are added to the warnings.
func (a *API) health() *row {
	r := shared(a, info("get_health", billing.MayList, "GET", "/health"), waitForList,
		func(context.Context, billing.Act, OnNode) ([]NodeHealth, error) {
			return []NodeHealth{{ProcessState: a.gateway.State()}}, nil
		})
	all := r.serve
	r.serve = func(ctx context.Context, act billing.Act, query []byte) (any, error) {
		answer, err := all(ctx, act, query)
		if err != nil {
			return nil, err
		}
		list := answer.(Nodes[NodeHealth])
		for i := range list.Items {
			one := &list.Items[i]
			if at := slices.IndexFunc(list.Items, func(h NodeHealth) bool { return h.ConfigDigest != one.ConfigDigest }); at >= 0 {
				one.Warnings = append(one.Warnings, routes.Warning{Code: "config_differs",
					Message: "The config of this node differs from that of " + list.Items[at].Node + "."})
			}
			if len(list.Missing) > 0 {
				one.Warnings = append(one.Warnings, routes.Warning{Code: "nodes_missing",
					Message: "These nodes do not answer: " + strings.Join(list.Missing, ", ") + "."})
			}
		}
		return list, nil
	}
	return r
}

func (a *API) upstreamsHere(context.Context, billing.Act, OnNode) (list []NodeUpstream, err error) {
	for _, t := range a.gateway.Targets() {
		list = append(list, NodeUpstream{TargetState: t})
	}
	return list, nil
}

func (a *API) modelsHere(context.Context, billing.Act, OnNode) (list []NodeModel, err error) {
	for _, m := range a.gateway.Models() {
		list = append(list, NodeModel{ModelState: m})
	}
	return list, nil
}

func (a *API) checkHere(ctx context.Context, _ billing.Act, q CheckUpstream) (list []NodeCheck, err error) {
	found := a.gateway.CheckUpstream(ctx, q.Upstream, q.Model)
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %q", billing.ErrNoUpstream, q.Upstream)
	}
	for _, c := range found {
		list = append(list, NodeCheck{CheckState: c})
	}
	return list, nil
}

// reloads is the row that reads the config file. It is in the audit log once, as the node that was called writes it.
func (a *API) reloads() *row {
	r := shared(a, info("reload_config", billing.MayOwn, "POST", "/config/reload"), waitForWork,
		func(context.Context, billing.Act, OnNode) ([]Reloaded, error) {
			message, err := a.reload()
			if err != nil {
				message = strings.TrimPrefix(message+": "+err.Error(), ": ")
			}
			return []Reloaded{{Done: err == nil, Message: message}}, nil
		})
	all := r.serve
	r.serve = func(ctx context.Context, act billing.Act, query []byte) (any, error) {
		if err := a.ledger.Note(act, r.Name, "", json.RawMessage(query), nil); err != nil {
			return nil, err
		}
		answer, err := all(ctx, act, query)
		if err != nil {
			return nil, err
		}
		list := answer.(Nodes[Reloaded])
		refused := &refusal{status: 409, code: "CONFLICT"}
		for _, one := range list.Items {
			if one.Done {
				return list, nil
			}
			refused.text += one.Node + ": " + one.Message + "\n"
		}
		if refused.text = strings.TrimSpace(refused.text); refused.text == "" {
			return list, nil
		}
		return nil, refused
	}
	return r
}

func (a *API) check(_ billing.Act, q CheckConfig) (c Checked, err error) {
	next, wrong, err := parsed(config.Parse("candidate", []byte(q.Text), os.LookupEnv))
	switch {
	case err != nil:
		return c, &invalid{"text", err.Error()}
	case wrong != nil:
		return Checked{false, problems(wrong.List), problems(wrong.Warnings), []string{}}, nil
	}
	return Checked{true, []Problem{}, problems(next.Warnings), append([]string{}, config.Fixed(a.gateway.Config(), next)...)}, nil
}

func (a *API) compare(_ billing.Act, q CompareConfig) (c Compared, err error) {
	running := a.gateway.Config()
	load := func() (*config.Config, error) { return config.Parse("candidate", []byte(q.Text), os.LookupEnv) }
	if q.Text == "" {
		if running.Source == "" {
			return c, &invalid{"text", "is missing; the demonstration has no config file"}
		}
		load = func() (*config.Config, error) { return config.Load(running.Source) }
	}
	next, wrong, err := parsed(load())
	switch {
	case err != nil:
		return c, &invalid{"text", err.Error()}
	case wrong != nil:
		return Compared{Mistakes: problems(wrong.List), Difference: config.Differences(running, running)}, nil
	}
	return Compared{true, []Problem{}, config.Differences(running, next)}, nil
}

// parsed tells mistakes in a config from other errors.
func parsed(c *config.Config, err error) (*config.Config, *config.Problems, error) {
	var wrong *config.Problems
	if errors.As(err, &wrong) {
		return nil, wrong, nil
	}
	return c, nil, err
}

// readBackup streams a backup. A fault cuts the answer, so that it is not taken for a whole one.
func (a *API) readBackup(ctx *fasthttp.RequestCtx, by billing.Actor, _ []byte) *refusal {
	r, w := io.Pipe()
	go func() {
		_, err := a.ledger.WriteBackup(w, by.Name)
		if err != nil {
			a.log.Error().Err(err).Msg("a backup of an operator was cut")
		}
		_ = w.CloseWithError(err)
	}()
	ctx.Response.Header.SetContentType("application/gzip")
	ctx.Response.Header.Set("Content-Disposition", `attachment; filename="farebox.backup"`)
	ctx.Response.SetBodyStream(r, -1)
	return nil
}

func problems(list []config.Problem) []Problem {
	out := []Problem{}
	for _, p := range list {
		out = append(out, Problem{p.Line, p.Column, p.Path, p.Message})
	}
	return out
}

// profile names one of the runtime.
type profile struct {
	Profile string `json:"profile"`
	Seconds int    `json:"seconds,omitempty"` // of the profile cpu
	Debug   int    `json:"debug,omitempty"`   // 1: text
}

// mostProfile is how long the processor is watched at most.
const mostProfile = 60

// writeProfile writes a profile of this process, for go tool pprof.
func (a *API) writeProfile(ctx *fasthttp.RequestCtx, _ billing.Actor, text []byte) *refusal {
	q := profile{Seconds: 10}
	if json.Unmarshal(text, &q) != nil || q.Seconds < 1 || q.Seconds > mostProfile {
		return failed(&invalid{"seconds", fmt.Sprintf("expected 1 to %d", mostProfile)})
	}
	ctx.Response.Header.SetContentType("application/octet-stream")
	if q.Profile == "cpu" {
		if err := pprof.StartCPUProfile(ctx); err != nil {
			return &refusal{status: 409, code: "CONFLICT", text: err.Error()}
		}
		defer pprof.StopCPUProfile()
		select {
		case <-time.After(time.Duration(q.Seconds) * time.Second):
		case <-a.ended.Done():
		}
		return nil
	}
	p := pprof.Lookup(q.Profile)
	if p == nil {
		return &refusal{status: 404, code: "NOT_FOUND", text: "There is no such profile; expected cpu, heap, allocs, goroutine, block, " +
			"mutex or threadcreate"}
	}
	return failed(p.WriteTo(ctx, q.Debug))
}
