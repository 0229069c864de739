package augment

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"

	"farebox/bench/servers"
)

// pdf is a page that shows a text; none: one that shows nothing.
func pdf(text string) []byte {
	content := "0 0 m"
	if text != "" {
		content = "BT /F 24 Tf 50 700 Td (" + text + ") Tj ET"
	}
	return pdfWith("", []byte(content))
}

// pdfWith is a page with a content that is encoded as dict says.
func pdfWith(dict string, content []byte) []byte {
	return pdfOf(1,
		"<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources <</Font <</F 5 0 R>>>>>>",
		stream(dict, content), "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>")
}

func stream(dict string, content []byte) string {
	return fmt.Sprintf("<<%s /Length %d>>\nstream\n%s\nendstream", dict, len(content), content)
}

// pdfOf is a PDF that shows one page so many times: the object of that, which is
// number 3, and those behind it.
func pdfOf(pages int, objects ...string) []byte { return pdfIn("", pages, objects...) }

// pdfIn is pdfOf with more in its catalog.
func pdfIn(catalog string, pages int, objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	var at []int
	kids := fmt.Sprintf("<</Type /Pages /Kids [%s] /Count %d>>", strings.Repeat("3 0 R ", pages), pages)
	for i, o := range append([]string{"<</Type /Catalog /Pages 2 0 R " + catalog + ">>", kids}, objects...) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer <</Size %d /Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return b.Bytes()
}

// scan is a PDF whose pages are a picture of that of another.
func scan(t testing.TB, pages int, doc []byte) []byte {
	t.Helper()
	draw := exec.Command(servers.Tool(t, "pdftoppm"), "-gray", "-r", "150")
	draw.Stdin = bytes.NewReader(doc)
	picture, err := draw.Output()
	var width, height, most int
	if _, scanned := fmt.Sscanf(string(picture), "P5\n%d %d\n%d\n", &width, &height, &most); err != nil || scanned != nil {
		t.Fatalf("pdftoppm: %v, %.20q", err, picture)
	}
	pixels := picture[len(picture)-width*height:]
	return pdfOf(pages,
		"<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources <</XObject <</X 5 0 R>>>>>>",
		stream("", []byte("600 0 0 800 0 0 cm /X Do")),
		stream(fmt.Sprintf("/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8",
			width, height), pixels))
}

// bomb is a PDF whose one page shows so many megabytes of text.
func bomb(megabytes int) []byte {
	line := bytes.Repeat([]byte("BT /F 12 Tf 10 10 Td (all work and no play makes a dull text) Tj ET\n"), 15_000)
	var b bytes.Buffer
	w, _ := zlib.NewWriterLevel(&b, zlib.BestCompression)
	for range megabytes {
		_, _ = w.Write(line)
	}
	_ = w.Close()
	return pdfWith("/Filter /FlateDecode", b.Bytes())
}

// docx is a letter with some paragraphs.
func docx(t testing.TB, paragraphs ...string) []byte {
	t.Helper()
	body := ""
	for _, p := range paragraphs {
		body += "<w:p><w:r><w:t>" + p + "</w:t></w:r></w:p>"
	}
	return letter(t, body)
}

// slow is a letter that takes seconds to read and has no text. Incompressible bytes keep
// it from looking like a bomb.
func slow(t testing.TB) []byte {
	t.Helper()
	pad := make([]byte, 400<<10)
	x := rand.New(rand.NewPCG(1, 2))
	for i := range pad {
		pad[i] = byte(x.Uint32())
	}
	return letter(t, strings.Repeat("<a/>", 15<<20), "word/media/pad.bin", string(pad))
}

// letter is the archive around a body; more are further names and contents.
func letter(t testing.TB, body string, more ...string) []byte {
	t.Helper()
	return zipped(t, append(more, "[Content_Types].xml",
		`<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">`+
			`<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.`+
			`wordprocessingml.document.main+xml"/></Types>`,
		"_rels/.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship `+
			`Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" `+
			`Target="word/document.xml"/></Relationships>`,
		"word/document.xml", `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>`+
			body+`</w:body></w:document>`)...)
}

// zipped is an archive of names and contents.
func zipped(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, err := w.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// xlsx is a table; with a password it is encrypted.
func xlsx(t testing.TB, password string) []byte {
	t.Helper()
	f := excelize.NewFile()
	defer func() { _ = f.Close() }()
	for cell, value := range map[string]any{"A1": "Pelican", "B1": 12.5, "A2": "Stork", "B2": 7} {
		if err := f.SetCellValue("Sheet1", cell, value); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := f.Write(&b, excelize.Options{Password: password}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
