package parse

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"

	"farebox/config/fair"
	"farebox/providers/jail"
)

// read has the operator's programs read the formats set for them, and the jail all others.
func (p *Parser) read(ctx context.Context, doc []byte) (Text, error) {
	kind := familyOf(doc)
	var text Text
	var err error
	if p.o.PDFToText != "" && kind == looksPDF {
		text, err = p.poppler(ctx, doc)
	} else {
		text, err = p.inJail(ctx, doc)
	}
	var said *jail.Refusal
	if p.o.Tesseract != "" && kind == looksPDF && errors.As(err, &said) && said.Code == codes[NoText] {
		return p.scan(ctx, doc)
	}
	return text, err
}

func (p *Parser) inJail(ctx context.Context, doc []byte) (Text, error) {
	out, err := p.jail.Do(ctx, parseJob, "", doc)
	if err != nil && !cutShort(err) {
		return Text{}, err
	}
	text, ok := opened(out, err != nil)
	switch {
	case ok:
		return text, nil
	case err != nil:
		return Text{}, err
	}
	return Text{}, refuse(Broken)
}

// poppler has pdftotext read a PDF. It has one exit code for all that is wrong
// with a file.
func (p *Parser) poppler(ctx context.Context, doc []byte) (Text, error) {
	out, err := p.jail.Run(ctx, doc, p.o.PDFToText, "-enc", "UTF-8", "-", "-")
	var said *jail.Refusal
	if errors.As(err, &said) {
		switch {
		case strings.Contains(said.Text, "password"):
			return Text{}, refuse(Encrypted)
		case said.Code == "1" || said.Code == "3": // it cannot be opened, or may not be copied from
			return Text{}, refuse(Broken)
		}
		return Text{}, refuse(Unavailable)
	}
	return finished(PDF, out, err, bytes.Count(out, []byte("\f")))
}

// finished tidies an engine's text of so many pages. It may have been cut short.
func finished(kind Kind, out []byte, err error, pages int) (Text, error) {
	if err != nil && !cutShort(err) {
		return Text{}, err
	}
	cut := err != nil || len(out) > maxText
	out = tidy(out[:min(len(out), maxText)])
	switch {
	case len(out) > 0:
		return Text{Kind: kind, Truncated: cut, Pages: pages}.with(out), nil
	case err != nil:
		return Text{}, err
	case cut:
		return Text{}, refuse(TooLarge)
	}
	return Text{}, refuse(NoText)
}

// late names the cause of a failure: the caller, the clock, or err itself.
func late(ctx, limited context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return jail.ErrTooSlow
	}
	return err
}

// scan has pages drawn in the jail, one after the other, and read by tesseract. One page
// more is drawn than is read: it shows whether the document goes on.
func (p *Parser) scan(ctx context.Context, doc []byte) (Text, error) {
	limited, cancel := fair.WithLimit(ctx, scanLimit)
	defer cancel()
	s := &sink{}
	languages := p.o.Languages
	if languages == "" {
		languages = "eng"
	}
	page := 0
	for ; ; page++ {
		picture, err := p.jail.Do(limited, drawJob, strconv.Itoa(page), doc)
		var said *jail.Refusal
		if errors.As(err, &said) && said.Code == noPage {
			return finished(PDF, s.buf, nil, page)
		}
		if page == p.o.Scans && err == nil {
			err = jail.ErrTooLarge
		}
		if err != nil {
			return finished(PDF, s.buf, late(ctx, limited, err), page)
		}
		out, err := p.jail.Run(limited, picture, p.o.Tesseract, "-", "-", "-l", languages)
		if errors.As(err, &said) { // the operator's installation, more likely than the page
			return Text{}, refuse(Unavailable)
		}
		if err != nil {
			return finished(PDF, s.buf, late(ctx, limited, err), page)
		}
		s.add(out)
		s.paragraph()
	}
}
