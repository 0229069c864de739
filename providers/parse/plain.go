package parse

import (
	"bytes"

	"farebox/providers/charset"
)

const (
	// judged is the part of a file that is checked for text.
	judged = 64 << 10
	// maxStray is how many control characters in a thousand bytes text may have.
	maxStray = 10
)

// readPlain reads text of any sort in any charset.
func readPlain(s *sink, doc []byte) error {
	s.none = Empty
	decoder := charset.Of(doc, "")
	if decoder != nil {
		decoded, err := decoder.NewDecoder().Bytes(doc)
		if err != nil {
			return refuse(Broken)
		}
		doc = decoded
	}
	if stray(doc[:min(len(doc), judged)]) {
		return refuse(Unsupported)
	}
	s.add(bytes.TrimPrefix(doc, []byte("\uFEFF")))
	return nil
}

// stray says that there is more in a text than a text may have. Zero bytes never are.
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
