package parse

import (
	"bytes"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Kind is a document's format.
type Kind uint8

// The formats.
const (
	Plain Kind = iota // text of any sort
	PDF
	DOCX
	PPTX
	XLSX
	XLS
	EPUB
	kinds
)

var kindNames = [kinds]string{"text", "pdf", "docx", "pptx", "xlsx", "xls", "epub"}

// String is the format's name in logs and metrics.
func (k Kind) String() string { return kindNames[k] }

// family is the format by the first bytes; the content of an archive or a compound file is
// examined in the jail.
type family uint8

const (
	looksPlain family = iota
	looksPDF
	looksZip
	looksCompound
	looksForeign // of another format for certain
)

// headLen is where a PDF's head must begin: readers allow rubbish before it.
const headLen = 1024

func familyOf(doc []byte) family {
	head := doc[:min(len(doc), headLen)]
	switch {
	case bytes.HasPrefix(head, []byte("%PDF-")), bytes.Contains(head, []byte("%PDF-")) && !utf8.Valid(doc):
		return looksPDF // not a text that mentions it
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return looksZip
	case bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")):
		return looksCompound
	case bytes.HasPrefix(head, []byte(`{\rtf`)):
		return looksForeign
	}
	kind := http.DetectContentType(head)
	if strings.HasPrefix(kind, "text/") || kind == "application/octet-stream" || utf8.Valid(doc) && !stray(head) {
		return looksPlain // a text may well begin with BM or GIF8
	}
	return looksForeign
}
