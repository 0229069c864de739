package providers

import (
	"testing"
	"time"
)

const namesText = upstreamsText + `
models:
  - { id: chat, context_tokens: 1000, price: free, aliases: [gpt-4o, "x/y:z"], traits: [default, fastest], targets: [{ upstream: a }] }
  - { id: "v/chat-2:free", context_tokens: 1000, price: free, targets: [{ upstream: a }] }
  - { id: old, context_tokens: 1000, price: { input: 5, output: 5 }, aliases: [gpt-3], traits: [default_code], targets: [{ upstream: a }],
      deprecation: { date: 2026-11-01, removes_at: 2026-11-21T12:00:00Z, replacement: chat, auto_remap: true } }
  - { id: older, context_tokens: 1000, price: free, aliases: [gpt-2], traits: [default_vision], targets: [{ upstream: a }],
      deprecation: { date: 2026-11-01, removes_at: 2026-11-21T12:00:00Z } }
  - { id: vec, type: embedding, price: { input: 1 }, aliases: [ada], traits: [default], targets: [{ upstream: a }] }
`

func TestNamesLeadToModels(t *testing.T) {
	c := catalogOf(t, namesText, nil, today.Add(-time.Second))
	f := func(name, typ, want string, match Match) {
		t.Helper()
		m, got := c.Resolve([]byte(name), typ)
		id := ""
		if m != nil {
			id = m.ID
		}
		if id != want || got != match {
			t.Errorf("%s as %s: %q by %d, want %q by %d", name, typ, id, got, want, match)
		}
	}
	f("chat", "text", "chat", Exact)
	f("gpt-4o", "text", "chat", Alias)
	f("x/y:z", "text", "chat", Alias)
	f("default", "text", "chat", Trait)
	f("default", "embedding", "vec", Trait)
	f("ada", "embedding", "vec", Alias)
	f("v/chat-2:free", "text", "v/chat-2:free", Exact)
	f("Chat", "text", "", NotFound)
	f("", "text", "", NotFound)
	f("vec", "text", "", OtherType)
	f("chat", "embedding", "", OtherType)
	f("old", "text", "old", Exact)
	f("older", "text", "older", Exact)

	c.clock = func() time.Time { return today } // the moment they go
	f("old", "text", "chat", Remapped)
	f("gpt-3", "text", "chat", Remapped)
	f("default_code", "text", "chat", Remapped)
	f("older", "text", "", Gone)
	f("gpt-2", "text", "", Gone)
	f("default_vision", "text", "", Gone)
}

func TestSuffixIsCutAtTheFirstColonWithAKey(t *testing.T) {
	f := func(in, name, suffix string) {
		t.Helper()
		n, s := SplitSuffix([]byte(in))
		if string(n) != name || string(s) != suffix || (suffix == "") != (s == nil) {
			t.Errorf("%s: %q and %q", in, n, s)
		}
	}
	f("m", "m", "")
	f("model-x:enable_web_search=on&enable_web_citations=true", "model-x",
		"enable_web_search=on&enable_web_citations=true")
	f("v/m:free", "v/m:free", "")
	f("v/m:free:strip_thinking_response=true", "v/m:free", "strip_thinking_response=true")
	f("a:b:c=:d=1", "a:b", "c=:d=1")
	f("m:", "m:", "")
	f("m:=x", "m:=x", "")
	f("m:a b=c", "m:a b=c", "")
	f(":x=1", "", "x=1")
	f("", "", "")
}

