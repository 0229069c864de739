//go:build !race

package scan

import "testing"

func TestSkimAllocatesNothing(t *testing.T) {
	var d Document
	body := chatBody(32 << 10)
	odd := []byte(`{"É":1,"caf\u00e9":2,"Kind":3,` + string(body[1:]))
	for _, b := range [][]byte{body, odd} {
		if err := d.Skim(b, chatShape); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { _ = d.Skim(b, chatShape) }); n != 0 {
			t.Errorf("Skim allocates %v times", n)
		}
	}
	spans := make([]Span, 0, 4)
	cut := []int32{d.TopIndex(chatModel), d.TopIndex(chatStream)}
	if n := testing.AllocsPerRun(100, func() { _ = d.AppendCuts(spans, body, cut[0]) }); n != 0 {
		t.Errorf("AppendCuts allocates %v times", n)
	}
}
