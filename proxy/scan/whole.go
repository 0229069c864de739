package scan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
)

// SkimWhole is SkimStrict that also checks members that the Shape does not name, at most so many
// brackets deep. All parsers read a body alike that it accepts.
func (d *Document) SkimWhole(body []byte, shape *Shape, most int) error {
	if err := d.SkimStrict(body, shape); err != nil {
		return err
	}
	if at, why := Value(body, Space(body, 0), 0, most); why != 0 {
		return &Error{Offset: at, Reason: why}
	}
	return nil
}

// Text is the text of the string Fields[i] in a body that SkimStrict has read; false for
// another kind, for an escape that JSON does not have, and for an i below 0.
func (d *Document) Text(body []byte, i int32) (text string, ok bool) {
	if i < 0 || d.Fields[i].Kind != String {
		return "", false
	}
	raw := d.Fields[i].Raw(body)
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	return text, json.Unmarshal(raw, &text) == nil
}

// Value goes over one value, whose first byte is at i, by the whole grammar of RFC 8259 and with
// the inside of its strings: all parsers read a value alike that it accepts. The caller checks
// that the body is UTF-8. depth is the number of brackets open around the value, most how many
// there may be, not above MaxDepth. end is behind the value, or where it is wrong.
func Value(body []byte, i, depth, most int) (end int, why Reason) {
	end, _, why = skipContainer(body, i, MaxDepth-most+depth, true)
	return end, why
}

// Space is the offset of the first byte at or after i that is not white space.
func Space(body []byte, i int) int { return skipSpace(body, i) }

// wholeScalar is skipScalar with the inside of strings. A number or a word that
// is wrong is so from its beginning.
func wholeScalar(body []byte, i int) (end int, why Reason) {
	if i < len(body) && body[i] == '"' {
		if end = wholeString(body, i+1); end < 0 {
			return -end, Syntax
		}
		return end, 0
	}
	end, why = skipScalar(body, i)
	if why == 0 || i >= len(body) {
		return end, why
	}
	switch c := body[i]; {
	case c == 't' || c == 'f' || c == 'n':
		if len(body)-i < len("true") || c == 'f' && len(body)-i < len("false") {
			return len(body), Truncated
		}
	case end <= i+1:
		return i, Syntax
	}
	return end, why
}

// wholeString gives the offset behind the closing quote of a string whose text begins at i;
// -offset of the error.
func wholeString(body []byte, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	for {
		for i+8 <= len(body) {
			x := binary.LittleEndian.Uint64(body[i:])
			q, s := x^ones*'"', x^ones*'\\'
			// Bytes above 0x7f show neither: they are UTF-8, which was checked.
			m := ((x - ones*' ') | (q - ones) | (s - ones)) &^ x & highs
			if m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		for i < len(body) && body[i] != '"' && body[i] != '\\' && body[i] >= ' ' {
			i++
		}
		if i == len(body) || body[i] < ' ' {
			return -i
		}
		if body[i] == '"' {
			return i + 1
		}
		if i+1 == len(body) {
			return -(i + 1)
		}
		switch body[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if i+6 > len(body) {
				return -len(body)
			}
			for _, h := range body[i+2 : i+6] {
				if h-'0' > 9 && (h|0x20)-'a' > 5 {
					return -(i + 2)
				}
			}
			i += 6
		default:
			return -(i + 1)
		}
	}
}
