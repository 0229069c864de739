package providers

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/providers/credential"
	"farebox/providers/health"
	"farebox/providers/rpc"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// Catalog is an immutable snapshot of the models and blockchains and of their targets.
type Catalog struct {
	// Networks are the blockchains, sold or not.
	Networks *rpc.Networks

	brand     string
	models    []*Model
	upstreams map[string]*endpoint
	names     map[string]*Model            // ids and aliases
	traits    map[string]map[string]*Model // by type of model
	meters    map[[3]string]*health.Meter  // by model, upstream and model there
	clock     func() time.Time

	listing atomic.Pointer[listing]
	relist  sync.Mutex
}

// endpoint is an Upstream with the settings that decide whether a reload keeps it.
type endpoint struct {
	Upstream
	options    proxy.EndpointOptions // without the credential
	ca         [sha256.Size]byte     // of the CA file
	spec       credential.Spec
	credential credential.Credential // nil: the options' headers are enough
	since      time.Time             // when this process loaded it
}

// NewCatalog builds the catalog of a checked config. Connections and health of
// targets whose settings are those of prev (nil if absent) are taken over.
func NewCatalog(cfg *config.Config, prev *Catalog, now time.Time, log zerolog.Logger) (*Catalog,
	error) {
	c := &Catalog{brand: cfg.Brand, upstreams: map[string]*endpoint{}, meters: map[[3]string]*health.Meter{},
		clock: time.Now}
	var before *rpc.Networks
	if prev != nil {
		before = prev.Networks
	}
	var err error
	if c.Networks, err = rpc.NewNetworks(cfg, before); err != nil {
		return nil, err
	}
	chat := dialect.ChatShape(cfg.Brand, cfg.BrandAliases, cfg.Drops())
	for i := range cfg.Upstreams {
		u, err := newUpstream(&cfg.Upstreams[i], prev, log)
		if err != nil {
			c.Close(prev)
			return nil, err
		}
		u.SetDrops(chat)
		c.upstreams[u.Name] = u
	}
	breakers := prev.breakers()
	var meters map[[3]string]*health.Meter
	if prev != nil {
		meters = prev.meters
	}
	for i := range cfg.Models {
		m, err := c.newModel(cfg, &cfg.Models[i], breakers, meters)
		if err != nil {
			c.Close(prev)
			return nil, err
		}
		m.Index = len(c.models)
		c.models = append(c.models, m)
	}
	c.name()
	c.listing.Store(c.list(now))
	return c, nil
}

// Credential gives an upstream's kind of credential, when it was obtained, when it expires, and when it was last
// accepted; zero: unknown.
func (c *Catalog) Credential(upstream string) (kind string, got, expires, accepted time.Time) {
	u := c.upstreams[upstream]
	if u == nil {
		return "", got, expires, accepted
	}
	got = u.since
	if aged, ok := u.credential.(credential.Aged); ok {
		got, expires = aged.Age()
	}
	return u.spec.Kind.String(), got, expires, u.Proxy.Accepted()
}

// Models are all models, by Index.
func (c *Catalog) Models() []*Model { return c.models }

// Close closes the connections of targets, and ends the credentials, that next (may be nil)
// does not use any more.
func (c *Catalog) Close(next *Catalog) {
	var networks *rpc.Networks
	if next != nil {
		networks = next.Networks
	}
	c.Networks.Close(networks)
	for name, u := range c.upstreams {
		var kept *endpoint
		if next != nil {
			kept = next.upstreams[name]
		}
		if kept == nil || kept.Proxy != u.Proxy {
			u.Proxy.Close()
		}
		if u.credential != nil && (kept == nil || kept.credential != u.credential) {
			u.credential.Close()
		}
	}
}

func newUpstream(cfg *config.Upstream, prev *Catalog, log zerolog.Logger) (*endpoint, error) {
	speaks, ok := dialects[cfg.Spoken()]
	if !ok {
		return nil, fmt.Errorf("cannot speak dialect %q to upstream %s: it is unknown", cfg.Dialect, cfg.Name)
	}
	u := &endpoint{
		Upstream: Upstream{Name: cfg.Name, Config: cfg, Dialect: speaks.chat, Natives: speaks.natives},
		options:  targetOptions(cfg), spec: credential.Of(cfg), since: time.Now(),
	}
	if cfg.CAFile != "" {
		// Certificates are renewed in place, so the path alone is not enough.
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the ca_file of upstream %s: %w", cfg.Name, err)
		}
		u.ca = sha256.Sum256(pem)
	}
	var old *endpoint
	if prev != nil {
		old = prev.upstreams[cfg.Name]
	}
	same := old != nil && old.ca == u.ca && old.spec == u.spec
	if same && reflect.DeepEqual(old.options, u.options) {
		u.Proxy, u.credential, u.since = old.Proxy, old.credential, old.since
		return u, nil
	}
	if same {
		u.credential = old.credential // whose token is as good as before
	} else {
		var err error
		if u.credential, err = credential.Open(u.spec, log); err != nil {
			return nil, err
		}
	}
	o := u.options
	if u.credential != nil {
		o.Credential = u.credential
	}
	t, err := proxy.NewEndpoint(o)
	if err != nil {
		if u.credential != nil && !same {
			u.credential.Close()
		}
		return nil, err
	}
	u.Proxy = t
	return u, nil
}

