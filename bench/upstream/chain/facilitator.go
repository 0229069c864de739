package chain

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/mr-tron/base58"
)

// Facilitator is a simulated facilitator of x402 (version 2): POST /verify and /settle,
// GET /supported. It is strict: it refuses all deviations from the protocol's wire format.
// Package facilitator has one with faults.
type Facilitator struct {
	EVM    *EVM
	Solana *Solana

	mu    sync.Mutex
	payer int // which fee payer is in use
}

const (
	protocol      = 2
	solanaNetwork = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
)

// NewFacilitator makes one for two chains; either may be nil.
func NewFacilitator(e *EVM, s *Solana) *Facilitator { return &Facilitator{EVM: e, Solana: s} }

// Rotate takes another fee payer.
func (f *Facilitator) Rotate() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.payer++
}

// feePayers are of the Solana chain; the current one is last.
func (f *Facilitator) feePayers() []ed25519.PrivateKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []ed25519.PrivateKey
	for i := range f.payer + 1 {
		seed := sha256.Sum256(fmt.Appendf(nil, "simulated fee payer %d", i))
		keys = append(keys, ed25519.NewKeyFromSeed(seed[:]))
	}
	return keys
}

func nameOf(key ed25519.PrivateKey) string { return base58.Encode(key.Public().(ed25519.PublicKey)) }

// Bring lands a transaction for a caller beside the protocol.
func (f *Facilitator) Bring(wire []byte) (signature string, err error) {
	keys := f.feePayers()
	return f.Solana.Pay(wire, keys[len(keys)-1])
}

// FeePayer is the one in use.
func (f *Facilitator) FeePayer() string {
	keys := f.feePayers()
	return nameOf(keys[len(keys)-1])
}

// Answer runs a request, and gives its answer.
func (f *Facilitator) Answer(method, call string, body []byte) (status int, answer []byte) {
	switch method + " " + call {
	case "GET supported":
		return http.StatusOK, f.supported()
	case "POST verify", "POST settle":
	default:
		return http.StatusNotFound, []byte(`{"error":"not found"}`)
	}
	p, err := f.Read(body)
	if err != nil {
		return http.StatusBadRequest, fmt.Appendf(nil, `{"error":%q}`, err)
	}
	if call == "verify" {
		return http.StatusOK, Verified(p, p.Check(f))
	}
	transaction, err := p.Pay(f)
	return http.StatusOK, answered(Settled(p, transaction, err)).Result
}

// Verified is the answer of verify for a payment.
func Verified(p *Payment, err error) []byte {
	if err != nil {
		return answered(map[string]any{"isValid": false, "invalidReason": err.Error(), "payer": p.Payer}).Result
	}
	return answered(map[string]any{"isValid": true, "payer": p.Payer}).Result
}

// Settled is the answer of settle for a payment.
func Settled(p *Payment, transaction string, err error) map[string]any {
	answer := map[string]any{"success": err == nil, "transaction": transaction, "network": p.Network, "payer": p.Payer}
	if err != nil {
		answer["errorReason"] = err.Error()
	}
	return answer
}

func (f *Facilitator) supported() []byte {
	kinds, signers := []any{}, map[string][]string{}
	if f.EVM != nil {
		kinds = append(kinds, map[string]any{"x402Version": protocol, "scheme": "exact", "network": f.EVM.network()})
		signers["eip155:*"] = []string{facilitatorAddress}
	}
	if f.Solana != nil {
		kinds = append(kinds, map[string]any{"x402Version": protocol, "scheme": "exact", "network": solanaNetwork,
			"extra": map[string]string{"feePayer": f.FeePayer()}})
		for _, key := range f.feePayers() {
			signers["solana:*"] = append(signers["solana:*"], nameOf(key))
		}
	}
	return answered(map[string]any{"kinds": kinds, "extensions": []string{}, "signers": signers,
		"simulated": true}).Result
}

func (e *EVM) network() string { return fmt.Sprintf("eip155:%d", e.o.ID) }

func decode64(text string) ([]byte, error) { return base64.StdEncoding.DecodeString(text) }

// members reads an object that may have these members, of which those without ? must be
// there.
func members(raw json.RawMessage, what string, names ...string) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return nil, fmt.Errorf("%s is not an object", what)
	}
	known := map[string]bool{}
	for _, name := range names {
		name, optional := strings.CutSuffix(name, "?")
		known[name] = true
		if _, ok := m[name]; !ok && !optional {
			return nil, fmt.Errorf("%s has no %s", what, name)
		}
	}
	for name := range m {
		if !known[name] {
			return nil, fmt.Errorf("%s has a member %s", what, name)
		}
	}
	return m, nil
}
