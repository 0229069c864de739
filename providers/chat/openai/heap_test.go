package openai

import "runtime"

// heapPer is the heap growth of n calls of f, each.
func heapPer(n int, f func(i int)) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		f(i)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	return (after.HeapAlloc - before.HeapAlloc) / uint64(n)
}
