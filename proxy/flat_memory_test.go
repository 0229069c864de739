//go:build !race

package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// An answer of 100 MB does not grow the memory, framed by length or in chunks, with a
// client that is slower than the upstream.
func TestLargeAnswersPassInFlatMemory(t *testing.T) {
	const size = 100 << 20
	plain := strings.Repeat("0123456789abcdef", 64<<10/16)
	for _, chunked := range []bool{false, true} {
		piece := []byte(plain) // made once, so that the upstream's garbage is not measured
		if chunked {
			piece = []byte(chunk(plain))
		}
		u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
			_, _, _ = readRequest(r)
			if chunked {
				_, _ = io.WriteString(c, sseHead)
			} else {
				_, _ = io.WriteString(c, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size))
			}
			for sent := 0; sent < size; sent += len(plain) {
				if _, err := c.Write(piece); err != nil {
					return
				}
			}
			if chunked {
				_, _ = io.WriteString(c, "0\r\n\r\n")
			}
		})
		tg := endpoint(t, u.addr)
		g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
			return &plan{endpoints: []*Endpoint{tg}}, nil
		}))
		c := g.dial()
		_, _ = io.WriteString(c, post("{}"))
		_, _ = c.Read(make([]byte, 1))

		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapInuse
		}
		before := heap()
		var most uint64
		b := make([]byte, 256<<10)
		n, last := 0, 0
		for n < size {
			k, err := c.Read(b)
			n += k
			if err != nil {
				t.Fatalf("after %d bytes: %v", n, err)
			}
			if n-last > 16<<20 {
				last = n
				time.Sleep(5 * time.Millisecond) // the upstream gets ahead
				most = max(most, heap())
			}
		}
		if o := g.outcome(); !o.Complete || o.BytesOut != size {
			t.Errorf("chunked %v: %+v", chunked, o)
		}
		if most > before+4<<20 {
			t.Errorf("chunked %v: the heap grew from %d to %d KiB", chunked, before>>10, most>>10)
		}
	}
}
