package jail

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mustLimit says that a limit that cannot be set keeps a child from serving.
const mustLimit = true

const memoryLimit = unix.RLIMIT_AS

// ownPath is this very binary, also when another has taken its place on disk.
func ownPath() string { return "/proc/self/exe" }

func confineStart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// statm reads a line of numbers of pages: all of the address space, then the resident part.
func statm(pid string, field int) int64 {
	b, err := os.ReadFile("/proc/" + pid + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) <= field {
		return 0
	}
	n, _ := strconv.ParseInt(fields[field], 10, 64)
	return n * int64(os.Getpagesize())
}

// addressSpace is the memory that this process has mapped: the Go runtime alone reserves
// more than its heap will ever be.
func addressSpace() uint64 { return uint64(statm("self", 0)) }

// memoryOf is the resident memory of a process; 0 when that is not known.
func memoryOf(pid int) int64 { return statm(strconv.Itoa(pid), 1) }

// cpuOf is the processor time of another process, from its clock (see
// clock_getcpuclockid(3)).
func cpuOf(pid int) (time.Duration, bool) {
	const sched = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}

// lowerThread leaves the thread of a goroutine, which ends with it, the lowest priority.
// While a process is cleaned up whose files in /proc are being closed, Linux loops while
// another process waits for it. At a child's priority or above, that took a processor from
// all requests for a minute; at the lowest priority it ends soon.
func lowerThread() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, lowest)
}

const lowest = 19

// closeJail forbids all system calls that jobs do not need.
func closeJail() error {
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) // lost where the binary has capabilities
	return filter(uint32(os.Getpid())).install()
}

// execLimited closes the jail of a program and becomes that program. Under a limit below
// its reserved memory the Go runtime cannot allocate any more, so that everything is made
// before, and only system calls follow. On one processor the runtime has no reason to start
// a thread, which needs memory.
func execLimited(memory uint64, path string, args []string) error {
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	file, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return err
	}
	none := make([]*byte, 1) // no environment
	closing := toolFilter(uint32(os.Getpid()))
	limit := &unix.Rlimit{Cur: memory, Max: memory}
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()
	_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, memoryLimit, uintptr(unsafe.Pointer(limit)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if err := closing.install(); err != nil {
		return err
	}
	_, _, errno = unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(file)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&none[0])))
	return errno
}

// closeInherited closes the descriptors that the gateway itself was started with
// and did not know of. The runtime's own stay: events, and the limits of cgroups.
func closeInherited() {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		own := strings.HasPrefix(to, "anon_inode:[event") || strings.HasPrefix(to, "/sys/fs/cgroup/")
		if err == nil && fd > 2 && !own {
			_ = syscall.Close(fd)
		}
	}
}

// preferForOOM makes the kernel take this process before the gateway.
func preferForOOM() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) }
