package jail

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_X86_64

var allowedHere = []uint32{unix.SYS_EPOLL_WAIT, unix.SYS_TIME, unix.SYS_ARCH_PRCTL}

var refusedToToolsHere = []uint32{
	unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_CREAT, unix.SYS_UNLINK, unix.SYS_RMDIR, unix.SYS_RENAME, unix.SYS_MKDIR,
	unix.SYS_MKNOD, unix.SYS_LINK, unix.SYS_SYMLINK, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN,
}

func toolFilterHere(p *program) {
	p.where(unix.SYS_OPEN, 1, jumpBits, toWrite, refuse, allow)
}
