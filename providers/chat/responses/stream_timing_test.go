package responses

import (
	"testing"

	"farebox/providers/chat/dialect"
)

// feed passes one chunk over and over, starting a new answer after as many chunks as
// answers have.
func feed(b *testing.B, chunk string) {
	f := formOf(b, sdk, request)
	c := chatOf(b, f)
	data := []byte(chunk)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	const chunksPerAnswer = 300
	s := dialect.OpenForm(c)
	n := 0
	for b.Loop() {
		if n++; n > chunksPerAnswer {
			n = 0
			s.Finish()
			s.Release()
			s = dialect.OpenForm(c)
		}
		s.Pass(data)
	}
}

func BenchmarkText(b *testing.B)    { feed(b, delta(`"content":" the"`)) }
func BenchmarkThought(b *testing.B) { feed(b, delta(`"reasoning_content":" the"`)) }
func BenchmarkOddText(b *testing.B) { feed(b, delta(`"content":" the","x":1`)) }
func BenchmarkArguments(b *testing.B) {
	feed(b, delta(`"tool_calls":[{"index":0,"function":{"name":"f","arguments":"x"}}]`))
}

func BenchmarkRequest(b *testing.B) {
	f := formOf(b, sdk, richRequest)
	b.ReportAllocs()
	for b.Loop() {
		again := NewForm(sdk, f.body, f.doc, f.id, 1)
		again.Request()
		again.Release()
	}
}

const richRequest = `{"model":"m","stream":true,"instructions":"Be brief.","input":[{"role":"user","content":[{"type":"input_text",
		"text":"Hello there"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"c","output":"1"}],"tools":[{"type":"function","name":"f",
		"parameters":{"type":"object","properties":{}},"strict":true}]}`

// passThrough passes one event of an upstream that speaks the form over and over.
func passThrough(b *testing.B, event string) {
	c := nativeOf(b, `{"model":"m","input":"Hi","stream":true}`)
	t := targetOf(c, "m")
	data := []byte(event)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	const eventsPerAnswer = 300
	s := Native{}.Stream(c, t)
	s.Pass([]byte(nativeBegin))
	n := 0
	for b.Loop() {
		if n++; n > eventsPerAnswer {
			n = 0
			s.Release()
			s = Native{}.Stream(c, t)
			s.Pass([]byte(nativeBegin))
		}
		s.Pass(data)
	}
}

func BenchmarkNativeText(b *testing.B) { passThrough(b, nativeText) }

// nativeBegin are the events before the first text.
const nativeBegin = `data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress"}}

data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"message","id":"msg_1"}}

data: {"type":"response.content_part.added","sequence_number":2,"output_index":0,"content_index":0,"part":{"type":"output_text"}}

`

const nativeText = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":12," +
	"\"item_id\":\"msg_0123456789abcdef\",\"output_index\":0,\"content_index\":0,\"delta\":\" the\",\"logprobs\":[]," +
	"\"obfuscation\":\"abcdefgh\"}\n\n"
