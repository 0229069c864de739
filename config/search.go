package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Search answers searches of the web (interface.md, Augment; addendum 12.2).
type Search struct {
	Price   Each          `yaml:"price"`   // USD a search; default 0.01, 0 to 10000
	Rate    Rate          `yaml:"rate"`    // of an account; default rpm: 20
	Timeout time.Duration `yaml:"timeout"` // of all attempts together; default 10s, 1s to 2m
	// Brave and Google are who answers for each of the two values of
	// search_provider, whatever they are. One that has none refuses it; what fails
	// at all of one is never asked of the other.
	Brave  []SearchUpstream `yaml:"brave"`
	Google []SearchUpstream `yaml:"google"`
	// Formats are further ways to ask, by names of the operator's own.
	Formats map[string]SearchFormat `yaml:"formats"`
}

func (s *Search) defaults() {
	*s = Search{Price: callPrice, Rate: defaultCalls, Timeout: 10 * time.Second}
}

// Providers are the values of search_provider in the order of the
// specification, each with who answers.
func (s *Search) Providers() map[string][]SearchUpstream {
	return map[string][]SearchUpstream{"brave": s.Brave, "google": s.Google}
}

// SearchUpstream is one service that searches.
type SearchUpstream struct {
	Name   string `yaml:"name"`   // for logs and metrics
	Format string `yaml:"format"` // brave, serper, searxng, tavily, exa, or one of formats
	// BaseURL stands before the path of the format; default: that of its service.
	BaseURL string            `yaml:"base_url"`
	Key     Secret            `yaml:"key"`
	Headers map[string]Secret `yaml:"headers"`
	CAFile  string            `yaml:"ca_file"`
	// Params are sent along: of the query, or members of the body. Such as
	// engines: google for SearXNG, or gl: de for Serper.
	Params   map[string]string `yaml:"params"`
	Weight   int               `yaml:"weight"`   // share of the searches; default 1, 1 to 1000
	Priority int               `yaml:"priority"` // lower numbers are asked first; default 0, 0 to 100

	MaxConnections int           `yaml:"max_connections"` // default 256
	MaxIdle        time.Duration `yaml:"max_idle"`        // default 4s
	Breaker        Breaker       `yaml:"breaker"`
}

func (u *SearchUpstream) defaults() {
	u.Weight, u.MaxConnections, u.MaxIdle = 1, 256, 4*time.Second
	u.Breaker = Breaker{Failures: 5, OpenFor: 10 * time.Second}
}

// SearchFormat says how a service is asked and where its answer has what.
// {query} and {limit} stand for what the client asked for.
type SearchFormat struct {
	Method string            `yaml:"method"` // GET (default) or POST
	Path   string            `yaml:"path"`   // behind base_url, such as /search
	Query  map[string]string `yaml:"query"`  // of GET
	Body   string            `yaml:"body"`   // of POST: JSON, in which {query} is a string and {limit} a number
	// KeyHeader carries the key; Authorization carries it as a bearer token.
	KeyHeader string `yaml:"key_header"`
	Limit     int    `yaml:"limit"` // the most results that it gives; default 20, 1 to 100
	// Where things are, as paths of gjson: results from the top, the others in
	// each result. The first path with text counts.
	Results string   `yaml:"results"`
	Title   []string `yaml:"title"`
	URL     []string `yaml:"url"`
	Content []string `yaml:"content"`
	Date    []string `yaml:"date"`

	base string // of the service
}

func (f *SearchFormat) defaults() { f.Method, f.Limit = "GET", 20 }

