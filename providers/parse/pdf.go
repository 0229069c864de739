package parse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/klippa-app/go-pdfium"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
)

// pdfPages bounds the memory of PDFium's WebAssembly, in pages of 64 KiB: 160
// MiB. It grows by copying, so that the jail must have room for twice that.
const pdfPages = 2560

// engine makes instances of PDFium, one for each document: nothing of one client's
// document is left when another's is read. PDFium is the one reader that is not made
// of Go, so that a document may take it over, which gives it the memory of its own
// instance. An instance is made in milliseconds, another child in a tenth of a second.
var engine pdfium.Pool

// Warm compiles PDFium before the jail closes: afterwards no memory can become
// executable. It takes a second or two, and a tenth of one where cache, a
// directory that only the operator can write to, holds it already.
func Warm(cache string) error {
	err := compile(cache)
	if err != nil && cache != "" {
		err = compile("") // the directory may be full or not ours
	}
	return err
}

func compile(cache string) error {
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(pdfPages)
	if cache != "" {
		kept, err := wazero.NewCompilationCacheWithDir(cache)
		if err != nil {
			return err
		}
		config = config.WithCompilationCache(kept)
	}
	made, err := webassembly.Init(webassembly.Config{
		MaxIdle: 0, MaxTotal: -1, // an instance that trapped is never given back
		RuntimeConfig: config, FSConfig: wazero.NewFSConfig(), Stdout: io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		return err
	}
	engine = made
	first, err := engine.GetInstance(time.Minute)
	if err != nil {
		return err
	}
	return first.Close()
}

// readPDF reads page after page. An instance that trapped is not closed: that would run its
// code on broken memory. The jail replaces children whose memory grew.
func readPDF(s *sink, doc []byte) error {
	return withPDF(doc, func(in pdfium.Pdfium, d references.FPDF_DOCUMENT, pages int) error {
		r := &pdfReader{Pdfium: in, doc: d}
		defer r.leaveForm()
		for i := 0; i < pages && !s.full; i++ {
			s.page(i, pages)
			text, err := r.page(i)
			switch {
			case err != nil && (s.sent > 0 || len(s.buf) > 0):
				return refuse(TooLarge) // the memory of its instance, more often than not
			case err != nil:
				return err
			}
			s.text(hyphens.Replace(text))
			s.paragraph()
			s.pause()
		}
		if !s.full {
			s.page(pages, pages)
		}
		return nil
	})
}

// withPDF has f work on an open document.
func withPDF(doc []byte, f func(in pdfium.Pdfium, d references.FPDF_DOCUMENT, pages int) error) error {
	in, err := engine.GetInstance(time.Minute)
	if err != nil {
		return err
	}
	if at := bytes.Index(doc[:min(len(doc), headLen)], []byte("%PDF-")); at > 0 {
		doc = doc[at:]
	}
	opened, err := in.OpenDocument(&requests.OpenDocument{File: &doc})
	switch {
	case errors.Is(err, pdferrors.ErrPassword), errors.Is(err, pdferrors.ErrSecurity):
		err = refuse(Encrypted)
	case err != nil:
		err = refuse(Broken)
	}
	if err != nil {
		return err
	}
	count, err := in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	switch {
	case err != nil:
		return err
	case count.PageCount <= 0:
		err = refuse(Empty)
	default:
		err = f(in, opened.Document, count.PageCount)
	}
	if err != nil {
		return err
	}
	return in.Close()
}

// pdfReader reads the pages of one document.
type pdfReader struct {
	pdfium.Pdfium
	doc  references.FPDF_DOCUMENT
	form references.FPDF_FORMHANDLE // empty until a field needs it
}

// page is the text of a page, with that of its annotations. A page that cannot be
// loaded is left out, as viewers do; a trap ends the document.
func (r *pdfReader) page(index int) (string, error) {
	plain, err := r.load(index)
	if plain == nil || err != nil {
		return "", err
	}
	notes, err := r.notes(plain.page)
	if err != nil {
		return "", err
	}
	text, err := r.withNotes(plain, notes, index)
	if err != nil {
		return "", err
	}
	return text, r.close(plain)
}

// pdfPage is a page that is open, with its text.
type pdfPage struct {
	page  references.FPDF_PAGE
	text  references.FPDF_TEXTPAGE
	chars int
}

// load opens a page; nil: it cannot be.
func (r *pdfReader) load(index int) (*pdfPage, error) {
	page, err := r.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: r.doc, Index: index})
	if errors.Is(err, pdferrors.ErrPage) || errors.Is(err, pdferrors.ErrUnknown) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	text, err := r.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: requests.Page{ByReference: &page.Page}})
	if err != nil {
		return nil, err
	}
	count, err := r.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: text.TextPage})
	if err != nil {
		return nil, err
	}
	if count.Count > maxText {
		return nil, refuse(TooLarge)
	}
	return &pdfPage{page.Page, text.TextPage, max(count.Count, 0)}, nil
}

// readText is the text of some characters.
func (r *pdfReader) readText(p *pdfPage, from, to int) (string, error) {
	if from >= to {
		return "", nil
	}
	got, err := r.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: p.text, StartIndex: from, Count: to - from})
	if err != nil {
		return "", err
	}
	return got.Text, nil
}

func (r *pdfReader) close(p *pdfPage) error {
	if _, err := r.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: p.text}); err != nil {
		return err
	}
	_, err := r.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: p.page})
	return err
}

// hyphens joins words that PDFium marks as parted at the end of a line.
var hyphens = strings.NewReplacer("\x02\r\n", "", "\x02", "-", "\ufffe\r\n", "", "\ufffe", "-", "\x00", "")