// A reload must not forget that an upstream is down, and must not drop its
// connections.
func TestReloadKeepsWhatDidNotChange(t *testing.T) {
	one := catalogOf(t, namesText, nil, today)
	target := one.names["chat"].Targets[0]
	for range 5 {
		target.Breaker.Failed(today.UnixNano(), 0)
	}
	two := catalogOf(t, namesText+`
  - { id: more, context_tokens: 1000, price: free, targets: [{ upstream: a, model: chat, weight: 3 }] }
`, one, today)
	kept := two.names["chat"].Targets[0]
	if kept.Upstream.Proxy != target.Upstream.Proxy || kept.Breaker != target.Breaker {
		t.Error("an unchanged target was made anew")
	}
	if more := two.names["more"].Targets[0]; more.Breaker != target.Breaker {
		t.Error("two models of one target have two healths")
	}
	one.Close(two)
	three := catalogOf(t, `
upstreams:
  - { name: a, base_url: "http://127.0.0.1:1/v1", key: other, breaker: { failures: 9 } }
models:
  - { id: chat, context_tokens: 1000, price: free, targets: [{ upstream: a }] }
`, two, today)
	fresh := three.names["chat"].Targets[0]
	if fresh.Upstream.Proxy == target.Upstream.Proxy || fresh.Breaker == target.Breaker {
		t.Error("a changed target kept its old connections or health")
	}
	four := catalogOf(t, `
upstreams:
  - { name: a, base_url: "http://127.0.0.1:1/v1", key: other, breaker: { failures: 3 }, quirks: { max_tokens: true } }
models:
  - { id: chat, context_tokens: 1000, price: free, targets: [{ upstream: a }] }
`, three, today)
	if next := four.names["chat"].Targets[0]; next.Upstream.Proxy != fresh.Upstream.Proxy ||
		next.Breaker == fresh.Breaker || !next.Upstream.Config.Quirks.MaxTokens {
		t.Error("settings that do not concern connections must not cost them")
	}
	two.Close(three)
	three.Close(four)
}

func TestHeadersCarryTheKeyWhereTheDialectWantsIt(t *testing.T) {
	c := catalogOf(t, `
upstreams:
  - { name: a, base_url: "http://127.0.0.1:1/v1", key: k1 }
  - { name: b, base_url: "http://127.0.0.1:1/v1", key: k2, dialect: anthropic }
  - { name: c, base_url: "http://127.0.0.1:1/v1", key: k3, quirks: { api_key_header: api-key }, headers: { X-Team: t } }
  - { name: d, base_url: "http://127.0.0.1:1/v1", dialect: anthropic, headers: { Anthropic-Version: "2099-01-01" } }
models:
  - { id: chat, context_tokens: 1000, price: free, targets: [{ upstream: a }, { upstream: b }, { upstream: c }, { upstream: d }] }
`, nil, today)
	f := func(name string, want ...[2]string) {
		t.Helper()
		got := c.upstreams[name].options.Headers
		if len(got) != len(want) {
			t.Fatalf("%s: %v", name, got)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", name, got[i], want[i])
			}
		}
	}
	f("a", [2]string{"Authorization", "Bearer k1"})
	f("b", [2]string{"x-api-key", "k2"}, [2]string{"anthropic-version", "2023-06-01"})
	f("c", [2]string{"api-key", "k3"}, [2]string{"X-Team", "t"})
	f("d", [2]string{"Anthropic-Version", "2099-01-01"})
}

func TestDeprecatedModelsLeaveTheLists(t *testing.T) {
	c := catalogOf(t, namesText, nil, today.Add(-time.Hour))
	ids := func(typ string, now time.Time) string {
		body, ok := c.List(typ, now)
		if !ok {
			t.Fatalf("there is no type %s", typ)
		}
		text := ""
		for _, m := range listed(t, body) {
			text += m + " "
		}
		return text
	}
	if got := ids("text", today.Add(-time.Second)); got != "chat v/chat-2:free old older " {
		t.Errorf("before: %s", got)
	}
	if got := ids("all", today); got != "chat v/chat-2:free vec " {
		t.Errorf("after: %s", got)
	}
	c.clock = func() time.Time { return today }
	if body, _ := c.Traits("text"); string(
		body) != `{"object":"list","type":"text","data":{"default":"chat","fastest":"chat","default_code":"chat"}}` {
		t.Errorf("traits: %s", body)
	}
	if body, _ := c.Compatibility("text"); string(
		body) != `{"object":"list","type":"text","data":{"gpt-4o":"chat","x/y:z":"chat","gpt-3":"chat"}}` {
		t.Errorf("aliases: %s", body)
	}
	if body, _ := c.Traits("embedding"); string(
		body) != `{"object":"list","type":"embedding","data":{"default":"vec"}}` {
		t.Errorf("traits: %s", body)
	}
	for _, typ := range []string{"asr", "image", "music", "tts", "upscale", "inpaint", "video", "code"} {
		if got := ids(typ, today); got != "" {
			t.Errorf("%s lists %s", typ, got)
		}
	}
	if _, ok := c.List("audio", today); ok {
		t.Error("there is no type audio")
	}
}
