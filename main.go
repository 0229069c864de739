// Command farebox is a prepaid gateway for AI: it sells access to model
// providers from prepaid balances. See README.md; the life of a request is told
// in proxy/doc.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/valyala/fasthttp"
	"golang.org/x/term"

	"farebox/bench"
	"farebox/bench/upstream"
	"farebox/billing"
	"farebox/billing/cli"
	"farebox/config"
	_ "farebox/config/quiet"
	"farebox/providers"
	"farebox/providers/jsonrpc"
	"farebox/proxy"
	"farebox/routes"
)

// version is the build stamp, set by the Makefile (addendum 3.7: YYYYMMDD.HHMMSS).
var version = "00000000.000000"

func main() {
	log.SetOutput(os.Stderr) // after the silence of quiet
	root, begun := command(), false
	explain(root, &begun)
	if cmd, err := root.ExecuteC(); err != nil {
		fmt.Fprintln(os.Stderr, "farebox: "+err.Error())
		if !begun {
			fmt.Fprintln(os.Stderr, "usage: "+cmd.UseLine()+"; "+cmd.CommandPath()+" --help says more")
		}
		os.Exit(1)
	}
}

// explain notes when a command line was understood, so that one that was not is
// answered with the usage; and makes a group such as `farebox key` refuse what
// it does not have, which would otherwise end with success.
func explain(cmd *cobra.Command, begun *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*begun = true
			return run(cmd, args)
		}
	} else if cmd.HasSubCommands() && cmd.HasParent() && cmd.Run == nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return cmd.Help()
		}
	}
	for _, sub := range cmd.Commands() {
		explain(sub, begun)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use: "farebox", Short: "The prepaid gateway for AI", Version: version,
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.AddCommand(serveCommand(), checkCommand(), versionCommand(), bench.Command())
	root.AddCommand(cli.Commands()...)
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which build this is", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "farebox "+version) },
	}
}

func checkCommand() *cobra.Command {
	var file string
	var online bool
	cmd := &cobra.Command{
		Use: "check -c FILE", Short: "Check a config file and say everything that is wrong with it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(file)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), config.Summary(cfg))
			if online {
				return askUpstreams(cmd.OutOrStdout(), cfg)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&online, "online", false, "also ask every upstream once, which costs no tokens, and say what is wrong with its key or address")
	cmd.Flags().StringVarP(&file, "config", "c", "", "config file (YAML)")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// askUpstreams prints what every upstream answers to a question that is free.
func askUpstreams(out io.Writer, cfg *config.Config) error {
	bad, all := 0, providers.Ask(cfg)
	for _, a := range all {
		if a.Err != nil {
			bad++
			fmt.Fprintf(out, "  upstream %s: %v\n", a.Name, a.Err)
			continue
		}
		fmt.Fprintf(out, "  upstream %s: %s\n", a.Name, a.Good)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d upstreams cannot be used as they are configured", bad, len(all))
	}
	return nil
}

func serveCommand() *cobra.Command {
	var file, listen, store string
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the API; without a config file, a demonstration with a simulated upstream", Args: cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			override := func(cfg *config.Config) {
				if listen != "" {
					cfg.Listen = listen
				}
				if store != "" {
					cfg.Store = store
				}
			}
			return serve(file, override)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "config file (YAML); none: a demonstration on 127.0.0.1:8080")
	cmd.Flags().StringVar(&listen, "listen", "", "listen here instead of where the config says (host:port or unix:/path)")
	cmd.Flags().StringVar(&store, "store", "", "keep the ledger in this directory or postgres://… instead of where the config says")
	return cmd
}

// closeLimit is what a process takes to cut its last requests and to close the
// ledger, behind the drain limit.
const closeLimit = 15 * time.Second

