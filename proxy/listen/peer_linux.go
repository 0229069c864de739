package listen

import (
	"net"
	"syscall"
)

// PeerUID is the user whose process is at the other end of a Unix socket; false: not known.
func PeerUID(conn net.Conn) (uid int, ok bool) {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := unix.SyscallConn()
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
