//go:build !race

package responses

import (
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
)

// Work for every event must not allocate, nor the beginning and the end of an answer when
// its memory is there.
func TestEventsDoNotAllocate(t *testing.T) {
	f := formOf(t, sdk, request)
	c := chatOf(t, f)
	gate := func(name string, run func()) {
		t.Helper()
		run()
		if n := testing.AllocsPerRun(200, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	for name, chunk := range map[string]string{
		"text":           delta(`"content":" the"`),
		"thought":        delta(`"reasoning_content":" the"`),
		"odd text":       delta(`"content":" the","x":1`),
		"arguments":      delta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"x"}}]`),
		"usage":          usageChunk,
		"comment":        ": keep-alive\n\n",
		"nothing at all": "data: {\"choices\":[]}\n\n",
	} {
		s := dialect.OpenForm(c)
		data := []byte(chunk)
		for range 600 {
			s.Pass(data) // its room grows with the answer
		}
		if it := s.FormWriter.(*stream); len(it.items) > 0 {
			it.items[0].text = append(make([]byte, 0, 64<<10), it.items[0].text...)
		}
		gate(name, func() { s.Pass(data) })
		s.Release()
	}
	split, rest := []byte(delta(`"content":" the"`)[:90]), []byte(delta(`"content":" the"`)[90:])
	s := dialect.OpenForm(c)
	for range 600 {
		s.Pass(split)
		s.Pass(rest)
	}
	gate("split text", func() { s.Pass(split); s.Pass(rest) })
	s.Release()
	first, last := []byte(delta(`"role":"assistant","content":"a"`)), []byte(finish("stop")+usageChunk+done)
	gate("an answer", func() {
		s := dialect.OpenForm(c)
		s.Pass(first)
		s.Pass(last)
		s.Finish()
		s.Release()
	})
	kept := 0
	f.KeepItems(keeperFunc(func([]byte, []byte) { kept++ }))
	gate("an answer whose items are kept", func() {
		f.kept = 0
		s := dialect.OpenForm(c)
		s.Pass(first)
		s.Pass(last)
		s.Finish()
		s.Release()
	})
	if kept < 200 {
		t.Errorf("%d items were kept", kept)
	}
	rich := formOf(t, sdk, richRequest)
	gate("a request", func() {
		again := NewForm(sdk, rich.body, rich.doc, rich.id, 1)
		again.Request()
		again.Release()
	})
	upstreams := nativeOf(t, `{"model":"m","input":"Hi","stream":true}`)
	target := targetOf(upstreams, "m")
	for name, event := range map[string]string{
		"passed through":                  nativeText,
		"passed through in another order": strings.Replace(nativeText, `"sequence_number":12,`, "", 1),
	} {
		s := Native{}.Stream(upstreams, target)
		data := []byte(event)
		s.Pass([]byte(nativeBegin))
		it := &s.(*nativeStream).outline.items[0]
		it.text = make([]byte, 0, 64<<10) // its room grows with the answer
		for range 3000 {
			s.Pass(data)
		}
		gate(name, func() { s.Pass(data) })
		if n := len(it.text); n < 3000*len(" the") {
			t.Errorf("%s: %d bytes are known of the item", name, n)
		}
		s.Release()
	}
	begin, text := []byte(nativeBegin), []byte(nativeText)
	gate("an answer that is passed through", func() {
		s := Native{}.Stream(upstreams, target)
		s.Pass(begin)
		for range 300 {
			s.Pass(text)
		}
		s.Finish(true)
		s.Release()
	})
}
