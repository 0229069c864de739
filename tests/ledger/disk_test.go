//go:build linux

package ledger

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// The data directory of the real binary on a disk that is full, or that it may
// not write to.

// scarce is a disk that fills up: a file system of its own, or, where none can
// be mounted, a limit on the size of the files that farebox writes.
type scarce struct {
	disk *servers.Disk
	g    *rig.Gateway
}

func (s *scarce) fill(t *testing.T) {
	t.Helper()
	if s.disk != nil {
		s.disk.Fill(t, 0)
		return
	}
	s.limit(t, 0)
}

func (s *scarce) free(t *testing.T) {
	t.Helper()
	if s.disk != nil {
		s.disk.Free(t)
	} else if s.g.Running() {
		s.limit(t, unix.RLIM_INFINITY)
	}
}

func (s *scarce) limit(t *testing.T, bytes uint64) {
	t.Helper()
	if err := unix.Prlimit(s.g.PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err !=
		nil {
		t.Fatal(err)
	}
}

// startFull starts farebox while the disk is full. It either ends with a remedy, or
// listens; with room again it is ready, at the latest at the next start.
func (s *scarce) startFull(t *testing.T, meanwhile func()) {
	t.Helper()
	g := s.g
	if s.disk == nil {
		g.Wrap = []string{"sh", "-c", `ulimit -S -f 0; exec "$0" "$@"`}
	}
	before := len(g.Log())
	started := make(chan error, 1)
	go func() { started <- g.TryStart() }()
	for {
		select {
		case err := <-started:
			if text := g.Log()[before:]; err != nil && !strings.Contains(text, "make room") &&
				!strings.Contains(text, "free space") {
				t.Errorf("started on a full disk: %v, and it says\n%s", err, text)
			}
			s.free(t)
			g.Wrap = nil
			if err != nil {
				g.Start()
			}
			return
		case <-time.After(20 * time.Millisecond):
		}
		res, err := rig.Client.Get(g.Origin + "/readyz")
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == 503 {
			break
		}
	}
	meanwhile()
	s.free(t)
	g.Wrap = nil
	if err := <-started; err != nil {
		t.Fatalf("with room again: %v", err)
	}
}

// untilExit runs a command that should end by itself.
func untilExit(t *testing.T, cmd *exec.Cmd) (text string, exit int) {
	t.Helper()
	end := time.AfterFunc(rig.CallLimit, func() { _ = cmd.Process.Kill() })
	defer end.Stop()
	out, err := cmd.CombinedOutput()
	return string(out), rig.ExitCode(err)
}

// "The disk of the gateway ran full": it goes on while its journal has room,
// says so, loses no charge even when it is killed then, and needs nothing but
// room to go on.
func TestFullDiskLosesNoCharge(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.NewGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	s := &scarce{disk: servers.StartDisk(t, "64m"), g: g}
	if s.disk != nil {
		g.Store = filepath.Join(s.disk.Dir, "store")
	}
	g.ListenAndStart()
	g.NewAccount("a", "10")
	key := g.Key("a")
	body := rig.Ask("sim-chat", "[[sim tokens=8]] Hello", "")
	answered := func(n int) {
		t.Helper()
		for range n {
			if status, _, answer := g.Post("/chat/completions", key, body); status != 200 {
				t.Fatalf("answered %d: %s", status, answer)
			}
		}
	}
	spent := func() {
		t.Helper()
		tokens := sim.Idle(t).Tokens
		want := rig.Money(tokens.PromptTokens*1000 + tokens.CompletionTokens*2000)
		if a := g.Settled()["a"]; a.Spent != want || a.USD != 10_000_000_000-want {
			t.Errorf("%s were produced, the account is %+v", want, a)
		}
		g.CLI("verify")
	}
	answered(20)

	s.fill(t)
	answered(20)
	g.MetricIs("farebox_store_up", func(v float64) bool { return v == 0 })
	answered(20)
	// "The load balancer took the only node away while it still served everybody."
	if res, err := rig.Client.Get(g.Origin + "/readyz"); err != nil || res.StatusCode != 200 {
		t.Errorf("/readyz while requests are served: %v, %v", res, err)
	} else {
		_ = res.Body.Close()
		g.AwaitLog("ready as long as the journal has room")
	}
	if out, err := g.TryCLI("account", "credit", "a", "1"); err == nil {
		t.Errorf("a credit was taken that cannot be recorded: %s", out)
	}
	s.free(t)
	g.MetricIs("farebox_store_up", func(v float64) bool { return v == 1 })
	answered(20)
	spent()

	s.fill(t)
	answered(20)
	g.Kill()
	s.startFull(t, func() {})
	spent()
	answered(20)

	s.fill(t)
	answered(20)
	if err := g.Stop(); rig.ExitCode(err) != 1 || !strings.Contains(g.Log()+g.Banner(),
		"the journal keeps the missing records") {
		t.Errorf("stopped on a full disk it ends with %v", err)
	}
	s.free(t)
	spent() // by the command line alone
	if s.disk == nil {
		g.Start()
	} else {
		withoutJournal(t, s, key, body)
	}
	answered(20)
	spent()
}

// withoutJournal starts a farebox that has room for its database but not for its journal:
// it refuses requests that it could not record, and serves when it can.
func withoutJournal(t *testing.T, s *scarce, key, body string) {
	t.Helper()
	for _, left := range []string{"*.spare", "*.next"} {
		paths, err := filepath.Glob(filepath.Join(s.g.Store, "journal", left))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.disk.Fill(t, 8<<20)
	refused := false
	s.startFull(t, func() {
		status, header, answer := s.g.Post("/chat/completions", key, body)
		if refused = true; status != 503 || header.Get("Retry-After") == "" {
			t.Errorf("answered %d with Retry-After %q: %s", status, header.Get("Retry-After"), answer)
		}
	})
	if !refused {
		t.Error("farebox called itself ready without room for a journal")
	}
}

// "permission denied", and nothing about what to do.
func TestDirectoryThatCannotBeWrittenIsRefusedInWords(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "10")
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	// Root may write everywhere, so this needs another user, and a directory that the
	// user can enter.
	dir, err := os.MkdirTemp("", "farebox-readonly-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var as *syscall.SysProcAttr
	uid := os.Getuid()
	if uid == 0 {
		uid = 65534
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	binary, store, empty := filepath.Join(dir, "farebox"), filepath.Join(dir, "store"), filepath.Join(dir, "empty")
	copyFile(t, binary, rig.Binary(t), 0o755)
	copyFile(t, filepath.Join(dir, "farebox.yaml"), g.Config, 0o644)
	if err := os.CopyFS(store, os.DirFS(g.Store)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(empty, 0o555); err != nil {
		t.Fatal(err)
	}
	mode := func(dirs, files os.FileMode) {
		t.Helper()
		err := filepath.Walk(store, func(path string, info os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			mode := files
			if info.IsDir() {
				mode = dirs
			}
			if err := os.Chmod(path, mode); err != nil || os.Getuid() != 0 {
				return err
			}
			return os.Chown(path, uid, uid)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(binary, append(args, "-c", filepath.Join(dir, "farebox.yaml"))...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		return untilExit(t, cmd)
	}
	refused := func(what, store string, commands ...[]string) {
		t.Helper()
		for _, args := range commands {
			text, exit := run(append(args, "--store", store)...)
			if exit != 1 || !strings.Contains(text, "must be able to write to "+store) ||
				strings.Count(text, "\n") != 1 {
				t.Errorf("%s: %s ends with %d and says\n%s", what, args[0], exit, text)
			}
		}
	}
	serve, create, list := []string{"serve", "--listen", "127.0.0.1:0"}, []string{"account", "create", "--name", "a"},
		[]string{"account", "list"}
	refused("an empty directory", empty, serve, create)
	refused("no directory", filepath.Join(empty, "store"), serve, create)
	mode(0o555, 0o444)
	refused("everything", store, serve, create, list)
	mode(0o555, 0o644)
	refused("the directories", store, serve, create, list)
	mode(0o755, 0o644)
	if text, exit := run("account", "list", "--store", store); exit != 0 || !strings.Contains(text, " 10 ") {
		t.Errorf("once it is writable it ends with %d and says\n%s", exit, text)
	}
}

func copyFile(t *testing.T, to, from string, mode os.FileMode) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
