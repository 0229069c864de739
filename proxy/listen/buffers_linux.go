package listen

import (
	"time"

	"golang.org/x/sys/unix"
)

// BoundBuffers bounds what the kernel keeps for a client that does not read. At
// most unsent bytes wait behind what fits into the client's window, which slows
// nobody who reads: what is on its way is not counted. A client that takes
// nothing of what waits for it for as long as stall loses its connection, also
// while nobody writes to it.
func BoundBuffers(fd, unsent int, stall time.Duration) {
	if fd < 0 {
		return
	}
	// Sockets of other kinds have neither option; the watcher is there for them.
	if unsent > 0 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent)
	}
	if stall > 0 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(stall.Milliseconds()))
	}
}
