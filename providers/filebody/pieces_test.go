package filebody

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(n)})
	p := make([]byte, n)
	_, _ = r.Read(p)
	return p
}

// Whatever form an image came in, both forms can be written, with the length
// that was announced, and written again for another target.
func TestPiecesTurnBothWays(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 4, 11, rawStep - 1, rawStep, rawStep + 1, 3*rawStep + 2} {
		raw := noise(n)
		text := []byte(base64.StdEncoding.EncodeToString(raw))
		for _, c := range []struct {
			text, raw []byte
			as        string
		}{{text, nil, "raw"}, {nil, raw, "raw"}, {text, nil, "text"}, {nil, raw, "text"}} {
			var b Pieces
			b.AddString(`{"a":"`)
			b.AddString(`b`)
			want := raw
			if c.as == "raw" {
				b.AddRaw(c.text, c.raw)
			} else {
				b.AddText(c.text, c.raw)
				want = text
			}
			b.AddString(`"}`)
			want = append(append([]byte(`{"a":"b`), want...), `"}`...)
			for range 2 {
				var out bytes.Buffer
				written, err := b.WriteTo(&out)
				if err != nil || written != b.Len() || !bytes.Equal(out.Bytes(), want) {
					t.Fatalf("%d bytes as %s: %d of %d written, %v, equal %v", n, c.as, written, b.Len(), err,
						bytes.Equal(out.Bytes(), want))
				}
			}
		}
	}
}

// A writer that fails ends the body after its last accepted byte.
func TestPiecesStopWithTheirWriter(t *testing.T) {
	t.Parallel()
	var b Pieces
	b.AddText(nil, noise(1<<20))
	broken := errors.New("broken")
	w := &fullWriter{room: 100 << 10, err: broken}
	n, err := b.WriteTo(w)
	if err != broken || n != 100<<10 {
		t.Fatalf("%d bytes, %v", n, err)
	}
}

// Broken text never gets on quietly.
func TestPiecesRefuseBrokenText(t *testing.T) {
	t.Parallel()
	text := []byte(base64.StdEncoding.EncodeToString(noise(1 << 20)))
	text[len(text)/2] = '%'
	var b Pieces
	b.AddRaw(text, nil)
	if _, err := b.WriteTo(io.Discard); err != errText {
		t.Fatal(err)
	}
}

type fullWriter struct {
	room int
	err  error
}

func (w *fullWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		n := w.room
		w.room = 0
		return n, w.err
	}
	w.room -= len(p)
	return len(p), nil
}
