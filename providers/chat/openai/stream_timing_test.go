package openai

import (
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// feed passes one read of n events over and over, starting a new answer after
// as many events as answers have.
func feed(b *testing.B, events int, read string, setup func(*dialect.Chat) *dialect.Target) {
	c := chatOf(b, prompt)
	target := setup(c)
	data := []byte(read)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	const eventsPerAnswer = 300
	s := Dialect{}.Stream(c, target)
	n := 0
	for b.Loop() {
		if n += events; n > eventsPerAnswer {
			n = 0
			s.Release()
			s = Dialect{}.Stream(c, target)
		}
		s.Pass(data)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
}

func plainTarget(c *dialect.Chat) *dialect.Target { return targetOf(c.Model, "m", config.Quirks{}) }

func BenchmarkPlainEvent(b *testing.B) { feed(b, 1, chunk(" the"), plainTarget) }

func sealedTarget(c *dialect.Chat) *dialect.Target {
	c.Verbatim, c.Sealed = true, true
	return plainTarget(c)
}

func BenchmarkSealedEvent(b *testing.B) { feed(b, 1, chunk(sealedText(4)), sealedTarget) }

// BenchmarkLongPlainEvent is an event of the length of a sealed one.
func BenchmarkLongPlainEvent(b *testing.B) { feed(b, 1, chunk(sealedText(4)), plainTarget) }

func BenchmarkSealedEventReadInFull(b *testing.B) {
	feed(b, 1, strings.Replace(chunk(sealedText(4)), `"content"`, `"refusal":null,"content"`, 1), sealedTarget)
}

func BenchmarkPlainEventsInOneRead(b *testing.B) {
	feed(b, 16, strings.Repeat(chunk(" the"), 16), plainTarget)
}

func BenchmarkEventWithNullUsage(b *testing.B) {
	feed(b, 1, strings.Replace(chunk(" the"), "}]}", `}],"usage":null}`, 1), plainTarget)
}

func BenchmarkEventWithUsage(b *testing.B) { feed(b, 1, usageChunk, plainTarget) }

func BenchmarkEventWithCRLF(b *testing.B) {
	feed(b, 1, strings.ReplaceAll(chunk(" the"), "\n", "\r\n"), plainTarget)
}

func BenchmarkEventWithToolCall(b *testing.B) {
	feed(b, 1, strings.Replace(chunk(" the"), `"content":" the"`,
		`"tool_calls":[{"index":0,"function":{"arguments":" the"}}]`, 1), plainTarget)
}

func BenchmarkRenamedEvent(b *testing.B) {
	feed(b, 1, chunk(" the"), func(c *dialect.Chat) *dialect.Target {
		c.Model = modelOf("other")
		return targetOf(c.Model, "m", config.Quirks{})
	})
}

func BenchmarkStrippedEvent(b *testing.B) {
	feed(b, 1, chunk(" the"), func(c *dialect.Chat) *dialect.Target {
		c.DropThinking = true
		return plainTarget(c)
	})
}

func BenchmarkAnswer1KB(b *testing.B) {
	c := chatOf(b, prompt)
	target := plainTarget(c)
	body := []byte(answer(strings.Repeat("the small ", 60), `,"usage":`+plainUsage))
	var s dialect.Scratch
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := (Dialect{}).Answer(body, c, target, &s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLargeAnswer(b *testing.B) {
	c := chatOf(b, prompt)
	m := NewBodyMeter(c, plainTarget(c))
	m.Pass([]byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"`))
	block := []byte(strings.Repeat(" the", 1024))
	b.SetBytes(int64(len(block)))
	b.ReportAllocs()
	for b.Loop() {
		m.Pass(block)
	}
}

func BenchmarkRequest(b *testing.B) {
	f := func(name, body string, setup func(*dialect.Chat) *dialect.Target) {
		b.Run(name, func(b *testing.B) {
			c := chatOf(b, body)
			target := setup(c)
			var r proxy.Request
			var s dialect.Scratch
			b.ReportAllocs()
			for b.Loop() {
				if err := (Dialect{}).Request(&r, c, target, &s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	f("untouched", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, plainTarget)
	f("stream", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"user":"u","svc_parameters":{}}`, plainTarget)
}
