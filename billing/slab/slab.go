package slab

import "unsafe"

// Of hands out values of one type. It is not safe for concurrent use.
type Of[T any] struct {
	rest []T
	made int
}

// sizes are bytes of the first, the second and all further slabs. Even the
// first is a large allocation: those begin at a page, and their memory is not
// used before a value is. The others can have pages of 2 MB.
var sizes = [...]uintptr{64 << 10, 4 << 20, 8 << 20}

// Take gives the next value, which is zero.
func (o *Of[T]) Take() *T {
	if len(o.rest) == 0 {
		size := sizes[min(o.made, len(sizes)-1)]
		o.rest = make([]T, size/unsafe.Sizeof(*new(T)))
		o.made++
		hugePages(unsafe.Pointer(&o.rest[0]), size)
	}
	v := &o.rest[0]
	o.rest = o.rest[1:]
	return v
}
