package tee

import (
	"fmt"
	"strings"
	"sync/atomic"

	"farebox/config"
	"farebox/providers"
	"farebox/providers/chat/dialect"
	"farebox/providers/tee"
	"farebox/routes"
)

// Capability is the type that main registers.
type Capability struct {
	gateway *routes.Gateway
	tries   routes.PerAddress
	wanted  routes.PerMinute[answerKey] // signatures of answers
	answers *answers
	live    atomic.Pointer[view] // of the config that is served now
}

// New makes the capability.
func New() *Capability { return &Capability{} }

// Open is routes.Capability.
func (cp *Capability) Open(g *routes.Gateway) []routes.Row {
	cp.gateway = g
	cp.answers = newAnswers(g.EnclaveAnswers(), g.Accounts().Now, *g.Logger())
	return []routes.Row{
		{Method: "GET", Path: "/tee/attestation", Access: routes.Public, Form: routes.NoBody, Limit: routes.SmallBody,
			Params: attestationParams, Serve: cp.attestation},
		{Method: "GET", Path: "/tee/signature", Access: routes.Bearer, Form: routes.NoBody, Limit: routes.SmallBody,
			Params: signatureParams, Serve: cp.signature},
	}
}

// Load is routes.Loader.
func (cp *Capability) Load(cfg *config.Config, catalog *providers.Catalog, before any) (routes.View, error) {
	old, _ := before.(*view)
	v, err := cp.newView(cfg, catalog, old)
	if err != nil {
		return routes.View{}, fmt.Errorf("the enclaves: %w", err)
	}
	return routes.View{Own: v, Serve: func() { cp.live.Store(v); v.serve() }, Close: v.close, Metrics: v.writeMetrics}, nil
}

func (cp *Capability) view(c *routes.Call) *view { return c.Own(cp).(*view) }

// prefix begins the ids of models that chats are encrypted to (interface.md, TEE).
const prefix = "e2ee-"

// modelOf is the model of a query, which must run in an enclave.
func (cp *Capability) modelOf(c *routes.Call, id string) (*dialect.Model, *routes.Error) {
	v := cp.view(c)
	if !v.cfg.AnyModelID && !strings.HasPrefix(id, prefix) {
		return nil, routes.Invalid(routes.Issue{Code: "invalid_string", Path: "model", Received: routes.Excerpt([]byte(id)),
			Message: "model: expected the id of a model that begins with " + prefix + "."})
	}
	m := c.Catalog().Find(id, c.Began)
	if m == nil || c.Key != nil && !c.MayUse(m.Config) {
		return nil, &routes.Error{Status: 404, Code: "MODEL_NOT_FOUND", Message: "Unknown model " +
			routes.Excerpt([]byte(id)) + "; GET " + routes.Prefix + "/models lists the models."}
	}
	if m.Chat == nil || m.Chat.Enclave == nil {
		return nil, routes.Unsupported("model", "Model "+m.ID+" does not run in an enclave that could be attested.")
	}
	return m, nil
}

// enclaves are those of a model, the ones that are ready first.
func (v *view) enclaves(m *dialect.Model) (list []*tee.Enclave) {
	for _, ready := range []bool{true, false} {
		for _, t := range m.Targets {
			if e := v.of[t]; e != nil && v.watch.Ready(e) == ready {
				list = append(list, e)
			}
		}
	}
	return list
}
