package compare

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = 15 * time.Second
	stopLimit  = 15 * time.Second
	dropLimit  = time.Second // with open streams, which some read to the end
	toolLimit  = 30 * time.Second
)

// process is a child of ours; it is ended by its pid and nothing else is.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// spawn starts a program on a processor (-1: any) with its output in a file.
func spawn(name, dir string, cpu int, env []string, argv ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Dir = dir
	if err := startPinned(p.cmd, cpu); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ready waits until the process listens.
func (p *process) ready(addr string) error {
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case <-p.done:
			return fmt.Errorf("cannot use %s: it ended at once: %s", p.name, p.said())
		default:
		}
		nc, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = nc.Close()
			return nil
		}
	}
	return fmt.Errorf("cannot use %s: it did not listen on %s within %v: %s", p.name, addr, startLimit, p.said())
}

// said is the end of the process's output.
func (p *process) said() string {
	b, _ := os.ReadFile(p.log)
	b = bytes.TrimSpace(b)
	return strings.ToValidUTF8(string(b[max(0, len(b)-600):]), "")
}

func (p *process) stop() { p.end(stopLimit) }

// end stops the process, and kills it when it takes longer.
func (p *process) end(limit time.Duration) {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(limit):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tool runs a short command to its end and gives its output.
func tool(dir string, argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), toolLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cannot run %s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.Bytes(), nil
}

// freeAddress is a loopback address that is free at the moment.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}
