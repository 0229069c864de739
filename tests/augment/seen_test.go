package augment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"

	"farebox/tests/rig"
)

// form1 is a PDF whose page shows lines of text, with annotations. Object 5 is Helvetica and
// 6 ZapfDingbats; the annotations are objects 7 and on.
func form1(lines []string, annotations ...string) []byte {
	content := "BT /F 12 Tf 50 700 Td 20 TL"
	for _, line := range lines {
		content += " (" + line + ") Tj T*"
	}
	refs := ""
	for i, object := range annotations { // or the objects that they refer to
		if strings.Contains(object, "/Annot") {
			refs += fmt.Sprint(i+7, " 0 R ")
		}
	}
	return pdfIn("/AcroForm <</Fields ["+refs+"] /DA (/F 12 Tf) /DR <</Font <</F 5 0 R /Z 6 0 R>>>>>>", 1, append([]string{
		"<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources <</Font <</F 5 0 R>>>> /Annots [" +
			refs + "]>>",
		stream("", []byte(content+" ET")), "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>",
		"<</Type /Font /Subtype /Type1 /BaseFont /ZapfDingbats>>",
	}, annotations...)...)
}

// annotation is one at a line of form1's, with more in its dictionary.
func annotation(kind string, line int, more string) string {
	y := 700 - 20*line
	if !strings.Contains(more, "/Rect") {
		more += fmt.Sprintf(" /Rect [150 %d 400 %d]", y-4, y+14)
	}
	if !strings.Contains(more, "/F ") {
		more += " /F 4"
	}
	return "<</Type /Annot /Subtype /" + kind + " " + more + ">>"
}

// shows is an appearance that shows a text, 250 points wide.
func shows(font, text string) string {
	return stream("/Type /XObject /Subtype /Form /BBox [0 0 250 18] /Resources <</Font <</F 5 0 R /Z 6 0 R>>>>",
		[]byte("BT /"+font+" 12 Tf 0 4 Td ("+text+") Tj ET"))
}

// "The form was filled in, and you say that it holds pictures only."
func TestFormsAndNotesAreReadAsTheyAreSeen(t *testing.T) {
	t.Parallel()
	s := start(t, settings+"augment: { text_parser: { rate: { rpm: 0 } } }\n", "1")
	doc := form1([]string{"Name:", "Sum:", "Country:", "City:", "Agreed:", "Declined:", "Remark:", "Drawn twice:", "End"},
		annotation("Widget", 0, "/FT /Tx /T (a) /V (Ada of the file) /AP <</N 8 0 R>>"), shows("F", "Ada Lovelace"),
		annotation("Widget", 1, "/Parent 10 0 R"), "<</FT /Tx /T (b) /V (1,234.50 dollars) /Kids [9 0 R]>>",
		annotation("Widget", 2, "/FT /Ch /Ff 131072 /T (c) /V (no) /Opt [[(se) (Sweden)] [(no) (Norway)]]"),
		annotation("Widget", 3, "/FT /Tx /T (d) /V (Secretville) /F 2"),
		annotation("Widget", 4, "/FT /Btn /T (e) /V /Yes /AS /Yes /AP <</N <</Yes 14 0 R /Off 15 0 R>>>>"),
		shows("Z", "4"), shows("F", ""),
		annotation("Widget", 5, "/FT /Btn /T (f) /V /Off /AS /Off /AP <</N <</Yes 14 0 R /Off 15 0 R>>>>"),
		annotation("FreeText", 6, "/Contents (call back on Monday)"),
		annotation("FreeText", 7, "/Contents (Drawn twice:) /Rect [50 556 300 574] /AP <</N 19 0 R>>"),
		shows("F", "Drawn twice:"),
		annotation("Text", 8, "/Contents (a comment that is closed)"),
		annotation("Widget", 8, "/FT /Tx /Ff 8192 /T (g) /V (hunter2)"))
	status, text := s.parse(t, "form.pdf", doc, part{"response_format", "", "text"})
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	want := "Name: Ada Lovelace\nSum: 1,234.50 dollars\nCountry: Norway\nCity:\nAgreed: ✔\nDeclined:\n" +
		"Remark: call back on Monday\nDrawn twice:\nEnd"
	if got := strings.Join(strings.Fields(text), " "); got != strings.Join(strings.Fields(want), " ") {
		t.Errorf("read %q, want %q", text, want)
	}
	only := form1(nil, annotation("Widget", 0, "/FT /Tx /T (a) /V (Only a field)"))
	if status, text = s.parse(t, "form.pdf", only, part{"response_format", "", "text"}); status != 200 || text != "Only a field" {
		t.Errorf("a page of one field: %d %s", status, text)
	}
	s.charged(t, 2)
}

