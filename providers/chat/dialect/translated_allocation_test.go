//go:build !race

package dialect_test

import (
	"testing"

	"farebox/providers/chat/anthropic"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/gemini"
)

// translatedEvent is the beginning of a dialect's stream and an event of it, which may come any
// number of times.
type translatedEvent struct {
	name         string
	of           dialect.Dialect
	begin, event string
}

const geminiBegins = `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]}}],"responseId":"r"}` + "\n\n"

var translatedEvents = []translatedEvent{
	{
		"Anthropic's text", anthropic.Dialect{},
		claudeBegins + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" the"}}` + "\n\n",
	},
	{
		"Anthropic's thought", anthropic.Dialect{},
		claudeBegins + `data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}` + "\n\n",
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" the"}}` + "\n\n",
	},
	{
		"Anthropic's arguments", anthropic.Dialect{},
		claudeBegins + `data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"look","input":{}}}` + "\n\n",
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":" 1"}}` + "\n\n",
	},
	{
		"Gemini's text", gemini.Dialect{}, geminiBegins,
		`data: {"candidates":[{"content":{"role":"model","parts":[{"text":" the"}]}}],"responseId":"r"}` + "\n\n",
	},
}

var clientForms = []string{"chat", "messages", "responses"}

// openPair begins a stream of an upstream's dialect for a client of a form.
func openPair(t testing.TB, of dialect.Dialect, form string) (pass func(events string) []byte, release func()) {
	c := asked(t, form, &answer{})
	if c.Cap = 0; c.Form != nil {
		c.Client = dialect.OpenForm(c)
	}
	s := of.Stream(c, targetOf(c))
	buf := make([]byte, 0, 1<<10)
	pass = func(events string) []byte {
		out := s.Pass(append(buf, events...))
		if c.Client != nil {
			out = c.Client.Pass(out)
		}
		return out
	}
	return pass, func() {
		s.Release()
		if c.Client != nil {
			c.Client.Release()
		}
	}
}

// An event of a translated stream must not allocate, in whatever form the client has it.
func TestTranslatedEventsDoNotAllocate(t *testing.T) {
	for _, e := range translatedEvents {
		for _, form := range clientForms {
			pass, release := openPair(t, e.of, form)
			pass(e.begin)
			if len(pass(e.event)) == 0 && e.name != "Anthropic's thought" {
				t.Errorf("%s in %s: nothing is written", e.name, form)
			}
			// The kept text of an answer grows now and then.
			if n := testing.AllocsPerRun(1000, func() { pass(e.event) }); n != 0 {
				t.Errorf("%s in %s: %v allocations", e.name, form, n)
			}
			release()
		}
	}
}

func BenchmarkTranslatedEvent(b *testing.B) {
	for _, e := range translatedEvents {
		for _, form := range clientForms {
			b.Run(e.name+" in "+form, func(b *testing.B) {
				pass, release := openPair(b, e.of, form)
				pass(e.begin)
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					if n%1000 == 999 { // as many events as answers have
						release()
						pass, release = openPair(b, e.of, form)
						pass(e.begin)
					}
					pass(e.event)
				}
				release()
			})
		}
	}
}
