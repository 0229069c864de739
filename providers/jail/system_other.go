//go:build !unix

package jail

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

var stdin, stdout = os.Stdin, os.Stdout

func ownPath() string {
	path, _ := os.Executable()
	return path
}

func killGroup(p *os.Process) { _ = p.Kill() }

func confineStart(*exec.Cmd) {}

func confine(settings) error { return nil }

func confineAndExec(settings, string, []string) error { return errors.ErrUnsupported }

func memoryOf(int) int64 { return 0 }

func cpuOf(int) (time.Duration, bool) { return 0, false }

func lowerThread() {}

func preferForOOM() {}

func closeInherited() {}
