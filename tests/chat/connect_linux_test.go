package chat

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"farebox/tests/rig"
)

// deafAddr is a loopback address whose queue of connections is full, so that
// connecting to it takes for ever.
func deafAddr(t *testing.T) string {
	t.Helper()
	addr, _ := deafListener(t)
	return addr
}

// deafListener is deafAddr with a function that drops the queued connections; later ones get the
// good answer.
func deafListener(t *testing.T) (addr string, accept func()) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The file alone closes the descriptor, and only once: its number may then
	// be that of another test's socket.
	f := os.NewFile(uintptr(fd), "")
	t.Cleanup(func() { _ = f.Close() })
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
	addr = fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port)
	ln, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	u := &rig.RawUpstream{}
	u.Answer(rig.Sends(rig.HTTPAnswer(200, "application/json", rig.GoodAnswer)))
	serve := func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go u.Serve(c)
		}
	}
	full := false
	for range 4 { // a machine that stalls for 50 ms does not fill it
		c, err := net.DialTimeout("tcp", addr, 50*time.Millisecond)
		if full = err != nil; !full {
			t.Cleanup(func() { _ = c.Close() })
		}
	}
	if !full {
		t.Fatal("the queue does not fill")
	}
	return addr, serve
}

// An upstream that cannot be reached is not a slow one, and the error of a streaming
// request does not advise streaming.
func TestFailuresToConnectAreNotSlowness(t *testing.T) {
	t.Parallel()
	hanging := rig.StartRaw(t, func(c net.Conn, _ string) { time.Sleep(time.Minute) })
	for name, c := range map[string]struct {
		url, more, want string
		status          int
	}{
		"the upstream refuses": {"http://" + rig.FreeAddr(t) + "/v1", "",
			"The model cannot be reached", 503},
		"the upstream does not accept": {"http://" + deafAddr(t) + "/v1", "", "The model cannot be reached",
			503},
		"the upstream does not accept a stream": {"http://" + deafAddr(t) + "/v1", `,"stream":true`,
			"The model cannot be reached", 503},
		"the upstream says nothing": {hanging.URL, "", "Stream long answers", 504},
		"the upstream says nothing to a streaming client": {hanging.URL, `,"stream":true`,
			"took too long to answer; please retry", 504},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connect := map[bool]string{true: "200ms", false: "10s"}[c.status == 503] // before first_byte, or not at all
			g := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, c.url,
				", timeouts: { connect: "+connect+", first_byte: 3s }"))
			g.NewAccount("a", "1")
			status, _, answer := g.Post("/chat/completions", g.Key("a"), rig.Ask("m", "Hello", c.more))
			if status != c.status || !strings.Contains(string(answer), c.want) {
				t.Errorf("%d %s", status, answer)
			}
		})
	}
}

// A burst of connections can exceed an upstream's backlog: the only target is connected to a second
// time before the client gets the error.
func TestAConnectionIsTriedTwice(t *testing.T) {
	t.Parallel()
	addr, accept := deafListener(t)
	g := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, "http://"+addr+"/v1",
		", timeouts: { connect: 4s }, breaker: { failures: 1, open_for: 60s }"))
	g.NewAccount("a", "1")
	key := g.Key("a")
	// The second one begins after 4 s, and is repeated after one more and after three.
	time.AfterFunc(4200*time.Millisecond, accept) // in a goroutine of its own
	if status, _, answer := g.Post("/chat/completions", key, rig.Ask("m", "Hello", "")); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
}
