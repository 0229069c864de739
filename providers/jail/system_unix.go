//go:build unix

package jail

import (
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pipe is a standard descriptor without the runtime's poller, which needs system
// calls that a child does not have.
type pipe int

const (
	stdin  pipe = 0
	stdout pipe = 1
)

// mostIO is below the largest read or write of every system.
const mostIO = 1 << 20

func (p pipe) Read(b []byte) (int, error) {
	for {
		n, err := syscall.Read(int(p), b[:min(len(b), mostIO)])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (p pipe) Write(b []byte) (n int, err error) {
	for n < len(b) {
		k, err := syscall.Write(int(p), b[n:min(len(b), n+mostIO)])
		if err != nil && err != syscall.EINTR {
			return n, err
		}
		n += max(k, 0)
	}
	return n, nil
}

func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill()
}

// confine closes the jail: from here on no descriptor opens, on any system.
func confine(s settings) error {
	// Below the gateway's own work, threads that exist included.
	_ = unix.Setpriority(unix.PRIO_PGRP, 0, niceness)
	if err := limit(s.cpu, 0, addressSpace()+uint64(s.memory)); err != nil {
		return err
	}
	return closeJail()
}

// toolFiles is how many files a program may have open at once.
const toolFiles = 64

// confineAndExec makes this process another program, with limits and without
// environment. It returns only when that cannot be.
func confineAndExec(s settings, path string, args []string) error {
	_ = unix.Setpriority(unix.PRIO_PGRP, 0, niceness)
	if err := limit(s.cpu, toolFiles, 0); err != nil {
		return err
	}
	return execLimited(uint64(s.memory), path, args)
}

// limit sets the limits; memory 0 leaves that as it is.
func limit(cpu time.Duration, files, memory uint64) error {
	for _, l := range []struct {
		which int
		most  uint64
	}{
		{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, 0}, {unix.RLIMIT_NOFILE, files},
		{unix.RLIMIT_CPU, uint64(max(cpu/time.Second, 1))}, {memoryLimit, memory},
	} {
		if l.which == memoryLimit && l.most == 0 {
			continue
		}
		var r unix.Rlimit
		set(&r.Cur, l.most)
		set(&r.Max, l.most)
		if err := unix.Setrlimit(l.which, &r); err != nil && mustLimit {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	return nil
}

// set converts limits to the types of each system.
func set[T int64 | uint64](v *T, most uint64) { *v = T(most) }

// niceness leaves the processors to the gateway when both want them.
const niceness = 10
