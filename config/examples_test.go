package config

import (
	"os"
	"reflect"
	"testing"
	"time"
)

// A key that full.yaml does not show is a key nobody finds.
func TestFullExampleShowsEveryKey(t *testing.T) {
	data, err := os.ReadFile("examples/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	src, r := newSource("full.yaml", data)
	root := parseTree(src, r)
	if err := r.err(); err != nil {
		t.Fatal(err)
	}
	shown := map[reflect.Type]map[string]bool{}
	var visit func(n *node, typ reflect.Type)
	visit = func(n *node, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer:
			visit(n, typ.Elem())
		case reflect.Slice:
			for _, item := range n.items {
				visit(item, typ.Elem())
			}
		case reflect.Map:
			for _, k := range n.pairs {
				visit(k.value, typ.Elem())
			}
		case reflect.Struct:
			if typ == reflect.TypeFor[time.Time]() {
				return
			}
			if shown[typ] == nil {
				shown[typ] = map[string]bool{}
			}
			for _, k := range n.pairs {
				shown[typ][k.name] = true
				if f, ok := fieldOf(reflect.New(typ).Elem(), k.name); ok {
					visit(k.value, f.Type())
				}
			}
		}
	}
	visit(root, reflect.TypeFor[Config]())
	if len(shown) < 15 {
		t.Errorf("only %d kinds of group are shown", len(shown))
	}
	for typ, keys := range shown {
		for _, key := range keysOf(typ) {
			if !keys[key] {
				t.Errorf("%s: key %s is not shown", typ.Name(), key)
			}
		}
	}
}

// full.yaml promises that what it writes is what holds without it.
func TestFullExampleIsWrittenWithTheDefaults(t *testing.T) {
	full := load(t, "examples/full.yaml")
	plain := load(t, "examples/minimal-openai.yaml")
	f := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: full.yaml has %+v, the default is %+v", what, got, want)
		}
	}
	f("brand", full.Brand, plain.Brand)
	f("listen", full.Listen, plain.Listen)
	f("store", full.Store, plain.Store)
	f("node", full.Node, plain.Node)
	f("durability", full.Durability, plain.Durability)
	f("server", full.Server, plain.Server)
	f("log", full.Log, plain.Log)
	f("compat", full.Compat, newConfig().Compat) // the other examples are for usual clients
	f("billing", full.Billing, plain.Billing)
	f("web3_keys", []any{full.Web3Keys.Require, len(full.Web3Keys.Allow), full.Web3Keys.PerIP}, []any{plain.Web3Keys.Require, 0, plain.Web3Keys.PerIP})
	f("images", []any{full.Images.Timeout, full.Images.Memory, full.Images.BrandedStyles, full.Images.Compress}, []any{plain.Images.Timeout, plain.Images.Memory, false, true})
	f("redis.addresses", len(full.Redis.Addresses), 0)
	full.Redis.Addresses = nil
	f("redis", full.Redis, plain.Redis)
	f("idempotency", full.Idempotency, plain.Idempotency)
	f("fetch", []any{len(full.Fetch.Allow), len(full.Fetch.Deny), full.Fetch.Limit}, []any{0, 0, plain.Fetch.Limit})
	f("limits.key", full.Limits.Key, plain.Limits.Key)
	f("limits.failed_requests", full.Limits.FailedRequests, plain.Limits.FailedRequests)
	f("limits.unsupported_features", full.Limits.UnsupportedFeatures, plain.Limits.UnsupportedFeatures)
	f("limits.aborted_requests", full.Limits.AbortedRequests, plain.Limits.AbortedRequests)
	f("limits.wrong_keys", full.Limits.WrongKeys, plain.Limits.WrongKeys)
	for name, rate := range plain.Limits.Tiers {
		f("tier "+name, full.Limits.Tiers[name], rate)
	}
	a, b := full.Upstreams[0], plain.Upstreams[0]
	f("timeouts", a.Timeouts, b.Timeouts)
	f("breaker", a.Breaker, b.Breaker)
	f("quirks", a.Quirks, b.Quirks)
	f("links", a.Links, b.Links)
	f("connections", []any{a.MaxConnections, a.MaxIdle, a.RetrySafe, a.Dialect}, []any{b.MaxConnections, b.MaxIdle, b.RetrySafe, b.Dialect})
	m, o := full.Models[0], plain.Models[0]
	f("model", []any{m.Type, m.Privacy, m.Tier, m.Tokenizer, m.Capabilities.Quantization}, []any{o.Type, o.Privacy, o.Tier, o.Tokenizer, o.Capabilities.Quantization})
	f("completion", full.Models[1].MaxCompletionTokens, int64(16384))
}

// The first run must work, and nobody may take it for the real thing.
func TestDemoIsCompleteAndSaysThatItIsSimulated(t *testing.T) {
	c := Demo("http://127.0.0.1:9099")
	if !c.Simulated || c.Source != "" || c.Listen != "127.0.0.1:8080" || c.Brand != "svc" || c.Store != "./farebox-data" {
		t.Errorf("the head of the demo config is wrong: %+v", c)
	}
	dialects := map[string]string{}
	for _, u := range c.Upstreams {
		dialects[u.Name] = u.Dialect
		if u.BaseURL != "http://127.0.0.1:9099/v1" {
			t.Errorf("upstream %s is at %s", u.Name, u.BaseURL)
		}
	}
	if dialects["simulated"] != "openai" || dialects["simulated-anthropic"] != "anthropic" {
		t.Errorf("upstreams are %v", dialects)
	}
	names := map[string]bool{}
	for _, m := range c.Models {
		const tag = "(simulated)"
		if len(m.Name) < len(tag) || m.Name[len(m.Name)-len(tag):] != tag {
			t.Errorf("model %s is named %q", m.ID, m.Name)
		}
		names[m.ID] = true
		for _, a := range m.Aliases {
			names[a] = true
		}
	}
	for _, name := range []string{"sim-chat-small", "sim-chat-large", "sim-claude", "sim-failover", "sim-embed", "gpt-4o", "gpt-4o-mini", "text-embedding-3-small", "sim-image", "gpt-image-1", "sim-edit", "sim-upscale", "sim-cutout"} {
		if !names[name] {
			t.Errorf("nothing is called %s", name)
		}
	}
}

func load(t *testing.T, name string) *Config {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(name, data, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
