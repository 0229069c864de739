//go:build !linux

package servers

import (
	"errors"
	"os"
	"os/exec"
)

func unprivileged(*exec.Cmd) error {
	if os.Geteuid() == 0 {
		return errors.New("cannot run PostgreSQL as root: run the tests as another user")
	}
	return nil
}

func privateDir() (string, error) { return os.MkdirTemp("", "farebox-postgres-") }

func runUntilEnd(cmd *exec.Cmd, failed chan<- error, ended chan<- struct{}) {
	err := cmd.Start()
	failed <- err
	if err == nil {
		_ = cmd.Wait()
	}
	close(ended)
}
