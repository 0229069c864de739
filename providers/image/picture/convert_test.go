package picture

import (
	"bytes"
	"context"
	"errors"
	stdimage "image"
	"image/color"
	"image/draw"
	"image/png"
	"sync"
	"testing"

	"farebox/bench/servers"
	"farebox/config/fair"
)

// Every format becomes every other, from raw bytes and from base64.
func TestFormatsAreConverted(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	c := NewConverter(0)
	for name, file := range map[string][]byte{"png": pngOf(150, 90), "jpeg": jpegOf(150, 90), "webp": webpOf(150, 90),
		"lossless": lossless(150, 90)} {
		h, err := Read(nil, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range []Format{PNG, JPEG, WebP} {
			for _, text := range []bool{false, true} {
				var out []byte
				if text {
					out, err = c.Convert(context.Background(), h, textOf(file), nil, to, 0)
				} else {
					out, err = c.Convert(context.Background(), h, nil, file, to, 80)
				}
				if err != nil {
					t.Fatalf("%s to %s: %v", name, to, err)
				}
				got, err := Read(nil, out)
				if err != nil || got.Format != to || got.Width != 150 || got.Height != 90 {
					t.Errorf("%s to %s: %+v, %v", name, to, got, err)
				}
				if _, _, err := stdimage.Decode(bytes.NewReader(out)); err != nil {
					t.Errorf("%s to %s: %v", name, to, err)
				}
			}
		}
	}
}

// Lossless formats keep every pixel, and transparency becomes white in JPEG.
func TestPixelsSurvive(t *testing.T) {
	t.Parallel()
	c := NewConverter(1)
	file := lossless(120, 80)
	h, _ := Read(nil, file)
	out, err := c.Convert(context.Background(), h, nil, file, PNG, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := decodeWebP(bytes.NewReader(file))
	b, _ := png.Decode(bytes.NewReader(out))
	samePixels(t, a, b)

	// Lossy WebP has colours of a narrow range; they must come out as they were.
	flat := stdimage.NewUniform(color.NRGBA{250, 10, 128, 255})
	m := stdimage.NewNRGBA(stdimage.Rect(0, 0, 64, 64))
	draw.Draw(m, m.Bounds(), flat, stdimage.Point{}, draw.Src)
	file = encoded(m, WebP)
	h, _ = Read(nil, file)
	out, err = c.Convert(context.Background(), h, nil, file, PNG, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, _ = png.Decode(bytes.NewReader(out))
	if r, g, bl, _ := b.At(30, 30).RGBA(); near(r>>8, 250) > 4 || near(g>>8, 10) > 4 || near(bl>>8, 128) > 4 {
		t.Errorf("the colours became %d %d %d", r>>8, g>>8, bl>>8)
	}

	clear := encoded(stdimage.NewNRGBA(stdimage.Rect(0, 0, 64, 64)), PNG)
	h, _ = Read(nil, clear)
	out, err = c.Convert(context.Background(), h, nil, clear, JPEG, 0)
	if err != nil {
		t.Fatal(err)
	}
	white, _, _ := stdimage.Decode(bytes.NewReader(out))
	if r, g, b, _ := white.At(5, 5).RGBA(); r < 0xfe00 || g < 0xfe00 || b < 0xfe00 {
		t.Error("a transparent pixel is not white")
	}
}

func near(a, b uint32) uint32 { return max(a, b) - min(a, b) }

// pixelsOf is for tests that look at pixels.
func pixelsOf(b []byte) (stdimage.Image, string, error) {
	if Sniff(b) == WebP {
		m, err := decodeWebP(bytes.NewReader(b))
		return m, "webp", err
	}
	return stdimage.Decode(bytes.NewReader(b))
}

// A picture that would cost too much is not decoded at all, and one that cannot be
// decoded is an error.
func TestConversionsAreBounded(t *testing.T) {
	t.Parallel()
	c := NewConverter(1)
	bomb := claims(4097, 4096)
	h, err := Read(nil, bomb)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Convert(context.Background(), h, nil, bomb, JPEG, 0); err == nil {
		t.Error("a bomb is converted")
	}
	hollow := claims(300, 300) // has far less pixels than it says
	if h, err = Read(nil, hollow); err != nil {
		t.Fatal(err)
	}
	if _, err = c.Convert(context.Background(), h, nil, hollow, JPEG, 0); err == nil {
		t.Error("a hollow file is converted")
	}
	if _, err = c.Convert(context.Background(), Header{Format: GIF, Width: 1, Height: 1}, nil, []byte("GIF89a"), PNG,
		0); err == nil {
		t.Error("a GIF is converted")
	}
	if _, err = c.Convert(context.Background(), h, nil, hollow, GIF, 0); err == nil {
		t.Error("something became a GIF")
	}
}

// A caller whose turn does not come can give up.
func TestConversionsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	c := NewConverter(1)
	place, ok := c.turns.Try(fair.Paid(1))
	if !ok {
		t.Fatal("no place is free")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	file := pngOf(60, 60)
	h, _ := Read(nil, file)
	if _, err := c.Convert(ctx, h, nil, file, JPEG, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := c.Blank(ctx, 9, 9, PNG); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	place.Done()
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			if _, err := c.Convert(context.Background(), h, nil, file, WebP, 0); err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
}

// A withheld image is black in every format.
func TestBlankImagesAreBlack(t *testing.T) {
	t.Parallel()
	c := NewConverter(0)
	for _, f := range []Format{PNG, JPEG, WebP} {
		b, err := c.Blank(context.Background(), 300, 200, f)
		if err != nil {
			t.Fatal(f, err)
		}
		m, format, err := pixelsOf(b)
		if err != nil || format != f.String() || m.Bounds().Dx() != 300 || m.Bounds().Dy() != 200 {
			t.Errorf("%s: %s, %v", f, format, err)
			continue
		}
		if r, g, b, _ := m.At(150, 100).RGBA(); r > 0x300 || g > 0x300 || b > 0x300 {
			t.Errorf("%s: %x %x %x", f, r, g, b)
		}
	}
	for _, size := range [][2]int{{1, 1}, {9, 4096}, {4096, 3}, {1000, 1}} {
		b, err := c.Blank(context.Background(), size[0], size[1], WebP)
		if err != nil {
			t.Fatal(err)
		}
		h, no := Read(nil, b)
		m, _, err := pixelsOf(b)
		if err != nil || no != nil || h.Width != size[0] || h.Height != size[1] || m.Bounds().Dx() != size[0] || m.Bounds().Dy() != size[1] {
			t.Errorf("%v: %+v, %v, %v", size, h, no, err)
		} else if r, g, b, a := m.At(size[0]-1, size[1]-1).RGBA(); r|g|b != 0 || a != 0xffff {
			t.Errorf("%v: %x %x %x %x", size, r, g, b, a)
		}
	}
	b, err := c.Blank(context.Background(), 1<<30, -5, PNG)
	if h, no := Read(nil, b); err != nil || no != nil || h.Width != maxBlank || h.Height != 1 {
		t.Errorf("%+v, %v, %v", h, err, no)
	}
}

func TestDecodeGivesTheFile(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, windowLen - 1, windowLen, windowLen + 1, 5*windowLen + 2} {
		raw := bytes.Repeat([]byte{1, 2, 3, 250}, n/4+1)[:n]
		if !bytes.Equal(Decode(textOf(raw)), raw) {
			t.Errorf("%d bytes differ", n)
		}
	}
}

// A shrunk picture has the wanted size and looks the same.
func TestImagesShrink(t *testing.T) {
	t.Parallel()
	c := NewConverter(0)
	file := jpegOf(200, 120)
	h, _ := Read(nil, file)
	for _, to := range []Format{PNG, JPEG, WebP} {
		out, err := c.Shrink(context.Background(), h, nil, file, 100, 60, to)
		if got, no := Read(nil, out); err != nil || no != nil || got.Format != to || got.Width != 100 ||
			got.Height != 60 {
			t.Errorf("%v: %+v, %v, %v", to, got, err, no)
		}
	}
	out, _ := c.Shrink(context.Background(), h, textOf(file), nil, 100, 60, PNG)
	small, _, _ := pixelsOf(out)
	large, _, _ := pixelsOf(file)
	_, g1, _, _ := small.At(50, 30).RGBA()
	_, g2, _, _ := large.At(100, 60).RGBA()
	if near(g1>>8, g2>>8) > 40 {
		t.Errorf("the middle became %d, was %d", g1>>8, g2>>8)
	}
	for _, size := range [][2]int{{0, 10}, {10, -1}, {201, 10}, {10, 121}} {
		if _, err := c.Shrink(context.Background(), h, nil, file, size[0], size[1], PNG); err == nil {
			t.Errorf("%v is accepted", size)
		}
	}
	if _, err := c.Shrink(context.Background(), Header{Format: PNG, Width: 5000, Height: 5000, Frames: 1}, nil,
		claims(5000, 5000), 10, 10, PNG); err == nil {
		t.Error("a bomb is decoded")
	}
}
