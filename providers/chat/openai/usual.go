package openai

import (
	"bytes"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// maxUsual bounds the kept part of an event, on each side of its delta.
const maxUsual = 512

// fastPathEvent knows the bytes around the delta of the last plain event: id, time and
// model before it, closed brackets behind. Nearly all events of an answer have
// the same, so that two comparisons say that there is neither usage nor an end
// nor an error in them (20 ns instead of 100 for the searches).
type fastPathEvent struct {
	head []byte // up to the delta's opening brace
	tail []byte // the bytes behind the delta, up to the choices' end
	rest []byte // …and behind that
}

// learn keeps the surroundings of an event's only delta.
func (f *fastPathEvent) learn(data []byte, d *delta) {
	f.forget()
	behind := data[d.end:]
	end := bytes.IndexByte(behind, ']') + 1
	if d.begin == 0 || end == 0 || d.begin > maxUsual || len(behind) > maxUsual ||
		usageAt(data[:d.begin], find(data[:d.begin], 0, usageKey)) >= 0 {
		return
	}
	if !harmless(behind) {
		return
	}
	f.head = append(f.head[:0], data[:d.begin]...)
	f.tail = append(f.tail[:0], behind[:end]...)
	f.rest = append(f.rest[:0], behind[end:]...)
}

// harmless says that nothing of interest is behind a delta.
func harmless(behind []byte) bool {
	return usageAt(behind, find(behind, 0, usageKey)) < 0 && find(behind, 0, deltaKey) < 0 &&
		!hasFinish(behind) && find(behind, 0, errorKey) < 0
}

// match notes the text of an event that has the same surroundings and a delta
// of one text; else it reports false and has noted nothing.
func (f *fastPathEvent) match(data []byte, text *dialect.Produced) bool {
	words, kind, rest, ok := f.find(data)
	// Some upstreams end every event with a member of random length.
	if !ok || !bytes.Equal(rest, f.rest) && (len(rest) > maxUsual || !harmless(rest)) {
		return false
	}
	if len(words) > 0 {
		text.Add(dialect.TextKey(0, kind, 0), words)
	}
	return true
}

// find is the text of such an event, and the rest behind its choices.
func (f *fastPathEvent) find(data []byte) (words []byte, kind int64, rest []byte, ok bool) {
	if len(f.head) == 0 || len(data) < len(f.head)+len(f.tail) || !bytes.Equal(data[:len(f.head)], f.head) {
		return nil, 0, nil, false
	}
	delta := data[len(f.head):]
	from := 0
	switch {
	case bytes.HasPrefix(delta, contentHead):
		kind, from = dialect.KindContent, len(contentHead)
	case bytes.HasPrefix(delta, reasoningHead):
		kind, from = dialect.KindReasoning, len(reasoningHead)
	default:
		return nil, 0, nil, false
	}
	end := jsontext.SkipString(delta, from-1)
	if end < 0 || end >= len(delta) || delta[end] != '}' {
		return nil, 0, nil, false
	}
	behind := delta[end+1:]
	if !bytes.HasPrefix(behind, f.tail) {
		return nil, 0, nil, false
	}
	return delta[from : end-1], kind, behind[len(f.tail):], true
}

var (
	contentHead   = []byte(`"content":"`)
	reasoningHead = []byte(`"reasoning_content":"`)
)

func (f *fastPathEvent) forget() { f.head, f.tail, f.rest = f.head[:0], f.tail[:0], f.rest[:0] }
