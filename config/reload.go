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

	"github.com/fsnotify/fsnotify"
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

	watch  *fileWatch
	target string // the file itself, behind all symbolic links
}

// Watch begins to watch the file that c was loaded from, and notices a change since then. say
// gets news for the operator: msg with a nil error for good news.
func (c *Config) Watch(apply func(*Config) error, say func(msg string, err error)) (*Watcher, error) {
	if c.Source == "" {
		return nil, errors.New("cannot watch the built-in config: it has no file; start with -c FILE")
	}
	path, err := filepath.Abs(c.Source)
	if err != nil {
		return nil, fmt.Errorf("cannot watch %s: %w", c.Source, err)
	}
	w := &Watcher{path: path, apply: apply, say: say, running: c, seen: c.sum}
	w.watch, err = newFileWatch(func() { w.poll(false) })
	w.watch.concerns = w.concerns
	if err == nil {
		err = w.follow()
	}
	if err != nil {
		say(fmt.Sprintf("changes of %s are noticed within %s only", c.Source, lookEvery), err)
	}
	w.watch.work.Go(w.watch.run)
	return w, nil
}

// Reload reads the file now, changed or not, and returns when it is applied or refused. SIGHUP
// calls it; changed environment values and ${file:…} secrets are seen here only.
func (w *Watcher) Reload() { w.watch.order(func() { w.poll(true) }) }

// Close ends watching and waits until no apply is running any more. It must
// not be called from apply or say.
func (w *Watcher) Close() { w.watch.close() }

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
	if w.watch.events == nil {
		return nil
	}
	w.target = w.path
	if target, err := filepath.EvalSymlinks(w.path); err == nil {
		w.target = target
	}
	wanted := []string{filepath.Dir(w.path), filepath.Dir(w.target)}
	for _, dir := range w.watch.events.WatchList() {
		if !slices.Contains(wanted, dir) {
			_ = w.watch.events.Remove(dir) // an old revision's directory is usually gone already
		}
	}
	for _, dir := range wanted {
		if err := w.watch.events.Add(dir); err != nil { // no harm when watched already
			return err
		}
	}
	return nil
}

// poll reads the file and applies it when it is new, or when forced.
func (w *Watcher) poll(forced bool) {
	name := w.running.Source
	_ = w.follow() // the tick finds changes of files that cannot be watched
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
