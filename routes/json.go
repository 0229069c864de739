package routes

import (
	"unicode/utf8"
	"unsafe"
)

// appendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, so
// that a hostile name echoed in an error cannot break the body.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
			i++
		case c == '\n':
			b = append(b, '\\', 'n')
			i++
		case c < 0x20 || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			i++
		case c < utf8.RuneSelf:
			b = append(b, c)
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
		}
	}
	return append(b, '"')
}

// excerpt shortens text from a client for an error message, where it is put
// into a sentence; clip bounds what becomes of all of them.
func excerpt(s []byte) string {
	const most = 67
	if len(s) > most {
		s = s[:min(len(s), most+utf8.UTFMax)] // no copy of megabytes
	}
	return clip(string(s), most)
}

// bytesString and stringBytes view one as the other without a copy; the view
// is read only and no longer used than what it views.
func bytesString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
