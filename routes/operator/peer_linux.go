package operator

import (
	"net"
	"syscall"
)

// peerID is the user behind a Unix socket.
func peerID(c net.Conn) (uid int, ok bool) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *syscall.Ucred
	if failed := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); failed != nil || err != nil {
		return 0, false
	}
	return int(cred.Uid), true
}
