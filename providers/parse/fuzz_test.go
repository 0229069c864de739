package parse

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"unicode/utf8"

	"farebox/providers/jail"
)

// fuzz tries a reader of ours outside of the jail: it must end with tidy text or
// with a refusal, never with a panic.
func fuzz(f *testing.F, read func(t *testing.T, s *sink, doc []byte) error) {
	f.Fuzz(func(t *testing.T, doc []byte) {
		out, err := outside(func(s *sink) error { return read(t, s, doc) })
		var said *jail.Refusal
		switch {
		case err != nil && !errors.As(err, &said):
			t.Errorf("%v, want a refusal", err)
		case err == nil && (len(out) == 0 || len(out) > maxText || !utf8.Valid(out)):
			t.Errorf("%d bytes of text, valid: %v", len(out), utf8.Valid(out))
		}
	})
}

// ofArchive fuzzes a part of an archive whose other parts are fine.
func ofArchive(f *testing.F, name string, read func(*sink, *archive) error, others ...string) {
	fuzz(f, func(t *testing.T, s *sink, doc []byte) error {
		a, err := openArchive(zipped(t, append([]string{name, string(doc)}, others...)...))
		if err != nil {
			return err
		}
		return read(s, a)
	})
}

func FuzzDOCX(f *testing.F) {
	f.Add([]byte(`<w:document><w:p><w:t>a</w:t><w:tab/><w:br/></w:p>` +
		`<w:tbl><w:tr><w:tc><w:p/></w:tc></w:tr></w:tbl></w:document>`))
	f.Add([]byte(`<mc:Fallback><mc:Fallback/><w:t>x</w:t></mc:Fallback>`))
	f.Add([]byte(`<?xml version="1.0" encoding="utf-16"?><!DOCTYPE x><a>&lt;</a>`))
	f.Add([]byte(`<w:tbl><w:gridCol/><w:gridCol/><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr><w:p><w:r><w:rPr><w:vanish/>` +
		`</w:rPr><w:t>|</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:vMerge/></w:tc></w:tr></w:tbl></w:tc></w:tr></w:tbl>`))
	f.Add([]byte(`<w:p><w:pPr><w:pStyle w:val="s"/><w:numPr><w:ilvl w:val="1"/><w:numId w:val="1"/></w:numPr></w:pPr></w:p>`))
	ofArchive(f, "word/document.xml", readDOCX, "_rels/.rels", wordRoot,
		"word/_rels/document.xml.rels", relsHead+`<Relationship Id="n" Type="numbering" Target="n.xml"/></Relationships>`,
		"word/n.xml", `<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="1"><w:lvlText w:val="%1.%2."/></w:lvl></w:abstractNum>`+
			`<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>`)
}

func FuzzNumbering(f *testing.F) {
	f.Add([]byte(`<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="3999"/><w:numFmt w:val="upperRoman"/>` +
		`<w:lvlText w:val="%1."/></w:lvl></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>`))
	f.Add([]byte(`<w:num w:numId="1"><w:lvlOverride w:ilvl="99"><w:startOverride w:val="-9"/></w:lvlOverride></w:num>`))
	ofArchive(f, "word/n.xml", readDOCX, "_rels/.rels", wordRoot,
		"word/_rels/document.xml.rels", relsHead+`<Relationship Id="n" Type="numbering" Target="n.xml"/></Relationships>`,
		"word/document.xml", `<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr><w:t>x</w:t></w:p>`+
			`<w:p><w:pPr><w:numPr><w:ilvl w:val="8"/><w:numId w:val="1"/></w:numPr></w:pPr><w:t>y</w:t></w:p>`)
}

func FuzzChart(f *testing.F) {
	f.Add([]byte(`<c:chart><a:t>x</a:t><c:ser><c:tx><c:v>n</c:v></c:tx><c:cat><c:pt idx="0"><c:v>c</c:v></c:pt></c:cat>` +
		`<c:val><c:pt idx="-7"><c:v>1</c:v></c:pt></c:val></c:ser></c:chart>`))
	f.Add([]byte(`<c:v>1</c:v><c:ser/><c:val/><c:v/>`))
	ofArchive(f, "word/c.xml", readDOCX, "_rels/.rels", wordRoot, "word/document.xml", `<w:p><w:t>x</w:t></w:p>`,
		"word/_rels/document.xml.rels", relsHead+`<Relationship Id="c" Type="chart" Target="c.xml"/></Relationships>`)
}

// The tags of a sheet are looked at by a scanner of its own, piece by piece.
func FuzzSheetTags(f *testing.F) {
	f.Add([]byte(`<dimension ref="A1:C3"/><cols><col min="2" max="3" hidden="1"/></cols><v>1</v><mergeCell ref="A1:B2"/>`), 7)
	f.Add([]byte(`<x:col min='1' max="`), 1)
	f.Fuzz(func(t *testing.T, part []byte, size int) {
		var whole, pieces tags
		for _, v := range []*tags{&whole, &pieces} {
			v.sheets = map[string]*layout{}
			w, step := v.see("xl/worksheets/sheet1.xml"), len(part)
			if v == &pieces {
				step = max(1, min(size, len(part)))
			}
			for rest := part; len(rest) > 0; rest = rest[min(step, len(rest)):] {
				_, _ = w.Write(rest[:min(step, len(rest))])
			}
		}
		if whole.found != pieces.found || !reflect.DeepEqual(whole.sheets, pieces.sheets) {
			t.Errorf("in pieces of %d another sheet", size)
		}
	})
}

func FuzzPPTX(f *testing.F) {
	f.Add([]byte(`<p:presentation><p:sldId r:id="a"/><p:sldId id="1"/></p:presentation>`))
	ofArchive(f, "ppt/presentation.xml", readPPTX, "_rels/.rels", deckRoot, "ppt/slides/s.xml", `<a:p><a:t>x</a:t></a:p>`,
		"ppt/_rels/presentation.xml.rels",
		relsHead+`<Relationship Id="a" Type="slide" Target="slides/s.xml"/></Relationships>`)
}

func FuzzEPUBChapter(f *testing.F) {
	f.Add([]byte(`<html><head><script/></head><body><p>a&amp;b<br/>c</p></body></html>`))
	f.Add([]byte("\xff\xfe<\x00p\x00>\x00"))
	ofArchive(f, "c", readEPUB, "META-INF/container.xml", `<rootfile full-path="b"/>`,
		"b", `<x><item id="c" href="c"/><itemref idref="c"/></x>`)
}

func FuzzArchive(f *testing.F) {
	f.Add(word(f, `<w:p><w:t>a</w:t></w:p>`))
	f.Add(book1(f, `<p>a</p>`))
	f.Add(zipped(f, workbookParts()...))
	fuzz(f, func(_ *testing.T, s *sink, doc []byte) error {
		a, err := openArchive(doc)
		if err != nil {
			return err
		}
		if kind, read := a.reader(); read != nil && kind != XLSX { // whose reader is not ours
			return read(s, a)
		}
		return refuse(Unsupported)
	})
}

func FuzzPlain(f *testing.F) {
	f.Add([]byte("\xff\xfea\x00"))
	f.Add([]byte("Stra\xdfe\r\n"))
	fuzz(f, func(_ *testing.T, s *sink, doc []byte) error { return readPlain(s, doc) })
}

func FuzzXLS(f *testing.F) {
	if made, err := filepath.Glob("testdata/*.biff"); err == nil {
		for _, name := range made {
			f.Add(file(f, name))
		}
	}
	fuzz(f, func(_ *testing.T, s *sink, doc []byte) error { return readBIFF(s, doc) })
}
