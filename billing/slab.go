package billing

import "unsafe"

// slab hands out values that stay in memory for good and lie next to each
// other: with 100,000 of them spread over the heap, a request waits longer for
// the tables of pages than for its key. Not safe for concurrent use.
type slab[T any] struct {
	rest []T
	made int
}

// slabSizes are bytes of the first, the second and all further slabs. Even the
// first is a large allocation: those begin at a page, and their memory is not
// used before a value is. The others can have pages of 2 MB.
var slabSizes = [...]uintptr{64 << 10, 4 << 20, 8 << 20}

func (s *slab[T]) take() *T {
	if len(s.rest) == 0 {
		size := slabSizes[min(s.made, len(slabSizes)-1)]
		s.rest = make([]T, size/unsafe.Sizeof(*new(T)))
		s.made++
		hugePages(unsafe.Pointer(&s.rest[0]), size)
	}
	v := &s.rest[0]
	s.rest = s.rest[1:]
	return v
}
