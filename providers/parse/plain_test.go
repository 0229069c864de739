package parse

import (
	"testing"
	"time"

	"golang.org/x/text/encoding/unicode"
	"pgregory.net/rapid"
)

func TestTextIsReadInItsCharset(t *testing.T) {
	utf16 := func(order unicode.Endianness, mark unicode.BOMPolicy, text string) []byte {
		b, err := unicode.UTF16(order, mark).NewEncoder().Bytes([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const greeting = "Grüße, Welt: some text that is mostly Latin"
	for name, c := range map[string]struct {
		doc  []byte
		want string
	}{
		"UTF-8":                {[]byte("# Größe\r\n\r\n* eins\n"), "# Größe\n\n* eins"},
		"UTF-8 with a mark":    {[]byte("\xef\xbb\xbf{\"a\": 1}"), `{"a": 1}`},
		"UTF-16LE with a mark": {utf16(unicode.LittleEndian, unicode.UseBOM, greeting), greeting},
		"UTF-16BE with a mark": {utf16(unicode.BigEndian, unicode.UseBOM, greeting), greeting},
		"UTF-16LE without":     {utf16(unicode.LittleEndian, unicode.IgnoreBOM, greeting), greeting},
		"UTF-16BE without":     {utf16(unicode.BigEndian, unicode.IgnoreBOM, greeting), greeting},
		"Windows-1252":         {[]byte("Stra\xdfe \x80 5"), "Straße € 5"},
		"a page says its charset": {[]byte(`<meta charset="windows-1251">` + "\xcf\xf0\xe8\xe2\xe5\xf2"),
			`<meta charset="windows-1251">Привет`},
		"comma-separated":       {[]byte("a,b\n1,\"x\ty\"\n"), "a,b\n1,\"x\ty\""},
		"a text about BM25":     {[]byte("BM25 ranks documents."), "BM25 ranks documents."},
		"a text about PDF":      {[]byte("A PDF begins with %PDF-1.7 and"), "A PDF begins with %PDF-1.7 and"},
		"source":                {[]byte("func main() {\n\tprintln(1)\n}\n"), "func main() {\n\tprintln(1)\n}"},
		"colours of a terminal": {[]byte("\x1b[31mred\x1b[0m and plain"), "[31mred[0m and plain"},
	} {
		if got := says(t, c.doc); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTidyKeepsText(t *testing.T) {
	for in, want := range map[string]string{
		"a\r\nb\rc\vd":       "a\nb\nc\nd",
		"\n\n a \t\n\n\n\nb": "a\n\nb",
		"a\x00b\x7fc\x01":    "abc",
		"a\xffb":             "a\uFFFDb",
		"  \n\t":             "",
	} {
		if got := string(tidy([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// The text is the same in one piece and in pieces that leave at every end of a line.
func TestPiecesAreJoinedAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var whole, pieces sink
		var sent []byte
		pieces.send = func(piece []byte) error {
			sent = append(sent, piece...)
			return nil
		}
		for _, step := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", " ", "b\n", "\n", "line", "paragraph"}), 1, 20).Draw(t, "steps") {
			for _, s := range []*sink{&whole, &pieces} {
				switch step {
				case "line":
					s.line()
				case "paragraph":
					s.paragraph()
				default:
					s.text(step)
				}
			}
			if n := len(pieces.buf); n > 0 && pieces.buf[n-1] == '\n' {
				pieces.sentAt = time.Time{}
				pieces.pause()
			}
		}
		want, err := whole.end(nil)
		got, failed := pieces.end(nil)
		if (err == nil) != (failed == nil) {
			t.Fatalf("%v, and in pieces %v", err, failed)
		}
		a, _ := opened(want, false)
		b, _ := opened(append(sent, got...), false)
		if a.Text != b.Text {
			t.Errorf("%q, and in pieces %q", a.Text, b.Text)
		}
	})
}
