package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Upstream is one endpoint that serves models.
type Upstream struct {
	Name string `yaml:"name"` // operator's label; never sent to clients
	// Router is what clients are told of who serves them, in the header
	// x-<brand>-model-router; empty: nothing.
	Router  string `yaml:"router"`
	Dialect string `yaml:"dialect"` // openai (default) or another one of dialects
	// BaseURL includes the version prefix, e.g. https://api.openai.com/v1; http, https or unix:/path.
	BaseURL string            `yaml:"base_url"`
	Key     Secret            `yaml:"key"`     // bearer key or x-api-key; may be empty for self-hosted
	Headers map[string]Secret `yaml:"headers"` // further fixed request headers
	// TokenFile holds a token in place of Key, which something else keeps fresh;
	// it is read again when it changes.
	TokenFile string `yaml:"token_file"`
	CAFile    string `yaml:"ca_file"`

	// Azure, AWS and Google are what the dialects of clouds have (cloud.go).
	Azure  Azure  `yaml:"azure"`
	AWS    AWS    `yaml:"aws"`
	Google Google `yaml:"google"`

	Timeouts       Timeouts      `yaml:"timeouts"`
	MaxConnections int           `yaml:"max_connections"` // default 1024
	MaxIdle        time.Duration `yaml:"max_idle"`        // keep-alive of unused connections; default 4s
	// RetrySafe (default true) resends a request once when the kept-alive
	// connection it went out on died before any answer byte. The upstream may
	// have begun on it, and bill the operator twice; the customer never is.
	RetrySafe bool    `yaml:"retry_safe"`
	Breaker   Breaker `yaml:"breaker"`
	Quirks    Quirks  `yaml:"quirks"`

	// Drop are members of chat requests that are taken out before they are sent
	// here (drop.go): those that change what the operator pays. Not written: the
	// built-in list of the dialect and host; `default` in a list stands for it,
	// an empty list lets everything pass, but for members that tell prompts where
	// there are characters.
	Drop []string `yaml:"drop"`
	// EnforcesSchema (default true) says that the upstream itself sees to it that
	// answers follow a json_schema with strict: true. Where it does not, whole answers
	// are checked here, and one that does not follow is refused: 422.
	EnforcesSchema bool `yaml:"enforces_schema"`
	// Responses says that the upstream takes POST /responses itself: what clients ask
	// in that form goes there as they wrote it. Default false: it is asked for a chat
	// completion.
	Responses bool `yaml:"responses"`
	// Links says which links in chat messages are passed on to this upstream,
	// which may follow them: public (default), any or none. Orders of videos have the
	// public addresses where their links end, or, with none, data URLs alone.
	Links string `yaml:"links"`
}

func (u *Upstream) defaults() {
	u.Dialect = dialects[0].name
	u.Timeouts = Timeouts{Connect: 5 * time.Second, FirstByte: 120 * time.Second, Idle: 120 * time.Second}
	u.MaxConnections = 1024
	u.MaxIdle = 4 * time.Second
	u.Breaker = Breaker{Failures: 5, OpenFor: 10 * time.Second}
	u.RetrySafe = true
	u.EnforcesSchema = true
	u.Links = "public"
}

// Timeouts of one exchange; 0 in Total means none.
type Timeouts struct {
	Connect   time.Duration `yaml:"connect"`    // default 5s
	FirstByte time.Duration `yaml:"first_byte"` // request sent to first answer byte; default 120s
	Idle      time.Duration `yaml:"idle"`       // between answer bytes; default 120s
	Total     time.Duration `yaml:"total"`      // of all attempts together; default 0: no cap on streams
}

// Breaker opens a target after Failures failures in a row and tries one
// request again after OpenFor; after 5 s, where only one account met them.
type Breaker struct {
	Failures int           `yaml:"failures"` // default 5; 0 after a written 0: never opens
	OpenFor  time.Duration `yaml:"open_for"` // default 10s
}

