package servers

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres is a PostgreSQL server of its own.
type Postgres struct {
	Addr     string
	Password string // of the superuser postgres

	dir      string
	settings []string
	port     string

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{}
	output  lockedBuffer
}

const (
	postgresStart = 60 * time.Second
	postgresStop  = 20 * time.Second
	oldestServer  = 15
)

// StartPostgres starts a server for one test, which may stop and kill it.
// settings are further ones such as "max_connections=20".
func StartPostgres(tb testing.TB, settings ...string) *Postgres {
	tb.Helper()
	needPostgres(tb)
	p, err := newPostgres(settings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.remove)
	p.Start(tb)
	return p
}

// shared is the server of a test binary, for tests that leave it running.
var shared struct {
	sync.Mutex
	server   *Postgres
	template string // a database directory as initdb makes it
}

// Database makes an empty database on the server that all tests of a binary
// share, and gives its address. The binary's TestMain must call [End].
func Database(tb testing.TB) string {
	tb.Helper()
	needPostgres(tb)
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		p, err := newPostgres(nil)
		if err != nil {
			tb.Fatal(err)
		}
		shared.server = p
		p.Start(tb)
	}
	return shared.server.Database(tb)
}

// End stops the servers that the tests of a binary shared.
func End() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.remove()
		shared.server = nil
	}
	if shared.template != "" {
		_ = os.RemoveAll(filepath.Dir(shared.template))
		shared.template = ""
	}
}

// needPostgres leaves the test out when that was asked for, and fails it when
// the server is not installed.
func needPostgres(tb testing.TB) {
	tb.Helper()
	needMachineClock(tb)
	if os.Getenv("FAREBOX_TEST_POSTGRES") == "off" {
		tb.Skip("FAREBOX_TEST_POSTGRES is off")
	}
	if _, err := postgresBinary("initdb"); err != nil {
		tb.Fatal(err)
	}
}

// postgresBinary finds a program of the server, which distributions keep out of
// the PATH.
func postgresBinary(name string) (string, error) {
	var dirs []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/pgsql/bin"} {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	slices.SortFunc(dirs, func(a, b string) int { return versionIn(b) - versionIn(a) })
	for _, dir := range dirs {
		if v := versionIn(dir); v != 0 && v < oldestServer {
			continue
		}
		if path := filepath.Join(dir, name); isProgram(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("cannot find %s of PostgreSQL %d or later: .ci/setup installs it; "+
		"FAREBOX_TEST_POSTGRES=off leaves these tests out", name, oldestServer)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// versionIn is the number in a path such as /usr/lib/postgresql/15/bin.
func versionIn(path string) int {
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, path)
	n, _ := strconv.Atoi(digits)
	return n
}

const postgresPassword = "pass-word-of-the-test"

func newPostgres(settings []string) (*Postgres, error) {
	template, err := initTemplate()
	if err != nil {
		return nil, err
	}
	dir, err := privateDir()
	if err != nil {
		return nil, err
	}
	p := &Postgres{Password: postgresPassword, dir: dir, settings: settings}
	if err := runAs(exec.Command("cp", "-a", template, p.data())); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// initTemplate makes the directory that the servers of this binary start from.
var initTemplate = sync.OnceValues(func() (string, error) {
	initdb, err := postgresBinary("initdb")
	if err != nil {
		return "", err
	}
	dir, err := privateDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte(postgresPassword), 0o644); err != nil {
		return "", err
	}
	data := filepath.Join(dir, "data")
	err = runAs(exec.Command(initdb, "--no-sync", "--no-instructions", "--locale=C", "--encoding=UTF8",
		"--username=postgres",
		"--auth=password", "--pwfile="+file, "--pgdata="+data))
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	shared.template = data
	return data, nil
})

func runAs(cmd *exec.Cmd) error {
	if err := unprivileged(cmd); err != nil {
		return err
	}
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot run %s: %w\n%s", cmd.Path, err, out)
	}
	return nil
}

// Start starts the server, also again after Stop or Kill, on the same port.
func (p *Postgres) Start(tb testing.TB) {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		tb.Fatal("cannot start a PostgreSQL that runs; stop it first")
	}
	for range 5 { // another process may take the port that was free
		if p.Addr == "" {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				tb.Fatalf("cannot find a free port: %v", err)
			}
			p.Addr = ln.Addr().String()
			_, p.port, _ = net.SplitHostPort(p.Addr)
			_ = ln.Close()
		}
		err := p.start()
		if err == nil {
			return
		}
		if !strings.Contains(p.output.String(), "Address already in use") {
			tb.Fatalf("cannot start PostgreSQL: %v\n%s", err, p.output.String())
		}
		p.Addr = ""
	}
	tb.Fatal("cannot start PostgreSQL: no port stays free")
}

