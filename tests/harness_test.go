package tests

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
)

// These tests treat farebox as a black box: the real binary, its
// command line, its sockets and its store. This file starts and stops it.

const (
	startLimit = 60 * time.Second // until /readyz says yes; the race detector on a busy machine is slow
	stopLimit  = 90 * time.Second // longer than the longest drain_timeout in these tests
	callLimit  = 60 * time.Second
	portTries  = 5
)

// TestMain removes the binary that fareboxBinary may have built, and ends the
// servers that tests shared. These tests wait for processes more than they
// work, so that more of them run at once than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := os.Chdir(".."); err != nil { // paths are those of the project
		panic(err)
	}
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		most := 6
		if raceDetector() {
			most = 4
		}
		_ = flag.Set("test.parallel", strconv.Itoa(max(most, runtime.GOMAXPROCS(0))))
	}
	code := m.Run()
	servers.End()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// fareboxBinary is $FAREBOX_BIN, or one built for this run, with the race detector
// when the tests themselves have it.
func fareboxBinary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if path := os.Getenv("FAREBOX_BIN"); path != "" {
			built.path, built.err = filepath.Abs(path)
			return
		}
		if built.dir, built.err = os.MkdirTemp("", "farebox-test-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "farebox")
		args := []string{"build", "-tags", "nodynamic", "-o", built.path}
		if raceDetector() {
			args = append(args, "-race")
		}
		out, err := exec.Command("go", append(args, ".")...).CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("cannot build farebox: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// seeded gives sources of random numbers, by number, from a seed that the test
// logs; FAREBOX_TEST_SEED repeats one.
func seeded(t testing.TB) func(n uint64) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if again, err := strconv.ParseUint(os.Getenv("FAREBOX_TEST_SEED"), 10, 64); err == nil {
		seed = again
	}
	t.Logf("seed %d", seed)
	return func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
}

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// simulated is an upstream inside the test process, which knows the truth.
type simulated struct {
	*upstream.Server
	URL string // with /v1, for base_url
}

// startUpstream serves a simulated upstream on loopback until the test ends.
func startUpstream(t testing.TB, o upstream.Options) *simulated {
	t.Helper()
	s := upstream.New(o)
	url, err := s.Start()
	if err != nil {
		t.Fatalf("cannot start the simulated upstream: %v", err)
	}
	t.Cleanup(s.Close)
	return &simulated{Server: s, URL: url}
}

// gateway is a `farebox serve` process, or one that was stopped.
type gateway struct {
	Origin string // http://127.0.0.1:port
	URL    string // Origin and the prefix of the API: the base URL of clients
	Dir    string // holds the config file and the store
	Config string // path of the config file
	Store  string

	t    testing.TB
	addr string
	args []string
	wrap []string // the command that runs farebox; empty: none
	pass *os.File // becomes its file descriptor 3; nil: none
	bin  string   // empty: fareboxBinary
	cmd  *exec.Cmd
	out  *output
	log  *output
	done chan struct{}
	exit error
}

// startGateway writes configText (without listen and store, which the harness
// chooses), starts farebox on it and waits until it is ready. Further
// arguments go to `farebox serve`. The test's end stops it with SIGTERM, and
// fails when it does not stop or when it panicked meanwhile.
func startGateway(t testing.TB, configText string, args ...string) *gateway {
	t.Helper()
	g := newGateway(t, configText, args...)
	g.listenAndStart()
	return g
}

// startGatewayOn is startGateway on the PostgreSQL database at store; empty:
// on an embedded store.
func startGatewayOn(t testing.TB, store, configText string) *gateway {
	t.Helper()
	g := newGateway(t, configText)
	if store != "" {
		g.Store = store
	}
	g.listenAndStart()
	return g
}

// newGateway is startGateway without the start.
func newGateway(t testing.TB, configText string, args ...string) *gateway {
	t.Helper()
	dir := t.TempDir()
	g := &gateway{
		Dir: dir, Config: filepath.Join(dir, "farebox.yaml"), Store: filepath.Join(dir, "store"),
		t: t, args: args, out: &output{}, log: &output{},
	}
	g.WriteConfig(configText)
	return g
}

// listenAndStart finds a port and starts farebox on it, until the test ends.
func (g *gateway) listenAndStart() {
	t := g.t
	t.Helper()
	for try := 1; ; try++ {
		g.addr = freeAddr(t)
		g.Origin = "http://" + g.addr
		g.URL = g.Origin + "/api/v1"
		err := g.start()
		if err == nil {
			break
		}
		// Between finding a free port and listening on it somebody else may have come.
		if try < portTries && strings.Contains(g.Log(), "address already in use") {
			g.log.reset()
			continue
		}
		t.Fatalf("%v\n%s", err, g.tail())
	}
	t.Cleanup(g.cleanup)
}

// onBothStores runs a test on an embedded store and on PostgreSQL.
func onBothStores(t *testing.T, test func(t *testing.T, store string)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, "")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, servers.Database(t))
	})
}

