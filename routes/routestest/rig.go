package routestest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config"
	"farebox/providers/media"
	"farebox/proxy"
	"farebox/routes"
)

// Rig is a gateway on a socket, with the parts that its tests need.
type Rig struct {
	Gateway *routes.Gateway
	Ledger  *billing.Ledger
	Proxy   *proxy.Proxy
	Address string // host:port
	Secret  string // of a key whose account has 1,000 USD
	Log     Log
}

// Start serves a config, in which ADDR stands for the upstream's address.
func Start(t testing.TB, text, upstream string, capabilities ...routes.Capability) *Rig {
	t.Helper()
	return StartWith(t, text, upstream, func(*routes.Options) {}, capabilities...)
}

// StartWith is Start with changed options of the gateway.
func StartWith(t testing.TB, text, upstream string, change func(*routes.Options),
	capabilities ...routes.Capability) *Rig {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(strings.ReplaceAll(text, "ADDR", upstream)),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	r := &Rig{}
	if r.Ledger, err = billing.Open(billing.Options{Dir: t.TempDir(), Brand: "svc", Log: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	r.Secret = r.customer(t, "a")
	r.Proxy = proxy.New(proxy.Options{HalfCloseGone: true})
	t.Cleanup(r.Proxy.Close)
	level, err := zerolog.ParseLevel(cfg.Log.Level)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Media.Dir, cfg.Media.FreeBytes = t.TempDir(), 0
	kept, err := media.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o := routes.Options{Ledger: r.Ledger, Proxy: r.Proxy, Log: zerolog.New(&r.Log).Level(level), Version: "test",
		Media: kept}
	change(&o)
	if r.Gateway, err = routes.New(o, cfg, capabilities...); err != nil {
		t.Fatal(err)
	}
	if err := r.Gateway.Begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Gateway.Close)
	srv := proxy.NewServer(r.Gateway.Handler(), r.Gateway.ServerOptions(cfg))
	ln, err := proxy.Listen("127.0.0.1:0", "", "")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = srv.ShutdownWithContext(ctx)
	})
	r.Address = ln.Addr().String()
	return r
}

// Balance is the USD that the account of Secret has to spend.
func (r *Rig) Balance() billing.Nano {
	key, err := r.Ledger.Lookup([]byte(r.Secret))
	if err != nil {
		return -1
	}
	return key.BalanceAt(time.Now().UnixNano())[money.InUSD]
}

// Stranger makes another account with 1,000 USD and gives the secret of its key.
func (r *Rig) Stranger(t testing.TB) (secret string) {
	t.Helper()
	return r.customer(t, "b")
}

// customer makes an account with 1,000 USD and gives the secret of its key.
func (r *Rig) customer(t testing.TB, name string) (secret string) {
	t.Helper()
	account, err := billing.Do(r.Ledger, billing.CreateAccount{Name: name})
	if err == nil {
		_, err = billing.Do(r.Ledger, billing.CreditAccount{Account: account.ID, Currency: billing.USD,
			Amount: 1_000_000_000_000})
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := billing.Do(r.Ledger, billing.CreateKey{NewKey: billing.NewKey{Account: account.ID, Type: store.Inference}})
	if err != nil {
		t.Fatal(err)
	}
	return key.Secret
}

// PostAs is Post with the key of somebody else.
func (r *Rig) PostAs(secret, path, body string) (status int, answer string) {
	return r.send(http.MethodPost, path, body, secret, "")
}

// Post sends JSON below the prefix of the API, with an idempotency key unless it
// is empty. A status of 0 says that there was no answer, for the reason in body.
func (r *Rig) Post(path, body, key string) (status int, answer string) {
	return r.send(http.MethodPost, path, body, r.Secret, key)
}

func (r *Rig) send(method, path, body, secret, key string) (status int, answer string) {
	req, err := http.NewRequest(method, "http://"+r.Address+routes.Prefix+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+secret)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body) // a broken one is as good
	return res.StatusCode, string(b)
}

// Log is the log of a Rig.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds lines.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Lines are the lines logged so far.
func (l *Log) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

// Upstream serves HTTP for a test and gives its address.
func Upstream(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	return ln.Addr().String()
}
