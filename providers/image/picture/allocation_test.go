//go:build !race

package picture

import (
	"context"
	"testing"
)

// Reading allocates nothing but the answer, however large the file.
func TestReadingIsCheap(t *testing.T) {
	text := textOf(jpegOf(2000, 1500))
	if n := testing.AllocsPerRun(20, func() { _, _ = Read(text, nil) }); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

// A file that claims too many pixels is refused before anything is decoded.
func TestBombsAreNotDecoded(t *testing.T) {
	bomb := claims(60_000, 60_000)
	h, err := Read(nil, bomb)
	if err != nil {
		t.Fatal(err)
	}
	c := NewConverter(1)
	if n := testing.AllocsPerRun(5, func() { _, err = c.Convert(context.Background(), h, nil, bomb, JPEG, 0) }); err ==
		nil || n > 0 {
		t.Errorf("%v, %v allocations", err, n)
	}
}
