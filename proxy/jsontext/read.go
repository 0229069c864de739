package jsontext

import (
	"bytes"
	"iter"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Broken text ends a walk, never a process.

// SkipSpace is the offset of the first byte at or after i that is not white space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// SkipString is the offset after the closing quote of the string whose opening
// quote is at i; -1 when it does not end.
func SkipString(b []byte, i int) int {
	for i++; i <= len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		quote := i + n
		slash := quote
		for slash > i && b[slash-1] == '\\' {
			slash--
		}
		i = quote + 1
		if (quote-slash)&1 == 0 {
			return i
		}
	}
	return -1
}

// SkipValue is the offset after the value that begins at i; -1 when it does
// not end.
func SkipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return SkipString(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				if i = SkipString(b, i); i < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return -1
	}
	start := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// Member is one member of an object that is being walked.
type Member struct {
	Key      []byte // between its quotes
	From, To int    // of the value
}

// NextMember reads the member of an object at or after i, which follows
// the opening brace or behind the previous member. ok is false at the object's
// end and where the text is broken; next is then where the walk stopped, just
// after the closing brace if there was one.
func NextMember(b []byte, i int, m *Member) (next int, ok bool) {
	i = SkipSpace(b, i)
	if i < len(b) && b[i] == ',' {
		i = SkipSpace(b, i+1)
	}
	if i >= len(b) || b[i] != '"' {
		if i < len(b) && b[i] == '}' {
			i++
		}
		return i, false
	}
	end := SkipString(b, i)
	if end < 0 {
		return len(b), false
	}
	m.Key = b[i+1 : end-1]
	i = SkipSpace(b, end)
	if i >= len(b) || b[i] != ':' {
		return i, false
	}
	m.From = SkipSpace(b, i+1)
	if m.To = SkipValue(b, m.From); m.To < 0 {
		return len(b), false
	}
	return m.To, true
}

// NextElement reads the element of an array at or after i, which follows
// the opening bracket or behind the previous element.
func NextElement(b []byte, i int) (from, to int, ok bool) {
	i = SkipSpace(b, i)
	if i < len(b) && b[i] == ',' {
		i = SkipSpace(b, i+1)
	}
	if i >= len(b) || b[i] == ']' {
		return i, i, false
	}
	to = SkipValue(b, i)
	return i, to, to > 0
}

// MaxCount bounds every count an upstream reports: far above any real one, low
// enough that sums of them cannot overflow.
const MaxCount = 1 << 40

// ReadCount is a JSON number as a count: negative becomes 0, huge becomes
// MaxCount, fractions are cut. ok is false for anything but a number.
func ReadCount(raw []byte) (n int64, ok bool) {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return readCountSlowly(raw)
		}
		if n < MaxCount {
			n = n*10 + int64(c-'0')
		}
	}
	return min(n, MaxCount), true
}

func readCountSlowly(raw []byte) (int64, bool) {
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(raw), len(raw)), 64)
	switch {
	case math.IsInf(f, 1) || f > MaxCount:
		return MaxCount, true
	case err != nil && !math.IsInf(f, -1):
		return 0, false
	case f < 0:
		return 0, true
	}
	return int64(f), true
}

// AppendUnescaped appends the text that stands escaped between the quotes of a
// JSON string.
func AppendUnescaped(dst, escaped []byte) []byte {
	for {
		n := bytes.IndexByte(escaped, '\\')
		if n < 0 || n+1 == len(escaped) {
			return append(dst, escaped...)
		}
		dst = append(dst, escaped[:n]...)
		c := escaped[n+1]
		escaped = escaped[n+2:]
		switch c {
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'u':
			r := Hex4(escaped)
			if r < 0 {
				dst = append(dst, '\\', 'u')
				continue
			}
			escaped = escaped[4:]
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(escaped) >= 6 && escaped[0] == '\\' && escaped[1] == 'u' {
					low = Hex4(escaped[2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					escaped = escaped[6:]
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
}

// Hex4 reads four hexadecimal digits; -1 when they are not there.
func Hex4(p []byte) rune {
	if len(p) < 4 {
		return -1
	}
	var r rune
	for _, c := range p[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// Members are those of the object whose opening brace is the byte before from.
func Members(b []byte, from int) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		var m Member
		for i, ok := NextMember(b, from, &m); ok && yield(m); i, ok = NextMember(b, i, &m) {
		}
	}
}

// Elements are those of an array, from its opening bracket on.
func Elements(list []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := 1; ; {
			from, to, ok := NextElement(list, i)
			if !ok || !yield(list[from:to]) {
				return
			}
			i = to
		}
	}
}

// Objects are the objects of an array; other values have none.
func Objects(list []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(list) == 0 || list[0] != '[' {
			return
		}
		for one := range Elements(list) {
			if one[0] == '{' && !yield(one) {
				return
			}
		}
	}
}

// MemberOf is the value of an object's member; nil if absent, or if b is not an object.
func MemberOf(b []byte, name string) []byte {
	if len(b) == 0 || b[0] != '{' {
		return nil
	}
	for m := range Members(b, 1) {
		if string(m.Key) == name {
			return b[m.From:m.To]
		}
	}
	return nil
}

// StringIn is the text of an object's string member, escaped as it is between its quotes; nil if
// absent.
func StringIn(b []byte, name string) []byte {
	for m := range Members(b, 1) {
		if string(m.Key) == name && b[m.From] == '"' {
			return b[m.From+1 : m.To-1]
		}
	}
	return nil
}

// Walk calls f with each member of a JSON object that an upstream sent, until f says false. Both
// slices are in b; nothing is copied. A value that is not an object, or broken, ends the walk.
func Walk(b []byte, f func(key, value []byte) bool) {
	at := SkipSpace(b, 0)
	if at >= len(b) || b[at] != '{' {
		return
	}
	for m := range Members(b, at+1) {
		if !f(m.Key, b[m.From:m.To]) {
			return
		}
	}
}

// Each is Walk for the elements of an array.
func Each(b []byte, f func(value []byte) bool) {
	at := SkipSpace(b, 0)
	if at >= len(b) || b[at] != '[' {
		return
	}
	for one := range Elements(b[at:]) {
		if !f(one) {
			return
		}
	}
}

// Quoted is the raw content of a JSON string, escapes as
// written; nil for any other value.
func Quoted(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// Unquoted is the text of a JSON string; empty for any other value.
func Unquoted(value []byte) string {
	return string(AppendUnescaped(nil, Quoted(value)))
}
