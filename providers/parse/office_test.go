package parse

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"farebox/bench/servers"
)

// made has Python's own libraries make documents of a size.
func made(t *testing.T, size int) (dir string) {
	t.Helper()
	python, err := filepath.Abs("testdata/python/.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		servers.Missing(t, "a Python with docx, pptx, openpyxl and xlwt")
	}
	dir = t.TempDir()
	if out, err := exec.Command(python, "testdata/python/make.py", dir, strconv.Itoa(size)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func TestLongDocumentsOfOthersAreReadWhole(t *testing.T) { readMade(t, 20) }

func TestLongLargeDocumentsOfOthersAreReadWhole(t *testing.T) { readMade(t, 4000) }

func readMade(t *testing.T, size int) {
	dir := made(t, size)
	for name, kind := range map[string]Kind{"made.docx": DOCX, "made.pptx": PPTX, "made.xlsx": XLSX, "made.xls": XLS} {
		got, err := textOf(t, file(t, filepath.Join(dir, name)))
		if err != nil || got.Kind != kind {
			t.Errorf("%s: %v, %v", name, got.Kind, err)
			continue
		}
		want := string(file(t, filepath.Join(dir, name+".txt")))
		if score, _ := servers.WordF1(got.Text, want); score < 0.99 {
			t.Errorf("%s: word F1 %.4f, want 0.99\n%.2000s\n---\n%.2000s", name, score, got.Text, want)
		}
		if kind == XLS || kind == XLSX { // to the letter
			if lines(got.Text) != lines(want) {
				t.Errorf("%s:\n%.1500s\n--- want\n%.1500s", name, got.Text, want)
			}
		}
	}
}

func lines(text string) string {
	var kept []string
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// zipped makes an archive of names and contents, in that order.
func zipped(t testing.TB, parts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		f, err := w.Create(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write([]byte(parts[i+1]))
	}
	_ = w.Close()
	return b.Bytes()
}

const (
	relsHead = `<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">`
	office   = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
	wordRoot = relsHead + `<Relationship Id="r1" Type="` + office +
		`officeDocument" Target="word/document.xml"/></Relationships>`
	deckRoot = relsHead + `<Relationship Id="r1" Type="` + office +
		`officeDocument" Target="/ppt/presentation.xml"/></Relationships>`
)

// word is a DOCX with a body, and further parts.
func word(t testing.TB, body string, parts ...string) []byte {
	t.Helper()
	doc := `<?xml version="1.0" encoding="UTF-8"?><w:document xmlns:w="x"><w:body>` + body + `</w:body></w:document>`
	return zipped(t, append([]string{"_rels/.rels", wordRoot, "word/document.xml", doc}, parts...)...)
}

func TestAWordDocumentIsReadInItsOrder(t *testing.T) {
	rels := relsHead
	for kind, target := range map[string]string{"header": "header1.xml", "footer": "footer1.xml",
		"footnotes": "footnotes.xml"} {
		rels += `<Relationship Id="` + kind + `" Type="` + office + kind + `" Target="` + target + `"/>`
	}
	rels += `<Relationship Id="x" Type="` + office +
		`header" TargetMode="External" Target="http://127.0.0.1/"/></Relationships>`
	p := func(text string) string {
		return `<w:p><w:pPr><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr><w:r>` + text + `</w:r></w:p>`
	}
	doc := word(t, p(`<w:t xml:space="preserve">one &amp; </w:t><w:t>two</w:t><w:tab/>`+
		`<w:t>three</w:t><w:br/><w:t>four</w:t>`)+
		p(`<w:delText>gone</w:delText><w:instrText>PAGE</w:instrText>`)+
		`<w:tbl><w:tr><w:tc>`+p(`<w:t>a1</w:t>`)+p(`<w:t>a1b</w:t>`)+`</w:tc><w:tc>`+p(`<w:t>b1</w:t>`)+`</w:tc></w:tr>`+
		`<w:tr><w:tc>`+p(`<w:t>a2</w:t>`)+`</w:tc><w:tc>`+p(`<w:t>b2</w:t>`)+`</w:tc></w:tr></w:tbl>`+
		`<mc:AlternateContent><mc:Choice>`+p(`<w:t>box</w:t>`)+`</mc:Choice><mc:Fallback>`+p(`<w:t>box again</w:t>`)+
		`</mc:Fallback></mc:AlternateContent>`+p(`<w:t>e</w:t><w:noBreakHyphen/><w:t>mail</w:t>`),
		"word/_rels/document.xml.rels", rels,
		"word/header1.xml", `<w:hdr>`+p(`<w:t>head</w:t>`)+`</w:hdr>`, "word/footer1.xml",
		`<w:ftr>`+p(`<w:t>foot</w:t>`)+`</w:ftr>`,
		"word/footnotes.xml", `<w:footnotes>`+p(`<w:t>note</w:t>`)+`</w:footnotes>`)
	want := "head\n\none & two\tthree\nfour\n\n| a1 a1b | b1 |\n| --- | --- |\n| a2 | b2 |\n\nbox\ne-mail\n\nnote\n\nfoot"
	if got := says(t, doc); got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

func TestSlidesComeInTheOrderOfThePresentation(t *testing.T) {
	slide := func(text string) string {
		return `<p:sld xmlns:a="a" xmlns:p="p"><a:p><a:r><a:t>` + text +
			`</a:t></a:r><a:fld type="slidenum"><a:t>7</a:t></a:fld></a:p></p:sld>`
	}
	doc := zipped(t, "_rels/.rels", deckRoot,
		"ppt/presentation.xml", `<p:presentation><p:sldIdLst><p:sldId id="256" r:id="b"/><p:sldId id="257" r:id="a"/>`+
			`<p:sldId id="258" r:id="b"/></p:sldIdLst></p:presentation>`,
		"ppt/_rels/presentation.xml.rels",
		relsHead+`<Relationship Id="a" Type="`+office+`slide" Target="slides/slide1.xml"/>`+
			`<Relationship Id="b" Type="`+office+`slide" Target="slides/slide2.xml"/></Relationships>`,
		"ppt/slides/slide1.xml", slide("second"), "ppt/slides/slide2.xml", slide("first"),
		"ppt/slides/_rels/slide2.xml.rels",
		relsHead+`<Relationship Id="n" Type="`+office+`notesSlide" Target="../notesSlides/n1.xml"/></Relationships>`,
		"ppt/notesSlides/n1.xml", slide("spoken"))
	if got, want := says(t, doc), "first\n\nspoken\n\nsecond"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func book1(t testing.TB, chapters ...string) []byte {
	t.Helper()
	opf, spine := "", ""
	parts := []string{"mimetype", "application/epub+zip", "META-INF/container.xml",
		`<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>`}
	for i, chapter := range chapters {
		n := strconv.Itoa(i)
		opf += `<item id="c` + n + `" href="text/c%20` + n + `.xhtml"/>`
		spine = `<itemref idref="c` + n + `"/>` + spine // the last first
		parts = append(parts, "OEBPS/text/c "+n+".xhtml", chapter)
	}
	return zipped(t, append(parts, "OEBPS/book.opf",
		`<!DOCTYPE package PUBLIC "-//x" "http://127.0.0.1/x.dtd">`+
			`<package><manifest>`+opf+`</manifest><spine>`+spine+`</spine></package>`)...)
}

func TestABookIsReadAlongItsSpine(t *testing.T) {
	doc := book1(t, `<html><head><title>x</title><script src="a.js"/></head>`+
		`<body><h1>Two</h1><p>b <em>c</em>d&nbsp;e<br/>f</p></body></html>`,
		`<?xml version="1.0" encoding="ISO-8859-1"?><html><head><style>p{}</style></head><body>`+
			"<p>Stra\xdfe</p>"+`<ul><li>x</li><li>y</li></ul></body></html>`)
	if got, want := says(t, doc), "Straße\n\nx\ny\n\nTwo\n\nb cd\u00a0e\nf"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFilesThatGiveNoTextSayWhy(t *testing.T) {
	for name, c := range map[string]struct {
		doc    []byte
		reason string
	}{
		"nothing":                {nil, "empty"},
		"white space":            {[]byte(" \n\t"), "empty"},
		"a mark of byte order":   {[]byte("\xff\xfe"), "empty"},
		"a picture":              {[]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), "unsupported"},
		"a program":              {append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 1000)...), "unsupported"},
		"zero bytes":             {bytes.Repeat([]byte{0}, 5000), "unsupported"},
		"rich text":              {[]byte(`{\rtf1 hello}`), "unsupported"},
		"some archive":           {zipped(t, "a.txt", "hello"), "unsupported"},
		"an empty archive":       {zipped(t), "unsupported"},
		"a document of pictures": {word(t, `<w:p><w:drawing/></w:p>`), "no_text"},
		"a broken archive":       {word(t, `<w:p/>`)[:200], "broken"},
		"half of a body":         {word(t, `<w:p><w:t>x`), "broken"},
		"a PDF's head only":      {[]byte("%PDF-1.7\n"), "broken"},
		"a compound file's head": {[]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and no more"), "broken"},
		"a locked book": {zipped(t, "META-INF/container.xml", "<container/>", "META-INF/encryption.xml",
			`<encryption><EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></encryption>`),
			"encrypted"},
		"two parts of one name": {zipped(t, "_rels/.rels", wordRoot, "word/document.xml", "<a/>", `word\document.xml`,
			"<b/>"), "broken"},
	} {
		if got := because(t, c.doc); got != c.reason {
			t.Errorf("%s: %s, want %s", name, got, c.reason)
		}
	}
}
