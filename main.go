// Command farebox is a prepaid gateway for AI: it sells access to model
// providers from prepaid balances. See README.md; the life of a request is told
// in proxy/doc.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/tidwall/sjson"
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
	root.AddCommand(serveCommand(), checkCommand(), versionCommand(), accountCommand(), keyCommand(), usageCommand(), nodeCommand(),
		verifyCommand(), backupCommand(), restoreCommand(), migrateCommand(), bench.Command())
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
	ledger, err := billing.Open(billing.Options{Wait: wait, Dir: cfg.LedgerDir(), Shared: sharedStore(cfg), NodeName: cfg.Node.Name, Leases: cfg.Billing.Leases, Brand: cfg.Brand, Durability: cfg.Durability, Log: log, Redis: cfg.Redis, Idempotency: cfg.Idempotency})
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

// sharedStore is the address of the shared store; empty for an embedded ledger.
func sharedStore(cfg *config.Config) string {
	if cfg.SharedStore() {
		return cfg.Store
	}
	return ""
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
	secret, more := "<API key>", program()+" key create --account "+demoAccount
	if cfg.Store != defaultStore && !cfg.SharedStore() {
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

// defaultStore is where the ledger is without a config that says so.
const defaultStore = "./farebox-data"

// operatorFlags find the store that a command works on.
type operatorFlags struct {
	file, store string
	json        bool
}

func (f *operatorFlags) register(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVarP(&f.file, "config", "c", "", "config file that names the store")
	cmd.PersistentFlags().StringVar(&f.store, "store", "", "ledger directory or postgres://…; default: what the config says, or ./farebox-data")
	cmd.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
}

// open reaches the running server's ledger, or opens the store itself. Only who
// makes something, and says where, makes a ledger that was not there: whoever
// forgot -c would otherwise work on an empty one without noticing.
func (f *operatorFlags) open(makes bool) (billing.Operator, error) {
	cfg, err := f.config()
	if err != nil {
		return nil, err
	}
	if cfg.SharedStore() {
		return openShared(cfg)
	}
	if named := f.file != "" || f.store != ""; !(makes && named) && !billing.HasLedger(cfg.Store) {
		hint := "name the config with -c FILE, or the store with --store"
		if named {
			hint = "farebox serve and farebox account create make one"
		}
		return nil, fmt.Errorf("there is no ledger in %s: %s", cfg.StoreName(), hint)
	}
	op, _, err := billing.Operate(cfg.Store, cfg.Brand)
	if err != nil {
		return nil, fmt.Errorf("cannot open the ledger in %s: %w", cfg.StoreName(), err)
	}
	return op, nil
}

// config is what the operator wrote, or what holds without a file.
func (f *operatorFlags) config() (*config.Config, error) {
	cfg := &config.Config{Store: defaultStore, Brand: "svc"}
	if f.file != "" {
		var err error
		if cfg, err = config.LoadStore(f.file); err != nil {
			return nil, err
		}
	}
	if f.store != "" {
		cfg.Store = f.store
	}
	return cfg, nil
}

// options name the store as billing wants it.
func (f *operatorFlags) options() (billing.Options, error) {
	cfg, err := f.config()
	if err != nil {
		return billing.Options{}, err
	}
	return billing.Options{Dir: cfg.LedgerDir(), Shared: sharedStore(cfg), Brand: cfg.Brand, Redis: cfg.Redis, Idempotency: cfg.Idempotency}, nil
}

// openShared opens a shared store beside the nodes that run on it.
func openShared(cfg *config.Config) (*billing.Ledger, error) {
	l, err := billing.OperateShared(cfg.Store, cfg.Brand)
	if err != nil {
		return nil, fmt.Errorf("cannot open the ledger in %s: %w", cfg.StoreName(), err)
	}
	return l, nil
}

// given are the flags that name the store, as they were given, for commands to
// go on with; an address with a password in it is not repeated.
func (f *operatorFlags) given() (flags string) {
	if f.file != "" {
		flags += " -c " + f.file
	}
	if f.store != "" && !strings.Contains(f.store, "://") {
		flags += " --store " + f.store
	}
	return flags
}

// with runs do on the store and closes it.
func (f *operatorFlags) with(do func(billing.Operator) error) error { return f.run(false, do) }

// making is with for what may make the ledger.
func (f *operatorFlags) making(do func(billing.Operator) error) error { return f.run(true, do) }

func (f *operatorFlags) run(makes bool, do func(billing.Operator) error) (err error) {
	op, err := f.open(makes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, op.Close()) }()
	return do(op)
}

// print writes v as JSON, or the columns as an aligned table.
func (f *operatorFlags) print(cmd *cobra.Command, v any, head string, rows [][]string) error {
	if f.json {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	if head != "" {
		fmt.Fprintln(w, strings.ReplaceAll(head, " ", "\t"))
	}
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

func verifyCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{
		Use: "verify", Short: "Recount the whole ledger and report everything that does not add up", Args: cobra.NoArgs,
		Long: `Adds up balances, double entry, daily usage and single requests, each by itself, and compares them.
Works beside a running server and without one; without one the journal and what would be in memory are compared, too.
Ends with status 1 when something does not add up.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(func(op billing.Operator) error {
				r, err := op.Verify()
				if err != nil {
					return fmt.Errorf("cannot recount the ledger: %w", err)
				}
				rows := [][]string{
					{"accounts", fmt.Sprint(r.Accounts)}, {"requests", fmt.Sprint(r.Requests)},
					{"charged", r.Charged.String()}, {"shortfall", r.Shortfall.String()}, {"debt", r.Debt.String()}, {"faults", fmt.Sprint(len(r.Faults))},
				}
				if err := f.print(cmd, r, "", rows); err != nil {
					return err
				}
				for _, fault := range r.Faults {
					fmt.Fprintln(cmd.ErrOrStderr(), "fault: "+fault)
				}
				if len(r.Faults) > 0 {
					return fmt.Errorf("the ledger does not add up: %d faults; stop the traffic, keep a copy, and restore a backup or correct them", len(r.Faults))
				}
				return nil
			})
		},
	}
	f.register(cmd)
	return cmd
}

func backupCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Write the store to a file that any engine can restore", Args: cobra.ExactArgs(1),
		Long: `Writes accounts, keys, money and usage as they are now to a new file, beside the traffic.
The file is as secret as the store: with it keys can be checked.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(func(op billing.Operator) error {
				b, err := op.Backup(args[0])
				if err != nil {
					return err
				}
				return f.print(cmd, b, "", backupRows(b))
			})
		},
	}
	f.register(cmd)
	return cmd
}

func backupRows(b billing.BackupInfo) [][]string {
	rows := [][]string{{"file", b.Path}, {"of", b.CreatedAt.Format(time.RFC3339)}, {"engine", b.Engine}, {"schema", fmt.Sprint(b.Schema)}, {"bytes", fmt.Sprint(b.Bytes)}}
	if b.Rows > 0 {
		rows = append(rows, []string{"rows", fmt.Sprint(b.Rows)})
	}
	return rows
}

func restoreCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Fill an empty store from a backup and recount it", Args: cobra.ExactArgs(1),
		Long: `The store is an empty directory or an empty PostgreSQL database, whichever the backup was made from:
so a ledger moves from one engine to the other, too.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options()
			if err != nil {
				return err
			}
			b, err := billing.Restore(args[0], o)
			if err != nil {
				return err
			}
			return f.print(cmd, b, "", backupRows(b))
		},
	}
	f.register(cmd)
	return cmd
}

func migrateCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the store's schema up to date, which serve does by itself, too", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.making(func(billing.Operator) error {
				return f.print(cmd, map[string]int{"schema": billing.Schema}, "", [][]string{{"schema", fmt.Sprint(billing.Schema)}})
			})
		},
	}
	f.register(cmd)
	return cmd
}

// env is what the commands of billing/cli need.
func (f *operatorFlags) env() *cli.Env { return &cli.Env{With: f.with, Print: f.print} }

func usageCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := f.env().Usage()
	f.register(cmd)
	return cmd
}

func accountCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{Use: "account", Short: "Create, list, credit, debit, suspend and close accounts, also beside a running server"}
	f.register(cmd)

	var name string
	create := &cobra.Command{
		Use: "create --name NAME", Short: "Create an account", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.making(func(op billing.Operator) error {
				a, err := op.CreateAccount(name)
				if err != nil {
					return err
				}
				return f.print(cmd, a, "", [][]string{{"account", a.Name}, {"id", a.ID}, {"next:", program() + " account credit " + quoted(a.Name) + " 100" + f.given()}})
			})
		},
	}
	create.Flags().StringVar(&name, "name", "", "name of the account, unique")
	_ = create.MarkFlagRequired("name")

	list := &cobra.Command{
		Use: "list", Short: "List accounts with their balances", Args: cobra.NoArgs,
		Long: `Lists accounts with what they can spend, what open requests have set aside (HELD), what they have spent,
and what they owe for requests that cost more than could be charged (DEBT): the next credit pays it first, and until then nothing is sold.
On a shared store LEASED is what nodes have taken to spend from, what they set aside included, in all currencies together;
the columns before it are what is left beside that. --json has it by currency.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(func(op billing.Operator) error {
				accounts, err := op.Accounts()
				if err != nil {
					return err
				}
				rows := make([][]string, len(accounts))
				for i, a := range accounts {
					rows[i] = []string{a.Name, a.ID, a.USD.String(), a.DIEM.String(), a.Allowance.String(), a.Bundled.String(), a.Leased.Total().String(), a.Held.String(), a.Spent.String(), a.Debt.String(), a.Status.String()}
				}
				return f.print(cmd, accounts, "NAME ID USD DIEM DAILY BUNDLED LEASED HELD SPENT DEBT STATUS", rows)
			})
		},
	}

	var currency, ref, memo string
	credit := &cobra.Command{
		Use: "credit ACCOUNT AMOUNT", Short: "Add money to an account; the same --ref is applied once", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := config.ParseNano(args[1])
			if err != nil {
				return fmt.Errorf("cannot read the amount %q: it %w; write it as 100 or 0.25", args[1], err)
			}
			unit, err := billing.ParseCurrency(currency)
			if err != nil {
				return err
			}
			return f.with(func(op billing.Operator) error {
				balance, applied, err := op.Credit(args[0], unit, amount, ref, memo)
				if err != nil {
					return err
				}
				state := "credited"
				if !applied {
					state = "already credited under this --ref; nothing changed"
				}
				return f.print(cmd, map[string]any{"account": args[0], "currency": unit.String(), "amount": amount.String(), "balance": balance.String(), "applied": applied}, "",
					[][]string{{state, amount.String() + " " + unit.String()}, {"balance", balance.String() + " " + unit.String()}})
			})
		},
	}
	credit.Flags().StringVar(&currency, "currency", "USD", "USD, DIEM or BUNDLED_CREDITS")
	credit.Flags().StringVar(&ref, "ref", "", "reference of the payment; a second credit with it changes nothing")
	credit.Flags().StringVar(&memo, "memo", "", "note kept with the entry")

	cmd.AddCommand(create, list, cli.PositiveAmounts(credit), cli.PositiveAmounts(refundCommand(&f)), diemCommand(&f))
	cmd.AddCommand(f.env().Account()...)
	return cmd
}

