package proxy

import "golang.org/x/sys/unix"

// halfClosed is set for a peer that sent its FIN, also behind unread bytes.
const halfClosed = unix.POLLRDHUP

func left(int32, int16) bool { return true }

// sendQueue is how many bytes the peer of a socket has not yet taken, -1 when
// it is not known.
func sendQueue(fd int) int {
	if fd < 0 {
		return -1
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCOUTQ)
	if err != nil {
		return -1
	}
	return n
}
