package routes

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/billing/report"
	"farebox/billing/store"
	"farebox/billing/window"
	"farebox/config"
	"farebox/config/fair"
	"farebox/providers"
	"farebox/proxy"
)

// Capability is one package of endpoints. Main hands all of them to New, and that list is the
// only place where they meet.
type Capability interface {
	// Open gives the endpoints. It is called once, before any request.
	Open(g *Gateway) []Row
}

// Loader is a Capability whose requests need something that is made of the config.
type Loader interface {
	// Load makes it, or reports an error of the config. before is the Own of the view that is
	// being served, nil at first.
	Load(cfg *config.Config, catalog *providers.Catalog, before any) (View, error)
}

// View is one config as a capability sees it. Requests keep the one that they
// began with, which belongs to the same config as everything else they see.
type View struct {
	// Own is the value that Call.Own gives to the handlers.
	Own any
	// Headers are those of its answers that pages of other origins may read.
	Headers [][]byte
	// Serve, if not nil, starts the work of a view that only a served config needs.
	Serve func()
	// Metrics, if not nil, writes series that no metrics.Set holds.
	Metrics func(w io.Writer)
	// Upstreams, if not nil, are those that serve no model.
	Upstreams func() []Watched
	// Close, if not nil, ends all parts of this Own that the next view does not take over.
	Close func(other any)
}

// load has every capability make its view of a config.
func (g *Gateway) load(next, old *snapshot) error {
	next.views = make([]View, len(g.capabilities))
	for i, of := range g.capabilities {
		l, ok := of.(Loader)
		if !ok {
			continue
		}
		view, err := l.Load(next.cfg, next.catalog, old.stateOf(i))
		if err != nil {
			next.close(old)
			return fmt.Errorf("cannot build %w", err)
		}
		next.views[i] = view
	}
	return nil
}

// stateOf is the Own of the ith capability's view; nil: nothing yet.
func (s *snapshot) stateOf(i int) any {
	if s == nil {
		return nil
	}
	return s.views[i].Own
}

// close ends the parts that other, if there is one, does not take over.
func (s *snapshot) close(other *snapshot) {
	var catalog *providers.Catalog
	if other != nil {
		catalog = other.catalog
	}
	s.catalog.Close(catalog)
	// Without x402 in the config that follows, the client stays for payments that are left.
	if s.wallets != nil && other != nil && other.wallets != nil {
		s.wallets.client.Close(other.wallets.client)
	}
	for i := range s.views {
		if end := s.views[i].Close; end != nil {
			end(other.stateOf(i))
		}
	}
}

// Rows are the endpoints of all capabilities, for descriptions of them.
func (g *Gateway) Rows() []Row { return slices.Clone(g.rows) }

// Own is the capability's state for the config that the request began with.
func (c *Call) Own(of Capability) any { return c.g.stateOf(c.snap, of) }

func (g *Gateway) stateOf(s *snapshot, of Capability) any {
	for i := range g.capabilities {
		if g.capabilities[i] == of {
			return s.views[i].Own
		}
	}
	return nil
}

// Accounts is the ledger's view of accounts and their keys, for endpoints that show or change
// them. Nothing is admitted or charged with it.
type Accounts interface {
	Now() time.Time
	Today() int32
	Reports(a *billing.AccountState) report.Account
	Refusals(a *billing.AccountState, p billing.Page, from, to time.Time) (billing.List[billing.Refusal], error)
	Violations(a *billing.AccountState) ([]billing.Violation, error)
	Keyring(a *billing.AccountState, page, limit int) ([]billing.KeyRecord, error)
	KeyOf(a *billing.AccountState, id string) (billing.KeyRecord, error)
	KeyWindows(k *billing.Key, now window.Instant) ([4]billing.WindowUse, error)
	MakeKey(n billing.NewKey) (billing.KeyInfo, string, error)
	UpdateKey(a *billing.AccountState, id string, c billing.KeyChange) (billing.KeyInfo, error)
	DeleteKey(a *billing.AccountState, id string) error
	WalletAccount(address string, open bool) (billing.Account, error)
	WalletState(address string) (*billing.AccountState, error)
	LinkWallet(address, account, by string) (billing.WalletLink, error)
	UseToken(o fair.Owner, id string, expires time.Time) (fresh bool, err error)
	DeriveSecret(purpose string) []byte
}

// Audience is the ledger's view of characters: their users, reviews and statistics.
type Audience interface {
	ServeCharacters()
	CharacterStats() *billing.CharacterStats
	NoteCharacter(k *billing.Key, slug string)
	Reviews(slug string) ([]billing.Review, error)
	Pseudonym(purpose, who string) string
}

// Audience gives capabilities with characters the ledger's view of them.
func (g *Gateway) Audience() Audience { return g.ledger.Characters() }

// Accounts is Call.Accounts for code without a Call.
func (g *Gateway) Accounts() Accounts { return g.ledger.Accounts() }

// EnclaveAnswers keeps the answers of enclaves.
func (g *Gateway) EnclaveAnswers() store.EnclaveStore { return g.ledger.Enclaves() }

// Voices are the voices that accounts had cloned.
func (g *Gateway) Voices() store.VoiceStore { return g.ledger.Voices() }

// Slot is where limits and usage of a name of ours are counted.
func (g *Gateway) Slot(name string) int { return g.ledger.ModelNumber(name) }

// Proxy carries requests to upstreams.
func (g *Gateway) Proxy() *proxy.Proxy { return g.proxy }

// Logger is the log of the process.
func (g *Gateway) Logger() *zerolog.Logger { return &g.log }

// Metrics are the series of /metrics.
func (g *Gateway) Metrics() *metrics.Set { return g.metrics.set }

// Config is the one that is being served now.
func (g *Gateway) Config() *config.Config { return g.live.Load().cfg }
