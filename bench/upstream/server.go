package upstream

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/enclave"
)

// Options of a Server; the zero value is a well-behaved server without a key.
type Options struct {
	// Models are listed by GET /v1/models. Any model name is answered.
	Models []string
	// Key, when set, is demanded as bearer token or x-api-key.
	Key string
	// Scenario is the default scenario of every request.
	Scenario Scenario
	// Faults are drawn for every request, the first hit wins.
	Faults []Fault
	// Seed makes the draws repeatable.
	Seed uint64
	// Tokens is the natural length of an answer; default 32.
	Tokens int
	// Keep is how many requests GET /_sim/last shows; default 16.
	Keep int
	// Price is the price for Made; zero: tokens only.
	Price Price
	// Check refuses requests that a vendor would refuse; nil: all that can be answered are
	// answered.
	Check func(*Call) Flaw
	// Clouds checks callers of the simulated clouds; nil: all may enter.
	Clouds Clouds
}

// Fault is a scenario that hits a share of all requests.
type Fault struct {
	Share    float64 // 0 to 1
	Scenario string  // in the key=value form
}

const (
	defaultTokens = 32
	defaultKeep   = 16
)

// Server is the simulated upstream. It may serve several listeners.
type Server struct {
	options Options
	truth   truth
	ids     atomic.Uint64
	draws   atomic.Uint64
	cache   sync.Map // model suffix -> *Scenario

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	failed    map[string]int // fail_first: failures given so far, by scenario id
	nodes     map[string]*chain.Node
	jobs      map[string]*job
	voices    map[string]int // cloned ones, with the bytes of their samples
	files     string         // the folder of files for other processes; empty if absent
	enclosed  *enclave.Enclave
	orders    map[string]*order
	payments  payments
	running   sync.WaitGroup
}

// New makes a Server; Serve starts it.
func New(o Options) *Server {
	if o.Tokens <= 0 {
		o.Tokens = defaultTokens
	}
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	if len(o.Models) == 0 {
		o.Models = []string{"sim-chat", "sim-chat-unicode", "sim-reasoning", "sim-embedding"}
		o.Models = append(o.Models, BenchModels()...)
	}
	if o.Clouds == nil {
		o.Clouds = open{}
	}
	s := &Server{
		options:   o,
		listeners: map[net.Listener]struct{}{},
		conns:     map[*conn]struct{}{},
		failed:    map[string]int{},
		jobs:      map[string]*job{},
	}
	s.truth.init(o.Keep)
	return s
}

// Serve answers on ln until Close; it then returns nil.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = ln.Close()
		return nil
	}
	s.listeners[ln] = struct{}{}
	s.mu.Unlock()
	for {
		nc, err := ln.Accept()
		if err != nil {
			s.mu.Lock()
			closed := s.closed
			delete(s.listeners, ln)
			s.mu.Unlock()
			if closed || errors.Is(err, net.ErrClosed) {
				return nil
			}
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() {
				continue
			}
			return err
		}
		s.serveConn(nc)
	}
}

func (s *Server) serveConn(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = nc.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	s.truth.accepted.Add(1)
	go func() {
		defer s.running.Done()
		defer func() {
			_ = nc.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		}()
		c.run()
	}()
}

// Start serves on a free loopback port and gives its base URL with /v1.
func (s *Server) Start() (baseURL string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = s.Serve(ln) }()
	return "http://" + ln.Addr().String() + "/v1", nil
}

// AccountFile is the path of a service account's key, which is there until Close.
func (s *Server) AccountFile() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file("account.json", s.options.Clouds.ServiceAccount("https://oauth2.googleapis.com/token"))
}

