//go:build unix && !linux

package proxy

import "golang.org/x/sys/unix"

// halfClosed replaces Linux' POLLRDHUP: readable, and then an empty read
// tells a FIN from bytes. A FIN behind pipelined bytes goes unnoticed here.
const halfClosed = unix.POLLIN

func left(fd int32, revents int16) bool {
	if revents&(unix.POLLHUP|unix.POLLERR) != 0 {
		return true
	}
	var b [1]byte
	n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n == 0 && err == nil
}

// sendQueue is not known here: a blocked write has ClientStall to get on.
func sendQueue(int) int { return -1 }
