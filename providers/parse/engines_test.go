package parse

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/providers/jail"
)

func TestPopplerReadsPDFsWhenAsked(t *testing.T) {
	path := servers.Tool(t, "pdftotext")
	p := New(children(), Options{PDFToText: path})
	text, err := p.Text(t.Context(), sample(t, "hello_world.pdf"))
	if err != nil || !strings.Contains(text.Text, "Hello, world!") || text.Kind != PDF {
		t.Errorf("%q, %v", text.Text, err)
	}
	for name, want := range map[string]Reason{"encrypted.pdf": Encrypted, "black.pdf": NoText} {
		_, err = p.Text(t.Context(), sample(t, name))
		var e *Error
		if !errors.As(err, &e) || e.Reason != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if _, err = p.Text(t.Context(), []byte("%PDF-1.7\nnothing")); err == nil {
		t.Error("a broken PDF has text")
	}
	if text, err = p.Text(t.Context(), []byte("plain")); err != nil || text.Kind != Plain {
		t.Errorf("%v, %v: text needs no poppler", text.Kind, err)
	}
	p = New(children(), Options{PDFToText: "/nonexistent/pdftotext"})
	var e *Error
	if _, err = p.Text(t.Context(), sample(t, "hello_world.pdf")); !errors.As(err, &e) || e.Client() {
		t.Errorf("%v, want Unavailable", err)
	}
}

func TestScansAreDrawnAndReadByTesseract(t *testing.T) {
	path := servers.Tool(t, "tesseract")
	picture, err := children().Do(t.Context(), drawJob, "0", sample(t, "hello_world.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	// A page whose only content is the picture of another.
	var width, height int
	head, pixels, _ := strings.Cut(string(picture), "255\n")
	if _, err := fmt.Sscanf(head, "P5 %d %d", &width, &height); err != nil {
		t.Fatal(err)
	}
	scan := pdfOf(catalog, onePage,
		fmt.Sprintf("<</Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents 4 0 R /Resources "+
			"<</XObject <</X 5 0 R>>>>>>", width/4, height/4), stream("", fmt.Appendf(nil, "%d 0 0 %d 0 0 cm /X Do", width/4,
			height/4)),
		stream(fmt.Sprintf("/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 "+
			"/Filter /FlateDecode", width, height), packed(zlibBest, []byte(pixels), 1)))
	if got := because(t, scan); got != "no_text" {
		t.Fatalf("%s, want no_text", got)
	}
	text, err := New(children(), Options{Tesseract: path}).Text(t.Context(), scan)
	if err != nil || !strings.Contains(text.Text, "Hello, world!") {
		t.Errorf("%q, %v", text.Text, err)
	}
	var e *Error
	if _, err = New(children(), Options{Tesseract: path, Languages: "xxx"}).Text(t.Context(), scan); !errors.As(err,
		&e) || e.Client() {
		t.Errorf("%v, want Unavailable", err)
	}
}

func TestAPageIsDrawn(t *testing.T) {
	out, err := children().Do(t.Context(), drawJob, "0", sample(t, "hello_world.pdf"))
	if err != nil || !strings.HasPrefix(string(out), "P5 ") {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	_, err = children().Do(t.Context(), drawJob, "7", sample(t, "hello_world.pdf"))
	var r *jail.Refusal
	if !errors.As(err, &r) || r.Code != noPage {
		t.Errorf("%v, want %s", err, noPage)
	}
}