// searchFormats are the services that are known by name.
var searchFormats = map[string]SearchFormat{
	"brave": {
		base: "https://api.search.brave.com", Method: "GET", Path: "/res/v1/web/search", KeyHeader: "X-Subscription-Token",
		Query: map[string]string{"q": "{query}", "count": "{limit}", "result_filter": "web", "text_decorations": "false"},
		Limit: 20, Results: "web.results", Title: []string{"title"}, URL: []string{"url"},
		Content: []string{"description", "extra_snippets.0"}, Date: []string{"page_age", "age"},
	},
	"serper": {
		base: "https://google.serper.dev", Method: "POST", Path: "/search", KeyHeader: "X-API-KEY",
		Body: `{"q":{query},"num":{limit}}`, Limit: 20, Results: "organic",
		Title: []string{"title"}, URL: []string{"link"}, Content: []string{"snippet"}, Date: []string{"date"},
	},
	"searxng": {
		Method: "GET", Path: "/search", Query: map[string]string{"q": "{query}", "format": "json"}, Limit: 20,
		Results: "results", Title: []string{"title"}, URL: []string{"url"}, Content: []string{"content"},
		Date: []string{"publishedDate", "pubdate"},
	},
	"tavily": {
		base: "https://api.tavily.com", Method: "POST", Path: "/search", KeyHeader: "Authorization",
		Body: `{"query":{query},"max_results":{limit}}`, Limit: 20, Results: "results",
		Title: []string{"title"}, URL: []string{"url"}, Content: []string{"content"}, Date: []string{"published_date"},
	},
	"exa": {
		base: "https://api.exa.ai", Method: "POST", Path: "/search", KeyHeader: "x-api-key",
		Body:  `{"query":{query},"numResults":{limit},"type":"auto","contents":{"highlights":true}}`,
		Limit: 20, Results: "results", Title: []string{"title"}, URL: []string{"url"},
		Content: []string{"highlights.0", "text", "summary"}, Date: []string{"publishedDate"},
	},
}

// Format is how an upstream is asked.
func (s *Search) Format(u *SearchUpstream) (f SearchFormat, known bool) {
	if f, known = s.Formats[u.Format]; !known {
		f, known = searchFormats[u.Format]
	}
	return f, known
}

// completeSearch fills in the addresses of known services.
func (c *Config) completeSearch() {
	if c.Augment.Search == nil {
		return
	}
	for _, list := range c.Augment.Search.Providers() {
		for i := range list {
			if u := &list[i]; u.BaseURL == "" {
				u.BaseURL = searchFormats[u.Format].base
			}
		}
	}
}

const (
	maxSearchUpstreams = 64
	maxFormats         = 100
	maxParams          = 32
	maxTemplate        = 16 << 10
)

var (
	paramName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)
	formatName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
)

func (v *validator) search(path string, s *Search) {
	v.callPrice(path+".price", s.Price)
	v.rate(path+".rate", s.Rate)
	v.duration(path+".timeout", s.Timeout, time.Second, 2*time.Minute)
	if len(s.Brave)+len(s.Google) == 0 {
		v.wrong(path, "nothing answers searches; expected upstreams below brave: or google:, or no search: at all")
	}
	if n := len(s.Formats); n > maxFormats {
		v.wrong(path+".formats", "%d formats are listed; expected at most %d", n, maxFormats)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.Formats)) {
		f := s.Formats[name]
		v.searchFormat(path+".formats", name, &f)
	}
	providers := s.Providers()
	for _, provider := range slices.Sorted(maps.Keys(providers)) {
		list, at := providers[provider], path+"."+provider
		if len(list) > maxSearchUpstreams {
			v.wrong(at, "%d upstreams are listed; expected at most %d", len(list), maxSearchUpstreams)
			continue
		}
		names := map[string]int{}
		for i := range list {
			u := &list[i]
			one := fmt.Sprintf("%s[%d]", at, i)
			v.upstreamName(one, u.Name, i, names, "for logs and metrics", "of "+provider+" too")
			v.searchUpstream(one, s, u)
		}
	}
}

