//go:build linux && (amd64 || arm64)

package jail

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowed are the system calls that the Go runtime makes while a job computes, and those on
// descriptors that are open: nothing here opens one, starts a process or reaches another.
// The filter also allows those of allowedHere, which only this architecture has, and clone,
// mmap, mprotect and tgkill with certain arguments.
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

// Offsets of the fields that a filter checks (struct seccomp_data).
const (
	offsetCall = 0
	offsetArch = 4
	offsetArgs = 16 // 8 bytes each, the low half first
)

const (
	load       = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jumpEqual  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpBits   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	jumpHigher = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	answer     = unix.BPF_RET | unix.BPF_K

	allow  = unix.SECCOMP_RET_ALLOW
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// program is the filter that the kernel runs on every system call.
type program []unix.SockFilter

func (p *program) op(code uint16, k uint32, yes, number uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: yes, Jf: number, K: k})
}

// call is the answer for one system call.
func (p *program) call(nr, verdict uint32) {
	p.op(jumpEqual, nr, 0, 1)
	p.op(answer, verdict, 0, 0)
}

// where decides by the low half of one argument.
func (p *program) where(nr uint32, arg int, test uint16, k, yes, number uint32) {
	p.op(jumpEqual, nr, 0, 4)
	p.op(load, uint32(offsetArgs+8*arg), 0, 0)
	p.op(test, k, 0, 1)
	p.op(answer, yes, 0, 0)
	p.op(answer, number, 0, 0)
}

func newProgram() *program {
	p := &program{}
	p.op(load, offsetArch, 0, 0)
	p.op(jumpEqual, arch, 1, 0)
	p.op(answer, unix.SECCOMP_RET_KILL_PROCESS, 0, 0) // another ABI has other numbers
	p.op(load, offsetCall, 0, 0)
	return p
}

// filter allows the listed system calls.
func filter(pid uint32) program {
	p := newProgram()
	for _, nr := range append(allowed, allowedHere...) {
		p.call(nr, allow)
	}
	p.where(unix.SYS_CLONE, 0, jumpBits, unix.CLONE_THREAD, allow, refuse) // threads, not processes
	p.where(unix.SYS_MMAP, 2, jumpBits, unix.PROT_EXEC, refuse, allow)     // untrusted data never becomes code
	p.where(unix.SYS_MPROTECT, 2, jumpBits, unix.PROT_EXEC, refuse, allow)
	p.where(unix.SYS_TGKILL, 0, jumpEqual, pid, allow, refuse) // the scheduler's signals to its own threads
	p.call(unix.SYS_CLONE3, absent)                            // C falls back to clone
	p.op(answer, refuse, 0, 0)
	return *p
}

// refusedToTools are the system calls that no program needs that reads a document and
// writes text: the network, other processes, and changes of files. The calls that start a
// program must stay; a program that it starts has the same filter.
var refusedToTools = []uint32{
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_SENDTO, unix.SYS_SENDMSG,
	unix.SYS_IO_URING_SETUP, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD,
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_RT_SIGQUEUEINFO,
	unix.SYS_SETPGID, unix.SYS_SETSID, unix.SYS_PRLIMIT64, unix.SYS_SETRLIMIT,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT,
	unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_LINKAT,
	unix.SYS_SYMLINKAT, unix.SYS_FCHMODAT, unix.SYS_FCHMOD, unix.SYS_FCHOWNAT, unix.SYS_FCHOWN, unix.SYS_TRUNCATE,
	unix.SYS_FTRUNCATE, unix.SYS_UTIMENSAT, unix.SYS_SETXATTR,
	unix.SYS_REBOOT, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_SWAPON,
}

// toWrite are the flags of an open that is not for reading only.
const toWrite = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC

// toolFilter allows system calls that are not listed: other programs start with calls of
// their own choice.
func toolFilter(pid uint32) program {
	p := newProgram()
	p.op(jumpHigher, x32, 0, 1) // the same calls again, under other numbers
	p.op(answer, absent, 0, 0)
	for _, nr := range append(refusedToTools, refusedToToolsHere...) {
		p.call(nr, refuse)
	}
	toolFilterHere(p)
	p.where(unix.SYS_CLONE, 0, jumpBits, unix.CLONE_THREAD, allow, refuse)
	p.where(unix.SYS_OPENAT, 2, jumpBits, toWrite, refuse, allow)
	p.where(unix.SYS_TGKILL, 0, jumpEqual, pid, allow, refuse)
	p.call(unix.SYS_CLONE3, absent)
	p.call(unix.SYS_OPENAT2, absent)
	p.op(answer, allow, 0, 0)
	return *p
}

// x32 is where the numbers of amd64's other ABI begin; no other system calls
// have numbers as high.
const x32 = 0x40000000

// install puts the filter on all threads at once, for good. Its calls are unknown to Go's
// scheduler, which would start a thread for their time; see execLimited.
func (p program) install() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	sock := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	thread, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&sock)))
	runtime.KeepAlive(p)
	switch {
	case errno != 0:
		return os.NewSyscallError("seccomp", errno)
	case thread != 0:
		return os.NewSyscallError("seccomp", unix.EBUSY) // a thread with another filter
	}
	return nil
}
