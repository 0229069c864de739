//go:build !unix

package servers

import "syscall"

// There are no such signals: sending them does nothing.
const (
	freeze = syscall.Signal(0)
	thaw   = syscall.Signal(0)
)
