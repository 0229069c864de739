package chain

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mr-tron/base58"
)

// Facilitator is a simulated facilitator of x402 (version 2): POST /verify and /settle,
// GET /supported. It is strict: what differs from the protocol's wire format is refused
// and kept for Complaints.
type Facilitator struct {
	EVM    *EVM
	Solana *Solana
	// Key, when set, is demanded as bearer token.
	Key string

	mu         sync.Mutex
	lie        func(call string) Lie
	payer      int // which fee payer is in use
	complaints []string
	calls      map[string]int
	server     *http.Server
	closed     chan struct{}
}

// Lies and faults of a facilitator.
const (
	// Claims: it says that it settled, and did nothing.
	Claims Lie = "claims"
	// Denies: it settles and says that it failed.
	Denies Lie = "denies"
	// Loses: it settles and closes the connection.
	Loses Lie = "loses"
	// Hangs: it does nothing, and never answers; HangsAfter settled before.
	Hangs      Lie = "hangs"
	HangsAfter Lie = "hangs_after"
	// Breaks: it settles and answers 500 with a page; Down does not settle.
	Breaks Lie = "breaks"
	Down   Lie = "down"
	// Pending: it answers 500 settlement_pending with the transaction, and settles.
	Pending Lie = "pending"
	// Late: it answers the same, and settles a while after.
	Late Lie = "late"
	// Twice: it settles, tries once more and tells of the second, which failed.
	Twice Lie = "twice"
	// Enlarges and Misnames: what it says of a payment that it settled is of another
	// amount, or of another payer, network and transaction.
	Enlarges Lie = "enlarges"
	Misnames Lie = "misnames"
	// Declines: it does not settle and says so. Admits and Rejects are what verify says
	// of every payment; Rejects settles nevertheless.
	Declines Lie = "declines"
	Admits   Lie = "admits"
	Rejects  Lie = "rejects"
	// Garbage, Floods and Doubles: it settles, and the answer is no JSON, 10 MB of it,
	// or has two members of a name.
	Garbage Lie = "garbage"
	Floods  Lie = "floods"
	Doubles Lie = "doubles"
)

// Lies are all lies of a facilitator; empty is the truth.
var Lies = []Lie{"", Claims, Denies, Loses, Hangs, HangsAfter, Breaks, Down, Pending, Late, Twice, Enlarges, Misnames,
	Declines, Admits, Rejects, Garbage, Floods, Doubles}

const (
	protocol      = 2
	mostBody      = 64 << 10
	floodBytes    = 10 << 20
	lateSettling  = 300 * time.Millisecond
	solanaNetwork = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
)

// NewFacilitator makes one for two chains; either may be nil.
func NewFacilitator(e *EVM, s *Solana) *Facilitator {
	return &Facilitator{EVM: e, Solana: s, calls: map[string]int{}, closed: make(chan struct{})}
}

// Start serves on a free loopback port and gives its URL.
func (f *Facilitator) Start() (url string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	f.server = &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	go func() { _ = f.server.Serve(ln) }()
	return "http://" + ln.Addr().String(), nil
}

// Close ends Start, and what hangs.
func (f *Facilitator) Close() {
	close(f.closed)
	_ = f.server.Close()
}

// Always sets what it does from now on.
func (f *Facilitator) Always(l Lie) { f.Draw(func(string) Lie { return l }) }

// Draw asks for each call, verify or settle, what to do with it.
func (f *Facilitator) Draw(lie func(call string) Lie) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lie = lie
}

// Rotate takes another fee payer.
func (f *Facilitator) Rotate() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.payer++
}

// Complaints are what was wrong with the requests.
func (f *Facilitator) Complaints() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.complaints...)
}

