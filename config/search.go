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
	// USD a search, or free.
	Price Each `yaml:"price" default:"0.01" range:"0..10000"`
	// Limit of an account; rpm: 0 for no limit.
	Rate Rate `yaml:"rate" default:"rpm: 20"`
	// Time for all attempts together.
	Timeout time.Duration `yaml:"timeout" default:"10s" range:"1s..2m"`
	// Services for search_provider: brave, which is the default of requests. Without one it is refused.
	Brave []SearchUpstream `yaml:"brave" most:"64 upstreams"`
	// Services for search_provider: google. A search that fails at all of them is not sent to those of brave.
	Google []SearchUpstream `yaml:"google" most:"64 upstreams"`
	// Formats of your own by name, for services that are not known.
	Formats map[string]SearchFormat `yaml:"formats" most:"100 formats"`
}

// Providers are the values of search_provider in the order of the
// specification, each with the service that answers.
func (s *Search) Providers() map[string][]SearchUpstream {
	return map[string][]SearchUpstream{"brave": s.Brave, "google": s.Google}
}

// SearchUpstream is one service that searches.
type SearchUpstream struct {
	// Name for logs and metrics: 1 to 64 letters, digits, . _ or -. Required.
	Name string `yaml:"name"`
	// How the service is asked: brave, serper, searxng, tavily, exa, or one of formats. Required.
	Format string `yaml:"format"`
	// Address before the path of the format. Default: that of the service; searxng has none.
	BaseURL string `yaml:"base_url"`
	// Key of the service, in the header of its format.
	Key Secret `yaml:"key"`
	// Further fixed request headers. Their values are secrets.
	Headers map[string]Secret `yaml:"headers" most:"32 headers"`
	// PEM file with certificates of authorities. Default: those of the system.
	CAFile string `yaml:"ca_file"`
	// Values that are sent along, in the query or as members of the body, such as gl: de.
	Params map[string]string `yaml:"params" most:"32 parameters"`
	// Share of the searches among equal priorities.
	Weight int `yaml:"weight" default:"1" range:"1..1000"`
	// Lower numbers are asked first.
	Priority int `yaml:"priority" default:"0" range:"0..100"`

	// Connections at the same time.
	MaxConnections int `yaml:"max_connections" default:"256" range:"1..1000000"`
	// How long an unused connection is kept.
	MaxIdle time.Duration `yaml:"max_idle" default:"4s" range:"1ms..1h"`
	// When the service rests after failures.
	Breaker Breaker `yaml:"breaker"`
}

// SearchFormat describes the request to a service and the paths in its answer.
// {query} and {limit} stand for the client's words.
type SearchFormat struct {
	// Method of the request.
	Method string `yaml:"method" default:"GET" oneof:"GET POST"`
	// Path after base_url, such as /search. Required.
	Path string `yaml:"path"`
	// Query of a GET. {query} and {limit} stand for the client's words.
	Query map[string]string `yaml:"query" most:"32 parameters"`
	// Body of a POST: JSON such as {"q": {query}, "num": {limit}}.
	Body string `yaml:"body"`
	// Header for the key. Authorization carries it as a bearer token.
	KeyHeader string `yaml:"key_header"`
	// Most results that the service gives, 1 to 100.
	Limit int `yaml:"limit" default:"20"`
	// Path of the results in the answer, such as web.results. Required.
	Results string `yaml:"results"`
	// Paths of the title in each result. The first one with text counts, here and below. Required.
	Title []string `yaml:"title"`
	// Paths of the link in each result. Required.
	URL []string `yaml:"url"`
	// Paths of the text in each result. Required.
	Content []string `yaml:"content"`
	// Paths of the date in each result.
	Date []string `yaml:"date"`
	// Whether these texts are HTML. Otherwise only pairs of tags such as <b> and </b> are removed from them.
	HTML bool `yaml:"html"`

	base string // of the service
}

// searchFormats are the services that are known by name.
var searchFormats = map[string]SearchFormat{
	"brave": {
		base: "https://api.search.brave.com", Method: "GET", Path: "/res/v1/web/search", KeyHeader: "X-Subscription-Token",
		Query: map[string]string{"q": "{query}", "count": "{limit}", "result_filter": "web", "text_decorations": "false"},
		Limit: 20, Results: "web.results", Title: []string{"title"}, URL: []string{"url"},
		Content: []string{"description", "extra_snippets.0"}, Date: []string{"page_age", "age"}, HTML: true,
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

const maxTemplate = 16 << 10

var (
	paramName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)
	formatName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
)

func (v *validator) search(path string, s *Search) {
	v.callPrice(path+".price", s.Price)
	v.burst(path+".rate", s.Rate)
	if len(s.Brave)+len(s.Google) == 0 {
		v.wrong(path, "nothing answers searches; expected upstreams below brave: or google:, or no search: at all")
	}
	if v.ruledOut[path+".formats"] {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.Formats)) {
		f := s.Formats[name]
		v.searchFormat(path+".formats", name, &f)
	}
	providers := s.Providers()
	for _, provider := range slices.Sorted(maps.Keys(providers)) {
		list, at := providers[provider], path+"."+provider
		if v.ruledOut[at] {
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
	v.baseURL(path+".base_url", u.BaseURL, "")
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
}

func (v *validator) params(path string, list map[string]string) {
	if v.ruledOut[path] {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if at := join(path, name); !paramName.MatchString(name) {
			v.wrongKey(at, "%s is not a parameter; expected letters, digits, . _ or -", quote(name))
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
	if !strings.HasPrefix(f.Path, "/") || len(f.Path) > 1000 || strings.ContainsAny(f.Path, "?# ") || !plainASCII(f.Path) {
		v.wrong(at+".path", "%s is not a path; expected one such as /search, with its parameters in query:", v.shown(at+".path"))
	}
	v.params(at+".query", f.Query)
	asks := f.Body
	for _, value := range f.Query {
		asks += value
	}
	switch {
	case f.Method == "GET" && f.Body != "":
		v.wrong(at+".body", "a GET has no body; expected method: POST too")
	case f.Method == "POST" && (len(f.Body) > maxTemplate || !gjson.Valid(templated(f.Body))):
		v.wrong(at+".body", "this is not JSON; expected a body such as {\"q\": {query}, \"num\": {limit}}")
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
		v.wrong(path, "this names no location; expected 1 to 8 paths such as web.results")
		return
	}
	for _, text := range list {
		// Modifiers and queries of gjson are not for untrusted answers.
		if len(text) > 200 || !plainASCII(text) || strings.ContainsAny(text, "@|#!{[*?") {
			v.wrong(path, "%s is not a path; expected names and numbers joined by dots, such as web.results", quote(text))
		}
	}
}
