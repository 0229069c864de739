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
	// memorySpare is how much of it may stay whatever is in use.
	memorySpare = 16 << 20
)

// GiveMemoryBack returns memory to the system that a burst has left behind,
// until stop is closed. The runtime alone keeps it for minutes where little is
// going on: it collects when the heap has doubled, and buffers that wait in
// pools outlive one collection.
func GiveMemoryBack(stop <-chan struct{}) {
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		if idle, live := memoryIdle(); idle > memorySpare+live {
			runtime.GC() // what is in pools survives this one
			debug.FreeOSMemory()
		}
	}
}

// memoryIdle is the memory that is held beside the objects that survived the
// last collection, and those.
func memoryIdle() (idle, live uint64) {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(s)
	live = s[0].Value.Uint64()
	held := s[1].Value.Uint64() + s[2].Value.Uint64() + s[3].Value.Uint64()
	if held < live {
		return 0, live
	}
	return held - live, live
}
