package enclave

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Lies of an enclave, or of its host.
const (
	Honest       = ""
	Debug        = "debug"        // its memory is open to its host
	StaleNonce   = "stale-nonce"  // its quote answers an earlier question
	SwapKey      = "swap-key"     // it shows another key than the one in the quote
	SwapAddress  = "swap-address" // it shows another address
	OldModule    = "old-module"   // its TDX module has known holes
	GPUFail      = "gpu-fail"     // evidence of its devices is not signed by them
	GPUNonce     = "gpu-nonce"    // evidence of its devices answers an earlier question
	NoGPU        = "no-gpu"       // it hides the evidence of its devices
	WrongLog     = "wrong-log"    // its event log is not the one of its registers
	PlainReply   = "plain-reply"  // it answers in the clear
	ForgedSig    = "forged-sig"   // another key signed for the answer
	WrongHash    = "wrong-hash"   // it signed for another answer
	NoUsage      = "no-usage"     // it reports no usage
	NoHeader     = "no-header"    // it does not say that it decrypted
	NoSignature  = "no-signature"
	KnownMarker  = "FAREBOX-ENCLAVE-MARKER" // is in every plain reply
	defaultModel = "sim-enclave"
)

// Lies are all but those of devices' judges.
var Lies = []string{Honest, Debug, StaleNonce, SwapKey, SwapAddress, OldModule, GPUFail, GPUNonce, NoGPU, WrongLog, PlainReply,
	ForgedSig, WrongHash, NoUsage, NoHeader, NoSignature}

// Options of an Enclave; the zero value is an honest one.
type Options struct {
	Lie      string
	JudgeLie string // of the judge of devices: fail, nonce, forged, expired
	Version  int    // of quotes; default 4
	Devices  int    // default 1; below 0: no device
	// VMConfig is the description of the machine in a report; default {"spec_version":1}.
	VMConfig string
	Key      string // bearer token; empty: not asked for
	Now      func() time.Time
	// CollateralFor is how long the collateral holds; default 30 days.
	CollateralFor time.Duration
	Published     Published
	// Share gives several enclaves one authority, as all of Intel's have.
	Share *Enclave
}

// Enclave is a simulated one with an HTTP server. Its paths are those of dstack's proxy
// (/v1/attestation/report, /v1/signature/{id}, /v1/chat/completions, /v1/models), those
// of Intel's service below /pcs and those of NVIDIA's below /nras.
type Enclave struct {
	o        Options
	by       *authority
	machine  *machine
	devices  *devices
	judge    *judge
	identity identity
	log      []event
	compose  string

	mu       sync.Mutex
	lie      string
	others   []*Enclave // behind this one
	away     bool       // the collateral is not served
	answers  map[string]signed
	order    []string
	requests []*Request     // the last ones
	calls    map[string]int // by path
	server   *http.Server
}

// Request is a chat as it was received.
type Request struct {
	Header http.Header
	Body   []byte
	Turns  []string // as they were opened
	Answer []byte   // every byte that was sent
}

// signed is an enclave's record of an answer.
type signed struct{ text, signature string }

// Bounds on stored records: answers to be asked for, and requests for tests.
const (
	keptAnswers  = 4096
	keptRequests = 1 << 14
)

// New makes an enclave. It serves after Start.
func New(o Options) (*Enclave, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.CollateralFor == 0 {
		o.CollateralFor = 30 * 24 * time.Hour
	}
	if o.Devices == 0 {
		o.Devices = 1
	}
	if o.VMConfig == "" {
		o.VMConfig = `{"spec_version":1}`
	}
	e := &Enclave{o: o, lie: o.Lie, answers: map[string]signed{}, calls: map[string]int{}}
	var err error
	if s := o.Share; s != nil {
		e.by, e.devices, e.judge = s.by, s.devices, s.judge
	} else if err = e.found(); err != nil {
		return nil, err
	}
	if e.machine, err = newMachine(e.by, o.Now()); err != nil {
		return nil, err
	}
	if o.Share != nil {
		e.machine = o.Share.machine
	}
	if e.identity, err = newIdentity(); err != nil {
		return nil, err
	}
	e.measure()
	e.server = &http.Server{Handler: e.routes(), ReadHeaderTimeout: 10 * time.Second}
	return e, nil
}

// found makes the authorities.
func (e *Enclave) found() (err error) {
	if e.by, err = newAuthority(e.o.Now()); err != nil {
		return err
	}
	if e.devices, err = newDevices(max(0, e.o.Devices), e.o.Now()); err != nil {
		return err
	}
	e.judge, err = newJudge()
	return err
}