// serve runs the gateway until SIGTERM or SIGINT, or until a successor took the
// listening socket, and drains it.
func serve(file string, override func(*config.Config)) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if proxy.HandOverSignal != nil {
		signal.Notify(signals, proxy.HandOverSignal)
	}
	inherited, err := proxy.Inherit()
	if err != nil {
		return err
	}

	cfg, sim, err := loadOrDemo(file)
	if err != nil {
		return err
	}
	if sim != nil {
		defer sim.Close()
	}
	override(cfg)
	log := newLog(cfg.Log)
	// First of all, so that a taken port leaves nothing behind, least of all
	// keys that were never shown.
	ln, err := proxy.ListenWith(cfg.Listen, proxy.ListenOptions{
		Cert: cfg.TLS.Cert, Key: cfg.TLS.Key, Front: frontOf(&cfg.Server), Unsent: int(cfg.Server.SendBuffer), Stall: cfg.Server.ClientStall,
		Inherited: inherited,
	})
	if err != nil {
		hint := "write the address as host:port or unix:/path"
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = "is another farebox running? choose another address with --listen"
		}
		return fmt.Errorf("cannot listen on %s: %w; %s", cfg.Listen, err, hint)
	}
	defer func() { _ = ln.Close() }()

	var wait time.Duration
	if inherited != nil && inherited.FromPredecessor {
		wait = cfg.Server.DrainTimeout + closeLimit
		inherited.Took()
		log.Info().Dur("limit_ms", wait).Msg("taking over: requests wait until the process before has ended its streams and closed the ledger")
	}
	ledger, err := billing.Open(billing.Options{Wait: wait, Dir: cfg.LedgerDir(), Shared: cfg.SharedAddress(), NodeName: cfg.Node.Name, Leases: cfg.Billing.Leases, Brand: cfg.Brand, Durability: cfg.Durability, Log: log, Redis: cfg.Redis, Idempotency: cfg.Idempotency})
	if err != nil {
		return fmt.Errorf("cannot open the ledger in %s: %w", cfg.StoreName(), err)
	}
	closeLedger := ledger.Close
	defer func() { _ = closeLedger() }()

	var secrets *demoKeys
	if cfg.Simulated {
		if secrets, err = openDemoAccount(ledger); err != nil {
			return fmt.Errorf("cannot set up the demonstration account: %w", err)
		}
	}

	px := proxy.New(proxy.Options{ClientStall: cfg.Server.ClientStall, HalfCloseGone: *cfg.Server.HalfCloseGone})
	defer px.Close()
	gw, err := routes.New(routes.Options{Ledger: ledger, Proxy: px, Log: log, Version: version, Fetch: providers.NewFetcher(cfg.Fetch)}, cfg)
	if err != nil {
		return err
	}
	if len(cfg.RPC.Networks) > 0 {
		if err := jsonrpc.EmptySpool(cfg); err != nil {
			return fmt.Errorf("%w; farebox must be able to write to %s", err, cfg.LedgerDir())
		}
	}
	if err := ledger.ServeControl(); err != nil {
		return fmt.Errorf("cannot open the control socket in %s: %w", cfg.LedgerDir(), err)
	}
	srv := proxy.NewServer(gw.Handler(), gw.ServerOptions(cfg))
	failed := make(chan error, 3)
	go func() { failed <- srv.Serve(ln) }()

	metricsAt, stopMetrics, err := serveMetrics(cfg, log, gw, failed)
	if err != nil {
		return err
	}
	defer stopMetrics()
	var watch *config.Watcher
	if file != "" {
		watch, err = cfg.Watch(func(next *config.Config) error {
			override(next)
			// Before anything changes, so that a refused reload changes nothing.
			if ln, ok := ln.(proxy.Refresher); ok {
				if err := ln.Refresh(); err != nil {
					return err
				}
			}
			return gw.Reload(next)
		}, func(msg string, err error) {
			gw.NoteReload(err)
			if err != nil {
				log.Error().Err(err).Msg(msg)
				return
			}
			log.Info().Msg(msg)
		})
		if err != nil {
			return fmt.Errorf("cannot watch %s: %w", file, err)
		}
		defer watch.Close()
	}
	quiet := make(chan struct{})
	defer close(quiet)
	go proxy.GiveMemoryBack(quiet)
	gw.Warm()
	banner(os.Stdout, cfg, ln.Addr(), metricsAt, ledger.NodeLabel(), secrets)

	err = nil
	var took <-chan error // by a successor; nil: there is none
	handedOver := false
	for stop := false; !stop; {
		select {
		case no := <-took:
			if took = nil; no != nil {
				log.Error().Err(no).Msg("no hand-over; going on as before")
				break
			}
			log.Info().Dur("limit_ms", cfg.Server.DrainTimeout).Msg("handed over: streams may finish")
			handedOver, stop = true, true
		case err = <-failed:
			err = fmt.Errorf("cannot go on serving: %w", err)
			stop = true
		case s := <-signals:
			if s == proxy.HandOverSignal {
				if took == nil {
					took = handOver(ln, log)
				}
			} else if s != syscall.SIGHUP {
				log.Info().Str("signal", s.String()).Dur("limit_ms", cfg.Server.DrainTimeout).Msg("draining: no new work, streams may finish")
				stop = true
			} else if watch != nil {
				watch.Reload()
			} else {
				log.Warn().Msg("SIGHUP: there is no config file to reload")
			}
		}
	}
	delay := cfg.Server.DrainDelay
	if handedOver || err != nil {
		delay = 0
	}
	if !handedOver { // the successor welcomes new work
		gw.SetDraining()
	}
	ctx, cancel := context.WithTimeout(context.Background(), delay+cfg.Server.DrainTimeout)
	defer cancel()
	go func() {
		for s := range signals {
			if s != syscall.SIGHUP && s != proxy.HandOverSignal {
				log.Warn().Str("signal", s.String()).Msg("a second signal: what is under way is cut off now")
				cancel()
				return
			}
		}
	}()
	gw.SetLeaving()
	proxy.Farewell(ctx, srv, delay)
	if cut := proxy.Drain(ctx, srv, px); cut != nil {
		log.Warn().Err(cut).Msg("some requests were cut at the drain limit")
	}
	stopMetrics() // before the ledger, which a successor waits for
	closeLedger = func() error { return nil }
	if closing := ledger.Close(); closing != nil {
		return errors.Join(err, fmt.Errorf("cannot close the ledger: %w", closing))
	}
	log.Info().Msg("stopped; all charges are on disk")
	return err
}