// Quirks are the ways an OpenAI-compatible server differs (notes: upstreams).
type Quirks struct {
	MaxTokens         bool `yaml:"max_tokens"`          // takes max_tokens, not max_completion_tokens
	NoStreamOptions   bool `yaml:"no_stream_options"`   // refuses stream_options
	NoReasoningEffort bool `yaml:"no_reasoning_effort"` // refuses reasoning_effort
	NoDeveloperRole   bool `yaml:"no_developer_role"`   // developer messages are sent as system
	// header that carries the key instead of Authorization, e.g. api-key
	APIKeyHeader string `yaml:"api_key_header"`
}

const (
	maxUpstreams = 1000
	maxHeaders   = 32
	maxSecret    = 8 << 10 // more does not fit into the head of a request
	maxPEM       = 1 << 20
)

var (
	upstreamName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$")
)

// ownHeaders are written by the proxy itself on every upstream request.
var ownHeaders = []string{
	"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect",
	"host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
	"x-request-id",
}

func (v *validator) upstreams() {
	switch n := len(v.c.Upstreams); {
	case n == 0 && len(v.c.Models) == 0 && (len(v.c.RPC.Networks) > 0 || v.c.Augment != (Augment{})):
		// Blockchain calls, pages, searches or documents only.
	case n == 0:
		v.wrong("upstreams", "no upstream is configured; expected a list with name and base_url of each server that "+
			"runs models")
	case n > maxUpstreams:
		v.wrong("upstreams", "%d upstreams are listed; expected at most %d", n, maxUpstreams)
		return
	}
	if n := len(v.c.Drops()); n > maxDrops {
		v.wrong("upstreams", "the drop lists of all upstreams have %d names together; expected at most %d", n, maxDrops)
	}
	names := map[string]int{}
	for i := range v.c.Upstreams {
		u := &v.c.Upstreams[i]
		path := fmt.Sprintf("upstreams[%d]", i)
		v.upstreamName(path, u.Name, i, names, "by which targets refer to it", "too")
		v.upstream(path, u)
	}
}

// upstreamName checks the name of entry i of a list; taken has those before it.
func (v *validator) upstreamName(path, name string, i int, taken map[string]int, purpose, too string) {
	switch first, double := taken[name]; {
	case name == "":
		v.wrong(path+".name", "the upstream has no name; expected one, %s", purpose)
	case !upstreamName.MatchString(name):
		v.wrong(path+".name", "%s cannot be a name; expected 1 to 64 letters, digits, . _ or -", v.shown(path+".name"))
	case double:
		v.wrong(path+".name", "%s is the name of upstreams[%d] %s; expected every name once", v.shown(path+".name"),
			first, too)
	default:
		taken[name] = i
	}
}

func (v *validator) upstream(path string, u *Upstream) {
	v.oneOf(path+".dialect", u.Dialect, dialectsThat(func(*dialect) bool { return true })...)
	v.baseURL(path+".base_url", u.BaseURL)
	v.wholeBaseURL(path+".base_url", u)
	v.headerValue(path+".key", u.Key)
	v.headers(path, u.Headers, v.keyHeader(path, u))
	v.authority(path+".ca_file", u.CAFile)
	v.cloud(path, u)

	t := path + ".timeouts"
	v.duration(t+".connect", u.Timeouts.Connect, time.Millisecond, 10*time.Minute)
	v.duration(t+".first_byte", u.Timeouts.FirstByte, time.Millisecond, 24*time.Hour)
	v.duration(t+".idle", u.Timeouts.Idle, time.Millisecond, 24*time.Hour)
	if u.Timeouts.Total != 0 { // 0: no cap
		v.duration(t+".total", u.Timeouts.Total, time.Millisecond, 24*time.Hour)
		if u.Timeouts.Total < u.Timeouts.FirstByte && u.Timeouts.Total >= time.Millisecond && v.has(t+".first_byte") {
			v.wrong(t+".total", "%s is less than first_byte (%s), which could never run out; expected at least as "+
				"much, or 0 for no cap", v.shown(t+".total"), short(u.Timeouts.FirstByte))
		}
	}
	v.drops(path, u)
	if len(u.Router) > 64 || !plainASCII(u.Router) {
		v.wrong(path+".router", "clients read it in a header: expected at most 64 letters, digits and signs of ASCII")
	}
	v.oneOf(path+".links", u.Links, "public", "any", "none")
	v.connections(path, u.MaxConnections, u.MaxIdle, u.Breaker)
	d, _ := u.speaks()
	if q := u.Quirks; !d.compatible && (q.MaxTokens || q.NoStreamOptions || q.NoReasoningEffort || q.NoDeveloperRole) {
		v.wrong(path+".quirks", "quirks of OpenAI-compatible servers stand at an upstream of dialect %s; expected "+
			"api_key_header only", u.Dialect)
	}
	if u.Responses && !d.responses {
		v.wrong(path+".responses", "an upstream of dialect %s does not take POST /responses; expected it to be left out, "+
			"which serves clients of /responses as well", u.Dialect)
	}
}

