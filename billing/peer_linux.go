package billing

import (
	"net"
	"syscall"
)

// peerUID is the user whose process is at the other end of a Unix socket; -1: not known.
func peerUID(conn net.Conn) int {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return -1
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return -1
	}
	uid := -1
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	return uid
}
