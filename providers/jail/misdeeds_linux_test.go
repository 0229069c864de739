//go:build linux && (amd64 || arm64)

package jail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func killParent([]byte, string) ([]byte, error) {
	if err := syscall.Kill(os.Getppid(), syscall.SIGTERM); err != nil {
		return nil, &Refusal{"refused", err.Error()}
	}
	return nil, nil
}

// rawCall makes the system call whose number and arguments it is given.
func rawCall(in []byte, _ string) ([]byte, error) {
	var n [7]uintptr
	for i := range n {
		n[i] = uintptr(binary.LittleEndian.Uint64(in[8*i:]))
	}
	runtime.LockOSThread()
	r, _, errno := syscall.RawSyscall6(n[0], n[1], n[2], n[3], n[4], n[5], n[6])
	if errno != 0 {
		return nil, &Refusal{"refused", errno.Error()}
	}
	return fmt.Appendf(nil, "it worked: %d", r), nil
}

func call7(n ...uint64) []byte {
	b := make([]byte, 7*8)
	for i, v := range n {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	return b
}

// unreached is an address of this machine; the test fails on any connection.
func unreached(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var came atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := ln.Accept(); err == nil {
			c.Close()
			came.Store(true)
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		if <-done; came.Load() {
			t.Error("the network was reached")
		}
	})
	return ln.Addr().String()
}

func TestATakenOverParserReachesNothing(t *testing.T) {
	address := unreached(t)
	file := filepath.Join(t.TempDir(), "made")
	p := pool(t, Options{Workers: 1})
	for _, misdeed := range []struct{ job, word string }{
		{"socket", ""}, {"dial", address}, {"open", "/etc/passwd"}, {"open", "/proc/self/environ"},
		{"create", file}, {"exec", ""}, {"become", ""}, {"kill", ""},
	} {
		_, err := do(t, p, misdeed.job, misdeed.word, nil)
		var r *Refusal
		if !errors.As(err, &r) || !strings.Contains(r.Text, "not permitted") {
			t.Errorf("%s %s: %v, want a refusal", misdeed.job, misdeed.word, err)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a child made a file")
	}
	if p.Started() != 1 {
		t.Errorf("%d children, want 1: a refusal is not a crash", p.Started())
	}
}

func TestNoSystemCallOpensAWayOut(t *testing.T) {
	p := pool(t, Options{Workers: 1})
	parent := uint64(os.Getpid())
	const x32 = 0x40000000
	for name, in := range map[string][]byte{
		"clone of a process":   call7(unix.SYS_CLONE, uint64(unix.SIGCHLD)),
		"clone3":               call7(unix.SYS_CLONE3),
		"openat":               call7(unix.SYS_OPENAT, 0, 0),
		"openat2":              call7(unix.SYS_OPENAT2),
		"socketpair":           call7(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM),
		"pipe2":                call7(unix.SYS_PIPE2),
		"dup":                  call7(unix.SYS_DUP, 0),
		"memfd_create":         call7(unix.SYS_MEMFD_CREATE),
		"io_uring_setup":       call7(unix.SYS_IO_URING_SETUP),
		"bpf":                  call7(unix.SYS_BPF),
		"ptrace of the parent": call7(unix.SYS_PTRACE, unix.PTRACE_ATTACH, parent),
		"process_vm_readv":     call7(unix.SYS_PROCESS_VM_READV, parent),
		"pidfd_open":           call7(unix.SYS_PIDFD_OPEN, parent),
		"tgkill of the parent": call7(unix.SYS_TGKILL, parent, parent, 0),
		"tkill of the parent":  call7(unix.SYS_TKILL, parent, 0),
		"execveat":             call7(unix.SYS_EXECVEAT),
		"unshare":              call7(unix.SYS_UNSHARE, 0),
		"mount":                call7(unix.SYS_MOUNT),
		"prctl":                call7(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0),
		"prlimit64":            call7(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, 0),
		"setpgid":              call7(unix.SYS_SETPGID, 0, parent),
		"setsid":               call7(unix.SYS_SETSID),
		"executable memory": call7(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC,
			unix.MAP_ANON|unix.MAP_PRIVATE, ^uint64(0)),
		"mprotect of the stack": call7(unix.SYS_MPROTECT, 0, 4096, unix.PROT_EXEC),
		"x32 getpid":            call7(x32 + unix.SYS_GETPID),
	} {
		_, err := do(t, p, "rawcall", "", in)
		var r *Refusal
		if !errors.As(err, &r) || !strings.Contains(r.Text, "not permitted") && !strings.Contains(r.Text, "not implemented") {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	if out, err := do(t, p, "rawcall", "", call7(unix.SYS_GETPID)); err != nil {
		t.Errorf("getpid: %s, %v", out, err)
	}
}

func TestAChildHasNoEnvironmentAndNoFurtherDescriptors(t *testing.T) {
	t.Setenv("FAREBOX_SECRET", "hunter2")
	p := pool(t, Options{Workers: 1})
	if out, err := do(t, p, "environ", "", nil); err != nil || len(out) != 0 {
		t.Errorf("environment %q, %v", out, err)
	}
	pid := childOf(t, p)
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || len(b) != 0 {
		t.Errorf("environment %q, %v", b, err)
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name()))
		if !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "anon_inode:[event") &&
			!strings.HasPrefix(to, "/sys/fs/cgroup/") { // the runtime's
			t.Errorf("descriptor %s is %s", e.Name(), to)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Seccomp:\t2", "NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in the child's status", want)
		}
	}
	score, _ := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if strings.TrimSpace(string(score)) != "1000" {
		t.Errorf("oom_score_adj %s, want 1000", score)
	}
	if nice, err := syscall.Getpriority(syscall.PRIO_PROCESS, pid); err != nil || 20-nice < niceness {
		t.Errorf("niceness %d, %v", 20-nice, err)
	}
}

