package parse

import (
	"errors"
	"path/filepath"
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
	ofArchive(f, "word/document.xml", readDOCX, "_rels/.rels", wordRoot)
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
