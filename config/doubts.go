package config

import (
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Warnings: values that somebody might mean and that are more often a mistake. Each goes away
// when the file is explicit.

// doubt warns at a value, or at the nearest group above it when the key is not written. It is
// silent below a path that was reported already.
func (v *validator) doubt(path, format string, args ...any) {
	for up := path; up != ""; up = parent(up) {
		if v.bad[up] || v.doubted[up] && up == path {
			return
		}
	}
	v.doubted[path] = true
	v.warn(v.placeOf(path), path, format, args...)
}

// doubts warns of values that the rules accept. Checks that compare entries with each other wait
// for a file without mistakes.
func (v *validator) doubts(mode fs.FileMode) {
	v.noteUses()
	for i := range v.c.Upstreams {
		v.doubtUpstream(fmt.Sprintf("upstreams[%d]", i), &v.c.Upstreams[i])
	}
	for i := range v.c.Models {
		if m, ok := v.c.Models[i].Spec.(*Chat); ok {
			v.doubtChat(fmt.Sprintf("models[%d]", i), m)
		}
	}
	v.doubtPlaces()
	v.doubtLimits()
	v.doubtAccess()
	if len(v.report.list) == 0 {
		v.doubtUnused()
		v.doubtTwins()
		v.doubtAgents()
	}
	v.doubtSecrets(mode)
	v.doubtEmpty()
	v.report.doubts = slices.DeleteFunc(v.report.doubts, func(f finding) bool { return v.bad[f.path] })
}

func (v *validator) doubtUpstream(path string, u *Upstream) {
	known, at := vendorOf(u)
	if v.bad[path+".base_url"] || at == nil || at.Host == "" {
		return
	}
	v.doubtKey(path+".key", u.Key.Reveal())
	if at.Hostname() == "0.0.0.0" || at.Hostname() == "::" {
		v.doubt(path+".base_url", "%s is no address to connect to; expected 127.0.0.1 for this machine", at.Hostname())
	}
	open := u.Key == "" && u.TokenFile == "" && len(u.Headers) == 0 && !u.AWS.Signs() && u.Google.KeyFile == ""
	if known != nil && known.env != "" && open {
		place := path + ".key"
		v.doubt(place, "%s answers nobody without a key; expected key: ${%s}", at.Hostname(), known.env)
	}
	if at.Scheme == "http" && !open && public(at.Hostname()) {
		v.doubt(path+".base_url", "the key would cross the internet in plain text; expected https://, or the address of a "+
			"private network")
	}
	if known == nil && u.Dialect == "openai" && at.Path == "" && v.uses[u.Name].texts {
		base := u.BaseURL
		if v.referred(path + ".base_url") {
			base = "http://host"
		}
		v.doubt(path+".base_url", "most servers have their API below /v1; expected %s/v1, or %s/ if it begins there", base, base)
	}
	text := v.uses[u.Name].chats
	if t := u.Timeouts.FirstByte; t < 5*time.Second && text {
		v.doubt(path+".timeouts.first_byte", "a model may think longer than %s before its first byte, and the request would fail; "+
			"expected at least 5s, such as 120s", short(t))
	}
	if b := u.Breaker; b.Failures > 0 && b.OpenFor < 100*time.Millisecond {
		v.doubt(path+".breaker.open_for", "a target would rest for %s only, as good as never; expected at least 1s, such as 10s, or "+
			"failures: 0", short(b.OpenFor))
	}
	if t := u.Timeouts.Total; t > 0 && t < 10*time.Second && text {
		v.doubt(path+".timeouts.total", "answers that take longer than %s would be cut; expected at least 10s, such as 600s, or 0s "+
			"for no cap", short(t))
	}
}

// placeholder matches the stand-ins for keys in examples.
var placeholder = regexp.MustCompile(`(?i)^(<.*>|\[.*\]|(sk-)?(\.\.\.|xxx+|your|my|change|replace|insert|todo|fixme).*)$`)

func (v *validator) doubtKey(path, key string) {
	if placeholder.MatchString(key) {
		v.doubt(path, "this is the placeholder of an example and no key; expected ${NAME} for the environment variable, or no key "+
			"where the upstream needs none")
	}
}

// use is the kinds of models that have an upstream among their targets.
type use struct{ any, texts, chats bool }

func (v *validator) noteUses() {
	v.uses = map[string]use{}
	for i := range v.c.Models {
		m := &v.c.Models[i]
		for _, t := range m.Targets {
			had := v.uses[t.Upstream]
			v.uses[t.Upstream] = use{true, had.texts || m.Spec.Text(), had.chats || m.Type == "text"}
		}
	}
}

func (v *validator) doubtChat(path string, c *Chat) {
	const few = 1000 // tokens; below, thousands are meant
	if n := c.ContextTokens; n > 20_000_000 {
		v.doubt(path+".context_tokens", "no model has a context of %d tokens; expected its size, such as 128000", n)
	} else if n > 0 && n < few {
		v.doubt(path+".context_tokens", "a context of %d tokens holds a few sentences; expected tokens and not thousands of "+
			"them, such as %d000", n, n)
	} else if most := c.MaxCompletionTokens; most < 128 && v.has(path+".max_completion_tokens") {
		v.doubt(path+".max_completion_tokens", "%d tokens are a few sentences; expected tokens and not thousands of them, such "+
			"as %d000", most, most)
	}
}

// doubtRates warns of prices that hardly anybody asks.
func (v *validator) doubtRates(path string, in, out Pico, read, write *Pico) {
	intended := ", or confirmed: true in price if it is meant"
	for key, p := range map[string]*Pico{"input": &in, "output": &out, "cache_read": read, "cache_write": write} {
		if p != nil && *p > dearPrice {
			v.doubt(path+"."+key, "%s USD per 1,000,000 tokens is more than any model costs; expected less%s", p.PerMillion(), intended)
		}
	}
	if out > 0 && out < in {
		v.doubt(path+".output", "output tokens would cost less than input tokens; expected the two prices the other way round%s",
			intended)
	}
	if read != nil && *read > in && in > 0 {
		v.doubt(path+".cache_read", "tokens from the cache would cost more than fresh ones (input %s); expected less%s",
			in.PerMillion(), intended)
	}
	if at := path + ".cache_read"; read != nil && *read == 0 && in > 0 && v.has(at) && v.at[at].node.text != freeRate {
		v.doubt(at, "tokens from the cache would be free; expected their price, or cache_read: free if that is meant")
	}
	if at := path + ".cache_write"; write != nil && *write < in && v.has(at) && v.at[at].node.text != freeRate {
		v.doubt(at, "tokens that are written to the cache would cost less than others (input %s); expected at least as much%s",
			in.PerMillion(), intended)
	}
}

// doubtPlaces warns of folders that lose their files.
func (v *validator) doubtPlaces() {
	for path, dir := range map[string]string{"store": v.c.Store, "node.dir": v.c.Node.Dir, "media.dir": v.c.Media.Dir} {
		if path == "store" && v.c.SharedStore() || path == "node.dir" && !v.c.SharedStore() || dir == "" {
			continue
		}
		what := "balances and charges"
		if path == "media.dir" {
			what = "results of customers"
		}
		for _, gone := range []string{"/tmp", "/var/tmp", "/dev/shm", "/run"} {
			if dir == gone || strings.HasPrefix(dir, gone+"/") {
				v.doubt(path, "%s is emptied at a restart of the machine, and %s with it; expected a folder that stays, such as "+
					"/var/lib/farebox", gone, what)
			}
		}
		if here, err := os.Getwd(); err == nil && here == string(filepath.Separator) && !filepath.IsAbs(dir) {
			v.doubt(path, "a relative path begins at the working directory, which is /; expected the whole path, such as "+
				"/var/lib/farebox")
		}
	}
	for key, d := range map[string]time.Duration{"read_timeout": v.c.Server.ReadTimeout, "client_stall": v.c.Server.ClientStall,
		"idle_timeout": v.c.Server.IdleTimeout} {
		if d < time.Second {
			v.doubt("server."+key, "slow networks of clients take longer than %s; expected at least 1s, such as 30s", short(d))
		}
	}
	if v.c.Server.DrainTimeout == 0 {
		v.doubt("server.drain_timeout", "a stop would cut every answer at once; expected a time such as 30s")
	}
}

func (v *validator) doubtLimits() {
	const least = 64 << 10
	if n := v.c.Server.MaxBody; n < least {
		v.doubt("server.max_body", "conversations of agents and pictures are larger than %s; expected at least 1MB, such as 35MB", n)
	}
	for _, name := range slices.Sorted(maps.Keys(v.c.Limits.Tiers)) {
		path, r := join("limits.tiers", name), v.c.Limits.Tiers[name]
		if r.TPM > 0 && r.TPM < 1000 {
			v.doubt(path+".tpm", "%d tokens a minute are less than one request needs; expected tokens and not thousands of them, "+
				"such as %d000", r.TPM, r.TPM)
		}
		if _, written := v.keys[path]; written && r == (Rate{}) {
			v.doubt(path, "the tier has no limit; expected rpm:, tpm: or others, or tier: unlimited at its models")
		}
	}
}

// doubtAccess warns of settings that let everybody in, or show something to everybody.
func (v *validator) doubtAccess() {
	all := func(path string, list []string, words string) {
		for i, text := range list {
			if text == "0.0.0.0/0" || text == "::/0" {
				v.doubt(fmt.Sprintf("%s[%d]", path, i), "%s", words)
			}
		}
	}
	all("server.trusted_proxies", v.c.Server.TrustedProxies, "every client could name another client's address, and no limit by "+
		"address would hold; expected the addresses of your proxies only")
	all("fetch.allow", v.c.Fetch.Allow, "links of clients could lead into your own network; expected the few addresses that "+
		"are meant")
	for i, address := range v.c.Redis.Addresses {
		if host, _, err := net.SplitHostPort(address); err == nil && v.c.Redis.Password == "" && public(host) {
			v.doubt(fmt.Sprintf("redis.addresses[%d]", i), "a Redis in the internet is open to everybody without a password; "+
				"expected password: ${REDIS_PASSWORD}")
		}
	}
	if u, err := url.Parse(v.c.Store); err == nil && v.c.SharedStore() && public(u.Hostname()) && u.Query().Get("passfile") == "" &&
		u.Query().Get("password") == "" && u.Query().Get("sslcert") == "" && os.Getenv("PGPASSWORD") == "" {
		if _, ok := u.User.Password(); !ok {
			v.doubt("store", "a database in the internet is open to everybody without a password; expected "+
				"postgres://user:${POSTGRES_PASSWORD}@host:5432/database")
		}
	}
}

// doubtUnused warns of entries without references.
func (v *validator) doubtUnused() {
	for i := range v.c.Upstreams {
		if u := &v.c.Upstreams[i]; !v.uses[u.Name].any {
			v.doubt(fmt.Sprintf("upstreams[%d].name", i), "no model has a target on upstream %s; expected one in targets:, or # "+
				"before its lines", quote(u.Name))
		}
	}
	builtin, had := builtinTiers(), map[string]bool{}
	for i := range v.c.Models {
		had[v.c.Models[i].Tier] = true
	}
	for _, name := range slices.Sorted(maps.Keys(v.c.Limits.Tiers)) {
		path := join("limits.tiers", name)
		at, written := v.keys[path]
		_, known := builtin[name]
		if written && !known && !v.doubted[path] && !had[name] {
			v.doubted[path] = true
			v.warn(at, path, "no model has tier %s, so that its limits hold for nothing; expected tier: %s at a model, or # before "+
				"its lines", quote(name), clip(name))
		}
	}
}

// doubtTwins warns of two models that are one and the same upstream's.
func (v *validator) doubtTwins() {
	first := map[string]int{} // by the values that tell models apart
	for i := range v.c.Models {
		m := &v.c.Models[i]
		if m.Deprecation != nil {
			continue
		}
		key := fmt.Sprintf("%q %q %q %q %v %q %+v", m.Type, m.Tier, m.Hold, m.Privacy, m.Offline, m.Regions, m.Targets)
		j, twin := first[key]
		if !twin {
			first[key] = i
			continue
		}
		path, a := fmt.Sprintf("models[%d].targets", i), &v.c.Models[j]
		if reflect.DeepEqual(a.Spec, m.Spec) {
			v.doubt(path, "this is models[%d] under another name; expected aliases: [%s] there, or another target", j, clip(m.ID))
		} else if x, ok := a.Spec.(*Chat); ok {
			// A copied model whose target was forgotten: nothing but its price differs.
			y := *m.Spec.(*Chat)
			if y.Price = x.Price; reflect.DeepEqual(*x, y) {
				v.doubt(path, "these are the targets of models[%d], at another price; expected other targets, or another tier: if "+
					"both are meant", j)
			}
		}
	}
}

// doubtAgents warns where clients that are expected to be agents could not call tools.
func (v *validator) doubtAgents() {
	if !v.c.Compat.AcceptMaxTokens {
		return
	}
	silent, first := 0, 0
	for i := range v.c.Models {
		if v.c.Models[i].Type == "text" && !v.has(fmt.Sprintf("models[%d].capabilities.tools", i)) {
			if silent++; silent == 1 {
				first = i
			}
		}
	}
	if silent > 0 {
		also := ""
		if silent > 1 {
			also = fmt.Sprintf(" (and %d more)", silent-1)
		}
		v.doubt(fmt.Sprintf("models[%d].capabilities.tools", first), "%s%s does not say whether it calls tools, and agents get 400; "+
			"expected capabilities: { tools: true }, or tools: false", quote(v.c.Models[first].ID), also)
	}
}

// reference is ${NAME}, of which only a default is written in the file.
var reference = regexp.MustCompile(`\$\{(?:file:[^{}]*|[A-Za-z_][A-Za-z0-9_]*(?::-([^{}]*))?)\}`)

var longPart = regexp.MustCompile(`[A-Za-z0-9_-]{20}`)

// doubtSecrets warns of secrets in a file that others on the machine can read.
func (v *validator) doubtSecrets(mode fs.FileMode) {
	if mode&0o044 == 0 || runtime.GOOS == "windows" {
		return
	}
	var first string // one says it for the file
	var at position
	for path, w := range v.at {
		if w.node == nil || w.node.kind != scalarNode {
			continue
		}
		literal := w.secret && len(reference.ReplaceAllString(w.node.text, "$1")) >= 8
		if strings.Contains(path, ".headers") {
			literal = literal && secretName.MatchString(strings.TrimRight(path, `"]`))
		}
		if u, err := url.Parse(reference.ReplaceAllString(w.node.text, "$1")); err == nil && (path == "store" || u.Host != "") {
			text, _ := u.User.Password()
			literal = text != "" // or a key in the path, as nodes of chains have it
			literal = literal || w.secret && longPart.MatchString(u.Path)
		}
		if sooner := w.line < at.line || w.line == at.line && w.column < at.column; literal && (first == "" || sooner) {
			first, at = path, w.position
		}
	}
	if first != "" {
		v.doubt(first, "everybody on this machine can read the secret (the file has mode %04o); expected ${NAME}, or chmod 600",
			mode.Perm())
	}
}

// doubtEmpty warns of keys that switch something on, with nothing behind them.
func (v *validator) doubtEmpty() {
	for _, path := range v.empty {
		v.doubt(path, "the key has no value, so it counts as not written; expected a value, {} for a group with its "+
			"defaults, or # before the line")
	}
}