// connections checks what every kind of upstream has.
func (v *validator) connections(path string, most int, idle time.Duration, b Breaker) {
	whole(v, path+".max_connections", most, 1, 1_000_000)
	v.duration(path+".max_idle", idle, time.Millisecond, time.Hour)
	whole(v, path+".breaker.failures", b.Failures, 0, 10_000)
	v.duration(path+".breaker.open_for", b.OpenFor, time.Millisecond, time.Hour)
}

const baseURLExpected = "expected http://host[:port]/v1, https://host[:port]/v1 or unix:/path/to.sock"

func (v *validator) baseURL(path, text string) {
	if text == "" {
		v.wrong(path, "the upstream has no address; "+baseURLExpected)
		return
	}
	if file, ok := strings.CutPrefix(text, "unix:"); ok {
		if !filepath.IsAbs(file) || len(file) > 100 {
			v.wrong(path, "%s is not a usable socket path; expected unix: and an absolute path of at most 100 "+
				"characters", v.shown(path))
		}
		return
	}
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, "@"):
		v.src.hide(v.at[path].node)
		v.wrong(path, "credentials stand in the URL, from where they get into logs; expected them in key: or headers:")
	case err != nil:
		v.src.hide(v.at[path].node)
		v.wrong(path, "this is not a URL; "+baseURLExpected)
	case u.Scheme != "http" && u.Scheme != "https":
		v.wrong(path, "%s does not start with http://, https:// or unix:/; "+baseURLExpected, v.shown(path))
	case badHost(u):
		v.wrong(path, "%s has no usable host and port; "+baseURLExpected, v.shown(path))
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		v.src.hide(v.at[path].node)
		v.wrong(path, "the URL has a query or fragment; expected only host and path, secrets belong in key: or "+
			"headers:")
	case isEndpoint(u.Path):
		v.wrong(path, "%s is the address of one endpoint; expected what stands before it, such as https://host/v1",
			v.shown(path))
	}
}

// apiRoots are where the endpoints of well-known hosts begin. Nothing that a
// gateway asks for answers at the root of these hosts.
var apiRoots = map[string]string{
	"api.anthropic.com": "/v1",
	"api.fireworks.ai":  "/inference/v1",
	"api.groq.com":      "/openai/v1",
	"api.mistral.ai":    "/v1",
	"api.openai.com":    "/v1",
	"api.together.xyz":  "/v1",
	"api.x.ai":          "/v1",
	"openrouter.ai":     "/api/v1",

	googleHost: "/v1beta/openai",
}

// googleHost speaks two dialects, each below a path of its own.
const googleHost = "generativelanguage.googleapis.com"

// wholeBaseURL finds the address of a well-known host without the path that
// its endpoints stand below: every request would be answered 404.
func (v *validator) wholeBaseURL(path string, up *Upstream) {
	u, err := url.Parse(up.BaseURL)
	if d, known := up.speaks(); err != nil || known && !d.writes {
		return
	}
	host := strings.ToLower(u.Hostname())
	root, at := apiRoots[host], strings.Trim(u.Path, "/")
	if host == googleHost {
		if up.Dialect == "gemini" {
			root = "/v1beta"
		}
		if compatible := strings.HasSuffix(at, "/openai"); compatible == (up.Dialect == "gemini") {
			at = "" // the other dialect's
		}
	}
	if root != "" && at == "" {
		v.wrong(path, "%s answers nothing at this address, its endpoints stand below %s; expected https://%s%s",
			u.Hostname(), root, u.Hostname(), root)
	}
}