func (v *validator) searchUpstream(path string, s *Search, u *SearchUpstream) {
	f, known := s.Format(u)
	if !known {
		v.oneOf(path+".format", u.Format, slices.Sorted(maps.Keys(searchFormats))...)
		return
	}
	v.baseURL(path+".base_url", u.BaseURL)
	v.headerValue(path+".key", u.Key)
	carrier := ""
	if u.Key != "" {
		if carrier = strings.ToLower(f.KeyHeader); carrier == "" {
			v.wrong(path+".key", "the format %s has no key; expected it in headers: or params:", u.Format)
		}
	}
	v.headers(path, u.Headers, carrier)
	v.authority(path+".ca_file", u.CAFile)
	v.params(path+".params", u.Params)
	whole(v, path+".weight", u.Weight, 1, 1000)
	whole(v, path+".priority", u.Priority, 0, 100)
	v.connections(path, u.MaxConnections, u.MaxIdle, u.Breaker)
}

func (v *validator) params(path string, list map[string]string) {
	if len(list) > maxParams {
		v.wrong(path, "%d parameters are listed; expected at most %d", len(list), maxParams)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if at := join(path, name); !paramName.MatchString(name) {
			v.wrongKey(at, "%s is no parameter; expected letters, digits, . _ or -", quote(name))
		} else if len(list[name]) > 1000 {
			v.wrong(at, "the value has %d bytes; expected at most 1000", len(list[name]))
		}
	}
}

func (v *validator) searchFormat(path, name string, f *SearchFormat) {
	at := join(path, name)
	if _, taken := searchFormats[name]; taken || !formatName.MatchString(name) {
		v.wrongKey(at, "%s cannot be a format of your own; expected another name than %s, of lower-case letters, "+
			"digits, _ and -", quote(name), choice(slices.Sorted(maps.Keys(searchFormats))))
	}
	v.oneOf(at+".method", f.Method, "GET", "POST")
	if !strings.HasPrefix(f.Path, "/") || len(f.Path) > 1000 || strings.ContainsAny(f.Path, "?# ") || !plainASCII(f.Path) {
		v.wrong(at+".path", "%s is no path; expected one such as /search, its parameters in query:", v.shown(at+".path"))
	}
	v.params(at+".query", f.Query)
	asks := f.Body
	for _, value := range f.Query {
		asks += value
	}
	switch {
	case f.Method == "GET" && f.Body != "":
		v.wrong(at+".body", "a GET has no body; expected method: POST beside it")
	case f.Method == "POST" && (len(f.Body) > maxTemplate || !gjson.Valid(templated(f.Body))):
		v.wrong(at+".body", "this is no JSON; expected such as {\"q\": {query}, \"num\": {limit}}")
	case !strings.Contains(asks, "{query}"):
		v.wrong(at, "nothing of it has the words that are searched; expected {query} in query: or body:")
	}
	if f.KeyHeader != "" && (!headerName.MatchString(f.KeyHeader) ||
		slices.Contains(ownHeaders, strings.ToLower(f.KeyHeader))) {
		v.wrong(at+".key_header", "%s cannot carry the key; expected a header name such as X-API-Key",
			v.shown(at+".key_header"))
	}
	whole(v, at+".limit", f.Limit, 1, 100)
	v.jsonPaths(at+".results", f.Results)
	v.jsonPaths(at+".title", f.Title...)
	v.jsonPaths(at+".url", f.URL...)
	v.jsonPaths(at+".content", f.Content...)
	if len(f.Date) > 0 {
		v.jsonPaths(at+".date", f.Date...)
	}
}

// templated is a template with something in place of its words.
func templated(body string) string {
	return strings.NewReplacer("{query}", `""`, "{limit}", "1").Replace(body)
}

func (v *validator) jsonPaths(path string, list ...string) {
	if len(list) == 0 || len(list) > 8 || slices.Contains(list, "") {
		v.wrong(path, "this says not where it is; expected 1 to 8 paths such as web.results")
		return
	}
	for _, text := range list {
		// Modifiers and queries of gjson are not for what strangers answer.
		if len(text) > 200 || !plainASCII(text) || strings.ContainsAny(text, "@|#!{[*?") {
			v.wrong(path, "%s is no path; expected names and numbers joined by dots, such as web.results", quote(text))
		}
	}
}
