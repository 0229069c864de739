package servers

import (
	"runtime"
	"testing"
)

// KeepBusy keeps all cores busy until the test ends, with more threads of work
// than there are cores.
func KeepBusy(tb testing.TB) {
	over := make(chan struct{})
	for range 2 * runtime.GOMAXPROCS(0) {
		go func() {
			for x := 1; ; x++ {
				select {
				case <-over:
					return
				default:
				}
				for range 200_000 {
					x += x * x
				}
				runtime.Gosched() // the kernel divides the cores, so that the test itself continues
			}
		}()
	}
	tb.Cleanup(func() { close(over) })
}
