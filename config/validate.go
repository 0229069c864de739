package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// validator checks the rules that a well-formed file may still break. Every
// rule has a file in testdata that breaks it.
type validator struct {
	*decoder
	c        *Config
	ids      map[string]int     // of models
	ruledOut map[string]bool    // paths that break the rule of a tag; they could be read
	doubted  map[string]bool    // paths with a warning
	misled   map[*Upstream]bool // their dialect is wrong and reported
	uses     map[string]use     // of upstreams by models
}

func newValidator(d *decoder, c *Config) *validator {
	return &validator{decoder: d, c: c, ids: map[string]int{}, ruledOut: map[string]bool{},
		doubted: map[string]bool{}, misled: map[*Upstream]bool{}}
}

func (v *validator) run() {
	v.tags("", reflect.ValueOf(v.c).Elem())
	v.identity()
	v.listening()
	v.server()
	v.operator()
	v.logSocket()
	v.cors()
	v.limits()
	v.redis()
	v.web3Keys()
	v.images()
	v.fetch()
	v.usage()
	v.jobs()
	v.texts()
	v.upstreams()
	v.models()
	v.rpc()
	v.x402()
	v.tee()
	v.augment()
	v.media()
	v.characters()
}

var brandWord = regexp.MustCompile(`^[a-z][a-z0-9]{1,19}$`)

const brandExpected = "expected 2 to 20 lower-case letters and digits, a letter first, such as svc"

func (v *validator) identity() {
	if !brandWord.MatchString(v.c.Brand) {
		v.wrong("brand", "%s cannot be part of identifiers; "+brandExpected, v.shown("brand"))
	}
	for i, alias := range v.c.BrandAliases {
		path := fmt.Sprintf("brand_aliases[%d]", i)
		switch {
		case !brandWord.MatchString(alias):
			v.wrong(path, "%s cannot be part of identifiers; "+brandExpected, v.shown(path))
		case alias == v.c.Brand || slices.Contains(v.c.BrandAliases[:i], alias):
			v.wrong(path, "%s is listed already; expected another word than the brand and the other aliases",
				quote(alias))
		}
	}
	v.store()
}

