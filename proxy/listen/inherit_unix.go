//go:build unix

package listen

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// HandOverSignal asks for HandOver; nil if this system has none.
var HandOverSignal os.Signal = syscall.SIGUSR2

const (
	// inheritedFD is where systemd and HandOver put the listening socket.
	inheritedFD = 3
	// tookFD is where a successor says that it took it.
	tookFD = 4
	// furtherFD is where HandOver puts the sockets beside it.
	furtherFD = 5
	// mostFurther is more than any process has.
	mostFurther = 8
	// handOverEnv is set for a successor, to the number of sockets: LISTEN_PID, which
	// systemd sets, is not known before there is a process.
	handOverEnv = "FAREBOX_HAND_OVER"
)

// Inherit finds the socket that this process was started with; nil: none.
func Inherit() (*Inherited, error) {
	sockets, _ := strconv.Atoi(os.Getenv(handOverEnv))
	own := sockets > 0
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
	ln, err := inherited(inheritedFD)
	if err != nil {
		return nil, err
	}
	i := &Inherited{Listener: ln, FromPredecessor: own}
	if own {
		for fd := range min(sockets-1, mostFurther) {
			further, err := inherited(furtherFD + fd)
			if err != nil {
				return nil, err
			}
			i.Further = append(i.Further, further)
		}
		syscall.CloseOnExec(tookFD)
		i.took = func() {
			pipe := os.NewFile(tookFD, "took")
			_, _ = pipe.Write([]byte{1})
			_ = pipe.Close()
		}
		for _, one := range append(i.Further, ln) {
			unlinkOnClose(one, true)
		}
	}
	return i, nil
}

func inherited(fd int) (net.Listener, error) {
	file := os.NewFile(uintptr(fd), "inherited")
	ln, err := net.FileListener(file)
	_ = file.Close()
	if err != nil {
		return nil, fmt.Errorf("the inherited socket cannot be listened on: %w", err)
	}
	return ln, nil
}

// unlinkOnClose says whether the file of a Unix socket goes with its listener.
func unlinkOnClose(ln net.Listener, yes bool) {
	if u, ok := ln.(*net.UnixListener); ok && !Shortened(ln.Addr().String()) {
		u.SetUnlinkOnClose(yes)
	}
}

// HandOver starts this program again, by its path and with its arguments, on
// the socket of ln and those beside it. took tells when the successor has it: nil, and the caller
// stops accepting; or that it ended before, and nothing has changed.
func HandOver(ln net.Listener, further ...net.Listener) (pid int, took <-chan error, err error) {
	path, err := os.Executable()
	if err != nil {
		return 0, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	env := []string{handOverEnv + "=" + strconv.Itoa(1+len(further))}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, handOverEnv+"=") {
			env = append(env, v)
		}
	}
	// Numbers themselves and no copies by File, whose use would make the sockets
	// blocking for this process as well.
	files := []uintptr{0, 1, 2}
	start := func() {
		pid, err = syscall.ForkExec(path, os.Args, &syscall.ProcAttr{Env: env, Files: slices.Insert(files, 4, w.Fd())})
	}
	failed := withDescriptors(append([]net.Listener{ln}, further...), &files, start)
	_ = w.Close()
	if err = errors.Join(failed, err); err != nil {
		_ = r.Close()
		return 0, nil, err
	}
	done := make(chan error, 1)
	go func() {
		defer func() { _ = r.Close() }()
		if n, _ := r.Read(make([]byte, 1)); n == 1 {
			for _, one := range append(further, ln) {
				unlinkOnClose(one, false)
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

// withDescriptors calls then while the descriptors of all sockets are in files and stay open.
func withDescriptors(sockets []net.Listener, files *[]uintptr, then func()) error {
	if len(sockets) == 0 {
		then()
		return nil
	}
	conn, ok := sockets[0].(syscall.Conn)
	if !ok {
		return errors.New("this socket cannot be passed on")
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	below := error(nil)
	failed := raw.Control(func(fd uintptr) {
		*files = append(*files, fd)
		below = withDescriptors(sockets[1:], files, then)
	})
	return errors.Join(failed, below)
}
