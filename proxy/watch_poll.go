//go:build unix

package proxy

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pollBatch is how many sockets one poll call looks at.
const pollBatch = 1024

// poller asks the kernel which clients are gone, many sockets a call: about
// 0.1 µs each, and no wake-up for anything else that happens on them.
type poller struct {
	n     int
	fds   [pollBatch]unix.PollFd
	seats [pollBatch]seat
	up    [pollBatch]bool // the descriptor is the upstream's
}

func (p *poller) sweep(seats []seat, halfCloseGone bool) {
	events := int16(0)
	if halfCloseGone {
		events = halfClosed
	}
	for _, s := range seats {
		p.add(s, s.g.pollFD(s.gen), events, false)
		p.add(s, s.g.sendFD(s.gen), unix.POLLIN, true)
	}
	p.pollOnce()
}

func (p *poller) add(s seat, fd int, events int16, up bool) {
	if fd < 0 {
		return
	}
	p.fds[p.n] = unix.PollFd{Fd: int32(fd), Events: events}
	p.seats[p.n], p.up[p.n] = s, up
	if p.n++; p.n == pollBatch {
		p.pollOnce()
	}
}

// pollOnce polls and acts. A descriptor belonged to its seat's connection for as
// long as the seat was taken, so a seat that still is has not been confused.
func (p *poller) pollOnce() {
	n := p.n
	p.n = 0
	if n == 0 {
		return
	}
	defer clear(p.seats[:n])
	if ready, err := unix.Poll(p.fds[:n], 0); err != nil || ready == 0 {
		return
	}
	for i := range n {
		s, r := p.seats[i], p.fds[i].Revents
		switch {
		case r == 0:
		case p.up[i]:
			s.g.answered(s.gen)
		case r&(unix.POLLHUP|unix.POLLERR|halfClosed) != 0 && left(p.fds[i].Fd, r):
			s.g.expire(s.gen, ClientGone, 0)
		}
	}
}

// pollFD is the client's descriptor, looked up by the watcher the first time so
// that short requests never pay for it.
func (g *guard) pollFD(gen uint32) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.on || g.gen != gen || g.why().ofClient() {
		return fdNone
	}
	if g.fd == fdUnknown {
		g.fd = rawFD(g.client)
	}
	return g.fd
}

// rawFD is the descriptor under a connection, fdNone when it has none.
func rawFD(c net.Conn) int {
	sc, ok := plainConn(c).(syscall.Conn)
	if !ok {
		return fdNone
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return fdNone
	}
	fd := fdNone
	if raw.Control(func(p uintptr) { fd = int(p) }) != nil {
		return fdNone
	}
	return fd
}

// quiet reports that an idle connection is still open and silent. An upstream
// that closed it, or sent what nobody asked for, must not get the next request.
// Poll, and not a peek: Recvfrom allocates. A poll that does not wait is
// interrupted all the same, by the signals with which the Go runtime preempts
// goroutines on a busy machine.
func quiet(fd int) bool {
	if fd < 0 {
		return true
	}
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		if n, err := unix.Poll(p[:], 0); err != unix.EINTR {
			return n == 0 && err == nil
		}
	}
}

// readNow reads the bytes that have arrived, or fails as a read does whose time is over.
func readNow(fd int, b []byte) (int, error) {
	if fd < 0 {
		return 0, os.ErrDeadlineExceeded
	}
	for {
		n, err := unix.Read(fd, b)
		switch {
		case n > 0:
			return n, nil
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, os.ErrDeadlineExceeded
		case err != nil:
			return 0, err
		default:
			return 0, io.EOF
		}
	}
}
