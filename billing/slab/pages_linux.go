package slab

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePages asks for pages of 2 MB for memory that was not used yet, where it
// is that large. It is only about speed: not every system has them. It stays
// until a quiet machine shows that it saves less than 3 % of an admission with
// 100,000 keys (BenchmarkAdmitSettle): on a busy one the best runs differ by 1.5 %,
// and the medians by 12 %. The pages may begin before the memory, which the checks of pointers take for a mistake.
//
//go:nocheckptr
func hugePages(at unsafe.Pointer, size uintptr) {
	const huge = 2 << 20
	if size < huge {
		return
	}
	// Other parts of the heap may lie in the first and the last page.
	before := uintptr(at) & (huge - 1)
	all := (before + size + huge - 1) &^ (huge - 1)
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(at, -int(before))), all), unix.MADV_HUGEPAGE)
}
