//go:build !race

package openai

import (
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// Work for every event or every request must not allocate.
func TestHotPathsDoNotAllocate(t *testing.T) {
	f := func(name string, run func()) {
		t.Helper()
		run()
		if n := testing.AllocsPerRun(1000, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	c := chatOf(t, prompt)
	plain := targetOf(c.Model, "m", config.Quirks{})
	renamed := targetOf(c.Model, "there", config.Quirks{})
	for name, event := range map[string]string{
		"plain event": chunk(" the"),
		"null usage":  strings.Replace(chunk(" the"), "}]}", `}],"usage":null}`, 1),
		"usage":       usageChunk,
		"tool call": strings.Replace(chunk("x"), `"content":"x"`,
			`"tool_calls":[{"index":0,"function":{"arguments":"x"}}]`, 1),
		"split event":       chunk(" the")[:90],
		"event with CR LF":  strings.ReplaceAll(chunk(" the"), "\n", "\r\n"),
		"comment":           ": keep-alive\n\n",
		"event without one": "data: {\"choices\":[]}\n\n",
	} {
		for _, target := range []*dialect.Target{plain, renamed} {
			s := Dialect{}.Stream(c, target)
			data := []byte(event)
			rest := []byte(chunk(" the")[90:])
			f(name, func() {
				s.Pass(data)
				if name == "split event" {
					s.Pass(rest)
				}
			})
			s.Release()
		}
	}
	sealed := sealedChat(t)
	for name, event := range map[string]string{
		"sealed event":           sealedDelta(`"content":"` + sealedText(5) + `"`),
		"sealed thought":         sealedDelta(`"reasoning":"` + sealedText(5) + `"`),
		"sealed event, its end":  choice(`"delta":{},"finish_reason":"stop"`),
		"sealed event, its role": sealedDelta(`"role":"assistant","content":""`),
		"usage of sealed events": usageChunk,
	} {
		s := Dialect{}.Stream(sealed, plain)
		data := []byte(event)
		f(name, func() { s.Pass(data) })
		f(name+", split", func() {
			s.Pass(data[:90])
			s.Pass(data[90:])
		})
		if s.(*stream).Betrayed() {
			t.Errorf("%s: it is not sealed", name)
		}
		s.Release()
	}
	first := []byte(roleChunk)
	f("answer's beginning and end", func() {
		s := Dialect{}.Stream(c, plain)
		s.Pass(first)
		s.Release()
	})
	var s dialect.Scratch
	body := []byte(answer("the small", `,"usage":`+plainUsage))
	f("answer", func() {
		if _, _, err := (Dialect{}).Answer(body, c, plain, &s); err != nil {
			t.Fatal(err)
		}
	})
	f("renamed answer", func() { _, _, _ = Dialect{}.Answer(body, c, renamed, &s) })
	var r proxy.Request
	patched := chatOf(t, `{"user":"u","model":"x","messages":[],"stream":true,"max_tokens":3,"reasoning":{"effort":"low"},"svc_parameters":{}}`)
	f("patched request", func() { _ = Dialect{}.Request(&r, patched, plain, &s) })
	if len(r.Patches) == 0 {
		t.Error("nothing was patched")
	}
	plain.Upstream.Config.Drop = append(testDrops, config.DropCacheTTL)
	plain.Upstream.SetDrops(testShape)
	costly := chatOf(t, `{"best_of":2,"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}]}],"service_tier":"flex"}`)
	f("request with members that are dropped", func() { _ = Dialect{}.Request(&r, costly, plain, &s) })
	if len(r.Patches) != 3 {
		t.Errorf("%d patches", len(r.Patches))
	}
	untouched := chatOf(t, `{"model":"m","messages":[]}`)
	f("untouched request", func() { _ = Dialect{}.Request(&r, untouched, plain, &s) })
	if len(r.Patches) != 0 {
		t.Errorf("an untouched request has patches: %+v", r.Patches)
	}
}

// An open stream needs little memory.
func TestStreamsAreSmall(t *testing.T) {
	c := chatOf(t, prompt)
	target := targetOf(c.Model, "m", config.Quirks{})
	const n = 1000
	streams := make([]dialect.Stream, n)
	event := []byte(roleChunk + strings.Repeat(chunk(" the"), 20))
	per := heapPer(n, func(i int) {
		streams[i] = Dialect{}.Stream(c, target)
		streams[i].Pass(event)
	})
	if per > 2<<10 {
		t.Errorf("%d bytes a stream", per)
	}
	for _, s := range streams {
		s.Release()
	}
}
