package search

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"farebox/config"
	"farebox/providers/attempt"
	"farebox/providers/health"
	"farebox/proxy"
)

// Upstream is one service that searches, with its connections and its health.
type Upstream struct {
	Name     string
	Provider string // the value of search_provider that it answers
	Breaker  *health.Breaker
	Endpoint *proxy.Endpoint
	Weight   int
	Priority int
	format   config.SearchFormat
	params   map[string]string
	options  proxy.EndpointOptions
}

// Turn is attempt.Ranked.
func (u *Upstream) Turn() (*health.Breaker, int, int) { return u.Breaker, u.Weight, u.Priority }

// Service runs the searches of one config. Safe for concurrent use.
type Service struct {
	lists     map[string][]*Upstream // by provider
	timeout   time.Duration
	exchanges sync.Pool
}

// New prepares the upstreams of a config, which has some. Those that have not
// changed keep the connections and the health that they have in before, which
// may be nil.
func New(c *config.Search, before *Service) (*Service, error) {
	s := &Service{lists: map[string][]*Upstream{}, timeout: c.Timeout}
	s.exchanges.New = func() any { return new(proxy.Exchange) }
	for provider, list := range c.Providers() {
		for i := range list {
			u, err := newUpstream(c, provider, &list[i], before.find(provider, list[i].Name))
			if err != nil {
				s.Close(before)
				return nil, err
			}
			s.lists[provider] = append(s.lists[provider], u)
		}
	}
	return s, nil
}

func newUpstream(c *config.Search, provider string, u *config.SearchUpstream, old *Upstream) (*Upstream, error) {
	format, _ := c.Format(u)
	made := &Upstream{
		Name: u.Name, Provider: provider, Weight: u.Weight, Priority: u.Priority, format: format, params: u.Params,
		options: proxy.EndpointOptions{
			Name: u.Name, BaseURL: u.BaseURL, Headers: headers(&format, u), CAFile: u.CAFile, FirstByte: c.Timeout,
			Idle: c.Timeout, MaxConns: u.MaxConnections, MaxIdle: u.MaxIdle, RetrySafe: true,
		},
	}
	if old != nil && same(&made.options, &old.options) {
		made.Endpoint = old.Endpoint
	} else {
		endpoint, err := proxy.NewEndpoint(made.options)
		if err != nil {
			return nil, fmt.Errorf("augment.search.%s: %w", provider, err)
		}
		made.Endpoint = endpoint
	}
	if old != nil && made.Endpoint == old.Endpoint && old.Breaker.Like(u.Breaker.Failures, u.Breaker.OpenFor) {
		made.Breaker = old.Breaker
	} else {
		made.Breaker = health.NewBreaker(u.Breaker.Failures, u.Breaker.OpenFor)
	}
	return made, nil
}

// headers are the fixed ones, in an order of their own so that two can be compared.
func headers(f *config.SearchFormat, u *config.SearchUpstream) (list [][2]string) {
	if u.Key != "" {
		value := u.Key.Reveal()
		if f.KeyHeader == "Authorization" {
			value = "Bearer " + value
		}
		list = append(list, [2]string{f.KeyHeader, value})
	}
	for _, name := range slices.Sorted(maps.Keys(u.Headers)) {
		list = append(list, [2]string{name, u.Headers[name].Reveal()})
	}
	return list
}

func same(a, b *proxy.EndpointOptions) bool {
	x, y := *a, *b
	x.Headers, y.Headers = nil, nil
	return slices.Equal(a.Headers, b.Headers) && fmt.Sprint(x) == fmt.Sprint(y)
}

// find is an upstream by name; nil if absent.
func (s *Service) find(provider, name string) *Upstream {
	if s == nil {
		return nil
	}
	for _, u := range s.lists[provider] {
		if u.Name == name {
			return u
		}
	}
	return nil
}

// Offers says whether a provider has an upstream.
func (s *Service) Offers(provider string) bool { return s != nil && len(s.lists[provider]) > 0 }

// Upstreams are all of them.
func (s *Service) Upstreams() (list []*Upstream) {
	for _, provider := range slices.Sorted(maps.Keys(s.lists)) {
		list = append(list, s.lists[provider]...)
	}
	return list
}

// Watch calls f for changes of the upstreams' health.
func (s *Service) Watch(f func(u *Upstream, c health.Change)) {
	for _, u := range s.Upstreams() {
		u.Breaker.Watch(func(c health.Change) { f(u, c) })
	}
}

// WriteMetrics writes the health of all of them in the Prometheus text format.
func (s *Service) WriteMetrics(w io.Writer) {
	now, list := time.Now().UnixNano(), s.Upstreams()
	label := func(u *Upstream) string { return fmt.Sprintf("{search_provider=%q,upstream=%q}", u.Provider, u.Name) }
	_, _ = fmt.Fprint(w, "# TYPE farebox_search_state gauge\n")
	for _, u := range list {
		_, _ = fmt.Fprintf(w, "farebox_search_state%s %d\n", label(u), u.Breaker.State(now))
	}
	_, _ = fmt.Fprint(w, "# TYPE farebox_search_failures_total counter\n")
	for _, u := range list {
		failures, _ := u.Breaker.Counts()
		_, _ = fmt.Fprintf(w, "farebox_search_failures_total%s %d\n", label(u), failures)
	}
}

// RestsFor is how long until the first upstream of a provider may be asked again.
func (s *Service) RestsFor(provider string) time.Duration {
	return attempt.RestsFor(s.lists[provider], attempt.PriorityRule[*Upstream]{}, time.Now().UnixNano())
}

// Close closes the connections that next, which may be nil, does not take over.
func (s *Service) Close(next *Service) {
	for _, u := range s.Upstreams() {
		if kept := next.find(u.Provider, u.Name); kept == nil || kept.Endpoint != u.Endpoint {
			u.Endpoint.Close()
		}
	}
}
