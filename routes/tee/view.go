package tee

import (
	"fmt"
	"reflect"

	"farebox/config"
	"farebox/config/fair"
	"farebox/providers"
	"farebox/providers/chat/dialect"
	"farebox/providers/tee"
	"farebox/routes"
)

// view is the part of a config for enclaves.
type view struct {
	cfg       *config.TEE
	setup     *tee.Setup
	watch     *tee.Watch
	each      []*tee.Enclave
	of        map[*dialect.Target]*tee.Enclave
	inFlight  map[*tee.Enclave]*fair.Turns // questions of clients
	verifying *fair.Turns
	answers   *answers
	done      chan struct{} // closed when it is served no more
}

const (
	// verifyAtOnce is how many reports are judged at a time: it is work of some
	// milliseconds, which callers without a key can cause.
	verifyAtOnce = 2
	// waitAtOnce is how many questions may wait for that, and for each enclave.
	waitAtOnce = 256
)

func (cp *Capability) newView(cfg *config.Config, catalog *providers.Catalog, before *view) (*view, error) {
	v := &view{cfg: &cfg.TEE, of: map[*dialect.Target]*tee.Enclave{}, inFlight: map[*tee.Enclave]*fair.Turns{},
		verifying: fair.NewTurns(verifyAtOnce, waitAtOnce), answers: cp.answers, done: make(chan struct{})}
	setup, err := tee.NewSetup(&cfg.TEE, *cp.gateway.Logger())
	if err != nil {
		return nil, err
	}
	v.setup = setup
	if cfg.TEE.AllowTestRoot {
		cp.gateway.Logger().Warn().Msg("tee.allow_test_root: the owner of the configured roots can forge any proof, and every " +
			"attestation says that it proves nothing")
	}
	v.watch = &tee.Watch{Judge: setup.Judge, Every: cfg.TEE.Recheck, Enforce: *cfg.TEE.Enforce, Log: *cp.gateway.Logger()}
	for _, m := range catalog.Models() {
		if m.Chat == nil || m.Chat.Enclave == nil {
			continue
		}
		policy, err := setup.Policy(m.Chat.Enclave)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", m.ID, err)
		}
		for _, t := range m.Targets {
			e := &tee.Enclave{Model: m.ID, Name: t.Upstream.Name, Policy: policy,
				Upstream: &tee.Upstream{Proxy: cp.gateway.Proxy(), Endpoint: t.Upstream.Proxy, At: addressed(t.Upstream.Config),
					Kind: m.Chat.Enclave.Kind, Model: t.Name, Timeout: cfg.TEE.Timeout}}
			if before != nil {
				e.GoOn(before.like(e))
			}
			v.each = append(v.each, e)
			v.of[t] = e
			v.inFlight[e] = fair.NewTurns(cfg.TEE.InFlight, waitAtOnce)
		}
	}
	v.watch.Over(v.each)
	return v, nil
}

// addressed is the part of an upstream that selects its server.
func addressed(u *config.Upstream) string {
	return u.EndpointURL() + " " + u.Query() + " " + u.CAFile
}

// like finds the same enclave of another config, with the same address and policy; nil:
// v has no such enclave.
func (v *view) like(e *tee.Enclave) *tee.Enclave {
	for _, o := range v.each {
		if o.Model == e.Model && o.Name == e.Name && o.Upstream.At == e.Upstream.At && o.Upstream.Kind == e.Upstream.Kind &&
			o.Upstream.Model == e.Upstream.Model && reflect.DeepEqual(o.Policy, e.Policy) {
			return o
		}
	}
	return nil
}

// serve begins to attest the enclaves.
func (v *view) serve() {
	v.watch.Begin()
	go v.answers.purge(v.done)
}

func (v *view) close(any) {
	close(v.done)
	v.answers.flush()
	v.watch.Close()
	v.setup.Close()
}

var _ routes.Enclaves = (*Capability)(nil)
