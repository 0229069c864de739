//go:build !race

package tokens

import (
	"strings"
	"testing"
)

// Counting takes no memory beyond the buffers kept for the next text.
func TestCountingDoesNotAllocate(t *testing.T) {
	text := strings.Repeat("The unquestionably flabbergasted hippopotamuses xqzvk; ", 20)
	v := O200k()
	v.Count(text)
	if n := testing.AllocsPerRun(20, func() { v.Count(text) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
