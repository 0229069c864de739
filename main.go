// Command farebox is a prepaid gateway for AI: it sells access to model
// providers from prepaid balances. See README.md; the life of a request is described
// in proxy/doc.go.
package main

import (
	"cmp"
	"fmt"
	"log"
	"os"
	"sync"

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
	"farebox/providers/setup"
	"farebox/providers/web"
	"farebox/proxy"
	"farebox/routes"
	"farebox/routes/account"
	"farebox/routes/audio"
	"farebox/routes/augment"
	"farebox/routes/characters"
	"farebox/routes/chat"
	"farebox/routes/health"
	"farebox/routes/image"
	"farebox/routes/jobs"
	shelf "farebox/routes/media"
	"farebox/routes/messages"
	"farebox/routes/models"
	"farebox/routes/responses"
	"farebox/routes/rpc"
	"farebox/routes/run"
	"farebox/routes/tee"
	"farebox/routes/wallet"
)

// version is the build stamp (addendum 3.7).
var version = run.CommitTime()

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
	root.AddCommand(serveCommand(), openAPICommand(), health.Command(), versionCommand(), bench.Command())
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
			return serve(file, func(cfg *config.Config) {
				cfg.Listen, cfg.Store = cmp.Or(listen, cfg.Listen), cmp.Or(store, cfg.Store)
			})
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
			cfg, sim, err := loadOrDemo(file)
			if err != nil {
				return err
			}
			defer sim.Close()
			document, err := run.OpenAPI(cfg, newGateway)
			if err == nil {
				_, err = cmd.OutOrStdout().Write(append(document, '\n'))
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "config file (YAML); default: the demonstration, with all endpoints")
	return cmd
}

// newGateway connects the capabilities. rest ends what works in the background.
func newGateway(cfg *config.Config, ledger *billing.Ledger, px *proxy.Proxy, log zerolog.Logger) (
	gw *routes.Gateway, rest func(), err error) {
	webTools := augment.New()
	personas := characters.New()
	enclaves := tee.New()
	texts := chat.New(webTools, personas, enclaves)
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
		webTools,
		models.New(),
		personas,
		enclaves,
		sounds,
		jobs.New(links),
		downloads,
		wallet.New(),
	)
	return gw, sync.OnceFunc(func() { downloads.Close(); sounds.Close() }), err
}

// serve runs the gateway until a signal or a successor ends it.
func serve(file string, override func(*config.Config)) error {
	var sim *upstream.Server
	defer func() { sim.Close() }()
	return run.Serve(run.Options{
		Version: version, File: file, Override: override, Build: newGateway,
		Load: func() (cfg *config.Config, err error) {
			cfg, sim, err = loadOrDemo(file)
			return cfg, err
		},
		FirstPayment: func(payTo string) cli.FirstTopUp { return cli.FirstTopUp(sim.FirstPayment(payTo)) },
	})
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
