package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"farebox/bench/upstream"
	"farebox/bench/upstream/node"
	"farebox/bench/upstream/strict"
)

const (
	startLimit = 60 * time.Second
	stopLimit  = 60 * time.Second
	// settleLimit is how long a request that ended may take to be in the log.
	settleLimit = 3 * time.Second
)

// lab is the binary that is recorded, the simulated upstreams behind it, and the
// gateway that runs now.
type lab struct {
	rec    *recording
	binary string
	dir    string
	taps   []*tap
	sim    *strict.Server
	simURL string // without /v1
	nodes  []*node.Node
	urls   []string // of the nodes
	ends   []func()

	// Of the gateway that runs.
	phase  string
	config string
	store  string
	wire   *wire
	cmd    *exec.Cmd
	done   chan struct{}
	log    *logOf
	told   int // lines of the log that entries have already
	count  int // requests of all phases
}

// logOf collects the lines of a process.
type logOf struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *logOf) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// lines are the whole lines so far.
func (o *logOf) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := strings.Split(o.buf.String(), "\n")
	return all[:len(all)-1]
}

// newLab starts the upstreams.
func newLab(binary string) (*lab, error) {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "farebox-record-")
	if err != nil {
		return nil, err
	}
	l := &lab{binary: binary, dir: dir, rec: &recording{Start: time.Now(), Names: map[string]string{}}}
	l.ends = append(l.ends, func() { _ = os.RemoveAll(dir) })
	l.rec.Names[dir] = "<dir>"
	l.rec.Names[binary] = "<farebox>"

	t, err := l.tap("models")
	if err != nil {
		return nil, err
	}
	l.sim = strict.New(upstream.Options{Key: "sim-key"})
	l.simURL = "http://" + t.Addr().String()
	go func() { _ = l.sim.Serve(t) }()
	l.ends = append(l.ends, l.sim.Close)
	for i := range 3 {
		t, err := l.tap("node-" + strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		n := node.New(node.Options{Solana: i == 2, Seed: uint64(i), Name: t.name})
		l.nodes, l.urls = append(l.nodes, n), append(l.urls, "http://"+t.Addr().String())
		server := &http.Server{Handler: n, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(t) }()
		l.ends = append(l.ends, func() { _ = server.Close() })
	}
	return l, nil
}

func (l *lab) tap(name string) (*tap, error) {
	t, err := listen(name)
	if err != nil {
		return nil, err
	}
	l.taps = append(l.taps, t)
	l.rec.Names[t.Addr().String()] = "<" + name + ">"
	return t, nil
}

func (l *lab) close() {
	l.stop()
	for i := len(l.ends) - 1; i >= 0; i-- {
		l.ends[i]()
	}
}

// begin starts a gateway on a store of its own.
func (l *lab) begin(phase, config string) error {
	l.phase = phase
	dir := filepath.Join(l.dir, phase)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	l.config, l.store = filepath.Join(dir, "farebox.yaml"), filepath.Join(dir, "store")
	if err := os.WriteFile(l.config, []byte(config), 0o600); err != nil {
		return err
	}
	var err error
	for range 5 { // another process may take the port meanwhile
		if err = l.start(); err == nil {
			return nil
		}
	}
	return err
}

func (l *lab) start() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	l.rec.Names[addr] = "<gateway>"
	l.log, l.told, l.wire = &logOf{}, 0, &wire{addr: addr}
	out := &logOf{}
	l.cmd = exec.Command(l.binary, "serve", "-c", l.config, "--listen", addr, "--store", l.store)
	l.cmd.Dir = filepath.Dir(l.config)
	l.cmd.Env = append(os.Environ(), "TZ=UTC")
	l.cmd.Stdout, l.cmd.Stderr = out, l.log
	if err := l.cmd.Start(); err != nil {
		return err
	}
	done, cmd := make(chan struct{}), l.cmd
	l.done = done
	go func() { _ = cmd.Wait(); close(done) }()
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case <-done:
			return fmt.Errorf("farebox ended before it was ready:\n%s", strings.Join(l.log.lines(), "\n"))
		default:
		}
		res, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == 200 {
			l.told = len(l.log.lines())
			return nil
		}
	}
	l.stop()
	return errors.New("farebox was not ready in time")
}

// stop drains the gateway and waits for its end.
func (l *lab) stop() {
	if l.cmd == nil {
		return
	}
	l.wire.closeConn()
	_ = l.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-l.done:
	case <-time.After(stopLimit):
		_ = l.cmd.Process.Kill()
		<-l.done
	}
	l.cmd = nil
}

// step is one request.
type step struct {
	name    string
	method  string   // default POST
	path    string   // below /api/v1, or from the root when it begins with //
	key     string   // of the Authorization header
	headers []string // further ones, as lines
	body    string
	raw     string // the whole request, instead of all of these
	leave   int    // see wire.send
}

