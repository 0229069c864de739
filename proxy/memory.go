package proxy

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// memoryEvery is how often idle memory is looked for.
	memoryEvery = 10 * time.Second
	// memorySpare is how much of it may stay, and memoryShare which part of what
	// is in use: a large heap is not collected for little.
	memorySpare = 4 << 20
	memoryShare = 8
	// memoryBusy is how many bytes a process allocates between two looks that will soon need its
	// free memory again.
	memoryBusy = 64 << 20
	// memoryRounds is how often garbage is collected then.
	memoryRounds = 3
)

// GiveMemoryBack returns memory to the system that a burst has left behind,
// until stop is closed. The runtime alone keeps it for minutes where little is
// going on: it collects when the heap has doubled, and buffers that wait in
// pools outlive one collection. No setting does that: a limit of memory collects
// under load, too, and is not known for most machines.
func GiveMemoryBack(stop <-chan struct{}) {
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	_, _, before := memoryIdle()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		idle, live, allocated := memoryIdle()
		if idle > max(memorySpare, live/memoryShare) && allocated-before < memoryBusy {
			// Values in pools survive the first, and each halves the stacks that have grown.
			for range memoryRounds {
				runtime.GC()
			}
			debug.FreeOSMemory()
		}
		before = allocated
	}
}

// memoryIdle is the memory that is held beside the objects that survived the
// last collection, the memory of these, and all that was ever allocated.
func memoryIdle() (idle, live, allocated uint64) {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(s)
	live = s[0].Value.Uint64()
	allocated = s[4].Value.Uint64()
	held := s[1].Value.Uint64() + s[2].Value.Uint64() + s[3].Value.Uint64()
	if held < live {
		return 0, live, allocated
	}
	return held - live, live, allocated
}
