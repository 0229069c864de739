package listen

import (
	"time"

	"golang.org/x/sys/unix"
)

// BoundBuffers bounds the bytes that the kernel keeps for a client that does not read. At most
// unsent bytes wait beyond those that fit into the client's window, which slows no client that
// reads: bytes on their way are not counted. A client that takes none of the waiting bytes for as
// long as stall loses its connection, also while nobody writes to it.
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
