// Package charset finds the charset of pages and texts, which may declare a wrong one or
// none.
//
// Out of scope: the content of a text, and its origin.
package charset

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

// headBytes is the part of a text that is searched for UTF-16's zero bytes and for a page's
// charset.
const headBytes = 64 << 10

// UTF8 is a text in UTF-8, without a byte order mark. Invalid bytes become U+FFFD.
func UTF8(text []byte, contentType string) []byte {
	if e := Of(text, contentType); e != nil {
		if out, err := e.NewDecoder().Bytes(text); err == nil {
			text = out
		}
	}
	return bytes.TrimPrefix(bytes.ToValidUTF8(text, []byte("\uFFFD")), []byte("\uFEFF"))
}

// Of is the charset of a text; nil: UTF-8. A byte order mark says so for certain, then zero
// bytes, then that all is valid UTF-8. The charset that the server or the page declares holds
// when the bytes can be in it. Servers say ISO-8859-1 of everything, so that a script such as
// Cyrillic counts more.
func Of(text []byte, contentType string) encoding.Encoding {
	if e := utf16(text); e != nil || bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		return e
	}
	said := declared(text, contentType)
	switch {
	case escapes.Match(text) && !slices.ContainsFunc(text, func(c byte) bool { return c >= 0x80 }):
		return japanese.ISO2022JP
	case mostlyUTF8(text):
		return nil
	}
	part := sample(text)
	said = slices.DeleteFunc(said, func(e encoding.Encoding) bool { return !fits(e, part) })
	return choose(said, guesses(part))
}

// utf16 goes by the byte order mark, and by zero bytes on one side: those of markup, spaces and
// Latin letters. nil: it is another charset.
func utf16(text []byte) encoding.Encoding {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	}
	head := text[:min(len(text), headBytes)]
	var zeros [2]int
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	const part, times = 12, 16 // a twelfth of one half, and a sixteenth of that in the other
	switch half := len(head) / 2; {
	case zeros[1] > half/part && zeros[0] <= zeros[1]/times:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case zeros[0] > half/part && zeros[1] <= zeros[0]/times:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	}
	return nil
}

var (
	escapes  = regexp.MustCompile(`\x1b\$[B@]`)
	inHeader = regexp.MustCompile(`(?i)charset\s*=\s*["']?([^\s"';]+)`)
	inMeta   = regexp.MustCompile(`(?i)<(?:meta\s[^>]{0,500}?charset|\?xml\s[^>]{0,200}?encoding)\s*=\s*["']?\s*([^\s"'/>;?]+)`)
)

// declared are the charsets that the server declares, and then the page. Labels that are
// unknown, or name UTF-8 and UTF-16, are left out: bytes would show these.
func declared(text []byte, contentType string) (list []encoding.Encoding) {
	said := inHeader.FindStringSubmatch(contentType)
	if m := inMeta.FindSubmatch(text[:min(len(text), headBytes)]); m != nil {
		said = append(said, string(m[1]))
	}
	for _, label := range said { // the first is the whole match
		if e := named(label); e != nil {
			list = append(list, e)
		}
	}
	return list
}

// named returns the charset of the web with a name, except UTF-8 and UTF-16; nil: unknown.
func named(label string) encoding.Encoding {
	const longest = 40
	e, err := htmlindex.Get(label[:min(len(label), longest)])
	if err != nil || e == encoding.Replacement {
		return nil
	}
	switch name, err := htmlindex.Name(e); {
	case err != nil, strings.HasPrefix(name, "utf-"):
		return nil
	case name == "gbk":
		return simplifiedchinese.GB18030 // which has all of it
	case strings.HasPrefix(name, "iso-8859-8"):
		return charmap.Windows1255 // likewise
	}
	return e
}

// mostlyUTF8 says that characters outside ASCII are UTF-8, but for a few that are broken.
func mostlyUTF8(text []byte) bool {
	if utf8.Valid(text) {
		return true
	}
	good, bad := 0, 0
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case n > 1:
			good++
		case r == utf8.RuneError:
			bad++
		}
		text = text[n:]
	}
	return bad <= good/8
}