// program is what the operator typed to start this, so that what is told to be
// typed next works, too: `make run` leaves ./farebox outside of the PATH.
func program() string { return filepath.ToSlash(os.Args[0]) }

// quoted is a name as a shell reads it.
func quoted(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@") == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

func refundCommand(f *operatorFlags) *cobra.Command {
	var currency, ref, memo string
	refund := &cobra.Command{
		Use: "refund ACCOUNT AMOUNT --ref REF", Short: "Give back what a request cost, in the currency that it was charged in; the same --ref once", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := config.ParseNano(args[1])
			if err != nil {
				return fmt.Errorf("cannot read the amount %q: it %w; write it as 100 or 0.25", args[1], err)
			}
			unit, err := billing.ParseCurrency(currency)
			if err != nil {
				return err
			}
			return f.with(func(op billing.Operator) error {
				balance, applied, err := op.Refund(args[0], unit, amount, ref, memo)
				if err != nil {
					return err
				}
				state := "refunded"
				if !applied {
					state = "already refunded under this --ref; nothing changed"
				}
				return f.print(cmd, map[string]any{"account": args[0], "currency": unit.String(), "amount": amount.String(), "balance": balance.String(), "applied": applied}, "",
					[][]string{{state, amount.String() + " " + unit.String()}, {"balance", balance.String() + " " + unit.String()}})
			})
		},
	}
	refund.Flags().StringVar(&currency, "currency", "USD", "what was charged: USD, DIEM or BUNDLED_CREDITS; DIEM come back as today's")
	refund.Flags().StringVar(&ref, "ref", "", "the request or case; a second refund with it changes nothing")
	refund.Flags().StringVar(&memo, "memo", "", "note kept with the entry")
	_ = refund.MarkFlagRequired("ref")
	return refund
}

