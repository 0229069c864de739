package openai

import (
	"bytes"
	"encoding/json"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
)

type change func(c *dialect.Chat, t *dialect.Target)

func TestRequestsChangeOnlyRequiredMembers(t *testing.T) {
	f := func(name, in, want string, changes ...change) {
		t.Helper()
		c := chatOf(t, in)
		target := targetOf(c.Model, "m", config.Quirks{})
		for _, ch := range changes {
			ch(c, target)
		}
		if got := sent(t, c, target); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
	quirks := func(q config.Quirks) change {
		return func(_ *dialect.Chat, t *dialect.Target) { t.Upstream.Config.Quirks = q }
	}
	named := func(name string) change {
		return func(c *dialect.Chat, t *dialect.Target) { *t = *targetOf(c.Model, name, t.Upstream.Config.Quirks) }
	}
	most := func(asked, n int64) change {
		return func(c *dialect.Chat, _ *dialect.Target) { c.AskedCompletion, c.MaxCompletion = asked, n }
	}
	same := func(name, body string, changes ...change) { t.Helper(); f(name, body, body, changes...) }

	drops := func(names ...string) change {
		return func(_ *dialect.Chat, t *dialect.Target) {
			t.Upstream.Config.Drop = names
			t.Upstream.SetDrops(testShape)
		}
	}
	f("members that cost the operator", `{"service_tier":"priority","model":"m","x":1,"best_of":3,"dataSources":[{}]}`,
		`{"model":"m","x":1}`, drops("best_of", "dataSources", "service_tier", "not_there"))
	same("members that this operator lets pass", `{"service_tier":"priority","model":"m"}`, drops())
	same("none of them", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]}`, drops("best_of", config.DropCacheTTL))
	f("a life in the cache that costs double",
		`{"model":"m","cache_control":{"ttl":"1h"},"messages":[{"role":"user","cache_control":{"ttl":"1h","type":"ephemeral"},"content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral" , "ttl":"1h"}}]}],"tools":[{"type":"function","cache_control":{"type":"ephemeral","ttl":"5m"}}]}`,
		`{"model":"m","cache_control":{},"messages":[{"role":"user","cache_control":{"type":"ephemeral"},"content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral" }}]}],"tools":[{"type":"function","cache_control":{"type":"ephemeral"}}]}`, drops(config.DropCacheTTL))
	f("a life in a member that goes as a whole", `{"cache_control":{"ttl":"1h"},"model":"m"}`, `{"model":"m"}`,
		drops("cache_control", config.DropCacheTTL))
	same("a life that this operator lets pass", `{"model":"m","cache_control":{"ttl":"1h"}}`, drops("best_of"))

	same("nothing to change", `{"model":"m","messages":[]}`)
	same("unknown members and odd spacing",
		"{ \"x\" : [1e5, {\"model\":\"n\"}],\n\t\"model\":\"m\" , "+
			"\"messages\":[{\"role\":\"developer\",\"content\":\"\\u0041\"}] , \"min_p\":0.10, \"user_id\":\"u\"}\n")
	same("stream with usage asked for", `{"model":"m","stream":true,"stream_options":{"x":1,"include_usage":true}}`)
	same("stream_options without a stream", `{"model":"m","stream":false,"stream_options":null}`)
	same("its own cap", `{"model":"m","max_completion_tokens":50}`, most(50, 50))
	same("its own cap, written otherwise", `{"model":"m","max_completion_tokens":5e1}`, most(50, 50))
	same("its own effort", `{"model":"m","reasoning_effort":"low"}`)
	same("reasoning without an effort", `{"model":"m","reasoning":{"enabled":true}}`)

	f("another name there", `{"model":"m","messages":[]}`, `{"model":"vendor/\"x\"","messages":[]}`,
		named(`vendor/"x"`))
	f("a suffix", `{"model":"m:enable_web_search=on","messages":[]}`, `{"model":"m","messages":[]}`)
	f("an escaped name", `{"model":"\u006d","messages":[]}`, `{"model":"m","messages":[]}`)
	f("user, first", `{"user":"u","model":"m"}`, `{"model":"m"}`)
	f("user, last", `{"model":"m" , "user":"u" }`, `{"model":"m"  }`)
	f("user and brands around", `{"user":"u","svc_parameters":{"a":1},"model":"m","x":1,"other_parameters":{},"y":2}`,
		`{"model":"m","x":1,"y":2}`)
	f("everything but the model", `{"user":"u","model":"m","svc_parameters":{}}`, `{"model":"m"}`)

	f("stream", `{"model":"m","stream":true}`, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`)
	f("stream, user first", `{"user":"u","model":"m","stream":true}`,
		`{"stream_options":{"include_usage":true},"model":"m","stream":true}`)
	f("usage not asked for", `{"model":"m","stream":true,"stream_options":{"include_usage":false,"x":1}}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":true,"x":1}}`)
	f("usage null", `{"model":"m","stream":true,"stream_options":{"include_usage":null}}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`)
	f("options without it", `{"model":"m","stream":true,"stream_options":{ "x":1}}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":true, "x":1}}`)
	f("empty options", `{"model":"m","stream":true,"stream_options":{ }}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":true }}`)
	f("null options", `{"model":"m","stream":true,"stream_options":null}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`)
	noOptions := quirks(config.Quirks{NoStreamOptions: true})
	f("options refused there", `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"m","stream":true}`, noOptions)
	same("options refused there, none given", `{"model":"m","stream":true}`, noOptions)

	old := quirks(config.Quirks{MaxTokens: true})
	f("a lower cap", `{"model":"m","max_completion_tokens":50}`, `{"model":"m","max_completion_tokens":20}`,
		most(50, 20))
	f("a cap of ours", `{"model":"m"}`, `{"max_completion_tokens":20,"model":"m"}`, most(0, 20))
	f("a null cap", `{"model":"m","max_completion_tokens":null}`, `{"model":"m","max_completion_tokens":20}`,
		most(0, 20))
	f("old name there", `{"model":"m","max_completion_tokens":50}`, `{"model":"m","max_tokens":50}`, old, most(50, 0))
	f("old name there, a lower cap", `{"model":"m","max_completion_tokens" : 50}`, `{"model":"m","max_tokens" : 20}`,
		old, most(50, 20))
	f("old name there, a cap of ours", `{"model":"m"}`, `{"max_tokens":20,"model":"m"}`, old, most(0, 20))
	f("old name here", `{"model":"m","max_tokens":50}`, `{"model":"m","max_completion_tokens":50}`, most(50, 50))
	f("old name here, a lower cap", `{"model":"m","max_tokens":50}`, `{"model":"m","max_completion_tokens":20}`,
		most(50, 20))
	same("old name on both sides", `{"model":"m","max_tokens":50}`, old, most(50, 50))
	f("both names", `{"model":"m","max_tokens":70,"max_completion_tokens":50}`,
		`{"model":"m","max_completion_tokens":50}`, most(50, 0))
	f("both names, old one there", `{"max_tokens":70,"max_completion_tokens":50,"model":"m"}`,
		`{"max_tokens":50,"model":"m"}`, old, most(50, 50))
	f("an old name that asks for nothing", `{"model":"m","max_tokens":0}`, `{"model":"m"}`)
	f("an old name beside null", `{"model":"m","max_completion_tokens":null,"max_tokens":50}`,
		`{"model":"m","max_completion_tokens":50}`, most(50, 50))

	none := func(c *dialect.Chat, _ *dialect.Target) { c.ReasoningEffort = []byte("none") }
	noEffort := quirks(config.Quirks{NoReasoningEffort: true})
	f("effort in the object", `{"model":"m","reasoning":{"effort":"high","summary":"auto"}}`,
		`{"reasoning_effort":"high","model":"m"}`)
	f("effort in both", `{"model":"m","reasoning":{"effort":"high"},"reasoning_effort":"low"}`,
		`{"model":"m","reasoning_effort":"low"}`)
	f("effort in the object, and more", `{"model":"m","reasoning":{"effort":"high","max_tokens":9}}`,
		`{"reasoning_effort":"high","model":"m","reasoning":{"max_tokens":9}}`)
	f("null effort beside the object", `{"model":"m","reasoning_effort":null,"reasoning":{"effort":"high"}}`,
		`{"reasoning_effort":"high","model":"m"}`)
	f("thinking turned off", `{"model":"m"}`, `{"reasoning_effort":"none","model":"m"}`, none)
	f("thinking turned off against the body", `{"model":"m","reasoning_effort":"low","reasoning":{"effort":"high"}}`,
		`{"model":"m","reasoning_effort":"none"}`, none)
	f("effort refused there", `{"model":"m","reasoning_effort":"low"}`, `{"model":"m"}`, noEffort)
	f("effort object refused there", `{"reasoning":{"effort":"low"},"model":"m"}`, `{"model":"m"}`, noEffort)

	system := func(c *dialect.Chat, _ *dialect.Target) { c.SystemPrompt = []byte("Be \"good\".\n") }
	f("a system prompt", `{"model":"m","messages":[ {"role":"user","content":"x"}]}`,
		`{"model":"m","messages":[{"role":"system","content":"Be \"good\".\n"}, {"role":"user","content":"x"}]}`,
		system)
	f("no developer there", `{"model":"m","messages":[{"role":"developer","content":"x"},{"content":"developer","role":"user"},{"role": "developer"}]}`,
		`{"model":"m","messages":[{"role":"system","content":"x"},{"content":"developer","role":"user"},{"role": "system"}]}`, quirks(config.Quirks{NoDeveloperRole: true}))
	f("all at once", `{"user":"u","model":"a:strip_thinking_response=true","stream":true,"messages":[{"role":"developer","content":"x"}],"max_tokens":5,"svc_parameters":{}}`,
		`{"stream_options":{"include_usage":true},"model":"there","stream":true,"messages":[{"role":"system","content":"Be \"good\".\n"},{"role":"system","content":"x"}],"max_completion_tokens":4}`,
		named("there"), system, most(5, 4), func(_ *dialect.Chat, t *dialect.Target) {
			t.Upstream.Config.Quirks.NoDeveloperRole = true
		})
}

