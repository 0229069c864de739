package parse

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/providers/jail"
)

// pdfOf writes objects, the first of which is the catalog, as a file.
func pdfOf(objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	at := make([]int, len(objects))
	for i, o := range objects {
		at[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer <</Size %d /Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, start)
	return b.Bytes()
}

func stream(dict string, data []byte) string {
	return fmt.Sprintf("<<%s /Length %d>>\nstream\n%s\nendstream", dict, len(data), data)
}

// packed is the packed form of n repetitions of a piece.
func packed(w func(io.Writer) io.WriteCloser, piece []byte, n int) []byte {
	var b bytes.Buffer
	z := w(&b)
	for range n {
		_, _ = z.Write(piece)
	}
	_ = z.Close()
	return b.Bytes()
}

func zlibBest(w io.Writer) io.WriteCloser {
	z, _ := zlib.NewWriterLevel(w, zlib.BestCompression)
	return z
}

const (
	catalog = "<</Type /Catalog /Pages 2 0 R>>"
	onePage = "<</Type /Pages /Kids [3 0 R] /Count 1>>"
	page    = "<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources <</Font <</F 5 0 R>>>>>>"
	font    = "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>"
)

// textBomb says a line n times in one packed page.
func textBomb(n int) []byte {
	piece := bytes.Repeat([]byte("BT /F 12 Tf 10 10 Td (all work and no play makes a dull text) Tj ET\n"), 1000)
	return pdfOf(catalog, onePage, page, stream("/Filter /FlateDecode", packed(zlibBest, piece, n/1000)), font)
}

// nestedFilters unpacks to size through three filters.
func nestedFilters(size int) []byte {
	data := packed(zlibBest, make([]byte, 1<<20), size>>20)
	for range 2 {
		data = packed(zlibBest, data, 1)
	}
	return pdfOf(catalog, onePage, page, stream("/Filter [/FlateDecode /FlateDecode /FlateDecode]", data), font)
}

// bigPart is an archive with one part that packs well, of which it may lie.
func bigPart(t testing.TB, name, head, piece, tail string, size, claimed int, others ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w,
			flate.BestCompression)
	})
	for i := 0; i < len(others); i += 2 {
		f, _ := w.Create(others[i])
		_, _ = io.WriteString(f, others[i+1])
	}
	block := strings.Repeat(piece, 1<<20/len(piece)+1)
	var data bytes.Buffer
	z, _ := flate.NewWriter(&data, flate.BestCompression)
	sum, n := crc32.NewIEEE(), 0
	add := func(s string) {
		_, _ = io.WriteString(z, s)
		_, _ = io.WriteString(sum, s)
		n += len(s)
	}
	add(head)
	for n < size {
		add(block)
	}
	add(tail)
	_ = z.Close()
	if claimed == 0 {
		claimed = n
	}
	f, err := w.CreateRaw(&zip.FileHeader{
		Name: name, Method: zip.Deflate, CRC32: sum.Sum32(),
		CompressedSize64: uint64(data.Len()), UncompressedSize64: uint64(claimed),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write(data.Bytes())
	_ = w.Close()
	return b.Bytes()
}

func manyEntries(t testing.TB, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := range n {
		if _, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("word/%d.xml", i)}); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Close()
	return b.Bytes()
}

const (
	sheetHead = `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>`
	sheetTail = `</sheetData></worksheet>`
)

func workbookParts() []string {
	return []string{
		"_rels/.rels", relsHead + `<Relationship Id="r1" Type="` + office +
			`officeDocument" Target="xl/workbook.xml"/></Relationships>`,
		"xl/workbook.xml", `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="` +
			strings.TrimSuffix(office, "/") +
			`"><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels", relsHead + `<Relationship Id="rId1" Type="` + office +
			`worksheet" Target="worksheets/sheet1.xml"/></Relationships>`,
		"[Content_Types].xml",
		`<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">` +
			`<Override PartName="/xl/workbook.xml" ContentType="` +
			`application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>`,
	}
}

