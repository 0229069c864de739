//go:build unix && !linux

package jail

import (
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const mustLimit = false

// memoryLimit is the nearest limit that all of these systems have.
const memoryLimit = unix.RLIMIT_DATA

func ownPath() string {
	path, _ := os.Executable()
	return path
}

func confineStart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// addressSpace is not known here; the Go runtime reserves less at start.
func addressSpace() uint64 { return 2 << 30 }

func memoryOf(int) int64 { return 0 }

func cpuOf(int) (time.Duration, bool) { return 0, false }

func lowerThread() {}

func closeJail() error { return nil }

func execLimited(memory uint64, path string, args []string) error {
	var r unix.Rlimit
	set(&r.Cur, memory)
	set(&r.Max, memory)
	_ = unix.Setrlimit(memoryLimit, &r)
	return syscall.Exec(path, args, []string{})
}

func preferForOOM() {}

func closeInherited() {}
