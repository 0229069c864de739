package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// watched is a watched file, with the results of its watcher.
type watched struct {
	*Watcher
	t       *testing.T
	path    string
	applied chan *Config
	said    chan string
	refuse  atomic.Pointer[error] // the error that apply returns
}

func text(model string) string {
	return strings.Replace(fmt.Sprintf(base, ""), "id: chat", "id: "+model, 1)
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func watch(t *testing.T, path string) *watched {
	t.Helper()
	w := &watched{t: t, path: path, applied: make(chan *Config, 100), said: make(chan string, 100)}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	w.Watcher, err = c.Watch(func(c *Config) error {
		if err := w.refuse.Load(); err != nil {
			return *err
		}
		w.applied <- c
		return nil
	}, func(msg string, err error) {
		if err != nil {
			msg += ": " + err.Error()
		}
		w.said <- msg
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// model waits until a config with that model is in effect.
func (w *watched) model(id string) *Config {
	w.t.Helper()
	timeout := time.After(lookEvery / 2) // by an event, not by the slow poll
	for {
		select {
		case c := <-w.applied:
			if c.Models[0].ID == id {
				return c
			}
		case <-timeout:
			w.t.Fatalf("model %s was never applied", id)
		}
	}
}

func (w *watched) says(part string) {
	w.t.Helper()
	timeout := time.After(lookEvery / 2)
	for {
		select {
		case msg := <-w.said:
			if strings.Contains(msg, part) {
				return
			}
		case <-timeout:
			w.t.Fatalf("nothing was said about %q", part)
		}
	}
}

func (w *watched) silent() {
	w.t.Helper()
	select {
	case c := <-w.applied:
		w.t.Errorf("applied again: %s", c.Models[0].ID)
	case <-time.After(3 * settle):
	}
}

func TestChangedFileIsApplied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "farebox.yaml")
	put(t, path, text("one"))
	w := watch(t, path)
	w.silent() // the running config is not applied again
	put(t, path, text("two"))
	w.model("two")
	w.says("is in effect: 1 upstream, 1 model")
	put(t, path, text("three"))
	w.model("three")
}

// Editors and deployment tools write beside the file and rename.
func TestReplacedFileIsApplied(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "farebox.yaml")
	put(t, path, text("one"))
	w := watch(t, path)
	for _, id := range []string{"two", "three", "four"} {
		put(t, filepath.Join(dir, ".farebox.yaml.tmp"), text(id))
		if err := os.Rename(filepath.Join(dir, ".farebox.yaml.tmp"), path); err != nil {
			t.Fatal(err)
		}
		w.model(id)
	}
}

// A Kubernetes config map swaps a directory link; nothing happens to the name
// of the file itself.
func TestSwappedConfigMapIsApplied(t *testing.T) {
	dir := t.TempDir()
	revision := func(name, id string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name, "farebox.yaml"), text(id))
	}
	link := func(target, name string) {
		t.Helper()
		tmp := filepath.Join(dir, name+"_tmp")
		if err := os.Symlink(target, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	revision("..1", "one")
	link("..1", "..data")
	link("..data/farebox.yaml", "farebox.yaml")
	w := watch(t, filepath.Join(dir, "farebox.yaml"))
	for i, id := range []string{"two", "three"} {
		next := fmt.Sprintf("..%d", i+2)
		revision(next, id)
		link(next, "..data")
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", i+1))); err != nil {
			t.Fatal(err)
		}
		w.model(id)
	}
}

// A typo at night must not stop the gateway.
func TestBrokenFileKeepsTheRunningConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "farebox.yaml")
	put(t, path, text("one"))
	w := watch(t, path)
	put(t, path, text("two")+"zebra: 1\n")
	w.says(`the running config stays: ` + path + " has 1 mistake")
	w.silent()
	put(t, path, text("two"))
	w.model("two")
}

func TestRemovedFileKeepsTheRunningConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "farebox.yaml")
	put(t, path, text("one"))
	w := watch(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.says("cannot be read; the running config stays")
	put(t, path, text("one"))
	w.silent() // restored
	put(t, path, text("two"))
	w.model("two")
}

// A config that apply refuses is not running: the next attempt starts from the old one.
func TestConfigThatCannotBeAppliedIsNotTheRunningOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "farebox.yaml")
	put(t, path, text("one"))
	w := watch(t, path)
	no := errors.New("no such ca file")
	w.refuse.Store(&no)
	put(t, path, text("two"))
	w.says("cannot be applied; the running config stays: no such ca file")
	w.refuse.Store(nil)
	w.Reload()
	w.model("two")
}

func TestChangeOfAnAddressWaitsForARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "farebox.yaml")
	put(t, path, text("one"))
	w := watch(t, path)
	put(t, path, text("two")+"listen: 127.0.0.1:9999\nserver: { max_body: 1MB }\n")
	c := w.model("two")
	if c.Listen != "127.0.0.1:8080" || c.Server.MaxBody != 35<<20 {
		t.Errorf("a fixed value changed in a running process: %s, %s", c.Listen, c.Server.MaxBody)
	}
	w.says("restart for the new value of listen, server.max_body")
}

// SIGHUP after a key was rotated: the file is the same, the secret is new.
func TestReloadReadsSecretsOfAnUnchangedFile(t *testing.T) {
	dir := t.TempDir()
	path, secret := filepath.Join(dir, "farebox.yaml"), filepath.Join(dir, "key")
	put(t, secret, "old")
	put(t, path, fmt.Sprintf(base, "    key: ${file:"+secret+"}\n"))
	w := watch(t, path)
	put(t, secret, "new")
	w.silent()
	w.Reload()
	if got := w.model("chat").Upstreams[0].Key.Reveal(); got != "new" {
		t.Errorf("the key is still %s", got)
	}
}

// The file may change between Load and Watch.
func TestChangeBeforeTheWatchIsNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "farebox.yaml")
	put(t, path, text("one"))
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, text("two"))
	applied := make(chan string, 1)
	w, err := c.Watch(func(c *Config) error { applied <- c.Models[0].ID; return nil }, func(string, error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	select {
	case id := <-applied:
		if id != "two" {
			t.Errorf("applied %s", id)
		}
	case <-time.After(lookEvery / 2):
		t.Error("the change was not seen")
	}
}

func TestCloseWaitsForARunningApply(t *testing.T) {
	path := filepath.Join(t.TempDir(), "farebox.yaml")
	put(t, path, text("one"))
	started, finished := make(chan struct{}), false
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(func(*Config) error {
		close(started)
		time.Sleep(100 * time.Millisecond)
		finished = true
		return nil
	}, func(string, error) {})
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, text("two"))
	<-started
	w.Close()
	if !finished {
		t.Error("Close returned while a config was being applied")
	}
	w.Close()
	w.Reload() // after Close: nothing, and no hang
}

func TestWatchNeedsAFile(t *testing.T) {
	if _, err := Demo(simulation).Watch(nil, nil); err == nil {
		t.Error("the built-in config is watched")
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
}

// Every server key is fixed, including keys that are added later.
func TestFixedNamesKeysThatNeedARestart(t *testing.T) {
	old, next := newConfig(), newConfig()
	if got := Fixed(old, next); len(got) != 0 {
		t.Errorf("equal configs differ in %v", got)
	}
	no := false
	next.Brand, next.BrandAliases, next.Listen, next.Store, next.Durability = "x1", []string{"x2"}, ":1", "x", "power"
	next.TLS = TLS{Cert: "a", Key: "b"}
	next.Server = Server{HalfCloseGone: &no, DrainDelay: 1, MetricsListen: ":2", TrustedProxies: []string{"10.0.0.1"},
		ProxyProtocol: true}
	next.Node, next.Billing.Leases = Node{Name: "n", Dir: "d"}, Leases{Reclaim: "relaxed"}
	next.Redis.Addresses = []string{"r:6379"}
	next.Idempotency.Malformed = "ignore"
	next.Responses.ItemReferences = 0
	next.Fetch.Allow = []string{"10.0.0.0/8"}
	next.Operator.Listen, next.Operator.MaxCredit = "off", 1
	next.Log.Level, next.SystemPrompt = "debug", "x"
	got := Fixed(old, next)
	want := []string{
		"brand", "brand_aliases", "listen", "tls.cert", "tls.key", "store", "node.name", "node.dir", "billing.leases",
		"durability", "redis", "idempotency", "responses", "fetch", "operator.listen",
		"server.max_body", "server.max_in_flight", "server.max_connections", "server.read_timeout",
		"server.idle_timeout",
		"server.client_stall", "server.send_buffer", "server.drain_delay", "server.drain_timeout",
		"server.metrics_listen", "server.half_close_gone",
		"server.trusted_proxies", "server.proxy_protocol",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	next.keepFixed(old)
	if got := Fixed(old, next); len(got) != 0 || next.Log.Level != "debug" {
		t.Errorf("after keepFixed %v differ", got)
	}
}