// bombs are documents that are small and meant to be large, slow or confusing.
func bombs(t testing.TB, scale int) map[string]func() []byte {
	wordParts := []string{"_rels/.rels", wordRoot}
	paragraph := `<w:p><w:r><w:t>all work and no play </w:t></w:r></w:p>`
	wordTail := `</w:body></w:document>`
	return map[string]func() []byte{
		"PDF: much text":       func() []byte { return textBomb(scale * 3000) },
		"PDF: nested filters":  func() []byte { return nestedFilters(scale << 22) },
		"PDF: a loop of pages": func() []byte { return pdfOf(catalog, "<</Type /Pages /Kids [2 0 R 2 0 R] /Count 2>>") },
		"PDF: pages that promise": func() []byte {
			return pdfOf(catalog,
				"<</Type /Pages /Kids [3 0 R] /Count 2000000000>>", page)
		},
		"PDF: nested arrays": func() []byte {
			return pdfOf(catalog, "<</Type /Pages /Kids "+strings.Repeat("[", scale*10_000)+strings.Repeat("]",
				scale*10_000)+" /Count 1>>")
		},
		"PDF: forms in themselves": func() []byte {
			return pdfOf(catalog, onePage, "<</Type /Page /Parent 2 0 R /Contents 4 0 R /Resources <</XObject <</X 6 0 R>>>>>>",
				stream("", []byte("/X Do /X Do")), font,
				stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources <</XObject <</X 6 0 R>>>>", []byte("/X Do /X Do")))
		},
		"DOCX: one huge part": func() []byte {
			return bigPart(t, "word/document.xml", "<w:document><w:body>", paragraph, wordTail, scale<<22, 0, wordParts...)
		},
		"DOCX: a part that lies": func() []byte {
			return bigPart(t, "word/document.xml", "<w:document><w:body>", paragraph, wordTail, scale<<22, 1000, wordParts...)
		},
		"DOCX: one huge text": func() []byte {
			return bigPart(t, "word/document.xml", "<w:document><w:body><w:p><w:t>", "aaaaaaaaaa", "</w:t></w:p>"+wordTail,
				scale<<22, 1000, wordParts...)
		},
		"DOCX: a tag of attributes": func() []byte {
			return bigPart(t, "word/document.xml", "<w:document ", `a="" `, "/>", min(scale<<22, 60<<20), 0, append(wordParts,
				"pad", noise(scale<<14))...)
		},
		"DOCX: nested elements": func() []byte {
			return bigPart(t, "word/document.xml", "", "<w:tbl>", "", 2_000_000*7, 0, append(wordParts, "pad", noise(1<<18))...)
		},
		"DOCX: entities": func() []byte {
			return zipped(t, append(wordParts, "word/document.xml",
				`<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">`+
					`]><w:document><w:body><w:p><w:t>&b;&b;&b;</w:t></w:p></w:body></w:document>`)...)
		},
		"DOCX: a file from outside": func() []byte {
			return zipped(t, append(wordParts, "word/document.xml",
				`<!DOCTYPE x SYSTEM "file:///etc/passwd"><w:document><w:body><w:p><w:t>x</w:t></w:p></w:body></w:document>`)...)
		},
		"XLSX: one huge sheet": func() []byte {
			return bigPart(t, "xl/worksheets/sheet1.xml", sheetHead,
				`<row><c t="inlineStr"><is><t>all work and no play</t></is></c></row>`, sheetTail,
				scale<<22, 0, workbookParts()...)
		},
		"XLSX: a sheet within the bounds": func() []byte {
			return bigPart(t, "xl/worksheets/sheet1.xml", sheetHead,
				`<row><c t="inlineStr"><is><t>all work and no play</t></is></c></row>`, sheetTail,
				min(scale<<20, 120<<20), 0, append(workbookParts(), "pad", noise(1<<20))...)
		},
		"DOCX: a part within the bounds": func() []byte {
			return bigPart(t, "word/document.xml", "<w:document><w:body>", paragraph, wordTail, min(scale<<20, 63<<20), 0,
				append(wordParts, "pad", noise(1<<20))...)
		},
		"XLSX: a sheet that lies": func() []byte {
			return bigPart(t, "xl/worksheets/sheet1.xml", sheetHead,
				`<row><c t="inlineStr"><is><t>all work and no play</t></is></c></row>`, sheetTail,
				scale<<22, 1000, workbookParts()...)
		},
		"XLSX: sparse rows": func() []byte {
			return bigPart(t, "xl/worksheets/sheet1.xml", sheetHead, `<row><c r="XFD1"><v>1</v></c></row>`, sheetTail,
				min(scale<<13, 30<<20), 0, append(workbookParts(), "pad", noise(1<<18))...)
		},
		"XLSX: entities": func() []byte {
			return zipped(t, append(workbookParts(), "xl/worksheets/sheet1.xml",
				`<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>`+sheetHead+
					`<row><c t="inlineStr"><is><t>&b;</t></is></c></row>`+sheetTail)...)
		},
		"EPUB: one huge chapter": func() []byte {
			return bigPart(t, "c.xhtml", "<html><body>", "<p>all work and no play</p>", "", scale<<22, 0,
				"META-INF/container.xml", `<container><rootfile full-path="b.opf"/></container>`,
				"b.opf", `<package><item id="c" href="c.xhtml"/><itemref idref="c"/></package>`)
		},
		"EPUB: one huge tag": func() []byte {
			return bigPart(t, "c.xhtml", "<html><body><p ", "aaaaaaaaaa", "", min(scale<<22, 60<<20), 0,
				"META-INF/container.xml", `<container><rootfile full-path="b.opf"/></container>`,
				"b.opf", `<package><item id="c" href="c.xhtml"/><itemref idref="c"/></package>`, "pad", noise(scale<<12))
		},
		"ZIP: many entries": func() []byte { return manyEntries(t, max(scale*1000, maxEntries+1)) },
		"text: too much":    func() []byte { return bytes.Repeat([]byte("all work and no play\n"), maxText/21+2) },
		"XLS: a loop of sectors": func() []byte {
			doc := append([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), make([]byte, 512*8)...)
			for i := 24; i < len(doc); i += 4 { // every sector says that the next is the first
				binary.LittleEndian.PutUint32(doc[i:], 0)
			}
			copy(doc[24:], []byte{0x3e, 0, 3, 0, 0xfe, 0xff, 9, 0, 6, 0})
			return doc
		},
	}
}

// noise keeps an archive's ratio low.
func noise(n int) string {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

func TestBombsAreRefused(t *testing.T) {
	servers.NoRace(t)
	refuseBombs(t, 2)
}

// TestLongBombsAreRefused has sizes that hurt: hundreds of megabytes out
// of one or two.
func TestLongBombsAreRefused(t *testing.T) { refuseBombs(t, 150) }

func refuseBombs(t *testing.T, scale int) {
	pool := jail.New(jail.Options{Workers: 1, Cache: sharedCache})
	defer pool.Close()
	p := New(pool, Options{})
	if _, err := p.Text(t.Context(), []byte("warm")); err != nil {
		t.Fatal(err)
	}
	for name, made := range bombs(t, scale) {
		doc := made()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		stop, heap := watchHeap()
		began := time.Now()
		text, err := p.Text(ctx, doc)
		took := time.Since(began)
		grown := stop()
		cancel()
		var e *Error
		switch {
		case err == nil && (scale < 100 || text.Truncated) && len(text.Text) <= maxText+100: // as far as may be
		case err == nil && len(text.Text) < 1000 && strings.HasPrefix(name, "PDF"): // only the text of the file itself
		case err == nil && strings.HasSuffix(name, "within the bounds"):
		case !errors.As(err, &e) || !e.Client():
			t.Errorf("%s: %d bytes of text, %v; want an *Error", name, len(text.Text), err)
		}
		if took > 25*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		if kept := len(text.Text); grown-2*int64(kept) > 30<<20 { // pieces, and the text made of them
			t.Errorf("%s: the parent's heap grew by %d MB of %d", name, grown>>20, heap>>20)
		}
		reason := "text"
		if e != nil {
			reason = e.Reason.String()
		}
		t.Logf("%-33s %8d bytes  %6d ms  %3d MB  %s", name, len(doc), took.Milliseconds(), peakOfChildren()>>20, reason)
		if got, err := p.Text(t.Context(), []byte("still here")); err != nil || got.Text != "still here" {
			t.Fatalf("after %s: %q, %v", name, got.Text, err)
		}
	}
	_ = pool.Close()
	if peak := peakOfChildren(); peak > 600<<20 {
		t.Errorf("a child held %d MB, want 600", peak>>20)
	}
}

// watchHeap watches the heap of this process; stop returns its growth.
func watchHeap() (stop func() int64, began int64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	first := int64(m.HeapAlloc)
	var most atomic.Int64
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), int64(m.HeapAlloc)-first))
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(ended)
		<-gone
		return most.Load()
	}, first
}