func diemCommand(f *operatorFlags) *cobra.Command {
	var daily string
	diem := &cobra.Command{
		Use: "diem ACCOUNT --daily AMOUNT", Short: "Give an account DIEM for each UTC day; what a day leaves is lost", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := config.ParseNano(daily)
			if err != nil {
				return fmt.Errorf("cannot read --daily %q: it %w; write it as 10 or 0.5, or 0 for none", daily, err)
			}
			return f.with(func(op billing.Operator) error {
				a, err := op.SetAllowance(args[0], amount)
				if err != nil {
					return err
				}
				return f.print(cmd, map[string]any{"account": a.Name, "id": a.ID, "diemDaily": amount.String()}, "",
					[][]string{{"account", a.Name}, {"allowance", amount.String() + " DIEM a day, from 00:00 UTC"}, {"", "a first allowance counts at once, a change from the next day on"}})
			})
		},
	}
	diem.Flags().StringVar(&daily, "daily", "", "DIEM of each day: 0 for none, or at least 0.1")
	_ = diem.MarkFlagRequired("daily")
	return diem
}

func keyCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{Use: "key", Short: "Create, list, limit and revoke API keys, also beside a running server"}
	f.register(cmd)

	var account, typ, description, expires, limitUSD, limitDIEM, period string
	create := &cobra.Command{
		Use: "create --account ACCOUNT", Short: "Create a key; its secret is printed once", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := newKey(account, typ, description, expires, limitUSD, limitDIEM, period)
			if err != nil {
				return err
			}
			return f.with(func(op billing.Operator) error {
				info, secret, err := op.CreateKey(k)
				if err != nil {
					return err
				}
				if f.json {
					raw, err := json.Marshal(info)
					if err == nil {
						raw, err = sjson.SetBytes(raw, "apiKey", secret)
					}
					if err != nil {
						return err
					}
					return f.print(cmd, json.RawMessage(raw), "", nil)
				}
				return f.print(cmd, nil, "", [][]string{{"id", info.ID}, {"type", info.Type.String()}, {"apiKey", secret}, {"", "(shown this once)"}})
			})
		},
	}
	create.Flags().StringVar(&account, "account", "", "name or id of the account")
	create.Flags().StringVar(&typ, "type", "INFERENCE", "INFERENCE or ADMIN")
	create.Flags().StringVar(&description, "description", "", "what the key is for, at most 64 characters")
	create.Flags().StringVar(&expires, "expires", "", "RFC 3339 time or YYYY-MM-DD; default: never")
	create.Flags().StringVar(&limitUSD, "limit-usd", "", "consumption limit in USD per period")
	create.Flags().StringVar(&limitDIEM, "limit-diem", "", "consumption limit in DIEM per period")
	create.Flags().StringVar(&period, "limit-period", "EPOCH", "EPOCH (UTC day), MONTH or LIFETIME")
	_ = create.MarkFlagRequired("account")

	revoke := &cobra.Command{
		Use: "revoke ID", Short: "Revoke a key; it is refused from this moment on", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(func(op billing.Operator) error {
				if err := op.RevokeKey(args[0]); err != nil {
					return err
				}
				return f.print(cmd, map[string]any{"id": args[0], "revoked": true}, "", [][]string{{"revoked", args[0]}})
			})
		},
	}
	cmd.AddCommand(create, revoke)
	cmd.AddCommand(f.env().Key()...)
	return cmd
}

