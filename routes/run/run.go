// Package run is the process of a gateway: it opens the listener, the ledger and the proxy, serves until a signal or a
// successor ends it, and closes everything in an order that loses no charge.
package run

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/billing/cli"
	"farebox/config"
	"farebox/providers/media"
	nodes "farebox/providers/rpc"
	"farebox/proxy"
	"farebox/proxy/listen"
	"farebox/routes"
)

// Options describe the process to run.
type Options struct {
	Version string
	// File is the config file, which is watched. Empty: nothing is watched.
	File string
	// Load reads the config at the start. Override changes it then, and at each reload.
	Load     func() (*config.Config, error)
	Override func(*config.Config)
	// Build connects the capabilities; rest ends their work in the background.
	Build Builder
	// FirstPayment is a signed payment to an address, for the demonstration. It is not called without one.
	FirstPayment func(payTo string) cli.FirstTopUp
}

// Builder connects the capabilities of a gateway; rest may be called more than once.
type Builder func(*config.Config, *billing.Ledger, *proxy.Proxy, zerolog.Logger) (gw *routes.Gateway, rest func(), err error)

// closeLimit is the time that a process needs to cut its last requests and to close the
// ledger, after the drain limit.
const closeLimit = 15 * time.Second

// process is a running gateway.
type process struct {
	Options
	cfg       *config.Config
	log       zerolog.Logger
	inherited *listen.Inherited
	listener  net.Listener
	operators net.Listener // nil: they connect nowhere
	watch     reloads
	ledger    *billing.Ledger
	secrets   *cli.DemoKeys // of the first start of the demonstration
	proxy     *proxy.Proxy
	gateway   *routes.Gateway
	failed    chan error
	warned    []config.Problem
	unclosed  error    // of the ledger
	closing   []func() // in the order of opening
}

// Serve runs the gateway until SIGTERM or SIGINT, or until a successor took the
// listening socket, and drains it.
func Serve(o Options) (err error) {
	signals := proxy.Signals()
	p := &process{Options: o, failed: make(chan error, 4)}
	defer p.close()
	if p.inherited, err = listen.Inherit(); err != nil {
		return err
	}
	if p.cfg, err = o.Load(); err != nil {
		return err
	}
	o.Override(p.cfg)
	if p.log, err = p.cfg.Log.Open(); err != nil {
		return err
	}
	p.cfg.LogWarnings(p.log, nil)
	p.warned = p.cfg.Warnings
	if err := p.open(); err != nil {
		return err
	}
	if err := p.begin(); err != nil {
		return err
	}
	life := proxy.Life{
		Listener: p.listener, Proxy: p.proxy, Log: p.log, DrainDelay: p.cfg.Server.DrainDelay,
		DrainTimeout: p.cfg.Server.DrainTimeout,
		Further:      p.further(),
		Failed:       p.failed, Draining: p.gateway.SetDraining, Leaving: p.gateway.SetLeaving,
	}
	life.Server = proxy.NewServer(p.gateway.Handler(), p.gateway.ServerOptions(p.cfg))
	go func() { p.failed <- life.Server.Serve(p.listener) }()
	if life.Reload, err = p.announce(); err != nil {
		return err
	}
	err = life.Run(signals)
	p.close()
	if p.unclosed != nil {
		return errors.Join(err, fmt.Errorf("cannot close the ledger: %w", p.unclosed))
	}
	p.log.Info().Msg("stopped; all charges are on disk")
	return err
}

// onClose adds a step to close, before those that were added earlier.
func (p *process) onClose(f func()) { p.closing = append(p.closing, f) }

func (p *process) close() {
	for _, f := range slices.Backward(p.closing) {
		f()
	}
	p.closing = nil
}