func (s *step) bytes() []byte {
	if s.raw != "" {
		return []byte(s.raw)
	}
	method, path := s.method, "/api/v1"+s.path
	if method == "" {
		method = "POST"
	}
	if strings.HasPrefix(s.path, "//") {
		path = s.path[1:]
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: gateway.test\r\n", method, path)
	if s.key != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", s.key)
	}
	typed := false
	for _, h := range s.headers {
		b.WriteString(h + "\r\n")
		typed = typed || strings.HasPrefix(strings.ToLower(h), "content-type:")
	}
	if s.body != "" {
		if !typed {
			b.WriteString("Content-Type: application/json\r\n")
		}
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(s.body))
	} else if method != "GET" && method != "HEAD" && method != "OPTIONS" {
		b.WriteString("Content-Length: 0\r\n")
	}
	b.WriteString("\r\n" + s.body)
	return b.Bytes()
}

// post sends a body, get asks for something; see do.
func (l *lab) post(name, path, key, body string, headers ...string) *answer {
	return l.do(step{name: name, path: path, key: key, body: body, headers: headers})
}

func (l *lab) get(name, path, key string, headers ...string) *answer {
	return l.do(step{name: name, method: "GET", path: path, key: key, headers: headers})
}

// do sends a request, waits until it is over for all, and records it.
func (l *lab) do(s step) *answer {
	e := &entry{Name: fmt.Sprintf("%04d %s: %s", l.count, l.phase, s.name)}
	l.count++
	l.rec.Entries = append(l.rec.Entries, e)
	request := s.bytes()
	e.add("sent", request[:min(len(request), 16<<10)])
	a, err := l.wire.send(request, s.leave, func() { l.heard() })
	if err != nil {
		e.add("failed", []byte(err.Error()))
		return &answer{}
	}
	e.add("head", []byte(a.head))
	e.add("body", a.body)
	if a.ending != "" {
		e.add("ending", []byte(a.ending))
	}
	l.sim.WaitIdle(settleLimit)
	l.addLog(e, a)
	for _, t := range l.taps {
		for _, q := range t.requests() {
			e.add("asked "+t.name, []byte(q))
		}
	}
	return a
}

// heard waits until some upstream has got a request that is answered.
func (l *lab) heard() {
	before := l.sim.Stats().Open
	for end := time.Now().Add(settleLimit); time.Now().Before(end) && before == 0; time.Sleep(time.Millisecond) {
		before = l.sim.Stats().Open
	}
}

// addLog adds the log's line about a request, once it is there.
func (l *lab) addLog(e *entry, a *answer) {
	all := l.log.lines()
	id := headerOf(a.head, "X-Request-Id")
	if a.head == "" {
		id = `"` // its client left before it learnt the id
	}
	for end := time.Now().Add(settleLimit); id != "" && !said(all[l.told:], id) &&
		time.Now().Before(end); all = l.log.lines() {
		time.Sleep(200 * time.Microsecond)
	}
	for _, line := range all[l.told:] {
		e.add("log", []byte(line+"\n"))
	}
	l.told = len(all)
}

// said finds the line that ends a request.
func said(lines []string, what string) bool {
	for _, line := range lines {
		if strings.Contains(line, what) && strings.Contains(line, `"message":"request"`) {
			return true
		}
	}
	return false
}

// cli runs a command of the binary on the store that is open now, and records it.
func (l *lab) cli(args ...string) string {
	return l.run(nil, append(args, "--store", l.store)...)
}

// run runs a command, and records it; keep, if given, reduces its standard output for the
// recording.
func (l *lab) run(keep func(string) string, args ...string) string {
	e := &entry{Name: fmt.Sprintf("%04d %s: farebox %s", l.count, l.phase, strings.Join(args, " "))}
	l.count++
	l.rec.Entries = append(l.rec.Entries, e)
	cmd := exec.Command(l.binary, args...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "COLUMNS=120")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	text := out.String()
	if keep != nil {
		text = keep(text)
	}
	e.add("stdout", []byte(text))
	e.add("stderr", errs.Bytes())
	if err != nil {
		e.add("exit", []byte(err.Error()))
	}
	return out.String()
}

// account makes an account with a balance.
func (l *lab) account(name, usd string) (id string) {
	var a struct{ ID string }
	_ = json.Unmarshal([]byte(l.cli("account", "create", "--name", name, "--json")), &a)
	if usd != "" {
		l.cli("account", "credit", name, usd, "--ref", "first-"+name)
	}
	return a.ID
}

// key makes a key of an account.
func (l *lab) key(account string, args ...string) (id, secret string) {
	var k struct {
		ID     string `json:"id"`
		APIKey string `json:"apiKey"`
	}
	_ = json.Unmarshal([]byte(l.cli(append([]string{"key", "create", "--account", account, "--json"}, args...)...)), &k)
	return k.ID, k.APIKey
}

// settled waits until nothing is held any more.
func (l *lab) settled() {
	for end := time.Now().Add(settleLimit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		out, err := exec.Command(l.binary, "account", "list", "--json", "--store", l.store).Output()
		var all []struct{ Held string }
		if err != nil || json.Unmarshal(out, &all) != nil {
			continue
		}
		open := false
		for _, a := range all {
			open = open || a.Held != "0"
		}
		if !open {
			return
		}
	}
}