// Calls are how often it was asked: verify, settle, supported.
func (f *Facilitator) Calls(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
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

// Bring lands a transaction for somebody who asks for it directly.
func (f *Facilitator) Bring(wire []byte) (signature string, err error) {
	keys := f.feePayers()
	return f.Solana.Pay(wire, keys[len(keys)-1])
}

// FeePayer is the one in use.
func (f *Facilitator) FeePayer() string {
	keys := f.feePayers()
	return nameOf(keys[len(keys)-1])
}

// ServeHTTP answers one request.
func (f *Facilitator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil {
		return
	}
	call := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if f.Key != "" && r.Header.Get("Authorization") != "Bearer "+f.Key {
		writeJSON(w, http.StatusUnauthorized, []byte(`{"error":"unauthorized"}`))
		return
	}
	lie := f.begin(call)
	if lie == Hangs && call != "supported" {
		f.hang(r)
		return
	}
	status, answer := f.Answer(r.Method, call, body, lie)
	if call == "supported" {
		lie = ""
	}
	switch lie {
	case HangsAfter:
		f.hang(r)
	case Loses:
		panic(http.ErrAbortHandler)
	default:
		writeJSON(w, status, answer)
	}
}

func (f *Facilitator) begin(call string) Lie {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[call]++
	if f.lie == nil {
		return ""
	}
	return f.lie(call)
}

func (f *Facilitator) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-f.closed:
	}
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Answer does what is asked, under a lie, and gives what it says; the faults of
// connections are ServeHTTP's.
func (f *Facilitator) Answer(method, call string, body []byte, lie Lie) (status int, answer []byte) {
	switch method + " " + call {
	case "GET supported":
		return http.StatusOK, f.supported()
	case "POST verify", "POST settle":
	default:
		return http.StatusNotFound, []byte(`{"error":"not found"}`)
	}
	p, err := f.read(body)
	if err != nil {
		f.mu.Lock()
		f.complaints = append(f.complaints, call+": "+err.Error())
		f.mu.Unlock()
		return http.StatusBadRequest, fmt.Appendf(nil, `{"error":%q}`, err)
	}
	if call == "verify" {
		return f.verify(p, lie)
	}
	return f.settle(p, lie)
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

// said is an answer of settle or verify.
func said(status int, members map[string]any) (int, []byte) { return status, answered(members).Result }

func (f *Facilitator) verify(p *signed, lie Lie) (int, []byte) {
	err := p.check(f)
	if lie == Admits {
		err = nil
	}
	if lie == Rejects {
		_, _ = p.pay(f) // behind the back of the client
		err = errUnsigned
	}
	if err != nil {
		return said(http.StatusOK, map[string]any{"isValid": false, "invalidReason": err.Error(), "payer": p.payer})
	}
	return said(http.StatusOK, map[string]any{"isValid": true, "payer": p.payer})
}

var errDeclined = errors.New("unexpected_settle_error")

// unsettled are the lies that bring nothing onto the chain.
var unsettled = map[Lie]bool{Claims: true, Down: true, Declines: true, Late: true}

func (f *Facilitator) settle(p *signed, lie Lie) (int, []byte) {
	transaction, err := "", errDeclined
	if !unsettled[lie] {
		transaction, err = p.pay(f)
	}
	answer := map[string]any{"success": err == nil, "transaction": transaction, "network": p.network, "payer": p.payer}
	if err != nil {
		answer["errorReason"] = err.Error()
	}
	status := http.StatusOK
	switch lie {
	case Claims:
		answer["success"], answer["transaction"] = true, p.invented()
		delete(answer, "errorReason")
	case Denies, Twice:
		if lie == Twice {
			_, _ = p.pay(f)
		}
		answer["success"], answer["transaction"] = false, ""
		answer["errorReason"] = "invalid_exact_evm_transaction_failed"
	case Late:
		go func() {
			time.Sleep(lateSettling)
			_, _ = p.pay(f)
		}()
		fallthrough
	case Pending:
		status = http.StatusInternalServerError
		answer["success"], answer["errorReason"] = false, "settlement_pending"
	case Breaks, Down:
		return http.StatusInternalServerError, []byte("<html><body>500 Internal Server Error</body></html>")
	case Enlarges:
		answer["amount"] = "999999999999"
	case Misnames:
		answer["payer"], answer["network"], answer["transaction"] = facilitatorAddress, "eip155:1", p.invented()
	case Garbage:
		return status, []byte("success: true, probably")
	case Floods:
		return status, append(append([]byte(`{"success":true,"transaction":"`), strings.Repeat("a", floodBytes)...), `"}`...)
	case Doubles:
		return status, append([]byte(`{"success":false,"success":true,`), answered(answer).Result[1:]...)
	}
	return said(status, answer)
}

func decode64(text string) ([]byte, error) { return base64.StdEncoding.DecodeString(text) }

// members reads an object that may have these members, of which those without ? must be
// there.
func members(raw json.RawMessage, what string, names ...string) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return nil, fmt.Errorf("%s is no object", what)
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
