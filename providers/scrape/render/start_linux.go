package render

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// nobody is the user of the browser if the gateway runs as root.
const nobody = 65534

// confine ties the browser to our life, and runs it as nobody if we are root.
func confine(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
}

// chownFolder gives a folder to the user of the browser.
func chownFolder(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(dir, nobody, nobody)
}

// memory is the private memory of a process and all below it.
func memory(pid int) (sum int64) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	type process struct {
		parent int
		bytes  int64
	}
	all := map[int]process{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil {
			continue
		}
		all[id] = process{int(field(status, "PPid:")), field(status, "RssAnon:") << 10}
	}
	for id, p := range all {
		for at, steps := id, 0; at > 1 && steps < 16; at, steps = all[at].parent, steps+1 {
			if at == pid {
				sum += p.bytes
				break
			}
		}
	}
	return sum
}

func field(status []byte, name string) int64 {
	_, rest, ok := bytes.Cut(status, []byte("\n"+name))
	if !ok {
		return 0
	}
	words := bytes.Fields(rest[:min(len(rest), 40)])
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(string(words[0]), 10, 64)
	return n
}
