package proxy

import (
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// A poll interrupted by a signal, as the Go runtime sends them to busy threads, counted
// as an upstream that had closed or spoken. The request was refused on a good connection.
func TestSignalIsNotTakenForAnAnswer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	fd := rawFD(c)

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	var sent, over atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for over.Load() == 0 {
			_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
			sent.Add(1)
		}
	})
	asked, wrong := 0, 0
	for sent.Load() < 50_000 {
		asked++
		if !quiet(fd) {
			wrong++
		}
	}
	over.Store(1)
	wg.Wait()
	if wrong > 0 {
		t.Errorf("an open and silent connection was called unfit %d times of %d", wrong, asked)
	}
}
