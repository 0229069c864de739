//go:build !race

package proxy

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// A body of 100 MB that is made while it is sent does not grow the memory.
func TestLargeSourcesAreSentInFlatMemory(t *testing.T) {
	u := newUpstream(t, answerSum)
	tg := endpoint(t, u.addr)
	src := &made{n: 100 << 20, says: 100 << 20, piece: 48 << 10}
	g := newGateway(t, Options{}, ServerOptions{}, whole(sourcePlan(src, tg), 1<<20))
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before := heap()
	var most atomic.Uint64
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				most.Store(max(most.Load(), heap()))
			}
		}
	}()
	_, body, err := g.ask("{}")
	close(stop)
	<-stopped
	if err != nil || body != src.sum() {
		t.Fatal(body, err)
	}
	if most.Load() > before+4<<20 {
		t.Errorf("the heap grew from %d to %d KiB", before>>10, most.Load()>>10)
	}
}
