package tee

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"farebox/billing/store"
	"farebox/providers/chat/dialect"
	"farebox/providers/tee"
	"farebox/providers/tee/seal"
	"farebox/providers/wallet"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

var signatureParams = routes.Params{"model": {Kinds: routes.String, Required: true},
	"request_id": {Kinds: routes.String, Required: true}}

// maxID is more than any completion's id has.
const maxID = 256

// askedAtMost is how often an enclave is asked for the signature of one answer a minute,
// which costs nothing, until it has given one.
const askedAtMost = 10

var errNoAnswer = &routes.Error{Status: 404, Code: "REQUEST_ID_NOT_FOUND",
	Message: "Request ID is invalid: no answer of this account has it, or it is older than 24 hours."}

// signature answers GET /tee/signature (addendum 15.5), for the account that the answer
// was given to. To all others, and for all models, an id that is not theirs is unknown.
func (cp *Capability) signature(c *routes.Call) *routes.Error {
	q := c.Query()
	id, request := needed(q, "model"), needed(q, "request_id")
	if e := q.Refusal(); e != nil {
		return e
	}
	m, e := cp.modelOf(c, id)
	if e != nil {
		return e
	}
	if len(request) > maxID {
		return errNoAnswer
	}
	kept, err := cp.answers.find(c.Key.Account.No(), request)
	if err != nil {
		c.Logger().Error().Err(err).Bytes("request_id", c.ID[:]).Msg("tee: an answer cannot be looked up")
		return &routes.Error{Status: 503, Message: "The record of the answer cannot be read right now; please retry.",
			RetryAfter: routes.RetrySoon}
	}
	if kept == nil || kept.Model != m.ID {
		return errNoAnswer
	}
	raw, e := cp.fetch(c, id, m, kept)
	if e != nil {
		return e
	}
	c.Ctx.Response.Header.Set("Cache-Control", "no-store")
	return c.WriteJSON(raw)
}

var errSignature = &routes.Error{Status: 502, Code: "TEE_SIGNATURE_FAILED", RetryAfter: routes.RetrySoon,
	Message: "TEE signature request failed. The enclave's provider did not give a signature of this answer; please retry."}

// fetch returns the stored signature of an answer, or asks the enclave for it. Enclaves
// forget signatures sooner.
func (cp *Capability) fetch(c *routes.Call, named string, m *dialect.Model, kept *store.EnclaveRow) ([]byte, *routes.Error) {
	v := cp.view(c)
	var e *tee.Enclave
	for _, t := range m.Targets {
		if t.Upstream.Name == kept.Upstream {
			e = v.of[t]
		}
	}
	raw := kept.Signature
	if len(raw) == 0 {
		if e == nil {
			return nil, errSignature
		}
		if wait := cp.wanted.Take(answerKey{kept.Account, kept.ID}, askedAtMost, c.Began); wait > 0 {
			return nil, &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: max(routes.RetrySoon, wait),
				Message: "Rate limit exceeded: the enclave was asked for the signature of this answer too often."}
		}
		var err error
		if raw, err = e.Upstream.Signature(c.Ctx, kept.ID, c.Began.Sub(time.UnixMicro(kept.AtUs)) < freshFor); err != nil {
			c.Logger().Warn().Err(err).Str("model", m.ID).Str("upstream", e.Name).Bytes("request_id", c.ID[:]).
				Msg("tee: a signature cannot be had")
			return nil, errSignature
		}
	}
	signed, err := tee.ReadSignature(raw)
	if errors.Is(err, tee.ErrAnswer) || errors.Is(err, tee.ErrSignature) {
		return nil, errSignature
	}
	if signed.Valid && len(kept.Signature) == 0 {
		cp.answers.keep(c, kept, raw)
	}
	return v.signatureBody(named, m, kept, raw, signed), nil
}

// shownSignature is our word on a signature.
type shownSignature struct {
	Valid    bool   `json:"signature_valid"`
	Attested bool   `json:"signer_attested"`
	Request  bool   `json:"request_hash_match"`
	Response bool   `json:"response_hash_match"`
	Sent     string `json:"forwarded_request_sha256"`
	Relayed  string `json:"relayed_response_sha256"`
}

var oursOfSignature = setOf(tee.OursOfSignature)

// signatureBody is the enclave provider's signature body, with our members added. The model is
// the one that was asked for.
func (v *view) signatureBody(named string, m *dialect.Model, kept *store.EnclaveRow, raw []byte, s tee.Signed) []byte {
	sent, relayed := sumText(kept.Request), sumText(kept.Response)
	judged, err := json.Marshal(shownSignature{s.Valid, s.Valid && v.attested(m, kept, s), s.Request == sent,
		s.Response == relayed, sent, relayed})
	if err != nil {
		panic("tee: a verdict cannot be written as JSON: " + err.Error())
	}
	b := []byte{'{'}
	gjson.ParseBytes(raw).ForEach(func(name, value gjson.Result) bool {
		if !oursOfSignature[name.Str] {
			b = append(append(append(append(jsontext.Comma(b), name.Raw...), ':'), value.Raw...), []byte(nil)...)
		}
		return true
	})
	text := func(name, value string) {
		b = jsontext.AppendString(append(jsontext.AppendString(jsontext.Comma(b), name), ':'), value)
	}
	text("model", named)
	text("upstream_model", kept.Named)
	text("request_id", kept.ID)
	text("requested_request_id", kept.ID)
	text("tee_provider", m.Chat.Enclave.Provider)
	text("tee_hardware", "intel-tdx")
	if !gjson.GetBytes(raw, "api_version").Exists() {
		text("api_version", "v1")
	}
	b = jsontext.AppendString(append(b, `,"verification":{"attestation_endpoint":`...), routes.Prefix+"/tee/attestation")
	b = append(b, `,"description":"Recover the signer of text by EIP-191, compare it with signing_address of a fresh `...)
	b = append(b, `attestation, and the hashes in text with those of the bytes sent and received."}`...)
	b = jsontext.AppendString(append(b, `,"payload":{"request_hash":`...), s.Request)
	b = jsontext.Object(b).Text("response_hash", s.Response).
		Text("timestamp", time.UnixMicro(kept.AtUs).UTC().Format("2006-01-02T15:04:05.000Z"))
	b = append(append(b, `},"server_verification":`...), judged...)
	return append(b, '}')
}

// sumText is a SHA-256 as text: zeros where the upstream gave one id to several answers.
func sumText(sum []byte) string {
	var b [sha256.Size]byte
	copy(b[:], sum)
	return hex.EncodeToString(b[:])
}

// attested says whether the signer is one whose key was proven: the one that the chat was
// sealed to, or one of the enclave that answered.
func (v *view) attested(m *dialect.Model, kept *store.EnclaveRow, s tee.Signed) bool {
	if kept.SealedTo != "" {
		return addressOf(kept.SealedTo) == s.Address
	}
	for _, t := range m.Targets {
		if e := v.of[t]; e != nil && t.Upstream.Name == kept.Upstream && v.watch.Signs(e, s.Address) {
			return true
		}
	}
	return false
}

func addressOf(key string) (a [20]byte) {
	k, err := seal.ParseKey(strings.ToLower(key))
	if err != nil {
		return a
	}
	sum := wallet.Keccak(k.Bytes()[1:])
	copy(a[:], sum[12:])
	return a
}
