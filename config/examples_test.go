package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Users do not find a key that full.yaml does not show.
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
	type group struct {
		keys  []string
		shown map[string]bool
	}
	groups := map[string]*group{}
	var visit func(path string, n *node, shapes []reflect.Value)
	visit = func(path string, n *node, shapes []reflect.Value) {
		first := shapes[0]
		switch first.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			inner := make([]reflect.Value, len(shapes))
			for i, v := range shapes {
				inner[i] = reflect.New(v.Type().Elem()).Elem()
			}
			nodes := []*node{n}
			if first.Kind() == reflect.Slice {
				nodes = n.items
			} else if first.Kind() == reflect.Map {
				nodes = nil
				for _, k := range n.pairs {
					nodes = append(nodes, k.value)
				}
			}
			for _, n := range nodes {
				visit(path, n, inner)
			}
		case reflect.Struct:
			if first.Type() == reflect.TypeFor[time.Time]() {
				return
			}
			if m, ok := first.Addr().Interface().(*Model); ok {
				m.defaults()
				shapes = newDecoder(nil, nil).shapes(m)
			}
			name := first.Type().Name()
			if len(shapes) > 1 {
				name = path // whose keys depend on the type of the model
			}
			if groups[name] == nil {
				groups[name] = &group{keysOf(shapes...), map[string]bool{}}
			}
			for _, k := range n.pairs {
				groups[name].shown[k.name] = true
				var fields []reflect.Value
				for _, v := range shapes {
					if f, ok := fieldOf(v, k.name); ok {
						fields = append(fields, f)
					}
				}
				if len(fields) > 0 {
					visit(join(path, k.name), k.value, fields)
				}
			}
		}
	}
	visit("", root, []reflect.Value{reflect.ValueOf(&Config{}).Elem()})
	if len(groups) < 15 {
		t.Errorf("only %d kinds of group are shown", len(groups))
	}
	for name, g := range groups {
		for _, key := range g.keys {
			if !g.shown[key] {
				t.Errorf("%s: key %s is not shown", name, key)
			}
		}
	}
}

