//go:build unix

package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// Lock takes the file for this process alone, or reports that another has it.
func Lock(f *os.File) (taken bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
