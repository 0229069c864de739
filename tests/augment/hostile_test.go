package augment

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

// deflated is the packed form of n repetitions of a piece.
func deflated(piece string, n int) []byte {
	var b bytes.Buffer
	w, _ := zlib.NewWriterLevel(&b, zlib.BestCompression)
	block := []byte(strings.Repeat(piece, 1<<20/len(piece)))
	for done := 0; done < n*len(piece); done += len(block) {
		_, _ = w.Write(block)
	}
	_ = w.Close()
	return b.Bytes()
}

// Whatever fields, notes and tables refer to, a document ends within its time, with a text or
// with a 400, and the next one is read.
func TestHostileFieldsNotesAndTablesEndInTime(t *testing.T) {
	t.Parallel()
	hostileDocuments(t, "a million annotations", "fields that go round", "a picture of 100 MB",
		"19,000 times the same notes", "a table of a million cells", "tables within tables")
}

func TestLongHostileFieldsNotesAndTablesEndInTime(t *testing.T) { hostileDocuments(t) }

// hostileDocuments sends the documents of these names, or all.
func hostileDocuments(t *testing.T, names ...string) {
	const limit = time.Second
	s := start(t, strings.Replace(settings, "limits: {", "limits: { unpaid_work: 0,", 1)+
		"augment: { text_parser: { rate: { rpm: 0 }, workers: 1, timeout: 1s } }\n", "100")
	rig.Await(t, "the children are ready", func() bool {
		status, _ := s.parse(t, "a", []byte("stork"))
		return status == 200
	})
	lines := []string{"A page"}
	widget := annotation("Widget", 0, "/FT /Tx /T (a) /V (b)")
	page := func(annots string, objects ...string) []byte {
		return pdfIn("/AcroForm <</Fields ["+annots+"]>>", 1, append([]string{
			"<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources <</Font <</F 5 0 R>>>> /Annots [" +
				annots + "]>>", stream("", []byte("BT /F 12 Tf 50 700 Td (A page) Tj ET")),
			"<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>"}, objects...)...)
	}
	chain := func(n int, kid func(i int) int) []byte {
		var objects []string
		for i := range n {
			objects = append(objects, fmt.Sprintf("<</T (f%d) /Parent %d 0 R /Kids [%d 0 R] /FT /Tx>>", i, 5+i, kid(i)))
		}
		return page("6 0 R", append(objects, widget)...)
	}
	relations := func(kind, target string) string {
		all := relsOpen
		for i := range 19_000 {
			all += fmt.Sprintf(relation, fmt.Sprint("r", i), kind, target)
		}
		return all + "</Relationships>"
	}
	deck := func(part, content, slideRels string) []byte {
		return zipped(t, "_rels/.rels", rels("r", "officeDocument", "ppt/presentation.xml"), "ppt/presentation.xml",
			`<p:presentation><p:sldId r:id="a"/></p:presentation>`, "ppt/_rels/presentation.xml.rels",
			rels("a", "slide", "s.xml"), "ppt/s.xml", `<p:sld><a:p><a:t>A page</a:t></a:p></p:sld>`,
			"ppt/_rels/s.xml.rels", slideRels, part, content)
	}
	// field is a page with one field; objects begin with number 7.
	field := func(more string, objects ...string) []byte {
		return page("6 0 R", append([]string{annotation("Widget", 0, "/T (a) "+more)}, objects...)...)
	}
	picture := func(dict string, content []byte) string {
		return stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9] "+dict, content)
	}
	cell := "<w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>"
	wide := `<w:tr><w:tc><w:tcPr><w:gridSpan w:val="999999999"/></w:tcPr><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc></w:tr>`
	long := strings.Repeat("<a:p><a:t>on and on it goes</a:t></a:p>", 20_000)
	for name, doc := range map[string][]byte{
		"a million annotations":    page(strings.Repeat("6 0 R ", 1_000_000), widget),
		"annotations in one array": page(strings.Repeat(widget, 150_000)),
		"fields nested deeply":     chain(50_000, func(i int) int { return 7 + i }),
		"a field within itself":    chain(3, func(int) int { return 6 }),
		"fields that go round":     chain(3, func(i int) int { return 6 + (i+1)%3 }),
		"a value of 100 MB": field("/FT /Tx /V 7 0 R", stream("/Filter /FlateDecode",
			deflated("value ", 100<<20/6))),
		"a note of 20 MB": form1(lines, annotation("FreeText", 0, "/Contents ("+strings.Repeat("note ", 4<<20)+")")),
		"a picture of 100 MB": field("/FT /Tx /AP <</N 7 0 R>>", picture("/Resources <</Font <</F 5 0 R>>>> /Filter /FlateDecode",
			deflated("BT /F 1 Tf (again and again) Tj ET ", 3<<20))),
		"a picture within itself": field("/FT /Tx /AP <</N 7 0 R>>",
			picture("/Resources <</XObject <</X 7 0 R>>>>", []byte("/X Do /X Do"))),
		"a list of a million options":         field("/FT /Ch /V (x) /Opt [" + strings.Repeat("(x)", 1_000_000) + "]"),
		"notes of a slide that are the slide": deck("ppt/x.xml", "<x/>", relations("notesSlide", "s.xml")),
		"19,000 times the same notes":         deck("ppt/n.xml", "<p:notes>"+long+"</p:notes>", relations("notesSlide", "n.xml")),
		"notes that refer to themselves": deck("ppt/_rels/n.xml.rels", rels("n", "notesSlide", "n.xml"),
			rels("n", "notesSlide", "n.xml")),
		"a chart of a million series": deck("ppt/c.xml", "<c:chart>"+
			strings.Repeat("<c:ser><c:val><c:pt><c:v>1</c:v></c:pt></c:val></c:ser>", 300_000)+"</c:chart>",
			rels("c", "chart", "c.xml")),
		"19,000 times the same header": letter(t, "<w:p><w:r><w:t>A page</w:t></w:r></w:p>", "word/_rels/document.xml.rels",
			relations("header", "h.xml"), "word/h.xml", "<w:hdr>"+strings.ReplaceAll(long, "a:", "w:")+"</w:hdr>"),
		"a table of a million cells": letter(t, "<w:tbl><w:tr>"+strings.Repeat(cell, 500_000)+"</w:tr></w:tbl>"),
		"tables within tables": letter(t, strings.Repeat("<w:tbl><w:tr><w:tc>", 80)+"<w:p><w:r><w:t>x</w:t></w:r></w:p>"+
			strings.Repeat("</w:tc></w:tr></w:tbl>", 80)),
		"cells that cover a million more": letter(t, "<w:tbl>"+strings.Repeat(wide, 50_000)+"</w:tbl>"),
		"a list that goes on for ever": letter(t, strings.Repeat(`<w:p><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:p>`,
			200_000), "word/_rels/document.xml.rels", rels("n", "numbering", "n.xml"), "word/n.xml",
			`<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:lvlText w:val="`+strings.Repeat("%1.", 10_000)+
				`"/></w:lvl></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>`),
	} {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		if len(doc) > 25<<20 {
			t.Fatalf("%s has %d bytes", name, len(doc))
		}
		began := time.Now()
		status, answer := s.parse(t, "x", doc)
		took := time.Since(began)
		t.Logf("%-36s %8d bytes %5d ms  %d %.60s", name, len(doc), took.Milliseconds(), status, answer)
		if status != 200 && status != 400 || took > limit+10*time.Second {
			t.Errorf("%s: %d after %s: %.300s", name, status, took, answer)
		}
		rig.Await(t, "the next document is read", func() bool {
			status, answer := s.parse(t, "a", []byte("stork"))
			return status == 200 && strings.Contains(answer, "stork")
		})
	}
	s.CLI("verify")
}
