package proxy

import "sync"

const (
	// smallBuffer is what an open stream keeps to read into: 2 KiB, of which
	// smallRead is used, so that what was read fits with its chunk framing into
	// the server's write buffer and leaves in one system call.
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
