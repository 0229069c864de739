package servers

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
)

// unprivileged lets cmd run as a user without rights when this process is
// root's, which PostgreSQL insists on, and end with this process.
func unprivileged(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	uid, gid, err := servant()
	if err == nil && uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return err
}

// servant is the user that servers run as; 0 is ourselves.
func servant() (uid, gid uint32, err error) {
	if os.Geteuid() != 0 {
		return 0, 0, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		id, err := strconv.ParseUint(u.Uid, 10, 32)
		group, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err == nil && err2 == nil && id != 0 {
			return uint32(id), uint32(group), nil
		}
	}
	return 0, 0, errors.New("cannot run PostgreSQL as root: there is neither a user postgres nor a user nobody")
}

// privateDir makes a directory that a server's user can enter, which those of
// testing are not.
func privateDir() (string, error) {
	dir, err := os.MkdirTemp("", "farebox-postgres-")
	if err != nil {
		return "", err
	}
	uid, gid, err := servant()
	if err == nil && uid != 0 {
		err = os.Chown(dir, int(uid), int(gid))
	}
	return dir, err
}

// runUntilEnd starts cmd and waits for its end, on one thread: with the thread
// that started it, the process would get its signal of death.
func runUntilEnd(cmd *exec.Cmd, failed chan<- error, ended chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	failed <- err
	if err == nil {
		_ = cmd.Wait()
	}
	close(ended)
}