// StartAll serves an enclave beside the upstream, and gives the values for the demonstration's config:
// addresses without a path, and files that are there until Close.
func (s *Server) StartAll() (where map[string]string, err error) {
	base, err := s.Start()
	if err != nil {
		return nil, err
	}
	account, err := s.AccountFile()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.enclosed, err = enclave.New(enclave.Options{}); err != nil {
		return nil, err
	}
	at, err := s.enclosed.Start("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	intel, err := s.file("intel.pem", s.enclosed.Root())
	if err != nil {
		return nil, err
	}
	nvidia, err := s.file("nvidia.pem", s.enclosed.DeviceRoot())
	return map[string]string{"SIM_URL": strings.TrimSuffix(base, "/v1"), "SIM_ACCOUNT": account, "SIM_ENCLAVE": at,
		"SIM_INTEL_ROOT": intel, "SIM_NVIDIA_ROOT": nvidia}, err
}

// file writes a file for other processes, readable by its owner alone. The caller has mu.
func (s *Server) file(name string, content []byte) (path string, err error) {
	if s.files == "" {
		if s.files, err = os.MkdirTemp("", "farebox-simulated-*"); err != nil {
			return "", err
		}
	}
	path = filepath.Join(s.files, name)
	return path, os.WriteFile(path, content, 0o600)
}

// Close ends all listeners and connections and waits for them.
func (s *Server) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	if s.enclosed != nil {
		s.enclosed.Close()
	}
	if s.files != "" {
		_ = os.RemoveAll(s.files)
		s.files = ""
	}
	for ln := range s.listeners {
		_ = ln.Close()
	}
	for c := range s.conns {
		_ = c.nc.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// node is the simulated blockchain node at a path below /rpc/: one whose name
// begins with solana is one of those, and two are the chains on which payments move (payments.go).
func (s *Server) node(name string) *chain.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[name] == nil {
		if s.nodes == nil || len(s.nodes) > 100 {
			s.nodes = map[string]*chain.Node{}
		}
		s.nodes[name] = chain.NewNode(s.nodeOptions(name))
	}
	return s.nodes[name]
}

// failFirst says whether this request is among the first n of its scenario.
func (s *Server) failFirst(id string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed[id] >= n {
		return false
	}
	s.failed[id]++
	return true
}

// draw picks the fault, if any, of the next request.
func (s *Server) draw() string {
	if len(s.options.Faults) == 0 {
		return ""
	}
	at := float64(mix(s.options.Seed+s.draws.Add(1))>>11) / (1 << 53)
	for _, f := range s.options.Faults {
		if at < f.Share {
			return f.Scenario
		}
		at -= f.Share
	}
	return ""
}

// mix is splitmix64: one step turns a counter into well spread bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

var past = time.Unix(1, 0)

// payments are the chains and the facilitator of a Server, which are made when one of them
// is asked for.
type payments struct {
	once        sync.Once
	evm         *chain.EVM
	solana      *chain.Solana
	facilitator *chain.Facilitator
}

// Paths below the server's root where payments are simulated.
const (
	PathFacilitator = "/x402"
	PathPayEVM      = "/rpc/pay-evm"
	PathPaySolana   = "/rpc/solana-pay"
)

func (s *Server) paid() *payments {
	p := &s.payments
	p.once.Do(func() {
		p.evm, p.solana = chain.NewEVM(chain.EVMOptions{}), chain.NewSolana(chain.SolanaOptions{})
		p.facilitator = chain.NewFacilitator(p.evm, p.solana)
	})
	return p
}

func (s *Server) facilitator() *chain.Facilitator { return s.paid().facilitator }

// nodeOptions of a node by its name below /rpc/.
func (s *Server) nodeOptions(name string) chain.NodeOptions {
	o := chain.NodeOptions{Solana: strings.HasPrefix(name, "solana")}
	switch "/rpc/" + name {
	case PathPayEVM:
		o.Ledger = s.paid().evm
	case PathPaySolana:
		o.Ledger = s.paid().solana
	}
	return o
}

// FirstPayment is a payment for a first try of a gateway before this server: a wallet,
// whose key is public, and 5 USD that it signed for.
type FirstPayment struct {
	Key, Address string
	Header       string // of version 2 of x402, PAYMENT-SIGNATURE
}

const (
	firstUnits = 5_000_000
	firstHolds = time.Hour
)

// FirstPayment signs one to a receiver.
func (s *Server) FirstPayment(payTo string) FirstPayment {
	evm, wallet := s.paid().evm, chain.NewPayer()
	a := wallet.Authorization(payTo, firstUnits, time.Now().Add(firstHolds))
	return FirstPayment{Key: wallet.Secret(), Address: wallet.Address, Header: chain.Header(map[string]any{
		"x402Version": 2, "payload": chain.EVMPayload(a, wallet.SignAuthorization(evm, a)),
		"accepted": map[string]any{"scheme": "exact", "network": "eip155:8453", "amount": strconv.Itoa(firstUnits),
			"asset": chain.USDC, "payTo": payTo, "maxTimeoutSeconds": 300,
			"extra": map[string]string{"name": "USD Coin", "version": "2"}},
	})}
}
