package scan

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// chatBody is a chat request of about size bytes whose text holds an escaped
// quote every 30 bytes, as code and JSON in prompts do.
func chatBody(size int) []byte {
	text := strings.Repeat(`some text with a \" quote in it  `, size/33+1)[:size]
	text = strings.TrimRight(text, `\`)
	return []byte(`{"model":"gpt-4o-mini","messages":[{"role":"system","content":"You are terse."},{"role":"user","content":"` + text +
		`"}],"temperature":0.7,"top_p":1,"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":256,"user":"u-123","metadata":{"a":"b"}}`)
}

func BenchmarkSkim(b *testing.B) {
	image := append([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`), bytes.Repeat([]byte("iVBORw0K"), 1<<17)...)
	image = append(image, `"}}]}],"stream":true}`...)
	var messages bytes.Buffer
	messages.WriteString(`{"model":"m","messages":[`)
	for i := range 400 {
		if i > 0 {
			messages.WriteByte(',')
		}
		fmt.Fprintf(&messages, `{"role":"user","content":[{"type":"text","text":"short \"message\" number %d"}]}`, i)
	}
	messages.WriteString(`]}`)
	for name, body := range map[string][]byte{
		"1KB": chatBody(900), "32KB": chatBody(32 << 10), "1MB": chatBody(1 << 20), "image1MB": image,
		"messages30KB": messages.Bytes(),
		"numbers":      []byte(`{"input":[` + strings.Repeat("1234,", 8000) + `1]}`),
	} {
		b.Run(name, func(b *testing.B) {
			var d Document
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Skim(body, chatShape); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/strict", func(b *testing.B) {
			var d Document
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.SkimStrict(body, chatShape); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