// event is one that the domain's software measured.
type event struct {
	IMR     int    `json:"imr"`
	Type    uint32 `json:"event_type"`
	Digest  string `json:"digest"`
	Name    string `json:"event"`
	Payload string `json:"event_payload"`
}

// measure makes the event log and the composition of the domain.
func (e *Enclave) measure() {
	e.compose = `{"manifest_version":2,"name":"farebox-test","runner":"docker-compose"}`
	sum := sha256.Sum256([]byte(e.compose))
	for i := range 3 {
		d := sha512.Sum384([]byte{byte(i)})
		e.log = append(e.log, event{IMR: i, Type: 0x80000001, Digest: hex.EncodeToString(d[:])})
	}
	for name, payload := range map[string][]byte{"compose-hash": sum[:]} {
		raw := append([]byte{1, 0, 0, 8, ':'}, name...)
		d := sha512.Sum384(append(append(raw, ':'), payload...))
		e.log = append(e.log, event{IMR: 3, Type: 0x08000001, Digest: hex.EncodeToString(d[:]), Name: name,
			Payload: hex.EncodeToString(payload)})
	}
}

// domain is the trust domain in the next quote.
func (e *Enclave) domain(data [64]byte) *Domain {
	d := &Domain{Version: e.o.Version, ReportData: data}
	sum := sha256.Sum256([]byte(e.compose))
	d.ConfigID[0] = 1
	copy(d.ConfigID[1:], sum[:])
	for _, ev := range e.log {
		d.RTMR[ev.IMR] = sha512.Sum384(append(d.RTMR[ev.IMR][:], unhex(ev.Digest)...))
	}
	switch e.Lie() {
	case Debug:
		d.Debug = true
	case OldModule:
		d.Module = [2]byte{2, moduleVersion}
	}
	return d
}

// Lie is the current one; Tell changes it.
func (e *Enclave) Lie() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lie
}

// Tell makes the enclave lie from now on.
func (e *Enclave) Tell(lie string) {
	if !slices.Contains(Lies, lie) {
		panic("enclave: there is no lie " + lie)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lie = lie
}

// Away makes Intel's publications unreachable, or reachable again.
func (e *Enclave) Away(away bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = away
}

// Fronts puts others behind this one: its reports show theirs, too, and chats that
// are sealed to one of them go there.
func (e *Enclave) Fronts(others ...*Enclave) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.others = others
}

func (e *Enclave) behind() []*Enclave {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.others
}

// Root is the root certificate of quotes, in PEM; DeviceRoot that of devices.
func (e *Enclave) Root() []byte { return pems(e.by.root.Certificate) }

// DeviceRoot is the root certificate of devices, in PEM.
func (e *Enclave) DeviceRoot() []byte { return pems(e.devices.certificateOf()) }

// Public is the enclave's key in 130 hexadecimal digits.
func (e *Enclave) Public() string { return hex.EncodeToString(e.identity.public()) }

// Requests are the last chats, oldest first.
func (e *Enclave) Requests() (list []Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.requests {
		list = append(list, *r)
	}
	return list
}

// Calls is how often a path was asked.
func (e *Enclave) Calls(path string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[path]
}

// Collateral is the collateral of its machine, as a file.
func (e *Enclave) Collateral() ([]byte, error) {
	c, err := e.machine.collateral(e.published())
	if err != nil {
		return nil, err
	}
	return json.Marshal(c)
}

func (e *Enclave) published() Published {
	p := e.o.Published
	if p.At.IsZero() {
		p.At = e.o.Now().Add(-time.Minute)
	}
	if p.Next.IsZero() {
		p.Next = p.At.Add(e.o.CollateralFor)
	}
	return p
}

// FMSPC is the kind of its processor.
func (e *Enclave) FMSPC() string { return hex.EncodeToString(e.machine.of.fmspc[:]) }

// Quote makes a quote for report data, as the enclave itself would.
func (e *Enclave) Quote(data [64]byte) ([]byte, error) { return e.machine.quoteOf(e.domain(data)) }

// Start serves on an address, :0 for any port, and gives its base, http://host:port.
func (e *Enclave) Start(address string) (base string, err error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	go func() { _ = e.Serve(ln) }()
	return "http://" + ln.Addr().String(), nil
}

// Serve serves on a listener until Close.
func (e *Enclave) Serve(ln net.Listener) error {
	if err := e.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends the server.
func (e *Enclave) Close() { _ = e.server.Close() }
