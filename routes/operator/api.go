package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/config"
	"farebox/providers/fetch"
	"farebox/proxy"
	"farebox/proxy/listen"
	"farebox/routes"
)

// Prefix begins the path of every operation.
const Prefix = "/operator/v1"

// Limits of the listener. Lists and exports may take long to write.
const (
	mostBody        = 64 << 10
	mostHead        = 8 << 10
	mostConnections = 256
	readTimeout     = 10 * time.Second
	idleTimeout     = time.Minute
	writeTimeout    = time.Hour
	closeTimeout    = 5 * time.Second
)

// Ledger carries operations out.
type Ledger interface {
	Perform(ctx context.Context, act billing.Act, name string, query []byte) (answer any, err error)
	OperatorToken(secret string) (billing.TokenInfo, error)
	WriteBackup(w io.Writer, by string) (billing.BackupInfo, error)
	// Ask has nodes answer a question, which OnQuestion answers on each of them.
	Ask(ctx context.Context, node string, q billing.Question, most time.Duration) (replies []billing.Reply, missing []string, err error)
	OnQuestion(func(context.Context, billing.Question) ([]byte, error))
	// Note writes a change of the process into the audit log.
	Note(act billing.Act, operation, subject string, query, after any) error
}

// Gateway is this process, which the ledger does not know.
type Gateway interface {
	Config() *config.Config // in effect
	Version() string
	State() routes.ProcessState
	Targets() []routes.TargetState
	Models() []routes.ModelState
	// Balance is an operator's balance at a provider; false: there is no such upstream.
	Balance(ctx context.Context, upstream string) (routes.BalanceState, bool)
	// CheckUpstream sends a free check to an upstream.
	CheckUpstream(ctx context.Context, upstream, model string) []routes.CheckState
}

// Options of the operators' API.
type Options struct {
	Ledger  Ledger
	Gateway Gateway
	Log     zerolog.Logger
	// Reload reads the config file now, and reports the result.
	Reload func() (message string, err error)
	// Failed receives the error that ends the listener.
	Failed chan<- error
}

// API serves operators.
type API struct {
	ledger  Ledger
	gateway Gateway
	reload  func() (string, error)
	log     zerolog.Logger
	rows    []*row
	// described is the OpenAPI document, made when it is first asked for.
	described func() []byte
	tries     routes.PerMinute[netip.Addr]
	seen      seen
	server    *fasthttp.Server // nil: operators connect nowhere
	failed    chan<- error
	ended     context.Context
	end       context.CancelFunc

	unix  bool
	named string // the host of the configured address
}

// Listen opens the socket of operators under cfg, or takes the one that a process before handed over; nil: operators
// connect nowhere.
func Listen(cfg *config.Config, inherited *listen.Inherited) (ln net.Listener, err error) {
	addr := cfg.Operator.Listen
	switch addr {
	case config.OperatorOff:
	case config.OperatorSocket:
		dir, err := filepath.Abs(cfg.LedgerDir())
		if err != nil {
			return nil, err
		}
		addr = "unix:" + filepath.Join(dir, config.OperatorSocketFile)
	}
	var further []net.Listener
	if inherited != nil {
		further, inherited.Further = inherited.Further, nil
	}
	o := proxy.ListenOptions{}
	for _, one := range further {
		if o.Inherited == nil && listensOn(one, addr) {
			o.Inherited = &listen.Inherited{Listener: one, FromPredecessor: true}
		} else {
			_ = one.Close()
		}
	}
	if addr == config.OperatorOff {
		return nil, nil
	}
	path, unix := strings.CutPrefix(addr, "unix:")
	if !unix {
		o.Cert, o.Key = cfg.TLS.Cert, cfg.TLS.Key
	}
	if ln, err = proxy.ListenWith(addr, o); err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("cannot listen on %s for operators (operator.listen): %w", addr, err)
	}
	if unix {
		if err := os.Chmod(path, 0o600); err != nil {
			return nil, errors.Join(err, ln.Close())
		}
	}
	return ln, nil
}

// listensOn says that a socket has an address. Port 0 stands for any.
func listensOn(ln net.Listener, addr string) bool {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		own := ln.Addr().String()
		return ln.Addr().Network() == "unix" && (own == path || listen.Shortened(own) && filepath.Base(own) == filepath.Base(path))
	}
	at, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return false
	}
	want, err := net.ResolveTCPAddr("tcp", addr)
	return err == nil && (want.Port == at.Port || want.Port == 0) && (want.IP.Equal(at.IP) || len(want.IP) == 0 && at.IP.IsUnspecified())
}

// New makes the operators' API of this node, which answers to other nodes.
func New(o Options) *API {
	d := &API{ledger: o.Ledger, gateway: o.Gateway, reload: o.Reload, log: o.Log, failed: o.Failed}
	d.ended, d.end = context.WithCancel(context.Background())
	d.rows, d.described = d.table(), sync.OnceValue(d.describe)
	d.ledger.OnQuestion(d.answerNode)
	return d
}

// Serve serves operators on a socket, until Close.
func (a *API) Serve(ln net.Listener) {
	a.unix = ln.Addr().Network() == "unix"
	a.named, _, _ = net.SplitHostPort(a.gateway.Config().Operator.Listen)
	if at, ok := ln.Addr().(*net.TCPAddr); ok {
		fetch.Refuse(at.AddrPort())
	}
	a.server = proxy.NewServer(a.handle, proxy.ServerOptions{MaxBody: mostBody, ReadBuffer: mostHead,
		MaxConnections: mostConnections, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, WriteTimeout: writeTimeout,
		Refuse: func(ctx *fasthttp.RequestCtx, r proxy.Refusal) {
			(&refusal{status: r.Status(), code: "INVALID_REQUEST", text: r.String()}).write(ctx)
		},
		OnPanic: func(ctx *fasthttp.RequestCtx, v any) {
			a.log.Error().Str("panic", fmt.Sprintf("%T", v)).Msg("an operation panicked: this is a fault of ours; please report it")
			(&refusal{status: 500, code: "UNKNOWN_ERROR", text: "An unexpected error occurred"}).write(ctx)
		}})
	go func() {
		if err := a.server.Serve(ln); err != nil {
			a.failed <- fmt.Errorf("operator.listen: %w", err)
		}
	}()
}

// URL is where operators connect, for people.
func URL(at net.Addr, cfg *config.Config) string {
	switch {
	case at.Network() == "unix" && cfg.Operator.Listen == config.OperatorSocket:
		return filepath.Join(cfg.LedgerDir(), config.OperatorSocketFile)
	case at.Network() == "unix":
		return at.String()
	case cfg.TLS.Cert != "":
		return "https://" + at.String() + Prefix
	}
	return "http://" + at.String() + Prefix
}

// Close ends the listener and waits a moment for calls under way.
func (a *API) Close() {
	a.end()
	if a.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = a.server.ShutdownWithContext(ctx)
}
