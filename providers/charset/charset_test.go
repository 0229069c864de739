package charset

import (
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

func coded(t testing.TB, e encoding.Encoding, s string) []byte {
	t.Helper()
	b, err := e.NewEncoder().Bytes([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Pages in other charsets are read by their bytes, not by their declarations.
func TestCharsetsAreFound(t *testing.T) {
	t.Parallel()
	utf16 := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	f := func(in []byte, contentType, want string) {
		t.Helper()
		if got := string(UTF8(in, contentType)); got != want {
			t.Errorf("%s: %q, want %q", contentType, got, want)
		}
	}
	f([]byte("\xef\xbb\xbfGrüße"), "text/html", "Grüße")
	f([]byte("Grüße"), "text/html; charset=iso-8859-1", "Grüße")
	f(coded(t, charmap.Windows1251, "Привет"), "text/html; charset=windows-1251", "Привет")
	meta := `<meta charset="windows-1251">Привет`
	f(coded(t, charmap.Windows1251, meta), "text/html", meta)
	f(coded(t, charmap.Windows1252, "Grüße “quoted”"), "text/html; charset=utf-8", "Grüße “quoted”")
	f(coded(t, japanese.ShiftJIS, "こんにちは"), "text/html; charset=Shift_JIS", "こんにちは")
	f(coded(t, japanese.ISO2022JP, "こんにちは"), "text/html; charset=iso-2022-jp", "こんにちは")
	f(coded(t, utf16, "Grüße"), "text/html", "Grüße")
	f([]byte("Grüße und ein \xff, das ist nicht viel: äöü äöü äöü"), "text/html; charset=utf-8",
		"Grüße und ein \uFFFD, das ist nicht viel: äöü äöü äöü")
	f([]byte("<p>a ~{ b"), "text/html", "<p>a ~{ b")
	f([]byte("caf\xe9"), "text/html; charset=iso-8859-1", "café")
	f([]byte("Gr\xfc\xdfe"), "", "Grüße")
	f([]byte("caf\xe9"), "text/html; charset="+strings.Repeat("x", 1<<20), "café")
	f([]byte("caf\xe9"), "text/html; charset=utf-16", "café")
	f([]byte("caf\xe9"), "text/html; charset=replacement", "café")
	f([]byte("\xff\xfe"), "", "")
	f(nil, "text/html; charset=gbk", "")
	f([]byte("a \x1b$B b"), "", "a \uFFFD")
}

// "Pages of China, Japan and Russia that name no charset came out as mojibake, and were charged."
func TestCharsetsAreDetected(t *testing.T) {
	t.Parallel()
	const (
		chinese  = "北京大学位于中国北京市海淀区，是一所历史悠久的综合性大学。"
		taiwan   = "臺灣是位於東亞的島嶼，首都為臺北市，人口約二千三百萬。"
		japanish = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"
		korea    = "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다."
		russian  = "Все люди рождаются свободными и равными в своём достоинстве и правах."
		german   = "Alle Menschen sind frei und gleich an Würde geboren und können überall gleiche Rechte für sich fordern."
		greek    = "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια."
		thais    = "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ"
	)
	head := "<html><head><script>var a = '" + strings.Repeat("x", 3000) + "'</script></head><body><ul><li>Home</ul><p>"
	for _, c := range []struct {
		e    encoding.Encoding
		text string
	}{
		{simplifiedchinese.GBK, chinese}, {simplifiedchinese.GB18030, chinese}, {traditionalchinese.Big5, taiwan},
		{japanese.ShiftJIS, japanish}, {japanese.EUCJP, japanish}, {japanese.ISO2022JP, japanish}, {korean.EUCKR, korea},
		{charmap.Windows1251, russian}, {charmap.KOI8R, russian}, {charmap.ISO8859_5, russian}, {charmap.CodePage866, russian},
		{charmap.Windows1252, german}, {charmap.Windows1253, greek}, {charmap.Windows874, thais},
		{unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), chinese}, {unicode.UTF16(unicode.BigEndian, unicode.UseBOM), chinese},
		{unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), chinese}, {unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), russian},
	} {
		for _, contentType := range []string{"", "text/html", "text/html; charset=utf-8", "text/html; charset=ISO-8859-1",
			"text/html; charset=none"} {
			for _, page := range []string{head + c.text, "<meta charset=utf-8><title>" + c.text + "</title>" + head + c.text} {
				if got := string(UTF8(coded(t, c.e, page), contentType)); got != page {
					t.Errorf("%v as %q: %.300q", c.e, contentType, got[max(0, len(got)-len(c.text)):])
				}
			}
		}
	}
	for text, e := range map[string]encoding.Encoding{"東京の天気です": japanese.ShiftJIS, "天気予報のお知らせ": japanese.EUCJP,
		"세계 인권 선언": korean.EUCKR} {
		if got := string(UTF8(coded(t, e, text), "")); got != text {
			t.Errorf("%v: %q", e, got)
		}
	}
}

// Whatever the bytes and their declared charset, the result is UTF-8, in bounds.
func FuzzUTF8(f *testing.F) {
	for _, s := range []string{"", "\xff", "\x1b$B", "~{", "\xfe\xff\x00", "<meta charset=gbk>\x81", "<?xml encoding='big5'?>\xa4",
		"<meta charset=" + strings.Repeat("x", 100), "<script>\xe9", "<!--\xe9", "\x00a\x00b", "\x82\xa0\x82\xa2\x82"} {
		f.Add([]byte(s), "text/html; charset=shift_jis")
	}
	f.Fuzz(func(t *testing.T, text []byte, contentType string) {
		if got := UTF8(text, contentType); !utf8.Valid(got) || len(got) > 4*len(text)+3 {
			t.Errorf("%d bytes of %d", len(got), len(text))
		}
	})
}
