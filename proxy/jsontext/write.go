package jsontext

import (
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendString[T string | []byte](dst []byte, text T) []byte {
	dst = AppendEscaped(append(dst, '"'), text)
	return append(dst, '"')
}

// AppendEscaped is AppendString without the quotes.
func AppendEscaped[T string | []byte](dst []byte, text T) []byte {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, n := decodeRune(text, i)
			dst = utf8.AppendRune(dst, r)
			i += n - 1
		}
	}
	return dst
}

func decodeRune[T string | []byte](text T, i int) (rune, int) {
	var b [utf8.UTFMax]byte
	n := copy(b[:], text[i:min(len(text), i+utf8.UTFMax)])
	return utf8.DecodeRune(b[:n])
}

// Comma appends a comma, but not before the first member or element.
func Comma(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] != '{' && b[n-1] != '[' {
		b = append(b, ',')
	}
	return b
}

// Object is the text of an object that is being written, from its opening brace on. Its
// methods append a member, with the comma before it.
type Object []byte

// Name appends the name of a member; its value is for the caller to append. Only behind
// an opening brace there is no comma before it, so that an empty Object may be continued.
func (o Object) Name(name string) Object {
	if n := len(o); n == 0 || o[n-1] != '{' {
		o = append(o, ',')
	}
	return append(append(append(o, '"'), name...), '"', ':')
}

// Text appends a string.
func (o Object) Text(name, text string) Object { return AppendString(o.Name(name), text) }

// Int appends a whole number.
func (o Object) Int(name string, n int64) Object { return strconv.AppendInt(o.Name(name), n, 10) }

// Bool appends true or false.
func (o Object) Bool(name string, v bool) Object { return strconv.AppendBool(o.Name(name), v) }

// Raw appends a value that is JSON already.
func (o Object) Raw(name string, value []byte) Object { return append(o.Name(name), value...) }

// End closes the object.
func (o Object) End() []byte { return append(o, '}') }
