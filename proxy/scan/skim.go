package scan

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
)

// frame is one open object or array that a Shape asks about.
type frame struct {
	shape *Shape // of the object, or of the array's elements
	field int32  // index in Fields, -1 for the top object
	count int32  // members or elements begun
	seen  [maxMembers / 64]uint64
	array bool
}

// Skim scans body, which must be one JSON object and nothing else, and records
// the members shape asks for. The error is an *Error. Fields hold offsets into
// body, never bytes of it.
func (d *Document) Skim(body []byte, shape *Shape) error {
	d.Fields = d.Fields[:0]
	d.top = [maxMembers]int32{}
	d.Open, d.Close, d.Members = 0, 0, 0
	if len(body) > math.MaxInt32 {
		return &Error{Reason: TooLarge}
	}
	at, why := d.walk(body, shape)
	if why == 0 {
		return nil
	}
	return d.refuse(body, at, why)
}

// walk goes through the shaped part of the document and leaves everything that
// no Shape asks for to skipValue. On a refusal the stack is left as it is, to
// name the place.
func (d *Document) walk(body []byte, shape *Shape) (at int, why Reason) {
	if len(d.stack) < shape.frames {
		d.stack = make([]frame, shape.frames)
	}
	stack := d.stack
	d.depth = 1
	stack[0] = frame{shape: shape, field: -1}

	i := skipSpace(body, 0)
	if i >= len(body) {
		return i, Truncated
	}
	if body[i] != '{' {
		return i, NotObject
	}
	i++
	d.Open = i
	first := true // nothing of the innermost container was read yet

	for {
		f := &stack[d.depth-1]
		i = skipSpace(body, i)
		if i >= len(body) {
			return i, Truncated
		}
		keyFrom := int32(i)
		name, elem := int16(-1), int32(-1)
		guarded := f.array
		closed := false
		switch {
		case first && (f.array && body[i] == ']' || !f.array && body[i] == '}'):
			closed = true
		case f.array:
			elem = f.count
		case body[i] != '"':
			return i, Syntax
		default:
			end := keyEnd(body, i+1)
			if end < 0 {
				return len(body), Truncated
			}
			key := body[i+1 : end-1]
			if id := f.shape.find(key); id >= 0 {
				word, bit := &f.seen[id>>6], uint64(1)<<(id&63)
				if *word&bit != 0 {
					return i, Duplicate
				}
				*word |= bit
				guarded = true
				name = int16(id)
			} else if (f.shape.mixed || !plain(key)) && f.shape.variant(key) >= 0 {
				return i, Variant
			}
			i = skipSpace(body, end)
			if i >= len(body) {
				return i, Truncated
			}
			if body[i] != ':' {
				return i, Syntax
			}
			i = skipSpace(body, i+1)
			if i >= len(body) {
				return i, Truncated
			}
		}

		if !closed {
			f.count++
			at := len(d.Fields)
			if guarded {
				if at >= MaxFields {
					return i, TooMany
				}
				kind := kindAt[body[i]]
				var child *Shape
				if name >= 0 {
					child = f.shape.members[name].Child
				} else if kind == Object {
					child = f.shape
				}
				if f.field < 0 && name >= 0 {
					d.top[name] = int32(at + 1)
				}
				// Filled in place: copying 40 bytes with a pointer in them was a
				// fifth of the scan.
				d.Fields = append(d.Fields, Field{})
				field := &d.Fields[at]
				field.Shape, field.Parent, field.Elem, field.Name = f.shape, f.field, elem, name
				field.KeyFrom, field.From, field.Kind = keyFrom, int32(i), kind
				if child != nil && (kind == Object || kind == Array) {
					stack[d.depth] = frame{shape: child, field: int32(at), array: kind == Array}
					d.depth++
					i++
					first = true
					continue
				}
			}
			end, count, why := skipValue(body, i, d.depth)
			if why != 0 {
				return end, why
			}
			i = end
			if guarded {
				field := &d.Fields[at]
				field.To, field.Len, field.Next = int32(i), count, int32(at+1)
			}
		}

		// A value has ended, or the innermost container is empty: close the containers that end
		// here.
		for {
			f = &stack[d.depth-1]
			i = skipSpace(body, i)
			if i >= len(body) {
				return i, Truncated
			}
			if body[i] == ',' && !closed {
				break
			}
			if f.array && body[i] != ']' || !f.array && body[i] != '}' {
				return i, Syntax
			}
			closed = false
			i++
			d.depth--
			if f.field < 0 {
				d.Close, d.Members = i-1, int(f.count)
				if i = skipSpace(body, i); i < len(body) {
					return i, Trailing
				}
				return i, 0
			}
			ended := &d.Fields[f.field]
			ended.To, ended.Len, ended.Next = int32(i), f.count, int32(len(d.Fields))
		}
		i++
		first = false
	}
}

// skipValue goes over one value that no Shape asks about, from its first byte.
// depth is the number of brackets open around it. count is the number of
// elements or members of a container.
func skipValue(body []byte, i, depth int) (end int, count int32, why Reason) {
	if i < len(body) && (body[i] == '{' || body[i] == '[') {
		return skipContainer(body, i, depth, false)
	}
	end, why = skipScalar(body, i)
	return end, 0, why
}

func skipScalar(body []byte, i int) (end int, why Reason) {
	if i >= len(body) {
		return i, Truncated
	}
	switch c := body[i]; c {
	case '"':
		if i = skipString(body, i+1); i < 0 {
			return len(body), Truncated
		}
		return i, 0
	case 't':
		return literal(body, i, "true")
	case 'f':
		return literal(body, i, "false")
	case 'n':
		return literal(body, i, "null")
	default:
		if c != '-' && c-'0' > 9 {
			return i, Syntax
		}
		return skipNumber(body, i)
	}
}