const (
	relsOpen = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">`
	relation = `<Relationship Id="%s" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/%s" Target="%s"/>`
)

// rels are the relations of a part: an id, a kind and a target for each.
func rels(all ...string) string {
	text := relsOpen
	for i := 0; i < len(all); i += 3 {
		text += fmt.Sprintf(relation, all[i], all[i+1], all[i+2])
	}
	return text + "</Relationships>"
}

// "The contract came back with the clauses that we had struck out."
func TestOfficeDocumentsAreReadAsTheyAreSeen(t *testing.T) {
	t.Parallel()
	s := start(t, settings+"augment: { text_parser: { rate: { rpm: 0 } } }\n", "1")
	p := func(runs string) string { return "<w:p>" + runs + "</w:p>" }
	r := func(text string) string { return "<w:r><w:t>" + text + "</w:t></w:r>" }
	cell := func(properties, text string) string {
		return "<w:tc><w:tcPr>" + properties + "</w:tcPr>" + p(r(text)) + "</w:tc>"
	}
	letter1 := letter(t, p(r("Seen")+"<w:del><w:r><w:delText>struck</w:delText></w:r></w:del>"+
		"<w:r><w:rPr><w:vanish/></w:rPr><w:t>vanished</w:t></w:r>"+
		"<w:r><w:rPr><w:rStyle w:val=\"ghost\"/></w:rPr><w:t>ghostly</w:t></w:r>"+
		"<w:r><w:rPr><w:vanish w:val=\"0\"/></w:rPr><w:t> again</w:t></w:r>")+
		"<w:p><w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>"+r("A mark is hidden")+"</w:p>"+
		"<w:tbl><w:tblGrid><w:gridCol/><w:gridCol/><w:gridCol/></w:tblGrid>"+
		"<w:tr>"+cell("", "Bird")+cell(`<w:gridSpan w:val="2"/>`, "Legs|Wings")+"</w:tr>"+
		"<w:tr>"+cell(`<w:vMerge w:val="restart"/>`, "Stork")+cell("", "2")+cell("", "two")+"</w:tr>"+
		"<w:tr>"+cell(`<w:vMerge/>`, "Stork")+cell("", "1")+cell("", "one")+"</w:tr></w:tbl>"+
		"<w:tbl><w:tblGrid><w:gridCol/></w:tblGrid><w:tr>"+cell("", "A frame")+"</w:tr></w:tbl>"+
		p(r("Before")+"<w:r><w:pict><v:textbox><w:txbxContent>"+p(r("A box"))+"</w:txbxContent></v:textbox></w:pict></w:r>"),
		"word/_rels/document.xml.rels", rels("h", "header", "h.xml", "h2", "header", "h2.xml", "f", "footer", "f.xml",
			"n", "footnotes", "n.xml", "s", "styles", "s.xml"),
		"word/h.xml", "<w:hdr>"+p(r("Head"))+"</w:hdr>", "word/h2.xml", "<w:hdr>"+p(r("Head"))+"</w:hdr>",
		"word/f.xml", "<w:ftr>"+p(r("Foot"))+"</w:ftr>", "word/n.xml", "<w:footnotes>"+p(r("Note"))+"</w:footnotes>",
		"word/s.xml", `<w:styles><w:style w:type="character" w:styleId="ghost"><w:rPr><w:vanish/></w:rPr></w:style></w:styles>`)
	slide := func(attributes, shapes string) string {
		return `<p:sld xmlns:p="p" xmlns:a="a" ` + attributes + `><p:cSld><p:spTree>` + shapes + `</p:spTree></p:cSld></p:sld>`
	}
	a := func(text string) string { return "<a:p><a:r><a:t>" + text + "</a:t></a:r></a:p>" }
	shape := func(attributes, text string) string {
		return `<p:sp><p:nvSpPr><p:cNvPr id="1" name="x" ` + attributes + `/></p:nvSpPr><p:txBody>` + a(text) + `</p:txBody></p:sp>`
	}
	deck := zipped(t, "_rels/.rels", rels("r", "officeDocument", "ppt/presentation.xml"), "ppt/presentation.xml",
		`<p:presentation><p:sldIdLst><p:sldId id="1" r:id="a"/><p:sldId id="2" r:id="b"/></p:sldIdLst></p:presentation>`,
		"ppt/_rels/presentation.xml.rels", rels("a", "slide", "slides/a.xml", "b", "slide", "slides/b.xml"),
		"ppt/slides/a.xml", slide("", shape("", "Shown")+shape(`hidden="1"`, "Tucked away")+
			"<p:graphicFrame><a:tbl><a:tblGrid><a:gridCol/><a:gridCol/></a:tblGrid><a:tr><a:tc>"+a("Year")+"</a:tc><a:tc>"+
			a("Sum")+"</a:tc></a:tr><a:tr><a:tc>"+a("2026")+"</a:tc><a:tc>"+a("7")+"</a:tc></a:tr></a:tbl></p:graphicFrame>"),
		"ppt/slides/_rels/a.xml.rels", rels("n", "notesSlide", "../n.xml"), "ppt/n.xml", slide("", shape("", "Spoken")),
		"ppt/slides/b.xml", slide(`show="0"`, shape("", "Skipped")))
	item := func(list string, depth int, text string) string {
		return fmt.Sprintf(`<w:p><w:pPr><w:numPr><w:ilvl w:val="%d"/><w:numId w:val="%s"/></w:numPr></w:pPr>%s</w:p>`, depth, list, r(text))
	}
	contract := letter(t, item("5", 0, "Terms")+item("5", 1, "Price")+item("5", 1, "Delay")+item("5", 0, "Law")+
		item("5", 1, "Court")+item("6", 0, "a point")+`<w:p><w:pPr><w:pStyle w:val="clause"/></w:pPr>`+r("By style")+"</w:p>",
		"word/_rels/document.xml.rels", rels("n", "numbering", "n.xml", "s", "styles", "s.xml"),
		"word/s.xml", `<w:styles><w:style w:type="paragraph" w:styleId="clause"><w:pPr><w:numPr><w:numId w:val="5"/></w:numPr></w:pPr>`+
			`</w:style></w:styles>`,
		"word/n.xml", `<w:numbering><w:abstractNum w:abstractNumId="1">`+
			`<w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="%1."/></w:lvl>`+
			`<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl></w:abstractNum>`+
			`<w:abstractNum w:abstractNumId="2"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val="x"/></w:lvl></w:abstractNum>`+
			`<w:num w:numId="5"><w:abstractNumId w:val="1"/></w:num><w:num w:numId="6"><w:abstractNumId w:val="2"/></w:num></w:numbering>`)
	points := func(part string, values ...string) string {
		all := ""
		for i, v := range values {
			all += fmt.Sprintf(`<c:pt idx="%d"><c:v>%s</c:v></c:pt>`, i, v)
		}
		return "<c:" + part + ">" + all + "</c:" + part + ">"
	}
	graph := zipped(t, "_rels/.rels", rels("r", "officeDocument", "ppt/presentation.xml"), "ppt/presentation.xml",
		`<p:presentation><p:sldIdLst><p:sldId id="1" r:id="a"/></p:sldIdLst></p:presentation>`,
		"ppt/_rels/presentation.xml.rels", rels("a", "slide", "a.xml"), "ppt/a.xml", slide("", shape("", "Sales")),
		"ppt/_rels/a.xml.rels", rels("c", "chart", "c.xml"), "ppt/c.xml", "<c:chart><c:title><a:t>By quarter</a:t></c:title><c:ser>"+
			points("tx", "North")+points("cat", "Q1", "Q2")+points("val", "7", "8.5")+"</c:ser><c:ser>"+points("tx", "South")+
			points("cat", "Q1", "Q2")+points("val", "3")+"</c:ser></c:chart>")
	f := excelize.NewFile()
	for at, value := range map[string]string{"A1": "Bird", "B1": "Secret", "C1": "Legs", "A2": "Hidden row", "A3": "Stork",
		"B3": "hush", "C3": "2", "A4": "Merged", "C4": "beneath"} {
		_ = f.SetCellValue("Sheet1", at, value)
	}
	_ = f.SetColVisible("Sheet1", "B", false)
	_ = f.SetRowVisible("Sheet1", 2, false)
	_ = f.MergeCell("Sheet1", "A4", "C4")
	_, _ = f.NewSheet("Away")
	_ = f.SetCellValue("Away", "A1", "Not here")
	_ = f.SetSheetVisible("Away", false)
	var book bytes.Buffer
	if err := f.Write(&book); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		doc  []byte
		want string
	}{
		"letter.docx": {letter1, "Head\n\nSeen again\nA mark is hidden\n\n| Bird | Legs\\|Wings | |\n| --- | --- | --- |\n" +
			"| Stork | 2 | two |\n| | 1 | one |\n\nA frame\n\nBefore\nA box\n\nNote\n\nFoot"},
		"deck.pptx":     {deck, "Shown\n\n| Year | Sum |\n| --- | --- |\n| 2026 | 7 |\n\nSpoken"},
		"contract.docx": {contract, "I. Terms\nI.a) Price\nI.b) Delay\nII. Law\nII.a) Court\n- a point\nIII. By style"},
		"graph.pptx":    {graph, "Sales\n\nBy quarter\n\n| | North | South |\n| --- | --- | --- |\n| Q1 | 7 | 3 |\n| Q2 | 8.5 |"},
		"book.xlsx":     {book.Bytes(), "Sheet1\n\n| Bird | Legs |\n| --- | --- |\n| Stork | 2 |\n| Merged |"},
	} {
		if status, text := s.parse(t, name, c.doc, part{"response_format", "", "text"}); status != 200 || text != c.want {
			t.Errorf("%s: %d %q\nwant %q", name, status, text, c.want)
		}
	}
	s.charged(t, 5)
}

