package proxy

import (
	"math/bits"
	"strings"
	"sync"
	"unsafe"
)

const (
	// smallBuffer is the read buffer of an open stream: 2 KiB, of which smallRead is used, so
	// that one read fits with its chunk framing into the server's write buffer and leaves in one
	// system call.
	smallBuffer = 2 << 10
	smallRead   = smallBuffer - 16
	// largeBuffer is lent while an answer comes faster than it is relayed, and
	// for heads and requests that do not fit the small one.
	largeBuffer = 32 << 10
	// oneWrite is the largest request that is copied into one buffer and written
	// at once; above it writev is cheaper than the copy.
	oneWrite = 8 << 10
)

var largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// grow lends the exchange a large buffer; shrink takes it back.
func (x *Exchange) grow() {
	if x.large == nil {
		x.large = largeBuffers.Get().(*[largeBuffer]byte)
	}
}

func (x *Exchange) shrink() {
	if x.large != nil {
		largeBuffers.Put(x.large)
		x.large = nil
	}
}

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