// open opens the listener first, so that a taken port leaves nothing behind, least of all
// keys that were never shown; then the ledger.
func (p *process) open() (err error) {
	cfg := p.cfg
	if p.listener, err = proxy.ListenWith(cfg.Listen, routes.ListenOptions(cfg, p.inherited)); err != nil {
		return err
	}
	p.onClose(func() { _ = p.listener.Close() })
	if cfg.Operator.Listen != config.OperatorSocket { // which is beside the ledger
		if err := p.listenOperators(); err != nil {
			return err
		}
	}
	var wait time.Duration
	if err := proxy.Check(); err != nil {
		return err
	}
	p.proxy = proxy.New(proxy.Options{ClientStall: cfg.Server.ClientStall, HalfCloseGone: *cfg.Server.HalfCloseGone})
	p.onClose(p.proxy.Close)
	if p.inherited != nil && p.inherited.FromPredecessor {
		wait = cfg.Server.DrainTimeout + closeLimit
		p.inherited.Took()
		p.log.Info().Dur("limit_ms", wait).Msg(
			"taking over: requests wait until the process before has ended its streams and closed the ledger")
	}
	p.ledger, err = billing.Open(billing.Options{Wait: wait, Dir: cfg.LedgerDir(), Shared: cfg.SharedAddress(),
		NodeName: cfg.Node.Name, Leases: cfg.Billing.Leases, Brand: cfg.Brand, Durability: cfg.Durability, Log: p.log,
		Redis: cfg.Redis, Idempotency: cfg.Idempotency, Responses: cfg.Responses,
		Buckets: func(key string, c *config.S3) (billing.Bucket, error) { return media.OpenFiles(key, c) }})
	if err != nil {
		return fmt.Errorf("cannot open the ledger in %s: %w", cfg.StoreName(), err)
	}
	p.onClose(func() { p.unclosed = p.ledger.Close() })
	if cfg.Simulated {
		if p.secrets, err = cli.OpenDemo(p.ledger); err != nil {
			return fmt.Errorf("cannot set up the demonstration account: %w", err)
		}
	}
	return nil
}

// begin connects the capabilities and starts their work in the background, which ends
// before the ledger, for which a successor waits.
func (p *process) begin() (err error) {
	var rest func()
	if p.gateway, rest, err = p.Build(p.cfg, p.ledger, p.proxy, p.log); err != nil {
		return err
	}
	p.onClose(rest)
	if len(p.cfg.RPC.Networks) > 0 {
		if err := nodes.EmptySpool(p.cfg); err != nil {
			return fmt.Errorf("%w; farebox must be able to write to %s", err, p.cfg.LedgerDir())
		}
	}
	if err := p.ledger.ServeControl(); err != nil {
		return fmt.Errorf("cannot open the control socket in %s: %w", p.cfg.LedgerDir(), err)
	}
	if p.cfg.Operator.Listen == config.OperatorSocket {
		if err := p.listenOperators(); err != nil {
			return err
		}
	}
	if err := p.gateway.Begin(); err != nil {
		return err
	}
	p.onClose(p.gateway.Close)
	p.onClose(rest)
	p.serveOperators()
	return nil
}

// announce opens the metrics, watches the config and prints the banner. reload reads the
// config again; nil: there is no file.
func (p *process) announce() (reload func(), err error) {
	metricsAt, stopMetrics, err := p.gateway.ListenMetrics(p.cfg, p.failed)
	if err != nil {
		return nil, err
	}
	p.onClose(stopMetrics)
	if p.File != "" {
		watch, err := p.cfg.Watch(p.reload, p.watch.note(p.gateway.NoteReload))
		if err != nil {
			return nil, fmt.Errorf("cannot watch %s: %w", p.File, err)
		}
		p.onClose(watch.Close)
		p.watch.now.Store(watch)
		reload = watch.Reload
	}
	quiet := make(chan struct{})
	p.onClose(func() { close(quiet) })
	go proxy.GiveMemoryBack(quiet)
	p.gateway.Warm()
	var banner bytes.Buffer // is written at once
	cli.Banner(&banner, p.Version, p.cfg, p.listener.Addr(), metricsAt, p.operatorsAt(), p.ledger.NodeLabel(), p.secrets)
	if p.cfg.Simulated {
		first := p.FirstPayment(p.cfg.X402.Networks[0].PayTo)
		done, err := cli.WriteDemo(p.cfg, p.listener.Addr(), &first)
		if err != nil {
			return nil, fmt.Errorf("cannot write the list of calls to try: %w", err)
		}
		p.onClose(done)
	}
	_, _ = os.Stdout.Write(banner.Bytes()) // serving does not depend on a reader
	return reload, nil
}

// reload takes another config into effect. A refused one changes nothing.
func (p *process) reload(next *config.Config) error {
	p.Override(next)
	if ln, ok := p.listener.(proxy.Refresher); ok {
		if err := ln.Refresh(); err != nil {
			return err
		}
	}
	if err := p.gateway.Reload(next); err != nil {
		return err
	}
	next.LogWarnings(p.log, p.warned)
	p.warned = next.Warnings
	return nil
}