// pages is a PDF of so many pages of text.
func pages(n int) []byte {
	line := "(all work and no play makes a dull text that goes on and on) Tj T* "
	content := "BT /F 9 Tf 50 790 Td 10 TL " + strings.Repeat(line, 60) + "ET"
	return pdfOf(n,
		"<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources <</Font <</F 5 0 R>>>>>>",
		stream("", []byte(content)), "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>")
}

// "My report of 3,500 pages is refused, since you cannot read it in twenty seconds."
func TestALongDocumentIsReadUpToTheDeadline(t *testing.T) {
	t.Parallel()
	s := start(t, settings+"augment: { text_parser: { rate: { rpm: 0 }, workers: 1, timeout: 2s } }\n", "1")
	rig.Await(t, "the children are ready", func() bool {
		status, _ := s.parse(t, "a", []byte("stork"))
		return status == 200
	})
	s.had = s.has()
	const all = 20_000
	doc := pages(all)
	kind, body := form(part{"file", "a.pdf", string(doc)})
	var first string
	for range 2 {
		began := time.Now()
		status, header, answer := s.send(context.Background(), parsing, kind, body, "Idempotency-Key", "long")
		var got struct {
			Text      string
			Read      int `json:"pages_read"`
			All       int `json:"pages_total"`
			Truncated bool
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 {
			t.Fatalf("%d %.300s", status, answer)
		}
		mark := fmt.Sprintf("\n\n[The document continues: %d of %d pages were read.]", got.Read, all)
		if !got.Truncated || got.All != all || got.Read < 5 || !strings.HasSuffix(got.Text, mark) ||
			strings.Count(got.Text, "all work") < 60*got.Read || header.Get("X-Svc-Truncated") != "true" {
			t.Errorf("%v, %d pages, truncated: %v; %.100q … %q", header, got.Read, got.Truncated, got.Text,
				got.Text[max(0, len(got.Text)-100):])
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
		if first != "" && (answer != first || header.Get("Idempotent-Replayed") != "true") {
			t.Error("the repeat is another answer")
		}
		first = answer
	}
	s.charged(t, 1)
	kind, body = form(part{"file", "a.pdf", string(doc)}, part{"response_format", "", "text"})
	status, header, answer := s.send(context.Background(), parsing, kind, body)
	if status != 200 || !strings.HasSuffix(answer, " of 20000 pages were read.]") || header.Get("X-Svc-Truncated") != "true" {
		t.Errorf("as text: %d %v … %q", status, header, answer[max(0, len(answer)-100):])
	}
	kind, body = form(part{"file", "a.pdf", string(pages(3))})
	status, header, answer = s.send(context.Background(), parsing, kind, body)
	if status != 200 || header.Get("X-Svc-Truncated") != "" || strings.Contains(answer, "truncated") {
		t.Errorf("a whole document: %d %v %.200s", status, header, answer)
	}
	s.charged(t, 2)
	s.CLI("verify")
}
