package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// said is a ChunkWriter that notes its calls.
type said struct {
	FormState
	chunks ChunkReader
	strings.Builder
}

func newSaid(brand string) *said {
	s := &said{}
	s.chunks = ChunkReader{Brand: brand, to: &s.FormState}
	return s
}

func (s *said) Begin(id, model, parameters []byte) {
	fmt.Fprintf(s, "begin %s %s %s\n", id, model, parameters)
}
func (s *said) Thought(text []byte)        { fmt.Fprintf(s, "thought %s\n", text) }
func (s *said) Detail(d *Detail)           { fmt.Fprintf(s, "detail %s\n", d.Entry) }
func (s *said) Text(text, logprobs []byte) { fmt.Fprintf(s, "text %s %s\n", text, logprobs) }
func (s *said) Refusal(text []byte)        { fmt.Fprintf(s, "refusal %s\n", text) }
func (s *said) Source(entry []byte)        { fmt.Fprintf(s, "source %s\n", entry) }
func (s *said) Stop(reason, which []byte)  { fmt.Fprintf(s, "stop %s %s\n", reason, which) }
func (s *said) Fault(f *Fault) {
	fmt.Fprintf(s, "fault %s %s\n", f.Code, f.Message)
	s.Ended = true
}
func (s *said) End() { fmt.Fprintln(s, "end"); s.Ended = true }
func (s *said) Call(index int64, custom bool, id, name, input []byte) {
	fmt.Fprintf(s, "call %d %t %s %s %s\n", index, custom, id, name, input)
}

// all is the content of an answer's chunks, one a line. Without quick each is read as if
// it were the first of its kind.
func all(chunks []byte, quick bool) string {
	s := newSaid("svc")
	for line := range bytes.Lines(chunks) {
		if !quick {
			s.chunks.usual.forget()
		}
		s.chunks.Pass(s, append(append([]byte("data: "), bytes.TrimRight(line, "\r\n")...), "\n\n"...))
	}
	s.chunks.Finish(s)
	return s.String() + fmt.Sprintf("%+v %s %s", s.Usage, s.Cost, s.Parameters)
}

// A chunk like the one before it says the same, whether it is compared or scanned.
func FuzzChunkReader(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}
{"id":"a","choices":[{"index":0,"delta":{"content":"x"}}],"usage":null}
{"id":"a","choices":[{"index":0,"delta":{"content":"y"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}
{"id":"a","choices":[{"index":0,"delta":{"content":"z"},"finish_reason":"stop"}],"usage":null}
[DONE]`,
		`{"choices":[{"delta":{"reasoning_content":"x"}}],"p":"ab"}
{"choices":[{"delta":{"reasoning_content":"y"}}],"p":"abc"}
{"choices":[{"delta":{"reasoning_content":"z"}}],"svc_parameters":{"a":1}}
{"choices":[{"delta":{"content":"z","reasoning_details":[{"signature":"s","format":"f"}]}}],"cost":1}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}},{"index":1,"id":"d","function":{"name":"g"}}]}}]}
{"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"thinking":[{"text":"t"}]}],"refusal":"r","annotations":[{"url_citation":{"url":"u"}}]}}]}`,
		`{"choices":[{"delta":{"content":"a"}}],"z":1}
{"choices":[{"delta":{"content":"b"}}],"z":1,"choices":[{"delta":{"content":"c"}}]}
{"choices":[{"delta":{"content":"d"}}],"error":{"code":"c","message":"m"}}`,
		`{"choices":[{"delta":{"content":"a"},"logprobs":null},{"index":1,"delta":{"content":"b"}}]}
{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}]}}],"x_groq":{"usage":{"prompt_tokens":3}}}
{"error":"broken"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, chunks []byte) {
		for line := range bytes.Lines(chunks) {
			if line = bytes.TrimSpace(line); len(line) > 0 && line[0] == '{' && !json.Valid(line) {
				return // of a broken chunk either reading is right
			}
		}
		if quick, slow := all(chunks, true), all(chunks, false); quick != slow {
			t.Errorf("compared:\n%s\nscanned:\n%s", quick, slow)
		}
	})
}

// "Write of a long file failed: the event is too large": some upstreams send a call as one chunk.
func TestALargeCallIsRead(t *testing.T) {
	long := strings.Repeat("x", 4*MaxEvent)
	got := all([]byte(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"`+long+`"}}]}}]}`), true)
	if !strings.Contains(got, "call 0 false c f "+long+"\nend") {
		t.Errorf("read was %.200s", got)
	}
	s := newSaid("")
	s.chunks.Pass(s, []byte(`data: {"choices":[{"delta":{"content":"`+strings.Repeat("x", maxChunk)))
	s.chunks.Pass(s, []byte("\"}}]}\n\n"))
	if s.chunks.Finish(s); s.String() != "fault "+CodeUpstream+" "+faultTooBig+"\n" {
		t.Errorf("a chunk above the limit is read as %.200s", s.String())
	}
}
