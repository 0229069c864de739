// Package facilitator is a simulated facilitator of payments with the faults that facilitators have, for tests. An
// honest one is in the package chain.
//
// Nothing of the gateway may be imported here: a shared mistake would be invisible.
package facilitator

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"farebox/bench/upstream/chain"
)

// Facilitator is a chain.Facilitator over HTTP that lies. Faults of requests are kept for Complaints.
type Facilitator struct {
	*chain.Facilitator
	// Key, when set, is demanded as bearer token.
	Key string

	mu         sync.Mutex
	lie        func(call string) chain.Lie
	complaints []string
	calls      map[string]int
	server     *http.Server
	closed     chan struct{}
}

// Lies and faults of a facilitator.
const (
	// Claims: it says that it settled, and did nothing.
	Claims chain.Lie = "claims"
	// Denies: it settles and says that it failed.
	Denies chain.Lie = "denies"
	// Loses: it settles and closes the connection.
	Loses chain.Lie = "loses"
	// Hangs: it does nothing, and never answers; HangsAfter settled before.
	Hangs      chain.Lie = "hangs"
	HangsAfter chain.Lie = "hangs_after"
	// Breaks: it settles and answers 500 with a page; Down does not settle.
	Breaks chain.Lie = "breaks"
	Down   chain.Lie = "down"
	// Pending: it answers 500 settlement_pending with the transaction, and settles.
	Pending chain.Lie = "pending"
	// Late: it answers the same, and settles a while after.
	Late chain.Lie = "late"
	// Twice: it settles, tries once more and answers with the second, which failed.
	Twice chain.Lie = "twice"
	// Enlarges and Misnames: its answer about a payment that it settled names another
	// amount, or another payer, network and transaction.
	Enlarges chain.Lie = "enlarges"
	Misnames chain.Lie = "misnames"
	// Declines: it does not settle and says so. Admits and Rejects are verify's answers for
	// every payment; Rejects settles nevertheless.
	Declines chain.Lie = "declines"
	Admits   chain.Lie = "admits"
	Rejects  chain.Lie = "rejects"
	// Garbage, Floods and Doubles: it settles, and the answer is no JSON, 10 MB of it,
	// or has two members of a name.
	Garbage chain.Lie = "garbage"
	Floods  chain.Lie = "floods"
	Doubles chain.Lie = "doubles"
)

// Lies are all lies of a facilitator; empty is the truth.
var Lies = []chain.Lie{"", Claims, Denies, Loses, Hangs, HangsAfter, Breaks, Down, Pending, Late, Twice, Enlarges, Misnames,
	Declines, Admits, Rejects, Garbage, Floods, Doubles}

const (
	mostBody     = 64 << 10
	floodBytes   = 10 << 20
	lateSettling = 300 * time.Millisecond
)

// New makes one for two chains; either may be nil.
func New(e *chain.EVM, s *chain.Solana) *Facilitator {
	return &Facilitator{Facilitator: chain.NewFacilitator(e, s), calls: map[string]int{}, closed: make(chan struct{})}
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

// Close ends Start, and hanging requests.
func (f *Facilitator) Close() {
	close(f.closed)
	_ = f.server.Close()
}

// Always sets its behaviour from now on.
func (f *Facilitator) Always(l chain.Lie) { f.Draw(func(string) chain.Lie { return l }) }

// Draw sets a function that picks the lie for each call, verify or settle.
func (f *Facilitator) Draw(lie func(call string) chain.Lie) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lie = lie
}

// Complaints are the faults of the requests.
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
	status, answer := f.answer(r.Method, call, body, lie)
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

func (f *Facilitator) begin(call string) chain.Lie {
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

// answer runs a request, under a lie, and gives its answer; the faults of
// connections are ServeHTTP's.
func (f *Facilitator) answer(method, call string, body []byte, lie chain.Lie) (status int, answer []byte) {
	if method != "POST" || call != "verify" && call != "settle" {
		return f.Answer(method, call, body)
	}
	p, err := f.Read(body)
	if err != nil {
		f.mu.Lock()
		f.complaints = append(f.complaints, call+": "+err.Error())
		f.mu.Unlock()
		return f.Answer(method, call, body)
	}
	if call == "verify" {
		return http.StatusOK, f.verify(p, lie)
	}
	return f.settle(p, lie)
}

func (f *Facilitator) verify(p *chain.Payment, lie chain.Lie) []byte {
	err := p.Check(f.Facilitator)
	if lie == Admits {
		err = nil
	}
	if lie == Rejects {
		_, _ = p.Pay(f.Facilitator) // behind the back of the client
		err = errors.New("invalid_exact_evm_payload_signature")
	}
	return chain.Verified(p, err)
}

var errDeclined = errors.New("unexpected_settle_error")

// unsettled are the lies that bring nothing onto the chain.
var unsettled = map[chain.Lie]bool{Claims: true, Down: true, Declines: true, Late: true}

func (f *Facilitator) settle(p *chain.Payment, lie chain.Lie) (int, []byte) {
	transaction, err := "", errDeclined
	if !unsettled[lie] {
		transaction, err = p.Pay(f.Facilitator)
	}
	answer := chain.Settled(p, transaction, err)
	status := http.StatusOK
	switch lie {
	case Claims:
		answer["success"], answer["transaction"] = true, p.Invented()
		delete(answer, "errorReason")
	case Denies, Twice:
		if lie == Twice {
			_, _ = p.Pay(f.Facilitator)
		}
		answer["success"], answer["transaction"] = false, ""
		answer["errorReason"] = "invalid_exact_evm_transaction_failed"
	case Late:
		go func() {
			time.Sleep(lateSettling)
			_, _ = p.Pay(f.Facilitator)
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
		answer["payer"], answer["network"], answer["transaction"] = otherAddress, "eip155:1", p.Invented()
	case Garbage:
		return status, []byte("success: true, probably")
	case Floods:
		return status, append(append([]byte(`{"success":true,"transaction":"`), strings.Repeat("a", floodBytes)...), `"}`...)
	case Doubles:
		return status, append([]byte(`{"success":false,"success":true,`), asJSON(answer)[1:]...)
	}
	return status, asJSON(answer)
}

// otherAddress is an address without payments.
const otherAddress = "0x0000000000000000000000000000000000fac111"

func asJSON(v map[string]any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("facilitator: a map of texts is always JSON: " + err.Error())
	}
	return b
}