// skipContainer keeps one bit for each open bracket instead of recursing. whole
// says that the inside of strings is checked too.
func skipContainer(body []byte, i, depth int, whole bool) (end int, count int32, why Reason) {
	var objects [MaxDepth / 64]uint64
	var open int
	var object bool

value:
	if i < len(body) && (body[i] == '{' || body[i] == '[') {
		if depth+open >= MaxDepth {
			return i, 0, TooDeep
		}
		object = body[i] == '{'
		if object {
			objects[open>>6] |= 1 << (open & 63)
		} else {
			objects[open>>6] &^= 1 << (open & 63)
		}
		open++
		i = skipSpace(body, i+1)
		switch {
		case i < len(body) && (object && body[i] == '}' || !object && body[i] == ']'):
			i++
			open--
			goto after
		case open == 1:
			count = 1
		}
		if object {
			goto key
		}
		goto value
	}
	if whole {
		i, why = wholeScalar(body, i)
	} else {
		i, why = skipScalar(body, i)
	}
	if why != 0 {
		return i, 0, why
	}

after:
	if open == 0 {
		return i, count, 0
	}
	if i = skipSpace(body, i); i >= len(body) {
		return i, 0, Truncated
	}
	object = objects[(open-1)>>6]&(1<<((open-1)&63)) != 0
	switch c := body[i]; {
	case c == ',':
		if open == 1 {
			count++
		}
		i = skipSpace(body, i+1)
		if !object {
			goto value
		}
	case c == '}' && object, c == ']' && !object:
		i++
		open--
		goto after
	default:
		return i, 0, Syntax
	}

key:
	if i >= len(body) {
		return i, 0, Truncated
	}
	if body[i] != '"' {
		return i, 0, Syntax
	}
	if whole {
		if i = wholeString(body, i+1); i < 0 {
			return -i, 0, Syntax
		}
	} else if i = skipString(body, i+1); i < 0 {
		return len(body), 0, Truncated
	}
	if i = skipSpace(body, i); i >= len(body) {
		return i, 0, Truncated
	}
	if body[i] != ':' {
		return i, 0, Syntax
	}
	i = skipSpace(body, i+1)
	goto value
}

// skipString returns the offset after the closing quote of a string whose text
// begins at i, -1 if absent. Quotes are found 32 bytes at a time; one
// is escaped when an odd number of backslashes precedes it.
func skipString(body []byte, i int) int {
	for {
		n := bytes.IndexByte(body[i:], '"')
		if n < 0 {
			return -1
		}
		quote := i + n
		slash := quote
		for slash > i && body[slash-1] == '\\' {
			slash--
		}
		if (quote-slash)&1 == 0 {
			return quote + 1
		}
		i = quote + 1
	}
}

// keyEnd is skipString for keys of shaped objects, which are short.
func keyEnd(body []byte, i int) int {
	const (
		ones   = 0x0101010101010101
		highs  = 0x8080808080808080
		quotes = ones * '"'
	)
	for at := i; at <= len(body)-8; at += 8 {
		q := binary.LittleEndian.Uint64(body[at:]) ^ quotes
		if m := (q - ones) &^ q & highs; m != 0 {
			if at += bits.TrailingZeros64(m) / 8; at > i && body[at-1] == '\\' {
				break
			}
			return at + 1
		}
	}
	return skipString(body, i)
}

// plain says that every byte is printable ASCII, no capital and no backslash,
// so that the key cannot be a variant of a lower-case name.
func plain(key []byte) bool {
	for _, c := range key {
		if oddByte[c] {
			return false
		}
	}
	return true
}

// skipNumber goes over a number of RFC 8259: no plus, no leading zeros, no bare
// point, no NaN.
func skipNumber(body []byte, i int) (int, Reason) {
	if body[i] == '-' {
		i++
	}
	start := i
	i = skipDigits(body, i)
	if i == start || body[start] == '0' && i > start+1 {
		return numberFault(body, start)
	}
	if i < len(body) && body[i] == '.' {
		start = i + 1
		if i = skipDigits(body, start); i == start {
			return numberFault(body, i)
		}
	}
	if i < len(body) && body[i]|0x20 == 'e' {
		i++
		if i < len(body) && (body[i] == '+' || body[i] == '-') {
			i++
		}
		start = i
		if i = skipDigits(body, start); i == start {
			return numberFault(body, i)
		}
	}
	return i, 0
}

func numberFault(body []byte, i int) (int, Reason) {
	if i >= len(body) {
		return i, Truncated
	}
	return i, Syntax
}

func skipDigits(body []byte, i int) int {
	for i < len(body) && body[i]-'0' <= 9 {
		i++
	}
	return i
}

func literal(body []byte, i int, word string) (int, Reason) {
	rest := body[i:]
	if len(rest) < len(word) {
		if word[:len(rest)] == string(rest) {
			return len(body), Truncated
		}
		return i, Syntax
	}
	if string(rest[:len(word)]) != word {
		return i, Syntax
	}
	return i + len(word), 0
}

func skipSpace(body []byte, i int) int {
	for i < len(body) && space(body[i]) {
		i++
	}
	return i
}

func space(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t')
}

var (
	oddByte [256]bool // in a key
	kindAt  [256]Kind
)

func init() {
	for c := range oddByte {
		oddByte[c] = c < ' ' || c >= 0x7f || c >= 'A' && c <= 'Z' || c == '\\'
	}
	for c := '0'; c <= '9'; c++ {
		kindAt[c] = Number
	}
	kindAt['-'], kindAt['"'], kindAt['{'], kindAt['['] = Number, String, Object, Array
	kindAt['t'], kindAt['f'], kindAt['n'] = True, False, Null
}
