//go:build unix

package listen

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// HandOverSignal asks for HandOver; nil: there is none on this system.
var HandOverSignal os.Signal = syscall.SIGUSR2

const (
	// inheritedFD is where systemd and HandOver put the listening socket.
	inheritedFD = 3
	// tookFD is where a successor says that it took it.
	tookFD = 4
	// handOverEnv is set for a successor: LISTEN_PID, which systemd sets, is not
	// known before there is a process.
	handOverEnv = "FAREBOX_HAND_OVER"
)

// Inherit finds the socket that this process was started with; nil: none.
func Inherit() (*Inherited, error) {
	own := os.Getenv(handOverEnv) != ""
	count, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		count = 0
	}
	for _, name := range []string{handOverEnv, "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
	switch {
	case own:
	case count == 0:
		return nil, nil
	case count > 1:
		return nil, fmt.Errorf("%d sockets were passed on; expected one ListenStream= in the socket unit", count)
	}
	file := os.NewFile(inheritedFD, "inherited")
	ln, err := net.FileListener(file)
	_ = file.Close()
	if err != nil {
		return nil, fmt.Errorf("the inherited socket cannot be listened on: %w", err)
	}
	i := &Inherited{Listener: ln, FromPredecessor: own}
	if own {
		syscall.CloseOnExec(tookFD)
		i.took = func() {
			pipe := os.NewFile(tookFD, "took")
			_, _ = pipe.Write([]byte{1})
			_ = pipe.Close()
		}
		if u, ok := ln.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(true)
		}
	}
	return i, nil
}

// HandOver starts this program again, by its path and with its arguments, on
// the socket of ln. took tells when the successor has it: nil, and the caller
// stops accepting; or that it ended before, and nothing has changed.
func HandOver(ln net.Listener) (pid int, took <-chan error, err error) {
	conn, ok := ln.(syscall.Conn)
	if !ok {
		return 0, nil, errors.New("this socket cannot be passed on")
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	path, err := os.Executable()
	if err != nil {
		return 0, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	env := []string{handOverEnv + "=1"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, handOverEnv+"=") {
			env = append(env, v)
		}
	}
	// The number itself and no copy by File, whose use would make the socket
	// blocking for this process as well.
	failed := raw.Control(func(fd uintptr) {
		pid, err = syscall.ForkExec(path, os.Args, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2, fd, w.Fd()}})
	})
	_ = w.Close()
	if err = errors.Join(failed, err); err != nil {
		_ = r.Close()
		return 0, nil, err
	}
	done := make(chan error, 1)
	go func() {
		defer func() { _ = r.Close() }()
		if n, _ := r.Read(make([]byte, 1)); n == 1 {
			if u, ok := ln.(*net.UnixListener); ok {
				u.SetUnlinkOnClose(false)
			}
			done <- nil
			return
		}
		state := "it closed its end"
		if p, err := os.FindProcess(pid); err == nil {
			if s, err := p.Wait(); err == nil {
				state = s.String()
			}
		}
		done <- fmt.Errorf("the successor (process %d) ended before it took over: %s", pid, state)
	}()
	return pid, done, nil
}