func TestEmbeddingsGoOutAsTheyCame(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		c := embedOf(t, in)
		if got := sent(t, c, targetOf(c.Model, "m", config.Quirks{MaxTokens: true, NoStreamOptions: true})); got !=
			want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(`{"input":["a"] ,"model":"m"}`, `{"input":["a"] ,"model":"m"}`)
	f(`{"input":["a"],"user":"u","model":"ada"}`, `{"input":["a"],"model":"m"}`)
}

// Whatever a body looks like, the upstream gets JSON, and members that need no change
// keep their bytes.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`,
		`{"user":"u","model":"m","reasoning":{"effort":"low","x":1},"max_tokens":3,"svc_parameters":{}}`,
		`{ "stream_options":{}, "max_completion_tokens":null, "max_tokens":7,"model":"m" ,"user":null }`,
		`{"reasoning_effort":null,"reasoning":{"summary":"auto","effort":"high"},"model":"m","other_parameters":1}`,
	} {
		f.Add([]byte(s), uint8(0), int64(0))
		f.Add([]byte(s), uint8(255), int64(9))
	}
	f.Fuzz(func(t *testing.T, body []byte, flags uint8, cap int64) {
		if !json.Valid(body) {
			return
		}
		c := &dialect.Chat{Body: body, Doc: newDoc(), Model: modelOf("m"), Choices: 1}
		if c.Doc.Skim(body, testShape) != nil || c.Doc.TopIndex(dialect.TopModel) < 0 {
			return
		}
		c.Stream, c.MaxCompletion = flags&1 == 1, max(cap, 0)
		if flags&2 == 2 {
			c.ReasoningEffort = []byte("none")
		}
		if flags&4 == 4 {
			c.SystemPrompt = []byte("be good")
		}
		target := targetOf(c.Model, "there", config.Quirks{MaxTokens: flags&8 == 8, NoStreamOptions: flags&16 == 16,
			NoReasoningEffort: flags&32 == 32, NoDeveloperRole: flags&64 == 64})
		out := sent(t, c, target)
		var before, after map[string]json.RawMessage
		if json.Unmarshal(body, &before) != nil || json.Unmarshal([]byte(out), &after) != nil {
			t.Fatalf("%s became %s", body, out)
		}
		if string(after["model"]) != `"there"` {
			t.Fatalf("the model is %s", after["model"])
		}
		for name := range after {
			switch name {
			case "model", "stream_options", "max_tokens", "max_completion_tokens", "reasoning", "reasoning_effort",
				"messages":
				continue
			}
			if !bytes.Equal(before[name], after[name]) {
				t.Fatalf("%s changed from %s to %s", name, before[name], after[name])
			}
		}
		for name := range before {
			if _, ok := after[name]; !ok && !removable(name) {
				t.Fatalf("%s is gone", name)
			}
		}
		for _, name := range []string{"user", "svc_parameters", "other_parameters"} {
			if _, ok := after[name]; ok {
				t.Fatalf("%s went out", name)
			}
		}
	})
}

func removable(name string) bool {
	switch name {
	case "user", "svc_parameters", "other_parameters", "stream_options", "max_tokens", "max_completion_tokens",
		"reasoning", "reasoning_effort":
		return true
	}
	return false
}