// handOver starts a successor on the same socket; nil: it could not be started.
func handOver(ln net.Listener, log zerolog.Logger) <-chan error {
	pid, took, err := proxy.HandOver(ln)
	if err != nil {
		log.Error().Err(err).Msg("cannot start a successor; going on as before")
		return nil
	}
	log.Info().Int("pid", pid).Msg("a successor was started")
	return took
}

// frontOf is the proxies in front; nil: none.
func frontOf(s *config.Server) *proxy.Front {
	if len(s.TrustedProxies) == 0 {
		return nil
	}
	return &proxy.Front{Trusted: config.Prefixes(s.TrustedProxies), Unix: slices.Contains(s.TrustedProxies, config.Unix), ProxyProtocol: s.ProxyProtocol}
}

// serveMetrics opens the separate listener for /metrics, unless they are on the
// public one or switched off. Where the usual address is taken, by another
// farebox on this machine, any other of its ports does.
func serveMetrics(cfg *config.Config, log zerolog.Logger, gw *routes.Gateway, failed chan<- error) (at string, stop func(), err error) {
	addr := cfg.Server.MetricsListen
	if addr == config.MetricsOnListen || addr == config.MetricsOff {
		return addr, func() {}, nil
	}
	ln, err := proxy.Listen(addr, "", "")
	if err != nil && addr == config.DefaultMetricsListen {
		log.Info().Err(err).Msg("the usual address of /metrics is taken; name one with server.metrics_listen")
		ln, err = proxy.Listen("127.0.0.1:0", "", "")
	}
	if err != nil {
		return "", nil, fmt.Errorf("cannot listen on %s for metrics (server.metrics_listen): %w", addr, err)
	}
	srv := proxy.NewServer(func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) != "/metrics" {
			ctx.Error("only /metrics is here\n", fasthttp.StatusNotFound)
			return
		}
		gw.ServeMetrics(ctx)
	}, proxy.ServerOptions{Name: "farebox", MaxBody: 1 << 10, MaxConnections: 64, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute})
	go func() {
		if err := srv.Serve(ln); err != nil {
			failed <- err
		}
	}()
	return "http://" + ln.Addr().String() + "/metrics", func() { _ = srv.Shutdown() }, nil
}

