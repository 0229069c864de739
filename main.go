// Command farebox is a prepaid gateway for AI: it sells access to model
// providers from prepaid balances. See README.md; the life of a request is told
// in proxy/doc.go.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"farebox/bench"
	"farebox/bench/upstream"
	"farebox/billing"
	"farebox/billing/cli"
	"farebox/config"
	_ "farebox/config/quiet"
	"farebox/providers"
	"farebox/providers/chat/schema"
	"farebox/providers/media"
	nodes "farebox/providers/rpc"
	"farebox/providers/setup"
	"farebox/providers/web"
	"farebox/proxy"
	"farebox/proxy/listen"
	"farebox/routes"
	"farebox/routes/account"
	"farebox/routes/audio"
	"farebox/routes/augment"
	"farebox/routes/characters"
	"farebox/routes/chat"
	"farebox/routes/image"
	shelf "farebox/routes/media"
	"farebox/routes/messages"
	"farebox/routes/models"
	"farebox/routes/responses"
	"farebox/routes/rpc"
	"farebox/routes/tee"
	"farebox/routes/video"
	"farebox/routes/wallet"
)

// version is the build stamp (addendum 3.7: YYYYMMDD.HHMMSS): the time of the commit that
// was built, zeros without a repository.
var version = commitTime()

func commitTime() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if at, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
				return at.UTC().Format("20060102.150405")
			}
		}
	}
	return "00000000.000000"
}

func main() {
	web.Work() // this is all that a child of ours does, this or the other
	schema.Work()
	log.SetOutput(os.Stderr) // after the silence of quiet
	root, begun := command(), false
	cli.Explain(root, &begun)
	if cmd, err := root.ExecuteC(); err != nil {
		fmt.Fprintln(os.Stderr, "farebox: "+err.Error())
		if !begun {
			fmt.Fprintln(os.Stderr, "usage: "+cmd.UseLine()+"; "+cmd.CommandPath()+" --help says more")
		}
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use: "farebox", Short: "The prepaid gateway for AI", Version: version,
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.AddCommand(serveCommand(), openAPICommand(), versionCommand(), bench.Command())
	root.AddCommand(providers.Commands()...)
	root.AddCommand(setup.Commands()...)
	root.AddCommand(cli.Commands()...)
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "farebox "+version) },
	}
}

func serveCommand() *cobra.Command {
	var file, listen, store string
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the API; without a config file, start a demonstration with a simulated upstream",
		Args: cobra.NoArgs,
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
	cmd.Flags().StringVarP(&file, "config", "c", "", "config file (YAML); default: a demonstration on 127.0.0.1:8080")
	cmd.Flags().StringVar(&listen, "listen", "",
		"address to listen on (host:port or unix:/path); default: from the config")
	cmd.Flags().StringVar(&store, "store", "",
		"ledger directory or postgres://…; default: from the config")
	return cmd
}

func openAPICommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "openapi", Short: "Print the OpenAPI document of the API, also served at /api/v1/openapi.json", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			document, err := openAPI(file)
			if err == nil {
				_, err = cmd.OutOrStdout().Write(append(document, '\n'))
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "config file (YAML); default: the demonstration, with all endpoints")
	return cmd
}

