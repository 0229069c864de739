//go:build unix

package servers

import "syscall"

// The signals that stop a process in the middle of its work, and let it go on.
const (
	freeze = syscall.SIGSTOP
	thaw   = syscall.SIGCONT
)