// targetOptions are the connection settings of an upstream, with the headers
// that its dialect wants.
func targetOptions(u *config.Upstream) proxy.EndpointOptions {
	o := proxy.EndpointOptions{
		Name: u.Name, BaseURL: u.EndpointURL(), Query: u.Query(), CAFile: u.CAFile,
		Connect: u.Timeouts.Connect, FirstByte: u.Timeouts.FirstByte, Idle: u.Timeouts.Idle, Total: u.Timeouts.Total,
		MaxConns: u.MaxConnections, MaxIdle: u.MaxIdle, RetrySafe: u.RetrySafe,
	}
	if u.Key != "" {
		carrier, prefix := u.KeyHeader()
		o.Headers = append(o.Headers, [2]string{carrier, prefix + u.Key.Reveal()})
	}
	written := slices.Sorted(maps.Keys(u.Headers))
	for _, name := range written {
		o.Headers = append(o.Headers, [2]string{name, u.Headers[name].Reveal()})
	}
	for _, h := range dialects[u.Spoken()].headers {
		if !slices.ContainsFunc(written, func(name string) bool { return strings.EqualFold(name, h[0]) }) {
			o.Headers = append(o.Headers, h)
		}
	}
	return o
}

// breakers are the healths to take over, by upstream and model name there.
func (c *Catalog) breakers() map[[2]string]*Target {
	list := map[[2]string]*Target{}
	if c == nil {
		return list
	}
	for _, m := range c.models {
		for _, t := range m.Targets {
			list[[2]string{t.Upstream.Name, t.Name}] = t
		}
	}
	return list
}

// newModel takes over the health of targets from old, and their times from meters.
func (c *Catalog) newModel(cfg *config.Config, m *config.Model, old map[[2]string]*Target,
	meters map[[3]string]*health.Meter) (*Model, error) {
	rate := cfg.Limits.Tiers[m.Tier]
	model := &Model{
		ID: m.ID, Config: m, Chat: &config.Chat{}, Rate: &rate, HeaderName: headerText(m.Name),
		SystemPrompt: cfg.SystemPrompt, ImageTokens: cfg.Billing.ImageTokens,
	}
	own := capabilities[m.Type]
	if own.offer != nil {
		own.offer(model)
	}
	model.DefaultCompletion = min(model.Chat.MaxCompletionTokens, cfg.Billing.DefaultCap)
	if cfg.SystemPrompt != "" {
		model.SystemMessage = dialect.AppendSystemMessage(nil, cfg.SystemPrompt)
	}
	for i := range m.Targets {
		t := &m.Targets[i]
		u := c.upstreams[t.Upstream]
		if u == nil {
			return nil, fmt.Errorf("cannot serve model %s: there is no upstream %q", m.ID, t.Upstream)
		}
		target := &Target{
			Upstream: &u.Upstream, Model: model, Name: cmp.Or(t.Model, m.ID), Weight: max(t.Weight, 1),
			Priority: t.Priority,
			QuotedID: jsontext.AppendString(nil, m.ID),
		}
		target.Quoted = jsontext.AppendString(nil, target.Name)
		target.Renames = target.Name != m.ID
		b := u.Config.Breaker
		if was := old[[2]string{u.Name, target.Name}]; was != nil && was.Upstream.Proxy == u.Proxy &&
			was.Breaker.Like(b.Failures, b.OpenFor) {
			target.Breaker, target.Paces = was.Breaker, was.Paces
		} else {
			target.Breaker, target.Paces = health.NewBreaker(b.Failures, b.OpenFor), new([2]health.Pace)
			// Two models may use the same model of an upstream: they share its health.
			old[[2]string{u.Name, target.Name}] = target
		}
		key := [3]string{m.ID, u.Name, target.Name}
		if target.Meter = meters[key]; target.Meter == nil {
			target.Meter = new(health.Meter)
		}
		c.meters[key] = target.Meter
		if own.target != nil {
			own.target(target, t.Options)
		}
		model.Targets = append(model.Targets, target)
	}
	slices.SortStableFunc(model.Targets, func(a, b *Target) int { return cmp.Compare(a.Priority, b.Priority) })
	return model, nil
}

// headerText is a text that a header can carry; empty when it has other
// characters.
func headerText(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return ""
		}
	}
	return s
}