// openAPI makes the document on a ledger that is thrown away.
func openAPI(file string) (document []byte, err error) {
	cfg, sim, err := loadOrDemo(file)
	if err != nil {
		return nil, err
	}
	if sim != nil {
		defer sim.Close()
	}
	dir, err := os.MkdirTemp("", "farebox-openapi-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg.Store, cfg.Node.Dir = dir, dir
	log := zerolog.Nop()
	ledger, err := billing.Open(billing.Options{Dir: cfg.LedgerDir(), Brand: cfg.Brand, Durability: cfg.Durability, Log: log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	px := proxy.New(proxy.Options{})
	defer px.Close()
	gw, rest, err := newGateway(cfg, ledger, px, log)
	if err != nil {
		return nil, err
	}
	defer rest()
	defer gw.Close()
	return gw.OpenAPI()
}

// newGateway connects the capabilities. rest ends what works in the background.
func newGateway(cfg *config.Config, ledger *billing.Ledger, px *proxy.Proxy, log zerolog.Logger) (
	gw *routes.Gateway, rest func(), err error) {
	world := augment.New()
	cast := characters.New()
	enclaves := tee.New()
	texts := chat.New(world, cast, enclaves)
	links := providers.NewFetcher(cfg.Fetch)
	kept, err := media.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	downloads := shelf.New(kept)
	sounds := audio.New(links)
	gw, err = routes.New(routes.Options{Ledger: ledger, Proxy: px, Log: log, Version: version, Media: kept}, cfg,
		texts,
		image.New(links, texts),
		responses.New(texts),
		messages.New(texts),
		account.New(),
		rpc.New(),
		world,
		models.New(),
		cast,
		enclaves,
		sounds,
		video.New(links),
		downloads,
		wallet.New(),
	)
	return gw, sync.OnceFunc(func() { downloads.Close(); sounds.Close() }), err
}

// closeLimit is what a process takes to cut its last requests and to close the
// ledger, behind the drain limit.
const closeLimit = 15 * time.Second

// serve runs the gateway until SIGTERM or SIGINT, or until a successor took the
// listening socket, and drains it.
func serve(file string, override func(*config.Config)) error {
	signals := proxy.Signals()
	inherited, err := listen.Inherit()
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
	log := cfg.Log.Open()
	// First of all, so that a taken port leaves nothing behind, least of all
	// keys that were never shown.
	ln, err := proxy.ListenWith(cfg.Listen, routes.ListenOptions(cfg, inherited))
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()

	var wait time.Duration
	if inherited != nil && inherited.FromPredecessor {
		wait = cfg.Server.DrainTimeout + closeLimit
		inherited.Took()
		log.Info().Dur("limit_ms", wait).Msg(
			"taking over: requests wait until the process before has ended its streams and closed the ledger")
	}
	ledger, err := billing.Open(billing.Options{Wait: wait, Dir: cfg.LedgerDir(), Shared: cfg.SharedAddress(),
		NodeName: cfg.Node.Name, Leases: cfg.Billing.Leases, Brand: cfg.Brand, Durability: cfg.Durability, Log: log,
		Redis: cfg.Redis, Idempotency: cfg.Idempotency, Responses: cfg.Responses})
	if err != nil {
		return fmt.Errorf("cannot open the ledger in %s: %w", cfg.StoreName(), err)
	}
	closeLedger := ledger.Close
	defer func() { _ = closeLedger() }()

	var secrets *cli.DemoKeys
	if cfg.Simulated {
		if secrets, err = cli.OpenDemo(ledger); err != nil {
			return fmt.Errorf("cannot set up the demonstration account: %w", err)
		}
	}

	if err := proxy.Check(); err != nil {
		return err
	}
	px := proxy.New(proxy.Options{ClientStall: cfg.Server.ClientStall, HalfCloseGone: *cfg.Server.HalfCloseGone})
	defer px.Close()
	// What works in the background ends before the ledger, which a successor waits for.
	gw, rest, err := newGateway(cfg, ledger, px, log)
	if err != nil {
		return err
	}
	defer rest()
	if len(cfg.RPC.Networks) > 0 {
		if err := nodes.EmptySpool(cfg); err != nil {
			return fmt.Errorf("%w; farebox must be able to write to %s", err, cfg.LedgerDir())
		}
	}
	if err := ledger.ServeControl(); err != nil {
		return fmt.Errorf("cannot open the control socket in %s: %w", cfg.LedgerDir(), err)
	}
	if err := gw.Begin(); err != nil {
		return err
	}
	defer gw.Close()
	srv := proxy.NewServer(gw.Handler(), gw.ServerOptions(cfg))
	failed := make(chan error, 3)
	go func() { failed <- srv.Serve(ln) }()

	metricsAt, stopMetrics, err := gw.ListenMetrics(cfg, failed)
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
		}, gw.NoteReload)
		if err != nil {
			return fmt.Errorf("cannot watch %s: %w", file, err)
		}
		defer watch.Close()
	}
	quiet := make(chan struct{})
	defer close(quiet)
	go proxy.GiveMemoryBack(quiet)
	gw.Warm()
	var banner bytes.Buffer // which is shown whole
	cli.Banner(&banner, version, cfg, ln.Addr(), metricsAt, ledger.NodeLabel(), secrets)
	if sim != nil {
		first := cli.FirstTopUp(sim.FirstPayment(cfg.X402.Networks[0].PayTo))
		done, err := cli.WriteDemo(cfg, ln.Addr(), &first)
		if err != nil {
			return fmt.Errorf("cannot write the list of calls to try: %w", err)
		}
		defer done()
	}
	_, _ = os.Stdout.Write(banner.Bytes()) // nobody has to read it

	life := proxy.Life{
		Listener: ln, Server: srv, Proxy: px, Log: log, DrainDelay: cfg.Server.DrainDelay,
		DrainTimeout: cfg.Server.DrainTimeout,
		Failed:       failed, Draining: gw.SetDraining, Leaving: gw.SetLeaving,
	}
	if watch != nil {
		life.Reload = watch.Reload
	}
	err = life.Run(signals)
	stopMetrics()
	rest()
	gw.Close()
	closeLedger = func() error { return nil }
	if closing := ledger.Close(); closing != nil {
		return errors.Join(err, fmt.Errorf("cannot close the ledger: %w", closing))
	}
	log.Info().Msg("stopped; all charges are on disk")
	return err
}

// loadOrDemo reads the config file, or starts the simulated upstream and gives
// the demonstration config for it.
func loadOrDemo(file string) (*config.Config, *upstream.Server, error) {
	if file != "" {
		cfg, err := config.Load(file)
		return cfg, nil, err
	}
	sim := upstream.New(upstream.Options{})
	where, err := sim.StartAll()
	if err != nil {
		sim.Close()
		return nil, nil, fmt.Errorf("cannot start the simulated upstream: %w", err)
	}
	return config.Demo(where), sim, nil
}
