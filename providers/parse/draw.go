package parse

import (
	"fmt"
	"image"
	"strconv"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"

	"farebox/providers/jail"
)

// noPage is the code of a page behind the last one.
const noPage = "no_page"

// A page is drawn at most this large: A4 at 240 dots an inch, which recognition needs.
const scanWidth, scanHeight = 1984, 2806

// draw draws the page whose index word is, in grey, as a PGM.
func draw(doc []byte, word string) (out []byte, err error) {
	index, err := strconv.Atoi(word)
	if err != nil {
		return nil, err
	}
	err = safely(func() error {
		return withPDF(doc, func(in pdfium.Pdfium, d references.FPDF_DOCUMENT, pages int) error {
			if index >= pages {
				return &jail.Refusal{Code: noPage}
			}
			drawn, err := in.RenderPageInPixels(&requests.RenderPageInPixels{
				Page:  requests.Page{ByIndex: &requests.PageByIndex{Document: d, Index: index}},
				Width: scanWidth, Height: scanHeight,
			})
			if err != nil {
				return err
			}
			defer drawn.Cleanup()
			out = grey(drawn.Result.Image)
			return nil
		})
	})
	return out, err
}

// grey writes a picture as a PGM, the simplest format that tesseract reads, upon white.
func grey(m *image.RGBA) []byte {
	b := m.Bounds()
	out := fmt.Appendf(make([]byte, 0, 32+b.Dx()*b.Dy()), "P5 %d %d 255\n", b.Dx(), b.Dy())
	for y := b.Min.Y; y < b.Max.Y; y++ {
		row := m.Pix[m.PixOffset(b.Min.X, y):m.PixOffset(b.Max.X, y)]
		for ; len(row) >= 4; row = row[4:] {
			// ITU-R BT.601 in 16 bits; the colours are multiplied by alpha.
			v := (19595*uint32(row[0]) + 38470*uint32(row[1]) + 7471*uint32(row[2])) >> 16
			out = append(out, byte(min(v+255-uint32(row[3]), 255)))
		}
	}
	return out
}