// full.yaml promises that its values are the defaults.
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
	f("web3_keys", []any{full.Web3Keys.Require, len(full.Web3Keys.Allow), full.Web3Keys.PerIP},
		[]any{plain.Web3Keys.Require, 0, plain.Web3Keys.PerIP})
	f("images", []any{full.Images.Timeout, full.Images.Memory, full.Images.BrandedStyles, full.Images.Compress},
		[]any{plain.Images.Timeout, plain.Images.Memory, false, true})
	x, y := *full.X402, Default[X402]()
	y.SignIn.complete("https://api.example.com", "svc")
	chain, found := x.Networks[0], plain
	found.RPC = full.RPC
	usual := Default[X402Network]()
	usual.Network, usual.RPC, usual.PayTo = "base", chain.RPC, chain.PayTo
	found.completeChain(&usual)
	f("x402.networks", chain, usual)
	bringer, other := x.Facilitators[1], Default[X402Facilitator]()
	f("x402.facilitators", []any{bringer.VerifyTimeout, bringer.SettleTimeout, bringer.MaxInFlight},
		[]any{other.VerifyTimeout, other.SettleTimeout, other.MaxInFlight})
	x.Networks, x.Facilitators, x.Allow, x.Deny, x.allow, x.deny = nil, nil, nil, nil, nil, nil
	f("x402", x, y)
	f("redis.addresses", len(full.Redis.Addresses), 0)
	full.Redis.Addresses = nil
	f("redis", full.Redis, plain.Redis)
	f("idempotency", full.Idempotency, plain.Idempotency)
	f("responses", full.Responses, plain.Responses)
	f("fetch", []any{len(full.Fetch.Allow), len(full.Fetch.Deny), full.Fetch.Limit}, []any{0, 0, plain.Fetch.Limit})
	for name, bucket := range map[string]*S3{"media.s3": full.Media.S3, "usage.export_s3": full.Usage.ExportS3} {
		if bucket == nil {
			t.Fatal("full.yaml shows no bucket in " + name)
		}
		s3 := Default[S3]()
		f(name, []any{bucket.Region, *bucket.PathStyle, bucket.Redirect, bucket.Timeout},
			[]any{s3.Region, *s3.PathStyle, s3.Redirect, s3.Timeout})
	}
	full.Media.S3, full.Usage = nil, Usage{} // exports need a time
	f("media", full.Media, plain.Media)
	f("limits.key", full.Limits.Key, plain.Limits.Key)
	f("limits.failed_requests", full.Limits.FailedRequests, plain.Limits.FailedRequests)
	f("limits.unsupported_features", full.Limits.UnsupportedFeatures, plain.Limits.UnsupportedFeatures)
	f("limits.aborted_requests", full.Limits.AbortedRequests, plain.Limits.AbortedRequests)
	f("limits.wrong_keys", full.Limits.WrongKeys, plain.Limits.WrongKeys)
	f("limits.unpaid_work", full.Limits.UnpaidWork, plain.Limits.UnpaidWork)
	for name, rate := range plain.Limits.Tiers {
		f("tier "+name, full.Limits.Tiers[name], rate)
	}
	a, b := full.Upstreams[0], plain.Upstreams[0]
	f("timeouts", a.Timeouts, b.Timeouts)
	f("breaker", a.Breaker, b.Breaker)
	f("quirks", a.Quirks, b.Quirks)
	f("links", a.Links, b.Links)
	f("connections", []any{a.MaxConnections, a.MaxIdle, a.RetrySafe, a.Dialect},
		[]any{b.MaxConnections, b.MaxIdle, b.RetrySafe, b.Dialect})
	m, o := full.Models[0], plain.Models[0]
	a1, b1 := m.Spec.(*Chat), o.Spec.(*Chat)
	f("model", []any{m.Type, m.Privacy, m.Tier, a1.Tokenizer, a1.Capabilities.Quantization},
		[]any{o.Type, o.Privacy, o.Tier, b1.Tokenizer, b1.Capabilities.Quantization})
	f("completion", full.Models[1].Spec.(*Chat).MaxCompletionTokens, int64(16384))
}

// simulation has sample values of the demonstration's variables.
var simulation = map[string]string{"SIM_URL": "http://127.0.0.1:9099", "SIM_ENCLAVE": "http://127.0.0.1:9099",
	"SIM_ACCOUNT": "/account.json", "SIM_INTEL_ROOT": "/intel.pem", "SIM_NVIDIA_ROOT": "/nvidia.pem"}

// The first run must work, and must not look like the real service.
func TestDemoIsCompleteAndSaysThatItIsSimulated(t *testing.T) {
	c := Demo(simulation)
	noWarnings(t, c)
	if !c.Simulated || c.Source != "" || c.Listen != "127.0.0.1:8080" || c.Brand != "svc" ||
		c.Store != "./farebox-data" {
		t.Errorf("the head of the demo config is wrong: %+v", c)
	}
	dialects := map[string]string{}
	for _, u := range c.Upstreams {
		dialects[u.Name] = u.Dialect
		if !strings.HasPrefix(u.BaseURL, "http://127.0.0.1:9099/") {
			t.Errorf("upstream %s is at %s", u.Name, u.BaseURL)
		}
	}
	if dialects["simulated"] != "openai" || dialects["simulated-anthropic"] != "anthropic" ||
		dialects["simulated-gemini"] != "gemini" {
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
	for _, name := range []string{"sim-chat-small", "sim-chat-large", "sim-claude", "sim-gemini", "sim-responses", "sim-azure",
		"sim-bedrock", "sim-bedrock-claude", "sim-vertex", "sim-vertex-claude", "sim-failover", "sim-embed",
		"gpt-4o", "gpt-4o-mini", "text-embedding-3-small", "sim-image", "gpt-image-1", "sim-edit", "sim-upscale",
		"sim-cutout", "sim-music", "sim-music-effects", "sim-music-voice", "sim-speech", "sim-speech-clone", "tts-1"} {
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
