package responses

import (
	"bytes"

	"farebox/proxy/jsontext"
)

// maxUsual bounds the kept part of an event, in front of its text.
const maxUsual = 512

// nativeUsual knows the bytes around the number and the text of the last delta. Nearly all
// deltas of an item have the same, so that two comparisons tell the kind of an event.
type nativeUsual struct {
	head []byte // up to the number
	mid  []byte // from there up to the text, with its opening quote
	key  uint16 // of the text
}

var numberKey = []byte(`,"sequence_number":`)

// learn keeps the surroundings of a delta event whose members come in the usual order:
// type, number, whatever says where it belongs, and the text.
func (u *nativeUsual) learn(data, kind []byte, key uint16) {
	u.head, u.mid = u.head[:0], u.mid[:0]
	head := len(typeKey) + len(kind) + 1
	if len(data) < head+len(numberKey) || !bytes.HasPrefix(data[head:], numberKey) {
		return
	}
	head += len(numberKey)
	_, digits := leadingNumber(data[head:])
	at := bytes.Index(data, deltaKey)
	if mid := head + digits; digits > 0 && at >= mid && at+len(deltaKey) <= maxUsual {
		u.head = append(u.head, data[:head]...)
		u.mid = append(u.mid, data[mid:at+len(deltaKey)]...)
		u.key = key
	}
}

// match notes a delta with the same surroundings; else it reports false and has noted
// nothing.
func (u *nativeUsual) match(s *nativeStream, data []byte) bool {
	if len(u.head) == 0 || !bytes.HasPrefix(data, u.head) {
		return false
	}
	rest := data[len(u.head):]
	number, digits := leadingNumber(rest)
	if rest = rest[digits:]; digits == 0 || !bytes.HasPrefix(rest, u.mid) {
		return false
	}
	end := jsontext.SkipString(rest, len(u.mid)-1)
	if end < 0 {
		return false
	}
	if s.form != nil {
		s.form.number = number + 1
	}
	words := rest[len(u.mid) : end-1]
	s.see(seenDelta, u.key, words)
	if s.outline.usual >= 0 {
		s.outline.delta(words)
	}
	return true
}

// leadingNumber reads the digits that a text begins with; a number of another form has
// none.
func leadingNumber(text []byte) (n int64, digits int) {
	const most = 15
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		n = n*10 + int64(text[digits]-'0')
		if digits++; digits > most {
			return 0, 0
		}
	}
	if digits == len(text) || text[digits] != ',' {
		return 0, 0
	}
	return n, digits
}
