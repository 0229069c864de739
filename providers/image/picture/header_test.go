package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	stdimage "image"
	"strings"
	"sync"
	"testing"

	_ "golang.org/x/image/webp"
)

// files are whole images of all kinds, some larger than the first part that is read.
var files = sync.OnceValue(func() map[string][]byte {
	return map[string][]byte{
		"png": pngOf(150, 130), "jpeg": jpegOf(150, 140), "webp": webpOf(100, 90), "lossless": lossless(60, 70),
		"plain":     plainWebP(90, 60),
		"large png": pngOf(500, 400), "large jpeg": jpegOf(600, 500),
	}
})

// A file's header is read as decoders read it, from raw bytes and from base64.
func TestHeadersAreReadAsByDecoders(t *testing.T) {
	t.Parallel()
	for name, file := range files() {
		cfg, format, err := stdimage.DecodeConfig(bytes.NewReader(file))
		if err != nil {
			t.Fatal(name, err)
		}
		for _, h := range []func() (Header, error){
			func() (Header, error) { return Read(nil, file) },
			func() (Header, error) { return Read(textOf(file), nil) },
		} {
			got, err := h()
			if err != nil || got.Width != cfg.Width || got.Height != cfg.Height || got.Format.String() != format ||
				got.Size != int64(len(file)) || got.Frames != 1 {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
}

// A file that is cut off anywhere is refused.
func TestCutFilesAreRefused(t *testing.T) {
	t.Parallel()
	for name, file := range map[string][]byte{"png": pngOf(16, 12), "jpeg": jpegOf(16, 12), "webp": webpOf(16, 12),
		"lossless": lossless(16, 12), "plain": plainWebP(16, 12)} {
		for n := range len(file) {
			if _, err := Read(nil, file[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes are accepted", name, n, len(file))
			}
			if n%3 == 0 {
				if _, err := Read(textOf(file[:n]), nil); err == nil {
					t.Errorf("%s: text of %d bytes is accepted", name, n)
				}
			}
		}
	}
}

// Bytes after an image are not part of it; with bytes before it, the file is not an image.
func TestBytesAroundAnImageAreNotPartOfIt(t *testing.T) {
	t.Parallel()
	for name, file := range files() {
		for _, tail := range []string{"\x00", "<script>alert(1)</script>", "PK\x03\x04zip",
			strings.Repeat("x", 200_000)} {
			h, err := Read(nil, append(append([]byte(nil), file...), tail...))
			if err != nil || h.Size != int64(len(file)) {
				t.Errorf("%s with a tail: %+v, %v", name, h, err)
			}
			if _, err := Read(nil, append([]byte(tail), file...)); err == nil {
				t.Errorf("%s after %.9q is accepted", name, tail)
			}
		}
	}
}

// Files that cost a decoder dear, or are something else, are found by their structure alone.
func TestHostileFilesAreRefused(t *testing.T) {
	t.Parallel()
	small := jpegOf(300, 300)
	animated := pngOf(300, 300)
	animated = append(append(append([]byte(nil), animated[:33]...),
		chunkOf("acTL", []byte{0, 0, 0, 99, 0, 0, 0, 0})...), animated[33:]...)
	moving := []byte("RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\xff\x01\x00\xff\x01\x00ANIM\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	moving = append(moving, "ANMF\x10\x00\x00\x00"...)
	moving = append(moving, make([]byte, 16)...)
	binary.LittleEndian.PutUint32(moving[4:], uint32(len(moving)-8))
	lying := append([]byte(nil), webpOf(300, 300)...)
	if string(lying[12:16]) != "VP8X" {
		t.Fatal("the encoder writes no extended header")
	}
	lying[24]++ // the canvas's width
	scans := append([]byte(nil), small...)
	at := bytes.Index(scans, []byte{0xff, 0xda})
	scans = append(scans[:len(scans)-2:len(scans)-2], bytes.Repeat(append(append([]byte(nil), small[at:at+14]...), 1, 2,
		3), 200)...)
	scans = append(scans, 0xff, 0xd9)
	chunks := append([]byte(nil), pngOf(300, 300)[:33]...)
	chunks = append(chunks, bytes.Repeat(chunkOf("teSt", nil), maxChunks+1)...)
	headers := append([]byte(nil), pngOf(300, 300)...)
	headers = append(append(append([]byte(nil), headers[:33]...), headers[8:33]...), headers[33:]...)
	badSum := pngOf(300, 300)
	badSum[29]++
	for name, c := range map[string]struct {
		file []byte
		code string
	}{
		"animated PNG":    {animated, "CORRUPTED_IMAGE"},
		"animated WebP":   {moving, "CORRUPTED_IMAGE"},
		"two sizes":       {lying, "CORRUPTED_IMAGE"},
		"many scans":      {scans, "CORRUPTED_IMAGE"},
		"many chunks":     {chunks, "CORRUPTED_IMAGE"},
		"two headers":     {headers, "CORRUPTED_IMAGE"},
		"broken checksum": {badSum, "CORRUPTED_IMAGE"},
		"PNG bomb":        {claims(60_000, 60_000), "IMAGE_TOO_LARGE"},
		"thin bomb":       {claims(33_177_600, 1), "IMAGE_TOO_LARGE"},
		"impossible":      {claims(1<<31, 1<<31), "CORRUPTED_IMAGE"},
		"overflowing":     {claims(1<<31-1, 1<<31-1), "IMAGE_TOO_LARGE"},
		"no width":        {claims(0, 100_000), "CORRUPTED_IMAGE"},
		"a pixel short":   {claims(65_535, 1), "IMAGE_TOO_SMALL"},
		"GIF":             {[]byte("GIF89a\x00\x02\x00\x02\x00\x00\x00;"), "CORRUPTED_IMAGE"},
		"PDF":             {[]byte("%PDF-1.7\n" + strings.Repeat("x", 100)), "CORRUPTED_IMAGE"},
		"SVG": {[]byte(`<svg xmlns="http://www.w3.org/2000/svg" width="999" height="999"/>`),
			"CORRUPTED_IMAGE"},
		"HTML":             {[]byte("<html>" + strings.Repeat("x", 100)), "CORRUPTED_IMAGE"},
		"TIFF":             {append([]byte("II*\x00\x08\x00\x00\x00"), make([]byte, 100)...), "CORRUPTED_IMAGE"},
		"HEIC":             {[]byte("\x00\x00\x00\x18ftypheic" + strings.Repeat("\x00", 100)), "CORRUPTED_IMAGE"},
		"empty":            {[]byte{}, "CORRUPTED_IMAGE"},
		"JPEG without SOF": {[]byte("\xff\xd8\xff\xe0\x00\x04ab\xff\xd9"), "CORRUPTED_IMAGE"},
		"arithmetic JPEG":  {bytes.Replace(small, []byte{0xff, 0xc0}, []byte{0xff, 0xc9}, 1), "CORRUPTED_IMAGE"},
		"RIFF of sound":    {append([]byte("RIFF\x64\x00\x00\x00WAVEfmt "), make([]byte, 100)...), "CORRUPTED_IMAGE"},
	} {
		h, err := Read(nil, c.file)
		if err == nil {
			err = h.Accept()
		}
		var no *Refusal
		if !errors.As(err, &no) || no.Code != c.code || no.Text == "" {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}

// The limits of addendum 8 hold at their edge.
func TestLimitsAtTheEdge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		w, h int
		size int64
		code string
	}{
		{256, 256, 1000, ""}, {1, 65_536, 1000, "IMAGE_TOO_LARGE"}, {2, 32_768, 1000, ""},
		{255, 257, 1000, "IMAGE_TOO_SMALL"}, {256, 255, 1000, "IMAGE_TOO_SMALL"},
		{7680, 4320, 1000, ""}, {7681, 4320, 1000, "IMAGE_TOO_LARGE"}, {512, 64_800, 1000, ""}, {65_535, 506, 1000, ""},
		{65_535, 507, 1000, "IMAGE_TOO_LARGE"},
		{512, 512, MaxSize - 1, ""}, {512, 512, MaxSize, "IMAGE_TOO_LARGE"},
	} {
		err := Header{Format: PNG, Width: c.w, Height: c.h, Size: c.size, Frames: 1}.Accept()
		code := ""
		var no *Refusal
		if errors.As(err, &no) {
			code = no.Code
			if want := map[string]int{"IMAGE_TOO_LARGE": 422, "IMAGE_TOO_SMALL": 400}[code]; no.Status != want {
				t.Errorf("%s has status %d", code, no.Status)
			}
		}
		if code != c.code {
			t.Errorf("%dx%d, %d bytes: %q", c.w, c.h, c.size, code)
		}
	}
}

// Text that is not base64 is found wherever that is.
func TestBrokenTextIsFound(t *testing.T) {
	t.Parallel()
	text := textOf(pngOf(500, 400))
	if len(text) < 2*windowLen {
		t.Fatal("the file is too small for this")
	}
	for _, at := range []int{0, 1, 17, len(text) / 2, windowLen/3*4 - 1, windowLen / 3 * 4, len(text) - 5,
		len(text) - 1} {
		for _, c := range []byte{'%', '-', '_', '\n', ' ', 0, 0x80, '='} {
			if text[at] == c {
				continue
			}
			bad := append([]byte(nil), text...)
			bad[at] = c
			if h, err := Read(bad, nil); err == nil {
				t.Errorf("%q at %d: %+v", c, at, h)
			}
		}
	}
	for _, bad := range []string{"", "=", "====", "A", "AA", "AAA", "iVBORw0KGgo"} {
		if _, err := Read([]byte(bad), nil); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestFormatsHaveNames(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Format{"png": PNG, "jpeg": JPEG, "jpg": JPEG, "webp": WebP, "gif": Unknown,
		"": Unknown, "PNG": Unknown} {
		if ParseFormat(name) != f {
			t.Error(name)
		}
	}
	if s := fmt.Sprint(PNG, JPEG, WebP, GIF, Unknown); s != "png jpeg webp gif " {
		t.Error(s)
	}
	if PNG.ContentType() != "image/png" || Unknown.ContentType() != "application/octet-stream" {
		t.Error("content types")
	}
}
