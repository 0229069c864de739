package listen

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// handshake is how long a connection may be between its first packet and the queue.
	handshake = 50 * time.Millisecond
	// longestQueue bounds the wait for a queue that does not empty.
	longestQueue = 500 * time.Millisecond
)

// onlyOpen drops the first packet of a new connection (SYN without ACK) and passes all others.
// It reads the flags in a TCP header.
var onlyOpen = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0x12},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0x02, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 30},
}

// Last lets no new connection come to a listening socket of TCP, and waits until those on
// their way were accepted. The kernel resets connections in the queue of a socket that is
// closed, after their clients have sent a request. A client whose first packet was dropped
// sends it again after a second and is refused then, before it has sent anything. The
// socket must be closed next, by all processes that have it.
func Last(ln net.Listener) {
	sc, ok := ln.(syscall.Conn)
	if _, tcp := ln.Addr().(*net.TCPAddr); !ok || !tcp {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		prog := unix.SockFprog{Len: uint16(len(onlyOpen)), Filter: &onlyOpen[0]}
		if unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog) != nil {
			return // a kernel without filters closes as before
		}
		time.Sleep(handshake)
		queue := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for end := time.Now().Add(longestQueue); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if n, err := unix.Poll(queue, 0); n == 0 && err == nil {
				break
			}
		}
	})
	time.Sleep(time.Millisecond) // the accepted connection is read
}
