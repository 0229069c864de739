package parse

import (
	"archive/zip"
	"bytes"
	"io"
	"path"
	"strings"
)

// Bounds on archives. Real documents pack their XML to a tenth or so; sheets of
// equal rows reach a hundredth.
const (
	maxEntries = 10_000
	// maxUnpacked is all of an archive, maxPart one part that is read.
	maxUnpacked = 256 << 20
	maxPart     = 64 << 20
	// maxRatio is how far an archive above freeUnpacked may have been packed.
	maxRatio     = 200
	freeUnpacked = 32 << 20
)

// archive is a zip file whose claims are within the bounds.
type archive struct {
	doc   []byte
	parts map[string]*zip.File
	left  int64 // bytes that may still be unpacked, whatever was claimed
}

func openArchive(doc []byte) (*archive, error) {
	r, err := zip.NewReader(bytes.NewReader(doc), int64(len(doc)))
	if err != nil {
		return nil, refuse(Broken)
	}
	if len(r.File) > maxEntries {
		return nil, refuse(TooLarge)
	}
	a := &archive{doc: doc, parts: make(map[string]*zip.File, len(r.File)), left: maxUnpacked}
	var total uint64
	for _, f := range r.File {
		if f.Flags&1 != 0 {
			return nil, refuse(Encrypted)
		}
		if total += f.UncompressedSize64; f.UncompressedSize64 > maxUnpacked || total > maxUnpacked {
			return nil, refuse(TooLarge)
		}
		name := clean(f.Name)
		if _, twice := a.parts[name]; twice {
			return nil, refuse(Broken) // readers differ in which one they take
		}
		a.parts[name] = f
	}
	if total > freeUnpacked && total/maxRatio > uint64(len(doc)) {
		return nil, refuse(TooLarge)
	}
	return a, nil
}

// clean is a part's name as parts refer to each other.
func clean(name string) string {
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, `\`, "/")), "/")
}

// open reads a part, or nothing if absent.
func (a *archive) open(name string) (io.ReadCloser, error) {
	f := a.parts[clean(name)]
	if f == nil {
		return io.NopCloser(strings.NewReader("")), nil
	}
	r, err := f.Open()
	if err != nil {
		return nil, refuse(Broken)
	}
	return &partReader{ReadCloser: r, a: a, left: maxPart}, nil
}

// partReader ends with a refusal at the bounds and at damage.
type partReader struct {
	io.ReadCloser
	a    *archive
	left int64
}

func (p *partReader) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.left -= int64(n)
	p.a.left -= int64(n)
	if p.left < 0 || p.a.left < 0 {
		return 0, refuse(TooLarge)
	}
	if err != nil && err != io.EOF {
		err = refuse(Broken) // a checksum, or not the output of deflate
	}
	return n, err
}

// sound unpacks the parts whose names end so, for their sizes and checksums, and shows
// them to see.
func (a *archive) sound(suffix string, see func(name string) io.Writer) error {
	for name := range a.parts {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		r, err := a.open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(see(name), r)
		_ = r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// reader detects the format by the parts that its reader needs first.
func (a *archive) reader() (Kind, func(*sink, *archive) error) {
	if a.parts["META-INF/container.xml"] != nil {
		return EPUB, readEPUB
	}
	main := a.main()
	switch {
	case a.parts[main] == nil:
	case strings.HasPrefix(main, "word/"):
		return DOCX, readDOCX
	case strings.HasPrefix(main, "ppt/"):
		return PPTX, readPPTX
	case strings.HasPrefix(main, "xl/") && strings.HasSuffix(main, ".xml"):
		return XLSX, readXLSX
	}
	return 0, nil
}