func badHost(u *url.URL) bool {
	host := u.Hostname()
	return host == "" || !hostName.MatchString(host) && !strings.Contains(host, ":") || badPort(u.Port())
}

func badPort(port string) bool {
	return len(port) > 5 || port == "0" || len(port) == 5 && port > "65535"
}

// keyHeader is the header, in lower case, that carries the key of an upstream;
// empty when it has none.
func (v *validator) keyHeader(path string, u *Upstream) string {
	name, _ := u.KeyHeader()
	carrier := strings.ToLower(name)
	if h := u.Quirks.APIKeyHeader; h != "" {
		at := path + ".quirks.api_key_header"
		if !headerName.MatchString(h) || slices.Contains(ownHeaders, carrier) {
			v.wrong(at, "%s cannot carry the key; expected a header name such as api-key", v.shown(at))
		}
	}
	switch {
	case u.AWS.Signs(), u.Google.KeyFile != "":
		return "authorization"
	case u.TokenFile != "":
		name, _ = u.TokenHeader()
		return strings.ToLower(name)
	case u.Key == "":
		return ""
	}
	return carrier
}

// headers checks fixed request headers; carrier is the one that carries the key.
func (v *validator) headers(path string, list map[string]Secret, carrier string) {
	if len(list) > maxHeaders {
		v.wrong(path+".headers", "%d headers are listed; expected at most %d", len(list), maxHeaders)
		return
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at := join(path+".headers", name)
		lower := strings.ToLower(name)
		switch {
		case !headerName.MatchString(name):
			v.wrongKey(at, "%s is not a header name; expected letters, digits and -", quote(name))
		case slices.Contains(ownHeaders, lower):
			v.wrongKey(at, "%s is set by the gateway itself; expected another header", quote(name))
		case lower == carrier:
			v.wrongKey(at, "%s carries key: already; expected it in one of the two", quote(name))
		case seen[lower] != "":
			v.wrongKey(at, "%s stands here as %s too; expected every header once", quote(name), quote(seen[lower]))
		}
		seen[lower] = name
		v.headerValue(at, list[name])
	}
}

// headerValue refuses what could end a header and begin another one.
func (v *validator) headerValue(path string, s Secret) {
	text := s.Reveal()
	if len(text) > maxSecret {
		v.wrong(path, "the secret has more than %d bytes; expected a key or token", maxSecret)
		return
	}
	if text != strings.TrimSpace(text) {
		v.wrong(path, "the secret begins or ends with white space; expected it without")
		return
	}
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			v.wrong(path, "the secret has a line break or another character that no header can carry; expected "+
				"printable ASCII")
			return
		}
	}
}

// certificate reads the pair now, so that `farebox check` finds a wrong one.
func (v *validator) certificate(t TLS) {
	cert, err := readRegular(t.Cert, maxPEM)
	if err != nil {
		v.wrong("tls.cert", "cannot read %s: %v; expected a PEM file with the certificate chain", v.shown("tls.cert"),
			err)
		return
	}
	key, err := readRegular(t.Key, maxPEM)
	if err != nil {
		v.wrong("tls.key", "cannot read %s: %v; expected a PEM file with the private key", v.shown("tls.key"), err)
		return
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		v.wrong("tls", "cert and key cannot be used together (%v); expected a PEM certificate chain and its "+
			"private key", err)
	}
}

// authority reads a ca_file; empty: there is none.
func (v *validator) authority(path, file string) {
	if file == "" {
		return
	}
	pem, err := readRegular(file, maxPEM)
	if err != nil {
		v.wrong(path, "cannot read %s: %v; expected a PEM file with certificates of authorities", v.shown(path), err)
		return
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		v.wrong(path, "%s holds no certificate; expected a PEM file with certificates of authorities", v.shown(path))
	}
}
