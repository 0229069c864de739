package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Upstream is one endpoint that serves models.
type Upstream struct {
	// Name for targets, logs and metrics: 1 to 64 letters, digits, . _ or -. Clients never see it. Required.
	Name string `yaml:"name"`
	// Text in the header x-<brand>-model-router that tells clients who serves them. Default: no such header.
	Router string `yaml:"router"`
	// Wire format of the upstream. For text: @writes. For pictures: @draws. For speech: @speaks. For transcriptions:
	// @hears. For music: @music. For videos: @video. native is another farebox, whisper is whisper.cpp.
	Dialect string `yaml:"dialect" default:"openai" oneof:"@dialects"`
	// Address with the version prefix: http://, https:// or unix:/path.
	BaseURL string `yaml:"base_url"`
	// Key in the header of the dialect: Authorization: Bearer for most, x-api-key for anthropic, x-goog-api-key for
	// gemini. Default: none.
	Key Secret `yaml:"key"`
	// Further headers of every request. Their values are secrets.
	Headers map[string]Secret `yaml:"headers" most:"32 headers"`
	// File with a token in place of key, which something else keeps fresh. It is read again when it changes.
	// Default: none.
	TokenFile string `yaml:"token_file"`
	// PEM file with certificates of authorities. Default: those of the system.
	CAFile string `yaml:"ca_file"`

	// Settings of dialect azure.
	Azure Azure `yaml:"azure"`
	// Settings of dialect bedrock.
	AWS AWS `yaml:"aws"`
	// Settings of dialect vertex.
	Google Google `yaml:"google"`

	// How long the upstream may take.
	Timeouts Timeouts `yaml:"timeouts"`
	// Connections at the same time.
	MaxConnections int `yaml:"max_connections" default:"1024" range:"1..1000000"`
	// How long an unused connection is kept. It must be shorter than the server's own limit.
	MaxIdle time.Duration `yaml:"max_idle" default:"4s" range:"1ms..1h"`
	// Send a request again when a reused connection died before any answer. The upstream may bill you twice; the
	// customer pays once.
	RetrySafe bool `yaml:"retry_safe" default:"true"`
	// When a target rests. Answers that break off, cannot be read or hold an error count like errors. Failures of one
	// account alone rest a target for at most 5s; longer needs a second account or a failure that no request can
	// cause.
	Breaker Breaker `yaml:"breaker"`
	// How an OpenAI-compatible server differs. Default: not at all.
	Quirks Quirks `yaml:"quirks"`

	// Members of chat requests that are removed before they are sent, because they change your cost: dearer service,
	// other models, searches, voices, more output. [] lets everything pass, and default in a list stands for the
	// built-in list. You may add a member that a model refuses, such as temperature. With characters, members that
	// make an upstream repeat the prompt (echo, prompt_logprobs, return_token_ids, …) are always removed. Default: a
	// built-in list for the dialect and host.
	Drop []string `yaml:"drop"`
	// The upstream itself enforces a json_schema with strict: true. With false whole answers are checked here; an
	// answer that does not follow is 422 and charged.
	EnforcesSchema bool `yaml:"enforces_schema" default:"true"`
	// The upstream takes POST /responses and gets it as clients write it. With false it is asked for a chat
	// completion.
	Responses bool `yaml:"responses"`
	// Links in messages that the upstream is given, since it may follow them: public, any, or none (data URLs only, in
	// orders of videos, too).
	Links string `yaml:"links" default:"public" oneof:"public any none"`
}

// Timeouts of one exchange; 0 in Total means none.
type Timeouts struct {
	// To connect. A target without another one is tried twice.
	Connect time.Duration `yaml:"connect" default:"5s" range:"1ms..10m"`
	// From the request to the first byte of the answer.
	FirstByte time.Duration `yaml:"first_byte" default:"120s" range:"1ms..24h"`
	// Between bytes of the answer.
	Idle time.Duration `yaml:"idle" default:"120s" range:"1ms..24h"`
	// Of all attempts together; 0s: no cap.
	Total time.Duration `yaml:"total" default:"0s" range:"1ms..24h|0"`
}

