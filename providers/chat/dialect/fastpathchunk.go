package dialect

import (
	"bytes"

	"farebox/proxy/jsontext"
)

// maxUsual bounds the kept part of a chunk, on each side of its text.
const maxUsual = 512

// fastPathChunk has the bytes around the only text of the last chunk. Nearly all chunks of an
// answer have the same, so that two comparisons do in the place of a scan.
type fastPathChunk struct {
	head []byte // up to the text
	tail []byte // from its closing quote to the end of the choices
	rest []byte // behind them
	kind factKind
	call int64
}

// learn keeps the bytes around the only text of a chunk, which is a piece of data.
func (f *fastPathChunk) learn(data []byte, only *fact) {
	f.forget()
	from := cap(data) - cap(only.text)
	behind := data[from+len(only.text):]
	end := bytes.IndexByte(behind, ']') + 1
	if end == 0 || from > maxUsual || len(behind) > maxUsual {
		return
	}
	f.head = append(f.head[:0], data[:from]...)
	f.tail = append(f.tail[:0], behind[:end]...)
	f.rest = append(f.rest[:0], behind[end:]...)
	f.kind, f.call = only.kind, only.index
}

// meaningful are words in members that say something.
var meaningful = [...][]byte{[]byte(`"usage"`), []byte(`"x_groq"`), []byte(`"cost"`), []byte(`_parameters"`), []byte(`"error"`),
	[]byte(`"delta"`), []byte(`"finish_reason"`), []byte(`"logprobs"`), []byte(`"annotations"`), []byte(`"reasoning_details"`),
	[]byte(`"content"`), []byte(`"reasoning_content"`), []byte(`"reasoning"`), []byte(`"tool_calls"`), []byte(`"refusal"`),
	[]byte(`"choices"`)}

// saysNothing reports whether the members behind the choices can be skipped: none of the
// words is in them, or its value is null.
func saysNothing(rest []byte) bool {
	for _, word := range &meaningful {
		at := bytes.Index(rest, word)
		if at < 0 {
			continue
		}
		value := rest[at+len(word):]
		if !bytes.HasPrefix(value, []byte(":null")) && !bytes.HasPrefix(value, []byte(": null")) || bytes.Contains(value, word) {
			return false
		}
	}
	return true
}

// match gives w the text of a chunk that has the same around it; false: it is another.
func (f *fastPathChunk) match(w ChunkWriter, data []byte) bool {
	if len(f.head) == 0 || !bytes.HasPrefix(data, f.head) {
		return false
	}
	end := jsontext.SkipString(data, len(f.head)-1)
	if end < 0 || !bytes.HasPrefix(data[end-1:], f.tail) {
		return false
	}
	// Some upstreams end every chunk with a member of random length.
	if rest := data[end-1+len(f.tail):]; !bytes.Equal(rest, f.rest) && (len(rest) > maxUsual || !saysNothing(rest)) {
		return false
	}
	text := data[len(f.head) : end-1]
	switch {
	case len(text) == 0:
	case f.kind == factText:
		w.Text(text, nil)
	case f.kind == factThought:
		w.Thought(text)
	default:
		w.Call(f.call, false, nil, nil, text)
	}
	return true
}

func (f *fastPathChunk) forget() { f.head, f.tail, f.rest = f.head[:0], f.tail[:0], f.rest[:0] }