// start runs the server until it answers. The caller holds mu.
func (p *Postgres) start() error {
	postgres, err := postgresBinary("postgres")
	if err != nil {
		return err
	}
	args := []string{"-D", p.data()}
	for _, s := range append([]string{
		"listen_addresses=127.0.0.1", "port=" + p.port, "unix_socket_directories=", "max_connections=200",
		"shared_buffers=32MB",
		// Commits survive the end of the server, not of the machine.
		"fsync=off", "full_page_writes=off", "deadlock_timeout=200ms", "jit=off",
	}, p.settings...) {
		args = append(args, "-c", s)
	}
	cmd := exec.Command(postgres, args...)
	cmd.Dir = "/"
	p.output.Reset()
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	if err := unprivileged(cmd); err != nil {
		return err
	}
	ended, failed := make(chan struct{}), make(chan error, 1)
	go runUntilEnd(cmd, failed, ended)
	if err := <-failed; err != nil {
		return err
	}
	p.process, p.ended = cmd, ended
	for deadline := time.Now().Add(postgresStart); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		select {
		case <-ended:
			p.process = nil
			return errors.New("it ended at once")
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		conn, err := pgx.Connect(ctx, p.URL("postgres"))
		if err == nil {
			_ = conn.Close(ctx)
		}
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("it does not answer after %s", postgresStart)
}

// URL is the address of a database of this server.
func (p *Postgres) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", p.Password), Host: p.Addr, Path: database,
		RawQuery: "sslmode=disable"}
	return u.String()
}

// Database makes an empty database and gives its address. It is dropped with
// the test.
func (p *Postgres) Database(tb testing.TB) string {
	tb.Helper()
	name := "t" + strings.ToLower(rand.Text())
	p.Exec(tb, "CREATE DATABASE "+name)
	tb.Cleanup(func() {
		if p.running() {
			p.Exec(tb, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		}
	})
	return p.URL(name)
}

// Exec runs a statement as the superuser.
func (p *Postgres) Exec(tb testing.TB, statement string) {
	tb.Helper()
	ExecAt(tb, p.URL("postgres"), statement)
}

// ExecAt runs a statement on the database at an address.
func ExecAt(tb testing.TB, address, statement string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), postgresStart)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err == nil {
		_, err = conn.Exec(ctx, statement)
		_ = conn.Close(ctx)
	}
	if err != nil {
		tb.Fatalf("cannot run %q: %v", statement, err)
	}
}

func (p *Postgres) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process != nil
}

// Log is the server's output since its start.
func (p *Postgres) Log() string { return p.output.String() }

// Restart stops the server, its clients cut off in the middle of their work,
// and starts it again.
func (p *Postgres) Restart(tb testing.TB) {
	tb.Helper()
	p.Stop()
	p.Start(tb)
}

// Stop ends the server in good order; its clients are cut off.
func (p *Postgres) Stop() { p.end(syscall.SIGINT) }

// Kill ends the server as a crash would: it has to recover at the next start.
func (p *Postgres) Kill() { p.end(syscall.SIGQUIT) }

func (p *Postgres) end(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return
	}
	_ = p.process.Process.Signal(sig)
	select {
	case <-p.ended:
	case <-time.After(postgresStop):
		_ = p.process.Process.Signal(syscall.SIGQUIT)
		<-p.ended
	}
	p.process = nil
}

func (p *Postgres) remove() {
	p.Kill()
	_ = os.RemoveAll(p.dir)
}

// lockedBuffer takes a server's output while another goroutine may read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
