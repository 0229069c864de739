package image_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"farebox/providers/image"
	"farebox/providers/image/picture"
)

// The text of a JSON string becomes an input in place, however its writer wrapped it.
func TestTextIsReadInPlace(t *testing.T) {
	t.Parallel()
	file := pngOf(300, 260)
	plain := text(file)
	for name, quoted := range map[string]string{
		"plain":          plain,
		"data URL":       "data:image/png;base64," + plain,
		"data URL, odd":  "DATA:application/x-who-knows;charset=utf-8;BASE64," + plain,
		"escaped":        strings.ReplaceAll(plain, "/", `\/`),
		"lines":          plain[:76] + `\n` + plain[76:152] + `\r\n` + plain[152:],
		"escaped prefix": `data:image\/png;base64,` + strings.ReplaceAll(plain, "/", `\/`),
		"with a tail":    text(append(append([]byte(nil), file...), "PK\x03\x04 and more"...)),
	} {
		in, err := image.ReadText([]byte(quoted))
		if err != nil || in.Format != picture.PNG || in.Width != 300 || in.Height != 260 ||
			in.Size() != int64(len(file)) {
			t.Errorf("%s: %+v, %v", name, in.Size(), err)
			continue
		}
		if !bytes.Equal(bytesOf(&image.Image{Text: in.Text}), file) {
			t.Errorf("%s: the file is another", name)
		}
	}
	// Tails of every length modulo 3 are cut off.
	for n := range 7 {
		in, err := image.ReadText([]byte(text(append(append([]byte(nil), file...), make([]byte, n)...))))
		if err != nil || string(in.Text) != plain {
			t.Errorf("a tail of %d bytes: %v", n, err)
		}
		raw, err := image.ReadRaw(append(append([]byte(nil), file...), make([]byte, n)...))
		if err != nil || !bytes.Equal(raw.Raw, file) {
			t.Errorf("a raw tail of %d bytes: %v", n, err)
		}
	}
}

func TestTextThatIsNotAnImageIsRefused(t *testing.T) {
	t.Parallel()
	plain := text(pngOf(300, 260))
	large := make([]byte, picture.MaxSize)
	copy(large, pngOf(300, 300))
	for name, c := range map[string]struct{ quoted, code string }{
		"empty":             {"", "CORRUPTED_IMAGE"},
		"words":             {"hello world", "CORRUPTED_IMAGE"},
		"a file name":       {"cat.png", "CORRUPTED_IMAGE"},
		"not base64 URL":    {"data:image/png," + plain, "CORRUPTED_IMAGE"},
		"no comma":          {"data:image/png;base64" + plain, "CORRUPTED_IMAGE"},
		"long prefix":       {"data:" + strings.Repeat("x", 300) + ";base64," + plain, "CORRUPTED_IMAGE"},
		"only a prefix":     {"data:image/png;base64,", "CORRUPTED_IMAGE"},
		"no padding":        {strings.TrimRight(text(pngOf(301, 260)), "=")[:1001], "CORRUPTED_IMAGE"},
		"unicode escape":    {`\u0041` + plain, "CORRUPTED_IMAGE"},
		"ends in an escape": {plain + `\`, "CORRUPTED_IMAGE"},
		"URL-safe":          {strings.ReplaceAll(plain, "/", "_"), "CORRUPTED_IMAGE"},
		"cut":               {plain[:len(plain)/2/4*4], "CORRUPTED_IMAGE"},
		"small":             {text(pngOf(255, 255)), "IMAGE_TOO_SMALL"},
		"large":             {text(large), "IMAGE_TOO_LARGE"},
	} {
		_, err := image.ReadText([]byte(c.quoted))
		var no *picture.Refusal
		if !errors.As(err, &no) || no.Code != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := image.ReadRaw(large); err == nil {
		t.Error("a large file is accepted")
	}
	if _, err := image.ReadRaw(nil); err == nil {
		t.Error("nothing is accepted")
	}
}

func TestLinksAreReported(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"http://a": true, "https://a": true, "http://": false, "https://": false, "": false, "ftp://a.b.c": false,
		"iVBORw0KGgo": false, "httpsiVBORw0": false,
	} {
		if image.IsURL(s) != want || image.IsURL([]byte(s)) != want {
			t.Error(s)
		}
	}
}

// FuzzReadText: whatever is accepted is the same file as raw bytes, and nothing
// outside the text is touched.
func FuzzReadText(f *testing.F) {
	plain := text(hollow(256, 256))
	for _, s := range []string{plain, "data:image/png;base64," + plain, strings.ReplaceAll(plain, "/", `\/`),
		text(append(hollow(256, 256), 1, 2)), "data:,", `\`, "===="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, quoted []byte) {
		body := append(append([]byte(`{"image":"`), quoted...), `"}`...)
		in, err := image.ReadText(body[10 : len(body)-2])
		if string(body[:10]) != `{"image":"` || string(body[len(body)-2:]) != `"}` {
			t.Fatal("bytes outside the text were changed")
		}
		if err != nil {
			return
		}
		raw := bytesOf(&image.Image{Text: in.Text})
		if int64(len(raw)) != in.Size() {
			t.Fatalf("%d bytes, not %d", len(raw), in.Size())
		}
		same, err := image.ReadRaw(raw)
		if err != nil || same.Format != in.Format || same.Width != in.Width || same.Height != in.Height ||
			len(same.Raw) != len(raw) {
			t.Fatalf("%+v, %v", same.Size(), err)
		}
	})
}