// freeAddr is a loopback address that nobody listens on.
func freeAddr(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("cannot find a free port: %v", err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// WriteConfig replaces the config file at once, as an editor does.
func (g *gateway) WriteConfig(text string) {
	g.t.Helper()
	next := g.Config + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(next, g.Config); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateway) start() error {
	bin := g.bin
	if bin == "" {
		bin = fareboxBinary(g.t)
	}
	line := append(slices.Clone(g.wrap), bin, "serve", "-c", g.Config, "--listen", g.addr, "--store", g.Store)
	line = append(line, g.args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = g.Dir
	cmd.Stdout, cmd.Stderr = g.out, g.log
	if g.pass != nil {
		cmd.ExtraFiles = []*os.File{g.pass}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start farebox: %w", err)
	}
	done := make(chan struct{})
	g.cmd, g.done = cmd, done
	go func() {
		g.exit = cmd.Wait()
		close(done)
	}()
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		select {
		case <-done:
			return fmt.Errorf("farebox ended before it was ready: %v", g.exit)
		default:
		}
		res, err := http.Get(g.Origin + "/readyz")
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
	}
	_ = cmd.Process.Kill()
	<-done
	return fmt.Errorf("farebox was not ready within %s", startLimit)
}

// Start runs farebox again, after Stop or Kill, on the same address and store.
func (g *gateway) Start() {
	g.t.Helper()
	if err := g.start(); err != nil {
		g.t.Fatalf("%v\n%s", err, g.tail())
	}
}

// PID is the process id of the running farebox.
func (g *gateway) PID() int { return g.cmd.Process.Pid }

// Running says whether the process is there.
func (g *gateway) Running() bool {
	select {
	case <-g.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process.
func (g *gateway) Signal(s syscall.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		g.t.Fatalf("cannot send %s to farebox: %v", s, err)
	}
}

// Stop drains the gateway with SIGTERM and waits for its end; nil means that
// it ended with success.
func (g *gateway) Stop() error {
	g.t.Helper()
	if !g.Running() {
		return g.exit
	}
	client.CloseIdleConnections() // it waits a moment for clients that keep connections
	_ = g.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-g.done:
		return g.exit
	case <-time.After(stopLimit):
		_ = g.cmd.Process.Kill()
		<-g.done
		return fmt.Errorf("farebox did not stop within %s of SIGTERM", stopLimit)
	}
}

// Kill ends the process with SIGKILL: nothing of its shutdown runs.
func (g *gateway) Kill() {
	g.t.Helper()
	_ = g.cmd.Process.Kill()
	<-g.done
}

func (g *gateway) cleanup() {
	if g.Running() {
		if err := g.Stop(); err != nil {
			g.t.Errorf("farebox did not stop well: %v", err)
		}
	}
	for _, bad := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
		if strings.Contains(g.Log(), bad) {
			g.t.Errorf("farebox wrote %q to its log", bad)
		}
	}
	if g.t.Failed() {
		g.t.Log(g.tail())
	}
}

// Log is everything farebox has written to standard error so far.
func (g *gateway) Log() string { return g.log.String() }

// Banner is everything farebox has written to standard output so far.
func (g *gateway) Banner() string { return g.out.String() }

func (g *gateway) tail() string {
	const most = 8 << 10
	text := g.Log()
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	return "farebox's log:\n" + text
}

var client = &http.Client{Timeout: callLimit}

// post sends a JSON body to a path of the API (such as /chat/completions) with
// a key ("" for none) and reads the whole answer.
func (g *gateway) post(path, key, body string) (status int, header http.Header, answer []byte) {
	g.t.Helper()
	return g.call(http.MethodPost, path, key, body)
}

// get reads a path of the API.
func (g *gateway) get(path, key string) (status int, header http.Header, answer []byte) {
	g.t.Helper()
	return g.call(http.MethodGet, path, key, "")
}

func (g *gateway) call(method, path, key, body string) (int, http.Header, []byte) {
	g.t.Helper()
	res := g.open(method, path, key, body)
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatalf("cannot read the answer of %s %s: %v", method, path, err)
	}
	return res.StatusCode, res.Header, answer
}

// open sends a request and leaves the answer's body to the caller.
func (g *gateway) open(method, path, key, body string) *http.Response {
	g.t.Helper()
	req, err := http.NewRequest(method, g.URL+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := client.Do(req)
	if err != nil {
		g.t.Fatalf("cannot call %s %s: %v", method, path, err)
	}
	return res
}

// try posts a JSON body with a key, and further headers as names and values,
// where the connection may break: err says so.
func try(c *http.Client, url, key, body string, headers ...string) (status int, header http.Header, answer string, err error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(text), err
}

// metricsURL is where the banner says that /metrics are.
func (g *gateway) metricsURL() string {
	url := ""
	for end := time.Now().Add(callLimit); ; time.Sleep(10 * time.Millisecond) {
		for line := range strings.Lines(g.Banner()) {
			if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "metrics" {
				url = fields[1] // the last one: it may have started several times
			}
		}
		if url != "" {
			return url
		}
		if time.Now().After(end) {
			g.t.Fatalf("the banner names no metrics: %s", g.Banner())
		}
	}
}

// metric reads one value of /metrics; ok is false when it is not there.
func (g *gateway) metric(name string) (value float64, ok bool) {
	g.t.Helper()
	res, err := client.Get(g.metricsURL())
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if text, found := strings.CutPrefix(line, name+" "); found {
			value, err = strconv.ParseFloat(strings.TrimSpace(text), 64)
			return value, err == nil
		}
	}
	return 0, false
}

// metricIs waits for a value of /metrics.
func (g *gateway) metricIs(name string, is func(float64) bool) {
	g.t.Helper()
	for end := time.Now().Add(callLimit); ; time.Sleep(20 * time.Millisecond) {
		value, ok := g.metric(name)
		if ok && is(value) {
			return
		}
		if time.Now().After(end) {
			g.t.Fatalf("%s is %v (there: %v) after %s", name, value, ok, callLimit)
		}
	}
}

// output collects what a process writes while a test reads it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Reset()
}