// loadOrDemo reads the config file, or starts the simulated upstream and gives
// the demonstration config for it.
func loadOrDemo(file string) (*config.Config, *upstream.Server, error) {
	if file != "" {
		cfg, err := config.Load(file)
		return cfg, nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("cannot start the simulated upstream: %w", err)
	}
	sim := upstream.New(upstream.Options{})
	go func() { _ = sim.Serve(ln) }()
	return config.Demo("http://" + ln.Addr().String()), sim, nil
}

func newLog(c config.Log) zerolog.Logger {
	var out io.Writer = os.Stderr
	if c.Format == "console" || (c.Format == "auto" && term.IsTerminal(int(os.Stderr.Fd()))) {
		out = zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "15:04:05.000"}
	}
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}

// demoKeys are the secrets of the demonstration account, known only in the run that made them.
type demoKeys struct{ admin, inference string }

const (
	demoAccount = "demo"
	demoCredit  = config.Nano(100_000_000_000) // 100 USD
)

// openDemoAccount makes the demonstration account with 100 USD and two keys,
// unless an earlier run did; then there are no secrets to show.
func openDemoAccount(l *billing.Ledger) (*demoKeys, error) {
	accounts, err := l.Accounts()
	if err != nil {
		return nil, err
	}
	for _, a := range accounts {
		if a.Name == demoAccount {
			return nil, nil
		}
	}
	a, err := l.CreateAccount(demoAccount)
	if err != nil {
		return nil, err
	}
	if _, _, err := l.Credit(a.ID, billing.USD, demoCredit, "demo-first-run", "demonstration credit"); err != nil {
		return nil, err
	}
	keys := &demoKeys{}
	for _, k := range []struct {
		typ  billing.KeyType
		into *string
	}{{billing.Admin, &keys.admin}, {billing.Inference, &keys.inference}} {
		if _, *k.into, err = l.CreateKey(billing.NewKey{Account: a.ID, Type: k.typ, Description: "demonstration"}); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// banner says where the gateway listens, from what it runs, and how to make the first call.
func banner(w io.Writer, cfg *config.Config, addr net.Addr, metrics, node string, keys *demoKeys) {
	base := "http://" + addr.String() + "/api/v1"
	if cfg.TLS.Cert != "" {
		base = "https://" + addr.String() + "/api/v1"
	}
	source := cfg.Source
	if cfg.Simulated {
		source = "none: demonstration with a SIMULATED upstream, no real model answers"
	}
	fmt.Fprintf(w, "farebox %s\n  listening  %s\n  config     %s\n  store      %s\n", version, base, source, cfg.StoreName())
	switch metrics {
	case config.MetricsOff:
	case config.MetricsOnListen:
		fmt.Fprintln(w, "  metrics    on the address above, /metrics: they tell revenue, to everybody who can reach it")
	default:
		fmt.Fprintf(w, "  metrics    %s\n", metrics)
	}
	if node != "" {
		fmt.Fprintf(w, "  node       %s, journal in %s\n", node, cfg.LedgerDir())
	}
	secret, more := "<API key>", cli.Program()+" key create --account "+demoAccount
	if cfg.Store != cli.DefaultStore && !cfg.SharedStore() {
		more += " --store " + cfg.Store
	}
	if keys != nil {
		secret = keys.inference
		fmt.Fprintf(w, "  account    %s, 100 USD\n  ADMIN key      %s\n  INFERENCE key  %s\n  (shown this once; more: %s)\n", demoAccount, keys.admin, keys.inference, more)
	} else if cfg.Simulated {
		fmt.Fprintf(w, "  account    %s (keys were printed at the first start; more: %s)\n", demoAccount, more)
	}
	if len(cfg.Models) > 0 {
		fmt.Fprintf(w, "first call:\n  curl %s/chat/completions -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n",
			base, secret, cfg.Models[0].ID)
	}
}