func childOf(t *testing.T, p *Pool) int {
	t.Helper()
	b, err := do(t, p, "pid", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return int(b[0]) | int(b[1])<<8 | int(b[2])<<16
}

func gone(t *testing.T, pid int) {
	t.Helper()
	for range 6000 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(b), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("child %d lives on", pid)
}

func TestAChildThatIsKilledWhileIdleIsReplaced(t *testing.T) {
	p := pool(t, Options{Workers: 1})
	pid := childOf(t, p)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	gone(t, pid)
	time.Sleep(20 * time.Millisecond)
	works(t, p)
	if p.Died() != 1 {
		t.Errorf("%d died, want 1", p.Died())
	}
}

func TestNoChildOutlivesItsPool(t *testing.T) {
	p := New(Options{Workers: 1})
	pid := childOf(t, p)
	_ = p.Close()
	gone(t, pid)
}

// A parent is killed while its child is in an endless loop, so that the child cannot
// notice the end of stdin.
func TestAChildDiesWithItsParent(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	parent, err := os.StartProcess(exe, []string{exe, "-test.run", "^TestHelperParent$"}, &os.ProcAttr{
		Env: append(os.Environ(), "JAIL_PARENT=1"), Files: []*os.File{nil, w, os.Stderr},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	var pid int
	if _, err := fmt.Fscanf(r, "child %d\n", &pid); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	_ = parent.Kill()
	_, _ = parent.Wait()
	gone(t, pid)
}

func TestHelperParent(t *testing.T) {
	if os.Getenv("JAIL_PARENT") == "" {
		t.Skip("run by TestAChildDiesWithItsParent")
	}
	p := New(Options{Workers: 1})
	fmt.Printf("child %d\n", childOf(t, p))
	_, _ = do(t, p, "loop", "", nil)
}

func TestProcessorTimeIsBoundedPerJob(t *testing.T) {
	p := pool(t, Options{Workers: 1, CPU: 200 * time.Millisecond})
	works(t, p)
	if _, err := do(t, p, "loop", "", nil); !errors.Is(err, ErrTooSlow) {
		t.Errorf("%v, want ErrTooSlow", err)
	}
	works(t, p)
}

func TestAChildWhoseMemoryGrewIsReplaced(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race",
		Value: "true"}) {
		t.Skip("the race detector keeps several times a job's memory")
	}
	p := pool(t, Options{Workers: 1, Memory: 400 << 20})
	for range 4 {
		if _, err := do(t, p, "breathe", "", nil); err != nil {
			t.Fatal(err)
		}
	}
	if p.Started() != 1 {
		t.Errorf("%d children, want 1: a job's memory is given back", p.Started())
	}
	for range 4 {
		if _, err := do(t, p, "grow", "", nil); err != nil {
			t.Fatal(err)
		}
	}
	if p.Started() < 2 {
		t.Errorf("%d children, want more: kept memory must go", p.Started())
	}
}

func TestTheFilterFitsTheKernel(t *testing.T) {
	for _, f := range []program{filter(1), toolFilter(1)} {
		if len(f) > unix.BPF_MAXINSNS || unsafe.Sizeof(f[0]) != 8 {
			t.Errorf("%d instructions of %d bytes", len(f), unsafe.Sizeof(f[0]))
		}
	}
}
