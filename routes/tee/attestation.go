package tee

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
	"farebox/providers/tee"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// attestationParams are those of GET /tee/attestation. The nonce is read by itself: an
// empty one is wrong, not absent.
var attestationParams = routes.Params{"model": {Kinds: routes.String, Required: true}, "nonce": {Kinds: routes.String}}

// attestation answers GET /tee/attestation (addendum 15.4). That a check does not hold is
// an answer, not an error.
func (cp *Capability) attestation(c *routes.Call) *routes.Error {
	q := c.Query()
	id := needed(q, "model")
	nonce, source := nonceOf(q)
	if e := q.Refusal(); e != nil {
		return e
	}
	m, e := cp.modelOf(c, id)
	if e != nil {
		return e
	}
	v := cp.view(c)
	if wait := cp.tries.Take(proxy.Address(c.Ctx), v.cfg.PerIP, c.Began); wait > 0 {
		return &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: max(routes.RetrySoon, wait),
			Message: "Rate limit exceeded: too many attestations were asked for from this address."}
	}
	p, e := v.prove(c, m, nonce)
	if e != nil {
		return e
	}
	c.Ctx.Response.Header.Set("Cache-Control", "no-store")
	return c.WriteJSON(p.body(id, m, nonce, source))
}

// needed is a parameter that must be there.
func needed(q *routes.Query, name string) string {
	text, given := q.Text(name)
	if !given && len(q.Issues) == 0 || given && text == "" {
		q.Wrong(routes.Issue{Code: "invalid_type", Path: name, Expected: "string", Received: "undefined",
			Message: name + ": the parameter is missing."})
	}
	return text
}

// nonceOf is the nonce of a client, or one of ours.
func nonceOf(q *routes.Query) (nonce [32]byte, source string) {
	text, given := q.Text("nonce")
	if !given {
		rand.Read(nonce[:]) // never fails
		return nonce, "server"
	}
	nonce, ok := tee.ParseNonce(text)
	if !ok {
		q.Wrong(routes.Issue{Code: "invalid_string", Path: "nonce",
			Message: "nonce: expected exactly 64 lower-case hexadecimal digits (32 bytes)."})
	}
	return nonce, "client"
}

// proof is the evidence that an enclave gave for a client.
type proof struct {
	enclave        *tee.Enclave
	report         []byte
	found          *tee.Verification
	tried, offered int
}

var errAttestation = &routes.Error{Status: 502, Code: "TEE_ATTESTATION_FAILED", RetryAfter: routes.RetrySoon,
	Message: "TEE attestation request failed. The enclave's provider did not answer in a usable form; please retry."}

// prove asks the enclaves of a model in turn until one answers.
func (v *view) prove(c *routes.Call, m *dialect.Model, nonce [32]byte) (*proof, *routes.Error) {
	e := errAttestation
	for _, one := range v.enclaves(m) {
		p, err := v.requestProof(c, one, nonce)
		if err == nil {
			return p, nil
		}
		if errors.Is(err, errBusy) {
			e = &routes.Error{Status: 429, Code: "MODEL_OVERLOADED", RetryAfter: routes.RetrySoon,
				Message: "Too many attestations of this model are being asked for; please retry."}
			continue
		}
		c.Logger().Warn().Err(err).Str("model", m.ID).Str("upstream", one.Name).Bytes("request_id", c.ID[:]).
			Msg("tee: a client's attestation failed")
	}
	return nil, e
}

var (
	errGone = errors.New("the client has left")
	errBusy = errors.New("it is being asked by others")
)

func (v *view) requestProof(c *routes.Call, e *tee.Enclave, nonce [32]byte) (*proof, error) {
	place, taken, cause := c.TakeTurn(v.inFlight[e], v.cfg.Timeout)
	switch {
	case !taken && cause == proxy.None:
		return nil, errBusy
	case !taken:
		return nil, errGone
	}
	defer place.Done() // whatever becomes of it: there are few
	candidates, err := e.Upstream.Report(c.Ctx, nonce)
	if err != nil {
		return nil, err
	}
	var p *proof
	cause, err = c.Await(v.cfg.Timeout, func(ctx context.Context) error {
		place, err := v.verifying.Take(ctx, c.Owner())
		if err != nil {
			return errBusy
		}
		defer place.Done()
		report, found, tried := v.watch.Judge.First(ctx, candidates, nonce, e.Expected())
		p = &proof{e, report, found, tried, len(candidates)}
		return nil
	})
	switch {
	case cause != proxy.None:
		return nil, errGone
	case err != nil:
		return nil, err
	}
	v.watch.NoteClients(e, p.found)
	return p, nil
}

// ours are the members of an answer that replace those of an upstream.
var ours = setOf(tee.Ours)

func setOf(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

// body is the report as its enclave wrote it, with our members added. The model is the one that
// was asked for, as clients compare them: it may be an alias.
func (p *proof) body(named string, m *dialect.Model, nonce [32]byte, source string) []byte {
	b := append(make([]byte, 0, len(p.report)+4096), `{"verified":`...)
	b = strconv.AppendBool(b, p.found.Verified())
	b = append(b, `,"not_checked":[`...)
	for _, name := range p.found.NotChecked() {
		b = jsontext.AppendString(jsontext.Comma(b), name)
	}
	b = append(b, ']')
	text := hex.EncodeToString(nonce[:])
	b = jsontext.Object(b).Text("nonce", text).Text("nonce_source", source).Text("model", named).
		Text("upstream_model", p.enclave.Upstream.Model).Text("tee_provider", m.Chat.Enclave.Provider)
	b = append(b, `,"tee_hardware":"intel-tdx"`...)
	r := gjson.ParseBytes(p.report)
	if key := shownKey(p, r); key != "" {
		b = jsontext.Object(b).Text("signing_public_key", key).Text("signing_key", key)
	}
	asked := false
	r.ForEach(func(name, value gjson.Result) bool {
		if ours[name.Str] {
			return true
		}
		asked = asked || name.Str == "request_nonce"
		b = append(append(append(append(b, ','), name.Raw...), ':'), value.Raw...)
		return true
	})
	if !asked {
		b = jsontext.Object(b).Text("request_nonce", text)
	}
	if quote := r.Get("intel_quote"); quote.Exists() && !r.Get("quote").Exists() {
		b = append(append(b, `,"quote":`...), quote.Raw...)
	}
	if !r.Get("api_version").Exists() {
		b = append(b, `,"api_version":"v1"`...)
	}
	b = append(append(b, `,"server_verification":`...), p.found.JSON()...)
	b = jsontext.Object(b).Int("candidates_evaluated", int64(p.tried)).Int("candidates_available", int64(p.offered))
	if p.found.TestRoot() {
		b = append(b, `,"test_root":true`...)
	}
	return append(b, '}')
}

// shownKey is the key in 130 digits where it is one, else as the report has it, so that a client
// sees the same as we do.
func shownKey(p *proof, r gjson.Result) string {
	if p.found.Key != nil {
		return p.found.Key.String()
	}
	text := r.Get("signing_public_key").Str
	if text == "" {
		text = r.Get("signing_key").Str
	}
	if len(text) == 128 && !strings.HasPrefix(text, "0x") {
		return "04" + text
	}
	return text
}
