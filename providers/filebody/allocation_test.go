//go:build !race

package filebody

import (
	"encoding/base64"
	"io"
	"testing"
)

// Writing allocates nothing, whatever the size: the steps are pooled.
func TestPiecesAllocateNothing(t *testing.T) {
	var b Pieces
	b.AddText(nil, noise(4<<20))
	b.AddRaw([]byte(base64.StdEncoding.EncodeToString(noise(4<<20))), nil)
	if n := testing.AllocsPerRun(10, func() { _, _ = b.WriteTo(io.Discard) }); n > 1 {
		t.Fatalf("%v allocations", n)
	}
}
