package deploy

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

// deployDir is the folder under test.
const deployDir = "config/deploy"

// pageBlocks are the shell blocks below a heading of the page.
func pageBlocks(t *testing.T, heading string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("the page has no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range regexp.MustCompile("(?s)\n *```sh\n(.*?)\n *```\n").FindAllStringSubmatch(section, -1) {
		list = append(list, m[1]+"\n")
	}
	return list
}

// ports are those of the page, and free ones for them.
func ports(t *testing.T, of ...string) *strings.Replacer {
	t.Helper()
	var pairs []string
	for _, port := range of {
		_, free, err := net.SplitHostPort(rig.FreeAddr(t))
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, port, free)
	}
	return strings.NewReplacer(pairs...)
}

// copied is a folder of config/deploy with other ports.
func copied(t *testing.T, ports *strings.Replacer) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(deployDir)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, []byte(ports.Replace(string(text))), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shell is a terminal in which an operator follows the page.
type shell struct {
	t   *testing.T
	in  io.WriteCloser
	out *rig.Output
	end chan struct{}
	n   int
}

// openShell opens one in a folder. It ends at the first command that fails.
func openShell(t *testing.T, dir string, env ...string) *shell {
	t.Helper()
	bin := t.TempDir()
	if err := os.Symlink(rig.Binary(t), filepath.Join(bin, "farebox")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-eu", "-o", "pipefail")
	cmd.Dir = dir
	cmd.Env = append(append(rig.Env(t), "PATH="+bin+":"+os.Getenv("PATH")+":/usr/sbin"), env...)
	s := &shell{t: t, out: &rig.Output{}, end: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = s.out, s.out, time.Second
	var err error
	if s.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(s.end)
	}()
	t.Cleanup(func() {
		_ = s.in.Close()
		<-s.end
		if t.Failed() {
			t.Logf("the terminal:\n%s", s.out)
		}
	})
	return s
}

// run types a block and waits for its end.
func (s *shell) run(block string) string {
	s.t.Helper()
	s.n++
	before, mark := len(s.out.String()), fmt.Sprintf("=== block %d is done ===\n", s.n)
	if _, err := io.WriteString(s.in, "curl() { command curl --fail-with-body -sS \"$@\"; }\n"+block+"\nprintf '"+
		strings.TrimSuffix(mark, "\n")+"\\n'\n"); err != nil {
		s.t.Fatalf("the terminal is closed: %v\n%s", err, s.out)
	}
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if out := s.out.String()[before:]; strings.Contains(out, mark) {
			return out
		}
		select {
		case <-s.end:
			s.t.Fatalf("a command of the block failed:\n%s", block)
		default:
		}
		if time.Now().After(end) {
			s.t.Fatalf("the block does not end:\n%s", block)
		}
	}
}
