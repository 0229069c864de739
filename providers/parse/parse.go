package parse

import (
	"cmp"
	"context"
	"net/http"
	"time"
	"unsafe"

	"farebox/providers/jail"
)

// What children do with documents, by name.
const (
	parseJob = "parse"
	drawJob  = "draw"
)

const (
	// tikaLimit is how long a Tika server may take.
	tikaLimit = 20 * time.Second
	// defaultScans is how many pages of a scan are read unless Options say
	// otherwise, and scanLimit how long that may take.
	defaultScans = 20
	scanLimit    = time.Minute
)

// Options of a Parser; with the zero value everything is read here.
type Options struct {
	// PDFToText is the path of poppler's pdftotext, which then reads PDFs.
	PDFToText string
	// Tika is the address of a Tika server, such as http://127.0.0.1:9998, which
	// then reads all but text. The operator runs it; it sees the documents.
	Tika string
	// Tesseract is the path of tesseract, which then reads scans; Languages are
	// its, such as "eng+deu".
	Tesseract, Languages string
	// Scans is how many pages of a scan are read; 0: 20.
	Scans int
	// Client is for Tika; nil: one that asks nobody else.
	Client *http.Client
}

// Text is what a document says.
type Text struct {
	Text string
	Kind Kind
}

// Parser makes text of documents. Safe for concurrent use.
type Parser struct {
	jail *jail.Pool
	o    Options
}

// New makes a Parser whose dangerous work pool does; its children must know Jobs.
func New(pool *jail.Pool, o Options) *Parser {
	o.Scans = cmp.Or(o.Scans, defaultScans)
	if o.Client == nil {
		o.Client = &http.Client{
			Transport:     &http.Transport{Proxy: nil, MaxResponseHeaderBytes: 32 << 10},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Parser{jail: pool, o: o}
}

// Text reads a document. The error is an *Error, or ctx's.
func (p *Parser) Text(ctx context.Context, doc []byte) (Text, error) {
	text, err := p.read(ctx, doc)
	return text, explain(err)
}

// opened takes apart what a child sent: the kind, then the text.
func opened(out []byte) (Text, error) {
	if len(out) < 2 || out[0] >= byte(kinds) {
		return Text{}, refuse(Broken)
	}
	// Nobody else holds these bytes, and the text may be as large as all that
	// the gateway has to spare.
	return Text{Text: unsafe.String(&out[1], len(out)-1), Kind: Kind(out[0])}, nil
}
