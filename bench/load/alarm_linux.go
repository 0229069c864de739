package load

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// alarm sleeps on the kernel's high-resolution timer: the runtime's own timers
// sleep in whole milliseconds when the process is idle.
type alarm struct {
	file *os.File
	raw  syscall.RawConn
	buf  [8]byte
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	a := &alarm{file: os.NewFile(uintptr(fd), "timer")}
	if a.raw, err = a.file.SyscallConn(); err != nil {
		_ = a.file.Close()
		return nil, err
	}
	return a, nil
}

// sleep returns after d; false after close.
func (a *alarm) sleep(d time.Duration) bool {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	var failed error
	if err := a.raw.Control(func(fd uintptr) { failed = unix.TimerfdSettime(int(fd), 0, &spec, nil) }); err != nil ||
		failed != nil {
		return false
	}
	_, err := a.file.Read(a.buf[:])
	return err == nil
}

func (a *alarm) close() { _ = a.file.Close() }