// Breaker rests a target after Failures failures in a row and tries one request after
// OpenFor; after 5 s, if only one account saw the failures.
type Breaker struct {
	// Failures in a row until the target rests; 0: never.
	Failures int `yaml:"failures" default:"5" range:"0..10000"`
	// How long it rests.
	OpenFor time.Duration `yaml:"open_for" default:"10s" range:"1ms..1h"`
}

// Quirks are the ways an OpenAI-compatible server differs (notes: upstreams).
type Quirks struct {
	// It knows max_tokens only, not max_completion_tokens.
	MaxTokens bool `yaml:"max_tokens"`
	// It refuses stream_options.
	NoStreamOptions bool `yaml:"no_stream_options"`
	// It refuses reasoning_effort.
	NoReasoningEffort bool `yaml:"no_reasoning_effort"`
	// It has no role developer; such messages are sent as system.
	NoDeveloperRole bool `yaml:"no_developer_role"`
	// Header for the key instead of Authorization, such as api-key.
	APIKeyHeader string `yaml:"api_key_header"`
}

const (
	maxSecret = 8 << 10 // more does not fit into the head of a request
	maxPEM    = 1 << 20
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
	case n == 0 && (v.misplaced || v.bad["models"]): // that is reported
	case n == 0:
		v.wrong("upstreams", "no upstream is configured; expected a list with name and base_url of each server that "+
			"runs models")
	case v.ruledOut["upstreams"]:
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
	v.baseURL(path+".base_url", u.BaseURL, u.Spoken())
	if v.vendor(path, u) {
		v.wholeBaseURL(path+".base_url", u)
	}
	v.headerValue(path+".key", u.Key)
	if strings.Contains(u.Key.Reveal(), " ") {
		v.wrong(path+".key", "the key has a space; expected the key alone, without Bearer or another word before it")
	}
	v.headers(path, u.Headers, v.keyHeader(path, u))
	v.authority(path+".ca_file", u.CAFile)
	v.cloud(path, u)

	t := path + ".timeouts"
	if u.Timeouts.Total < u.Timeouts.FirstByte && u.Timeouts.Total >= time.Millisecond && v.has(t+".first_byte") {
		v.wrong(t+".total", "%s is less than first_byte (%s), which could never run out; expected at least as "+
			"much, or 0 for no cap", v.shown(t+".total"), short(u.Timeouts.FirstByte))
	}
	v.drops(path, u)
	if len(u.Router) > 64 || !plainASCII(u.Router) {
		v.wrong(path+".router", "clients read it in a header: expected at most 64 letters, digits and signs of ASCII")
	}
	d, _ := u.speaks()
	if q := u.Quirks; !d.compatible && (q.MaxTokens || q.NoStreamOptions || q.NoReasoningEffort || q.NoDeveloperRole) {
		v.wrong(path+".quirks", "quirks of OpenAI-compatible servers do not apply to an upstream of dialect %s; expected "+
			"api_key_header only", u.Dialect)
	}
	if u.Responses && !d.responses {
		v.wrong(path+".responses", "an upstream of dialect %s does not take POST /responses; expected it to be left out, "+
			"which serves clients of /responses as well", u.Dialect)
	}
}

const baseURLExpected = "expected http://host[:port]/v1, https://host[:port]/v1 or unix:/path/to.sock"

