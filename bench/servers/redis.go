package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a redis-server of its own for one test: on a free port of the
// loopback address, without persistence unless asked, ended with the test.
type Redis struct {
	Addr string

	tb   testing.TB
	dir  string
	args []string

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{}
	output  bytes.Buffer
}

const (
	redisStart = 20 * time.Second // a shared machine starts slowly
	redisStop  = 10 * time.Second
)

// StartRedis starts a server; settings are further command-line arguments such
// as "--appendonly", "yes". The test is skipped where redis-server is missing.
func StartRedis(tb testing.TB, settings ...string) *Redis {
	tb.Helper()
	r := newRedis(tb, settings...)
	r.Start()
	return r
}

// silence keeps the library from writing a line for every dial while a server is down,
// which these tests need.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

var quiet = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

func newRedis(tb testing.TB, settings ...string) *Redis {
	tb.Helper()
	needMachineClock(tb)
	quiet()
	Tool(tb, "redis-server")
	port := redisPort(tb)
	r := &Redis{Addr: net.JoinHostPort("127.0.0.1", port), tb: tb, dir: tb.TempDir()}
	r.args = append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--appendonly", "no",
		"--enable-debug-command", "yes", "--loglevel", "warning", "--daemonize", "no",
	}, settings...)
	tb.Cleanup(r.Stop)
	return r
}

// redisPort is a free port that has a free one 10,000 above it, for the bus of
// a cluster.
func redisPort(tb testing.TB) string {
	tb.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatalf("cannot find a free port: %v", err)
		}
		port := ln.Addr().(*net.TCPAddr).Port
		bus, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+10_000)))
		_ = ln.Close()
		if err == nil {
			_ = bus.Close()
			return strconv.Itoa(port)
		}
	}
	tb.Fatal("cannot find a free port with a free one 10,000 above it")
	return ""
}

// Start starts the server again after Stop or Kill, on the same port.
func (r *Redis) Start() {
	r.tb.Helper()
	r.mu.Lock()
	if r.process != nil {
		r.mu.Unlock()
		r.tb.Fatal("cannot start a Redis that runs; stop it first")
	}
	cmd := exec.Command("redis-server", r.args...)
	r.output.Reset()
	cmd.Stdout, cmd.Stderr = &r.output, &r.output
	if err := cmd.Start(); err != nil {
		r.mu.Unlock()
		r.tb.Fatalf("cannot start redis-server: %v", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	r.process, r.ended = cmd, ended
	r.mu.Unlock()
	r.await(ended)
}

func (r *Redis) await(ended chan struct{}) {
	r.tb.Helper()
	c := r.Client()
	defer func() { _ = c.Close() }()
	for deadline := time.Now().Add(redisStart); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			r.tb.Fatalf("redis-server ended at once:\n%s", r.output.String())
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := c.Ping(ctx).Err()
		cancel()
		if err == nil {
			return
		}
	}
	r.tb.Fatalf("redis-server on %s does not answer after %s", r.Addr, redisStart)
}

// Client is a plain connection to the server; the caller closes it.
func (r *Redis) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1, PoolSize: 2, DialerRetries: 1})
}

// Do runs one command and fails the test when that fails.
func (r *Redis) Do(args ...any) any {
	r.tb.Helper()
	c := r.Client()
	defer func() { _ = c.Close() }()
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		r.tb.Fatalf("redis %v: %v", args, err)
	}
	return v
}

// Flush empties the server, as an operator's mistake would.
func (r *Redis) Flush() { r.tb.Helper(); r.Do("FLUSHALL") }

// Stop ends the server in good order; without persistence its data is gone.
func (r *Redis) Stop() { r.end(syscall.SIGTERM) }

// Kill ends the server at once.
func (r *Redis) Kill() { r.end(syscall.SIGKILL) }

func (r *Redis) end(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return
	}
	_ = r.process.Process.Signal(thaw) // one that is frozen takes no signal
	_ = r.process.Process.Signal(sig)
	select {
	case <-r.ended:
	case <-time.After(redisStop):
		_ = r.process.Process.Kill()
		<-r.ended
	}
	r.process = nil
}

// Freeze stops the server in the middle of its work: connections stay, answers do not
// arrive. Thaw lets it go on.
func (r *Redis) Freeze() { r.signal(freeze) }

// Thaw ends Freeze.
func (r *Redis) Thaw() { r.signal(thaw) }

func (r *Redis) signal(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil {
		_ = r.process.Process.Signal(sig)
	}
}

// CPU is the processor time that the server has used.
func (r *Redis) CPU() time.Duration {
	r.tb.Helper()
	var total float64
	info, _ := r.Do("INFO", "cpu").(string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				r.tb.Fatalf("cannot read %s: %v", line, err)
			}
			total += v
		}
	}
	return time.Duration(total * float64(time.Second))
}

// Sentinels are a master, its replica and three Sentinels that watch them.
type Sentinels struct {
	Name            string // of the master
	Addrs           []string
	Master, Replica *Redis
}

// StartSentinels starts all five; they agree on a new master within about
// three seconds.
func StartSentinels(tb testing.TB) *Sentinels {
	tb.Helper()
	s := &Sentinels{Name: "limits", Master: StartRedis(tb)}
	host, port, _ := net.SplitHostPort(s.Master.Addr)
	s.Replica = StartRedis(tb, "--replicaof", host+" "+port)
	for range 3 {
		p := redisPort(tb)
		dir := tb.TempDir()
		file := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s %s 2\nsentinel "+
			"down-after-milliseconds %[3]s 1000\nsentinel failover-timeout %[3]s 3000\n",
			p, dir, s.Name, host, port)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
		one := &Redis{Addr: net.JoinHostPort("127.0.0.1", p), tb: tb, dir: dir, args: []string{file, "--sentinel"}}
		tb.Cleanup(one.Stop)
		one.Start()
		s.Addrs = append(s.Addrs, one.Addr)
	}
	until(tb, "the replica follows the master", func() bool {
		info, _ := s.Master.Do("INFO", "replication").(string)
		return strings.Contains(info, "state=online")
	})
	return s
}

// Cluster is a Redis Cluster of three masters.
type Cluster struct {
	Addrs []string
	Nodes []*Redis
}

// StartCluster starts three masters that share the slots.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{}
	for range 3 {
		n := StartRedis(tb, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
			"--cluster-require-full-coverage", "no")
		c.Nodes = append(c.Nodes, n)
		c.Addrs = append(c.Addrs, n.Addr)
	}
	const slots = 16384
	host, port, _ := net.SplitHostPort(c.Addrs[0])
	for i, n := range c.Nodes {
		n.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i > 0 {
			n.Do("CLUSTER", "MEET", host, port)
		}
	}
	for _, n := range c.Nodes {
		until(tb, "the cluster agrees", func() bool {
			info, _ := n.Do("CLUSTER", "INFO").(string)
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") &&
				strings.Contains(info, "cluster_slots_ok:16384")
		})
	}
	return c
}

func until(tb testing.TB, what string, met func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(redisStart); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if met() {
			return
		}
	}
	tb.Fatalf("waited %s in vain until %s", redisStart, what)
}
