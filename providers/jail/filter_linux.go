//go:build linux && (amd64 || arm64)

package jail

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowed are the system calls that the Go runtime makes while a job computes,
// and those on descriptors that are open: nothing here opens one, starts a
// process or reaches another. Beside them stand those of allowedHere, which only
// this architecture has, and clone, mmap, mprotect and tgkill as far as their
// arguments say.
var allowed = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MREMAP, unix.SYS_BRK, unix.SYS_MINCORE,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
	unix.SYS_RESTART_SYSCALL, unix.SYS_GETRANDOM,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_GETPID, unix.SYS_GETTID,
	unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_CTL,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// Where a filter finds what it judges (struct seccomp_data).
const (
	offsetCall = 0
	offsetArch = 4
	offsetArgs = 16 // 8 bytes each, the low half first
)

const (
	load      = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jumpEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpBits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	answer    = unix.BPF_RET | unix.BPF_K

	allow  = unix.SECCOMP_RET_ALLOW
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// filter is the program that the kernel asks about every system call.
func filter(pid uint32) []unix.SockFilter {
	op := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
	}
	f := []unix.SockFilter{
		op(load, offsetArch, 0, 0),
		op(jumpEqual, arch, 1, 0),
		op(answer, unix.SECCOMP_RET_KILL_PROCESS, 0, 0), // another ABI has other numbers
		op(load, offsetCall, 0, 0),
	}
	for _, nr := range append(allowed, allowedHere...) {
		f = append(f, op(jumpEqual, nr, 0, 1), op(answer, allow, 0, 0))
	}
	// where judges a call by the low half of one argument.
	where := func(nr uint32, arg int, test uint16, k, yes, no uint32) {
		f = append(f, op(jumpEqual, nr, 0, 4), op(load, uint32(offsetArgs+8*arg), 0, 0),
			op(test, k, 0, 1), op(answer, yes, 0, 0), op(answer, no, 0, 0))
	}
	where(unix.SYS_CLONE, 0, jumpBits, unix.CLONE_THREAD, allow, refuse) // threads, not processes
	where(unix.SYS_MMAP, 2, jumpBits, unix.PROT_EXEC, refuse, allow)     // what was read never becomes code
	where(unix.SYS_MPROTECT, 2, jumpBits, unix.PROT_EXEC, refuse, allow)
	where(unix.SYS_TGKILL, 0, jumpEqual, pid, allow, refuse)                      // the scheduler's signals to its own threads
	f = append(f, op(jumpEqual, unix.SYS_CLONE3, 0, 1), op(answer, absent, 0, 0)) // C falls back to clone
	return append(f, op(answer, refuse, 0, 0))
}

// filterCalls puts the filter on all threads at once, for good.
func filterCalls() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	program := filter(uint32(os.Getpid()))
	sock := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&sock)))
	runtime.KeepAlive(program)
	switch {
	case errno != 0:
		return os.NewSyscallError("seccomp", errno)
	case thread != 0:
		return os.NewSyscallError("seccomp", unix.EBUSY) // a thread with another filter
	}
	return nil
}
