package rig

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"farebox/bench/servers"
)

// How long farebox may take at most: until /readyz says yes (the race detector
// on a busy machine is slow), for an answer, and to stop, which is longer than
// the longest drain_timeout in these tests.
const (
	StartLimit = 60 * time.Second
	CallLimit  = 60 * time.Second
	stopLimit  = 90 * time.Second
	patience   = 60 * time.Second // for all else that is to happen
	portTries  = 5
)

// Hangup makes farebox read its config again.
const Hangup = syscall.SIGHUP

// Gateway is a `farebox serve` process, or one that was stopped.
type Gateway struct {
	Origin string // http://127.0.0.1:port
	URL    string // Origin and the prefix of the API: the base URL of clients
	Dir    string // holds the config file and the store
	Config string // path of the config file
	Store  string

	T    testing.TB
	Addr string        // host:port
	Wrap []string      // the command that runs farebox; empty: none
	Pass *os.File      // becomes its file descriptor 3; nil: none
	Bin  string        // empty: Binary
	Done chan struct{} // closed when the process has ended; then Exit says how
	Exit error
	args []string
	cmd  *exec.Cmd
	out  *Output
	log  *Output
}

// StartGateway writes configText (without listen and store, which the harness
// chooses), starts farebox on it and waits until it is ready. Further
// arguments go to `farebox serve`. The test's end stops it with SIGTERM, and
// fails when it does not stop or when it panicked meanwhile.
func StartGateway(t testing.TB, configText string, args ...string) *Gateway {
	t.Helper()
	g := NewGateway(t, configText, args...)
	g.ListenAndStart()
	return g
}

// StartGatewayOn is StartGateway on the PostgreSQL database at store; empty:
// on an embedded store.
func StartGatewayOn(t testing.TB, store, configText string) *Gateway {
	t.Helper()
	g := NewGateway(t, configText)
	if store != "" {
		g.Store = store
	}
	g.ListenAndStart()
	return g
}

// NewGateway is StartGateway without the start.
func NewGateway(t testing.TB, configText string, args ...string) *Gateway {
	t.Helper()
	dir := t.TempDir()
	g := &Gateway{
		Dir: dir, Config: filepath.Join(dir, "farebox.yaml"), Store: filepath.Join(dir, "store"),
		T: t, args: args, out: &Output{}, log: &Output{},
	}
	g.WriteConfig(configText)
	return g
}

// ShareJail has a gateway on a store or a node's folder use programs that an earlier
// child compiled: compiling takes seconds of processor time.
func ShareJail(t testing.TB, store string) {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("farebox-test-jail-%d", os.Getuid()))
	for _, d := range []string{dir, store} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(store, "jail")); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
}

// ListenAndStart finds a port and starts farebox on it, until the test ends.
func (g *Gateway) ListenAndStart() {
	t := g.T
	t.Helper()
	if text, err := os.ReadFile(g.Config); err == nil && strings.Contains(string(text), "augment:") &&
		!strings.Contains(g.Store, "://") {
		ShareJail(t, g.Store)
	}
	for try := 1; ; try++ {
		g.Addr = FreeAddr(t)
		g.Origin = "http://" + g.Addr
		g.URL = g.Origin + "/api/v1"
		err := g.TryStart()
		if err == nil {
			break
		}
		// Between finding a free port and listening on it another process may have taken it.
		if try < portTries && strings.Contains(g.Log(), "address already in use") {
			g.log.reset()
			continue
		}
		t.Fatalf("%v\n%s", err, g.Tail())
	}
	t.Cleanup(g.Cleanup)
}

// OnBothStores runs a test on an embedded store and on PostgreSQL.
func OnBothStores(t *testing.T, test func(t *testing.T, store string)) {
	t.Run("on the embedded store", func(t *testing.T) {
		t.Parallel()
		test(t, "")
	})
	t.Run("on PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, servers.Database(t))
	})
}

