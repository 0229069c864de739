package messages

import (
	"testing"

	"farebox/providers/chat/dialect"
)

func benchmark(b *testing.B, delta string) {
	_, c := asked(b, with(`"stream":true`))
	begin, data := []byte(chunks(`"role":"assistant","content":""`, delta)), []byte(chunks(delta))
	s := dialect.OpenForm(c)
	s.Pass(begin)
	b.ReportAllocs()
	for b.Loop() {
		s.Pass(data)
	}
}

func BenchmarkTextEvent(b *testing.B) { benchmark(b, `"content":" the"`) }

func BenchmarkThinkingEvent(b *testing.B) { benchmark(b, `"reasoning_content":" the"`) }

func BenchmarkRead(b *testing.B) {
	body := []byte(hello)
	b.ReportAllocs()
	for b.Loop() {
		_, _, _ = read(b, string(body))
	}
}
