package proxy

import (
	"math/bits"
	"strings"
	"sync"
	"unsafe"
)

const (
	// minBlock is the smallest buffer for a body.
	minBlock = 16 << 10
	// keptBlock is the largest that is kept for a next body. Larger ones are rare
	// and would stay for minutes.
	keptBlock = 4 << 20
)

// block is a buffer for the body of a request.
type block struct {
	b     []byte
	class int
}

// blocks are kept by size, in steps of an eighth.
var blocks [classes]sync.Pool

const classes = 8 * 24

// sizeClass is the step that n bytes fit in, and its size.
func sizeClass(n int) (class, size int) {
	n = max(n, minBlock)
	shift := bits.Len(uint(n-1)) - 4
	eighths := (n + 1<<shift - 1) >> shift // 9 to 16
	return (shift-10)*8 + eighths - 8, eighths << shift
}

// newBlock gives an empty buffer for at least n bytes.
func newBlock(n int) *block {
	class, size := sizeClass(n)
	if size <= keptBlock {
		if b, ok := blocks[class].Get().(*block); ok {
			return b
		}
	}
	return &block{untouched(size), class}
}

// free gives a buffer back that nobody looks at any more.
func (b *block) free() {
	if cap(b.b) <= keptBlock {
		b.b = b.b[:0]
		blocks[b.class].Put(b)
	}
}

// untouched is an empty slice with room for n bytes that nobody has cleared: its
// pages cost nothing until bytes come.
func untouched(n int) []byte {
	var b strings.Builder // the one door of the standard library to such memory
	b.Grow(n)
	b.WriteByte(0)
	return unsafe.Slice(unsafe.StringData(b.String()), n)[:0]
}
