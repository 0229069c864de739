package charset

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/gogs/chardet"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
)

// sampleBytes is how much text is looked at.
const sampleBytes = 16 << 10

// sample is the part of a text that depends on its charset: lines, and texts between tags, that
// have bytes outside ASCII. Where only attributes or CDATA have any, those do.
func sample(text []byte) []byte {
	if part := pieces(text, "<\r\n"); len(part) > 0 {
		return part
	}
	return pieces(text, "\r\n")
}

func pieces(text []byte, ends string) (part []byte) {
	for len(text) > 0 && len(part) < sampleBytes {
		end := bytes.IndexAny(text, ends)
		if end < 0 {
			end = len(text)
		}
		if piece := text[:min(end, sampleBytes)]; slices.ContainsFunc(piece, func(c byte) bool { return c >= 0x80 }) {
			part = append(append(part, piece...), ' ')
		}
		if text = text[end:]; len(text) > 0 {
			text = afterTag(text)
		}
	}
	return part
}

// afterTag is the text behind a tag, or behind the whole of a script, a style or a comment,
// or the byte itself if it begins none of them.
func afterTag(text []byte) []byte {
	end := ">"
	switch low := strings.ToLower(string(text[:min(len(text), 7)])); {
	case strings.HasPrefix(low, "<script"):
		end = "</script"
	case strings.HasPrefix(low, "<style"):
		end = "</style"
	case strings.HasPrefix(low, "<!--"):
		end = "-->"
	case text[0] != '<' || len(low) < 2 || !strings.Contains("abcdefghijklmnopqrstuvwxyz/!?", low[1:2]):
		return text[1:]
	}
	for _, spelled := range []string{end, strings.ToUpper(end)} {
		if i := bytes.Index(text, []byte(spelled)); i >= 0 {
			return text[i+len(end):]
		}
	}
	return nil
}

// broken gives the characters outside ASCII of a decoded text, and how many of them are
// invalid.
func broken(e encoding.Encoding, part []byte) (text []rune, bad int) {
	out, err := e.NewDecoder().Bytes(part)
	if err != nil {
		return nil, len(part)
	}
	for _, r := range string(out) {
		if r >= 0x80 {
			text = append(text, r)
			if r == unicode.ReplacementChar || unicode.Is(unicode.Co, r) || unicode.IsControl(r) {
				bad++
			}
		}
	}
	return text, bad
}

// fits says that a text can be in a charset: one character in fifty may be broken.
func fits(e encoding.Encoding, part []byte) bool {
	text, bad := broken(e, part)
	return bad*50 <= len(text)
}

// guess is a charset that a text may be in, and how much speaks for it, 0 to 100.
type guess struct {
	encoding.Encoding
	confidence int
}

// guesses are those that a text can be in, the best first.
func guesses(part []byte) (list []guess) {
	if e := byScript(part); e != nil {
		return []guess{{e, 100}}
	}
	const sure, rare, few = 80, 10, 16
	letters, others := 0, 0
	for _, c := range part {
		switch {
		case c >= 0x80:
			others++
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letters++
		}
	}
	words := others >= letters // that are outside ASCII: more than a few accents
	all, _ := chardet.NewTextDetector().DetectAll(part)
	// Its order of equals is that of goroutines.
	slices.SortFunc(all, func(a, b chardet.Result) int {
		return cmp.Or(cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(a.Charset, b.Charset))
	})
	switch unsure := len(all) == 0 || all[0].Confidence < sure; { // it does not know these two
	case unsure && words && others >= few && thai(part):
		return []guess{{charmap.Windows874, 100}}
	case unsure && words && others >= few && ibm866(part):
		return []guess{{charmap.CodePage866, 100}}
	}
	for _, r := range all {
		if e := named(strings.ReplaceAll(r.Charset, "GB-", "GB")); e != nil && (words || r.Confidence > rare) && fits(e, part) {
			list = append(list, guess{e, r.Confidence})
		}
	}
	return list
}

// choose picks among the declared charsets and the detected ones. A declared one holds unless
// twice as much speaks for another. Latin letters look much alike in several charsets.
func choose(said []encoding.Encoding, looks []guess) encoding.Encoding {
	const little = 20
	best := guess{Encoding: charmap.Windows1252}
	if len(looks) > 0 {
		best = looks[0]
	}
	doubts := best.confidence >= little && !slices.Contains(latins, best.Encoding)
	said = slices.DeleteFunc(said, func(e encoding.Encoding) bool {
		i := slices.IndexFunc(looks, func(g guess) bool { return g.Encoding == e })
		return doubts && (i < 0 || 2*looks[i].confidence < best.confidence)
	})
	switch {
	case len(said) == 0:
		return best.Encoding
	case said[0] == charmap.Windows1252: // servers say that of everything
		return said[len(said)-1]
	}
	return said[0]
}

var latins = []encoding.Encoding{charmap.Windows1252, charmap.Windows1250, charmap.Windows1254, charmap.ISO8859_2}

// byScript detects scripts by a few characters. The library needs more of them than a title
// has.
func byScript(part []byte) encoding.Encoding {
	for _, c := range []struct {
		e       encoding.Encoding
		script  *unicode.RangeTable
		percent int // of the characters outside ASCII
	}{
		{japanese.EUCJP, unicode.Hiragana, 15}, {japanese.ShiftJIS, unicode.Hiragana, 15}, {korean.EUCKR, unicode.Hangul, 85},
	} {
		text, bad := broken(c.e, part)
		n := 0
		for _, r := range text {
			if unicode.Is(c.script, r) {
				n++
			}
		}
		if bad == 0 && n > 2 && n*100 >= len(text)*c.percent {
			return c.e
		}
	}
	return nil
}

// ibm866 says that nearly all are letters of Russian, where other charsets of Cyrillic would
// draw boxes.
func ibm866(part []byte) bool {
	text, bad := broken(charmap.CodePage866, part)
	n := 0
	for _, r := range text {
		if unicode.Is(unicode.Cyrillic, r) {
			n++
		}
	}
	return bad == 0 && n*100 >= len(text)*95
}

// thai says that marks are in places that Thai allows: behind a consonant or another mark.
func thai(part []byte) bool {
	text, bad := broken(charmap.Windows874, part)
	marks, lost, before := 0, 0, ' '
	for _, r := range text {
		if unicode.Is(unicode.Mn, r) {
			marks++
			if !unicode.Is(unicode.Mn, before) && (before < 'ก' || before > 'ฮ') {
				lost++
			}
		}
		before = r
	}
	return bad == 0 && marks*10 > len(text) && lost*50 < marks
}