var nodeName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`)

var windowsPath = regexp.MustCompile(`^[A-Za-z]:[\\\x00-\x1f]|^\\\\`)

func (v *validator) store() {
	v.src.hide(v.at["store"].node) // it may have a password
	switch u, err := url.Parse(v.c.Store); {
	case v.c.SharedStore() && (err != nil || u.Host == "" && u.Query().Get("host") == "" ||
		strings.Trim(u.Path, "/") == ""):
		v.wrong("store", "this names no database; expected postgres://user:password@host:5432/database")
	case runtime.GOOS != "windows" && windowsPath.MatchString(v.c.Store):
		v.wrong("store", "this is a path of Windows; expected one of this machine, such as /var/lib/farebox")
	case !v.c.SharedStore() && strings.HasPrefix(v.c.Store, "~/"):
		v.wrong("store", "~ is not expanded here; expected the whole path, or ${HOME}%s", v.c.Store[1:])
	case !v.c.SharedStore() && (v.c.Store == "" || strings.Contains(v.c.Store, "://")):
		v.wrong("store", "this is not a store; expected a directory such as ./farebox-data, or "+
			"postgres://user:password@host:5432/database")
	}
	if v.c.Node.Name != "" && !nodeName.MatchString(v.c.Node.Name) {
		v.wrong("node.name", "%s cannot name a node; expected 1 to 64 letters, digits, dots, _ or -, the first and "+
			"last a letter or digit", v.shown("node.name"))
	}
	if strings.HasPrefix(v.c.Node.Dir, "~/") {
		v.wrong("node.dir", "~ is not expanded here; expected the whole path, or ${HOME}%s", v.c.Node.Dir[1:])
	} else if v.c.Node.Dir == "" || strings.Contains(v.c.Node.Dir, "://") {
		v.wrong("node.dir", "%s is not a directory; expected a path such as ./farebox-data", v.shown("node.dir"))
	}
}

func (v *validator) listening() {
	v.address("listen", v.c.Listen, true)
	if m := v.c.Server.MetricsListen; m != MetricsOnListen && m != MetricsOff {
		v.address("server.metrics_listen", m, false)
		if m == v.c.Listen {
			v.wrong("server.metrics_listen",
				"this is the address of listen; expected another one, or the word listen to serve /metrics there, to "+
					"everybody")
		}
	}
	t := v.c.TLS
	switch {
	case t.Cert == "" && t.Key == "":
	case t.Cert == "":
		v.wrong("tls", "key is set without cert; expected both or neither")
	case t.Key == "":
		v.wrong("tls", "cert is set without key; expected both or neither")
	default:
		v.certificate(t)
	}
}

// address checks host:port or, where allowed, unix:/path.
func (v *validator) address(path, text string, unix bool) {
	want := "expected host:port such as 127.0.0.1:8080 or :8080"
	if unix {
		want += ", or unix:/path/to.sock"
		if file, ok := strings.CutPrefix(text, "unix:"); ok {
			if !filepath.IsAbs(file) || len(file) > 100 {
				v.wrong(path, "%s is not a usable socket path; expected unix: and an absolute path of at most 100 "+
					"characters", v.shown(path))
			}
			return
		}
	}
	usual := "8080"
	if strings.HasPrefix(path, "redis") {
		usual = "6379"
	}
	host, port, err := net.SplitHostPort(text)
	number, numErr := strconv.ParseUint(port, 10, 16)
	switch {
	case strings.Contains(text, "://"):
		v.src.hide(v.at[path].node) // it may have a password
		v.wrong(path, "this is a link; expected host:port without what stands before, such as 127.0.0.1:%s", usual)
	case regexpDigits.MatchString(text):
		v.wrong(path, "%s is a port alone; expected 127.0.0.1:%s, or \":%s\" for every address of this machine", v.shown(path),
			v.written(path, usual), v.written(path, usual))
	case err != nil && hostName.MatchString(text):
		v.wrong(path, "%s has no port; expected one behind a colon, such as %s:%s", v.shown(path), v.written(path, "127.0.0.1"), usual)
	case err != nil || numErr != nil:
		v.wrong(path, "%s is not an address; %s", v.shown(path), want)
	case number == 0:
		v.wrong(path, "port 0 changes at every start; expected a port from 1 to 65535")
	case host != "" && net.ParseIP(host) == nil && !hostName.MatchString(host):
		v.wrong(path, "%s has no usable host; %s", v.shown(path), want)
	}
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?$`)

func (v *validator) server() {
	s := v.c.Server
	if s.MaxInFlight < s.MaxBody && !v.bad["server.max_body"] {
		v.wrong("server.max_in_flight",
			"%s is less than max_body (%s), so that the largest request could never be taken; expected at least "+
				"as much", s.MaxInFlight, s.MaxBody)
	}
	v.prefixes("server.trusted_proxies", s.TrustedProxies, Unix)
	if s.CountryHeader != "" && !headerName.MatchString(s.CountryHeader) {
		v.wrong("server.country_header", "%s is no name of a header; expected one such as CF-IPCountry",
			v.shown("server.country_header"))
	} else if s.CountryHeader != "" && len(s.TrustedProxies) == 0 {
		v.wrong("server.country_header", "clients could name any country; expected trusted_proxies: too")
	}
	if s.ProxyProtocol && len(s.TrustedProxies) == 0 {
		v.wrong("server.proxy_protocol",
			"no proxy may use it; expected the addresses of the proxies in server.trusted_proxies")
	}
}

var tierName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

func (v *validator) limits() {
	l := v.c.Limits
	for _, name := range slices.Sorted(maps.Keys(l.Tiers)) {
		path := join("limits.tiers", name)
		if !tierName.MatchString(name) {
			v.wrongKey(path, "%s is not a tier name; expected 1 to 32 letters, digits, _ or -", quote(name))
		}
		if _, ok := v.keys[path]; ok && name == Unlimited {
			v.wrongKey(path, "the tier unlimited has no limits by definition; expected another name for a tier of "+
				"your own")
		}
		v.burst(path, l.Tiers[name])
	}
	v.burst("limits.key", l.Key)
}

