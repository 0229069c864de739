package picture

import (
	"bytes"
	"encoding/binary"
	stdimage "image"
	"strings"
	"testing"

	"farebox/bench/servers"
)

// A note is in the file, and the pixels are unchanged.
func TestNotesLeaveThePixelsAlone(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	for name, file := range files() {
		if strings.HasPrefix(name, "large") {
			continue // decoding them shows nothing more
		}
		h, err := Read(nil, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"a cat\nSteps: 8, Seed: 5", "ünïcode 猫", "", "odd", "even",
			strings.Repeat("x", 1<<20), "nul\x00byte", "broken \xff utf"} {
			before := append([]byte(nil), file...)
			out := Annotate(h, file, Note{Software: "farebox", Text: text})
			if !bytes.Equal(file, before) {
				t.Fatalf("%s: the file itself was changed", name)
			}
			got, err := Read(nil, out)
			if err != nil || got.Width != h.Width || got.Height != h.Height || got.Format != h.Format ||
				got.Size != int64(len(out)) {
				t.Errorf("%s with %.9q: %+v, %v", name, text, got, err)
				continue
			}
			a, _, err := stdimage.Decode(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			b, _, err := stdimage.Decode(bytes.NewReader(out))
			if err != nil {
				t.Errorf("%s with %.9q cannot be decoded: %v", name, text, err)
				continue
			}
			samePixels(t, a, b)
			if description, software := readEXIF(t, h.Format, out); description != tidy(text) || software != "farebox" {
				t.Errorf("%s: %.20q by %q", name, description, software)
			}
		}
	}
}

// A file that has EXIF already keeps it.
func TestNotesDoNotReplaceOthers(t *testing.T) {
	t.Parallel()
	file := webpOf(80, 80)
	h, _ := Read(nil, file)
	once := Annotate(h, file, Note{Text: "first"})
	h, err := Read(nil, once)
	if err != nil {
		t.Fatal(err)
	}
	if twice := Annotate(h, once, Note{Text: "second"}); !bytes.Equal(once, twice) {
		t.Error("it was replaced")
	}
}

// readEXIF finds the block the way readers do, and its two tags.
func readEXIF(t *testing.T, f Format, file []byte) (description, software string) {
	t.Helper()
	var b []byte
	switch f {
	case PNG:
		at := bytes.Index(file, []byte("eXIf"))
		b = file[at+4 : at+4+int(binary.BigEndian.Uint32(file[at-4:]))]
	case JPEG:
		if string(file[6:12]) != "Exif\x00\x00" {
			t.Fatal("no segment APP1")
		}
		b = file[12 : 4+int(binary.BigEndian.Uint16(file[4:]))]
	case WebP:
		if string(file[12:16]) != "VP8X" || file[20]&webpEXIF == 0 {
			t.Fatal("no extended header")
		}
		at := bytes.LastIndex(file, []byte("EXIF"))
		b = file[at+8 : at+8+int(binary.LittleEndian.Uint32(file[at+4:]))]
	case Unknown, GIF:
	}
	le := binary.LittleEndian
	if string(b[:4]) != "II*\x00" {
		t.Fatalf("no TIFF block: %q", b[:4])
	}
	ifd := b[le.Uint32(b[4:]):]
	for i := range int(le.Uint16(ifd)) {
		e := ifd[2+12*i:]
		n := int(le.Uint32(e[4:]))
		v := e[8 : 8+min(n, 4)]
		if n > 4 {
			v = b[le.Uint32(e[8:]):][:n]
		}
		text := strings.TrimSuffix(string(v[:n]), "\x00")
		switch le.Uint16(e) {
		case 0x010e:
			description = text
		case 0x0131:
			software = text
		}
	}
	return description, software
}