func newKey(account, typ, description, expires, limitUSD, limitDIEM, period string) (k billing.NewKey, err error) {
	k = billing.NewKey{Account: account, Description: description}
	if k.Type, err = billing.ParseKeyType(typ); err != nil {
		return k, err
	}
	if k.Period, err = billing.ParsePeriod(period); err != nil {
		return k, err
	}
	if expires != "" {
		if k.ExpiresAt, err = time.Parse(time.RFC3339, expires); err != nil {
			if k.ExpiresAt, err = time.Parse(time.DateOnly, expires); err != nil {
				return k, fmt.Errorf("cannot read --expires %q: write 2027-01-31 or 2027-01-31T12:00:00Z", expires)
			}
		}
	}
	for _, limit := range []struct {
		flag, text string
		into       **billing.Nano
	}{{"--limit-usd", limitUSD, &k.LimitUSD}, {"--limit-diem", limitDIEM, &k.LimitDIEM}} {
		if limit.text == "" {
			continue
		}
		v, err := config.ParseNano(limit.text)
		if err != nil {
			return k, fmt.Errorf("cannot read %s %q: it %w; write it as 25 or 0.5", limit.flag, limit.text, err)
		}
		*limit.into = &v
	}
	return k, nil
}

// nodeCommand is what an operator does about the nodes of a shared store.
func nodeCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{Use: "node", Short: "List the nodes of a shared store, and release what a dead one has leased"}
	f.register(cmd)
	with := func(do func(*billing.Ledger) error) (err error) {
		cfg, err := f.config()
		if err != nil {
			return err
		}
		if !cfg.SharedStore() {
			return billing.ErrNotShared
		}
		l, err := openShared(cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		return do(l)
	}
	list := &cobra.Command{
		Use: "list", Short: "List nodes, their state and what they have leased", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(func(l *billing.Ledger) error {
				nodes, err := l.Nodes()
				if err != nil {
					return err
				}
				rows := make([][]string, len(nodes))
				for i, n := range nodes {
					rows[i] = []string{fmt.Sprint(n.Number), n.Name, n.ID, n.State, n.USD.String(), n.DIEM.String(), n.Bundled.String()}
				}
				return f.print(cmd, nodes, "NUMBER NAME ID STATE USD DIEM BUNDLED", rows)
			})
		},
	}
	release := &cobra.Command{
		Use: "release NODE", Short: "Give back what a node has leased that is gone for good; a live one is refused", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(func(l *billing.Ledger) error {
				if err := l.ReleaseNode(args[0]); err != nil {
					return err
				}
				return f.print(cmd, map[string]any{"node": args[0], "released": true}, "", [][]string{{"released", args[0]}})
			})
		},
	}
	cmd.AddCommand(list, release)
	return cmd
}