func TestTruncatedAndMutatedFilesEndWithATypedError(t *testing.T) {
	servers.NoRace(t)
	mutate(t, 6, map[string][]byte{
		"pdf":  sample(t, "hello_world_compressed_stream.pdf"),
		"epub": book1(t, "<html><body><p>one</p></body></html>"),
		"docx": word(t, "<w:p><w:r><w:t>one</w:t></w:r></w:p>"),
	})
}

func TestLongTruncatedAndMutatedFilesEndWithATypedError(t *testing.T) {
	dir := made(t, 5)
	docs := map[string][]byte{
		"pdf":  sample(t, "hello_world_compressed_stream.pdf"),
		"epub": book1(t, "<html><body><p>one</p></body></html>"),
	}
	for _, kind := range []string{"docx", "pptx", "xlsx", "xls"} {
		docs[kind] = file(t, filepath.Join(dir, "made."+kind))
	}
	mutate(t, servers.Campaign(400), docs)
}

func mutate(t *testing.T, rounds int, docs map[string][]byte) {
	pool := jail.New(jail.Options{Workers: 2, Cache: sharedCache, Limit: 10 * time.Second})
	defer pool.Close()
	p := New(pool, Options{})
	if _, err := p.Text(t.Context(), []byte("warm")); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, uint64(rounds)))
	ends := map[string]int{}
	for kind, doc := range docs {
		for i := range rounds {
			bad := append([]byte(nil), doc...)
			if i%3 == 0 {
				bad = bad[:r.IntN(len(bad))]
			}
			for range i % 7 * 4 {
				if len(bad) > 0 {
					bad[r.IntN(len(bad))] = byte(r.Uint32())
				}
			}
			began := time.Now()
			_, err := p.Text(t.Context(), bad)
			var e *Error
			switch {
			case err == nil:
				ends[kind+" text"]++
			case errors.As(err, &e) && e.Client():
				ends[kind+" "+e.Reason.String()]++
			default:
				t.Errorf("%s: %v", kind, err)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("%s took %v", kind, took)
			}
		}
	}
	t.Logf("%v, %d children died", ends, pool.Died())
}
