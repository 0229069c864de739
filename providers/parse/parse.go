package parse

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"time"
	"unsafe"

	"farebox/providers/jail"
)

// The jobs of children for documents, by name.
const (
	parseJob = "parse"
	drawJob  = "draw"
)

const (
	// defaultScans is how many pages of a scan are read unless Options say
	// otherwise, and scanLimit how long that may take.
	defaultScans = 20
	scanLimit    = time.Minute
)

// Options of a Parser; with the zero value everything is read here.
type Options struct {
	// PDFToText is the path of poppler's pdftotext, which then reads PDFs.
	PDFToText string
	// Tesseract is the path of tesseract, which then reads scans; Languages are
	// its, such as "eng+deu".
	Tesseract, Languages string
	// Scans is how many pages of a scan are read; 0: 20.
	Scans int
}

// Text is the text of a document.
type Text struct {
	Text string
	Kind Kind
	// Truncated says that the document goes on: it is beyond the limits. The last line of
	// Text says so.
	Truncated bool
	// Pages is how many of AllPages pages Text has; 0: not known.
	Pages, AllPages int
}

// with sets the text of the document, with a last line where it is truncated.
func (t Text) with(text []byte) Text {
	if t.Truncated {
		text = append(append(text, "\n\n"...), t.mark()...)
	} else {
		t.Pages, t.AllPages = 0, 0
	}
	t.Text = unsafe.String(unsafe.SliceData(text), len(text))
	return t
}

// mark is the last line of a text that is truncated.
func (t *Text) mark() string {
	read, what := strconv.Itoa(t.Pages), "pages were"
	switch {
	case t.Pages == 0 || t.Pages == t.AllPages:
		return "[The document continues: the rest was not read.]"
	case t.AllPages > 0:
		read += " of " + strconv.Itoa(t.AllPages)
	case t.Pages == 1:
		what = "page was"
	}
	return "[The document continues: " + read + " " + what + " read.]"
}

// Parser makes text of documents. Safe for concurrent use.
type Parser struct {
	jail *jail.Pool
	o    Options
}

// New makes a Parser whose dangerous work pool does; its children must know Jobs.
func New(pool *jail.Pool, o Options) *Parser {
	o.Scans = cmp.Or(o.Scans, defaultScans)
	return &Parser{jail: pool, o: o}
}

// Text reads a document. Of one that is beyond the limits it has the text up to there.
// The error is an *Error, or ctx's.
func (p *Parser) Text(ctx context.Context, doc []byte) (Text, error) {
	text, err := p.read(ctx, doc)
	return text, explain(err)
}

// opened joins the pieces that a child sent. It may have been cut short. Nothing else holds
// these bytes, and the text may be as large as the gateway's spare memory, so that it is
// not copied.
func opened(out []byte, cut bool) (t Text, ok bool) {
	text := out[:0]
	for len(out) > 0 {
		if len(out) < pieceHead || out[0] >= byte(kinds) {
			return Text{}, false
		}
		number := func(at int) int { return int(binary.LittleEndian.Uint32(out[at:])) }
		n := number(10)
		if n > len(out)-pieceHead {
			return Text{}, false
		}
		t = Text{Kind: Kind(out[0]), Truncated: cut || out[1] != 0, Pages: number(2), AllPages: number(6)}
		text = append(text, out[pieceHead:pieceHead+n]...)
		out = out[pieceHead+n:]
	}
	if len(text) == 0 {
		return Text{}, false
	}
	return t.with(text), true
}

// cutShort says that work ended at a limit of ours, before which there may be text.
func cutShort(err error) bool {
	return errors.Is(err, jail.ErrTooSlow) || errors.Is(err, jail.ErrTooLarge) || errors.Is(err, jail.ErrDied)
}