func (v *validator) burst(path string, r Rate) {
	switch at := path + ".burst"; {
	case r.Burst == 0:
	case r.RPM == 0:
		v.wrong(at, "a burst needs a limit of requests a minute; expected rpm: too")
	case r.Burst < 1 || r.Burst > r.RPM:
		v.wrong(at, "%s is out of range; expected 1 to rpm (%d)", v.shown(at), r.RPM)
	}
}

var walletAddress = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)

func (v *validator) web3Keys() {
	w := v.c.Web3Keys
	for i, address := range w.Allow {
		path := fmt.Sprintf("web3_keys.allow[%d]", i)
		if !walletAddress.MatchString(address) {
			v.wrong(path, "%s is not a wallet address; expected 0x and 40 hexadecimal digits, in quotes", v.shown(path))
		}
	}
	if w.Require == "allowlist" && len(w.Allow) == 0 {
		v.wrong("web3_keys.require",
			"allowlist with an empty allow refuses every wallet; expected addresses in web3_keys.allow, or deny")
	}
}

func (v *validator) texts() {
	for path, text := range map[string]string{"top_up_url": v.c.TopUpURL, "docs_url": v.c.DocsURL,
		"public_url": v.c.PublicURL} {
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
			v.wrong(path, "%s cannot be shown to clients as a link; expected an http:// or https:// address without "+
				"credentials", v.shown(path))
		} else if path == "public_url" && (u.RawQuery != "" || u.Fragment != "") {
			v.wrong(path, "%s has a query or a fragment, and paths are put behind it; expected an address such as "+
				"https://api.example.com", v.shown(path))
		}
	}
	const most = 64 << 10
	if len(v.c.SystemPrompt) > most {
		v.wrong("system_prompt", "the text has %d bytes; expected at most %d, since every request carries it",
			len(v.c.SystemPrompt), most)
	}
}

// wrong reports a broken rule at the value, or at the nearest group above it when the key is not
// written. It is silent below a path that was reported already.
func (v *validator) wrong(path, format string, args ...any) {
	for up := path; up != ""; up = parent(up) {
		if v.bad[up] {
			return
		}
	}
	v.fail(v.placeOf(path), path, format, args...)
}

// wrongKey is wrong for a name that the operator chose, and points at it.
func (v *validator) wrongKey(path, format string, args ...any) {
	at, ok := v.keys[path]
	if !ok {
		at = v.placeOf(path)
	}
	v.fail(at, path, format, args...)
}

func (v *validator) placeOf(path string) position {
	for up := path; up != ""; up = parent(up) {
		if w, ok := v.at[up]; ok {
			return w.position
		}
	}
	return position{1, 1}
}

// has says whether the key is written and has a value.
func (v *validator) has(path string) bool {
	w, ok := v.at[path]
	return ok && w.node != nil && !w.node.isNull()
}

// referred says that a value comes from the environment or a file, and is not shown.
func (v *validator) referred(path string) bool {
	return v.has(path) && strings.Contains(v.at[path].node.text, "${")
}

// written is a value for messages as it is in the file, or another one in its place.
func (v *validator) written(path, other string) string {
	if !v.has(path) || v.referred(path) {
		return other
	}
	return clip(v.at[path].node.text)
}

// parent of a.b[2].c is a.b[2], then a.b, then a.
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return ""
}

func (v *validator) oneOf(path, got string, allowed ...string) {
	if !slices.Contains(allowed, got) {
		v.wrong(path, "%s is not known; expected %s", v.shown(path), choice(allowed))
	}
}

// whole checks a range of whole numbers.
func whole[T int | int64](v *validator, path string, got, least, most T) {
	if got < least || got > most {
		v.wrong(path, "%s is out of range; expected %d to %d", v.shown(path), least, most)
	}
}

// short is a duration without Go's trailing 0m0s.
func short(d time.Duration) string {
	s := d.String()
	if d >= time.Minute {
		s = strings.TrimSuffix(s, "0s")
	}
	if d >= time.Hour {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// choice lists words as "a, b or c".
func choice(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
