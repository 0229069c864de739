package run

import (
	"errors"
	"os"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/config"
	"farebox/proxy"
)

// OpenAPI is the document of a gateway with this config, made on a ledger that is thrown away.
func OpenAPI(cfg *config.Config, build Builder) (document []byte, err error) {
	dir, err := os.MkdirTemp("", "farebox-openapi-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, removeAll(dir)) }()
	cfg.Store, cfg.Node.Dir = dir, dir
	log := zerolog.Nop()
	ledger, err := billing.Open(billing.Options{Dir: cfg.LedgerDir(), Brand: cfg.Brand, Durability: cfg.Durability, Log: log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	px := proxy.New(proxy.Options{})
	defer px.Close()
	gw, rest, err := build(cfg, ledger, px, log)
	if err != nil {
		return nil, err
	}
	defer rest()
	defer gw.Close()
	return gw.OpenAPI()
}

// removeAll removes a directory that an ending child process may still write to.
func removeAll(dir string) (err error) {
	for range 50 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}
