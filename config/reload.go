package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long the file must be quiet before it is read: editors and
	// deployment tools write in several steps.
	settle = 200 * time.Millisecond
	// settleMost ends that wait in a directory where something always happens.
	settleMost = 2 * time.Second
	// lookEvery is how often the file is read without an event: network and
	// overlay file systems, and files bound into a container, often send none.
	lookEvery = 10 * time.Second
)

// Watcher reads the config file again when it changed and hands good ones to
// apply. A bad file keeps the old config and is reported once.
//
// apply and say are called from one goroutine, never at the same time.
type Watcher struct {
	path    string
	apply   func(*Config) error
	say     func(msg string, err error)
	running *Config
	seen    [sha256.Size]byte // of the last file that was looked at, good or bad
	missing bool

	events *fsnotify.Watcher // nil when the system gives none
	target string            // the file itself, behind all symbolic links

	reload chan chan struct{}
	stop   chan struct{}
	once   sync.Once
	done   sync.WaitGroup
}

// Watch begins to watch the file that c was loaded from, and notices a change
// since then. say gets what the operator should know: msg with a nil error for
// good news.
func (c *Config) Watch(apply func(*Config) error, say func(msg string, err error)) (*Watcher, error) {
	if c.Source == "" {
		return nil, errors.New("cannot watch the built-in config: it has no file; start with -c FILE")
	}
	path, err := filepath.Abs(c.Source)
	if err != nil {
		return nil, fmt.Errorf("cannot watch %s: %w", c.Source, err)
	}
	w := &Watcher{
		path: path, apply: apply, say: say, running: c, seen: c.sum,
		reload: make(chan chan struct{}), stop: make(chan struct{}),
	}
	w.events, err = fsnotify.NewWatcher()
	if err == nil {
		err = w.follow()
	}
	if err != nil {
		say(fmt.Sprintf("changes of %s are noticed within %s only", c.Source, lookEvery), err)
	}
	w.done.Add(1)
	go w.run()
	return w, nil
}

// Reload reads the file now, changed or not, and returns when it is applied
// or refused. It is what SIGHUP does; changed environment values and
// ${file:…} secrets are seen here only.
func (w *Watcher) Reload() {
	finished := make(chan struct{})
	select {
	case w.reload <- finished:
		<-finished
	case <-w.stop:
	}
}

// Close ends watching and waits until no apply is running any more. It must
// not be called from apply or say.
func (w *Watcher) Close() {
	w.once.Do(func() { close(w.stop) })
	w.done.Wait()
}

func (w *Watcher) run() {
	defer w.done.Done()
	var events chan fsnotify.Event
	var failures chan error
	if w.events != nil {
		defer func() { _ = w.events.Close() }()
		events, failures = w.events.Events, w.events.Errors
	}
	quiet := time.NewTimer(0) // the first look: for changes since the config was loaded
	var since time.Time       // first event of the burst that quiet waits for
	tick := time.NewTicker(lookEvery)
	defer quiet.Stop()
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case finished := <-w.reload:
			w.look(true)
			close(finished)
		case e := <-events:
			if !w.concerns(e) {
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			quiet.Reset(min(settle, max(0, settleMost-time.Since(since))))
		case <-failures:
			// A full event queue: something happened, but it is not known what.
			quiet.Reset(settle)
		case <-quiet.C:
			since = time.Time{}
			w.look(false)
		case <-tick.C:
			w.look(false)
		}
	}
}

// concerns tells the file, and links on the way to it, from its neighbours. In
// a Kubernetes config map the file is a link to ..data/FILE, and ..data is a
// link that is renamed over; nothing happens to the name FILE itself.
func (w *Watcher) concerns(e fsnotify.Event) bool {
	if e.Name == w.path || e.Name == w.target {
		return true
	}
	target, err := filepath.EvalSymlinks(w.path)
	return err == nil && target != w.target
}

// follow watches the directory of the name and the one of the file behind it.
// Directories, since a file that is replaced takes its watch along.
func (w *Watcher) follow() error {
	if w.events == nil {
		return nil
	}
	w.target = w.path
	if target, err := filepath.EvalSymlinks(w.path); err == nil {
		w.target = target
	}
	wanted := []string{filepath.Dir(w.path), filepath.Dir(w.target)}
	for _, dir := range w.events.WatchList() {
		if !slices.Contains(wanted, dir) {
			_ = w.events.Remove(dir) // an old revision's directory is usually gone already
		}
	}
	for _, dir := range wanted {
		if err := w.events.Add(dir); err != nil { // no harm when watched already
			return err
		}
	}
	return nil
}

// look reads the file and applies it when it is new, or when forced.
func (w *Watcher) look(forced bool) {
	name := w.running.Source
	_ = w.follow() // what cannot be watched is found by the tick
	read, err := readConfig(w.path)
	if err != nil {
		if forced || !w.missing {
			w.say("the config file cannot be read; the running config stays", err)
		}
		w.missing = true
		return
	}
	read.name = name
	sum := sha256.Sum256(read.data)
	if !forced && !w.missing && sum == w.seen {
		return
	}
	back := w.missing && sum == w.seen && !forced
	w.missing, w.seen = false, sum
	if back && sum == w.running.sum {
		return // gone for a moment, unchanged
	}
	next, err := parseKeys(read, os.LookupEnv, nil)
	if err != nil {
		w.say(name+" has errors; the running config stays", err)
		return
	}
	fixed := Fixed(w.running, next)
	next.keepFixed(w.running)
	if err := w.apply(next); err != nil {
		w.say(name+" cannot be applied; the running config stays", err)
		return
	}
	w.running = next
	msg := name + " is in effect: " + count(len(next.Upstreams), "upstream") + ", " + count(len(next.Models), "model")
	if len(fixed) > 0 {
		msg += "; restart for the new value of " + strings.Join(fixed, ", ")
	}
	w.say(msg, nil)
}

// Fixed names the keys that differ between old and next but cannot change in a
// running process; they need a restart.
func Fixed(old, next *Config) []string {
	var names []string
	eachFixed("", reflect.ValueOf(old).Elem(), reflect.ValueOf(next).Elem(), func(name string, a, b reflect.Value) {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			names = append(names, name)
		}
	})
	return names
}

// keepFixed gives c the values of the running config for those keys.
func (c *Config) keepFixed(running *Config) {
	eachFixed("", reflect.ValueOf(running).Elem(), reflect.ValueOf(c).Elem(), func(_ string, a, b reflect.Value) { b.Set(a) })
}

// eachFixed finds the keys with the tag restart in both of two groups.
func eachFixed(path string, a, b reflect.Value, f func(name string, a, b reflect.Value)) {
	for _, k := range groupOf(a.Type()).keys {
		a, b, at := a.Field(k.index), b.Field(k.index), join(path, k.name)
		switch k.restart {
		case "key":
			f(at, a, b)
			continue
		case "keys":
			for _, one := range groupOf(a.Type()).keys {
				f(join(at, one.name), a.Field(one.index), b.Field(one.index))
			}
			continue
		}
		if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
			a, b = a.Elem(), b.Elem()
		}
		if isGroup(a.Type()) {
			eachFixed(at, a, b, f)
		}
	}
}
