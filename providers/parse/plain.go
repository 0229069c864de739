package parse

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

const (
	// judged is how much of a file tells whether it is text.
	judged = 64 << 10
	// maxStray is how many control characters in a thousand bytes text may have.
	maxStray = 10
)

// readPlain reads text of any sort in whatever charset it is in.
func readPlain(doc []byte) ([]byte, error) {
	s := &sink{}
	decoder := charsetOf(doc)
	if decoder != nil {
		if len(doc) > maxText {
			return nil, refuse(TooLarge)
		}
		decoded, err := decoder.NewDecoder().Bytes(doc)
		if err != nil {
			return nil, refuse(Broken)
		}
		doc = decoded
	}
	if stray(doc[:min(len(doc), judged)]) {
		return nil, refuse(Unsupported)
	}
	s.add(bytes.TrimPrefix(doc, []byte("\uFEFF")))
	return s.end(Empty)
}

// charsetOf is what a text is in; nil: UTF-8. Byte order marks tell it, zero
// bytes on one side of every other byte do, and the rest is a guess that browsers
// share.
func charsetOf(doc []byte) encoding.Encoding {
	head := doc[:min(len(doc), judged)]
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return nil
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	}
	var zeros [2]int
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	const third = 3 // of one half: Latin script, by far
	switch half := len(head) / 2; {
	case half > 0 && zeros[1] > half/third && zeros[0] < zeros[1]/16:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case half > 0 && zeros[0] > half/third && zeros[1] < zeros[0]/16:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	}
	if utf8.Valid(doc) {
		return nil
	}
	found, _, _ := charset.DetermineEncoding(head[:min(len(head), 1024)], "")
	return found
}

// stray says that there is more in a text than a text has. Zero bytes are never.
func stray(text []byte) bool {
	if bytes.IndexByte(text, 0) >= 0 {
		return true
	}
	n := 0
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\b' && c != 0x1b {
			n++
		}
	}
	return n*1000 > len(text)*maxStray
}