// FreeAddr is a loopback address without a listener.
func FreeAddr(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("cannot find a free port: %v", err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// WriteConfig replaces the config file at once, as an editor does.
func (g *Gateway) WriteConfig(text string) {
	g.T.Helper()
	next := g.Config + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		g.T.Fatal(err)
	}
	if err := os.Rename(next, g.Config); err != nil {
		g.T.Fatal(err)
	}
}

// TryStart is Start for a farebox that may fail to start: it waits until farebox is ready.
func (g *Gateway) TryStart() error {
	printed := len(g.out.String())
	if err := g.launch(); err != nil {
		return err
	}
	for end := time.Now().Add(StartLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		select {
		case <-g.Done:
			return fmt.Errorf("farebox ended before it was ready: %v", g.Exit)
		default:
		}
		res, err := http.Get(g.Origin + "/readyz")
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		// Another process may have taken the address: this one must say that it listens.
		if res.StatusCode == http.StatusOK && strings.Contains(g.out.String()[printed:], "  listening  ") {
			return nil
		}
	}
	g.Kill()
	return fmt.Errorf("farebox was not ready within %s", StartLimit)
}

// KillStarting runs farebox again, as Start does, and kills it after a time, however far
// it has come.
func (g *Gateway) KillStarting(after time.Duration) {
	g.T.Helper()
	if err := g.launch(); err != nil {
		g.T.Fatal(err)
	}
	time.Sleep(after)
	g.Kill()
}

// Launch starts a process that answers elsewhere than on a port, and does not wait for it.
func (g *Gateway) Launch() {
	g.T.Helper()
	if err := g.launch(); err != nil {
		g.T.Fatal(err)
	}
}

// launch starts a process, which is not ready yet.
func (g *Gateway) launch() error {
	bin := g.Bin
	if bin == "" {
		bin = Binary(g.T)
	}
	line := append(slices.Clone(g.Wrap), bin, "serve", "-c", g.Config, "--listen", g.Addr, "--store", g.Store)
	line = append(line, g.args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = g.Dir
	cmd.Env = Env(g.T)
	cmd.Stdout, cmd.Stderr = g.out, g.log
	if g.Pass != nil {
		cmd.ExtraFiles = []*os.File{g.Pass}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start farebox: %w", err)
	}
	done := make(chan struct{})
	g.cmd, g.Done = cmd, done
	go func() {
		g.Exit = cmd.Wait()
		close(done)
	}()
	return nil
}

// Start runs farebox again, after Stop or Kill, on the same address and store.
func (g *Gateway) Start() {
	g.T.Helper()
	for try := 1; ; try++ {
		before := strings.Count(g.Log(), "address already in use")
		err := g.TryStart()
		if err == nil {
			return
		}
		// A connection of another process may have the port for a moment.
		if try == portTries || strings.Count(g.Log(), "address already in use") == before {
			g.T.Fatalf("%v\n%s", err, g.Tail())
		}
		time.Sleep(time.Second)
	}
}

// PID is the process id of the running farebox.
func (g *Gateway) PID() int { return g.cmd.Process.Pid }

// Running says whether the process is there.
func (g *Gateway) Running() bool {
	select {
	case <-g.Done:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process.
func (g *Gateway) Signal(s syscall.Signal) {
	g.T.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		g.T.Fatalf("cannot send %s to farebox: %v", s, err)
	}
}

// Stop drains the gateway with SIGTERM and waits for its end; nil means that
// it ended with success.
func (g *Gateway) Stop() error {
	g.T.Helper()
	if !g.Running() {
		return g.Exit
	}
	Client.CloseIdleConnections() // it waits a moment for clients that keep connections
	_ = g.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-g.Done:
		return g.Exit
	case <-time.After(stopLimit):
		_ = g.cmd.Process.Kill()
		<-g.Done
		return fmt.Errorf("farebox did not stop within %s of SIGTERM", stopLimit)
	}
}

// Kill ends the process with SIGKILL: nothing of its shutdown runs.
func (g *Gateway) Kill() {
	g.T.Helper()
	_ = g.cmd.Process.Kill()
	<-g.Done
}

// faultText is how much of the log a test shows from the runtime's report of a fault on.
const faultText = 6 << 10

// Cleanup stops farebox, and fails the test when it did not stop well or panicked.
func (g *Gateway) Cleanup() {
	if g.Running() {
		if err := g.Stop(); err != nil {
			g.T.Errorf("farebox did not stop well: %v", err)
		}
	}
	log, at := g.Log(), 0
	for line := range strings.Lines(log) {
		for _, bad := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} { // the runtime's own lines
			if strings.HasPrefix(line, bad) {
				g.T.Errorf("farebox wrote to its log: %s", log[at:min(at+faultText, len(log))])
			}
		}
		at += len(line)
		if strings.Contains(line, "panicked: this is a fault of ours") {
			g.T.Errorf("farebox had a panic: %s", line)
		}
	}
	if g.T.Failed() {
		g.T.Log(g.Tail())
	}
}
