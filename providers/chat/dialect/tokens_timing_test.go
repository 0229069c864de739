package dialect

import (
	"strings"
	"testing"
)

func BenchmarkCountTokens(b *testing.B) {
	for name, text := range map[string]string{"prose": strings.Repeat("the small river moves past old stone houses ",
		24), "letters": strings.Repeat("qxzj", 256)} {
		b.Run(name, func(b *testing.B) {
			text := []byte(text[:pieceBytes])
			b.SetBytes(pieceBytes)
			for b.Loop() {
				CountTokens("", text)
			}
		})
	}
}
