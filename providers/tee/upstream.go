package tee

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"farebox/proxy"
	"farebox/proxy/scan"
)

// Kinds of gateways before a model in an enclave.
const (
	Dstack = "dstack" // dstack's proxy beside the model
	Near   = "near"   // NEAR AI's cloud, which routes by the model's key
	ACI    = "aci"    // a private gateway before models, itself in an enclave
)

// Upstream is the connection to an enclave.
type Upstream struct {
	Proxy    *proxy.Proxy
	Endpoint *proxy.Endpoint
	At       string // its address; another address is another enclave
	Kind     string
	Model    string // its name there
	Timeout  time.Duration
}

const (
	maxCandidates = 16
	// maxSignature is the largest answer about a signature.
	maxSignature = 1 << 20
	maxDepth     = 64
)

// Errors of an upstream. None quotes its answer.
var (
	ErrUnreached = errors.New("the enclave's provider does not answer")
	ErrAnswer    = errors.New("the answer of the enclave's provider cannot be read")
	ErrUnknown   = errors.New("the enclave's provider does not know it")
)

// get reads a small answer. ctx is the client that waits, may be nil.
func (u *Upstream) get(ctx *fasthttp.RequestCtx, path string, most int) (status int, body []byte, err error) {
	var x proxy.Exchange
	defer x.Close()
	res := u.Proxy.Ask(ctx, &x, u.Timeout, u.Endpoint, &proxy.Request{Path: []byte(path), Accept: "application/json"})
	if res.Cause != proxy.None {
		return 0, nil, fmt.Errorf("%w: %s", ErrUnreached, res.Cause)
	}
	body, cause, err := x.ReadAll(nil, most)
	if cause != proxy.None {
		return 0, nil, fmt.Errorf("%w: %s", ErrUnreached, cause)
	}
	if err != nil {
		return 0, nil, ErrAnswer
	}
	return res.Status, body, nil
}

// Ours are members of a report that clients get from us, not those of the upstream, and
// OursOfSignature those of a signature.
var (
	Ours = []string{"verified", "not_checked", "nonce", "nonce_source", "model", "upstream_model", "tee_provider", "tee_hardware",
		"server_verification", "candidates_evaluated", "candidates_available", "signing_public_key", "signing_key",
		"test_root"}
	OursOfSignature = []string{"model", "upstream_model", "request_id", "requested_request_id", "tee_provider",
		"tee_hardware", "verification", "server_verification", "payload"}
)

// Shapes are the members of reports and of signatures that decide anything, for us or for a
// client, and those that we write: each may be there once, in exactly these letters, since
// parsers differ in which one they take, and some ignore case.
var (
	tcbShape  = scan.NewShape(scan.Members(nil, "app_compose")...)
	infoShape = scan.NewShape(scan.Members(map[string]*scan.Shape{"tcb_info": tcbShape}, "tcb_info", "compose_hash")...)
	shape     = scan.NewShape(scan.Members(map[string]*scan.Shape{"info": infoShape}, slices.Concat(Ours,
		[]string{"intel_quote", "quote", "signing_address", "signing_algo", "nvidia_payload", "event_log", "info",
			"request_nonce", "all_attestations", "model_attestations"})...)...)
)

// Report asks for a report about a nonce. Where an upstream has several enclaves behind
// it, all that it gives are there, each with its bytes unchanged.
func (u *Upstream) Report(ctx *fasthttp.RequestCtx, nonce [32]byte) (candidates [][]byte, err error) {
	path := "/attestation/report?nonce=" + hex.EncodeToString(nonce[:]) + "&signing_algo=ecdsa"
	if u.Kind != Dstack {
		path += "&model=" + url.QueryEscape(u.Model)
	}
	if u.Kind == ACI {
		path += "&version=1"
	}
	status, body, err := u.get(ctx, path, maxReport)
	switch {
	case err != nil:
		return nil, err
	case status != 200:
		return nil, fmt.Errorf("%w: status %d", ErrAnswer, status)
	}
	return split(body)
}

// split gives the reports of an answer.
func split(body []byte) (candidates [][]byte, err error) {
	r, err := strict(body, shape)
	if err != nil {
		return nil, err
	}
	if r.Get("intel_quote").Exists() {
		candidates = append(candidates, body)
	}
	for _, list := range []string{"model_attestations", "all_attestations"} {
		at := r.Get(list)
		if !at.IsArray() {
			continue
		}
		for _, one := range at.Array() {
			if len(candidates) == maxCandidates {
				break
			}
			raw := []byte(one.Raw)
			if _, err := strict(raw, shape); err != nil {
				return nil, err
			}
			candidates = append(candidates, raw)
		}
	}
	if len(candidates) == 0 {
		return nil, ErrAnswer
	}
	return candidates, nil
}

// strict reads an object that all parsers read alike in the members that decide anything.
func strict(raw []byte, shape *scan.Shape) (r gjson.Result, err error) {
	var doc scan.Document
	if doc.SkimWhole(raw, shape, maxDepth) != nil {
		return r, ErrAnswer
	}
	return gjson.ParseBytes(raw), nil
}

// retries of a signature, which an enclave stores after the last byte of its answer.
const (
	retries    = 3
	retryAfter = 200 * time.Millisecond
)

// Signature asks for the enclave's signature of an answer. fresh: it may not be there
// yet.
func (u *Upstream) Signature(ctx *fasthttp.RequestCtx, id string, fresh bool) ([]byte, error) {
	path := "/signature/" + url.PathEscape(id) + "?signing_algo=ecdsa&model=" + url.QueryEscape(u.Model)
	for try := 0; ; try++ {
		status, body, err := u.get(ctx, path, maxSignature)
		switch {
		case err != nil:
			return nil, err
		case status == 404 && fresh && try < retries:
			if cause := u.Proxy.Pause(ctx, retryAfter); cause != proxy.None {
				return nil, fmt.Errorf("%w: %s", ErrUnreached, cause)
			}
			continue
		case status == 404:
			return nil, ErrUnknown
		case status != 200:
			return nil, fmt.Errorf("%w: status %d", ErrAnswer, status)
		}
		return body, nil
	}
}

// First judges reports one after the other until one is verified. If none is, the first is
// given, with its faults.
func (j *Judge) First(ctx context.Context, candidates [][]byte, nonce [32]byte, p *Policy) (report []byte,
	v *Verification, tried int) {
	for i, raw := range candidates {
		one := j.Verify(ctx, raw, nonce, p)
		if one.Verified() {
			return raw, one, i + 1
		}
		if v == nil {
			report, v = raw, one
		}
	}
	return report, v, len(candidates)
}
