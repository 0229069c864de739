package tee

import (
	"farebox/providers/chat/dialect"
	"farebox/providers/tee"
	"farebox/routes"
)

// errKey is a key that none of a model's enclaves has proven.
func errKey() *routes.Error {
	return &routes.Error{Status: 400, Code: "e2ee_model_key_mismatch", Param: "headers",
		Message: "Invalid E2EE headers: no enclave of this model has proven to have this model key; " +
			"fetch a fresh attestation with GET " + routes.Prefix + "/tee/attestation."}
}

// Attested is routes.Enclaves. Enclaves whose key is not known, since this process began or since
// it changed, are asked.
func (cp *Capability) Attested(c *routes.Call, m *dialect.Model, key string) (*dialect.Target, *routes.Error) {
	v := cp.view(c)
	for _, learn := range []bool{false, true} {
		for _, t := range m.Targets {
			e := v.of[t]
			if e == nil {
				continue
			}
			if learn && !v.watch.Has(e, key) {
				v.watch.Learn(e)
			}
			if v.watch.Has(e, key) {
				return v.usable(m, t, e)
			}
		}
	}
	return nil, errKey()
}

// usable is a target that may be asked now.
func (v *view) usable(m *dialect.Model, t *dialect.Target, e *tee.Enclave) (*dialect.Target, *routes.Error) {
	if !v.watch.Ready(e) {
		return nil, &routes.Error{Status: 503, Code: "MODEL_OFFLINE", RetryAfter: routes.OverloadRetry,
			Message: "Model " + m.ID + " is not verified to run in its enclave right now; please retry later."}
	}
	return t, nil
}

// Ready is routes.Enclaves.
func (cp *Capability) Ready(c *routes.Call, t *dialect.Target) bool {
	v := cp.view(c)
	e := v.of[t]
	return e != nil && v.watch.Ready(e)
}

// Betrayed is routes.Enclaves.
func (cp *Capability) Betrayed(c *routes.Call, t *dialect.Target) {
	v := cp.view(c)
	cp.betrayed(v, v.of[t])
}

// betrayed is for an enclave of a config that the request began with, which need not be the
// one that is served now.
func (cp *Capability) betrayed(v *view, e *tee.Enclave) {
	if e == nil {
		return
	}
	v.watch.Betrayed(e)
	if now := cp.live.Load(); now != nil && now != v {
		if same := now.like(e); same != nil {
			now.watch.Betrayed(same)
		}
	}
}

// Answered is routes.Enclaves.
func (cp *Capability) Answered(c *routes.Call, a *routes.EnclaveAnswer) {
	cp.answers.add(c.Key.Account.No(), a)
}