// baseURL checks the address of an upstream; spoken is its dialect.
func (v *validator) baseURL(path, text, spoken string) {
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
		v.wrong(path, "the URL has credentials, which would appear in logs; expected them in key: or headers:")
	case err != nil:
		v.src.hide(v.at[path].node)
		v.wrong(path, "this is not a URL; "+baseURLExpected)
	case u.Scheme != "http" && u.Scheme != "https":
		v.wrong(path, "%s does not start with http://, https:// or unix:/; "+baseURLExpected, v.shown(path))
	case onLoopback(text) && sameListener(u, v.c.Listen):
		v.wrong(path, "this is the address of listen, so that the gateway would ask itself; expected the server of the models")
	case badHost(u):
		v.wrong(path, "%s has no usable host and port; "+baseURLExpected, v.shown(path))
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		v.src.hide(v.at[path].node)
		v.wrong(path, "the URL has a query or fragment; expected only host and path, secrets belong in key: or "+
			"headers:")
	case endpointOf(u.Path, spoken) != "":
		before := strings.TrimSuffix(strings.TrimRight(text, "/"), endpointOf(u.Path, spoken))
		before, _, _ = strings.Cut(before, "/models/") // of Gemini
		if v.referred(path) {
			before = "such as https://host/v1"
		}
		v.wrong(path, "%s is the address of one endpoint; expected the part before it, %s", v.shown(path), clip(before))
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
	"api.cerebras.ai":   "/v1",
	"api.deepinfra.com": "/v1/openai",
	"api.elevenlabs.io": "/v1",
	"api.replicate.com": "/v1",
	"api.sambanova.ai":  "/v1",

	"integrate.api.nvidia.com": "/v1",
	"router.huggingface.co":    "/v1",

	"openrouter.ai": "/api/v1",

	googleHost: "/v1beta/openai",
}

// googleHost speaks two dialects, each below a path of its own.
const googleHost = "generativelanguage.googleapis.com"

// wholeBaseURL finds the address of a well-known host without the path that
// its endpoints stand below: every request would be answered 404.
func (v *validator) wholeBaseURL(path string, up *Upstream) {
	u, err := url.Parse(up.BaseURL)
	if err != nil {
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
	switch {
	case root == "":
	case at == "":
		v.wrong(path, "%s has no endpoints at this address, but below %s; expected https://%s%s",
			u.Hostname(), root, u.Hostname(), root)
	case host != googleHost && !strings.HasPrefix("/"+at+"/", root+"/") && up.Dialect == "openai":
		v.doubt(path, "%s has its endpoints below %s; expected https://%s%s", u.Hostname(), root, u.Hostname(), root)
	}
}

// sameListener says that an address of this machine is the gateway's own.
func sameListener(u *url.URL, listen string) bool {
	host, port, err := net.SplitHostPort(listen)
	return err == nil && u.Port() == port && (host == u.Hostname() || host == "" || host == "0.0.0.0" || host == "::" ||
		host == "127.0.0.1" && u.Hostname() == "localhost" || host == "localhost" && u.Hostname() == "127.0.0.1")
}

func badHost(u *url.URL) bool {
	host := u.Hostname()
	return host == "" || host == "http" || host == "https" || !hostName.MatchString(host) && !strings.Contains(host, ":") || badPort(u.Port())
}

func badPort(port string) bool {
	return len(port) > 5 || port == "0" || len(port) == 5 && port > "65535"
}

// keyHeader is the header, in lower case, that carries the key of an upstream;
// empty if absent.
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
	if v.ruledOut[path+".headers"] {
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

// headerValue refuses characters that could end a header and begin another one.
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
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		v.wrong("tls", "cert and key cannot be used together (%v); expected a PEM certificate chain and its "+
			"private key", err)
	} else if pair.Leaf != nil && time.Now().After(pair.Leaf.NotAfter) {
		v.doubt("tls.cert", "the certificate ended on %s, and clients refuse it; expected a renewed one",
			pair.Leaf.NotAfter.Format(time.DateOnly))
	}
}

// authority reads a ca_file; empty if absent.
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
		v.wrong(path, "%s has no certificate; expected a PEM file with certificates of authorities", v.shown(path))
	}
}
