package proxy

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deaf is a loopback address whose queue of connections is full, so that a connect to it
// never ends.
func deaf(t *testing.T) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port)
	full := false
	for range 4 { // a machine that pauses for 50 ms does not fill it
		c, err := net.DialTimeout("tcp", addr, 50*time.Millisecond)
		if full = err != nil; !full {
			t.Cleanup(func() { c.Close() })
		}
	}
	if !full {
		t.Fatal("the queue does not fill")
	}
	return addr
}

func TestConnectingHasALimit(t *testing.T) {
	tg := endpoint(t, deaf(t), func(o *EndpointOptions) { o.Connect = 200 * time.Millisecond })
	g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan { return &plan{endpoints: []*Endpoint{tg}} },
		100))
	start := time.Now()
	_, body, err := g.ask("{}")
	if took := time.Since(start); err != nil || body != "connect_timeout" || took < 200*time.Millisecond ||
		took > standstill {
		t.Fatalf("%q %v after %s", body, err, took)
	}
	if open, _ := tg.Conns(); open != 0 {
		t.Errorf("%d places are taken by no connection", open)
	}
}

// A client that leaves while its upstream is being connected ends that, too.
func TestAClientThatLeavesEndsTheConnecting(t *testing.T) {
	tg := endpoint(t, deaf(t), func(o *EndpointOptions) { o.Connect = time.Minute })
	g := newGateway(t, Options{HalfCloseGone: true}, ServerOptions{},
		whole(func() *plan { return &plan{endpoints: []*Endpoint{tg}} }, 100))
	c := g.dial()
	_, _ = io.WriteString(c, post("{}"))
	eventually(t, "it connects", func() bool { open, _ := tg.Conns(); return open == 1 })
	c.Close()
	start := time.Now()
	if r := g.result(); r.Cause != ClientGone || time.Since(start) > standstill {
		t.Errorf("%+v after %s", r, time.Since(start))
	}
	if open, _ := tg.Conns(); open != 0 {
		t.Errorf("%d places are taken by no connection", open)
	}
}
